/* `cloche skill`: list, add, rm. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/commands.h"
#include "cli/encode.h"
#include "cli/output.h"
#include "model/skill.h"

enum { SKILL_DEPTH = 4 };

int cmd_skill_list(struct cli *cli)
{
	static const char *const titles[] = {"NAME", "SOURCE", "FILES", "DESCRIPTION", NULL};
	int r = cli_parse(cli, NULL, 0, 0);
	struct output_table table;
	auto_json json_t *answer = NULL;
	size_t index;
	json_t *item;

	if (r <= 0)
		return r;
	if (client_get(cli, "/api/v1/skills", &answer) < 0)
		return -1;
	const json_t *items = json_object_get(answer, "items");

	if (output_json(cli, items))
		return 0;
	output_table_init(&table, titles);
	json_array_foreach (items, index, item) {
		const char *problem = client_str(item, "problem");
		auto_free char *count =
			mem_printf("%zu", json_array_size(json_object_get(item, "files")));

		output_cell(&table, client_str(item, "name"));
		output_cell(&table, client_str(item, "source"));
		output_cell(&table, count);
		output_cell(&table, *problem ? problem : client_str(item, "description"));
	}
	output_table_print(&table);
	return 0;
}

static int add_folder(json_t *files, int dir_fd, const char *prefix, int depth, struct err *err);

/* NOLINTNEXTLINE(misc-no-recursion): depth is counted */
static int add_entry(json_t *files, int dir_fd, const char *prefix, const char *name, int depth,
                     struct err *err)
{
	auto_free char *path = mem_printf("%s%s", prefix, name);
	auto_close int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	auto_free char *bytes = NULL, *coded = NULL;
	struct buf buf;
	struct stat st;
	size_t len = 0;
	json_t *file;
	int r;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(err, ERR_INVALID, "%s cannot be read, or is a link", path);
	if (S_ISDIR(st.st_mode)) {
		auto_free char *below = mem_printf("%s/", path);

		return add_folder(files, fd, below, depth + 1, err);
	}
	r = S_ISREG(st.st_mode) ? io_read_file(dir_fd, name, SKILL_BYTES, &bytes, &len) : -EINVAL;
	if (r < 0)
		return err_sys(err, -r, "read %s", path);
	buf_init(&buf, SKILL_BYTES * 2);
	r = encode_base64(&buf, bytes, len);
	coded = buf_take_string(&buf);
	buf_done(&buf);
	if (r < 0)
		return err_set(err, ERR_TOO_LARGE, "%s is too large", path);
	file = json_pack("{s:s, s:s, s:b}", "path", path, "contentBase64", coded, "program",
	                 (st.st_mode & S_IXUSR) != 0);
	if (!file)
		return err_set(err, ERR_INVALID, "a name in the folder is not valid UTF-8");
	json_array_append_new(files, file);
	if (json_array_size(files) > SKILL_FILES)
		return err_set(err, ERR_TOO_LARGE, "a skill has at most %d files", SKILL_FILES);
	return 0;
}

/* NOLINTNEXTLINE(misc-no-recursion): depth is counted */
static int add_folder(json_t *files, int dir_fd, const char *prefix, int depth, struct err *err)
{
	int fd = depth < SKILL_DEPTH ? openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;
	int r = 0;

	if (!dir) {
		fd_closep(&fd);
		return err_set(err, ERR_INVALID, "'%s' cannot be read, or is too deep", prefix);
	}
	/* NOLINTNEXTLINE(concurrency-mt-unsafe): one thread */
	while (r == 0 && (entry = readdir(dir)))
		if (entry->d_name[0] != '.')
			r = add_entry(files, dir_fd, prefix, entry->d_name, depth, err);
	closedir(dir);
	return r;
}

static int add_one(struct cli *cli, const char *path)
{
	auto_close int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_json json_t *body = json_pack("{s:[]}", "files");
	auto_json json_t *answer = NULL;

	if (dir < 0)
		return err_sys(&cli->err, errno, "open %s", path);
	if (add_folder(json_object_get(body, "files"), dir, "", 0, &cli->err) < 0 ||
	    client_json(cli, "POST", "/api/v1/skills", body, &answer) < 0)
		return err_wrap(&cli->err, "add %s", path);
	if (!output_json(cli, answer))
		output_line(client_str(answer, "name"));
	return 0;
}

int cmd_skill_add(struct cli *cli)
{
	int r = cli_parse(cli, NULL, 1, -1);

	if (r <= 0)
		return r;
	for (int i = 0; i < cli->argc; i++) {
		if (add_one(cli, cli->argv[i]) < 0)
			return -1;
	}
	return 0;
}

int cmd_skill_rm(struct cli *cli)
{
	return client_remove_each(cli, "skills");
}

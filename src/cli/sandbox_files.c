/* `cloche sandbox files`: ls, cat, write, stat, mkdir, mv, rm, watch. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/commands.h"
#include "cli/files.h"
#include "cli/output.h"
#include "cli/term.h"

char *files_target(const char *sandbox, const char *what, const char *path, const char *user)
{
	auto_free char *base = client_target("/sandboxes/%s", sandbox);
	char *target = mem_printf("%s/%s", base, what);

	client_query(&target, "path", path);
	client_query(&target, "user", user);
	return target;
}

#define USER_OPT(user)                                                                             \
	{                                                                                          \
		"user", 'u', OPT_STR, &(user), "USER", "who does it"                               \
	}

struct row {
	const json_t *entry;
};

static int by_name(const void *a, const void *b)
{
	return strcmp(client_str(((const struct row *)a)->entry, "name"),
	              client_str(((const struct row *)b)->entry, "name"));
}

static void print_entries(const json_t *items)
{
	static const char *const titles[] = {"MODE",     "TYPE", "OWNER", "SIZE",
	                                     "MODIFIED", "NAME", NULL};
	size_t count = json_array_size(items);
	auto_free struct row *sorted = mem_zalloc((count + 1) * sizeof(*sorted));
	struct output_table table;

	for (size_t i = 0; i < count; i++)
		sorted[i].entry = json_array_get(items, i);
	qsort(sorted, count, sizeof(*sorted), by_name);
	output_table_init(&table, titles);
	for (size_t i = 0; i < count; i++) {
		const char *target = client_str(sorted[i].entry, "target");
		auto_free char *name = mem_printf("%s%s%s", client_str(sorted[i].entry, "name"),
		                                  *target == '\0' ? "" : " -> ", target);
		auto_free char *owner = mem_printf(
			"%llu:%llu", (unsigned long long)client_u64(sorted[i].entry, "uid"),
			(unsigned long long)client_u64(sorted[i].entry, "gid"));

		output_cell(&table, client_str(sorted[i].entry, "mode"));
		output_cell(&table, client_str(sorted[i].entry, "type"));
		output_cell(&table, owner);
		output_cell_bytes(&table, client_u64(sorted[i].entry, "size"));
		output_cell_ago(&table,
		                output_parse_time(client_str(sorted[i].entry, "modifiedAt")));
		output_cell(&table, name);
	}
	output_table_print(&table);
}

int cmd_files_ls(struct cli *cli)
{
	const char *user = NULL;
	const struct opt opts[] = {USER_OPT(user), {0}};
	int r = cli_parse(cli, opts, 1, 2);
	auto_json json_t *answer = NULL;

	if (r <= 0)
		return r;
	auto_free char *target =
		files_target(cli->argv[0], "files/list", cli->argc > 1 ? cli->argv[1] : ".", user);

	if (client_get(cli, target, &answer) < 0)
		return -1;
	const json_t *items = json_object_get(answer, "items");

	if (!output_json(cli, items))
		print_entries(items);
	return 0;
}

int cmd_files_stat(struct cli *cli)
{
	static const char *const facts[] = {"name", "type", "target", "mode", "modifiedAt"};
	const char *user = NULL;
	const struct opt opts[] = {USER_OPT(user), {0}};
	int r = cli_parse(cli, opts, 2, 2);
	auto_json json_t *entry = NULL;

	if (r <= 0)
		return r;
	auto_free char *target = files_target(cli->argv[0], "files/stat", cli->argv[1], user);

	if (client_get(cli, target, &entry) < 0)
		return -1;
	if (output_json(cli, entry))
		return 0;
	for (size_t i = 0; i < ARRAY_LEN(facts); i++)
		output_fact(facts[i], "%s", client_str(entry, facts[i]));
	output_fact("size", "%llu", (unsigned long long)client_u64(entry, "size"));
	output_fact("owner", "%llu:%llu", (unsigned long long)client_u64(entry, "uid"),
	            (unsigned long long)client_u64(entry, "gid"));
	return 0;
}

int cmd_files_cat(struct cli *cli)
{
	const char *user = NULL;
	uint64_t offset = 0, length = UINT64_MAX;
	const struct opt opts[] = {
		USER_OPT(user),
		{"offset", 0, OPT_U64, &offset, "N", "first byte"},
		{"length", 0, OPT_U64, &length, "N", "most bytes"},
		{0},
	};
	int r = cli_parse(cli, opts, 2, 2);

	if (r <= 0)
		return r;
	auto_free char *target = files_target(cli->argv[0], "files", cli->argv[1], user);

	if (offset > 0)
		client_query_u64(&target, "offset", offset);
	if (length != UINT64_MAX)
		client_query_u64(&target, "length", length);
	const struct http_request request = {
		.method = "GET", .target = target, .accept = "application/octet-stream"};

	if (client_send(cli, &request) < 0)
		return -1;
	return http_read_to_fd(&cli->http, STDOUT_FILENO, NULL, NULL, &cli->err);
}

ssize_t files_read_source(void *ctx, void *bytes, size_t size, struct err *err)
{
	struct files_source *source = ctx;

	for (;;) {
		ssize_t got = read(source->fd, bytes, size);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return err_sys(err, errno, "read what is to be sent");
		source->sent += (uint64_t)got;
		term_progress(&source->progress, source->sent);
		return got;
	}
}

int files_put(struct cli *cli, const char *target, int fd)
{
	struct files_source source = {.fd = fd, .progress = {.what = "sent", .total = UINT64_MAX}};
	struct http_request request = {
		.method = "PUT",
		.target = target,
		.content_type = "application/octet-stream",
		.has_stream = true,
		.stream_len = UINT64_MAX,
	};
	struct stat st;

	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && lseek(fd, 0, SEEK_CUR) == 0)
		request.stream_len = source.progress.total = (uint64_t)st.st_size;
	int r = client_upload(cli, &request, files_read_source, &source);

	term_progress_done(&source.progress);
	return r;
}

int cmd_files_write(struct cli *cli)
{
	const char *user = NULL, *mode = NULL;
	bool parents = false;
	const struct opt opts[] = {
		USER_OPT(user),
		{"mode", 'm', OPT_STR, &mode, "OCTAL", "permissions (as before, or 0644)"},
		{"parents", 'p', OPT_FLAG, &parents, NULL, "make missing folders"},
		{0},
	};
	int r = cli_parse(cli, opts, 2, 3);
	auto_close int fd = -1;

	if (r <= 0)
		return r;
	bool is_stdin = cli->argc < 3 || str_eq(cli->argv[2], "-");

	if (!is_stdin) {
		fd = open(cli->argv[2], O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			return err_sys(&cli->err, errno, "open %s", cli->argv[2]);
	}
	auto_free char *target = files_target(cli->argv[0], "files", cli->argv[1], user);

	client_query(&target, "mode", mode);
	client_query(&target, "parents", parents ? "true" : NULL);
	return files_put(cli, target, is_stdin ? STDIN_FILENO : fd);
}

int files_mkdir(struct cli *cli, const char *sandbox, const char *path, const char *user,
                bool parents)
{
	auto_free char *target = files_target(sandbox, "files/mkdir", NULL, user);
	auto_json json_t *body = json_pack("{s:s, s:b}", "path", path, "parents", parents);

	if (body == NULL)
		return err_set(&cli->err, ERR_INVALID, "the path is not valid UTF-8");
	return client_json(cli, "POST", target, body, NULL);
}

int cmd_files_mkdir(struct cli *cli)
{
	const char *user = NULL;
	bool parents = false;
	const struct opt opts[] = {
		USER_OPT(user),
		{"parents", 'p', OPT_FLAG, &parents, NULL, "missing ones above too"},
		{0},
	};
	int r = cli_parse(cli, opts, 2, 2);

	return r <= 0 ? r : files_mkdir(cli, cli->argv[0], cli->argv[1], user, parents);
}

int cmd_files_mv(struct cli *cli)
{
	const char *user = NULL;
	const struct opt opts[] = {USER_OPT(user), {0}};
	int r = cli_parse(cli, opts, 3, 3);

	if (r <= 0)
		return r;
	auto_free char *target = files_target(cli->argv[0], "files/rename", NULL, user);
	auto_json json_t *body = json_pack("{s:s, s:s}", "from", cli->argv[1], "to", cli->argv[2]);

	if (body == NULL)
		return err_set(&cli->err, ERR_INVALID, "a path is not valid UTF-8");
	return client_json(cli, "POST", target, body, NULL);
}

int cmd_files_rm(struct cli *cli)
{
	const char *user = NULL;
	bool recursive = false;
	const struct opt opts[] = {
		USER_OPT(user),
		{"recursive", 'r', OPT_FLAG, &recursive, NULL, "a folder with all in it"},
		{0},
	};
	int r = cli_parse(cli, opts, 2, 2);

	if (r <= 0)
		return r;
	auto_free char *target = files_target(cli->argv[0], "files", cli->argv[1], user);

	client_query(&target, "recursive", recursive ? "true" : NULL);
	return client_json(cli, "DELETE", target, NULL, NULL);
}

static void print_change(const struct cli *cli, const struct sse_event *event)
{
	auto_json json_t *change = json_loadb(event->data, event->len, 0, NULL);

	if (change == NULL)
		return;
	if (cli->output != CLI_HUMAN) {
		output_json_line(change);
		return;
	}
	const char *what = client_str(change, "change");
	auto_free char *line = mem_printf("%-10s %s", *what == '\0' ? event->event : what,
	                                  client_str(change, "name"));

	output_line(line);
	(void)fflush(stdout); /* a failure shows at exit */
}

int cmd_files_watch(struct cli *cli)
{
	const char *user = NULL;
	bool recursive = false;
	const struct opt opts[] = {
		USER_OPT(user),
		{"recursive", 'r', OPT_FLAG, &recursive, NULL, "folders below too"},
		{0},
	};
	int r = cli_parse(cli, opts, 2, 2);
	auto_(sse_done) struct sse sse = {0};
	struct sse_event event;

	if (r <= 0)
		return r;
	auto_free char *target = files_target(cli->argv[0], "files/watch", cli->argv[1], user);

	client_query(&target, "recursive", recursive ? "true" : NULL);
	const struct http_request request = {
		.method = "GET", .target = target, .accept = "text/event-stream"};

	sse_init(&sse);
	r = client_send(cli, &request);
	while (r >= 0 && (r = client_next_event(cli, &sse, &event)) > 0)
		print_change(cli, &event);
	return r;
}

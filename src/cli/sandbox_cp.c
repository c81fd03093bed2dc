/*
 * `cloche sandbox cp`: a file goes as bytes, a folder as tar, both streamed. As with cp, a target
 * that is a folder receives the source under its own name. What comes from the sandbox is
 * unpacked by a reader that never leaves the folder it was given.
 */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/id.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/commands.h"
#include "cli/files.h"
#include "cli/term.h"

struct copy {
	struct cli *cli;
	char *sandbox;
	const char *inside; /* path in the sandbox */
	const char *local;
	const char *user;
};

/* "ID:PATH" with no slash before the colon, so that "./a:b" is a local file. */
static bool split_remote(const char *text, char **ret_sandbox, const char **ret_path)
{
	const char *colon = strchr(text, ':');

	if (colon == NULL || colon == text || memchr(text, '/', (size_t)(colon - text)) != NULL)
		return false;
	*ret_sandbox = mem_strndup(text, (size_t)(colon - text));
	*ret_path = colon[1] == '\0' ? "." : colon + 1;
	return true;
}

/* The last component; the caller frees. "" for "/", "." and "..". */
static char *base_name(const char *path)
{
	size_t len = strlen(path);

	while (len > 1 && path[len - 1] == '/')
		len--;
	size_t start = len;

	while (start > 0 && path[start - 1] != '/')
		start--;
	char *name = mem_strndup(path + start, len - start);

	if (str_eq(name, "/") || str_eq(name, ".") || str_eq(name, ".."))
		*name = '\0';
	return name;
}

static char *join(const char *folder, const char *name)
{
	if (*name == '\0')
		return mem_strdup(folder);
	return mem_printf("%s%s%s", folder, str_has_suffix(folder, "/") ? "" : "/", name);
}

/* Type of a path inside: "dir", "file", …; "" when there is nothing. NULL with cli->err. */
static char *type_inside(const struct copy *copy, const char *path)
{
	auto_free char *target = files_target(copy->sandbox, "files/stat", path, copy->user);
	auto_json json_t *entry = NULL;

	if (client_get(copy->cli, target, &entry) < 0) {
		if (copy->cli->err.code != ERR_NOT_FOUND)
			return NULL;
		/* The sandbox itself may be what is not there: the next call tells. */
		copy->cli->err = (struct err){0};
		return mem_strdup("");
	}
	return mem_strdup(client_str(entry, "type"));
}

/* Follows one link: the folder behind it counts as the folder. */
static char *kind_inside(const struct copy *copy, const char *path)
{
	char *type = type_inside(copy, path);

	if (type == NULL || !str_eq(type, "symlink"))
		return type;
	free(type);
	auto_free char *behind = mem_printf("%s/.", path);

	return type_inside(copy, behind);
}

/* --- to the sandbox --- */

struct sender {
	struct copy *copy;
	uint64_t sent;
	struct term_progress progress;
};

static int send_piece(void *ctx, const void *bytes, size_t len)
{
	struct sender *sender = ctx;
	struct cli *cli = sender->copy->cli;
	int r = http_send(&cli->http, bytes, len, &cli->err);

	sender->sent += len;
	term_progress(&sender->progress, sender->sent);
	/* 0: the daemon refuses and has said why; its answer is read after packing stopped. */
	return r > 0 ? 0 : -EPIPE;
}

static int upload_tree(struct copy *copy, int fd, const char *to)
{
	struct cli *cli = copy->cli;
	struct sender sender = {.copy = copy, .progress = {.what = "sent", .total = UINT64_MAX}};
	auto_free char *target = files_target(copy->sandbox, "archive", to, copy->user);
	const struct http_request request = {
		.method = "PUT",
		.target = target,
		.content_type = "application/x-tar",
		.has_stream = true,
		.stream_len = UINT64_MAX,
	};
	struct err pack_err = {0};

	if (files_mkdir(cli, copy->sandbox, to, copy->user, true) < 0 || client_connect(cli) < 0 ||
	    http_begin(&cli->http, &request, &cli->err) < 0)
		return -1;
	int r = cli->roles->pack(fd, ".", "", send_piece, &sender, &pack_err);

	term_progress_done(&sender.progress);
	if (r < 0 && !cli->http.is_cut) {
		http_close(&cli->http);
		if (cli->err.code == ERR_OK)
			cli->err = pack_err;
		return -1;
	}
	if (http_finish(&cli->http, &cli->err) < 0)
		return -1;
	return cli->http.head.status / 100 == 2 ? 0 : client_problem(cli);
}

static int upload_file(struct copy *copy, int fd, const struct stat *st, const char *to)
{
	auto_free char *target = files_target(copy->sandbox, "files", to, copy->user);
	char mode[8];

	(void)snprintf(mode, sizeof(mode), "%04o", (unsigned)(st->st_mode & 0777)); /* fits */
	client_query(&target, "mode", mode);
	return files_put(copy->cli, target, fd);
}

static int upload(struct copy *copy)
{
	struct cli *cli = copy->cli;
	auto_close int fd = open(copy->local, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_sys(&cli->err, errno, "open %s", copy->local);
	if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
		return err_set(&cli->err, ERR_INVALID, "%s is neither a file nor a folder",
		               copy->local);
	auto_free char *kind = kind_inside(copy, copy->inside);

	if (kind == NULL)
		return -1;
	auto_free char *name = base_name(copy->local);
	bool into = str_eq(kind, "dir") || str_has_suffix(copy->inside, "/");
	auto_free char *to = into ? join(copy->inside, name) : mem_strdup(copy->inside);

	return S_ISDIR(st.st_mode) ? upload_tree(copy, fd, to) : upload_file(copy, fd, &st, to);
}

/* --- from the sandbox --- */

static void on_received(void *ctx, uint64_t got)
{
	term_progress(ctx, got);
}

/* A temp file beside the target, renamed when it is whole. */
static int download_file(struct copy *copy, const char *to)
{
	struct cli *cli = copy->cli;
	const struct id id = id_new("tmp");
	auto_free char *temp = mem_printf("%s.%s", to, id.text);
	auto_free char *target = files_target(copy->sandbox, "files", copy->inside, copy->user);
	const struct http_request request = {
		.method = "GET", .target = target, .accept = "application/octet-stream"};
	struct term_progress progress = {.what = "received", .total = UINT64_MAX};

	if (client_send(cli, &request) < 0)
		return -1;
	if (cli->http.head.has_length)
		progress.total = cli->http.head.length;
	auto_close int fd = open(temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);

	if (fd < 0)
		return err_sys(&cli->err, errno, "create %s", temp);
	int r = http_read_to_fd(&cli->http, fd, on_received, &progress, &cli->err);

	term_progress_done(&progress);
	if (r >= 0 && rename(temp, to) < 0)
		r = err_sys(&cli->err, errno, "create %s", to);
	if (r < 0)
		(void)unlink(temp);
	return r;
}

struct receiver {
	struct copy *copy;
	uint64_t got;
	struct term_progress progress;
};

static ssize_t receive_piece(void *ctx, void *bytes, size_t size)
{
	struct receiver *receiver = ctx;
	struct cli *cli = receiver->copy->cli;
	ssize_t got = http_read(&cli->http, bytes, size, &cli->err);

	receiver->got += got > 0 ? (uint64_t)got : 0;
	term_progress(&receiver->progress, receiver->got);
	return got;
}

static int download_tree(struct copy *copy, const char *to)
{
	struct cli *cli = copy->cli;
	struct receiver receiver = {.copy = copy,
	                            .progress = {.what = "received", .total = UINT64_MAX}};
	auto_free char *target = files_target(copy->sandbox, "archive", copy->inside, copy->user);
	const struct http_request request = {
		.method = "GET", .target = target, .accept = "application/x-tar"};

	if (mkdir(to, 0777) < 0 && errno != EEXIST)
		return err_sys(&cli->err, errno, "make folder %s", to);
	auto_close int fd = open(to, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return err_sys(&cli->err, errno, "open %s", to);
	if (client_send(cli, &request) < 0)
		return -1;
	int r = cli->roles->unpack(fd, receive_piece, &receiver, &cli->err);

	term_progress_done(&receiver.progress);
	if (r < 0)
		http_close(&cli->http);
	return r;
}

static int download(struct copy *copy)
{
	struct cli *cli = copy->cli;
	auto_free char *kind = kind_inside(copy, copy->inside);
	auto_free char *name = base_name(copy->inside);
	struct stat st;

	if (kind == NULL)
		return -1;
	bool is_folder = stat(copy->local, &st) == 0 && S_ISDIR(st.st_mode);

	if (!is_folder && str_has_suffix(copy->local, "/"))
		return err_set(&cli->err, ERR_NOT_FOUND, "there is no folder %s", copy->local);
	auto_free char *to = is_folder ? join(copy->local, name) : mem_strdup(copy->local);

	return str_eq(kind, "dir") ? download_tree(copy, to) : download_file(copy, to);
}

int cmd_sandbox_cp(struct cli *cli)
{
	struct copy copy = {.cli = cli};
	auto_free char *from = NULL;
	auto_free char *to = NULL;
	const char *from_path = NULL, *to_path = NULL;
	const struct opt opts[] = {
		{"user", 'u', OPT_STR, &copy.user, "USER", "who does it in the sandbox"},
		{0},
	};
	int r = cli_parse(cli, opts, 2, 2);

	if (r <= 0)
		return r;
	bool is_from = split_remote(cli->argv[0], &from, &from_path);
	bool is_to = split_remote(cli->argv[1], &to, &to_path);

	if (is_from == is_to)
		return err_set(&cli->err, ERR_INVALID, "exactly one side is written ID:PATH");
	copy.sandbox = is_from ? from : to;
	copy.inside = is_from ? from_path : to_path;
	copy.local = is_from ? cli->argv[1] : cli->argv[0];
	return is_from ? download(&copy) : upload(&copy);
}

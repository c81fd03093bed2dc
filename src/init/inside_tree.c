/* `pack` and `unpack`: whole trees as tar, in constant memory. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/io.h"
#include "base/str.h"
#include "init/inside_verbs.h"
#include "os/treetar.h"

static int to_stdout(void *ctx, const void *bytes, size_t len)
{
	return io_write_all(STDOUT_FILENO, bytes, len);
}

/* The entry at fault, if one is known, else the path of the whole. */
static int tree_err(struct err *err, int sys, const char *where, const char *path)
{
	char shown[128];

	str_escape(shown, sizeof(shown), where, strlen(where));
	return inside_err(err, sys, "%s", *shown == '\0' ? path : shown);
}

int inside_pack(const struct inside_args *args, struct err *err)
{
	auto_close int dir_fd = open(args->path, O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC);
	struct treetar_pack pack = {.name = ".", .as = "", .write = to_stdout};

	if (dir_fd < 0 && errno != ENOTDIR)
		return inside_err(err, errno, "%s", args->path);
	if (dir_fd < 0) {
		if (inside_open_parent(args->path, &dir_fd, &pack.name, err) < 0)
			return -1;
		pack.as = pack.name;
	}
	pack.dir_fd = dir_fd;
	int r = treetar_pack(&pack);

	return r < 0 ? tree_err(err, -r, pack.where, args->path) : 0;
}

static int feed(struct treetar_unpack *unpack)
{
	static uint8_t bytes[128 * 1024];

	for (;;) {
		ssize_t got = read(STDIN_FILENO, bytes, sizeof(bytes));

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (got == 0)
			return treetar_unpack_finish(unpack);
		int r = treetar_unpack_feed(unpack, bytes, (size_t)got);

		if (r < 0)
			return r;
	}
}

int inside_unpack(const struct inside_args *args, struct err *err)
{
	const struct treetar_options options = {.max_bytes = UINT64_MAX, .max_entries = UINT64_MAX};
	auto_(treetar_unpack_freep) struct treetar_unpack *unpack = NULL;
	const struct inside_args folder = {.path = args->path, .parents = true};

	if (args->parents && inside_mkdir(&folder, err) < 0)
		return -1;
	auto_close int dir_fd = open(args->path, O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC);

	if (dir_fd < 0)
		return inside_err(err, errno, "%s", args->path);
	int r = treetar_unpack_new(dir_fd, &options, &unpack);

	if (r >= 0)
		r = feed(unpack);
	if (r == -EBADMSG)
		return err_set(err, ERR_INVALID, "what came is not a whole tar archive");
	if (r < 0)
		return tree_err(err, -r, unpack == NULL ? "" : treetar_unpack_where(unpack),
		                args->path);
	return 0;
}

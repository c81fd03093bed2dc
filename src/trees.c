#include "trees.h"

#include <errno.h>

#include "base/mem.h"
#include "base/str.h"
#include "os/treetar.h"

enum { READ_BYTES = 128 * 1024 };

static int tree_err(struct err *err, int sys, const char *what, const char *where)
{
	char shown[128];

	if (sys == EBADMSG)
		return err_set(err, ERR_PROTOCOL, "what came is not a whole tar archive");
	str_escape(shown, sizeof(shown), where, strlen(where));
	return err_sys(err, sys, "%s %s", what, shown);
}

int trees_pack(int dir_fd, const char *name, const char *as, cli_write write, void *ctx,
               struct err *err)
{
	struct treetar_pack pack = {
		.dir_fd = dir_fd, .name = name, .as = as, .write = write, .ctx = ctx};
	int r = treetar_pack(&pack);

	return r < 0 ? tree_err(err, -r, "pack", *pack.where == '\0' ? name : pack.where) : 0;
}

int trees_unpack(int dir_fd, cli_read read, void *ctx, struct err *err)
{
	const struct treetar_options options = {.max_bytes = UINT64_MAX, .max_entries = UINT64_MAX};
	auto_(treetar_unpack_freep) struct treetar_unpack *unpack = NULL;
	auto_free uint8_t *bytes = mem_zalloc(READ_BYTES);
	int r = treetar_unpack_new(dir_fd, &options, &unpack);
	ssize_t got = 0;

	if (r < 0)
		return err_sys(err, -r, "unpack");
	while (r >= 0 && (got = read(ctx, bytes, READ_BYTES)) > 0)
		r = treetar_unpack_feed(unpack, bytes, (size_t)got);
	if (got < 0)
		return -1; /* whoever reads has said why */
	if (r >= 0)
		r = treetar_unpack_finish(unpack);
	return r < 0 ? tree_err(err, -r, "unpack", treetar_unpack_where(unpack)) : 0;
}

/*
 * Who: the broker at start (sweep, host image) and task children. Capabilities: CHOWN,
 * DAC_OVERRIDE; SYS_ADMIN to start a worker. Bytes: none of an archive; the worker's answer through
 * wire_parse, handed on unread. Gone at the end: staging directories.
 */
#include "broker/layer.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/id.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "broker/box.h"
#include "broker/worker.h"
#include "os/path.h"
#include "os/proc.h"

enum { LAYER_UNPACK_MS = 3600 * 1000, LAYER_SWEEP_MAX = 10000 };

#define NEW_PREFIX ".new-"
#define OLD_PREFIX ".old-"

int layer_begin(const struct site *site, const char *id, struct err *err)
{
	auto_free char *name = mem_printf(NEW_PREFIX "%s", id);
	int fd = path_dir(site->state.layers_fd, name, 0700);
	return fd < 0 ? err_sys(err, -fd, "make layer %s", id) : fd;
}

int layer_commit(const struct site *site, const char *id, struct err *err)
{
	auto_free char *name = mem_printf(NEW_PREFIX "%s", id);
	if (renameat(site->state.layers_fd, name, site->state.layers_fd, id) < 0)
		return err_sys(err, errno, "name layer %s", id);
	return 0;
}

/* One sync for all trees instead of one for each of their files. */
static int sync_layers(const struct site *site, struct err *err)
{
	return syncfs(site->state.layers_fd) < 0 ? err_sys(err, errno, "put the layers on disk")
	                                         : 0;
}

int layer_open_tree(const struct site *site, const char *id, struct err *err)
{
	auto_free char *path = mem_printf("%s/tree", id);
	int fd = path_open_plain(site->state.layers_fd, path, O_PATH | O_DIRECTORY, 0);
	if (fd == -ENOENT)
		return err_set(err, ERR_NOT_FOUND, "there is no layer %s", id);
	return fd < 0 ? err_sys(err, -fd, "open layer %s", id) : fd;
}

/* Empties `name` of the layer directory with a worker. */
static int remove_tree(const struct site *site, int dir_fd, const char *name, struct err *err)
{
	auto_close int tree = path_open_plain(dir_fd, name, O_PATH | O_DIRECTORY, 0);
	if (tree == -ENOENT)
		return 0;
	if (tree < 0)
		return err_sys(err, -tree, "open the tree of a layer");
	return worker_remove(site, tree, err);
}

/* A directory of layers/, whichever name it has. What root made itself needs no worker. */
static int remove_named(const struct site *site, const char *name, struct err *err)
{
	auto_close int dir =
		path_open_plain(site->state.layers_fd, name, O_RDONLY | O_DIRECTORY, 0);
	if (dir == -ENOENT)
		return 0;
	if (dir < 0)
		return err_sys(err, -dir, "open layer %s", name);
	bool is_ours = strstr(name, "host_") != NULL;
	if (!is_ours &&
	    (remove_tree(site, dir, "tree", err) < 0 || remove_tree(site, dir, "new", err) < 0))
		return -1;
	int r = path_remove_below(dir);
	if (r < 0)
		return err_sys(err, -r, "remove layer %s", name);
	if (unlinkat(site->state.layers_fd, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
		return err_sys(err, errno, "remove layer %s", name);
	return 0;
}

void layer_abandon(const struct site *site, const char *id)
{
	auto_free char *name = mem_printf(NEW_PREFIX "%s", id);
	struct err err = {0};
	if (remove_named(site, name, &err) < 0)
		log_warn("half-made layer stays until the next start", LOG_STR("layer", id),
		         LOG_ERR(&err));
}

struct usage {
	const struct site *site;
	const char *layer;
};

static int is_used_by(const char *sandbox, void *ctx)
{
	const struct usage *usage = ctx;
	struct box_meta meta;
	auto_close int box = box_open(usage->site->state.sandboxes_fd, sandbox);
	if (box < 0 || box_read_meta(box, &meta) < 0 || meta.slot < 0)
		return 0;
	for (size_t i = 0; i < meta.layer_count; i++)
		if (str_eq(meta.layers[i], usage->layer))
			return 1;
	return 0;
}

int layer_remove(const struct site *site, const char *id, struct err *err)
{
	struct usage usage = {site, id};
	int r = box_each(site->state.sandboxes_fd, is_used_by, &usage);
	if (r < 0)
		return err_sys(err, -r, "see who uses layer %s", id);
	if (r > 0)
		return err_set(err, ERR_CONFLICT, "layer %s is used by a running sandbox", id);
	/* Out of sight first: a launch that comes now finds no such layer. */
	auto_free char *name = mem_printf(NEW_PREFIX "%s", id);
	if (renameat(site->state.layers_fd, id, site->state.layers_fd, name) < 0 && errno != ENOENT)
		return err_sys(err, errno, "remove layer %s", id);
	return remove_named(site, name, err);
}

static int each(const struct site *site, bool (*is_wanted)(const char *name),
                int (*fn)(const char *name, void *ctx), void *ctx)
{
	int copy = openat(site->state.layers_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = copy < 0 ? NULL : fdopendir(copy);
	if (!dir) {
		int r = -errno;
		fd_closep(&copy);
		return r;
	}
	int r = 0;
	while (r == 0) {
		errno = 0;
		const struct dirent *entry = readdir(dir);
		if (!entry) {
			r = -errno;
			break;
		}
		if (is_wanted(entry->d_name))
			r = fn(entry->d_name, ctx);
	}
	closedir(dir);
	return r;
}

static bool is_host(const char *name)
{
	return id_is_valid(name, "host");
}

static bool is_new(const char *name)
{
	return str_has_prefix(name, NEW_PREFIX);
}

int layer_each_host(const struct site *site, int (*fn)(const char *id, void *ctx), void *ctx)
{
	return each(site, is_host, fn, ctx);
}

static bool is_old(const char *name)
{
	return str_has_prefix(name, OLD_PREFIX);
}

static int mark_old(const char *name, void *ctx)
{
	const struct site *site = ctx;
	auto_free char *old = mem_printf(OLD_PREFIX "%s", name + strlen(NEW_PREFIX));
	/* If it cannot be renamed it stays ".new-": nothing uses that name again, ids are new. */
	(void)renameat(site->state.layers_fd, name, site->state.layers_fd, old);
	return 1;
}

static int count_old(const char *name, void *ctx)
{
	return 1;
}

static int sweep_one(const char *name, void *ctx)
{
	struct err err = {0};
	if (remove_named(ctx, name, &err) < 0)
		log_warn("left-over layer stays", LOG_STR("layer", name), LOG_ERR(&err));
	return 0;
}

int layer_sweep(struct site *site)
{
	/* Renaming while reading a directory may show an entry twice or not: one at a time. */
	for (int i = 0; i < LAYER_SWEEP_MAX && each(site, is_new, mark_old, site) > 0; i++)
		;
	if (each(site, is_old, count_old, site) <= 0)
		return 0;
	pid_t self = getpid();
	pid_t pid = fork();
	if (pid != 0)
		return pid < 0 ? -errno : 0;
	fd_closep(&site->state.lock_fd);
	if (proc_die_with(self) < 0) /* the next start goes on */
		_exit(1);
	_exit(each(site, is_old, sweep_one, site) < 0);
}

/* --- import --- */

struct import {
	const struct site *site;
	struct id stage;
	struct id layers[LIMIT_LAYERS];
	size_t count;
};

/* The worker writes to .new-<stage>/new: l0 (lowest), l1, … */
static int run_worker(int tree_fd, const struct import *import, int archive_fd, const char *format,
                      struct wire_out *answer, struct err *err)
{
	struct worker worker;
	int r = worker_start(&worker, import->site, tree_fd, err);
	if (r == 0) {
		auto_free uint8_t *bytes = mem_zalloc(LIMIT_WIRE_BYTES);
		auto_wire_out struct wire_out out;
		struct wire_msg msg;
		size_t len;
		wire_begin(&out, WIRE_W_UNPACK, 1);
		wire_put_str(&out, FIELD_FORMAT, format);
		wire_put_u64(&out, FIELD_RANGE_COUNT, site_worker_count(import->site));
		wire_put_fd(&out, archive_fd);
		wire_put_fd(&out, worker.tree);
		r = worker_call(&worker, &out, LAYER_UNPACK_MS, bytes, &msg, err);
		if (r == 0) {
			const uint8_t *config = wire_blob(&msg, FIELD_CONFIG_JSON, &len);
			wire_put_u64(answer, FIELD_BYTES_COUNT,
			             wire_u64(&msg, FIELD_BYTES_COUNT, 0));
			wire_put_u64(answer, FIELD_ENTRIES, wire_u64(&msg, FIELD_ENTRIES, 0));
			wire_put_str(answer, FIELD_FORMAT, wire_str(&msg, FIELD_FORMAT, format));
			if (config)
				wire_put_bytes(answer, FIELD_CONFIG_JSON, config, len);
			wire_msg_done(&msg);
		}
	}
	worker_stop(&worker); /* from here on nobody but us can change the tree */
	return r;
}

/* Moves l<i> out to a layer of its own. The worker may have been taken over: look what it is. */
static int take_layer(struct import *import, int tree_fd, struct err *err)
{
	char name[16];
	(void)snprintf(name, sizeof(name), "l%zu", import->count);
	struct stat st;
	if (fstatat(tree_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0
		                       : err_sys(err, errno, "look at layer %zu", import->count);
	if (!S_ISDIR(st.st_mode) || import->count == LIMIT_LAYERS)
		return err_set(err, ERR_PROTOCOL, "the worker left something that is no layer");
	struct id id = id_new("ly");
	auto_close int dir = layer_begin(import->site, id.text, err);
	if (dir < 0)
		return -1;
	import->layers[import->count++] = id;
	if (renameat(tree_fd, name, dir, "tree") < 0)
		return err_sys(err, errno, "take layer %zu", import->count - 1);
	return 1;
}

static int import_staged(struct import *import, int stage_fd, int archive_fd, const char *format,
                         struct wire_out *answer, struct err *err)
{
	uint32_t root = site_stored_id(import->site, 0);
	auto_close int tree = path_dir(stage_fd, "new", 0755);
	if (tree < 0)
		return err_sys(err, -tree, "make a directory to unpack to");
	if (fchown(tree, root, root) < 0)
		return err_sys(err, errno, "own the directory to unpack to");
	if (run_worker(tree, import, archive_fd, format, answer, err) < 0)
		return -1;
	int r;
	do {
		r = take_layer(import, tree, err);
	} while (r > 0);
	if (r == 0 && import->count == 0)
		return err_set(err, ERR_INVALID, "the archive has no layer");
	if (r == 0)
		r = sync_layers(import->site, err);
	for (size_t i = 0; r == 0 && i < import->count; i++) {
		r = layer_commit(import->site, import->layers[i].text, err);
		wire_put_str(answer, FIELD_LAYER, import->layers[i].text);
	}
	if (r == 0 && fsync(import->site->state.layers_fd) < 0)
		r = err_sys(err, errno, "put the names of the layers on disk");
	return r;
}

int layer_import(const struct site *site, int archive_fd, const char *format,
                 struct wire_out *answer, struct err *err)
{
	struct import *import = mem_new(struct import);
	import->site = site;
	import->stage = id_new("ly");
	auto_close int stage = layer_begin(site, import->stage.text, err);
	int r = stage < 0 ? -1 : import_staged(import, stage, archive_fd, format, answer, err);
	layer_abandon(site, import->stage.text);
	for (size_t i = 0; r < 0 && i < import->count; i++) {
		struct err ignored = {0};
		layer_abandon(site, import->layers[i].text);
		/* Committed ones, too: the daemon will never hear of them. */
		(void)!layer_remove(site, import->layers[i].text, &ignored);
	}
	mem_freep(&import);
	return r;
}

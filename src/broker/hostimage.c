/*
 * Who: the broker at start, and a task. Capabilities: SYS_ADMIN to start the worker. Bytes: `host`
 * files root wrote; the worker's answer. Gone at the end: half-made layers (built as ".new-…" and
 * renamed).
 *
 * A layer of a host image has a file `host` beside its tree, with the fingerprint of what it was
 * made from. Ids sort by creation, so the greatest one is the current one.
 */
#include "broker/hostimage.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "broker/box.h"
#include "broker/layer.h"
#include "broker/worker.h"
#include "os/path.h"

enum { HOSTIMAGE_MS = 5 * 60 * 1000, FINGERPRINT_MAX = 256 };

/* The fingerprint a layer was made from; "" when there is none. The caller frees. */
static char *known_fingerprint(const struct site *site, const char *layer_id)
{
	auto_free char *path = mem_printf("%s/host", layer_id);
	char *text = NULL;
	size_t len;
	if (!*layer_id ||
	    io_read_file(site->state.layers_fd, path, FINGERPRINT_MAX, &text, &len) < 0)
		return mem_strdup("");
	return text;
}

/* 1: built into tree_fd; 0: what is known is still right. *ret is the fingerprint; the caller
 * frees. */
static int ask_worker(const struct site *site, int tree_fd, const char *known, char **ret,
                      struct err *err)
{
	auto_close int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root < 0)
		return err_sys(err, errno, "open the root directory");
	struct worker worker;
	int r = worker_start(&worker, site, tree_fd, err);
	if (r == 0) {
		auto_free uint8_t *bytes = mem_zalloc(LIMIT_WIRE_BYTES);
		auto_wire_out struct wire_out out;
		struct wire_msg answer;
		wire_begin(&out, WIRE_W_HOST_IMAGE, 1);
		wire_put_str(&out, FIELD_FINGERPRINT, known);
		wire_put_u64(&out, FIELD_RANGE_COUNT, site_worker_count(site));
		wire_put_fd(&out, worker.tree);
		wire_put_fd(&out, root);
		r = worker_call(&worker, &out, HOSTIMAGE_MS, bytes, &answer, err);
		if (r == 0) {
			*ret = mem_strdup(wire_str(&answer, FIELD_FINGERPRINT, ""));
			r = wire_u64(&answer, FIELD_KEEP, 0) == 0;
			wire_msg_done(&answer);
		}
	}
	worker_stop(&worker);
	return r;
}

/* Builds into .new-<id>/tree; 1 when it was, 0 when nothing changed. */
static int build(const struct site *site, const char *id, struct err *err)
{
	uint32_t owner = site_stored_id(site, 0);
	auto_close int dir = layer_begin(site, id, err);
	if (dir < 0)
		return -1;
	auto_close int tree = path_dir(dir, "tree", 0755);
	if (tree < 0 || fchown(tree, owner, owner) < 0)
		return err_sys(err, tree < 0 ? -tree : errno, "make the tree of the host image");
	auto_free char *known = known_fingerprint(site, site->host_layer);
	auto_free char *fingerprint = NULL;
	int r = ask_worker(site, tree, known, &fingerprint, err);
	if (r <= 0)
		return r;
	int written = box_write(dir, "host", fingerprint);
	return written < 0 ? err_sys(err, -written, "write the fingerprint") : 1;
}

int hostimage_refresh(const struct site *site, struct id *ret_id, struct err *err)
{
	struct id id = id_new("host");
	int r = build(site, id.text, err);
	if (r > 0)
		r = layer_commit(site, id.text, err) < 0 ? -1 : 1;
	if (r <= 0)
		layer_abandon(site, id.text);
	if (r < 0)
		return err_wrap(err, "build the host image");
	if (r > 0)
		*ret_id = id;
	else
		memcpy(ret_id->text, site->host_layer, sizeof(site->host_layer));
	return 0;
}

static int find_newest(const char *id, void *ctx)
{
	struct site *site = ctx;
	if (strcmp(id, site->host_layer) > 0)
		(void)!str_copy(site->host_layer, sizeof(site->host_layer), id); /* fits */
	return 0;
}

static int drop_replaced(const char *id, void *ctx)
{
	struct site *site = ctx;
	struct err err = {0};
	if (!str_eq(id, site->host_layer) && layer_remove(site, id, &err) < 0)
		log_debug("replaced host image stays", LOG_STR("layer", id), LOG_ERR(&err));
	return 0;
}

int hostimage_prepare(struct site *site, struct err *err)
{
	struct id id;
	site->host_layer[0] = '\0';
	int r = layer_each_host(site, find_newest, site);
	if (r == 0)
		r = layer_each_host(site, drop_replaced, site);
	if (r < 0)
		return err_sys(err, -r, "list the layers");
	if (site->host_layer[0])
		return 0;
	if (hostimage_refresh(site, &id, err) < 0)
		return -1;
	return str_copy(site->host_layer, sizeof(site->host_layer), id.text)
	               ? 0
	               : err_set(err, ERR_INTERNAL, "malformed layer id");
}

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "api/authz.h"
#include "api/call.h"
#include "api/encode.h"
#include "base/io.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/str.h"
#include "http/request.h"
#include "model/spec.h"
#include "runtime/image.h"
#include "store/store.h"
#include "task/tasks.h"

void handle_image_list(struct call *call)
{
	const char *cursor = call_query(call, "cursor", NULL);
	struct image_page page = {0};
	struct err err = {0};
	json_t *items;

	if (store_image_list(call->api->store, cursor,
	                     MIN(call_query_u64(call, "limit", 0), (uint64_t)LIMIT_PAGE), &page,
	                     &err) < 0) {
		call_fail(call, &err);
		return;
	}
	items = json_array();
	if (!cursor)
		json_array_append_new(items, encode_host_image());
	for (size_t i = 0; i < page.count; i++)
		json_array_append_new(items, encode_image(page.items[i]));
	call_answer(call, 200, encode_page(items, page.next_cursor));
	image_page_done(&page);
}

static int find_image(struct call *call, struct image **ret)
{
	struct err err = {0};

	if (store_image_get(call->api->store, call->params[0], ret, &err) == 0)
		return 0;
	call_fail(call, &err);
	return -1;
}

void handle_image_info(struct call *call)
{
	auto_(image_freep) struct image *image = NULL;

	if (image_is_host(call->params[0]))
		call_answer(call, 200, encode_host_image());
	else if (find_image(call, &image) == 0)
		call_answer(call, 200, encode_image(image));
}

/* Files that are kept of runs hold their image, and nobody sees them in a list: they go with it. */
struct removing {
	struct call *call;
	struct image *image;
	bool is_again;
};

static void on_dropped(void *ctx);

static void on_removed(const struct err *err, void *ctx)
{
	struct removing *removing = ctx;
	struct call *call = removing->call;

	if (err->code == ERR_CONFLICT && !removing->is_again) {
		removing->is_again = true;
		tasks_drop_kept(call->api->tasks, removing->image->name, on_dropped, removing);
		return;
	}
	image_freep(&removing->image);
	mem_freep(&removing);
	if (err->code == ERR_OK)
		call_answer_empty(call);
	else
		call_fail(call, err);
}

static void on_dropped(void *ctx)
{
	struct removing *removing = ctx;
	struct engine *engine = removing->call->api->engine;

	engine->ops->image_remove(engine, removing->image->id.text, on_removed, removing);
}

/* Everybody uses it, its team removes it. On failure the call was ended. */
static bool may_remove(struct call *call, const struct image *image)
{
	struct ownership ownership = {image->owner.text, image->team.text, VISIBILITY_GLOBAL};
	struct err err = {0};

	if (authz_change(call, &ownership, "image", image->name, &err) == 0)
		return true;
	call_fail(call, &err);
	return false;
}

void handle_image_remove(struct call *call)
{
	auto_(image_freep) struct image *image = NULL;
	struct engine *engine = call->api->engine;
	struct err err = {0};

	if (image_is_host(call->params[0])) {
		(void)err_set(&err, ERR_CONFLICT,
		              "the host image is this machine itself"); /* always -1 */
		call_fail(call, &err);
	} else if (find_image(call, &image) == 0 && may_remove(call, image)) {
		struct removing *removing = mem_new(struct removing);

		*removing = (struct removing){call, image, false};
		image = NULL;
		engine->ops->image_remove(engine, removing->image->id.text, on_removed, removing);
	}
}

/* --- import: the body is spooled to a file without a name, then unpacked by a worker --- */

struct import {
	struct call *call;
	char *name;
	char *format;
	int fd;
};

static void import_free(struct import *import)
{
	fd_closep(&import->fd);
	mem_freep(&import->name);
	mem_freep(&import->format);
	mem_freep(&import);
}

static void on_imported(const struct image *image, const struct err *err, void *ctx)
{
	struct import *import = ctx;
	struct call *call = import->call;

	import_free(import);
	if (image)
		call_answer(call, 201, encode_image(image));
	else
		call_fail(call, err);
}

static void import_fail(struct import *import, const struct err *err)
{
	struct call *call = import->call;

	request_set_on_end(call->request, NULL, NULL);
	import_free(import);
	call_fail(call, err);
}

static void start(struct import *import)
{
	struct call *call = import->call;
	struct engine *engine = call->api->engine;
	struct image *image = image_new();

	spec_set(&image->name, import->name);
	spec_set(&image->format, import->format);
	image->owner = call->caller->principal;
	image->team = call->caller->team;
	authz_made(call, image->id.text);
	engine->ops->image_import(engine, image, import->fd, on_imported, import);
}

static size_t on_chunk(struct request *request, const uint8_t *bytes, size_t len, void *ctx)
{
	struct import *import = ctx;
	struct err err = {0};
	int r;

	if (len == 0) {
		request_set_on_end(request, NULL, NULL);
		if (lseek(import->fd, 0, SEEK_SET) < 0) {
			(void)err_sys(&err, errno, "read the archive again"); /* always -1 */
			import_fail(import, &err);
			return 0;
		}
		start(import);
		return 0;
	}
	r = io_write_all(import->fd, bytes, len);
	if (r < 0) {
		(void)err_sys(&err, -r, "keep the archive"); /* always -1 */
		if (r == -ENOSPC)
			err.code = ERR_NO_SPACE;
		import_fail(import, &err);
	}
	return len;
}

static void on_gone(struct request *request, bool gone, void *ctx)
{
	struct import *import = ctx;
	struct call *call = import->call;

	import_free(import);
	call_done(call);
}

static int check_import(struct call *call, const char *name, const char *format, struct err *err)
{
	static const char *const formats[] = {"auto", "tar", "oci-layout", "docker-archive",
	                                      IMAGE_ON_HOST};
	auto_(image_freep) struct image *image = NULL;

	if (!name || !str_is_name(name) || image_is_host(name))
		return err_set(err, ERR_INVALID,
		               "'name' must be like [a-z0-9][a-z0-9._-]*, at most %d characters, "
		               "and not host",
		               LIMIT_NAME_LEN);
	if (store_image_get(call->api->store, name, &image, &(struct err){0}) == 0)
		return err_set(err, ERR_CONFLICT, "there is an image '%s' already", name);
	for (size_t i = 0; i < ARRAY_LEN(formats); i++) {
		if (str_eq(formats[i], format))
			return 0;
	}
	return err_set(err, ERR_INVALID,
	               "'format' is auto, tar, oci-layout, docker-archive or host-layer");
}

void handle_image_import(struct call *call)
{
	const char *name = call_query(call, "name", NULL);
	const char *format = call_query(call, "format", "auto");
	struct err err = {0};
	struct import *import;
	int fd = -1;

	if (check_import(call, name, format, &err) == 0) {
		fd = openat(call->api->spool_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
		if (fd < 0)
			(void)err_sys(&err, errno, "make a file for the archive"); /* always -1 */
	}
	if (fd < 0) {
		call_fail(call, &err);
		return;
	}
	import = mem_new(struct import);
	*import = (struct import){call, mem_strdup(name), mem_strdup(format), fd};
	request_set_on_end(call->request, on_gone, import);
	request_stream_body(call->request, on_chunk, import);
}

/*
 * Files that are kept with a task. The bytes go to a file without a name, which gets one (the
 * artifact's id, beside the logs of runs) once they are all there and on disk, and then the row. A
 * name that somebody gave is for people: it is reduced to its last part and leads nowhere.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sodium.h>

#include "api/encode.h"
#include "api/tasks.h"
#include "base/io.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "http/request.h"
#include "store/task.h"
#include "task/tasks.h"

enum { NAME_BYTES = 255, TYPE_BYTES = 127, FILE_MOST = 30 * 1024 * 1024, OF_TASK = 200 };

static json_t *encode(const struct artifact *artifact)
{
	json_t *object = json_object();

	json_object_set_new(object, "id", json_string(artifact->id.text));
	json_object_set_new(object, "task", json_string(artifact->task.text));
	json_object_set_new(object, "run", encode_text(artifact->run.text));
	json_object_set_new(object, "name", encode_text(artifact->name));
	json_object_set_new(object, "contentType", encode_text(artifact->content_type));
	json_object_set_new(object, "size", json_integer((json_int_t)artifact->bytes));
	json_object_set_new(object, "sha256", json_string(artifact->sha256));
	json_object_set_new(object, "createdAt", encode_time(artifact->created_ms));
	return object;
}

/* --- keeping --- */

struct upload {
	struct call *call;
	int fd;
	struct artifact artifact;
	crypto_hash_sha256_state hash;
};

static void upload_free(struct upload *upload)
{
	fd_closep(&upload->fd);
	artifact_done(&upload->artifact);
	mem_freep(&upload);
}

static void upload_fail(struct upload *upload, const struct err *err)
{
	struct call *call = upload->call;

	request_set_on_end(call->request, NULL, NULL);
	upload_free(upload);
	call_fail(call, err);
}

static void on_stored(const struct store_result *result, void *ctx)
{
	struct upload *upload = ctx;
	struct call *call = upload->call;
	json_t *answer = encode(&upload->artifact);

	if (!result->ok) {
		(void)unlinkat(tasks_files_fd(call->api->tasks), upload->artifact.id.text, 0);
		json_decref(answer);
		upload_fail(upload, &result->err);
		return;
	}
	upload_free(upload);
	call_answer(call, 201, answer);
}

/* The file before the row: one that nobody knows does no harm. */
static int name_file(struct upload *upload, struct err *err)
{
	int dir_fd = tasks_files_fd(upload->call->api->tasks);
	char path[40];

	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", upload->fd); /* fits */
	if (fsync(upload->fd) < 0 ||
	    linkat(AT_FDCWD, path, dir_fd, upload->artifact.id.text, AT_SYMLINK_FOLLOW) < 0 ||
	    fsync(dir_fd) < 0)
		return err_sys(err, errno, "keep the artifact");
	return 0;
}

static void finish(struct upload *upload)
{
	uint8_t digest[crypto_hash_sha256_BYTES];
	char hex[2 * sizeof(digest) + 1];
	struct event event = {.kind = EVENT_TASK_ARTIFACT, .time_ms = io_real_ms()};
	struct store_write *write;
	struct err err = {0};
	json_t *data;

	crypto_hash_sha256_final(&upload->hash, digest);
	sodium_bin2hex(hex, sizeof(hex), digest, sizeof(digest));
	upload->artifact.sha256 = mem_strdup(hex);
	if (name_file(upload, &err) < 0) {
		upload_fail(upload, &err);
		return;
	}
	request_set_on_end(upload->call->request, NULL, NULL);
	data = encode(&upload->artifact);
	event.sandbox = upload->artifact.task;
	event.data = json_dumps(data, JSON_COMPACT);
	json_decref(data);
	write = store_write_new(upload->call->api->store);
	store_add_artifact(write, &upload->artifact, OF_TASK);
	store_put_event(write, &event);
	event_done(&event);
	store_write_submit(write, on_stored, upload);
}

static size_t on_chunk(struct request *request, const uint8_t *bytes, size_t len, void *ctx)
{
	struct upload *upload = ctx;
	struct err err = {0};
	int r;

	if (len == 0) {
		finish(upload);
		return 0;
	}
	upload->artifact.bytes += len;
	if (upload->artifact.bytes > FILE_MOST)
		r = err_set(&err, ERR_TOO_LARGE, "an artifact has at most %d bytes", FILE_MOST);
	else
		r = io_write_all(upload->fd, bytes, len);
	if (r < 0) {
		if (err.code == ERR_OK)
			(void)err_sys(&err, -r, "keep the artifact"); /* always -1 */
		upload_fail(upload, &err);
		return len;
	}
	crypto_hash_sha256_update(&upload->hash, bytes, len);
	return len;
}

static void on_gone(struct request *request, bool gone, void *ctx)
{
	struct upload *upload = ctx;
	struct call *call = upload->call;

	upload_free(upload);
	call_done(call);
}

static int check(const struct call *call, const char **ret_name, const char **ret_type,
                 struct err *err)
{
	const char *name = call_query(call, "name", "");
	const char *type = request_header(call->request, "Content-Type");
	uint64_t length = request_body_length(call->request);
	const char *slash = strrchr(name, '/');

	name = slash ? slash + 1 : name;
	if (!*name || str_eq(name, ".") || str_eq(name, "..") || strlen(name) > NAME_BYTES)
		return err_set(err, ERR_INVALID, "'name' is the name of a file, 1 to %d bytes",
		               NAME_BYTES);
	if (!str_is_plain(name, strlen(name)) || strpbrk(name, "\"\\"))
		return err_set(err, ERR_INVALID,
		               "'name' has quotes, control characters or bytes that are no UTF-8");
	if (length != UINT64_MAX && length > FILE_MOST)
		return err_set(err, ERR_TOO_LARGE, "an artifact has at most %d bytes", FILE_MOST);
	*ret_name = name;
	*ret_type = type && strlen(type) <= TYPE_BYTES ? type : "application/octet-stream";
	return 0;
}

void handle_artifact_add(struct call *call)
{
	auto_(task_freep) struct task *task = NULL;
	const char *name = NULL, *type = NULL;
	struct upload *upload;
	struct err err = {0};
	int fd;

	if (task_of_path(call, &task) < 0)
		return;
	if (check(call, &name, &type, &err) < 0) {
		call_fail(call, &err);
		return;
	}
	fd = openat(tasks_files_fd(call->api->tasks), ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (fd < 0) {
		(void)err_sys(&err, errno, "make a file for the artifact"); /* always -1 */
		call_fail(call, &err);
		return;
	}
	upload = mem_new(struct upload);
	upload->call = call;
	upload->fd = fd;
	upload->artifact = (struct artifact){.id = id_new("af"),
	                                     .task = task->id,
	                                     .run = call->caller->run,
	                                     .name = mem_strdup(name),
	                                     .content_type = mem_strdup(type),
	                                     .created_ms = io_real_ms()};
	crypto_hash_sha256_init(&upload->hash);
	request_set_on_end(call->request, on_gone, upload);
	request_stream_body(call->request, on_chunk, upload);
}

/* --- looking --- */

void handle_artifact_list(struct call *call)
{
	auto_(task_freep) struct task *task = NULL;
	struct artifact_page page = {0};
	struct err err = {0};
	json_t *items;

	if (task_of_path(call, &task) < 0)
		return;
	if (store_artifact_list(call->api->store, task->id.text, call_query(call, "cursor", NULL),
	                        call_query_u64(call, "limit", 0), &page, &err) < 0) {
		call_fail(call, &err);
		return;
	}
	items = json_array();
	for (size_t i = 0; i < page.count; i++)
		json_array_append_new(items, encode(&page.items[i]));
	call_answer(call, 200, encode_page(items, page.next_cursor));
	artifact_page_done(&page);
}

static ssize_t on_pull(struct request *request, uint8_t *to, size_t max, void *ctx)
{
	const int *fd = ctx;
	ssize_t r = read(*fd, to, max);

	if (r < 0)
		return REQUEST_STREAM_ABORT;
	return r == 0 ? REQUEST_STREAM_END : r;
}

static void on_end(struct request *request, bool gone, void *ctx)
{
	int *fd = ctx;

	fd_closep(fd);
	mem_freep(&fd);
}

/* Always as bytes to be saved: whoever uploaded it says what it is, and a browser must not act on
 * that. */
static void send(struct call *call, const struct artifact *artifact, int fd)
{
	auto_free char *header = mem_printf("attachment; filename=\"%s\"", artifact->name);
	int *kept = mem_new(int);

	*kept = fd;
	request_add_header(call->request, "Content-Disposition", header);
	request_add_header(call->request, "X-Content-Type-Options", "nosniff");
	request_set_on_end(call->request, on_end, kept);
	request_answer_stream(call->request, 200, "application/octet-stream", artifact->bytes,
	                      on_pull, kept);
	call_done(call);
}

static int find(struct call *call, struct artifact *ret)
{
	auto_(task_freep) struct task *task = NULL;
	struct err err = {0};

	if (task_of_path(call, &task) < 0)
		return -1;
	if (store_artifact_get(call->api->store, call->params[1], ret, &err) == 0 &&
	    str_eq(ret->task.text, task->id.text))
		return 0;
	if (err.code == ERR_OK)
		(void)err_set(&err, ERR_NOT_FOUND, "no such artifact of this task"); /* always -1 */
	call_fail(call, &err);
	return -1;
}

void handle_artifact_get(struct call *call)
{
	auto_(artifact_done) struct artifact artifact = {0};
	struct err err = {0};
	int fd;

	if (find(call, &artifact) < 0)
		return;
	fd = openat(tasks_files_fd(call->api->tasks), artifact.id.text,
	            O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd >= 0) {
		send(call, &artifact, fd);
		return;
	}
	(void)err_sys(&err, errno, "open artifact %s", artifact.id.text); /* always -1 */
	call_fail(call, &err);
}

static void on_removed(const struct store_result *result, void *ctx)
{
	struct call *call = ctx;

	if (result->ok)
		call_answer_empty(call);
	else
		call_fail(call, &result->err);
}

/* The file before the row, as task/artifacts.c has it. */
void handle_artifact_remove(struct call *call)
{
	auto_(artifact_done) struct artifact artifact = {0};
	struct store_write *write;
	struct err err = {0};
	int r;

	if (find(call, &artifact) < 0)
		return;
	r = tasks_remove_file(call->api->tasks, artifact.id.text);
	if (r < 0) {
		(void)err_sys(&err, -r, "remove artifact %s", artifact.id.text); /* always -1 */
		call_fail(call, &err);
		return;
	}
	write = store_write_new(call->api->store);
	store_delete_artifact(write, artifact.id.text);
	store_write_submit(write, on_removed, call);
}

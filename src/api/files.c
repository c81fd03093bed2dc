/*
 * Files of a live sandbox. Each operation is one run of the program inside; this file turns its
 * streams into answers. An answer's status is sent only when it is known: after the first byte
 * or the end, so that an error is an error and not half a document.
 */
#include <stdio.h>

#include "api/call.h"
#include "api/encode.h"
#include "api/inside_run.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/str.h"
#include "http/request.h"
#include "http/sse.h"
#include "model/user.h"
#include "wire/record.h"

enum { RECORDS_BYTES = 32 * 1024 * 1024, LINE_BYTES = 3 * 4 * 4096 };

struct op {
	struct call *call;
	struct request *request; /* of a stream that was begun; NULL before */
	struct inside_run *run;
	struct sse *sse;
	struct buf bytes;     /* records, or a line under way */
	const uint8_t *chunk; /* of the stream, not yet sent */
	size_t chunk_len;
	bool is_body_done;
};

static void op_free(struct op *op)
{
	if (op->call) {
		request_set_on_end(op->call->request, NULL, NULL);
		call_done(op->call);
	}
	request_unref(op->request);
	inside_free(op->run);
	buf_done(&op->bytes);
	mem_freep(&op);
}

static void op_fail(struct op *op, const struct err *err)
{
	struct call *call = take_ptr(op->call);

	request_set_on_end(call->request, NULL, NULL);
	op_free(op);
	call_fail(call, err);
}

static void op_answer(struct op *op, json_t *json)
{
	struct call *call = take_ptr(op->call);

	request_set_on_end(call->request, NULL, NULL);
	op_free(op);
	if (json)
		call_answer(call, call->route->status, json);
	else
		call_answer_empty(call);
}

static void on_gone(struct request *request, bool gone, void *ctx)
{
	struct op *op = ctx;

	if (op->call) {
		struct call *call = take_ptr(op->call);

		call_done(call);
	}
	op_free(op);
}

/* --- starting --- */

static int check_user(const struct call *call, struct err *err)
{
	const char *user = call_query(call, "user", NULL);
	struct user_ref ref;

	return user ? user_parse(user, &ref, err) : 0;
}

static int check_path(const char *path, struct err *err)
{
	if (!path || !*path)
		return err_set(err, ERR_INVALID, "'path' is missing");
	if (strlen(path) > LIMIT_PATH_LEN)
		return err_set(err, ERR_INVALID, "'path' is longer than %d bytes", LIMIT_PATH_LEN);
	return 0;
}

/* Starts `inside` with argv (emptied); on failure the call was ended. */
static void start(struct call *call, struct strings *argv, const struct inside_ops *ops,
                  size_t keep_bytes)
{
	auto_(sandbox_freep) struct sandbox *sandbox = NULL;
	struct err err = {0};
	struct op *op;

	if (check_user(call, &err) < 0) {
		call_fail(call, &err);
	} else if (call_sandbox(call, &sandbox) == 0) {
		op = mem_new(struct op);
		op->call = call;
		buf_init(&op->bytes, keep_bytes);
		request_set_on_end(call->request, on_gone, op);
		op->run = inside_start(call->api, sandbox, argv, call_query(call, "user", NULL),
		                       ops, op);
	}
	strings_done(argv);
}

static void add_query(struct strings *argv, const struct call *call, const char *name)
{
	const char *value = call_query(call, name, NULL);

	if (value) {
		strings_take(argv, mem_printf("--%s", name));
		strings_add(argv, value);
	}
}

static void add_flag(struct strings *argv, const struct call *call, const char *name)
{
	if (call_query_bool(call, name))
		strings_take(argv, mem_printf("--%s", name));
}

/* verb, its options from the query (flags, then values; both end with NULL), "--", path. */
static int argv_of(struct call *call, struct strings *argv, const char *verb,
                   const char *const *flags, const char *const *values)
{
	const char *path = call_query(call, "path", NULL);
	struct err err = {0};

	if (check_path(path, &err) < 0) {
		call_fail(call, &err);
		return -1;
	}
	strings_add(argv, verb);
	for (size_t i = 0; flags && flags[i]; i++)
		add_flag(argv, call, flags[i]);
	for (size_t i = 0; values && values[i]; i++)
		add_query(argv, call, values[i]);
	strings_add(argv, "--");
	strings_add(argv, path);
	return 0;
}

/* --- bytes out: read, pack --- */

static ssize_t on_pull(struct request *request, uint8_t *to, size_t max, void *ctx)
{
	struct op *op = ctx;
	struct err err = {0};
	size_t take;

	if (op->chunk_len == 0) {
		int r = inside_next(op->run, &op->chunk, &op->chunk_len, &err);

		if (r == INSIDE_END)
			return REQUEST_STREAM_END;
		if (r < 0)
			return REQUEST_STREAM_ABORT;
		if (r == INSIDE_NOTHING_YET)
			return 0;
	}
	take = MIN(max, op->chunk_len);
	memcpy(to, op->chunk, take);
	op->chunk += take;
	op->chunk_len -= take;
	return (ssize_t)take;
}

static void on_download_ready(struct inside_run *run, void *ctx)
{
	struct op *op = ctx;
	struct call *call;
	struct err err = {0};
	int r;

	if (op->request) {
		request_more(op->request);
		return;
	}
	r = inside_next(op->run, &op->chunk, &op->chunk_len, &err);
	if (r == INSIDE_NOTHING_YET)
		return;
	if (r < 0) {
		op_fail(op, &err);
		return;
	}
	call = take_ptr(op->call);
	op->request = request_ref(call->request);
	if (r == INSIDE_END) {
		request_answer(call->request, 200, "application/octet-stream", "", 0);
		call_done(call);
		return;
	}
	request_answer_stream(call->request, 200,
	                      str_eq(call->route->response, "@tar") ? "application/x-tar"
	                                                            : "application/octet-stream",
	                      UINT64_MAX, on_pull, op);
	call_done(call);
}

static const struct inside_ops download_ops = {on_download_ready, NULL};

void handle_file_read(struct call *call)
{
	static const char *const values[] = {"offset", "length", NULL};
	struct strings argv = {0};

	if (argv_of(call, &argv, "read", NULL, values) == 0)
		start(call, &argv, &download_ops, 0);
}

void handle_archive_read(struct call *call)
{
	struct strings argv = {0};

	if (argv_of(call, &argv, "pack", NULL, NULL) == 0)
		start(call, &argv, &download_ops, 0);
}

/* --- bytes in: write, unpack --- */

static size_t on_chunk(struct request *request, const uint8_t *bytes, size_t len, void *ctx)
{
	struct op *op = ctx;
	ssize_t taken = inside_input(op->run, bytes, len, len == 0);

	if (len == 0)
		op->is_body_done = true;
	/* It ended already: its reason comes by itself, the rest of the body is read and dropped.
	 */
	return taken < 0 ? len : (size_t)taken;
}

static void on_upload_room(struct inside_run *run, void *ctx)
{
	struct op *op = ctx;

	if (op->is_body_done)
		return;
	if (!op->request) {
		op->request = request_ref(op->call->request);
		request_stream_body(op->request, on_chunk, op);
	} else {
		request_body_more(op->request);
	}
}

/* Also for what answers with nothing: mkdir, rename, remove. */
static void on_quiet_ready(struct inside_run *run, void *ctx)
{
	struct op *op = ctx;
	const uint8_t *bytes;
	size_t len;
	struct err err = {0};
	int r;

	do
		r = inside_next(op->run, &bytes, &len, &err);
	while (r == INSIDE_BYTES);
	if (r < 0)
		op_fail(op, &err);
	else if (r == INSIDE_END)
		op_answer(op, NULL);
}

static const struct inside_ops upload_ops = {on_quiet_ready, on_upload_room};
static const struct inside_ops quiet_ops = {on_quiet_ready, NULL};

void handle_file_write(struct call *call)
{
	static const char *const flags[] = {"parents", NULL};
	static const char *const values[] = {"mode", NULL};
	uint64_t length = request_body_length(call->request);
	struct strings argv = {0};
	char *path;

	if (argv_of(call, &argv, "write", flags, values) < 0)
		return;
	if (length != UINT64_MAX) {
		/* Before "-- PATH": an upload that breaks off must not pass for a whole one. */
		path = mem_strdup(argv.items[argv.count - 1]);
		mem_freep(&argv.items[argv.count - 1]);
		mem_freep(&argv.items[argv.count - 2]);
		argv.count -= 2;
		strings_add(&argv, "--size");
		strings_take(&argv, mem_printf("%llu", (unsigned long long)length));
		strings_add(&argv, "--");
		strings_take(&argv, path);
	}
	start(call, &argv, &upload_ops, 0);
}

void handle_archive_write(struct call *call)
{
	static const char *const flags[] = {"parents", NULL};
	struct strings argv = {0};

	if (argv_of(call, &argv, "unpack", flags, NULL) == 0)
		start(call, &argv, &upload_ops, 0);
}

/* --- nothing out: mkdir, rename, remove --- */

void handle_file_remove(struct call *call)
{
	static const char *const flags[] = {"recursive", NULL};
	struct strings argv = {0};

	if (argv_of(call, &argv, "remove", flags, NULL) == 0)
		start(call, &argv, &quiet_ops, 0);
}

void handle_file_mkdir(struct call *call)
{
	const char *path = json_string_value(json_object_get(call->body, "path"));
	const char *mode = json_string_value(json_object_get(call->body, "mode"));
	struct strings argv = {0};
	struct err err = {0};

	if (check_path(path, &err) < 0) {
		call_fail(call, &err);
		return;
	}
	strings_add(&argv, "mkdir");
	if (json_is_true(json_object_get(call->body, "parents")))
		strings_add(&argv, "--parents");
	if (mode) {
		strings_add(&argv, "--mode");
		strings_add(&argv, mode);
	}
	strings_add(&argv, "--");
	strings_add(&argv, path);
	start(call, &argv, &quiet_ops, 0);
}

void handle_file_rename(struct call *call)
{
	const char *from = json_string_value(json_object_get(call->body, "from"));
	const char *to = json_string_value(json_object_get(call->body, "to"));
	struct strings argv = {0};
	struct err err = {0};

	if (check_path(from, &err) < 0 || check_path(to, &err) < 0) {
		call_fail(call, &err);
		return;
	}
	strings_add(&argv, "rename");
	strings_add(&argv, "--");
	strings_add(&argv, from);
	strings_add(&argv, to);
	start(call, &argv, &quiet_ops, 0);
}

/* --- records out: list, stat --- */

/* Takes the first line out of the buffer, NUL-terminated; NULL when there is no whole one. */
static char *take_line(struct buf *buf)
{
	const uint8_t *head = buf_head(buf);
	const uint8_t *end = buf_len(buf) ? memchr(head, '\n', buf_len(buf)) : NULL;
	char *line;

	if (!end)
		return NULL;
	line = mem_strndup((const char *)head, (size_t)(end - head));
	buf_consume(buf, (size_t)(end - head) + 1);
	return line;
}

static int records_of(struct buf *buf, json_t *items, struct err *err)
{
	char *text;

	while ((text = take_line(buf))) {
		auto_free char *line = text;
		struct record_stat record;

		if (record_parse_stat(line, &record) < 0)
			return err_set(err, ERR_PROTOCOL, "the sandbox answered nonsense");
		json_array_append_new(items, encode_stat(&record));
	}
	return 0;
}

static void answer_records(struct op *op)
{
	bool is_list = str_eq(op->call->route->response, "FileList");
	json_t *items = json_array();
	struct err err = {0};

	if (records_of(&op->bytes, items, &err) < 0 || (!is_list && json_array_size(items) != 1)) {
		if (err.code == ERR_OK)
			(void)err_set(&err, ERR_PROTOCOL,
			              "the sandbox answered nonsense"); /* always -1 */
		json_decref(items);
		op_fail(op, &err);
	} else if (is_list) {
		op_answer(op, json_pack("{s:o}", "items", items));
	} else {
		json_t *one = json_incref(json_array_get(items, 0));

		json_decref(items);
		op_answer(op, one);
	}
}

static void on_records_ready(struct inside_run *run, void *ctx)
{
	struct op *op = ctx;
	const uint8_t *bytes;
	size_t len;
	struct err err = {0};
	int r;

	while ((r = inside_next(op->run, &bytes, &len, &err)) == INSIDE_BYTES) {
		if (buf_put(&op->bytes, bytes, len) < 0) {
			(void)err_set(&err, ERR_TOO_LARGE,
			              "the folder has too many entries"); /* always -1 */
			r = -1;
			break;
		}
	}
	if (r < 0)
		op_fail(op, &err);
	else if (r == INSIDE_END)
		answer_records(op);
}

static const struct inside_ops records_ops = {on_records_ready, NULL};

void handle_file_list(struct call *call)
{
	struct strings argv = {0};

	if (argv_of(call, &argv, "list", NULL, NULL) == 0)
		start(call, &argv, &records_ops, RECORDS_BYTES);
}

void handle_file_stat(struct call *call)
{
	struct strings argv = {0};

	if (argv_of(call, &argv, "stat", NULL, NULL) == 0)
		start(call, &argv, &records_ops, LINE_BYTES);
}

/* --- events out: watch --- */

static void on_sse_end(struct sse *sse, bool gone, void *ctx)
{
	op_free(ctx);
}

static void pump_changes(struct op *op);

static void on_sse_writable(struct sse *sse, void *ctx)
{
	pump_changes(ctx);
}

/* false: no room; the line stays. */
static bool send_change(struct op *op, const char *text)
{
	auto_free char *line = mem_strdup(text);
	auto_free char *out = NULL;
	struct record_change change;
	json_t *json;

	if (record_parse_change(line, &change) < 0)
		return true; /* nonsense from inside is nobody's event */
	json = json_pack("{s:s, s:b}", "change", record_change_name(change.kind), "isDir",
	                 change.is_dir);
	encode_put_bytes(json, "name", change.name, strlen(change.name));
	out = json_dumps(json, JSON_COMPACT);
	json_decref(json);
	return sse_send(op->sse, NULL, "change", out) == 0;
}

/* Sends the whole lines in the buffer; false when the client has to drain first. */
static bool send_changes(struct op *op)
{
	for (;;) {
		const uint8_t *head = buf_head(&op->bytes);
		const uint8_t *end =
			buf_len(&op->bytes) ? memchr(head, '\n', buf_len(&op->bytes)) : NULL;
		auto_free char *line = NULL;

		if (!end)
			return true;
		line = mem_strndup((const char *)head, (size_t)(end - head));
		if (!send_change(op, line))
			return false;
		buf_consume(&op->bytes, (size_t)(end - head) + 1);
	}
}

static void pump_changes(struct op *op)
{
	const uint8_t *bytes;
	size_t len;
	struct err err = {0};
	int r;

	while (send_changes(op)) {
		r = inside_next(op->run, &bytes, &len, &err);
		if (r == INSIDE_NOTHING_YET)
			return;
		if (r != INSIDE_BYTES || buf_put(&op->bytes, bytes, len) < 0) {
			sse_finish(op->sse);
			return;
		}
	}
}

static void on_watch_ready(struct inside_run *run, void *ctx)
{
	static const struct sse_ops ops = {on_sse_writable, on_sse_end};
	struct op *op = ctx;
	const uint8_t *bytes;
	size_t len;
	struct err err = {0};
	int r;

	if (op->sse) {
		pump_changes(op);
		return;
	}
	r = inside_next(op->run, &bytes, &len, &err);
	if (r == INSIDE_NOTHING_YET)
		return;
	if (r == INSIDE_END)
		(void)err_set(&err, ERR_PROTOCOL, "the watch ended at once"); /* always -1 */
	if (r != INSIDE_BYTES || buf_put(&op->bytes, bytes, len) < 0) {
		op_fail(op, &err);
		return;
	}
	op->sse = sse_open(op->call->request, &ops, op);
	call_done(take_ptr(op->call));
	pump_changes(op);
}

static const struct inside_ops watch_ops = {on_watch_ready, NULL};

void handle_file_watch(struct call *call)
{
	static const char *const flags[] = {"recursive", NULL};
	struct strings argv = {0};

	if (argv_of(call, &argv, "watch", flags, NULL) == 0)
		start(call, &argv, &watch_ops, LIMIT_CHUNK_BYTES + LINE_BYTES);
}

#include "task/serve.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "acp/client.h"
#include "base/buf.h"
#include "base/mem.h"
#include "base/must.h"
#include "base/str.h"
#include "task/job.h"
#include "wire/outlog.h"

#define PROGRAM "/run/cloche/cloche"

enum {
	TEXT_MOST = 1024 * 1024, /* of a file that is read or written, or a terminal's output */
	OPEN_MOST = 32,          /* requests at once */
	TERMINALS_MOST = 64,
	FILE_MS = 30 * 1000,
	ASK_MS = 10 * 60 * 1000, /* for a person to decide */
};

struct errand {
	struct errand *next;
	struct serve *serve; /* NULL: given up */
	json_t *id, *params;
	size_t method;
	bool is_saved, has_begun;
	struct id exec; /* of what it runs */
	struct id question;
	struct exec_watch watch;
	struct buf input;
	bool is_started, is_over, is_fed;
	struct exec *final;
};

struct serve {
	struct job *job;
	const struct serve_ops *ops;
	void *ctx;
	struct errand *errands;
	json_t *terminals; /* ids of commands: bytes that are kept of each */
	bool is_used;
};

static struct engine *engine_of(const struct serve *serve)
{
	return serve->job->tasks->config.engine;
}

static const char *sandbox_of(const struct serve *serve)
{
	return serve->job->run->sandbox.text;
}

/* --- requests --- */

static void errand_free(struct errand *errand)
{
	json_decref(errand->id);
	json_decref(errand->params);
	buf_done(&errand->input);
	exec_free(errand->final);
	mem_freep(&errand);
}

static void unlink_errand(struct errand *errand)
{
	for (struct errand **at = &errand->serve->errands; *at; at = &(*at)->next) {
		if (*at != errand)
			continue;
		*at = errand->next;
		return;
	}
}

/* It is answered: takes the result; NULL: an error. */
static void done(struct errand *errand, json_t *result, int code, const char *error)
{
	struct serve *serve = errand->serve;

	unlink_errand(errand);
	serve->ops->answer(errand->id, result, code, error, serve->ctx);
	errand_free(errand);
}

static void fail(struct errand *errand, int code, const char *error)
{
	done(errand, NULL, code, error);
}

/* --- a command inside --- */

static void feed(struct errand *errand)
{
	struct engine *engine = engine_of(errand->serve);

	while (!errand->is_fed) {
		ssize_t r = engine->ops->input(engine, &errand->watch, buf_head(&errand->input),
		                               buf_len(&errand->input), true);

		if (r < 0 || (size_t)r == buf_len(&errand->input))
			errand->is_fed = true;
		else if (r == 0)
			return;
		else
			buf_consume(&errand->input, (size_t)r);
	}
}

/* Keeps the last bytes that fit. */
static void keep_last(struct buf *buf, const struct outlog_record *record, bool *is_cut)
{
	size_t len = MIN((size_t)record->len, buf->max);
	size_t more = buf_len(buf) + len > buf->max ? buf_len(buf) + len - buf->max : 0;

	*is_cut = *is_cut || more > 0 || len < record->len;
	buf_consume(buf, more);
	must(buf_put(buf, (const char *)record->bytes + record->len - len, len) == 0);
}

static void read_output(const struct serve *serve, const char *exec, struct buf *out,
                        struct buf *errors, bool *ret_cut)
{
	struct outlog_reader reader;
	struct outlog_record record;
	char path[96];
	int fd, r;

	/* Both ids were made by us: no slash can be in them. */
	(void)snprintf(path, sizeof(path), "%s/out/%s", sandbox_of(serve), exec);
	fd = openat(serve->job->tasks->config.sandboxes_fd, path,
	            O_DIRECTORY | O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 || outlog_reader_open(&reader, fd, 0) < 0)
		return; /* nothing yet */
	while ((r = outlog_next(&reader, &record)) > 0 && record.stream != OUTLOG_EXIT) {
		if (record.stream == OUTLOG_STDOUT)
			keep_last(out, &record, ret_cut);
		else if (record.stream == OUTLOG_STDERR)
			keep_last(errors, &record, ret_cut);
		else if (record.stream == OUTLOG_GAP)
			*ret_cut = true;
	}
	*ret_cut |= r < 0;
	outlog_reader_close(&reader);
}

/* As JSON has text: bytes that are none become "?". */
static json_t *text_of(const struct buf *bytes)
{
	const char *at = (const char *)buf_head(bytes);
	size_t left = buf_len(bytes);
	struct buf out;
	json_t *text;

	if (left == 0)
		return json_string("");
	if (str_is_utf8(at, left) && !memchr(at, '\0', left))
		return json_stringn(at, left);
	buf_init(&out, left + 1);
	while (left > 0) {
		size_t len = 1;

		while (len < MIN(left, (size_t)4) && !str_is_utf8(at, len))
			len++;
		if (!*at || !str_is_utf8(at, len)) {
			must(buf_put(&out, "?", 1) == 0);
			len = 1;
		} else {
			must(buf_put(&out, at, len) == 0);
		}
		at += len;
		left -= len;
	}
	text = json_stringn((const char *)buf_head(&out), buf_len(&out));
	buf_done(&out);
	return text;
}

/* `line` counts from 1; nothing of a text that has fewer. */
static void cut_lines(struct buf *text, uint64_t line, uint64_t limit)
{
	const char *from = (const char *)buf_head(text), *end = from + buf_len(text), *to;

	for (; line > 1 && from < end; line--) {
		to = memchr(from, '\n', (size_t)(end - from));
		from = to ? to + 1 : end;
	}
	for (to = from; limit > 0 && to < end; limit--) {
		const char *next = memchr(to, '\n', (size_t)(end - to));

		to = next ? next + 1 : end;
	}
	text->end -= (size_t)(end - to);
	buf_consume(text, (size_t)(from - (const char *)buf_head(text)));
}

static uint64_t count_of(const json_t *params, const char *name, uint64_t otherwise)
{
	const json_t *value = json_object_get(params, name);
	json_int_t count = json_integer_value(value);

	return json_is_integer(value) ? (uint64_t)MAX(count, (json_int_t)0) : otherwise;
}

/* A file was read or written, or not. */
static void file_over(struct errand *errand)
{
	struct serve *serve = errand->serve;
	struct engine *engine = engine_of(serve);
	const struct exec *exec = errand->final;
	bool is_read = json_object_get(errand->params, "content") == NULL, is_cut = false;
	struct buf out, errors;
	char text[200];

	buf_init(&out, TEXT_MOST);
	buf_init(&errors, 4096);
	read_output(serve, errand->exec.text, &out, &errors, &is_cut);
	engine->ops->release(engine, sandbox_of(serve), errand->exec.text);
	str_escape(text, sizeof(text), (const char *)buf_head(&errors), buf_len(&errors));
	if (exec->signal || exec->exit_code)
		fail(errand,
		     str_has_prefix(text, "not_found") ? ACP_ERR_NOT_FOUND : ACP_ERR_INTERNAL,
		     *text ? text : "the file cannot be reached");
	else if (is_read && (is_cut || buf_len(&out) == TEXT_MOST))
		fail(errand, ACP_ERR_INTERNAL, "the file has more than 1 MiB: read it inside");
	else if (!is_read)
		done(errand, json_object(), 0, NULL);
	else {
		cut_lines(&out, count_of(errand->params, "line", 1),
		          count_of(errand->params, "limit", UINT64_MAX));
		done(errand, json_pack("{s:o}", "content", text_of(&out)), 0, NULL);
	}
	buf_done(&out);
	buf_done(&errors);
}

static void on_output(struct exec_watch *watch, void *ctx)
{
}

static void on_room(struct exec_watch *watch, void *ctx)
{
	struct errand *errand = ctx;

	if (errand->serve && errand->is_started)
		feed(errand);
}

static void on_file_over(struct exec_watch *watch, const struct exec *exec, void *ctx)
{
	struct errand *errand = ctx;

	if (!errand->serve || !exec)
		return;
	errand->is_over = true;
	errand->final = exec_copy(exec);
	if (errand->is_started)
		file_over(errand);
}

/* NULL: it was given up meanwhile, or the daemon ends. */
static struct errand *started(void *ctx)
{
	struct errand *errand = ctx;

	if (!errand->serve) {
		errand_free(errand);
		return NULL;
	}
	errand->serve->job->pending--;
	if (errand->serve->job->tasks->is_shut)
		return NULL;
	errand->is_started = true;
	return errand;
}

static void on_file_started(const struct exec *exec, const struct err *err, void *ctx)
{
	struct errand *errand = started(ctx);

	if (!errand)
		return;
	if (!exec) {
		fail(errand, ACP_ERR_INTERNAL, err->msg);
		return;
	}
	feed(errand);
	if (errand->is_over)
		file_over(errand);
}

static void run(struct errand *errand, struct exec *exec, struct exec_start *start,
                engine_on_exec on_exec)
{
	struct engine *engine = engine_of(errand->serve);

	exec->id = errand->exec;
	start->exec = exec;
	errand->serve->job->pending++;
	engine->ops->exec(engine, start, on_exec, errand);
}

static int sandbox_row(const struct errand *errand, struct sandbox **ret, struct err *err)
{
	return store_sandbox_get(job_store(errand->serve->job), sandbox_of(errand->serve), ret,
	                         err);
}

static void begin_file(struct errand *errand)
{
	static const struct exec_watch_ops ops = {on_output, on_room, on_file_over};
	const char *path = acp_text(errand->params, "path");
	const json_t *content = json_object_get(errand->params, "content");
	auto_(sandbox_freep) struct sandbox *sandbox = NULL;
	auto_(exec_freep) struct exec *exec = NULL;
	struct exec_start start = {.is_internal = true, .timeout_ms = FILE_MS};
	struct err err = {0};
	char size[24];

	if (sandbox_row(errand, &sandbox, &err) < 0) {
		fail(errand, ACP_ERR_INTERNAL, err.msg);
		return;
	}
	exec = exec_new(&sandbox->id);
	errand->exec = exec->id;
	(void)snprintf(size, sizeof(size), "%zu",
	               content ? json_string_length(content) : (size_t)TEXT_MOST);
	strings_add(&exec->argv, PROGRAM);
	strings_add(&exec->argv, "inside");
	strings_add(&exec->argv, content ? "write" : "read");
	if (content)
		strings_add(&exec->argv, "--parents");
	strings_add(&exec->argv, content ? "--size" : "--length");
	strings_add(&exec->argv, size);
	strings_add(&exec->argv, "--");
	strings_add(&exec->argv, path);
	spec_set(&exec->user, sandbox->spec.user);
	spec_set(&exec->cwd, sandbox->spec.cwd);
	errand->watch = (struct exec_watch){.ops = &ops, .ctx = errand};
	start.watch = &errand->watch;
	start.has_stdin = content != NULL;
	errand->is_fed = content == NULL;
	if (content)
		must(buf_put(&errand->input, json_string_value(content),
		             json_string_length(content)) == 0);
	run(errand, exec, &start, on_file_started);
}

/* --- terminals --- */

static void made_terminal(struct errand *errand)
{
	uint64_t most = count_of(errand->params, "outputByteLimit", TEXT_MOST);

	json_object_set_new(errand->serve->terminals, errand->exec.text,
	                    json_integer((json_int_t)MIN(most, (uint64_t)TEXT_MOST)));
	done(errand, json_pack("{s:s}", "terminalId", errand->exec.text), 0, NULL);
}

static void on_terminal_started(const struct exec *exec, const struct err *err, void *ctx)
{
	struct errand *errand = started(ctx);

	if (errand && exec)
		made_terminal(errand);
	else if (errand)
		fail(errand, ACP_ERR_INTERNAL, err->msg);
}

static void put_env(const json_t *list, struct strings *env)
{
	json_t *pair;
	size_t i;

	json_array_foreach (list, i, pair) {
		const char *name = acp_text(pair, "name");

		if (*name && !strchr(name, '='))
			strings_set(env, name, acp_text(pair, "value"));
	}
}

static void begin_terminal(struct errand *errand)
{
	auto_(sandbox_freep) struct sandbox *sandbox = NULL;
	auto_(exec_freep) struct exec *before = NULL;
	auto_(exec_freep) struct exec *exec = NULL;
	struct exec_start start = {.is_recorded = true};
	const char *cwd = acp_text(errand->params, "cwd");
	struct strings env = {0};
	struct err err = {0};
	json_t *word;
	size_t i;

	/* A daemon before this one may have begun it. */
	if (store_exec_get(job_store(errand->serve->job), errand->exec.text, &before, &err) == 0) {
		made_terminal(errand);
		return;
	}
	if (sandbox_row(errand, &sandbox, &err) < 0) {
		fail(errand, ACP_ERR_INTERNAL, err.msg);
		return;
	}
	exec = exec_new(&sandbox->id);
	strings_add(&exec->argv, acp_text(errand->params, "command"));
	json_array_foreach (json_object_get(errand->params, "args"), i, word)
		strings_add(&exec->argv, json_is_string(word) ? json_string_value(word) : "");
	spec_set(&exec->user, sandbox->spec.user);
	spec_set(&exec->cwd, *cwd ? cwd : sandbox->spec.cwd);
	exec->background = true;
	strings_copy(&env, &sandbox->spec.env);
	put_env(json_object_get(errand->params, "env"), &env);
	start.env = &env;
	run(errand, exec, &start, on_terminal_started);
	strings_done(&env);
}

static json_t *exit_of(const struct exec *exec)
{
	char name[16];

	(void)snprintf(name, sizeof(name), "%d", exec->signal);
	return exec->signal ? json_pack("{s:n, s:s}", "exitCode", "signal", name)
	                    : json_pack("{s:i, s:n}", "exitCode", exec->exit_code, "signal");
}

static int terminal_row(const struct errand *errand, struct exec **ret, struct err *err)
{
	const char *id = acp_text(errand->params, "terminalId");

	if (!json_object_get(errand->serve->terminals, id))
		return err_set(err, ERR_NOT_FOUND, "no such terminal");
	return store_exec_get(job_store(errand->serve->job), id, ret, err);
}

static void begin_output(struct errand *errand)
{
	const char *id = acp_text(errand->params, "terminalId");
	const json_t *most = json_object_get(errand->serve->terminals, id);
	auto_(exec_freep) struct exec *exec = NULL;
	struct err err = {0};
	bool is_cut = false;
	struct buf out;
	json_t *result;

	if (terminal_row(errand, &exec, &err) < 0) {
		fail(errand, ACP_ERR_NOT_FOUND, err.msg);
		return;
	}
	buf_init(&out, (size_t)MAX(json_integer_value(most), (json_int_t)1));
	read_output(errand->serve, id, &out, &out, &is_cut);
	result = json_pack("{s:o, s:b}", "output", text_of(&out), "truncated", is_cut);
	if (exec->ended_ms)
		json_object_set_new(result, "exitStatus", exit_of(exec));
	buf_done(&out);
	done(errand, result, 0, NULL);
}

static void on_wait_over(struct exec_watch *watch, const struct exec *exec, void *ctx)
{
	struct errand *errand = ctx;

	if (errand->serve && exec)
		done(errand, exit_of(exec), 0, NULL);
}

static void begin_wait(struct errand *errand)
{
	static const struct exec_watch_ops ops = {on_output, NULL, on_wait_over};
	const char *id = acp_text(errand->params, "terminalId");
	struct engine *engine = engine_of(errand->serve);
	auto_(exec_freep) struct exec *exec = NULL;
	struct err err = {0};

	errand->watch = (struct exec_watch){.ops = &ops, .ctx = errand};
	errand->is_started = true;
	if (terminal_row(errand, &exec, &err) < 0)
		fail(errand, ACP_ERR_NOT_FOUND, err.msg);
	else if (exec->ended_ms)
		done(errand, exit_of(exec), 0, NULL);
	else if (engine->ops->watch(engine, sandbox_of(errand->serve), id, &errand->watch, &err) <
	         0)
		fail(errand, ACP_ERR_INTERNAL, err.msg);
}

static void on_killed(const struct err *err, void *ctx)
{
	struct errand *errand = started(ctx);

	if (!errand)
		return;
	if (err->code == ERR_OK || err->code == ERR_CONFLICT || err->code == ERR_NOT_FOUND)
		done(errand, json_object(), 0, NULL); /* it is over */
	else
		fail(errand, ACP_ERR_INTERNAL, err->msg);
}

static void begin_kill(struct errand *errand)
{
	const char *id = acp_text(errand->params, "terminalId");
	struct engine *engine = engine_of(errand->serve);

	if (!json_object_get(errand->serve->terminals, id)) {
		fail(errand, ACP_ERR_NOT_FOUND, "no such terminal");
		return;
	}
	errand->serve->job->pending++;
	engine->ops->kill(engine, sandbox_of(errand->serve), id, on_killed, errand);
}

/* --- whether it may --- */

static void on_verdict(bool is_allowed, void *ctx)
{
	struct errand *errand = ctx;
	struct serve *serve = errand->serve;

	unlink_errand(errand);
	serve->ops->decided(errand->params, errand->id, is_allowed, serve->ctx);
	errand_free(errand);
}

static void begin_question(struct errand *errand)
{
	struct engine *engine = engine_of(errand->serve);
	const json_t *call = json_object_get(errand->params, "toolCall");
	const char *title = acp_text(call, "title"), *kind = acp_text(call, "kind");
	char shown[400];
	struct err err = {0};

	str_escape(shown, sizeof(shown), *title ? title : kind, strlen(*title ? title : kind));
	const struct approval_question question = {.sandbox = sandbox_of(errand->serve),
	                                           .title = *shown ? shown : "something",
	                                           .program = errand->serve->job->task->agent,
	                                           .timeout_ms = ASK_MS,
	                                           .on_verdict = on_verdict,
	                                           .ctx = errand};

	if (engine->ops->approval_ask(engine, &question, &errand->question, &err) < 0)
		on_verdict(false, errand);
}

/* --- all of them --- */

static const struct {
	const char *name;
	void (*begin)(struct errand *errand);
	bool has_path;
} methods[] = {
	{"session/request_permission", begin_question, false},
	{"fs/read_text_file", begin_file, true},
	{"fs/write_text_file", begin_file, true},
	{"terminal/create", begin_terminal, false},
	{"terminal/output", begin_output, false},
	{"terminal/wait_for_exit", begin_wait, false},
	{"terminal/kill", begin_kill, false},
	{"terminal/release", begin_kill, false}, /* its output stays with the sandbox */
};

static const char *problem(const struct serve *serve, size_t method, const json_t *params)
{
	const json_t *content = json_object_get(params, "content");
	bool is_write = str_eq(methods[method].name, "fs/write_text_file");
	size_t open = 0;

	for (const struct errand *at = serve->errands; at; at = at->next)
		open++;
	if (open >= OPEN_MOST)
		return "too many requests at once";
	if (methods[method].has_path && *acp_text(params, "path") != '/')
		return "'path' is absolute";
	if (methods[method].has_path && is_write != json_is_string(content))
		return "'content' is a text to write";
	if (json_string_length(content) > TEXT_MOST)
		return "'content' has more than 1 MiB: write it inside";
	if (methods[method].begin != begin_terminal)
		return NULL;
	if (!*acp_text(params, "command"))
		return "'command' is missing";
	return json_object_size(serve->terminals) >= TERMINALS_MOST ? "too many terminals" : NULL;
}

static struct errand *add(struct serve *serve, size_t method, const json_t *id,
                          const json_t *params)
{
	struct errand *errand = mem_new(struct errand);
	struct errand **at = &serve->errands;

	*errand = (struct errand){.serve = serve,
	                          .method = method,
	                          .id = json_deep_copy(id),
	                          .params = params ? json_deep_copy(params) : json_object(),
	                          .exec = id_new("ex")};
	buf_init(&errand->input, TEXT_MOST);
	while (*at)
		at = &(*at)->next;
	*at = errand;
	serve->is_used = true;
	return errand;
}

static size_t find_method(const char *name)
{
	size_t i = 0;

	while (i < ARRAY_LEN(methods) && !str_eq(methods[i].name, name))
		i++;
	return i;
}

bool serve_ask(struct serve *serve, const struct acp_message *message)
{
	size_t method = find_method(message->method);
	const char *why;

	if (method == ARRAY_LEN(methods))
		return false;
	why = problem(serve, method, message->params);
	if (why)
		serve->ops->answer(message->id, NULL, ACP_ERR_PARAMS, why, serve->ctx);
	else
		(void)add(serve, method, message->id, message->params);
	return true;
}

struct serve *serve_new(struct job *job, const struct serve_ops *ops, void *ctx)
{
	struct serve *serve = mem_new(struct serve);

	*serve = (struct serve){.job = job, .ops = ops, .ctx = ctx, .terminals = json_object()};
	return serve;
}

/* Nobody waits for it any more. */
static void leave(struct errand *errand)
{
	struct serve *serve = errand->serve;
	struct engine *engine = engine_of(serve);
	bool is_under_way = errand->has_begun && !errand->is_started && !errand->question.text[0];

	if (!serve->job->tasks->is_shut) {
		if (errand->question.text[0])
			engine->ops->approval_withdraw(engine, errand->question.text);
		if (errand->watch.live)
			engine->ops->unwatch(engine, &errand->watch);
		if (errand->is_started && methods[errand->method].has_path)
			engine->ops->abandon(engine, sandbox_of(serve), errand->exec.text);
	}
	errand->serve = NULL;
	if (is_under_way)
		serve->job->pending--; /* its answer frees it */
	else
		errand_free(errand);
}

void serve_free(struct serve *serve)
{
	if (!serve)
		return;
	while (serve->errands) {
		struct errand *errand = serve->errands;

		serve->errands = errand->next;
		leave(errand);
	}
	json_decref(serve->terminals);
	mem_freep(&serve);
}

bool serve_is_used(const struct serve *serve)
{
	return serve->is_used;
}

void serve_cancel(struct serve *serve)
{
	struct engine *engine = engine_of(serve);
	struct errand *next;

	for (struct errand *at = serve->errands; at; at = next) {
		next = at->next;
		if (methods[at->method].begin != begin_question)
			continue;
		if (at->question.text[0])
			engine->ops->approval_withdraw(engine, at->question.text);
		done(at, acp_outcome(NULL), 0, NULL);
	}
}

/* --- what survives --- */

json_t *serve_save(struct serve *serve)
{
	json_t *open = json_array();

	for (struct errand *at = serve->errands; at; at = at->next) {
		at->is_saved = true;
		json_array_append_new(open, json_pack("{s:O, s:s, s:O, s:s}", "id", at->id,
		                                      "method", methods[at->method].name, "params",
		                                      at->params, "exec", at->exec.text));
	}
	return json_pack("{s:o, s:O}", "open", open, "terminals", serve->terminals);
}

void serve_committed(struct serve *serve)
{
	struct errand *at = serve->errands;

	while (at) {
		if (!at->is_saved || at->has_begun) {
			at = at->next;
			continue;
		}
		at->has_begun = true;
		methods[at->method].begin(at);
		at = serve->errands; /* some are answered at once, which changes the list */
	}
}

void serve_restore(struct serve *serve, const json_t *state)
{
	const json_t *terminals = json_object_get(state, "terminals");
	json_t *item;
	size_t i;

	serve->is_used = state != NULL;
	if (terminals)
		json_object_update(serve->terminals, (json_t *)terminals);
	json_array_foreach (json_object_get(state, "open"), i, item) {
		size_t method = find_method(acp_text(item, "method"));
		struct errand *errand;

		if (method == ARRAY_LEN(methods))
			continue;
		errand = add(serve, method, json_object_get(item, "id"),
		             json_object_get(item, "params"));
		(void)!str_copy(errand->exec.text, sizeof(errand->exec.text),
		                acp_text(item, "exec"));
		errand->is_saved = true;
	}
}

/* `cloche task`: run, create, start, retry, wait, stop. */
#include "cli/task.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/io.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/attach.h"
#include "cli/client.h"
#include "cli/commands.h"
#include "cli/encode.h"
#include "cli/output.h"
#include "cli/spec.h"
#include "cli/term.h"

enum { FILE_MOST = 700 * 1024 };

struct task_options {
	const char *instruction, *file;
	const char *repository, *branch, *resume_from, *schema;
	const char *title, *agent, *profile, *environment, *runtime, *team, *user, *origin, *budget,
		*key;
	uint64_t timeout_ms, idle_ms, priority;
	struct opt_list scopes, capabilities, domains, env, labels, limits, inputs;
	bool wait, detach;
};

static void options_done(struct task_options *options)
{
	opt_list_done(&options->scopes);
	opt_list_done(&options->capabilities);
	opt_list_done(&options->domains);
	opt_list_done(&options->env);
	opt_list_done(&options->labels);
	opt_list_done(&options->limits);
	opt_list_done(&options->inputs);
}

/* --- the request --- */

static void put_text(json_t *body, const char *name, const char *text)
{
	if (text)
		json_object_set_new(body, name, json_string(text));
}

static void put_ms(json_t *body, const char *name, uint64_t ms)
{
	if (ms)
		json_object_set_new(body, name, json_integer((json_int_t)ms));
}

static void put_list(json_t *body, const char *name, const struct opt_list *list)
{
	json_t *items;

	if (list->count == 0)
		return;
	items = json_array();
	for (size_t i = 0; i < list->count; i++)
		json_array_append_new(items, json_string(list->items[i]));
	json_object_set_new(body, name, items);
}

/* KEY=VALUE entries as an object. */
static int put_map(json_t *body, const char *name, const struct opt_list *list, struct err *err)
{
	json_t *map;

	if (list->count == 0)
		return 0;
	map = json_object();
	json_object_set_new(body, name, map);
	for (size_t i = 0; i < list->count; i++) {
		size_t len = strcspn(list->items[i], "=");
		auto_free char *key = mem_strndup(list->items[i], len);

		if (list->items[i][len] != '=')
			return err_set(err, ERR_INVALID, "'%s' is not NAME=VALUE", list->items[i]);
		json_object_set_new(map, key, json_string(list->items[i] + len + 1));
	}
	return 0;
}

/* SOURCE:TARGET; the file travels in the request. */
static int add_input(json_t *inputs, const char *text, struct err *err)
{
	const char *colon = strrchr(text, ':');
	auto_free char *source = colon ? mem_strndup(text, (size_t)(colon - text)) : NULL;
	auto_free char *bytes = NULL;
	auto_free char *coded = NULL;
	struct buf base64;
	size_t len;
	int r;

	if (!colon || colon == text || !colon[1])
		return err_set(err, ERR_INVALID, "--input is FILE:TARGET");
	r = io_read_file(AT_FDCWD, source, FILE_MOST, &bytes, &len);
	if (r < 0)
		return err_sys(err, -r, "read %s", source);
	buf_init(&base64, 2 * FILE_MOST);
	r = encode_base64(&base64, bytes, len);
	coded = buf_take_string(&base64);
	buf_done(&base64);
	if (r < 0)
		return err_set(err, ERR_TOO_LARGE, "%s is too large", source);
	json_array_append_new(inputs,
	                      json_pack("{s:s, s:s}", "path", colon + 1, "contentBase64", coded));
	return 0;
}

static int read_all(int fd, char **ret, struct err *err)
{
	struct buf text;
	ssize_t r;

	buf_init(&text, LIMIT_JSON_BODY_BYTES);
	while ((r = buf_read_fd(&text, fd, 64 * 1024)) > 0)
		;
	*ret = buf_take_string(&text);
	buf_done(&text);
	return r < 0 ? err_sys(err, (int)-r, "read the instruction") : 0;
}

/* From the argument, --instruction, a file or standard input. */
static int put_instruction(struct cli *cli, const struct task_options *options, json_t *body)
{
	const char *text = options->instruction ? options->instruction
	                   : cli->argc > 0      ? cli->argv[0]
	                                        : NULL;
	const char *file = options->file ? options->file : text && str_eq(text, "-") ? "-" : NULL;
	auto_free char *read = NULL;
	auto_close int fd = -1;

	if (!text && !file)
		return err_set(&cli->err, ERR_INVALID,
		               "say what to do: an argument, --file FILE, or - for standard input");
	if (file && !str_eq(file, "-")) {
		fd = open(file, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			return err_sys(&cli->err, errno, "open %s", file);
	}
	if (file && read_all(fd >= 0 ? fd : STDIN_FILENO, &read, &cli->err) < 0)
		return -1;
	if (json_object_set_new(body, "instruction", json_string(file ? read : text)) < 0)
		return err_set(&cli->err, ERR_INVALID, "the instruction is not UTF-8");
	return 0;
}

/* A file, or the schema itself. */
static int put_schema(json_t *body, const char *schema, struct err *err)
{
	auto_free char *text = NULL;
	json_error_t where;
	json_t *json;
	size_t len;
	int r;

	if (!schema)
		return 0;
	if (*schema == '{') {
		json = json_loads(schema, JSON_REJECT_DUPLICATES, &where);
	} else {
		r = io_read_file(AT_FDCWD, schema, FILE_MOST, &text, &len);
		if (r < 0)
			return err_sys(err, -r, "read %s", schema);
		json = json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &where);
	}
	if (!json)
		return err_set(err, ERR_INVALID, "--output-schema: line %d: %s", where.line,
		               where.text);
	json_object_set_new(body, "outputSchema", json);
	return 0;
}

static json_t *body_of(struct cli *cli, const struct task_options *options)
{
	auto_json json_t *body = json_object();
	json_t *inputs = json_array();
	json_t *env = json_object();

	json_object_set_new(body, "inputs", inputs);
	json_object_set_new(body, "env", env);
	put_text(body, "title", options->title);
	put_text(body, "agent", options->agent);
	put_text(body, "profile", options->profile);
	put_text(body, "environment", options->environment);
	put_text(body, "sandboxRuntime", options->runtime);
	put_text(body, "repository", options->repository);
	put_text(body, "branch", options->branch);
	put_text(body, "resumeFrom", options->resume_from);
	put_text(body, "team", options->team);
	put_text(body, "userId", options->user);
	put_text(body, "originProduct", options->origin ? options->origin : "cli");
	put_ms(body, "timeout", options->timeout_ms);
	put_ms(body, "idleTimeout", options->idle_ms);
	put_ms(body, "priority", options->priority);
	put_list(body, "scopes", &options->scopes);
	put_list(body, "capabilities", &options->capabilities);
	put_list(body, "extraDomains", &options->domains);
	if (options->budget) {
		char *end;
		double dollars = strtod(options->budget, &end);

		if (*end || end == options->budget) {
			(void)err_set(&cli->err, ERR_INVALID, "--budget is in dollars: 0.50");
			return NULL;
		}
		json_object_set_new(body, "budget", json_real(dollars));
	}
	if (put_instruction(cli, options, body) < 0 ||
	    put_schema(body, options->schema, &cli->err) < 0 ||
	    cli_spec_add_env(env, &options->env, &cli->err) < 0 ||
	    put_map(body, "labels", &options->labels, &cli->err) < 0 ||
	    put_map(body, "limits", &options->limits, &cli->err) < 0)
		return NULL;
	for (size_t i = 0; i < options->inputs.count; i++) {
		if (add_input(inputs, options->inputs.items[i], &cli->err) < 0)
			return NULL;
	}
	return take_ptr(body);
}

#define TASK_OPTS(o)                                                                               \
	{"instruction", 'i', OPT_STR, &(o).instruction, "TEXT", "what to do"},                     \
		{"file", 'F', OPT_STR, &(o).file, "FILE", "read it from a file"},                  \
		{"title", 't', OPT_STR, &(o).title, "TEXT", "for people"},                         \
		{"agent", 'a', OPT_STR, &(o).agent, "NAME", "who does it (shell)"},                \
		{"timeout",                                                                        \
	         'T',                                                                              \
	         OPT_MS,                                                                           \
	         &(o).timeout_ms,                                                                  \
	         "TIME",                                                                           \
	         "ends it after this time: 30s for a question, 1m for a look around, 3m for an "   \
	         "edit, 5m for a feature (the default), 10m for more"},                            \
		{"idle-timeout", 0, OPT_MS, &(o).idle_ms, "TIME", "ends it when nothing happens"}, \
		{"scope", 0, OPT_LIST, &(o).scopes, "SCOPE", "of its credential; may repeat"},     \
		{"capability", 0, OPT_LIST, &(o).capabilities, "WORD", "it needs; may repeat"},    \
		{"profile", 0, OPT_STR, &(o).profile, "NAME", "recipe of its sandbox"},            \
		{"environment", 0, OPT_STR, &(o).environment, "NAME", "network policy"},           \
		{"allow", 0, OPT_LIST, &(o).domains, "DOMAIN", "on top of it; may repeat"},        \
		{"runtime", 0, OPT_STR, &(o).runtime, "NAME", "what isolates it"},                 \
		{"env", 'e', OPT_LIST, &(o).env, "NAME[=VALUE]", "of its commands; may repeat"},   \
		{"limit", 0, OPT_LIST, &(o).limits, "NAME=VALUE", "memory=1G; may repeat"},        \
		{"input", 0, OPT_LIST, &(o).inputs, "FILE:TARGET", "a file for it; may repeat"},   \
		{"repository", 0, OPT_STR, &(o).repository, "ORG/NAME", "to clone into it"},       \
		{"branch", 0, OPT_STR, &(o).branch, "NAME", "of the repository"},                  \
		{"resume-from",    0,    OPT_STR,                                                  \
	         &(o).resume_from, "ID", "a run or task whose files to go on with"},               \
		{"output-schema", 0,      OPT_STR,                                                 \
	         &(o).schema,     "FILE", "JSON Schema its result must fit"},                      \
		{"label", 0, OPT_LIST, &(o).labels, "KEY=VALUE", "may repeat"},                    \
		{"priority", 0, OPT_U64, &(o).priority, "N", "0 to 100"},                          \
		{"budget", 0, OPT_STR, &(o).budget, "DOLLARS", "what it may spend"},               \
		{"team", 0, OPT_STR, &(o).team, "NAME", "whose it is"},                            \
		{"user", 0, OPT_STR, &(o).user, "NAME", "who it is for; admins only"},             \
		{"origin", 0, OPT_STR, &(o).origin, "NAME", "what it comes from"},                 \
	{                                                                                          \
		"key", 0, OPT_STR, &(o).key, "TEXT", "asking again with it does nothing twice"     \
	}

static int post(struct cli *cli, const char *target, const struct task_options *options,
                json_t **ret)
{
	auto_json json_t *body = body_of(cli, options);
	auto_free char *text = NULL;
	auto_free char *headers =
		options->key ? mem_printf("Idempotency-Key: %s\r\n", options->key) : NULL;

	if (body == NULL)
		return -1;
	text = json_dumps(body, JSON_COMPACT);
	const struct http_request request = {.method = "POST",
	                                     .target = target,
	                                     .headers = headers,
	                                     .content_type = "application/json",
	                                     .body = text,
	                                     .body_len = strlen(text)};

	if (client_send(cli, &request) < 0 || client_read_json(cli, ret) < 0)
		return -1;
	return 0;
}

/* --- run --- */

static const char *id_of(const json_t *answer)
{
	return client_str(json_object_get(answer, "task"), "id");
}

/* People at a terminal wait, scripts go on: unless they say otherwise. */
static int show_started(struct cli *cli, const json_t *answer, const struct task_options *options)
{
	bool waits = options->wait || (!options->detach && term_is_interactive());
	const char *id = id_of(answer);

	if (!waits) {
		if (!output_json(cli, answer))
			output_line(id);
		return 0;
	}
	return task_follow(cli, id, 0) < 0 ? -1 : task_show_end(cli, id);
}

static int check_waiting(struct cli *cli, const struct task_options *options)
{
	if (options->wait && options->detach)
		return err_set(&cli->err, ERR_INVALID, "--wait and --detach exclude each other");
	return 0;
}

int cmd_task_run(struct cli *cli)
{
	auto_(options_done) struct task_options options = {0};
	const struct opt opts[] = {
		TASK_OPTS(options),
		{"wait", 'w', OPT_FLAG, &options.wait, NULL, "until it is over (on a terminal)"},
		{"detach", 'd', OPT_FLAG, &options.detach, NULL, "do not wait (in a pipe)"},
		{0},
	};
	auto_json json_t *answer = NULL;
	int r = cli_parse(cli, opts, 0, 1);

	if (r <= 0)
		return r;
	if (check_waiting(cli, &options) < 0)
		return -1;
	if (post(cli, "/api/v1/tasks/run", &options, &answer) < 0)
		return -1;
	return show_started(cli, answer, &options);
}

int cmd_task_create(struct cli *cli)
{
	auto_(options_done) struct task_options options = {0};
	const struct opt opts[] = {TASK_OPTS(options), {0}};
	auto_json json_t *answer = NULL;
	int r = cli_parse(cli, opts, 0, 1);

	if (r <= 0)
		return r;
	if (post(cli, "/api/v1/tasks", &options, &answer) < 0)
		return -1;
	if (!output_json(cli, answer))
		output_line(id_of(answer));
	return 0;
}

/* The first run of a task, or another. */
static int start(struct cli *cli, bool resumes)
{
	struct task_options options = {0};
	const struct opt opts[] = {
		{"timeout", 'T', OPT_MS, &options.timeout_ms, "TIME", "as the run before"},
		{"idle-timeout", 0, OPT_MS, &options.idle_ms, "TIME", "as the run before"},
		{"priority", 0, OPT_U64, &options.priority, "N", "as the run before"},
		{"wait", 'w', OPT_FLAG, &options.wait, NULL, "until it is over (on a terminal)"},
		{"detach", 'd', OPT_FLAG, &options.detach, NULL, "do not wait (in a pipe)"},
		{0},
	};
	auto_json json_t *answer = NULL;
	auto_json json_t *body = json_object();
	int r = cli_parse(cli, opts, 1, 1);

	if (r <= 0)
		return r;
	if (check_waiting(cli, &options) < 0)
		return -1;
	auto_free char *target = client_target("/tasks/%s/runs", cli->argv[0]);

	put_ms(body, "timeout", options.timeout_ms);
	put_ms(body, "idleTimeout", options.idle_ms);
	put_ms(body, "priority", options.priority);
	if (resumes)
		put_text(body, "resumeFrom", cli->argv[0]);
	if (client_json(cli, "POST", target, body, &answer) < 0)
		return -1;
	return show_started(cli, answer, &options);
}

int cmd_task_start(struct cli *cli)
{
	return start(cli, false);
}

int cmd_task_retry(struct cli *cli)
{
	return start(cli, false);
}

int cmd_task_resume(struct cli *cli)
{
	return start(cli, true);
}

int cmd_task_wait(struct cli *cli)
{
	uint64_t timeout_ms = 0;
	const struct opt opts[] = {
		{"timeout", 'T', OPT_MS, &timeout_ms, "TIME", "give up after this time"},
		{0},
	};
	int r = cli_parse(cli, opts, 1, 1);

	if (r <= 0)
		return r;
	if (task_follow(cli, cli->argv[0], timeout_ms) < 0)
		return -1;
	return task_show_end(cli, cli->argv[0]);
}

int cmd_task_stop(struct cli *cli)
{
	const char *reason = NULL;
	const struct opt opts[] = {
		{"reason", 'r', OPT_STR, &reason, "TEXT", "kept with it"},
		{0},
	};
	int r = cli_parse(cli, opts, 1, -1);

	if (r <= 0)
		return r;
	for (int i = 0; i < cli->argc; i++) {
		auto_free char *target = client_target("/tasks/%s/stop", cli->argv[i]);
		auto_json json_t *body = json_object();
		auto_json json_t *answer = NULL;

		put_text(body, "reason", reason);
		if (client_json(cli, "POST", target, body, &answer) < 0)
			return err_wrap(&cli->err, "stop %s", cli->argv[i]);
		(void)output_json(cli, answer);
	}
	return 0;
}

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
#include "cli/body.h"
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
	const char *title, *agent, *model, *effort, *permissions, *profile, *environment, *runtime,
		*team, *user, *origin, *budget, *key;
	uint64_t timeout_ms, idle_ms, priority;
	const char *pr_title, *pr_body, *base, *author;
	struct opt_list skills, scopes, capabilities, domains, env, labels, limits, inputs, servers,
		pr_labels;
	bool wait, detach, interactive, pr, no_pr, draft;
};

static void options_done(struct task_options *options)
{
	opt_list_done(&options->scopes);
	opt_list_done(&options->skills);
	opt_list_done(&options->capabilities);
	opt_list_done(&options->domains);
	opt_list_done(&options->env);
	opt_list_done(&options->labels);
	opt_list_done(&options->limits);
	opt_list_done(&options->inputs);
	opt_list_done(&options->servers);
	opt_list_done(&options->pr_labels);
}

/* --- the request --- */

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

int task_read_all(int fd, char **ret, struct err *err)
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
	if (file && task_read_all(fd >= 0 ? fd : STDIN_FILENO, &read, &cli->err) < 0)
		return -1;
	if (json_object_set_new(body, "instruction", json_string(file ? read : text)) < 0)
		return err_set(&cli->err, ERR_INVALID, "the instruction is not UTF-8");
	return 0;
}

/* A file, or the schema itself. */
int task_put_schema(json_t *body, const char *schema, struct err *err)
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

/* A program inside, its arguments after blanks. */
static json_t *program_of(const char *text)
{
	auto_free char *words = mem_strdup(text);
	char *rest = words, *word = strsep(&rest, " ");
	json_t *args = json_array();
	json_t *server = json_pack("{s:s, s:o}", "command", word, "args", args);

	while ((word = strsep(&rest, " "))) {
		if (*word)
			json_array_append_new(args, json_string(word));
	}
	return server;
}

/* NAME=URL or NAME=PROGRAM. */
static int put_servers(json_t *body, const struct opt_list *servers, struct err *err)
{
	json_t *all = json_object();

	if (servers->count > 0)
		json_object_set(body, "mcpServers", all);
	json_decref(all); /* the body has it, or nobody */
	for (size_t i = 0; i < servers->count; i++) {
		const char *equals = strchr(servers->items[i], '=');
		auto_free char *name = mem_strndup(
			servers->items[i], equals ? (size_t)(equals - servers->items[i]) : 0);
		json_t *server = NULL;

		if (equals && strstr(equals, "://"))
			server = json_pack("{s:s}", "url", equals + 1);
		else if (equals && equals[1])
			server = program_of(equals + 1);
		if (!server || json_object_set_new(all, name, server) < 0)
			return err_set(err, ERR_INVALID,
			               "--mcp is NAME=URL or NAME='PROGRAM ARG…'");
	}
	return 0;
}

/* "NAME <EMAIL>" */
static int put_author(json_t *body, const char *author, struct err *err)
{
	const char *open = author ? strrchr(author, '<') : NULL;
	size_t len = author ? strlen(author) : 0, name = open ? (size_t)(open - author) : 0;
	json_t *object;

	if (!author)
		return 0;
	while (name > 0 && author[name - 1] == ' ')
		name--;
	if (!open || name == 0 || author[len - 1] != '>')
		return err_set(err, ERR_INVALID, "--commit-as is \"NAME <EMAIL>\"");
	object = json_object();
	json_object_set_new(object, "name", json_stringn(author, name));
	json_object_set_new(object, "email",
	                    json_stringn(open + 1, len - 2 - (size_t)(open - author)));
	json_object_set_new(body, "commitAs", object);
	return 0;
}

static int put_repository(json_t *body, const struct task_options *options, struct err *err)
{
	json_t *pull = json_object();

	if (options->pr && options->no_pr) {
		json_decref(pull);
		return err_set(err, ERR_INVALID, "--pr and --no-pr exclude each other");
	}
	body_put_text(body, "repository", options->repository);
	body_put_text(body, "branch", options->branch);
	if (options->pr || options->no_pr)
		json_object_set_new(body, "createPr", json_boolean(options->pr));
	body_put_text(pull, "title", options->pr_title);
	body_put_text(pull, "body", options->pr_body);
	body_put_text(pull, "base", options->base);
	body_put_list(pull, "labels", &options->pr_labels);
	if (options->draft)
		json_object_set_new(pull, "draft", json_true());
	if (json_object_size(pull) > 0)
		json_object_set(body, "pullRequest", pull);
	json_decref(pull);
	return put_author(body, options->author, err);
}

static json_t *body_of(struct cli *cli, const struct task_options *options)
{
	auto_json json_t *body = json_object();
	json_t *inputs = json_array();
	json_t *env = json_object();

	json_object_set_new(body, "inputs", inputs);
	json_object_set_new(body, "env", env);
	body_put_text(body, "title", options->title);
	body_put_text(body, "agent", options->agent);
	body_put_text(body, "model", options->model);
	body_put_text(body, "reasoningEffort", options->effort);
	body_put_text(body, "permissions", options->permissions);
	body_put_text(body, "profile", options->profile);
	body_put_text(body, "environment", options->environment);
	body_put_text(body, "sandboxRuntime", options->runtime);
	body_put_text(body, "resumeFrom", options->resume_from);
	body_put_text(body, "mode", options->interactive ? "interactive" : NULL);
	body_put_text(body, "team", options->team);
	body_put_text(body, "userId", options->user);
	body_put_text(body, "originProduct", options->origin ? options->origin : "cli");
	body_put_ms(body, "timeout", options->timeout_ms);
	body_put_ms(body, "idleTimeout", options->idle_ms);
	body_put_ms(body, "priority", options->priority);
	body_put_list(body, "scopes", &options->scopes);
	body_put_list(body, "skills", &options->skills);
	body_put_list(body, "capabilities", &options->capabilities);
	body_put_list(body, "extraDomains", &options->domains);
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
	    put_repository(body, options, &cli->err) < 0 ||
	    task_put_schema(body, options->schema, &cli->err) < 0 ||
	    put_servers(body, &options->servers, &cli->err) < 0 ||
	    cli_spec_add_env(env, &options->env, &cli->err) < 0 ||
	    body_put_map(body, "labels", &options->labels, &cli->err) < 0 ||
	    body_put_map(body, "limits", &options->limits, &cli->err) < 0)
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
		{"model", 0, OPT_STR, &(o).model, "NAME", "to ask (the provider's default)"},      \
		{"effort",    0,       OPT_STR,                                                    \
	         &(o).effort, "LEVEL", "how hard it thinks: minimal, low, medium, high"},          \
		{"permissions",    0,      OPT_STR,                                                \
	         &(o).permissions, "WORD", "what it is told that asks: allow, deny, ask"},         \
		{"mcp",                                                                            \
	         0,                                                                                \
	         OPT_LIST,                                                                         \
	         &(o).servers,                                                                     \
	         "NAME=URL|PROGRAM",                                                               \
	         "server of MCP for it; may repeat"},                                              \
		{"interactive", 0,                                                                 \
	         OPT_FLAG,      &(o).interactive,                                                  \
	         NULL,          "it takes commands after its instruction: cloche task attach"},    \
		{"scope", 0, OPT_LIST, &(o).scopes, "SCOPE", "of its credential; may repeat"},     \
		{"skill", 0, OPT_LIST, &(o).skills, "NAME", "it is shown; may repeat"},            \
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
		{"pr", 0, OPT_FLAG, &(o).pr, NULL, "open a pull request (with a repository)"},     \
		{"no-pr", 0, OPT_FLAG, &(o).no_pr, NULL, "open none"},                             \
		{"draft", 0, OPT_FLAG, &(o).draft, NULL, "a draft of one"},                        \
		{"base", 0, OPT_STR, &(o).base, "NAME", "branch to merge into"},                   \
		{"pr-title", 0, OPT_STR, &(o).pr_title, "TEXT", "of the pull request"},            \
		{"pr-body", 0, OPT_STR, &(o).pr_body, "TEXT", "of the pull request"},              \
		{"pr-label", 0, OPT_LIST, &(o).pr_labels, "LABEL", "of it; may repeat"},           \
		{"commit-as", 0, OPT_STR, &(o).author, "\"NAME <EMAIL>\"", "who commits"},         \
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

	body_put_ms(body, "timeout", options.timeout_ms);
	body_put_ms(body, "idleTimeout", options.idle_ms);
	body_put_ms(body, "priority", options.priority);
	if (resumes)
		body_put_text(body, "resumeFrom", cli->argv[0]);
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

		body_put_text(body, "reason", reason);
		if (client_json(cli, "POST", target, body, &answer) < 0)
			return err_wrap(&cli->err, "stop %s", cli->argv[i]);
		(void)output_json(cli, answer);
	}
	return 0;
}

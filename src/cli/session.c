/* `cloche session`: an agent that stays for many turns. */
#include "cli/session.h"

#include <fcntl.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/io.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/body.h"
#include "cli/client.h"
#include "cli/commands.h"
#include "cli/events.h"
#include "cli/output.h"
#include "cli/spec.h"
#include "cli/task.h"

enum { CONTEXT_MOST = 64 * 1024, LATE = 124, WAIT_S = 25 };

struct start_options {
	const char *agent, *model, *profile, *sandbox, *environment, *repository, *branch;
	const char *title, *context, *schema, *step, *message, *budget, *key, *permissions;
	uint64_t timeout_ms, idle_ms, turn_ms;
	struct opt_list scopes, domains, env, labels;
	bool detach;
};

static void options_done(struct start_options *options)
{
	opt_list_done(&options->scopes);
	opt_list_done(&options->domains);
	opt_list_done(&options->env);
	opt_list_done(&options->labels);
}

/* A prompt from the argument, or from standard input. */
static int put_prompt(struct cli *cli, int at, json_t *body)
{
	const char *text = cli->argc > at ? cli->argv[at] : NULL;
	auto_free char *read = NULL;

	if (text && str_eq(text, "-")) {
		if (task_read_all(STDIN_FILENO, &read, &cli->err) < 0)
			return -1;
		text = read;
	}
	if (text && json_object_set_new(body, "prompt", json_string(text)) < 0)
		return err_set(&cli->err, ERR_INVALID, "the prompt is not UTF-8");
	return 0;
}

/* --- what came of a turn --- */

static void print_answer(const json_t *turn)
{
	const json_t *output = json_object_get(turn, "output");
	const json_t *text = json_object_get(turn, "text");
	auto_free char *json = NULL;

	if (output && !json_is_null(output)) {
		json = json_dumps(output, JSON_COMPACT | JSON_ENCODE_ANY);
		(void)printf("%s\n", json ? json : "");
	} else if (json_string_length(text) > 0) {
		output_text(stdout, text);
		(void)putchar('\n');
	}
	(void)fflush(stdout);
}

int session_show_turn(const json_t *turn)
{
	const char *status = client_str(turn, "status");
	const char *detail = client_str(turn, "detail");
	char shown[600];

	if (str_eq(status, "completed")) {
		print_answer(turn);
		return 0;
	}
	if (str_eq(status, "queued") || str_eq(status, "running")) {
		output_line(client_str(turn, "id"));
		return 0;
	}
	str_escape(shown, sizeof(shown), detail, strlen(detail));
	(void)fprintf(stderr, "cloche: turn %s %s (%s)%s%s\n", client_str(turn, "id"), status,
	              client_str(turn, "reason"), *shown ? ": " : "", shown);
	return str_eq(client_str(turn, "reason"), "timeout") ? LATE : 1;
}

int session_post(struct cli *cli, const char *target, const json_t *body, const char *headers,
                 json_t **ret)
{
	auto_free char *text = json_dumps(body, JSON_COMPACT);
	const struct http_request request = {.method = "POST",
	                                     .target = target,
	                                     .headers = headers,
	                                     .content_type = "application/json",
	                                     .body = text,
	                                     .body_len = strlen(text)};

	return client_send(cli, &request) < 0 || client_read_json(cli, ret) < 0 ? -1 : 0;
}

/* --- start --- */

/* A file with an object, or the object itself. */
static int put_context(json_t *body, const char *context, struct err *err)
{
	auto_free char *text = NULL;
	json_error_t where;
	json_t *json;
	size_t len;
	int r;

	if (!context)
		return 0;
	if (*context != '{') {
		r = io_read_file(AT_FDCWD, context, CONTEXT_MOST, &text, &len);
		if (r < 0)
			return err_sys(err, -r, "read %s", context);
	}
	json = json_loads(text ? text : context, JSON_REJECT_DUPLICATES, &where);
	if (!json)
		return err_set(err, ERR_INVALID, "--context: line %d: %s", where.line, where.text);
	json_object_set_new(body, "context", json);
	return 0;
}

/* What is not said is not sent: in a sandbox that is there nothing of it can be chosen. */
static int put_lists(struct cli *cli, const struct start_options *options, json_t *body)
{
	auto_json json_t *env = json_object();

	body_put_list(body, "scopes", &options->scopes);
	body_put_list(body, "extraDomains", &options->domains);
	if (cli_spec_add_env(env, &options->env, &cli->err) < 0)
		return -1;
	if (json_object_size(env) > 0)
		json_object_set(body, "env", env);
	return body_put_map(body, "labels", &options->labels, &cli->err);
}

static json_t *body_of(struct cli *cli, const struct start_options *options)
{
	auto_json json_t *body = json_object();
	char *end = NULL;

	body_put_text(body, "agent", options->agent);
	body_put_text(body, "model", options->model);
	body_put_text(body, "profile", options->profile);
	body_put_text(body, "sandbox", options->sandbox);
	body_put_text(body, "environment", options->environment);
	body_put_text(body, "repository", options->repository);
	body_put_text(body, "branch", options->branch);
	body_put_text(body, "title", options->title);
	body_put_text(body, "stepName", options->step);
	body_put_text(body, "messageId", options->message);
	body_put_text(body, "permissions", options->permissions);
	body_put_text(body, "originProduct", "cli");
	body_put_ms(body, "timeout", options->timeout_ms);
	body_put_ms(body, "idleTimeout", options->idle_ms);
	body_put_ms(body, "turnTimeout", options->turn_ms);
	if (options->budget) {
		json_object_set_new(body, "budget", json_real(strtod(options->budget, &end)));
		if (*end || end == options->budget) {
			(void)err_set(&cli->err, ERR_INVALID, "--budget is in dollars: 0.50");
			return NULL;
		}
	}
	if (put_prompt(cli, 0, body) < 0 || task_put_schema(body, options->schema, &cli->err) < 0 ||
	    put_context(body, options->context, &cli->err) < 0 || put_lists(cli, options, body) < 0)
		return NULL;
	return take_ptr(body);
}

#define START_OPTS(o)                                                                              \
	{"agent", 'a', OPT_STR, &(o).agent, "NAME", "who answers (cloche-agent)"},                 \
		{"model", 'm', OPT_STR, &(o).model, "NAME", "of the agent"},                       \
		{"profile", 0, OPT_STR, &(o).profile, "NAME", "recipe of its sandbox"},            \
		{"sandbox", 's', OPT_STR, &(o).sandbox, "ID", "one that runs, and stays"},         \
		{"environment", 0, OPT_STR, &(o).environment, "NAME", "network policy"},           \
		{"allow", 0, OPT_LIST, &(o).domains, "DOMAIN", "on top of it; may repeat"},        \
		{"repository", 0, OPT_STR, &(o).repository, "ORG/NAME", "to clone into it"},       \
		{"branch", 0, OPT_STR, &(o).branch, "NAME", "of the repository"},                  \
		{"context", 0, OPT_STR, &(o).context, "FILE", "an object the agent is told"},      \
		{"output-schema", 0, OPT_STR, &(o).schema, "FILE", "of the first answer"},         \
		{"step-name", 0, OPT_STR, &(o).step, "TEXT", "label of the first turn"},           \
		{"message-id", 0, OPT_STR, &(o).message, "TEXT", "of the first turn"},             \
		{"turn-timeout", 0, OPT_MS, &(o).turn_ms, "TIME", "of the first turn"},            \
		{"timeout", 'T', OPT_MS, &(o).timeout_ms, "TIME", "ends it after this time"},      \
		{"idle-timeout", 0, OPT_MS, &(o).idle_ms, "TIME", "of waiting for a turn"},        \
		{"permissions", 0, OPT_STR, &(o).permissions, "POLICY", "when the agent asks"},    \
		{"scope", 0, OPT_LIST, &(o).scopes, "SCOPE", "of its credential; may repeat"},     \
		{"env", 'e', OPT_LIST, &(o).env, "NAME[=VALUE]", "of its commands; may repeat"},   \
		{"label", 0, OPT_LIST, &(o).labels, "KEY=VALUE", "may repeat"},                    \
		{"title", 't', OPT_STR, &(o).title, "TEXT", "for people"},                         \
		{"budget", 0, OPT_STR, &(o).budget, "DOLLARS", "what it may spend"},               \
		{"key", 0, OPT_STR, &(o).key, "TEXT", "asking again with it does nothing twice"},  \
	{                                                                                          \
		"detach", 'd', OPT_FLAG, &(o).detach, NULL, "do not wait for the first turn"       \
	}

int cmd_session_start(struct cli *cli)
{
	auto_(options_done) struct start_options options = {0};
	const struct opt opts[] = {START_OPTS(options), {0}};
	auto_json json_t *answer = NULL;
	int r = cli_parse(cli, opts, 0, 1);

	if (r <= 0)
		return r;
	auto_json json_t *body = body_of(cli, &options);
	auto_free char *headers =
		mem_printf("%s%s%s%s", options.detach ? "Prefer: respond-async\r\n" : "",
	                   options.key ? "Idempotency-Key: " : "", options.key ? options.key : "",
	                   options.key ? "\r\n" : "");

	if (!body || session_post(cli, "/api/v1/sessions", body, headers, &answer) < 0)
		return -1;
	const json_t *session = json_object_get(answer, "session");
	const json_t *turn = json_object_get(answer, "turn");
	bool has_turn = json_is_object(turn) && !options.detach;

	if (output_json(cli, answer))
		return 0;
	if (!has_turn) {
		output_line(client_str(session, "id"));
		return 0;
	}
	/* The answer may go into a pipe; which session it is, one still has to know. */
	(void)fprintf(stderr, "%s\n", client_str(session, "id"));
	return session_show_turn(turn);
}

/* --- send --- */

int cmd_session_send(struct cli *cli)
{
	const char *schema = NULL, *label = NULL, *message = NULL;
	uint64_t timeout_ms = 0;
	bool steer = false, detach = false;
	const struct opt opts[] = {
		{"output-schema", 0, OPT_STR, &schema, "FILE", "JSON Schema the answer must fit"},
		{"label", 'l', OPT_STR, &label, "TEXT", "for finding it again"},
		{"timeout", 'T', OPT_MS, &timeout_ms, "TIME", "cancels the turn after this time"},
		{"message-id", 0, OPT_STR, &message, "TEXT", "the same one is asked once"},
		{"steer", 0, OPT_FLAG, &steer, NULL, "cancels the turn that runs, and goes first"},
		{"detach", 'd', OPT_FLAG, &detach, NULL, "print the id of the turn, do not wait"},
		{0},
	};
	auto_json json_t *answer = NULL;
	auto_json json_t *body = json_object();
	int r = cli_parse(cli, opts, 2, 2);

	if (r <= 0)
		return r;
	auto_free char *target = client_target("/sessions/%s/turns", cli->argv[0]);

	body_put_text(body, "label", label);
	body_put_text(body, "messageId", message);
	body_put_ms(body, "timeout", timeout_ms);
	if (steer)
		json_object_set_new(body, "steer", json_true());
	if (put_prompt(cli, 1, body) < 0 || task_put_schema(body, schema, &cli->err) < 0 ||
	    session_post(cli, target, body, detach ? "Prefer: respond-async\r\n" : NULL, &answer) <
	            0)
		return -1;
	return output_json(cli, answer) ? 0 : session_show_turn(json_object_get(answer, "turn"));
}

/* --- looking --- */

int session_get(struct cli *cli, const char *id, json_t **ret)
{
	auto_free char *target = client_target("/sessions/%s", id);
	auto_json json_t *answer = NULL;

	if (client_get(cli, target, &answer) < 0)
		return -1;
	*ret = json_incref(json_object_get(answer, "session"));
	return 0;
}

static void show_session(struct cli *cli, const json_t *session)
{
	static const char *const facts[] = {"id",     "title",     "agent",      "agentVersion",
	                                    "model",  "status",    "phase",      "endReason",
	                                    "detail", "createdAt", "completedAt"};
	const json_t *sandbox = json_object_get(session, "sandbox");

	if (output_json(cli, session))
		return;
	for (size_t i = 0; i < ARRAY_LEN(facts); i++)
		output_fact(facts[i], "%s", client_str(session, facts[i]));
	output_fact("turns", "%llu, %llu wait", (unsigned long long)client_u64(session, "turns"),
	            (unsigned long long)client_u64(session, "queued"));
	output_fact("sandbox", "%s %s %s %s", client_str(sandbox, "sandbox_id"),
	            client_str(sandbox, "state"), client_str(sandbox, "profile"),
	            client_str(sandbox, "last_error"));
	output_fact("tokens", "%llu in, %llu out",
	            (unsigned long long)client_u64(session, "inputTokens"),
	            (unsigned long long)client_u64(session, "outputTokens"));
	output_fact("cost", "$%.6f", json_number_value(json_object_get(session, "cost")));
}

int cmd_session_status(struct cli *cli)
{
	static const struct opt opts[] = {{0}};
	auto_json json_t *session = NULL;
	int r = cli_parse(cli, opts, 1, 1);

	if (r <= 0)
		return r;
	if (session_get(cli, cli->argv[0], &session) < 0)
		return -1;
	show_session(cli, session);
	return 0;
}

int cmd_session_connect(struct cli *cli)
{
	static const struct opt opts[] = {{0}};
	static const char *const names[] = {"url", "token", "expiresAt"};
	auto_json json_t *session = NULL;
	auto_json json_t *link = NULL;
	auto_free char *target = NULL;
	const char *sandbox;
	int r = cli_parse(cli, opts, 1, 1);

	if (r <= 0)
		return r;
	if (session_get(cli, cli->argv[0], &session) < 0)
		return -1;
	sandbox = client_str(json_object_get(session, "sandbox"), "sandbox_id");
	if (!*sandbox)
		return err_set(&cli->err, ERR_CONFLICT, "session %s has no sandbox yet",
		               client_str(session, "id"));
	target = client_target("/sandboxes/%s/connect", sandbox);
	if (client_get(cli, target, &link) < 0)
		return -1;
	if (output_json(cli, link))
		return 0;
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		output_fact(names[i], "%s", client_str(link, names[i]));
	return 0;
}

int cmd_session_list(struct cli *cli)
{
	static const char *const titles[] = {"ID",    "STATUS", "PHASE",   "REASON",
	                                     "AGENT", "TURNS",  "CREATED", NULL};
	const char *status = NULL;
	uint64_t limit = 100;
	const struct opt opts[] = {
		{"status", 's', OPT_STR, &status, "STATE",
	         "pending, running, completed, failed or cancelled"},
		{"limit", 'n', OPT_U64, &limit, "N", "the newest so many (100)"},
		{0},
	};
	auto_free char *target = client_target("/sessions");
	auto_json json_t *page = NULL;
	struct output_table table;
	int r = cli_parse(cli, opts, 0, 0);
	size_t index;
	json_t *session;
	char number[24];

	if (r <= 0)
		return r;
	client_query_u64(&target, "limit", limit);
	client_query(&target, "state", status);
	if (client_get(cli, target, &page) < 0)
		return -1;
	const json_t *items = json_object_get(page, "items");

	if (output_json(cli, items))
		return 0;
	output_table_init(&table, titles);
	json_array_foreach (items, index, session) {
		(void)snprintf(number, sizeof(number), "%llu",
		               (unsigned long long)client_u64(session, "turns"));
		output_cell(&table, client_str(session, "id"));
		output_cell(&table, client_str(session, "status"));
		output_cell(&table, client_str(session, "phase"));
		output_cell(&table, client_str(session, "endReason"));
		output_cell(&table, client_str(session, "agent"));
		output_cell(&table, number);
		output_cell_ago(&table, output_parse_time(client_str(session, "createdAt")));
	}
	output_table_print(&table);
	return 0;
}

int cmd_session_events(struct cli *cli)
{
	auto_(events_done) struct events events = {0};
	uint64_t last = 0;
	const struct opt opts[] = {
		{"follow", 'f', OPT_FLAG, &events.follow, NULL, "go on as they happen"},
		{"after", 0, OPT_U64, &events.after, "N", "only events with a greater number"},
		{"last", 'n', OPT_U64, &last, "N", "only so many of the newest"},
		{0},
	};
	int r = cli_parse(cli, opts, 1, 1);

	if (r <= 0)
		return r;
	events.base = client_target("/sessions/%s/events", cli->argv[0]);
	if (last > 0)
		client_query_u64(&events.base, "last", last);
	return events_show(cli, &events);
}

int cmd_session_end(struct cli *cli)
{
	const char *status = NULL, *error = NULL;
	const struct opt opts[] = {
		{"status", 's', OPT_STR, &status, "WORD",
	         "completed (the default), failed, cancelled"},
		{"error", 0, OPT_STR, &error, "TEXT", "why it failed"},
		{0},
	};
	auto_json json_t *answer = NULL;
	auto_json json_t *body = json_object();
	int r = cli_parse(cli, opts, 1, 1);

	if (r <= 0)
		return r;
	auto_free char *target = client_target("/sessions/%s/end", cli->argv[0]);

	body_put_text(body, "status", status);
	body_put_text(body, "error", error);
	if (client_json(cli, "POST", target, body, &answer) < 0)
		return -1;
	(void)output_json(cli, json_object_get(answer, "session"));
	return 0;
}

/* --- waiting --- */

bool session_is_over(const json_t *session)
{
	const char *status = client_str(session, "status");

	return !str_eq(status, "pending") && !str_eq(status, "running");
}

/* Asks with patience; a daemon that restarts is asked again. */
static int wait_once(struct cli *cli, const char *target)
{
	auto_free char *headers = mem_printf("Prefer: wait=%d\r\n", WAIT_S);
	auto_json json_t *answer = NULL;
	const struct http_request request = {.method = "GET", .target = target, .headers = headers};
	const struct timespec pause = {.tv_nsec = 200 * 1000000L};

	if (client_send(cli, &request) == 0 && client_read_json(cli, &answer) == 0)
		return 0;
	if (cli->err.code != ERR_UNAVAILABLE && cli->err.code != ERR_PROTOCOL)
		return -1;
	(void)nanosleep(&pause, NULL); /* an early end is harmless */
	return 0;
}

int cmd_session_wait(struct cli *cli)
{
	uint64_t timeout_ms = 0;
	bool until_over = false;
	const struct opt opts[] = {
		{"over", 0, OPT_FLAG, &until_over, NULL, "until the session has ended"},
		{"timeout", 'T', OPT_MS, &timeout_ms, "TIME", "give up after this time"},
		{0},
	};
	int r = cli_parse(cli, opts, 1, 1);
	uint64_t until = timeout_ms ? io_boot_ms() + timeout_ms : UINT64_MAX;

	if (r <= 0)
		return r;
	for (;;) {
		auto_json json_t *session = NULL;
		auto_free char *target = NULL;

		if (session_get(cli, cli->argv[0], &session) < 0)
			return -1;
		const char *turn = client_str(session, "turn");

		if (session_is_over(session) ||
		    (!until_over && !*turn && !client_u64(session, "queued"))) {
			(void)output_json(cli, session);
			return session_is_over(session) &&
			       !str_eq(client_str(session, "status"), "completed");
		}
		if (io_boot_ms() >= until)
			return err_set(&cli->err, ERR_TIMEOUT, "session %s still works",
			               cli->argv[0]);
		target = until_over || !*turn
		                 ? client_target("/sessions/%s", cli->argv[0])
		                 : client_target("/sessions/%s/turns/%s", cli->argv[0], turn);
		if (wait_once(cli, target) < 0)
			return -1;
	}
}

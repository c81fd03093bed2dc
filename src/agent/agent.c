#include "agent/agent.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "acp/message.h"
#include "agent/mcp.h"
#include "agent/model.h"
#include "agent/session.h"
#include "agent/tools.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/opt.h"
#include "base/str.h"

enum {
	REQUESTS = 100,       /* of the model, in one turn */
	CONTEXT = 100 * 1000, /* tokens a conversation may have before it is made shorter */
	WAITING = 64,         /* messages that came while a turn was under way */
	SESSIONS = 16,        /* open at one time */
	READ_BYTES = 64 * 1024,
};

struct limits {
	uint64_t requests, tokens, context;
};

struct agent {
	struct model model;
	struct limits limits;
	struct session sessions[SESSIONS];
	size_t session_count;
	struct acp_lines lines;
	struct acp_message waiting[WAITING];
	size_t waiting_count;
	bool is_at_end;    /* nobody listens any more */
	bool is_cancelled; /* the turn under way */
	bool is_lost;      /* the client broke the protocol */
	struct session *turn;
	uint64_t input, output, cached; /* tokens of the turn */
};

/* --- to the client --- */

static void say(char *line)
{
	if (io_write_all(STDOUT_FILENO, line, strlen(line)) < 0)
		_exit(1); /* nobody listens */
	free(line);
}

static void update(const struct agent *agent, json_t *what)
{
	say(acp_notification("session/update", json_pack("{s:s, s:o}", "sessionId", agent->turn->id,
	                                                 "update", what)));
}

static void say_text(const struct agent *agent, const char *kind, const char *text, size_t len)
{
	json_t *content = json_stringn(text, len);

	if (content)
		update(agent, json_pack("{s:s, s:{s:s, s:o}}", "sessionUpdate", kind, "content",
		                        "type", "text", "text", content));
}

static void on_text(const char *text, size_t len, void *ctx)
{
	say_text(ctx, "agent_message_chunk", text, len);
}

static void notice(const struct agent *agent, const char *text)
{
	say_text(agent, "agent_thought_chunk", text, strlen(text));
}

static void on_retry(const struct err *why, void *ctx)
{
	auto_free char *text = mem_printf("[trying again: %s]\n", why->msg);

	notice(ctx, text);
}

/* --- from the client --- */

static void on_line(const char *line, size_t len, void *ctx)
{
	struct agent *agent = ctx;
	struct acp_message message;
	struct err err = {0};

	if (acp_parse(line, len, &message, &err) < 0) {
		say(acp_error(NULL, ACP_ERR_PARSE, err.msg));
		return;
	}
	if (message.kind == ACP_NOTIFICATION && str_eq(message.method, "session/cancel") &&
	    agent->turn && str_eq(acp_text(message.params, "sessionId"), agent->turn->id))
		agent->is_cancelled = true;
	if (message.kind != ACP_REQUEST) {
		acp_message_done(&message);
	} else if (agent->waiting_count == WAITING) {
		say(acp_error(message.id, ACP_ERR_REQUEST, "too many requests at once"));
		acp_message_done(&message);
	} else {
		agent->waiting[agent->waiting_count++] = message;
	}
}

/* Takes what there is; waits for it if `waits`. */
static void listen_once(struct agent *agent, bool waits)
{
	struct pollfd fd = {.fd = STDIN_FILENO, .events = POLLIN};
	auto_free uint8_t *bytes = NULL;
	ssize_t got;

	if (agent->is_at_end || poll(&fd, 1, waits ? -1 : 0) <= 0)
		return;
	bytes = mem_zalloc(READ_BYTES);
	got = read(STDIN_FILENO, bytes, READ_BYTES);
	if (got < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (got <= 0)
		agent->is_at_end = true;
	else if (acp_lines_feed(&agent->lines, 0, bytes, (size_t)got, on_line, agent) < 0)
		agent->is_at_end = true;
}

static bool is_cancelled(void *ctx)
{
	struct agent *agent = ctx;

	listen_once(agent, false);
	return agent->is_cancelled || agent->is_at_end;
}

/* --- tools --- */

static void tell_call(const struct agent *agent, const struct chat_call *call,
                      const struct tool *tool, const json_t *arguments)
{
	bool is_theirs = call->name && mcp_find(agent->turn->mcp, call->name);
	auto_free char *title = tool ? tools_title(tool, arguments)
	                             : mem_strdup(is_theirs ? call->name : "unknown tool");

	update(agent, json_pack("{s:s, s:s, s:s, s:s, s:s, s:O?}", "sessionUpdate", "tool_call",
	                        "toolCallId", call->id ? call->id : "call", "title", title, "kind",
	                        tool ? tool->kind : "other", "status", "in_progress", "rawInput",
	                        arguments));
}

static void tell_result(const struct agent *agent, const struct chat_call *call, bool is_good,
                        json_t *text)
{
	update(agent, json_pack("{s:s, s:s, s:s, s:[{s:s, s:{s:s, s:O}}]}", "sessionUpdate",
	                        "tool_call_update", "toolCallId", call->id ? call->id : "call",
	                        "status", is_good ? "completed" : "failed", "content", "type",
	                        "content", "content", "type", "text", "text", text));
}

/* Bytes that are no text are shown as such, not lost. */
static json_t *text_of(const struct buf *answer)
{
	size_t len = buf_len(answer);
	const char *bytes = len ? (const char *)buf_head(answer) : "";
	json_t *text = json_stringn(bytes, len);
	auto_free char *escaped = NULL;

	if (text && !memchr(bytes, '\0', len))
		return text;
	json_decref(text);
	escaped = mem_zalloc(4 * len + 8);
	str_escape(escaped, 4 * len + 8, bytes, len);
	return json_string(escaped);
}

static void call_tool(struct agent *agent, const struct chat_call *call)
{
	const struct tool *tool = call->name ? tools_find(call->name) : NULL;
	const struct mcp_tool *theirs = call->name ? mcp_find(agent->turn->mcp, call->name) : NULL;
	size_t len = buf_len(&call->arguments);
	json_t *arguments = len ? json_loadb((const char *)buf_head(&call->arguments), len,
	                                     JSON_ALLOW_NUL, NULL)
	                        : json_object();
	struct tools_call how = {agent->turn->cwd, is_cancelled, agent, STDIN_FILENO};
	struct buf answer;
	json_t *text;
	int r = -1;

	buf_init(&answer, TOOLS_ANSWER_MOST);
	tell_call(agent, call, tool, arguments);
	if (!tool && !theirs)
		(void)!buf_printf(&answer, "error: there is no tool '%.60s'",
		                  call->name ? call->name : "");
	else if (!json_is_object(arguments))
		(void)!buf_puts(&answer, "error: the arguments are no JSON object");
	else
		r = tool ? tool->run(&how, arguments, &answer)
		         : mcp_call(agent->turn->mcp, theirs, &how, arguments, &answer);
	text = text_of(&answer);
	tell_result(agent, call, r == 0, text);
	json_array_append_new(agent->turn->messages,
	                      json_pack("{s:s, s:s, s:o}", "role", "tool", "tool_call_id",
	                                call->id ? call->id : "call", "content", text));
	json_decref(arguments);
	buf_done(&answer);
}

/* --- one turn --- */

static void compact(struct agent *agent)
{
	size_t changed = chat_compact(agent->turn->messages, agent->limits.context);
	auto_free char *text = NULL;

	if (changed == 0)
		return;
	text = mem_printf("[%zu earlier messages were made shorter to make room]\n", changed);
	notice(agent, text);
}

static const char *finished(const struct chat_answer *answer)
{
	if (answer->has_refusal || str_eq(answer->finish, "content_filter"))
		return "refusal";
	return str_eq(answer->finish, "length") ? "max_tokens" : "end_turn";
}

/* The reason why the turn is over; NULL: it goes on. <0: err says what failed. */
static int request(struct agent *agent, const char **ret_reason, struct err *err)
{
	struct chat_answer answer;
	int r;

	*ret_reason = NULL;
	compact(agent);
	chat_answer_init(&answer);
	r = model_ask(&agent->model, agent->turn->messages, agent->turn->tools, &answer, err);
	if (r < 0 && err->code == ERR_GONE) {
		*ret_reason = "cancelled";
		r = 0;
	} else if (r == 0) {
		agent->input += answer.input;
		agent->output += answer.output;
		agent->cached += answer.cached;
		json_array_append_new(agent->turn->messages, chat_answer_message(&answer));
		for (size_t i = 0; i < answer.call_count; i++)
			call_tool(agent, &answer.calls[i]);
		if (answer.call_count == 0)
			*ret_reason = finished(&answer);
	}
	chat_answer_done(&answer);
	return r;
}

/* A sentence for whoever reads along: a limit is never a surprise. */
static const char *limit_hit(struct agent *agent, uint64_t requests)
{
	static const char many[] = "I stop here: this turn used up its requests to the model.";
	static const char tokens[] = "I stop here: this turn used up its tokens.";

	if (requests >= agent->limits.requests) {
		on_text(many, strlen(many), agent);
		return "max_turn_requests";
	}
	if (agent->limits.tokens && agent->input + agent->output >= agent->limits.tokens) {
		on_text(tokens, strlen(tokens), agent);
		return "max_tokens";
	}
	return NULL;
}

static const char *run_turn(struct agent *agent, struct err *err)
{
	const char *reason = NULL;
	uint64_t requests = 0;

	while (!reason) {
		reason = limit_hit(agent, requests++);
		if (!reason && request(agent, &reason, err) < 0)
			return NULL;
		if (!reason && is_cancelled(agent))
			reason = "cancelled";
	}
	return reason;
}

/* The text blocks of a prompt; other kinds are named, not dropped in silence. */
static char *prompt_text(const json_t *blocks)
{
	struct buf text;
	json_t *block;
	char *whole;
	size_t i;

	buf_init(&text, ACP_LINE_MOST);
	json_array_foreach (blocks, i, block) {
		const char *type = acp_text(block, "type");

		if (i > 0)
			(void)!buf_puts(&text, "\n");
		if (str_eq(type, "text"))
			(void)!buf_puts(&text, acp_text(block, "text"));
		else if (str_eq(type, "resource_link"))
			(void)!buf_printf(&text, "[resource: %s]", acp_text(block, "uri"));
		else
			(void)!buf_printf(&text, "[a block of type %.40s that I cannot read]",
			                  type);
	}
	whole = buf_take_string(&text);
	buf_done(&text);
	return whole;
}

static struct session *find(struct agent *agent, const json_t *params)
{
	for (size_t i = 0; i < agent->session_count; i++) {
		if (str_eq(agent->sessions[i].id, acp_text(params, "sessionId")))
			return &agent->sessions[i];
	}
	return NULL;
}

static void answer_turn(struct agent *agent, const struct acp_message *message, const char *reason,
                        const struct err *err)
{
	if (!reason) {
		say(acp_error(message->id, ACP_ERR_INTERNAL, err->msg));
		return;
	}
	say(acp_result(message->id,
	               json_pack("{s:s, s:{s:I, s:I, s:I, s:I}}", "stopReason", reason, "usage",
	                         "inputTokens", (json_int_t)agent->input, "outputTokens",
	                         (json_int_t)agent->output, "cachedReadTokens",
	                         (json_int_t)agent->cached, "totalTokens",
	                         (json_int_t)agent->input + (json_int_t)agent->output)));
}

static void do_prompt(struct agent *agent, const struct acp_message *message)
{
	struct session *session = find(agent, message->params);
	auto_free char *text = prompt_text(json_object_get(message->params, "prompt"));
	struct err err = {0}, lost = {0};
	const char *reason;

	if (!session || !*text) {
		say(acp_error(message->id, session ? ACP_ERR_PARAMS : ACP_ERR_NOT_FOUND,
		              session ? "the prompt is empty" : "no such session"));
		return;
	}
	agent->turn = session;
	agent->is_cancelled = false;
	agent->input = agent->output = agent->cached = 0;
	json_array_append_new(session->messages,
	                      json_pack("{s:s, s:s}", "role", "user", "content", text));
	reason = run_turn(agent, &err);
	if (session_save(session, &lost) < 0)
		notice(agent,
		       "[this session cannot be kept: another process cannot go on with it]\n");
	answer_turn(agent, message, reason, &err);
	agent->turn = NULL;
}

/* --- the other methods --- */

static void do_initialize(struct agent *agent, const struct acp_message *message)
{
	say(acp_result(
		message->id,
		json_pack("{s:i, s:{s:s, s:s}, s:[], s:{s:b, s:{s:b, s:b}, s:{s:b, s:b, s:b}}}",
	                  "protocolVersion", ACP_VERSION, "agentInfo", "name", "cloche-agent",
	                  "version", CLOCHE_VERSION, "authMethods", "agentCapabilities",
	                  "loadSession", 1, "mcpCapabilities", "http", 1, "sse", 0,
	                  "promptCapabilities", "image", 0, "audio", 0, "embeddedContext", 0)));
}

static struct session *add_session(struct agent *agent, const struct acp_message *message)
{
	if (*acp_text(message->params, "cwd") != '/')
		say(acp_error(message->id, ACP_ERR_PARAMS, "'cwd' is not an absolute path"));
	else if (agent->session_count == SESSIONS)
		say(acp_error(message->id, ACP_ERR_REQUEST, "too many sessions"));
	else
		return &agent->sessions[agent->session_count];
	return NULL;
}

/* The servers of MCP that the client brings for a session. On failure the session is closed and
 * the client told. */
static int take_servers(struct agent *agent, struct session *session,
                        const struct acp_message *message)
{
	const json_t *servers = json_object_get(message->params, "mcpServers");
	struct tools_call how = {session->cwd, is_cancelled, agent, STDIN_FILENO};
	struct err err = {0};

	if (json_array_size(servers) > 0 && mcp_open(servers, &how, &session->mcp, &err) < 0) {
		say(acp_error(message->id, ACP_ERR_INTERNAL, err.msg));
		session_done(session);
		return -1;
	}
	session->tools = tools_describe();
	mcp_describe(session->mcp, session->tools);
	agent->session_count++;
	return 0;
}

static void do_new(struct agent *agent, const struct acp_message *message)
{
	struct session *session = add_session(agent, message);

	if (!session)
		return;
	session_open(session, acp_text(message->params, "cwd"));
	if (take_servers(agent, session, message) < 0)
		return;
	say(acp_result(message->id, json_pack("{s:s}", "sessionId", session->id)));
}

/* The history, as a client that was not there would have seen it. */
static void replay(struct agent *agent, struct session *session)
{
	json_t *message;
	size_t i;

	agent->turn = session;
	json_array_foreach (session->messages, i, message) {
		const char *role = acp_text(message, "role"), *text = acp_text(message, "content");

		if (str_eq(role, "user"))
			say_text(agent, "user_message_chunk", text, strlen(text));
		else if (str_eq(role, "assistant") && *text)
			say_text(agent, "agent_message_chunk", text, strlen(text));
	}
	agent->turn = NULL;
}

static void do_load(struct agent *agent, const struct acp_message *message)
{
	struct session *session = add_session(agent, message);
	struct err err = {0};

	if (!session)
		return;
	if (session_load(session, acp_text(message->params, "sessionId"),
	                 acp_text(message->params, "cwd"), &err) < 0) {
		say(acp_error(message->id,
		              err.code == ERR_NOT_FOUND ? ACP_ERR_NOT_FOUND : ACP_ERR_INTERNAL,
		              err.msg));
		return;
	}
	if (take_servers(agent, session, message) < 0)
		return;
	replay(agent, session);
	say(acp_result(message->id, NULL));
}

static const struct {
	const char *method;
	void (*run)(struct agent *agent, const struct acp_message *message);
} methods[] = {
	{"initialize", do_initialize},
	{"session/new", do_new},
	{"session/load", do_load},
	{"session/prompt", do_prompt},
};

static void serve(struct agent *agent, struct acp_message *message)
{
	size_t i = 0;

	while (i < ARRAY_LEN(methods) && !str_eq(methods[i].method, message->method))
		i++;
	if (i < ARRAY_LEN(methods))
		methods[i].run(agent, message);
	else
		say(acp_error(message->id, ACP_ERR_METHOD, "this agent does not do that"));
	acp_message_done(message);
}

static int parse(int argc, char **argv, struct agent *agent)
{
	const char *model = getenv("CLOCHE_MODEL"), *url = getenv("CLOCHE_LLM_URL");
	const struct opt opts[] = {
		{"model", 0, OPT_STR, &agent->model.name, "NAME", "to ask"},
		{"url", 0, OPT_STR, &agent->model.url, "URL", "of the model gateway"},
		{"effort", 0, OPT_STR, &agent->model.effort, "LEVEL",
	         "how hard the model thinks: minimal, low, medium, high"},
		{"max-requests", 0, OPT_U64, &agent->limits.requests, "N",
	         "of the model, in a turn"},
		{"max-tokens", 0, OPT_U64, &agent->limits.tokens, "N", "of a turn; 0: no limit"},
		{"context", 0, OPT_U64, &agent->limits.context, "N", "tokens it keeps in mind"},
		{0},
	};
	struct err err = {0};
	int rest = 0;

	agent->model.name = model && *model ? model : "default";
	agent->model.url = url && *url ? url : "http://llm.cloche.internal";
	agent->model.key = getenv("CLOCHE_LLM_KEY");
	agent->model.effort = getenv("CLOCHE_EFFORT");
	agent->limits = (struct limits){REQUESTS, 0, CONTEXT};
	if (argc > 0 && str_eq(argv[0], "--help")) {
		(void)printf("usage: cloche-agent [options]\n\n"
		             "Works on what a client of the Agent Client Protocol asks for on "
		             "standard input.\n\n");
		opt_print(opts, stdout);
		return 1;
	}
	if (opt_parse(opts, argc, argv, false, &rest, &err) == 0 && rest == 0)
		return 0;
	(void)fprintf(stderr, "cloche-agent: %s\n",
	              err.code != ERR_OK ? err.msg : "too many arguments");
	return -1;
}

int agent_main(int argc, char **argv)
{
	struct agent agent = {0};

	(void)signal(SIGPIPE, SIG_IGN); /* cannot fail */
	int r = parse(argc, argv, &agent);

	if (r != 0)
		return r < 0 ? 64 : 0;
	agent.model.watch_fd = STDIN_FILENO;
	agent.model.is_cancelled = is_cancelled;
	agent.model.on_text = on_text;
	agent.model.on_retry = on_retry;
	agent.model.ctx = &agent;
	acp_lines_init(&agent.lines);
	while (agent.waiting_count > 0 || !agent.is_at_end) {
		struct acp_message first;

		if (agent.waiting_count == 0) {
			listen_once(&agent, true);
			continue;
		}
		first = agent.waiting[0];
		agent.waiting_count--;
		memmove(agent.waiting, agent.waiting + 1,
		        agent.waiting_count * sizeof(agent.waiting[0]));
		serve(&agent, &first);
	}
	for (size_t i = 0; i < agent.session_count; i++)
		session_done(&agent.sessions[i]);
	acp_lines_done(&agent.lines);
	return 0;
}

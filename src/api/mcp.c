/*
 * The protocol at /mcp (Streamable HTTP). A message is read, its revision found out, its session
 * looked up; then a table says who answers its method. Answers to tool calls go through a stream
 * (mcp/session.h): read at once for a JSON answer, sent as it grows for server-sent events, and
 * kept for clients that come back.
 */
#include "api/mcp.h"

#include <stdio.h>

#include "api/authz.h"
#include "api/call.h"
#include "api/commands.h"
#include "api/record.h"
#include "base/io.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/must.h"
#include "base/str.h"
#include "http/request.h"
#include "http/sse.h"
#include "mcp/era.h"
#include "mcp/rpc.h"
#include "mcp/session.h"
#include "mcp/tools.h"
#include "model/command.h"
#include "model/config.h"

#define METADATA "/.well-known/oauth-protected-resource"

struct mcp {
	struct sessions *sessions;
};

struct mcp *mcp_new(void)
{
	struct mcp *mcp = mem_new(struct mcp);

	mcp->sessions = sessions_new();
	return mcp;
}

void mcp_free(struct mcp *mcp)
{
	if (!mcp)
		return;
	sessions_free(mcp->sessions);
	mem_freep(&mcp);
}

/* One message on its way. */
struct turn {
	struct call *call;
	struct rpc rpc;
	struct era era;
	struct session *session; /* NULL: none */
};

/* --- answers --- */

static void send(struct call *call, int status, json_t *message)
{
	auto_free char *text = json_dumps(message, JSON_COMPACT | JSON_REAL_PRECISION(12));

	must(text);
	json_decref(message);
	request_answer(call->request, status, "application/json", text, strlen(text));
	call_done(call);
}

static void turn_fail(struct turn *turn, struct rpc_fault *fault)
{
	send(turn->call, fault->status, rpc_error(turn->rpc.id, fault));
	rpc_done(&turn->rpc);
}

static void turn_answer(struct turn *turn, json_t *result)
{
	if (turn->era.is_modern)
		json_object_set_new(result, "resultType", json_string("complete"));
	send(turn->call, 200, rpc_result(turn->rpc.id, result));
	rpc_done(&turn->rpc);
}

static void turn_accept(struct turn *turn)
{
	request_answer(turn->call->request, 202, NULL, "", 0);
	call_done(turn->call);
	rpc_done(&turn->rpc);
}

/* --- whoever may not --- */

char *mcp_base(const struct api *api, const struct request *request)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "0123456789.-:[]";
	const char *host = request_header(request, "Host");
	const char *scheme = api->config->server.tls_cert && !request_is_local(request) &&
	                                     !*request_guest(request)
	                             ? "https"
	                             : "http";

	/* It goes into a header between quotes. */
	if (!host || !*host || host[strspn(host, plain)])
		host = "localhost";
	return mem_printf("%s://%s", scheme, host);
}

char *mcp_challenge(const struct api *api, const struct request *request, const char *error,
                    const char *scope)
{
	auto_free char *base = mcp_base(api, request);
	auto_free char *head = error ? mem_printf("error=\"%s\", ", error) : mem_strdup("");

	return mem_printf(
		"Bearer realm=\"cloche\", %sresource_metadata=\"%s" METADATA "/mcp\"%s%s%s", head,
		base, scope ? ", scope=\"" : "", scope ? scope : "", scope ? "\"" : "");
}

static void metadata(struct call *call)
{
	auto_free char *base = mcp_base(call->api, call->request);
	json_t *scopes = json_array();
	const char *about, *object;
	bool is_writable;

	for (size_t i = 0; (object = scope_object_at(i, &about, &is_writable)); i++) {
		json_array_append_new(scopes, json_pack("s+", object, ":read"));
		if (is_writable)
			json_array_append_new(scopes, json_pack("s+", object, ":write"));
	}
	call_answer(call, 200,
	            json_pack("{s:s+, s:s, s:o, s:[s]}", "resource", base, "/mcp", "resource_name",
	                      "Cloche", "scopes_supported", scopes, "bearer_methods_supported",
	                      "header"));
}

void handle_resource_metadata(struct call *call)
{
	metadata(call);
}

void handle_resource_metadata_mcp(struct call *call)
{
	metadata(call);
}

static void refuse_tool(struct turn *turn, const struct tool *tool, const char *scope)
{
	const struct route *route = mcp_route(tool);
	struct call *call = turn->call;
	auto_free char *challenge =
		mcp_challenge(call->api, call->request, "insufficient_scope", scope);
	struct rpc_fault fault;

	record_denial(call->api, call->request, call->caller, route->name, NULL,
	              scope ? scope : "tool");
	request_add_header(call->request, "WWW-Authenticate", challenge);
	(void)rpc_refuse(&fault, 403, RPC_REFUSED, "the tool %s needs %s%s, which you do not have",
	                 tool->name, scope ? "the scope " : "a right",
	                 scope ? scope : ""); /* always -1 */
	turn_fail(turn, &fault);
}

/* --- streams --- */

/* Whoever sends a stream's messages to a client. */
struct feed {
	struct stream *stream;
	size_t next;
	bool cancels; /* a client that leaves wants nothing more */
	bool drops;   /* and nobody can come back to it */
	struct sse *sse;
	struct turn turn; /* of an answer in one piece */
};

static void feed_send(struct feed *feed)
{
	struct stream *stream = feed->stream;
	char id[48];

	for (; feed->next < stream->count; feed->next++) {
		(void)snprintf(id, sizeof(id), "%llu-%zu", (unsigned long long)stream->number,
		               feed->next + 1); /* fits */
		if (sse_send(feed->sse, stream->number ? id : NULL, "message",
		             stream->messages[feed->next]) < 0)
			return; /* on_writable */
	}
	if (stream->is_over)
		sse_finish(feed->sse);
}

static void on_news(struct stream *stream, void *ctx)
{
	feed_send(ctx);
}

static void on_writable(struct sse *sse, void *ctx)
{
	feed_send(ctx);
}

static void on_end(struct sse *sse, bool gone, void *ctx)
{
	struct feed *feed = ctx;
	struct stream *stream = feed->stream;

	if (stream->reader == feed) {
		stream->on_news = NULL;
		stream->reader = NULL;
	}
	if (gone && feed->cancels && !stream->is_over && stream->on_cancel)
		stream->on_cancel(stream, stream->maker);
	if (feed->drops)
		stream_drop(stream);
	stream_unref(stream);
	mem_freep(&feed);
}

enum { CANCELS = 1, DROPS = 2, PRIMES = 4 };

/* Takes the call. seen: messages the client has. */
static void send_stream(struct call *call, struct stream *stream, size_t seen, int flags)
{
	static const struct sse_ops ops = {on_writable, on_end};
	struct feed *feed = mem_new(struct feed);
	char id[32];

	feed->stream = stream_ref(stream);
	feed->next = seen;
	feed->cancels = flags & CANCELS;
	feed->drops = flags & DROPS;
	feed->sse = sse_open(call->request, &ops, feed);
	/* Who comes later has it: the connection before may be one that nobody noticed breaking. */
	stream->on_news = on_news;
	stream->reader = feed;
	/* From 2025-11-25 on a client learns at once what to come back with. */
	(void)snprintf(id, sizeof(id), "%llu-0", (unsigned long long)stream->number);
	if (flags & PRIMES && stream->number)
		(void)!sse_send(feed->sse, id, NULL, ""); /* the buffer is empty */
	feed_send(feed);
	call_done(call);
}

/* An answer in one piece: when there is one. */
static void on_whole(struct stream *stream, void *ctx)
{
	struct feed *feed = ctx;
	struct rpc_fault fault;

	if (!stream->is_over)
		return;
	stream->on_news = NULL;
	stream->reader = NULL;
	request_set_on_end(feed->turn.call->request, NULL, NULL);
	if (stream->count > 0) {
		const char *last = stream->messages[stream->count - 1];

		request_answer(feed->turn.call->request, 200, "application/json", last,
		               strlen(last));
		call_done(feed->turn.call);
		rpc_done(&feed->turn.rpc);
	} else {
		(void)rpc_refuse(&fault, 200, RPC_REFUSED, "cancelled"); /* always -1 */
		turn_fail(&feed->turn, &fault);
	}
	stream_unref(stream);
	mem_freep(&feed);
}

/* The client left. Without a session that is how a call is cancelled; in one it goes on, and is
 * kept. */
static void on_whole_end(struct request *request, bool gone, void *ctx)
{
	struct feed *feed = ctx;
	struct stream *stream = feed->stream;

	if (stream->reader == feed) {
		stream->on_news = NULL;
		stream->reader = NULL;
	}
	if (feed->cancels && stream->on_cancel)
		stream->on_cancel(stream, stream->maker);
	stream_unref(stream);
	call_done(feed->turn.call);
	rpc_done(&feed->turn.rpc);
	mem_freep(&feed);
}

static void answer_whole(struct turn *turn, struct stream *stream)
{
	struct feed *feed = mem_new(struct feed);

	feed->stream = stream_ref(stream);
	feed->turn = *turn;
	feed->cancels = turn->era.is_modern;
	request_set_on_end(turn->call->request, on_whole_end, feed);
	stream->on_news = on_whole;
	stream->reader = feed;
	if (stream->is_over)
		on_whole(stream, feed);
}

/* --- methods --- */

static json_t *server_info(void)
{
	return json_pack("{s:s, s:s, s:s}", "name", "cloche", "title", "Cloche", "version",
	                 CLOCHE_VERSION);
}

static const char *owner_of(const struct call *call, char *out, size_t size)
{
	const struct caller *caller = call->caller;

	(void)snprintf(out, size, "%s %s %s %s", caller->principal.text, caller->team.text,
	               caller->credential.text, request_guest(call->request)); /* ids fit */
	return out;
}

static const char about[] =
	"Isolated Linux sandboxes and tasks for agents. runTask gives an agent an instruction and "
	"answers with an id at once; waitTask waits for its end. createSandbox, sandboxExec, "
	"readFile and writeFile work in a machine of your own.";

static void do_initialize(struct turn *turn)
{
	const char *version = era_negotiate(turn->rpc.params);
	struct call *call = turn->call;
	struct mcp *mcp = call->api->mcp;
	struct session *session;
	char owner[200];

	session = sessions_open(mcp->sessions, owner_of(call, owner, sizeof(owner)), version,
	                        io_boot_ms());
	request_add_header(call->request, "Mcp-Session-Id", session_id(session));
	turn_answer(turn, json_pack("{s:s, s:{s:{s:b}}, s:o, s:s}", "protocolVersion", version,
	                            "capabilities", "tools", "listChanged", 0, "serverInfo",
	                            server_info(), "instructions", about));
}

static void do_ping(struct turn *turn)
{
	turn_answer(turn, json_object());
}

static void do_discover(struct turn *turn)
{
	json_t *versions = json_array();
	const char *version;
	bool is_modern;

	for (size_t i = 0; (version = era_version_at(i, &is_modern)); i++)
		json_array_append_new(versions, json_string(version));
	turn_answer(turn, json_pack("{s:o, s:{s:{}}, s:i, s:s, s:s, s:{s:o}}", "supportedVersions",
	                            versions, "capabilities", "tools", "ttlMs", 0, "cacheScope",
	                            "private", "instructions", about, "_meta",
	                            "io.modelcontextprotocol/serverInfo", server_info()));
}

static void list_commands(struct call *call, json_t *tools)
{
	struct engine *engine = call->api->engine;
	const struct command *command;

	for (size_t i = 0; (command = engine->ops->command_at(engine, i)); i++) {
		if (command_may(call, command))
			json_array_append_new(tools, mcp_describe_command(command));
	}
}

static void do_list(struct turn *turn)
{
	json_t *tools = json_array();
	json_t *result;
	struct rpc_fault fault;

	if (json_object_get(turn->rpc.params, "cursor")) {
		(void)rpc_refuse(&fault, turn->era.is_modern ? 400 : 200, RPC_PARAMS,
		                 "'cursor' is not one of ours: there is one page"); /* always -1 */
		json_decref(tools);
		turn_fail(turn, &fault);
		return;
	}
	for (const struct tool *tool = tool_table; tool->name; tool++) {
		if (mcp_may(turn->call, tool))
			json_array_append_new(tools, mcp_describe(tool));
	}
	list_commands(turn->call, tools);
	result = json_pack("{s:o}", "tools", tools);
	if (turn->era.is_modern)
		json_object_update_new(
			result, json_pack("{s:i, s:s}", "ttlMs", 0, "cacheScope", "private"));
	turn_answer(turn, result);
}

/* Whether the answer may be a stream, and is better one. */
static bool wants_stream(const struct turn *turn, const struct tool *tool)
{
	const json_t *meta = json_object_get(turn->rpc.params, "_meta");

	return sse_is_wanted(turn->call->request) &&
	       (tool->flags & TOOL_SLOW || json_object_get(meta, "progressToken"));
}

static void refuse_more(struct rpc_fault *fault)
{
	(void)rpc_refuse(fault, 429, RPC_REFUSED,
	                 "too much is under way in your sessions: wait for some of it, or cancel "
	                 "it"); /* always -1 */
}

/* The tool that is called, of the table or of a manifest (then *ret_command). name NULL: none. */
static struct tool find_tool(struct turn *turn, const char *name,
                             const struct command **ret_command)
{
	const struct tool *found = name ? tool_find(name) : NULL;
	struct tool tool = found ? *found : (struct tool){0};

	*ret_command = NULL;
	if (name && !found)
		*ret_command = command_find_tool(turn->call->api, name);
	if (*ret_command)
		tool = (struct tool){.name = (*ret_command)->tool,
		                     .route = "command_call",
		                     .flags = TOOL_SLOW | TOOL_COMMAND};
	/* One that a manifest holds back is held where every call of it comes by. */
	if (found && strings_has(&turn->call->api->config->mcp_asks, name))
		tool.flags |= TOOL_ASKS | TOOL_SLOW;
	return tool;
}

/* False: it was refused. */
static bool check_call(struct turn *turn, const struct tool *tool, const struct command *command,
                       const char *name)
{
	const json_t *arguments = json_object_get(turn->rpc.params, "arguments");
	struct rpc_fault fault = {0};
	char shown[80];

	str_escape(shown, sizeof(shown), name, strlen(name));
	if (!tool->name)
		(void)rpc_refuse(&fault, turn->era.is_modern ? 400 : 200, RPC_PARAMS,
		                 "unknown tool '%s'", shown); /* always -1 */
	else if (arguments && !json_is_object(arguments))
		(void)rpc_refuse(&fault, turn->era.is_modern ? 400 : 200, RPC_PARAMS,
		                 "'arguments' must be an object"); /* always -1 */
	else if (turn->session && session_is_full(turn->session))
		refuse_more(&fault);
	if (fault.code) {
		turn_fail(turn, &fault);
		return false;
	}
	if (command ? command_may(turn->call, command) : mcp_may(turn->call, tool))
		return true;
	refuse_tool(turn, tool,
	            command                       ? command->scope
	            : mcp_route(tool)->scope >= 0 ? scope_name(mcp_route(tool)->scope)
	                                          : NULL);
	return false;
}

/* What the tool's route takes. */
static json_t *arguments_of(const struct turn *turn, const struct command *command)
{
	json_t *given = json_object_get(turn->rpc.params, "arguments");
	json_t *arguments = given ? json_deep_copy(given) : json_object();

	if (!command)
		return arguments;
	return json_pack("{s:s, s:s, s:o}", "noun", command->noun, "verb", command->verb,
	                 "arguments", arguments);
}

static void do_call(struct turn *turn)
{
	const char *name = json_string_value(json_object_get(turn->rpc.params, "name"));
	const struct command *command = NULL;
	struct tool tool = find_tool(turn, name, &command);
	auto_free char *id = NULL;
	struct stream *stream;

	if (!check_call(turn, &tool, command, name ? name : ""))
		return;
	id = json_dumps(turn->rpc.id, JSON_ENCODE_ANY);
	stream = stream_new(turn->session, id);
	mcp_call(turn->call, &tool, arguments_of(turn, command), &turn->rpc, &turn->era, stream);
	if (wants_stream(turn, &tool)) {
		bool primes =
			turn->session && strcmp(session_version(turn->session), "2025-11-25") >= 0;

		send_stream(turn->call, stream, 0,
		            (turn->era.is_modern ? CANCELS : 0) | (primes ? PRIMES : 0));
		rpc_done(&turn->rpc);
	} else {
		answer_whole(turn, stream);
	}
	stream_unref(stream);
}

enum { LEGACY = 1, MODERN = 2 };

static const struct {
	const char *method;
	int eras;
	void (*answer)(struct turn *turn);
} methods[] = {
	{"initialize", LEGACY, do_initialize},    {"ping", LEGACY, do_ping},
	{"server/discover", MODERN, do_discover}, {"tools/list", LEGACY | MODERN, do_list},
	{"tools/call", LEGACY | MODERN, do_call},
};

static void dispatch(struct turn *turn)
{
	int era = turn->era.is_modern ? MODERN : LEGACY;
	struct rpc_fault fault;
	char shown[60];

	for (size_t i = 0; i < ARRAY_LEN(methods); i++) {
		if (methods[i].eras & era && str_eq(methods[i].method, turn->rpc.method)) {
			methods[i].answer(turn);
			return;
		}
	}
	str_escape(shown, sizeof(shown), turn->rpc.method, strlen(turn->rpc.method));
	(void)rpc_refuse(&fault, turn->era.is_modern ? 404 : 200, RPC_NO_METHOD, "no method '%s'",
	                 shown); /* always -1 */
	turn_fail(turn, &fault);
}

/* --- sessions --- */

/* The session of the header. NULL with a fault when one is needed and not there. */
static struct session *find_session(struct call *call, struct rpc_fault *fault)
{
	const char *id = request_header(call->request, "Mcp-Session-Id");
	struct session *session;
	char owner[200];

	if (!id) {
		(void)rpc_refuse(fault, 400, RPC_REFUSED,
		                 "the header Mcp-Session-Id is missing: initialize first");
		return NULL;
	}
	session = sessions_find(call->api->mcp->sessions, id, owner_of(call, owner, sizeof(owner)),
	                        io_boot_ms());
	if (!session)
		(void)rpc_refuse(fault, 404, RPC_REFUSED, "no such session: initialize again");
	return session;
}

static void take_notice(struct turn *turn)
{
	const json_t *request = json_object_get(turn->rpc.params, "requestId");
	auto_free char *id = request ? json_dumps(request, JSON_ENCODE_ANY) : NULL;

	if (id && turn->session && str_eq(turn->rpc.method, "notifications/cancelled"))
		session_cancel(turn->session, id);
	turn_accept(turn);
}

static void serve(struct turn *turn)
{
	const struct request *request = turn->call->request;
	struct era_headers headers = {request_header(request, "MCP-Protocol-Version"),
	                              request_header(request, "Mcp-Method"),
	                              request_header(request, "Mcp-Name")};
	struct rpc_fault fault;

	if (turn->rpc.kind == RPC_RESPONSE) {
		turn_accept(turn); /* we asked nothing */
		return;
	}
	if (era_of(&turn->rpc, &headers, &turn->era, &fault) < 0) {
		turn_fail(turn, &fault);
		return;
	}
	if (!turn->era.is_modern && !str_eq(turn->rpc.method, "initialize")) {
		turn->session = find_session(turn->call, &fault);
		if (!turn->session) {
			turn_fail(turn, &fault);
			return;
		}
	}
	if (turn->rpc.kind == RPC_NOTIFICATION)
		take_notice(turn);
	else
		dispatch(turn);
}

static void on_body(struct request *request, const char *bytes, size_t len, void *ctx)
{
	struct turn turn = {.call = ctx};
	struct rpc_fault fault;

	request_set_on_end(request, NULL, NULL);
	if (rpc_read(bytes, len, &turn.rpc, &fault) < 0)
		turn_fail(&turn, &fault);
	else
		serve(&turn);
}

/* The body never became complete. */
static void on_cut_off(struct request *request, bool gone, void *ctx)
{
	call_done(ctx);
}

void handle_mcp_post(struct call *call)
{
	request_set_on_end(call->request, on_cut_off, call);
	request_read_body(call->request, LIMIT_JSON_BODY_BYTES, on_body, call);
}

/* A stream that is taken up again; without Last-Event-ID one on which we have nothing to say: what
 * a server may say there, nothing here needs. */
void handle_mcp_get(struct call *call)
{
	const char *last = request_header(call->request, "Last-Event-ID");
	struct rpc_fault fault = {0};
	struct session *session = find_session(call, &fault);
	struct stream *stream = NULL;
	size_t seen = 0;

	if (!session) {
		send(call, fault.status, rpc_error(NULL, &fault));
		return;
	}
	if (last)
		stream = session_stream(session, last, &seen);
	if (last && !stream) {
		(void)rpc_refuse(&fault, 404, RPC_REFUSED, "no such stream: it is no longer kept");
		send(call, fault.status, rpc_error(NULL, &fault));
		return;
	}
	if (stream) {
		send_stream(call, stream, seen, 0);
		return;
	}
	if (session_is_full(session)) {
		refuse_more(&fault);
		send(call, fault.status, rpc_error(NULL, &fault));
		return;
	}
	stream = stream_new(session, "");
	send_stream(call, stream, 0, DROPS);
	stream_unref(stream);
}

void handle_mcp_delete(struct call *call)
{
	struct rpc_fault fault = {0};
	struct session *session = find_session(call, &fault);

	if (!session) {
		send(call, fault.status, rpc_error(NULL, &fault));
		return;
	}
	sessions_close(call->api->mcp->sessions, session);
	call_answer_empty(call);
}

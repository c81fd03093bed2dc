#include "api/mcp.h"
#include "api/route.h"
#include "base/mem.h"
#include "base/str.h"
#include "harness/test.h"
#include "mcp/era.h"
#include "mcp/rpc.h"
#include "mcp/session.h"
#include "mcp/tools.h"

#define META                                                                                       \
	"\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"%s\","                           \
	"\"io.modelcontextprotocol/clientCapabilities\":{}}"

static struct rpc rpc;
static struct rpc_fault fault;
static struct era era;

static int read_text(const char *text)
{
	rpc_done(&rpc);
	json_decref(fault.data);
	fault = (struct rpc_fault){0};
	return rpc_read(text, strlen(text), &rpc, &fault);
}

static void done(void)
{
	rpc_done(&rpc);
	json_decref(fault.data);
	fault.data = NULL;
}

TEST(messages_are_of_three_kinds)
{
	CHECK_INT(read_text("{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"ping\"}"), 0);
	CHECK_INT(rpc.kind, RPC_REQUEST);
	CHECK_STR(rpc.method, "ping");
	CHECK_INT(read_text("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}"), 0);
	CHECK_INT(rpc.kind, RPC_NOTIFICATION);
	CHECK_INT(read_text("{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}}"), 0);
	CHECK_INT(rpc.kind, RPC_RESPONSE);
	done();
}

TEST(what_is_no_message_is_refused_with_its_code)
{
	static const struct {
		const char *text;
		int code;
	} bad[] = {
		{"", RPC_PARSE},
		{"{", RPC_PARSE},
		{"{\"jsonrpc\":\"2.0\",\"id\":1,\"id\":2,\"method\":\"a\"}", RPC_PARSE},
		{"[]", RPC_INVALID},
		{"[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]", RPC_INVALID},
		{"{\"id\":1,\"method\":\"ping\"}", RPC_INVALID},
		{"{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"ping\"}", RPC_INVALID},
		{"{\"jsonrpc\":\"2.0\",\"id\":1}", RPC_INVALID},
		{"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":3}", RPC_INVALID},
		{"{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}", RPC_INVALID},
		{"{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"ping\"}", RPC_INVALID},
		{"{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"ping\"}", RPC_INVALID},
		{"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":[1]}", RPC_PARAMS},
	};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		CHECK_INT(read_text(bad[i].text), -1);
		CHECK_INT(fault.code, bad[i].code);
		CHECK_INT(fault.status, 400);
	}
	done();
}

static int era_text(const char *text, const char *version, const char *method, const char *name)
{
	struct era_headers headers = {version, method, name};

	CHECK_INT(read_text(text), 0);
	return era_of(&rpc, &headers, &era, &fault);
}

TEST(revisions_with_a_handshake)
{
	static const char list[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}";

	CHECK_INT(era_text(list, NULL, NULL, NULL), 0);
	CHECK_STR(era.version, "2025-03-26");
	CHECK(!era.is_modern);
	CHECK_INT(era_text(list, "2025-11-25", NULL, NULL), 0);
	CHECK_STR(era.version, "2025-11-25");
	CHECK_INT(era_text(list, "1999-01-01", NULL, NULL), -1);
	CHECK_INT(fault.code, RPC_VERSION);
	CHECK_INT(fault.status, 400);
	CHECK(json_array_size(json_object_get(fault.data, "supported")) >= 4);
	/* The handshake is where versions are talked about: whatever the header says. */
	CHECK_INT(era_text("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\"}", "x", NULL,
	                   NULL),
	          0);
	done();
}

TEST(the_handshake_agrees_on_what_both_speak)
{
	json_t *params = json_pack("{s:s}", "protocolVersion", "2025-06-18");

	CHECK_STR(era_negotiate(params), "2025-06-18");
	json_object_set_new(params, "protocolVersion", json_string("2999-01-01"));
	CHECK_STR(era_negotiate(params), "2025-11-25");
	json_object_set_new(params, "protocolVersion", json_string("2026-07-28"));
	CHECK_STR(era_negotiate(params), "2025-11-25"); /* it has no handshake */
	CHECK_STR(era_negotiate(NULL), "2025-11-25");
	json_decref(params);
}

TEST(revisions_without_a_handshake)
{
	auto_free char *call = mem_printf("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\","
	                                  "\"params\":{\"name\":\"runTask\"," META "}}",
	                                  "2026-07-28");
	auto_free char *unknown = mem_printf("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":"
	                                     "\"tools/list\",\"params\":{" META "}}",
	                                     "2099-01-01");
	static const char bare[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}";
	const char *v = "2026-07-28";

	CHECK_INT(era_text(call, v, "tools/call", "runTask"), 0);
	CHECK(era.is_modern);
	CHECK_STR(era.version, "2026-07-28");
	CHECK_INT(era_text(call, v, "tools/call", "=?base64?cnVuVGFzaw==?="), 0);
	/* Headers and message must agree. */
	CHECK_INT(era_text(call, NULL, "tools/call", "runTask"), -1);
	CHECK_INT(fault.code, RPC_HEADERS);
	CHECK_INT(era_text(call, "2025-11-25", "tools/call", "runTask"), -1);
	CHECK_INT(fault.code, RPC_HEADERS);
	CHECK_INT(era_text(call, v, "tools/list", "runTask"), -1);
	CHECK_INT(fault.code, RPC_HEADERS);
	CHECK_INT(era_text(call, v, "tools/call", NULL), -1);
	CHECK_INT(fault.code, RPC_HEADERS);
	CHECK_INT(era_text(call, v, "tools/call", "=?base64?////?="), -1);
	CHECK_INT(fault.code, RPC_HEADERS);
	CHECK_INT(era_text(bare, v, "tools/list", NULL), -1);
	CHECK_INT(fault.code, RPC_PARAMS);
	CHECK_INT(era_text(unknown, "2099-01-01", "tools/list", NULL), -1);
	CHECK_INT(fault.code, RPC_VERSION);
	CHECK_STR(json_string_value(json_object_get(fault.data, "requested")), "2099-01-01");
	done();
}

TEST(sessions_belong_to_one_and_end)
{
	struct sessions *sessions = sessions_new();
	struct session *session = sessions_open(sessions, "alice", "2025-11-25", 1000);
	auto_free char *id = mem_strdup(session_id(session));

	CHECK_INT(strlen(id), 32);
	CHECK(sessions_find(sessions, id, "alice", 2000) == session);
	CHECK(!sessions_find(sessions, id, "bob", 2000));
	CHECK(!sessions_find(sessions, "x", "alice", 2000));
	CHECK(sessions_find(sessions, id, "alice", 2000 + SESSION_IDLE_MS));
	CHECK(!sessions_find(sessions, id, "alice", 2001 + 2 * (uint64_t)SESSION_IDLE_MS));
	for (int i = 0; i < SESSION_OF_OWNER + 3; i++)
		session = sessions_open(sessions, "alice", "2025-11-25", 5000 + (uint64_t)i);
	CHECK(sessions_find(sessions, session_id(session), "alice", 6000));
	sessions_free(sessions);
}

static int cancelled;

static void on_cancel(struct stream *stream, void *ctx)
{
	cancelled++;
	stream_end(stream);
}

TEST(streams_are_kept_for_who_comes_back)
{
	struct sessions *sessions = sessions_new();
	struct session *session = sessions_open(sessions, "alice", "2025-11-25", 1);
	struct stream *stream = stream_new(session, "1");
	size_t seen = 9;

	stream->on_cancel = on_cancel;
	CHECK(stream_put(stream, mem_strdup("a")));
	CHECK(stream_put(stream, mem_strdup("b")));
	CHECK(session_stream(session, "1-1", &seen) == stream);
	CHECK_INT(seen, 1);
	CHECK(session_stream(session, "1-99", &seen) == stream);
	CHECK_INT(seen, 2);
	CHECK(!session_stream(session, "2-0", &seen));
	CHECK(!session_stream(session, "", &seen));
	CHECK(!session_stream(session, "1-x", &seen));
	session_cancel(session, "2");
	CHECK_INT(cancelled, 0);
	session_cancel(session, "1");
	CHECK_INT(cancelled, 1);
	CHECK(!stream_put(stream, mem_strdup("late")));
	stream_unref(stream);
	/* Those that are over make room for new ones; those under way stay. */
	for (int i = 0; i < 2 * SESSION_STREAMS; i++) {
		stream = stream_new(session, "3");
		stream_end(stream);
		stream_unref(stream);
	}
	CHECK(!session_stream(session, "1-1", &seen));
	stream = stream_new(session, "4");
	stream->on_cancel = on_cancel;
	stream_unref(stream);
	sessions_free(sessions);
	CHECK_INT(cancelled, 2);
}

TEST(what_is_under_way_is_bounded)
{
	struct sessions *sessions = sessions_new();
	struct session *session = sessions_open(sessions, "alice", "2025-11-25", 1);
	struct stream *streams[SESSION_STREAMS];
	size_t seen;

	for (size_t i = 0; i < SESSION_STREAMS; i++) {
		CHECK(!session_is_full(session));
		streams[i] = stream_new(session, "1");
	}
	CHECK(session_is_full(session));
	stream_end(streams[0]);
	CHECK(!session_is_full(session));
	CHECK(session_stream(session, "1-0", &seen) == streams[0]);
	stream_unref(stream_new(session, "1"));
	CHECK(session_is_full(session));
	stream_drop(streams[1]);
	CHECK(!session_is_full(session));
	CHECK(!session_stream(session, "2-0", &seen));
	for (size_t n = 1; n <= SESSION_STREAMS_OF_OWNER / SESSION_STREAMS; n++) {
		CHECK(!session_is_full(session));
		session = sessions_open(sessions, "alice", "2025-11-25", 1 + n);
		for (size_t i = 0; i < SESSION_STREAMS - 1; i++)
			stream_unref(stream_new(session, "1"));
	}
	CHECK(session_is_full(sessions_open(sessions, "alice", "2025-11-25", 100)));
	CHECK(!session_is_full(sessions_open(sessions, "bob", "2025-11-25", 100)));
	for (size_t i = 0; i < SESSION_STREAMS; i++)
		stream_unref(streams[i]);
	sessions_free(sessions);
}

/* A stream that is over, with so many bytes. */
static void keep(struct session *session, size_t bytes)
{
	struct stream *stream = stream_new(session, "1");
	char *text = mem_zalloc(bytes + 1);

	memset(text, 'x', bytes);
	CHECK(stream_put(stream, text));
	stream_end(stream);
	stream_unref(stream);
}

TEST(of_what_an_owner_keeps_the_oldest_goes)
{
	enum { MIB = 1024 * 1024, FIT = SESSION_BYTES_OF_OWNER / MIB };
	struct sessions *sessions = sessions_new();
	struct session *first = sessions_open(sessions, "alice", "2025-11-25", 1);
	struct session *second = sessions_open(sessions, "alice", "2025-11-25", 1);
	struct session *other = sessions_open(sessions, "bob", "2025-11-25", 1);
	size_t seen;

	keep(other, MIB);
	keep(first, MIB);
	for (int i = 0; i < FIT - 1; i++)
		keep(second, MIB);
	CHECK(session_stream(first, "1-0", &seen));
	keep(second, MIB);
	CHECK(!session_stream(first, "1-0", &seen));
	CHECK(session_stream(second, "1-0", &seen));
	keep(first, 2 * MIB);
	CHECK(!session_stream(second, "2-0", &seen));
	CHECK(session_stream(second, "3-0", &seen));
	CHECK(session_stream(first, "2-0", &seen));
	CHECK(session_stream(other, "1-0", &seen));
	sessions_free(sessions);
}

TEST(every_tool_has_a_route_and_arguments_of_one_meaning)
{
	for (const struct tool *tool = tool_table; tool->name; tool++) {
		const struct route *route = mcp_route(tool);
		json_t *described = mcp_describe(tool);
		const json_t *schema = json_object_get(described, "inputSchema");
		const json_t *properties = json_object_get(schema, "properties");
		const json_t *body =
			route->request ? schema_describe(schema_find(route->request)) : NULL;

		CHECK(json_is_object(properties));
		for (const char *at = strchr(route->path, '{'); at; at = strchr(at + 1, '{')) {
			auto_free char *name = mem_strndup(at + 1, strcspn(at + 1, "}"));

			CHECK(json_object_get(properties, name));
			CHECK(!json_object_get(json_object_get(body, "properties"), name));
		}
		CHECK(!json_object_get(json_object_get(body, "properties"), "waitSeconds"));
		json_decref((json_t *)(uintptr_t)body);
		json_decref(described);
	}
	CHECK(!tool_find("nosuch"));
}

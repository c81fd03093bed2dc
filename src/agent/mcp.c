#include "agent/mcp.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "acp/message.h"
#include "agent/reach.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/must.h"
#include "base/str.h"
#include "cli/http.h"
#include "cli/sse.h"

#define REVISION "2025-06-18"

enum {
	SERVERS_MOST = 20,
	TOOLS_MOST = 128,
	NAME_MOST = 64, /* what models take */
	PAGES_MOST = 16,
	GREET_MS = 30 * 1000,
	CALL_MS = 10 * 60 * 1000,
	PIECE = 16 * 1024,
};

struct server {
	const json_t *config; /* of mcp->config */
	const char *name;
	uint64_t asked;
	/* A program: */
	pid_t pid; /* 0: none */
	int to_fd, from_fd;
	struct acp_lines lines;
	/* An address: */
	char session[80];
};

struct mcp_tool {
	char name[NAME_MOST + 1];
	size_t server;
	json_t *described;
};

struct mcp {
	json_t *config;
	struct server servers[SERVERS_MOST];
	size_t server_count;
	struct mcp_tool tools[TOOLS_MOST];
	size_t tool_count;
};

/* A request that waits for its answer. */
struct asking {
	struct server *server;
	const struct tools_call *how;
	uint64_t id, due_ms;
	json_t *result; /* NULL: it has not come */
	struct err *err;
};

/* --- what they say --- */

static void reply(struct server *server, const struct acp_message *message)
{
	auto_free char *line = str_eq(message->method, "ping")
	                               ? acp_result(message->id, NULL)
	                               : acp_error(message->id, ACP_ERR_METHOD, "not here");

	(void)!io_write_all(server->to_fd, line,
	                    strlen(line)); /* its end is seen when it is read */
}

static void on_message(const char *line, size_t len, void *ctx)
{
	struct asking *asking = ctx;
	struct acp_message message;
	struct err ignored = {0};
	char shown[160];

	/* A line that is no message is a word that a program should have kept to itself. */
	if (acp_parse(line, len, &message, &ignored) < 0)
		return;
	if (message.kind == ACP_REQUEST && asking->server->pid) {
		reply(asking->server, &message);
	} else if (message.kind == ACP_RESPONSE && json_is_integer(message.id) &&
	           json_integer_value(message.id) == (json_int_t)asking->id) {
		if (message.error) {
			const char *text = acp_text(message.error, "message");

			str_escape(shown, sizeof(shown), text, strlen(text));
			(void)err_set(asking->err, ERR_PROTOCOL, "%s answered: %s",
			              asking->server->name, shown);
		} else {
			asking->result = json_incref((json_t *)message.result);
		}
	}
	acp_message_done(&message);
}

static bool is_over(const struct asking *asking)
{
	return asking->result || asking->err->code != ERR_OK;
}

static bool is_cancelled(const struct asking *asking)
{
	if (!asking->how->is_cancelled(asking->how->ctx))
		return false;
	*asking->err = (struct err){0};
	(void)err_set(asking->err, ERR_GONE, "the turn was cancelled");
	return true;
}

static int check_time(const struct asking *asking)
{
	if (io_boot_ms() < asking->due_ms)
		return 0;
	*asking->err = (struct err){0};
	return err_set(asking->err, ERR_TIMEOUT, "%s does not answer", asking->server->name);
}

/* --- programs --- */

static NORETURN void be_server(const json_t *config, const char *cwd, int in, int out)
{
	const json_t *args = json_object_get(config, "args"), *env = json_object_get(config, "env");
	size_t count = json_array_size(args);
	char **argv = mem_zalloc((count + 2) * sizeof(char *));
	json_t *pair;
	size_t i;

	argv[0] = mem_strdup(acp_text(config, "command"));
	for (i = 0; i < count; i++) {
		const char *text = json_string_value(json_array_get(args, i));

		argv[i + 1] = mem_strdup(text ? text : "");
	}
	json_array_foreach (env, i, pair)
		(void)setenv(acp_text(pair, "name"), acp_text(pair, "value"), 1);
	(void)setpgid(0, 0); /* fails only when it is done already */
	(void)signal(SIGPIPE, SIG_DFL);
	if (dup2(in, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0 || chdir(cwd) < 0)
		_exit(126);
	execvp(argv[0], argv);
	_exit(127);
}

static int start(struct server *server, const char *cwd, struct err *err)
{
	int in[2] = {-1, -1}, out[2] = {-1, -1};
	pid_t pid = -1;

	if (pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0)
		pid = fork();
	if (pid == 0)
		be_server(server->config, cwd, in[0], out[1]);
	if (pid < 0)
		(void)err_sys(err, errno, "start %s", server->name);
	fd_closep(&in[0]);
	fd_closep(&out[1]);
	if (pid < 0) {
		fd_closep(&in[1]);
		fd_closep(&out[0]);
		return -1;
	}
	(void)setpgid(pid, pid); /* whoever comes first */
	server->pid = pid;
	server->to_fd = in[1];
	server->from_fd = out[0];
	acp_lines_init(&server->lines);
	return 0;
}

static void stop(struct server *server)
{
	if (!server->pid)
		return;
	fd_closep(&server->to_fd);
	fd_closep(&server->from_fd);
	(void)kill(-server->pid, SIGKILL);
	(void)waitpid(server->pid, NULL, 0);
	acp_lines_done(&server->lines);
	server->pid = 0;
}

static int ended(struct server *server, struct err *err)
{
	int status = 0;

	(void)kill(-server->pid, SIGKILL);
	(void)waitpid(server->pid, &status, 0);
	return WIFEXITED(status) && WEXITSTATUS(status) == 127
	               ? err_set(err, ERR_UNAVAILABLE, "%s: there is no program '%.60s'",
	                         server->name, acp_text(server->config, "command"))
	               : err_set(err, ERR_UNAVAILABLE, "%s has ended", server->name);
}

static int read_program(struct asking *asking)
{
	struct server *server = asking->server;
	struct pollfd fds[2] = {{.fd = server->from_fd, .events = POLLIN},
	                        {.fd = asking->how->watch_fd, .events = POLLIN}};
	uint8_t bytes[PIECE];
	ssize_t got;

	(void)poll(fds, ARRAY_LEN(fds), 1000); /* then the clock is looked at */
	if (fds[1].revents && is_cancelled(asking))
		return -1;
	if (!fds[0].revents)
		return check_time(asking);
	got = read(server->from_fd, bytes, sizeof(bytes));
	if (got <= 0)
		return ended(server, asking->err);
	if (acp_lines_feed(&server->lines, 0, bytes, (size_t)got, on_message, asking) < 0)
		return err_set(asking->err, ERR_PROTOCOL, "%s says too much in one line",
		               server->name);
	return check_time(asking);
}

static int ask_program(struct asking *asking, const char *line)
{
	int r = io_write_all(asking->server->to_fd, line, strlen(line));

	if (r < 0)
		return ended(asking->server, asking->err);
	while (!is_over(asking) && asking->id) {
		if (read_program(asking) < 0)
			return -1;
	}
	return asking->err->code == ERR_OK ? 0 : -1;
}

/* --- addresses --- */

/* A wait that something on standard input ended goes on, unless that was the end of the turn. */
static bool goes_on(struct asking *asking, int r)
{
	if (r >= 0 || asking->err->sys != ECANCELED || is_cancelled(asking))
		return false;
	*asking->err = (struct err){0};
	return check_time(asking) == 0;
}

static ssize_t read_some(struct asking *asking, struct http *http, uint8_t bytes[PIECE])
{
	ssize_t got;

	do
		got = http_read(http, bytes, PIECE, asking->err);
	while (goes_on(asking, got < 0 ? -1 : 0));
	return got;
}

static int read_document(struct asking *asking, struct http *http)
{
	uint8_t bytes[PIECE];
	struct buf whole;
	ssize_t got;
	int r = 0;

	buf_init(&whole, ACP_LINE_MOST);
	while (r == 0 && (got = read_some(asking, http, bytes)) != 0)
		r = got < 0 ? -1 : buf_put(&whole, bytes, (size_t)got);
	if (r == 0 && buf_len(&whole) > 0)
		on_message((const char *)buf_head(&whole), buf_len(&whole), asking);
	buf_done(&whole);
	if (r < 0 && asking->err->code == ERR_OK)
		(void)err_set(asking->err, ERR_PROTOCOL, "%s says too much", asking->server->name);
	return asking->err->code == ERR_OK ? 0 : -1;
}

static int read_events(struct asking *asking, struct http *http)
{
	auto_(sse_done) struct sse sse;
	struct sse_event event;
	uint8_t bytes[PIECE];
	ssize_t got;
	int r = 0;

	sse_init(&sse);
	while (!is_over(asking) && (got = read_some(asking, http, bytes)) > 0 && r >= 0) {
		r = sse_feed(&sse, bytes, (size_t)got);
		while (r >= 0 && !is_over(asking) && (r = sse_next(&sse, &event)) > 0)
			on_message(event.data, event.len, asking);
	}
	if (r < 0 && asking->err->code == ERR_OK)
		(void)err_set(asking->err, ERR_PROTOCOL, "%s: its answer is malformed",
		              asking->server->name);
	return asking->err->code == ERR_OK ? 0 : -1;
}

/* Headers of every request, and those the client wants; the caller frees. */
static char *headers_of(const struct server *server)
{
	struct buf text;
	json_t *pair;
	char *whole;
	size_t i;

	buf_init(&text, ACP_LINE_MOST);
	(void)!buf_puts(&text, "MCP-Protocol-Version: " REVISION "\r\n");
	if (server->session[0])
		(void)!buf_printf(&text, "Mcp-Session-Id: %s\r\n", server->session);
	json_array_foreach (json_object_get(server->config, "headers"), i, pair) {
		const char *name = acp_text(pair, "name"), *value = acp_text(pair, "value");

		if (!name[strcspn(name, ": \t\r\n")] && *name && !value[strcspn(value, "\r\n")])
			(void)!buf_printf(&text, "%s: %s\r\n", name, value);
	}
	whole = buf_take_string(&text);
	buf_done(&text);
	return whole;
}

static int ask_address(struct asking *asking, const char *line)
{
	auto_(http_close) struct http http;
	struct server *server = asking->server;
	auto_free char *headers = headers_of(server);
	struct http_request request = {.method = "POST",
	                               .accept = "application/json, text/event-stream",
	                               .content_type = "application/json",
	                               .headers = headers,
	                               .body = line,
	                               .body_len = strlen(line)};
	int r;

	http_init(&http);
	if (reach_open(acp_text(server->config, "url"), &http, &request.target, asking->err) < 0)
		return -1;
	http.interrupt_fd = asking->how->watch_fd;
	http.wait_ms = asking->id ? CALL_MS : GREET_MS;
	r = http_begin(&http, &request, asking->err);
	if (r >= 0) {
		do
			r = http_finish(&http, asking->err);
		while (goes_on(asking, r));
	}
	if (r < 0)
		return -1;
	if (http.head.status / 100 != 2)
		return err_set(asking->err, ERR_UNAVAILABLE, "%s answered status %d", server->name,
		               http.head.status);
	if (http.head.mcp_session[0])
		(void)snprintf(server->session, sizeof(server->session), "%s",
		               http.head.mcp_session); /* both are as long */
	return str_eq(http.head.content_type, "text/event-stream") ? read_events(asking, &http)
	                                                           : read_document(asking, &http);
}

/* --- asking --- */

static int send_line(struct asking *asking, const char *line)
{
	return asking->server->pid ? ask_program(asking, line) : ask_address(asking, line);
}

/* Takes params; the caller frees *ret. */
static int ask(struct server *server, const struct tools_call *how, const char *method,
               json_t *params, json_t **ret, struct err *err)
{
	uint64_t id = ++server->asked;
	auto_free char *line = acp_request(id, method, params);
	uint64_t most_ms = str_eq(method, "tools/call") ? CALL_MS : GREET_MS;
	struct asking asking = {server, how, id, io_boot_ms() + most_ms, NULL, err};
	int r = send_line(&asking, line);

	if (r == 0 && !asking.result)
		r = err_set(err, ERR_PROTOCOL, "%s gave no answer", server->name);
	if (r < 0)
		json_decref(asking.result);
	else
		*ret = asking.result;
	return r;
}

static int greet(struct server *server, const struct tools_call *how, struct err *err)
{
	auto_free char *line = acp_notification("notifications/initialized", NULL);
	struct asking told = {server, how, 0, io_boot_ms() + GREET_MS, NULL, err};
	json_t *result = NULL;

	if (ask(server, how, "initialize",
	        json_pack("{s:s, s:{}, s:{s:s, s:s}}", "protocolVersion", REVISION, "capabilities",
	                  "clientInfo", "name", "cloche-agent", "version", CLOCHE_VERSION),
	        &result, err) < 0)
		return -1;
	json_decref(result);
	return send_line(&told, line);
}

/* --- tools --- */

/* SERVER_TOOL, of the letters that models take. */
static void name_tool(char to[NAME_MOST + 1], const char *server, const char *tool)
{
	auto_free char *whole = mem_printf("%s_%s", server, tool);
	size_t len = MIN(strlen(whole), (size_t)NAME_MOST);

	for (size_t i = 0; i < len; i++) {
		bool is_plain = (whole[i] >= 'a' && whole[i] <= 'z') ||
		                (whole[i] >= 'A' && whole[i] <= 'Z') ||
		                (whole[i] >= '0' && whole[i] <= '9') || whole[i] == '_' ||
		                whole[i] == '-';

		to[i] = whole[i];
		if (!is_plain)
			to[i] = '_';
	}
	to[len] = '\0';
}

static int add_tool(struct mcp *mcp, size_t server, const json_t *tool, struct err *err)
{
	const char *name = acp_text(tool, "name"), *server_name = mcp->servers[server].name;
	json_t *schema = json_object_get(tool, "inputSchema");
	struct mcp_tool *to;

	if (!*name)
		return 0;
	if (mcp->tool_count == TOOLS_MOST)
		return err_set(err, ERR_LIMITED, "%s: more than %d tools", server_name, TOOLS_MOST);
	to = &mcp->tools[mcp->tool_count];
	name_tool(to->name, server_name, name);
	if (mcp_find(mcp, to->name) || tools_find(to->name))
		return err_set(err, ERR_CONFLICT, "%s: two tools are called %s", server_name,
		               to->name);
	to->server = server;
	to->described = json_pack("{s:s, s:s, s:o}", "name", name, "description",
	                          acp_text(tool, "description"), "inputSchema",
	                          json_is_object(schema) ? json_incref(schema)
	                                                 : json_pack("{s:s}", "type", "object"));
	mcp->tool_count++;
	return 0;
}

static int list_tools(struct mcp *mcp, size_t at, const struct tools_call *how, struct err *err)
{
	json_t *cursor = NULL;
	int r = 0;

	for (int page = 0; r == 0 && page < PAGES_MOST; page++) {
		json_t *params = json_object(), *result = NULL, *tool;
		size_t i;

		if (cursor)
			json_object_set_new(params, "cursor", cursor);
		cursor = NULL;
		r = ask(&mcp->servers[at], how, "tools/list", params, &result, err);
		if (r < 0)
			break;
		json_array_foreach (json_object_get(result, "tools"), i, tool) {
			if (r == 0)
				r = add_tool(mcp, at, tool, err);
		}
		cursor = json_incref(json_object_get(result, "nextCursor"));
		json_decref(result);
		if (!json_is_string(cursor))
			break;
	}
	json_decref(cursor);
	return r;
}

int mcp_open(const json_t *servers, const struct tools_call *how, struct mcp **ret, struct err *err)
{
	struct mcp *mcp = mem_new(struct mcp);
	json_t *config;
	int r = 0;
	size_t i;

	mcp->config = json_incref((json_t *)servers);
	json_array_foreach (mcp->config, i, config) {
		struct server *server = &mcp->servers[i];

		if (i == SERVERS_MOST) {
			r = err_set(err, ERR_LIMITED, "more than %d servers of MCP", SERVERS_MOST);
			break;
		}
		*server = (struct server){.config = config, .to_fd = -1, .from_fd = -1};
		server->name = acp_text(config, "name");
		mcp->server_count++;
		if (json_object_get(config, "command"))
			r = start(server, how->cwd, err);
		if (r == 0)
			r = greet(server, how, err);
		if (r == 0)
			r = list_tools(mcp, i, how, err);
		if (r < 0)
			break;
	}
	if (r < 0)
		mcp_free(mcp);
	else
		*ret = mcp;
	return r;
}

void mcp_free(struct mcp *mcp)
{
	if (!mcp)
		return;
	for (size_t i = 0; i < mcp->server_count; i++)
		stop(&mcp->servers[i]);
	for (size_t i = 0; i < mcp->tool_count; i++)
		json_decref(mcp->tools[i].described);
	json_decref(mcp->config);
	mem_freep(&mcp);
}

void mcp_describe(const struct mcp *mcp, json_t *list)
{
	for (size_t i = 0; mcp && i < mcp->tool_count; i++) {
		const struct mcp_tool *tool = &mcp->tools[i];

		json_array_append_new(list,
		                      json_pack("{s:s, s:{s:s, s:O, s:O}}", "type", "function",
		                                "function", "name", tool->name, "description",
		                                json_object_get(tool->described, "description"),
		                                "parameters",
		                                json_object_get(tool->described, "inputSchema")));
	}
}

const struct mcp_tool *mcp_find(const struct mcp *mcp, const char *name)
{
	for (size_t i = 0; mcp && i < mcp->tool_count; i++) {
		if (str_eq(mcp->tools[i].name, name))
			return &mcp->tools[i];
	}
	return NULL;
}

/* Text as it is; other kinds are named, not dropped in silence. */
static void put_content(const json_t *content, struct buf *answer)
{
	json_t *block;
	size_t i;

	json_array_foreach (content, i, block) {
		const char *type = acp_text(block, "type");

		if (i > 0)
			(void)!buf_puts(answer, "\n");
		if (str_eq(type, "text"))
			(void)!buf_put(answer, acp_text(block, "text"),
			               MIN(strlen(acp_text(block, "text")), buf_room(answer)));
		else
			(void)!buf_printf(answer, "[a block of type %.40s that I cannot read]",
			                  type);
	}
}

int mcp_call(struct mcp *mcp, const struct mcp_tool *tool, const struct tools_call *how,
             json_t *arguments, struct buf *answer)
{
	struct server *server = &mcp->servers[tool->server];
	json_t *result = NULL, *name = json_object_get(tool->described, "name");
	struct err err = {0};
	bool has_failed;

	must(name);
	if (ask(server, how, "tools/call",
	        json_pack("{s:O, s:O}", "name", name, "arguments", arguments), &result, &err) < 0) {
		(void)!buf_printf(answer, "error: %s", err.msg);
		return -1;
	}
	put_content(json_object_get(result, "content"), answer);
	has_failed = json_is_true(json_object_get(result, "isError"));
	json_decref(result);
	return has_failed ? -1 : 0;
}

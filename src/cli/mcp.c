/*
 * `cloche mcp`: MCP on standard input and output, a message a line, for clients that start their
 * servers. Each message goes to /mcp of the daemon and what it answers comes back. Requests go on
 * at the same time, each in a process of its own (an answer can take as long as a task); a lock
 * keeps their lines apart.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <jansson.h>

#include "base/buf.h"
#include "base/io.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/commands.h"
#include "cli/encode.h"
#include "cli/remote.h"
#include "cli/sse.h"

enum { ANSWER_MAX = 32 * 1024 * 1024, LINE_MAX_ = LIMIT_JSON_BODY_BYTES };

struct bridge {
	struct cli *cli;
	char session[80]; /* "": none yet */
	char version[40]; /* agreed on in the handshake */
	int lock_fd;
};

/* One line, whole: nobody else writes in between. */
static void say(struct bridge *bridge, const char *text, size_t len)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

	while (len > 0 && (text[len - 1] == '\n' || text[len - 1] == '\r'))
		len--;
	if (len == 0)
		return;
	while (fcntl(bridge->lock_fd, F_SETLKW, &lock) < 0 && errno == EINTR)
		;
	if (io_write_all(STDOUT_FILENO, text, len) < 0 || io_write_all(STDOUT_FILENO, "\n", 1) < 0)
		_exit(1); /* the client has gone */
	lock.l_type = F_UNLCK;
	(void)fcntl(bridge->lock_fd, F_SETLK, &lock); /* unlocking does not fail */
}

static void say_json(struct bridge *bridge, const json_t *message)
{
	char *text = json_dumps(message, JSON_COMPACT);

	if (text)
		say(bridge, text, strlen(text));
	free(text);
}

/* A request that nobody answered is answered here: the client must not wait for ever. */
static void say_failure(struct bridge *bridge, const json_t *message, const char *why)
{
	const json_t *id = json_object_get(message, "id");
	auto_json json_t *answer = NULL;

	if (!id || !json_object_get(message, "method"))
		return;
	answer = json_pack("{s:s, s:O, s:{s:i, s:s}}", "jsonrpc", "2.0", "id", id, "error", "code",
	                   -32603, "message", why);
	say_json(bridge, answer);
}

/* --- one message to the daemon --- */

static void add_header(struct buf *headers, const char *name, const char *value)
{
	for (const char *at = value; *at; at++) {
		if ((unsigned char)*at < ' ' || (unsigned char)*at > '~')
			return; /* no header can carry it; the daemon says what is missing */
	}
	if (*value)
		(void)!buf_printf(headers, "%s: %s\r\n", name,
		                  value); /* too much is refused there */
}

static void add_headers(const struct bridge *bridge, const json_t *message, struct buf *headers)
{
	const json_t *params = json_object_get(message, "params");
	const char *modern = client_str(json_object_get(params, "_meta"),
	                                "io.modelcontextprotocol/protocolVersion");
	const char *name = client_str(params, "name");

	if (*modern) {
		add_header(headers, "MCP-Protocol-Version", modern);
		add_header(headers, "Mcp-Method", client_str(message, "method"));
		add_header(headers, "Mcp-Name", *name ? name : client_str(params, "uri"));
		return;
	}
	add_header(headers, "Mcp-Session-Id", bridge->session);
	add_header(headers, "MCP-Protocol-Version", bridge->version);
}

static int read_whole(struct bridge *bridge, struct http *http, struct buf *body)
{
	uint8_t bytes[16 * 1024];
	ssize_t n;

	while ((n = http_read(http, bytes, sizeof(bytes), &bridge->cli->err)) > 0) {
		if (buf_put(body, bytes, (size_t)n) < 0)
			return err_set(&bridge->cli->err, ERR_TOO_LARGE, "an answer is too long");
	}
	return n < 0 ? -1 : 0;
}

static int relay_events(struct bridge *bridge)
{
	auto_(sse_done) struct sse sse;
	struct sse_event event;
	int r;

	sse_init(&sse);
	while ((r = client_next_event(bridge->cli, &sse, &event)) > 0)
		say(bridge, event.data, strlen(event.data));
	return r;
}

/* Sends and gives what comes back to the client. The session of a handshake is kept. */
static int relay(struct bridge *bridge, const char *line, size_t len, const json_t *message)
{
	auto_(buf_done) struct buf headers, body;
	struct cli *cli = bridge->cli;
	struct http_request request = {.method = "POST",
	                               .target = "/mcp",
	                               .accept = "application/json, text/event-stream",
	                               .content_type = "application/json",
	                               .body = line,
	                               .body_len = len};

	buf_init(&headers, LIMIT_HTTP_HEADER_BYTES);
	buf_init(&body, ANSWER_MAX);
	add_headers(bridge, message, &headers);
	auto_free char *lines = buf_take_string(&headers);

	request.headers = lines;
	if (client_connect(cli) < 0 || http_begin(&cli->http, &request, &cli->err) < 0 ||
	    http_finish(&cli->http, &cli->err) < 0)
		return -1;
	if (cli->http.head.mcp_session[0])
		memcpy(bridge->session, cli->http.head.mcp_session, sizeof(bridge->session));
	if (str_eq(cli->http.head.content_type, "text/event-stream"))
		return relay_events(bridge);
	if (read_whole(bridge, &cli->http, &body) < 0)
		return -1;
	auto_free char *text = buf_take_string(&body);
	auto_json json_t *answer = json_loads(text, 0, NULL);

	if (json_object_get(answer, "jsonrpc")) {
		const char *version =
			client_str(json_object_get(answer, "result"), "protocolVersion");

		if (*version)
			(void)snprintf(bridge->version, sizeof(bridge->version), "%s", version);
		say_json(bridge, answer);
	} else if (cli->http.head.status >= 300) {
		say_failure(bridge, message,
		            answer ? client_str(answer, "detail") : "the daemon refuses");
	}
	return 0;
}

/* --- many of them --- */

static bool is_request(const json_t *message)
{
	return json_object_get(message, "id") && json_object_get(message, "method") &&
	       !str_eq(client_str(message, "method"), "initialize");
}

static void relay_or_say(struct bridge *bridge, const char *line, size_t len, const json_t *message)
{
	if (relay(bridge, line, len, message) < 0) {
		say_failure(bridge, message, bridge->cli->err.msg);
		bridge->cli->err = (struct err){0};
	}
	/* The next message may be long in coming, and the daemon keeps nobody that long. */
	http_close(&bridge->cli->http);
}

static void take_line(struct bridge *bridge, const char *line, size_t len)
{
	auto_json json_t *message = json_loadb(line, len, 0, NULL);
	pid_t pid = -1;

	/* What others must wait for is done here: the handshake, and notices in their order. */
	if (is_request(message)) {
		pid = fork();
		if (pid > 0)
			return;
	}
	if (pid == 0) {
		/* A connection of its own: that of the parent is the parent's. */
		http_close(&bridge->cli->http);
		relay_or_say(bridge, line, len, message);
		_exit(0);
	}
	relay_or_say(bridge, line, len, message);
}

static void reap(bool all)
{
	while (waitpid(-1, NULL, all ? 0 : WNOHANG) > 0 || (all && errno == EINTR))
		;
}

static int read_lines(struct bridge *bridge)
{
	auto_(buf_done) struct buf in;
	ssize_t n;

	buf_init(&in, LINE_MAX_);
	while ((n = buf_read_fd(&in, STDIN_FILENO, 64 * 1024)) != 0) {
		const uint8_t *end;

		if (n == -EINTR)
			continue;
		if (n < 0)
			return err_sys(&bridge->cli->err, (int)-n, "read a message");
		while (buf_len(&in) > 0 && (end = memchr(buf_head(&in), '\n', buf_len(&in)))) {
			size_t len = (size_t)(end - buf_head(&in));

			if (len > 0)
				take_line(bridge, (const char *)buf_head(&in), len);
			buf_consume(&in, len + 1);
		}
		reap(false);
	}
	return 0;
}

static void end_session(struct bridge *bridge)
{
	struct http_request request = {.method = "DELETE", .target = "/mcp"};
	struct cli *cli = bridge->cli;
	struct err ignored = {0};
	char header[120];

	if (!bridge->session[0] || client_connect(cli) < 0)
		return;
	(void)snprintf(header, sizeof(header), "Mcp-Session-Id: %s\r\n", bridge->session);
	request.headers = header;
	/* Nobody is left to tell; an idle session ends by itself. */
	if (http_begin(&cli->http, &request, &ignored) == 0)
		(void)!http_finish(&cli->http, &ignored);
}

int cmd_mcp(struct cli *cli)
{
	struct bridge bridge = {.cli = cli};
	int r = cli_parse(cli, NULL, 0, 0);

	if (r <= 0)
		return r;
	auto_close int lock_fd = memfd_create("cloche-mcp", MFD_CLOEXEC);

	if (lock_fd < 0)
		return err_sys(&cli->err, errno, "make a lock");
	bridge.lock_fd = lock_fd;
	r = read_lines(&bridge);
	reap(true);
	end_session(&bridge);
	return r;
}

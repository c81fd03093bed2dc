/* The command line's HTTP client: hostile answers, streams, connections that break. */
#include "cli/http.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "harness/test.h"

static ssize_t parse(const char *text, struct http_head *ret)
{
	return http_parse_head((const uint8_t *)text, strlen(text), ret);
}

TEST(a_plain_head)
{
	struct http_head head;
	const char *text = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n"
			   "CONTENT-TYPE:  Application/JSON; charset=utf-8 \r\n\r\nhello";
	CHECK_INT(parse(text, &head), strlen(text) - 5);
	CHECK_INT(head.status, 200);
	CHECK(head.has_length && head.length == 5 && head.keep_alive && !head.chunked);
	CHECK_STR(head.content_type, "application/json");
}

TEST(heads_that_need_more_bytes)
{
	struct http_head head;
	const char *text = "HTTP/1.1 204 No Content\r\nA: b\r\n\r\n";
	for (size_t len = 0; len < strlen(text); len++)
		CHECK_INT(http_parse_head((const uint8_t *)text, len, &head), 0);
	CHECK_INT(parse(text, &head), strlen(text));
}

TEST(hostile_heads_are_refused)
{
	static const char *const bad[] = {
		"HTTP/2 200 OK\r\n\r\n",
		"HTTP/1.1 20 OK\r\n\r\n",
		"HTTP/1.1 2000\r\n\r\n",
		"HTTP/1.1 099 X\r\n\r\n",
		"HTTP/1.12200 OK\r\n\r\n",
		"hello",
		"\r\n\r\n",
		"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
		"HTTP/1.1 200 OK\r\n: empty\r\n\r\n",
		"HTTP/1.1 200 OK\r\nA : b\r\n\r\n",
		"HTTP/1.1 200 OK\r\n folded\r\n\r\n",
		"HTTP/1.1 200 OK\r\nA: b\nB: c\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 1 2\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, chunked\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n"
		"Transfer-Encoding: chunked\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
	};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct http_head head;
		if (parse(bad[i], &head) != -EPROTO)
			test_fail(__FILE__, __LINE__, "accepted: %s", bad[i]);
	}
}

TEST(a_head_without_end_is_too_long)
{
	struct http_head head;
	auto_free char *text = mem_zalloc(HTTP_HEAD_MAX + 2);
	memset(text, 'a', HTTP_HEAD_MAX + 1);
	memcpy(text, "HTTP/1.1 200 OK\r\n", 17);
	CHECK_INT(parse(text, &head), -EMSGSIZE);
}

TEST(connection_close_and_old_versions_end_the_connection)
{
	struct http_head head;
	CHECK(parse("HTTP/1.1 200 OK\r\nConnection: Keep-Alive, Close\r\n\r\n", &head) > 0);
	CHECK(!head.keep_alive);
	CHECK(parse("HTTP/1.0 200 OK\r\n\r\n", &head) > 0);
	CHECK(!head.keep_alive);
}

/* Decodes a body given in pieces; the text, or NULL when it is refused. */
static char *decode(const char *head_text, const char *body_text, size_t piece, bool *ret_done)
{
	struct http_head head;
	struct http_body body;
	struct buf in, out;
	uint8_t bytes[7];
	ssize_t got = 0;
	CHECK(parse(head_text, &head) > 0);
	http_body_init(&body, &head, false);
	buf_init(&in, 64 * 1024);
	buf_init(&out, 64 * 1024);
	for (size_t at = 0; at < strlen(body_text) && got >= 0; at += piece) {
		CHECK_INT(buf_put(&in, body_text + at, MIN(piece, strlen(body_text) - at)), 0);
		while ((got = http_body_decode(&body, &in, bytes, sizeof(bytes))) > 0)
			CHECK_INT(buf_put(&out, bytes, (size_t)got), 0);
	}
	*ret_done = body.state == HTTP_BODY_DONE;
	char *text = buf_take_string(&out);
	buf_done(&in);
	buf_done(&out);
	if (got >= 0)
		return text;
	free(text);
	return NULL;
}

#define CHUNKED "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"

TEST(chunked_bodies_in_pieces_of_every_size)
{
	const char *body = "5\r\nhello\r\nA;ext=1\r\n, chunked!\r\n0\r\nTrailer: x\r\n\r\n";
	for (size_t piece = 1; piece <= strlen(body); piece++) {
		bool done = false;
		auto_free char *text = decode(CHUNKED, body, piece, &done);
		CHECK_STR(text, "hello, chunked!");
		CHECK(done);
	}
}

TEST(hostile_chunks_are_refused)
{
	static const char *const bad[] = {"x\r\n",
	                                  "\r\n",
	                                  "-1\r\n",
	                                  "1 1\r\n",
	                                  "5\r\nhelloXX5\r\n",
	                                  "1\r\nabc\r\n",
	                                  "fffffffffffffffff\r\n",
	                                  "1000000000000000000\r\n"};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		bool done = false;
		auto_free char *text = decode(CHUNKED, bad[i], 1, &done);
		if (text != NULL)
			test_fail(__FILE__, __LINE__, "accepted: %s", bad[i]);
	}
}

TEST(endless_trailers_are_refused)
{
	auto_free char *body = mem_zalloc(64 * 1024);
	bool done = false;
	memcpy(body, "0\r\n", 3);
	for (size_t at = 3; at + 8 < 16 * 1024; at += 6)
		memcpy(body + at, "A: b\r\n", 6);
	auto_free char *text = decode(CHUNKED, body, 100, &done);
	CHECK(text == NULL);
}

TEST(bodies_by_length_and_by_close)
{
	bool done = false;
	auto_free char *exact =
		decode("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", "abcNEXT", 2, &done);
	CHECK_STR(exact, "abc");
	CHECK(done);
	auto_free char *open_end = decode("HTTP/1.1 200 OK\r\n\r\n", "all of it", 4, &done);
	CHECK_STR(open_end, "all of it");
	CHECK(!done);
	auto_free char *none = decode("HTTP/1.1 204 No\r\n\r\n", "junk", 4, &done);
	CHECK_STR(none, "");
	CHECK(done);
}

/* --- over a socket, against a scripted server --- */

struct server {
	pid_t pid;
	struct http http;
};

/* Answers with `answer` as soon as `wait_for` has been read (NULL: at once), then closes. */
static void serve(struct server *server, const char *wait_for, const char *answer)
{
	int fds[2];
	CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	http_init(&server->http);
	server->pid = fork();
	CHECK(server->pid >= 0);
	if (server->pid == 0) {
		static char seen[256 * 1024];
		size_t len = 0;
		ssize_t got = 1;
		close(fds[0]);
		while (wait_for != NULL && strstr(seen, wait_for) == NULL && got > 0) {
			got = read(fds[1], seen + len, sizeof(seen) - 1 - len);
			len += got > 0 ? (size_t)got : 0;
		}
		(void)!io_write_all(fds[1], answer, strlen(answer));
		_exit(strstr(seen, wait_for == NULL ? "" : wait_for) != NULL ? 0 : 1);
	}
	close(fds[1]);
	http_adopt(&server->http, fds[0]);
}

static void finish(struct server *server)
{
	int status = 0;
	http_close(&server->http);
	CHECK_INT(waitpid(server->pid, &status, 0), server->pid);
	CHECK_INT(status, 0);
}

TEST(request_and_answer)
{
	struct server server;
	struct err err = {0};
	char body[32] = "";
	const struct http_request request = {.method = "POST",
	                                     .target = "/x?y=1",
	                                     .content_type = "application/json",
	                                     .body = "{}",
	                                     .body_len = 2,
	                                     .headers = "X-More: 1\r\n"};
	serve(&server, "Content-Length: 2\r\nX-More: 1\r\n\r\n{}",
	      "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 4\r\n\r\nfine");
	CHECK_INT(http_begin(&server.http, &request, &err), 0);
	CHECK_INT(http_finish(&server.http, &err), 0);
	CHECK_INT(server.http.head.status, 201);
	CHECK_INT(http_read(&server.http, body, sizeof(body), &err), 4);
	CHECK_STR(body, "fine");
	CHECK_INT(http_read(&server.http, body, sizeof(body), &err), 0);
	CHECK(http_can_reuse(&server.http));
	finish(&server);
}

TEST(chunked_upload)
{
	struct server server;
	struct err err = {0};
	const struct http_request request = {
		.method = "PUT", .target = "/", .has_stream = true, .stream_len = UINT64_MAX};
	serve(&server, "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
	      "HTTP/1.1 204 No Content\r\n\r\n");
	CHECK_INT(http_begin(&server.http, &request, &err), 0);
	CHECK_INT(http_send(&server.http, "abc", 3, &err), 1);
	CHECK_INT(http_send(&server.http, "", 0, &err), 1);
	CHECK_INT(http_send(&server.http, "de", 2, &err), 1);
	CHECK_INT(http_finish(&server.http, &err), 0);
	CHECK_INT(server.http.head.status, 204);
	finish(&server);
}

TEST(a_stream_that_is_too_short_or_long_is_not_sent_whole)
{
	struct server server;
	struct err err = {0};
	const struct http_request request = {
		.method = "PUT", .target = "/", .has_stream = true, .stream_len = 5};
	serve(&server, NULL, "");
	CHECK_INT(http_begin(&server.http, &request, &err), 0);
	CHECK_INT(http_send(&server.http, "abcdef", 6, &err), -1);
	finish(&server);
	serve(&server, "abc", "");
	CHECK_INT(http_begin(&server.http, &request, &err), 0);
	CHECK_INT(http_send(&server.http, "abc", 3, &err), 1);
	CHECK_INT(http_finish(&server.http, &err), -1);
	CHECK_HAS(err.msg, "shorter");
	finish(&server);
}

TEST(an_early_answer_ends_an_upload)
{
	struct server server;
	struct err err = {0};
	const struct http_request request = {
		.method = "PUT", .target = "/", .has_stream = true, .stream_len = UINT64_MAX};
	static char bytes[64 * 1024];
	char body[8] = "";
	int r = 1;
	serve(&server, "PUT / HTTP/1.1\r\n", "HTTP/1.1 404 No\r\nContent-Length: 2\r\n\r\nno");
	CHECK_INT(http_begin(&server.http, &request, &err), 0);
	for (int i = 0; r > 0 && i < 1000; i++)
		r = http_send(&server.http, bytes, sizeof(bytes), &err);
	CHECK_INT(r, 0);
	CHECK_INT(http_finish(&server.http, &err), 0);
	CHECK_INT(server.http.head.status, 404);
	CHECK_INT(http_read(&server.http, body, sizeof(body), &err), 2);
	CHECK(!http_can_reuse(&server.http));
	finish(&server);
}

TEST(a_lost_connection_says_whether_an_answer_had_begun)
{
	struct server server;
	struct err err = {0};
	char body[64];
	const struct http_request request = {.method = "GET", .target = "/"};
	serve(&server, "GET", "");
	CHECK_INT(http_begin(&server.http, &request, &err), 0);
	CHECK_INT(http_finish(&server.http, &err), -1);
	CHECK_INT(err.code, ERR_UNAVAILABLE);
	finish(&server);
	serve(&server, "GET", "HTTP/1.1 200 O");
	CHECK_INT(http_begin(&server.http, &request, &err), 0);
	CHECK_INT(http_finish(&server.http, &err), -1);
	CHECK_INT(err.code, ERR_PROTOCOL);
	finish(&server);
	serve(&server, "GET", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf");
	CHECK_INT(http_begin(&server.http, &request, &err), 0);
	CHECK_INT(http_finish(&server.http, &err), 0);
	CHECK_INT(http_read(&server.http, body, sizeof(body), &err), 4);
	CHECK_INT(http_read(&server.http, body, sizeof(body), &err), -1);
	CHECK_INT(err.code, ERR_PROTOCOL);
	finish(&server);
}

TEST(nobody_listens)
{
	struct http http;
	struct err err = {0};
	http_init(&http);
	CHECK_INT(http_open(&http, test_dir(), "cloche.sock", &err), -1);
	CHECK_INT(err.code, ERR_UNAVAILABLE);
	CHECK_HAS(err.msg, "cloche serve");
	http_close(&http);
}

TEST(a_long_path_is_no_obstacle)
{
	struct http http;
	struct err err = {0};
	auto_free char *dir = mem_printf("%s/%0150d", test_dir(), 0);
	http_init(&http);
	CHECK_INT(http_open(&http, dir, "cloche.sock", &err), -1);
	CHECK_INT(err.code, ERR_UNAVAILABLE);
	http_close(&http);
}

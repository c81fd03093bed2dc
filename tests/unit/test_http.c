#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/io.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/str.h"
#include "harness/test.h"
#include "http/request.h"
#include "http/server.h"
#include "http/sse.h"
#include "http/virtual.h"

enum { STREAM_BYTES = 3 << 20 };

static struct loop *loop;
static struct server *server;
static int listener;
static struct request *held;
static struct request *uploading;
static int ended, gone;
static size_t streamed; /* bytes pulled from, or taken of, a stream */
static size_t room;     /* how much a streamed body is taken */
static bool is_short;   /* of memory, when the library takes a header */

/* A program's definition comes before a shared library's: ours can be refused what the library
 * would allocate. */
enum MHD_Result MHD_add_response_header(struct MHD_Response *response, const char *name,
                                        const char *value)
{
	enum MHD_Result (*add)(struct MHD_Response *, const char *, const char *) =
		(__typeof__(add))dlsym(RTLD_NEXT, "MHD_add_response_header");

	CHECK(add);
	if (!is_short)
		return add(response, name, value);
	errno = ENOMEM;
	return MHD_NO;
}

static void on_end(struct request *request, bool is_gone, void *ctx)
{
	ended++;
	gone += is_gone;
}

static void say(struct request *request, int status, const char *text)
{
	request_answer(request, status, "text/plain", text, strlen(text));
}

static void on_body(struct request *request, const char *bytes, size_t len, void *ctx)
{
	char text[64];

	CHECK_INT(bytes[len], 0);
	(void)snprintf(text, sizeof(text), "%zu:%.10s", len, bytes);
	say(request, 200, text);
}

static size_t on_chunk(struct request *request, const uint8_t *bytes, size_t len, void *ctx)
{
	size_t take = MIN(len, room);

	if (len == 0) {
		say(request, 200, "taken");
		return 0;
	}
	room -= take;
	streamed += take;
	return take;
}

static ssize_t on_pull(struct request *request, uint8_t *to, size_t max, void *ctx)
{
	size_t take = MIN(max, (size_t)STREAM_BYTES - streamed);

	if (take == 0)
		return REQUEST_STREAM_END;
	memset(to, 'x', take);
	streamed += take;
	return (ssize_t)take;
}

static ssize_t on_idle_pull(struct request *request, uint8_t *to, size_t max, void *ctx)
{
	return 0;
}

enum { FLOOD_EVENTS = 2000, FLOOD_BYTES = 200 };

static unsigned flooded; /* events that were taken of a flood */

static void pour(struct sse *sse)
{
	char data[FLOOD_BYTES + 1];

	while (flooded < FLOOD_EVENTS) {
		(void)snprintf(data, sizeof(data), "%0*u", FLOOD_BYTES, flooded);
		if (sse_send(sse, NULL, NULL, data) < 0)
			return;
		flooded++;
	}
	sse_finish(sse);
}

static void on_sse_writable(struct sse *sse, void *ctx)
{
	if (ctx)
		pour(sse);
}

static void on_sse_end(struct sse *sse, bool is_gone, void *ctx)
{
	on_end(NULL, is_gone, NULL);
}

static const struct sse_ops sse_ops = {on_sse_writable, on_sse_end};

/* Before anything of it is sent: what was taken is in memory. */
static void begin_flood(struct request *request)
{
	pour(sse_open(request, &sse_ops, &flooded));
	CHECK(flooded > 0 && flooded * FLOOD_BYTES < 8 * 1024);
}

static void mark(struct request *request)
{
	const char *tag = request_query(request, "tag");
	const char *until = request_query(request, "until");
	uint64_t in_ms;

	if (tag)
		request_set_tag(request, tag);
	if (until && str_to_u64(until, &in_ms) == 0)
		request_disconnect_at(request, io_boot_ms() + in_ms);
}

static void say_who(struct request *request)
{
	char text[128];

	(void)snprintf(text, sizeof(text), "%s%s pid %d memo %d",
	               request_is_local(request) ? "local " : "", request_source(request),
	               request_pid(request), request_memo(request));
	request_set_memo(request, 7);
	say(request, 200, text);
}

static void on_request(struct request *request, void *ctx)
{
	const char *path = request_path(request);

	if (!str_eq(path, "/events") && !str_eq(path, "/flood"))
		request_set_on_end(request, on_end, NULL);
	mark(request);
	if (str_eq(path, "/now"))
		say(request, 200, "now");
	else if (str_eq(path, "/who"))
		say_who(request);
	else if (str_eq(path, "/count"))
		say(request, 200,
		    request_count_header(request, "Authorization") == 2 ? "2" : "not 2");
	else if (str_eq(path, "/query"))
		say(request, 200, request_query(request, "q"));
	else if (str_eq(path, "/later"))
		held = request_ref(request);
	else if (str_eq(path, "/body"))
		request_read_body(request, 1000, on_body, NULL);
	else if (str_eq(path, "/upload"))
		request_stream_body(uploading = request, on_chunk, NULL);
	else if (str_eq(path, "/download"))
		request_answer_stream(request, 200, "text/plain", UINT64_MAX, on_pull, NULL);
	else if (str_eq(path, "/idle"))
		request_answer_stream(request, 200, "text/plain", UINT64_MAX, on_idle_pull, NULL);
	else if (str_eq(path, "/events"))
		CHECK_INT(sse_send(sse_open(request, &sse_ops, NULL), "7", "kind", "a\nb"), 0);
	else if (str_eq(path, "/flood"))
		begin_flood(request);
	else
		say(request, 404, path);
}

static void on_refuse(struct request *request, enum err_code code, const char *detail, void *ctx)
{
	say(request, err_http(code), detail);
}

static void start_server(void)
{
	struct server_config config = {.on_request = on_request,
	                               .on_refuse = on_refuse,
	                               .max_connections = 10,
	                               .max_of_peer = 3,
	                               .header_timeout_ms = 200,
	                               .listen_fd = listener};
	struct err err = {0};

	(void)signal(SIGPIPE, SIG_IGN);
	CHECK_INT(loop_new(&loop), 0);
	CHECK_INT(server_new(loop, &config, &server, &err), 0);
}

static void set_up(void)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};

	(void)snprintf(addr.sun_path, sizeof(addr.sun_path), "%s/s", test_dir());
	listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	CHECK_INT(bind(listener, (struct sockaddr *)&addr, sizeof(addr)), 0);
	CHECK_INT(listen(listener, 10), 0);
	start_server();
}

/* The same on TCP; returns the port. */
static uint16_t set_up_tcp(void)
{
	struct sockaddr_in addr = {.sin_family = AF_INET};
	socklen_t size = sizeof(addr);

	addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	CHECK_INT(bind(listener, (struct sockaddr *)&addr, sizeof(addr)), 0);
	CHECK_INT(getsockname(listener, (struct sockaddr *)&addr, &size), 0);
	CHECK_INT(listen(listener, 10), 0);
	start_server();
	return ntohs(addr.sin_port);
}

static int dial_tcp(uint16_t port)
{
	struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons(port)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK_INT(connect(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	CHECK_INT(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
	return fd;
}

static void tear_down(void)
{
	server_free(server);
	request_unref(held);
	loop_free(loop);
	close(listener);
}

static int dial(void)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)snprintf(addr.sun_path, sizeof(addr.sun_path), "%s/s", test_dir());
	CHECK_INT(connect(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	CHECK_INT(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
	return fd;
}

static void run(void)
{
	for (int i = 0; i < 50; i++)
		CHECK(loop_step(loop, 0) >= 0);
}

/* Sends, lets the server work, returns what came back. */
static const char *talk(int fd, const char *text)
{
	static char answer[4096];
	ssize_t n;

	CHECK_INT(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	run();
	n = read(fd, answer, sizeof(answer) - 1);
	answer[MAX(n, 0)] = '\0';
	return answer;
}

TEST(requests_are_answered_on_one_connection)
{
	set_up();
	int fd = dial();

	CHECK_HAS(talk(fd, "GET /now HTTP/1.1\r\nHost: x\r\n\r\n"), "\r\n\r\nnow");
	CHECK_HAS(talk(fd, "GET /now HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"), "now");
	CHECK_HAS(talk(fd, "POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"),
	          "3:abc");
	CHECK_HAS(talk(fd, "GET /query?q=a%20b%2Bc+d HTTP/1.1\r\nHost: x\r\n\r\n"), "a b+c d");
	CHECK_HAS(talk(fd, "GET /nothing%00%2e HTTP/1.1\r\nHost: x\r\n\r\n"), "/nothing%00.");
	CHECK_INT(ended, 5);
	CHECK_INT(gone, 0);
	close(fd);
	tear_down();
}

TEST(an_answer_may_come_later)
{
	set_up();
	int fd = dial();

	CHECK_STR(talk(fd, "GET /later HTTP/1.1\r\nHost: x\r\n\r\n"), "");
	CHECK(held);
	say(held, 200, "late");
	CHECK_HAS(talk(fd, ""), "late");
	CHECK_INT(ended, 1);
	say(held, 200, "twice is ignored");
	close(fd);
	tear_down();
}

TEST(an_answer_that_would_lack_a_header_is_not_sent)
{
	set_up();
	int fd = dial();

	is_short = true;
	CHECK_STR(talk(fd, "GET /now HTTP/1.1\r\nHost: x\r\n\r\n"), "");
	CHECK_INT(read(fd, &(char){0}, 1), 0);
	CHECK_INT(ended, 1);
	CHECK_INT(gone, 1);
	is_short = false;
	close(fd);
	fd = dial();
	CHECK_HAS(talk(fd, "GET /now HTTP/1.1\r\nHost: x\r\n\r\n"), "Content-Type: text/plain");
	close(fd);
	tear_down();
}

TEST(a_header_that_cannot_be_sent_is_left_out)
{
	set_up();
	int fd = dial();
	const char *answer;

	errno = ENOMEM; /* of something before */
	CHECK_STR(talk(fd, "GET /later HTTP/1.1\r\nHost: x\r\n\r\n"), "");
	request_add_header(held, "X-Foreign", "two\r\nlines");
	say(held, 200, "late");
	answer = talk(fd, "");
	CHECK_HAS(answer, "\r\n\r\nlate");
	CHECK(!strstr(answer, "X-Foreign"));
	close(fd);
	tear_down();
}

TEST(a_client_that_goes_is_noticed_once_while_it_waits)
{
	set_up();
	int fd = dial();

	CHECK_STR(talk(fd, "GET /later HTTP/1.1\r\nHost: x\r\n\r\n"), "");
	close(fd);
	run();
	CHECK_INT(ended, 1);
	CHECK_INT(gone, 1);
	CHECK(request_is_gone(held));
	CHECK(!request_header(held, "Host"));
	say(held, 200, "nobody hears");
	run();
	CHECK_INT(ended, 1);
	tear_down();
}

TEST(a_client_that_goes_is_noticed_once_during_a_stream)
{
	set_up();
	int fd = dial();

	CHECK_HAS(talk(fd, "GET /idle HTTP/1.1\r\nHost: x\r\n\r\n"), "200 OK");
	close(fd);
	run();
	CHECK_INT(ended, 1);
	CHECK_INT(gone, 1);
	tear_down();
}

TEST(bodies_are_bounded)
{
	static char big[3000];
	set_up();
	int fd = dial();

	memset(big, 'x', sizeof(big) - 1);
	CHECK_STR(talk(fd, "POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: 2999\r\n\r\n"), "");
	CHECK_HAS(talk(fd, big), "413 ");
	CHECK_STR(talk(fd, "POST /body HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
	                   "bb7\r\n"),
	          "");
	CHECK_STR(talk(fd, big), "");
	CHECK_HAS(talk(fd, "\r\n0\r\n\r\n"), "413 ");
	CHECK_HAS(talk(fd, "POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: 2999\r\n"
	                   "Expect: 100-continue\r\n\r\n"),
	          "413 ");
	close(fd);
	tear_down();
}

TEST(a_body_waits_for_room)
{
	static char block[64 * 1024];
	set_up();
	int fd = dial();
	size_t sent = 0;
	ssize_t n;

	CHECK_STR(talk(fd, "PUT /upload HTTP/1.1\r\nHost: x\r\nContent-Length: 3145728\r\n\r\n"),
	          "");
	room = 1000;
	while ((n = write(fd, block, sizeof(block))) > 0) {
		sent += (size_t)n;
		run();
	}
	/* The sockets are full, and the server took no more than it was allowed to. */
	CHECK_INT(streamed, 1000);
	CHECK(sent < (1 << 20));
	room = SIZE_MAX;
	request_body_more(uploading);
	for (int rounds = 0; sent < STREAM_BYTES && rounds < 10000; rounds++) {
		n = write(fd, block, MIN(sizeof(block), STREAM_BYTES - sent));
		sent += (size_t)MAX(n, 0);
		run();
	}
	CHECK_HAS(talk(fd, ""), "taken");
	CHECK_INT(streamed, STREAM_BYTES);
	CHECK_INT(gone, 0);
	close(fd);
	tear_down();
}

/* Sends zeros until the server closes or `most` were taken; returns how many. */
static size_t flood(int fd, size_t most)
{
	static char block[64 * 1024];
	size_t sent = 0;

	while (sent < most) {
		ssize_t n = write(fd, block, MIN(sizeof(block), most - sent));

		if (n < 0 && errno != EAGAIN)
			break;
		sent += (size_t)MAX(n, 0);
		run();
	}
	return sent;
}

TEST(an_error_does_not_wait_for_the_end_of_a_body)
{
	set_up();
	int fd = dial();

	/* nearly there: the rest is dropped, and the connection goes on */
	CHECK_STR(talk(fd, "PUT /nothing HTTP/1.1\r\nHost: x\r\nContent-Length: 2097152\r\n\r\n"),
	          "");
	CHECK_INT(flood(fd, 2097152), 2097152);
	CHECK_HAS(talk(fd, "GET /now HTTP/1.1\r\nHost: x\r\n\r\n"), "404 ");
	/* a long way to go: told at once, and closed after a while of listening */
	CHECK_STR(talk(fd, "PUT /nothing HTTP/1.1\r\nHost: x\r\n"
	                   "Content-Length: 1099511627776\r\n\r\n"),
	          "");
	CHECK_INT(flood(fd, 6 << 20), 6 << 20);
	const char *answer = talk(fd, "");
	CHECK_HAS(answer, "HTTP/1.1 404 Not Found\r\n");
	CHECK_HAS(answer, "Connection: close\r\n");
	CHECK_HAS(answer, "Content-Type: text/plain\r\n");
	CHECK_HAS(answer, "\r\n\r\n/nothing");
	CHECK(flood(fd, 256 << 20) < 100 << 20);
	close(fd);
	tear_down();
}

TEST(an_error_reaches_a_client_that_sends_slowly)
{
	set_up();
	int fd = dial();
	char answer[512];
	ssize_t n = -1;

	CHECK_STR(talk(fd, "PUT /nothing HTTP/1.1\r\nHost: x\r\n"
	                   "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"),
	          "");
	for (int i = 0; n < 0 && i < 100; i++) {
		CHECK(loop_step(loop, 100) >= 0);
		n = read(fd, answer, sizeof(answer) - 1);
	}
	CHECK(n > 0);
	answer[MAX(n, 0)] = '\0';
	CHECK_HAS(answer, "HTTP/1.1 404 ");
	/* the end of the body is the end of the connection */
	CHECK_INT(write(fd, "0\r\n\r\n", 5), 5);
	run();
	CHECK_INT(read(fd, answer, sizeof(answer)), 0);
	CHECK_INT(ended, 1);
	close(fd);
	tear_down();
}

TEST(a_slow_reader_slows_the_stream)
{
	static char block[64 * 1024];
	set_up();
	int fd = dial();
	size_t read_bytes = 0;

	CHECK_INT(write(fd, "GET /download HTTP/1.1\r\nHost: x\r\n\r\n", 36), 36);
	run();
	CHECK(streamed < (1 << 20));
	for (int rounds = 0; rounds < 10000 && ended == 0; rounds++) {
		ssize_t n = read(fd, block, sizeof(block));

		read_bytes += (size_t)MAX(n, 0);
		run();
	}
	CHECK_INT(streamed, STREAM_BYTES);
	CHECK_INT(gone, 0);
	close(fd);
	tear_down();
}

TEST(events_are_framed)
{
	set_up();
	int fd = dial();
	const char *answer = talk(fd, "GET /events HTTP/1.1\r\nHost: x\r\n\r\n");

	CHECK_HAS(answer, "text/event-stream");
	CHECK_HAS(answer, "id: 7\nevent: kind\ndata: a\ndata: b\n\n");
	close(fd);
	run();
	CHECK_INT(ended, 1);
	CHECK_INT(gone, 1);
	tear_down();
}

/* A thousand of them must not weigh what they have not read. */
TEST(events_wait_with_whoever_makes_them)
{
	static char all[2 * FLOOD_EVENTS * FLOOD_BYTES];
	size_t used = 0;
	char last[FLOOD_BYTES + 1];
	set_up();
	int fd = dial();

	CHECK_INT(write(fd, "GET /flood HTTP/1.0\r\nHost: x\r\n\r\n", 32), 32);
	run();
	CHECK(flooded < FLOOD_EVENTS);
	for (int rounds = 0; rounds < 100000 && ended == 0; rounds++) {
		ssize_t n = read(fd, all + used, MIN(sizeof(all) - 1 - used, (size_t)1000));

		used += (size_t)MAX(n, 0);
		CHECK(loop_step(loop, 0) >= 0);
	}
	for (ssize_t n = 1; n > 0; used += (size_t)MAX(n, 0))
		n = read(fd, all + used, sizeof(all) - 1 - used);
	CHECK_INT(gone, 0);
	CHECK(used > FLOOD_EVENTS * FLOOD_BYTES);
	(void)snprintf(last, sizeof(last), "%0*u", FLOOD_BYTES, FLOOD_EVENTS - 1);
	CHECK_HAS(all, last);
	close(fd);
	tear_down();
}

TEST(long_headers_are_taken_and_endless_ones_not)
{
	static char text[80 * 1024];
	static const struct {
		int bytes;
		const char *status;
	} cases[] = {{28 * 1024, "200 OK"}, {60 * 1024, "431 "}};

	set_up();
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		int fd = dial();

		(void)snprintf(text, sizeof(text),
		               "GET /now HTTP/1.1\r\nHost: x\r\nX-Long: %0*d\r\n\r\n",
		               cases[i].bytes, 0);
		CHECK_HAS(talk(fd, text), cases[i].status);
		close(fd);
		run();
	}
	tear_down();
}

TEST(the_peer_of_a_unix_socket_is_known)
{
	char expected[64];

	set_up();
	int fd = dial();

	(void)snprintf(expected, sizeof(expected), "local uid %u pid %d memo 0", getuid(),
	               getpid());
	CHECK_HAS(talk(fd, "GET /who HTTP/1.1\r\nHost: x\r\n\r\n"), expected);
	/* What was found out about it is kept for the next request, not for the next peer. */
	CHECK_HAS(talk(fd, "GET /who HTTP/1.1\r\nHost: x\r\n\r\n"), "memo 7");
	close(fd);
	fd = dial();
	CHECK_HAS(talk(fd, "GET /who HTTP/1.1\r\nHost: x\r\n\r\n"), "memo 0");
	close(fd);
	tear_down();
}

TEST(the_peer_of_a_tcp_socket_is_an_address)
{
	uint16_t port = set_up_tcp();
	int fd = dial_tcp(port);

	CHECK_HAS(talk(fd, "GET /who HTTP/1.1\r\nHost: x\r\n\r\n"), "127.0.0.1 pid -1 memo 0");
	close(fd);
	tear_down();
}

TEST(one_address_does_not_take_all_connections)
{
	uint16_t port = set_up_tcp();
	int fds[4];
	char byte;

	for (int i = 0; i < 4; i++) {
		fds[i] = dial_tcp(port);
		run();
	}
	CHECK_INT(recv(fds[3], &byte, 1, MSG_DONTWAIT), 0);
	CHECK_HAS(talk(fds[2], "GET /now HTTP/1.1\r\nHost: x\r\n\r\n"), "200 ");
	for (int i = 0; i < 4; i++)
		close(fds[i]);
	tear_down();
}

TEST(who_left_in_the_middle_of_a_word_takes_no_room)
{
	uint16_t port = set_up_tcp();
	int fd;

	/* The word and the end come together: the library is told once, and reads the word. */
	for (int i = 0; i < 3; i++) {
		fd = dial_tcp(port);
		CHECK_INT(write(fd, "GET /no", 7), 7);
		close(fd);
	}
	run();
	fd = dial_tcp(port);
	CHECK_HAS(talk(fd, "GET /now HTTP/1.1\r\nHost: x\r\n\r\n"), "200 ");
	close(fd);
	tear_down();
}

static void cut_tagged(struct request *request, void *ctx)
{
	if (str_eq(request_tag(request), "mine"))
		request_disconnect(request);
}

TEST(requests_of_somebody_are_found_and_cut)
{
	set_up();
	int waits = dial(), streams = dial(), other = dial();
	char bytes[512];

	(void)talk(waits, "GET /later?tag=mine HTTP/1.1\r\nHost: x\r\n\r\n");
	(void)talk(streams, "GET /idle?tag=mine HTTP/1.1\r\nHost: x\r\n\r\n");
	(void)talk(other, "GET /idle?tag=yours HTTP/1.1\r\nHost: x\r\n\r\n");
	server_each_request(server, cut_tagged, NULL);
	run();
	CHECK_INT(ended, 2);
	CHECK_INT(gone, 2);
	CHECK_INT(recv(waits, bytes, sizeof(bytes), MSG_DONTWAIT), 0);
	CHECK_INT(recv(other, bytes, sizeof(bytes), MSG_DONTWAIT), -1);
	close(waits);
	close(streams);
	close(other);
	tear_down();
}

static struct request *asked;

static void on_virtual_answer(const struct virtual_answer *answer, void *ctx)
{
	CHECK_INT(answer->status, 0);
	++*(int *)ctx;
	request_unrefp(&asked); /* the last one */
}

TEST(a_request_that_no_client_sent_is_cut_too)
{
	struct virtual_wish wish = {.method = "GET", .path = "/idle", .answer_max = 100};
	int answers = 0;

	set_up();
	int fd = dial();

	CHECK_STR(talk(fd, "GET /later HTTP/1.1\r\nHost: x\r\n\r\n"), "");
	asked = request_ref(
		virtual_ask(held, &wish, on_virtual_answer, &answers, on_request, NULL));
	run();
	CHECK_INT(answers, 0);
	request_disconnect(asked);
	CHECK_INT(answers, 1);
	CHECK_INT(ended, 1);
	CHECK(!asked);
	close(fd);
	tear_down();
}

TEST(a_request_is_cut_at_its_time)
{
	set_up();
	int fd = dial();
	uint64_t begin = io_boot_ms();

	(void)talk(fd, "GET /idle?until=50 HTTP/1.1\r\nHost: x\r\n\r\n");
	while (ended == 0 && io_boot_ms() - begin < 5000)
		CHECK(loop_step(loop, 20) >= 0);
	CHECK_INT(ended, 1);
	CHECK(io_boot_ms() - begin >= 50);
	close(fd);
	tear_down();
}

TEST(headers_are_counted)
{
	set_up();
	int fd = dial();

	CHECK_HAS(talk(fd, "GET /count HTTP/1.1\r\nHost: x\r\nAuthorization: a\r\n"
	                   "authorization: b\r\n\r\n"),
	          "\r\n\r\n2");
	close(fd);
	tear_down();
}

TEST(a_whole_body_must_come_in_time)
{
	set_up();
	int fd = dial();
	uint64_t begin = io_boot_ms();
	char byte;
	ssize_t n = -1;

	(void)talk(fd, "POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n");
	/* Now and then a byte: it is not silent, and yet it does not get more time. */
	while (n != 0 && io_boot_ms() - begin < 5000) {
		(void)!send(fd, "x", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
		CHECK(loop_step(loop, 20) >= 0);
		n = recv(fd, &byte, 1, MSG_DONTWAIT);
	}
	CHECK_INT(n, 0);
	CHECK(io_boot_ms() - begin < 2000);
	close(fd);
	tear_down();
}

TEST(headers_must_come_in_time)
{
	set_up();
	int fd = dial();
	uint64_t begin = io_boot_ms();
	char byte;
	ssize_t n;

	/* A byte now and then is no silence, and still no request. */
	CHECK_INT(write(fd, "GET /now HTTP/1.1\r\nA: ", 22), 22);
	while ((n = read(fd, &byte, 1)) < 0 && errno == EAGAIN) {
		CHECK(io_boot_ms() - begin < 5000);
		(void)!write(fd, "x", 1); /* may be cut by now */
		run();
		CHECK(loop_step(loop, 10) >= 0);
	}
	CHECK(io_boot_ms() - begin >= 200);
	CHECK_INT(ended, 0);
	close(fd);
	tear_down();
}

TEST(the_end_of_the_server_ends_every_request)
{
	set_up();
	int waiting = dial(), streaming = dial();

	CHECK_STR(talk(waiting, "GET /later HTTP/1.1\r\nHost: x\r\n\r\n"), "");
	CHECK_HAS(talk(streaming, "GET /idle HTTP/1.1\r\nHost: x\r\n\r\n"), "200 OK");
	tear_down();
	CHECK_INT(ended, 2);
	CHECK_INT(gone, 2);
	close(waiting);
	close(streaming);
}

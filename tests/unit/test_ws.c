#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/io.h"
#include "base/loop.h"
#include "base/mem.h"
#include "harness/test.h"
#include "http/sha1.h"
#include "http/ws.h"

static struct loop *loop;
static struct ws *ws;
static int client;
static struct buf got; /* messages, each with a newline */
static int closed, writable;

static void on_message(struct ws *from, bool is_text, const uint8_t *bytes, size_t len, void *ctx)
{
	CHECK_INT(buf_put(&got, is_text ? "t:" : "b:", 2), 0);
	CHECK_INT(buf_put(&got, bytes, len), 0);
	CHECK_INT(buf_put(&got, "\n", 1), 0);
}

static void on_writable(struct ws *from, void *ctx)
{
	writable++;
}

static void on_close(struct ws *from, void *ctx)
{
	closed++;
}

static const struct ws_ops ops = {on_message, on_writable, on_close};

static void set_up(const void *early, size_t early_len)
{
	int pair[2];

	CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
	CHECK_INT(loop_new(&loop), 0);
	buf_init(&got, 1 << 20);
	client = pair[1];
	ws = ws_new(loop, pair[0], early, early_len, &ops, NULL);
}

static void tear_down(void)
{
	ws_free(ws);
	close(client);
	buf_done(&got);
	loop_free(loop);
}

static void run(void)
{
	for (int i = 0; i < 20; i++)
		CHECK(loop_step(loop, 0) >= 0);
}

/* A masked frame from the client; len below 126. */
static void send_frame(uint8_t first, const char *text)
{
	uint8_t frame[200] = {first, (uint8_t)(0x80 | strlen(text)), 1, 2, 3, 4};

	for (size_t i = 0; text[i]; i++)
		frame[6 + i] = (uint8_t)text[i] ^ (uint8_t)(1 + i % 4);
	CHECK_INT(write(client, frame, 6 + strlen(text)), (ssize_t)(6 + strlen(text)));
}

static const char *messages(void)
{
	static char text[512];
	size_t len = MIN(buf_len(&got), sizeof(text) - 1);

	if (len > 0)
		memcpy(text, buf_head(&got), len);
	text[len] = '\0';
	buf_reset(&got);
	return text;
}

TEST(sha1_is_sha1)
{
	uint8_t digest[SHA1_BYTES];
	char out[32];

	sha1_digest(digest, "abc", 3);
	CHECK_MEM(
		digest,
		"\xa9\x99\x3e\x36\x47\x06\x81\x6a\xba\x3e\x25\x71\x78\x50\xc2\x6c\x9c\xd0\xd8\x9d",
		20);
	/* The example of RFC 6455, 1.3. */
	ws_accept_key(out, "dGhlIHNhbXBsZSBub25jZQ==");
	CHECK_STR(out, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
}

TEST(messages_go_both_ways)
{
	uint8_t in[64];

	set_up(NULL, 0);
	send_frame(0x81, "text");
	send_frame(0x82, "binary");
	run();
	CHECK_STR(messages(), "t:text\nb:binary\n");
	CHECK_INT(ws_send(ws, false, "\1", 1, "out", 3), 0);
	run();
	CHECK_INT(read(client, in, sizeof(in)), 6);
	CHECK_MEM(in, "\x82\x04\1out", 6);
	tear_down();
}

TEST(what_came_with_the_handshake_is_read_first)
{
	static const uint8_t early[] = {0x81, 0x82, 0, 0, 0, 0, 'h', 'i'};

	set_up(early, sizeof(early));
	run();
	CHECK_STR(messages(), "t:hi\n");
	tear_down();
}

TEST(fragments_are_joined_and_pings_answered)
{
	uint8_t in[64];

	set_up(NULL, 0);
	send_frame(0x02, "one ");
	send_frame(0x89, "p");
	send_frame(0x80, "two");
	run();
	CHECK_STR(messages(), "b:one two\n");
	CHECK_INT(read(client, in, sizeof(in)), 3);
	CHECK_MEM(in, "\x8a\x01p", 3);
	tear_down();
}

TEST(a_goodbye_is_answered_and_told_once)
{
	uint8_t in[64];

	set_up(NULL, 0);
	send_frame(0x88, "\x03\xe8");
	run();
	CHECK_INT(closed, 1);
	CHECK_INT(read(client, in, sizeof(in)), 4);
	CHECK_MEM(in, "\x88\x02\x03\xe8", 4);
	CHECK_INT(ws_send(ws, true, NULL, 0, "x", 1), -EPIPE);
	run();
	CHECK_INT(closed, 1);
	tear_down();
}

TEST(our_goodbye_waits_for_theirs)
{
	uint8_t in[64];

	set_up(NULL, 0);
	CHECK_INT(ws_send(ws, true, NULL, 0, "last", 4), 0);
	ws_close(ws, WS_NORMAL, "bye");
	run();
	CHECK_INT(read(client, in, sizeof(in)), 13);
	CHECK_MEM(in,
	          "\x81\x04last\x88\x05\x03\xe8"
	          "bye",
	          13);
	CHECK_INT(closed, 0);
	send_frame(0x88, "\x03\xe8");
	run();
	CHECK_INT(closed, 1);
	tear_down();
}

TEST(a_client_that_goes_is_told_once)
{
	set_up(NULL, 0);
	CHECK_INT(shutdown(client, SHUT_RDWR), 0);
	run();
	CHECK_INT(closed, 1);
	tear_down();
}

TEST(broken_frames_end_the_connection)
{
	/* Not masked; a reserved bit; a length beyond what is taken. */
	static const uint8_t frames[][14] = {
		{0x81, 0x01, 'x'},
		{0xf1, 0x81, 0, 0, 0, 0, 'x'},
		{0x82, 0xff, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0},
	};

	for (size_t i = 0; i < ARRAY_LEN(frames); i++) {
		closed = 0;
		set_up(NULL, 0);
		CHECK_INT(write(client, frames[i], sizeof(frames[i])), sizeof(frames[i]));
		run();
		CHECK_STR(messages(), "");
		CHECK_INT(shutdown(client, SHUT_WR), 0);
		run();
		CHECK_INT(closed, 1);
		tear_down();
	}
}

TEST(a_slow_reader_fills_the_queue_and_is_told_when_it_drained)
{
	static uint8_t block[64 * 1024];
	size_t total = 0;
	ssize_t n;
	int r;

	set_up(NULL, 0);
	while ((r = ws_send(ws, false, NULL, 0, block, sizeof(block))) == 0)
		CHECK((total += sizeof(block)) < (8 << 20));
	CHECK_INT(r, -EAGAIN);
	CHECK(ws_queued(ws) <= WS_QUEUE_BYTES);
	CHECK_INT(writable, 0);
	while (!writable) {
		n = read(client, block, sizeof(block));
		CHECK(n > 0 || errno == EAGAIN);
		run();
	}
	CHECK_INT(writable, 1);
	CHECK_INT(ws_send(ws, false, NULL, 0, "x", 1), 0);
	tear_down();
}

TEST(a_paused_connection_is_not_read)
{
	set_up(NULL, 0);
	ws_pause(ws, true);
	send_frame(0x81, "later");
	run();
	CHECK_STR(messages(), "");
	ws_pause(ws, false);
	run();
	CHECK_STR(messages(), "t:later\n");
	tear_down();
}

/* Input over connections that are cut. */
#include "daemon/feed.h"

#include "base/io.h"
#include "base/limits.h"
#include "base/loop.h"
#include "base/mem.h"
#include "harness/test.h"
#include "runtime/peer.h"
#include "wire/wire.h"

static struct loop *loop;
static struct peer *peer;
static int keeper_fd;
static uint8_t got[2 * LIMIT_STDIN_WINDOW_BYTES]; /* by place */
static uint64_t got_to;
static bool got_end;
static uint8_t bytes[LIMIT_WIRE_BYTES];

static void on_message(struct wire_msg *msg, void *ctx)
{
}

static void on_closed(void *ctx)
{
}

static void connect_peer(void)
{
	const struct peer_config config = {
		.role = "keeper", .on_message = on_message, .on_closed = on_closed};
	int pair[2];

	CHECK_INT(wire_pair(pair), 0);
	keeper_fd = pair[1];
	CHECK_INT(io_set_nonblock(keeper_fd, true), 0);
	CHECK_INT(peer_new(loop, pair[0], &config, &peer, &(struct err){0}), 0);
}

static void cut(void)
{
	fd_closep(&keeper_fd);
	peer_free(peer);
	connect_peer();
}

/* Takes what arrived, as many messages as `most`, as a keeper does. */
static void take(int most)
{
	struct wire_msg msg;

	CHECK(loop_step(loop, 0) >= 0);
	while (most > 0 && wire_recv(keeper_fd, bytes, sizeof(bytes), &msg) == 1) {
		size_t len = 0;
		const uint8_t *piece = wire_blob(&msg, FIELD_BYTES, &len);
		uint64_t at = wire_u64(&msg, FIELD_INPUT_OFFSET, 0);

		if (msg.type == WIRE_K_STDIN) {
			CHECK(at <= got_to && at + len <= sizeof(got));
			if (len > 0)
				memcpy(got + at, piece, len);
			got_to = MAX(got_to, at + len);
			got_end |= wire_u64(&msg, FIELD_EOF, 0) != 0;
			most--;
		}
		wire_msg_done(&msg);
	}
}

/* What a keeper says that took so much and passed so much on. */
static void hear_info(struct feed *feed, uint64_t taken, uint64_t read,
                      void (*hear)(struct feed *feed, const struct wire_msg *msg))
{
	auto_wire_out struct wire_out out = {0};
	struct wire_msg msg;
	int pair[2];

	CHECK_INT(wire_pair(pair), 0);
	wire_begin(&out, WIRE_K_EXEC_INFO, 1);
	wire_put_u64(&out, FIELD_INPUT_OFFSET, taken);
	wire_put_u64(&out, FIELD_BYTES_COUNT, LIMIT_STDIN_WINDOW_BYTES - (taken - read));
	CHECK_INT(wire_send(pair[0], &out), 0);
	CHECK_INT(wire_recv(pair[1], bytes, sizeof(bytes), &msg), 1);
	hear(feed, &msg);
	wire_msg_done(&msg);
	fd_closep(&pair[0]);
	fd_closep(&pair[1]);
}

static void sync_with_peer(struct feed *feed, const struct wire_msg *msg)
{
	feed_sync(feed, peer, msg);
}

static void resume(struct feed *feed, uint64_t read)
{
	hear_info(feed, got_to, read, sync_with_peer);
}

static uint8_t *pattern(void)
{
	uint8_t *block = mem_zalloc(sizeof(got));

	for (size_t i = 0; i < sizeof(got); i++)
		block[i] = (uint8_t)(i * 7 + i / 251);
	return block;
}

TEST(what_a_cut_swallowed_is_sent_again)
{
	auto_free uint8_t *block = pattern();
	struct feed feed;

	CHECK_INT(loop_new(&loop), 0);
	connect_peer();
	feed_init(&feed, "ex_1");
	CHECK_INT(feed_room(&feed), LIMIT_STDIN_WINDOW_BYTES);
	feed_send(&feed, peer, block, LIMIT_STDIN_WINDOW_BYTES);
	CHECK_INT(feed_room(&feed), 0);
	take(2); /* of four; the rest goes down with the connection */
	CHECK(got_to > 0 && got_to < LIMIT_STDIN_WINDOW_BYTES);
	cut();
	resume(&feed, 1000);
	CHECK_INT(feed_room(&feed), 1000);
	take(100);
	CHECK_INT(got_to, LIMIT_STDIN_WINDOW_BYTES);
	feed_send(&feed, peer, block + got_to, 1000);
	feed_end(&feed, peer);
	cut(); /* before anything of these arrived */
	resume(&feed, 1000);
	take(100);
	CHECK_INT(got_to, LIMIT_STDIN_WINDOW_BYTES + 1000);
	CHECK(got_end);
	CHECK_MEM(got, block, got_to);
	feed_drained(&feed, got_to - 1000);
	CHECK_INT(feed_room(&feed), LIMIT_STDIN_WINDOW_BYTES);
	feed_done(&feed);
	fd_closep(&keeper_fd);
	peer_free(peer);
	loop_free(loop);
}

TEST(what_another_daemon_sent_goes_first)
{
	auto_free uint8_t *block = pattern();
	struct feed feed;

	CHECK_INT(loop_new(&loop), 0);
	connect_peer();
	feed_init(&feed, "ex_1");
	hear_info(&feed, 5000, 4700, feed_adopt);
	CHECK_INT(feed_room(&feed), LIMIT_STDIN_WINDOW_BYTES - 300);
	got_to = 5000;
	feed_send(&feed, peer, block, 10);
	take(1);
	CHECK_INT(got_to, 5010);
	feed_drained(&feed, 305);
	CHECK_INT(feed_room(&feed), LIMIT_STDIN_WINDOW_BYTES - 5);
	cut();
	resume(&feed, 5010);
	CHECK_INT(feed_room(&feed), LIMIT_STDIN_WINDOW_BYTES);
	feed_done(&feed);
	fd_closep(&keeper_fd);
	peer_free(peer);
	loop_free(loop);
}

#include "daemon/feed.h"

#include "base/limits.h"
#include "base/must.h"
#include "runtime/peer.h"
#include "wire/wire.h"

enum { WINDOW = LIMIT_STDIN_WINDOW_BYTES };

void feed_init(struct feed *feed, const char *exec)
{
	*feed = (struct feed){.exec = exec};
	buf_init(&feed->unread, WINDOW);
}

void feed_done(struct feed *feed)
{
	buf_done(&feed->unread);
}

size_t feed_room(const struct feed *feed)
{
	size_t used = buf_len(&feed->unread) + (size_t)feed->foreign;

	return used < WINDOW ? WINDOW - used : 0;
}

/* The piece that starts at this offset; none: the end. */
static void send_piece(const struct feed *feed, struct peer *peer, uint64_t offset,
                       const uint8_t *bytes, size_t len)
{
	auto_wire_out struct wire_out out = {0};

	wire_begin(&out, WIRE_K_STDIN, 0);
	wire_put_str(&out, FIELD_EXEC, feed->exec);
	wire_put_bytes(&out, FIELD_BYTES, bytes, len);
	wire_put_u64(&out, FIELD_EOF, len == 0);
	wire_put_u64(&out, FIELD_INPUT_OFFSET, offset);
	peer_notify(peer, &out);
}

/* From this offset on, which is not before what is kept. */
static void send_from(const struct feed *feed, struct peer *peer, uint64_t from)
{
	while (from < feed->sent) {
		size_t left = (size_t)(feed->sent - from);
		size_t take = MIN(left, (size_t)LIMIT_CHUNK_BYTES);

		send_piece(feed, peer, from,
		           buf_head(&feed->unread) + buf_len(&feed->unread) - left, take);
		from += take;
	}
}

void feed_send(struct feed *feed, struct peer *peer, const uint8_t *bytes, size_t len)
{
	uint64_t from = feed->sent;

	must(buf_put(&feed->unread, bytes, len) == 0);
	feed->sent += len;
	send_from(feed, peer, from);
}

void feed_end(struct feed *feed, struct peer *peer)
{
	feed->is_end_sent = true;
	send_piece(feed, peer, feed->sent, NULL, 0);
}

void feed_drained(struct feed *feed, uint64_t count)
{
	uint64_t foreign = MIN(count, feed->foreign);
	size_t ours = (size_t)MIN(count - foreign, (uint64_t)buf_len(&feed->unread));

	feed->foreign -= foreign;
	buf_consume(&feed->unread, ours);
}

/* What the keeper has taken and not yet passed on. */
static uint64_t held_by_keeper(const struct wire_msg *msg)
{
	return WINDOW - MIN(wire_u64(msg, FIELD_BYTES_COUNT, 0), (uint64_t)WINDOW);
}

void feed_adopt(struct feed *feed, const struct wire_msg *msg)
{
	buf_reset(&feed->unread);
	feed->sent = wire_u64(msg, FIELD_INPUT_OFFSET, 0);
	feed->foreign = held_by_keeper(msg);
}

void feed_sync(struct feed *feed, struct peer *peer, const struct wire_msg *msg)
{
	uint64_t taken = wire_u64(msg, FIELD_INPUT_OFFSET, UINT64_MAX);
	uint64_t held = held_by_keeper(msg);
	uint64_t kept_from = feed->sent - buf_len(&feed->unread);
	uint64_t known =
		kept_from - MIN(feed->foreign, kept_from); /* passed on, as far as we know */

	/* Nothing a keeper of ours says: then there is nothing that could be sent again. */
	if (taken < kept_from || taken > feed->sent || held > taken) {
		feed_adopt(feed, msg);
		return;
	}
	if (taken - held > known)
		feed_drained(feed, taken - held - known);
	send_from(feed, peer, taken);
	if (feed->is_end_sent)
		send_piece(feed, peer, feed->sent, NULL, 0);
}

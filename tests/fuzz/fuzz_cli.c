/*
 * What the command line reads from a daemon: HTTP answers, WebSocket frames, event streams. The
 * first byte chooses which, the second how the rest is cut into pieces; in one piece and in small
 * ones the result must be the same.
 */
#include "base/buf.h"
#include "base/mem.h"
#include "base/must.h"
#include "cli/http_parse.h"
#include "cli/sse.h"
#include "cli/ws.h"
#include "wire/record.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

struct summary {
	int result; /* <0: refused */
	uint64_t items, hash;
};

static void mix(struct summary *summary, const void *bytes, size_t len)
{
	for (size_t i = 0; i < len; i++)
		summary->hash =
			(summary->hash ^ ((const uint8_t *)bytes)[i]) * UINT64_C(0x100000001b3);
}

static void read_body(struct summary *summary, struct http_body *body, struct buf *in)
{
	uint8_t out[97];
	ssize_t got;
	while ((got = http_body_decode(body, in, out, sizeof(out))) > 0)
		mix(summary, out, (size_t)got);
	summary->result = got < 0 ? -1 : 0;
}

static struct summary read_http(const uint8_t *bytes, size_t len, size_t piece)
{
	struct summary summary = {0};
	struct buf in;
	struct http_head head;
	struct http_body body;
	bool has_head = false;
	buf_init(&in, 256 * 1024);
	for (; len > 0 && summary.result >= 0; bytes += MIN(piece, len), len -= MIN(piece, len)) {
		must(buf_put(&in, bytes, MIN(piece, len)) == 0);
		if (!has_head) {
			ssize_t used = http_parse_head(buf_head(&in), buf_len(&in), &head);
			summary.result = used < 0 ? -1 : 0;
			if (used <= 0)
				continue;
			must((size_t)used <= buf_len(&in) && head.status >= 100 &&
			     head.status <= 999);
			has_head = true;
			buf_consume(&in, (size_t)used);
			http_body_init(&body, &head, false);
		}
		read_body(&summary, &body, &in);
		summary.items = body.state == HTTP_BODY_DONE;
	}
	buf_done(&in);
	return summary;
}

static struct summary read_ws(const uint8_t *bytes, size_t len, size_t piece)
{
	struct summary summary = {0};
	struct ws_decoder decoder;
	struct buf in;
	ws_decoder_init(&decoder);
	buf_init(&in, WS_IN_MAX);
	for (; len > 0 && summary.result >= 0; bytes += MIN(piece, len), len -= MIN(piece, len)) {
		struct ws_message message;
		size_t used = 0;
		int r;
		must(buf_put(&in, bytes, MIN(piece, len)) == 0);
		while ((r = ws_decode(&decoder, &in, &message, &used)) > 0) {
			must(used <= buf_len(&in) && message.len <= WS_MESSAGE_MAX &&
			     message.opcode != WS_CONTINUATION);
			summary.items++;
			mix(&summary, message.bytes, message.len);
			buf_consume(&in, used);
		}
		summary.result = r;
	}
	ws_decoder_done(&decoder);
	buf_done(&in);
	return summary;
}

static struct summary read_sse(const uint8_t *bytes, size_t len, size_t piece)
{
	struct summary summary = {0};
	struct sse sse;
	sse_init(&sse);
	for (; len > 0 && summary.result >= 0; bytes += MIN(piece, len), len -= MIN(piece, len)) {
		struct sse_event event;
		int r;
		must(sse_feed(&sse, bytes, MIN(piece, len)) == 0);
		while ((r = sse_next(&sse, &event)) > 0) {
			must(strlen(event.data) == event.len);
			summary.items++;
			mix(&summary, event.event, strlen(event.event));
			mix(&summary, event.id, strlen(event.id));
			mix(&summary, event.data, event.len);
		}
		summary.result = r;
	}
	sse_done(&sse);
	return summary;
}

/* Records of the inside: what is accepted is written again the same way. */
static struct summary read_record(const uint8_t *bytes, size_t len, size_t piece)
{
	auto_free char *line = mem_strndup((const char *)bytes, len);
	auto_free char *again = mem_strdup(line);
	struct record_stat record;
	struct record_change change;
	struct summary summary = {0};
	struct buf buf;
	buf_init(&buf, 16 * len + 4096);
	if (record_parse_stat(line, &record) == 0)
		must(record_put_stat(&buf, &record) == 0 && buf_len(&buf) > 0);
	if (record_parse_change(again, &change) == 0)
		must(record_put_change(&buf, &change) == 0 && buf_len(&buf) <= len + 1);
	buf_done(&buf);
	return summary;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	static struct summary (*const readers[])(const uint8_t *, size_t, size_t) = {
		read_http, read_ws, read_sse, read_record};
	if (len < 2 || len > 64 * 1024)
		return 0;
	size_t piece = (size_t)bytes[1] + 1;
	struct summary (*reader)(const uint8_t *, size_t, size_t) =
		readers[bytes[0] % ARRAY_LEN(readers)];
	struct summary whole = reader(bytes + 2, len - 2, len);
	struct summary parts = reader(bytes + 2, len - 2, piece);
	must(whole.result == parts.result && whole.items == parts.items &&
	     whole.hash == parts.hash);
	return 0;
}

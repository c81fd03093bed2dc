#include "cli/http_parse.h"

#include <errno.h>

#include "base/str.h"

enum { LINE_MAX_BYTES = 8 * 1024, TRAILER_MAX = 8 * 1024 };

/* A piece of the head; not terminated. */
struct span {
	const uint8_t *bytes;
	size_t len;
};

static uint8_t lower(uint8_t c)
{
	return c >= 'A' && c <= 'Z' ? (uint8_t)(c + 32) : c;
}

static bool span_is(struct span span, const char *word)
{
	size_t i = 0;

	for (; i < span.len && word[i] != '\0'; i++)
		if (lower(span.bytes[i]) != (uint8_t)word[i])
			return false;
	return i == span.len && word[i] == '\0';
}

static struct span trim(struct span span)
{
	while (span.len > 0 && (*span.bytes == ' ' || *span.bytes == '\t')) {
		span.bytes++;
		span.len--;
	}
	while (span.len > 0 &&
	       (span.bytes[span.len - 1] == ' ' || span.bytes[span.len - 1] == '\t'))
		span.len--;
	return span;
}

/* Empty when it does not fit: such a value is none we know. */
static void copy(char *to, size_t size, struct span from, bool lowered)
{
	size_t len = from.len < size ? from.len : 0;

	for (size_t i = 0; i < len; i++)
		to[i] = (char)(lowered ? lower(from.bytes[i]) : from.bytes[i]);
	to[len] = '\0';
}

static int on_length(struct http_head *head, struct span value)
{
	uint64_t length = 0;

	if (value.len == 0 || value.len > 19)
		return -EPROTO;
	for (size_t i = 0; i < value.len; i++) {
		if (value.bytes[i] < '0' || value.bytes[i] > '9')
			return -EPROTO;
		length = length * 10 + (uint64_t)(value.bytes[i] - '0');
	}
	if (head->has_length && head->length != length)
		return -EPROTO;
	head->has_length = true;
	head->length = length;
	return 0;
}

static int on_transfer_encoding(struct http_head *head, struct span value)
{
	if (head->chunked || !span_is(value, "chunked"))
		return -EPROTO;
	head->chunked = true;
	return 0;
}

static int on_connection(struct http_head *head, struct span value)
{
	while (value.len > 0) {
		const uint8_t *comma = memchr(value.bytes, ',', value.len);
		size_t len = comma == NULL ? value.len : (size_t)(comma - value.bytes);
		struct span word = trim((struct span){value.bytes, len});

		if (span_is(word, "close"))
			head->keep_alive = false;
		len += comma == NULL ? 0 : 1;
		value.bytes += len;
		value.len -= len;
	}
	return 0;
}

static int on_content_type(struct http_head *head, struct span value)
{
	const uint8_t *semicolon = memchr(value.bytes, ';', value.len);

	if (semicolon != NULL)
		value.len = (size_t)(semicolon - value.bytes);
	copy(head->content_type, sizeof(head->content_type), trim(value), true);
	return 0;
}

static int on_ws_accept(struct http_head *head, struct span value)
{
	copy(head->ws_accept, sizeof(head->ws_accept), value, false);
	return 0;
}

static int on_mcp_session(struct http_head *head, struct span value)
{
	copy(head->mcp_session, sizeof(head->mcp_session), value, false);
	return 0;
}

static int on_ws_protocol(struct http_head *head, struct span value)
{
	copy(head->ws_protocol, sizeof(head->ws_protocol), value, false);
	return 0;
}

static int on_upgrade(struct http_head *head, struct span value)
{
	copy(head->upgrade, sizeof(head->upgrade), value, true);
	return 0;
}

static const struct {
	const char *name;
	int (*on)(struct http_head *head, struct span value);
} headers[] = {
	{"content-length", on_length},          {"transfer-encoding", on_transfer_encoding},
	{"connection", on_connection},          {"content-type", on_content_type},
	{"sec-websocket-accept", on_ws_accept}, {"sec-websocket-protocol", on_ws_protocol},
	{"mcp-session-id", on_mcp_session},     {"upgrade", on_upgrade},
};

static bool is_token(uint8_t c)
{
	return (c >= '0' && c <= '9') || (lower(c) >= 'a' && lower(c) <= 'z') ||
	       (c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL);
}

static int parse_header(struct http_head *head, struct span line)
{
	const uint8_t *colon = memchr(line.bytes, ':', line.len);

	if (colon == NULL || colon == line.bytes)
		return -EPROTO;
	struct span name = {line.bytes, (size_t)(colon - line.bytes)};
	struct span value = trim((struct span){colon + 1, line.len - name.len - 1});

	for (size_t i = 0; i < name.len; i++)
		if (!is_token(name.bytes[i]))
			return -EPROTO;
	for (size_t i = 0; i < value.len; i++)
		if (value.bytes[i] == '\0' || value.bytes[i] == '\r' || value.bytes[i] == '\n')
			return -EPROTO;
	for (size_t i = 0; i < ARRAY_LEN(headers); i++)
		if (span_is(name, headers[i].name))
			return headers[i].on(head, value);
	return 0;
}

/* "HTTP/1.1 200 OK" */
static int parse_status(struct http_head *head, struct span line)
{
	if (line.len < 12 || memcmp(line.bytes, "HTTP/1.", 7) != 0 || line.bytes[8] != ' ' ||
	    (line.bytes[7] != '0' && line.bytes[7] != '1'))
		return -EPROTO;
	if (line.len > 12 && line.bytes[12] != ' ')
		return -EPROTO;
	for (size_t i = 9; i < 12; i++) {
		if (line.bytes[i] < '0' || line.bytes[i] > '9')
			return -EPROTO;
		head->status = head->status * 10 + (line.bytes[i] - '0');
	}
	head->keep_alive = line.bytes[7] == '1';
	return head->status < 100 ? -EPROTO : 0;
}

static int parse_lines(const uint8_t *bytes, size_t len, struct http_head *head)
{
	bool first = true;

	while (len > 0) {
		const uint8_t *end = memmem(bytes, len, "\r\n", 2);
		struct span line = {bytes, (size_t)(end - bytes)};

		if (line.len > 0 && (first ? parse_status : parse_header)(head, line) < 0)
			return -EPROTO;
		if (line.len == 0 && first)
			return -EPROTO;
		first = false;
		bytes += line.len + 2;
		len -= line.len + 2;
	}
	/* Both at once is how responses are smuggled. */
	return head->chunked && head->has_length ? -EPROTO : 0;
}

ssize_t http_parse_head(const uint8_t *bytes, size_t len, struct http_head *ret)
{
	struct http_head head = {0};
	const uint8_t *end = len == 0 ? NULL : memmem(bytes, len, "\r\n\r\n", 4);
	size_t head_len = end == NULL ? len : (size_t)(end - bytes) + 4;

	if (head_len > HTTP_HEAD_MAX)
		return -EMSGSIZE;
	/* What cannot become an answer is told at once, not after 32 KiB. */
	if (memcmp(bytes == NULL ? (const uint8_t *)"" : bytes, "HTTP/1.", MIN(len, (size_t)7)) !=
	    0)
		return -EPROTO;
	if (end == NULL)
		return 0;
	if (parse_lines(bytes, head_len, &head) < 0)
		return -EPROTO;
	*ret = head;
	return (ssize_t)head_len;
}

void http_body_init(struct http_body *body, const struct http_head *head, bool is_bodyless)
{
	*body = (struct http_body){.state = HTTP_BODY_CLOSE};
	if (is_bodyless || head->status < 200 || head->status == 204 || head->status == 304) {
		body->state = HTTP_BODY_DONE;
	} else if (head->chunked) {
		body->state = HTTP_BODY_CHUNK_SIZE;
	} else if (head->has_length) {
		body->left = head->length;
		body->state = head->length > 0 ? HTTP_BODY_LENGTH : HTTP_BODY_DONE;
	}
}

/* The line at the front of `in` without its end: 1, *ret points into in; 0: not yet complete. */
static int peek_line(const struct buf *in, struct span *ret)
{
	size_t len = buf_len(in);
	const uint8_t *end = len == 0 ? NULL : memmem(buf_head(in), len, "\r\n", 2);

	if (end == NULL)
		return len > LINE_MAX_BYTES ? -EPROTO : 0;
	*ret = (struct span){buf_head(in), (size_t)(end - buf_head(in))};
	return 1;
}

static int hex_value(uint8_t c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return lower(c) >= 'a' && lower(c) <= 'f' ? lower(c) - 'a' + 10 : -1;
}

static int on_chunk_size(struct http_body *body, struct span line)
{
	uint64_t size = 0;
	size_t digits = 0;

	for (; digits < line.len && hex_value(line.bytes[digits]) >= 0; digits++)
		size = size * 16 + (uint64_t)hex_value(line.bytes[digits]);
	if (digits == 0 || digits > 15)
		return -EPROTO;
	struct span rest = trim((struct span){line.bytes + digits, line.len - digits});

	if (rest.len > 0 && rest.bytes[0] != ';')
		return -EPROTO;
	body->left = size;
	body->state = size > 0 ? HTTP_BODY_CHUNK : HTTP_BODY_TRAILER;
	return 0;
}

static int on_trailer(struct http_body *body, struct span line)
{
	body->trailer_bytes += line.len + 2;
	if (body->trailer_bytes > TRAILER_MAX)
		return -EPROTO;
	if (line.len == 0)
		body->state = HTTP_BODY_DONE;
	return 0;
}

/* One line of the chunked framing. 1: taken; 0: incomplete; -EPROTO. */
static int decode_line(struct http_body *body, struct buf *in)
{
	struct span line;
	int r = peek_line(in, &line);

	if (r <= 0)
		return r;
	if (body->state == HTTP_BODY_CHUNK_SIZE) {
		r = on_chunk_size(body, line);
	} else if (body->state == HTTP_BODY_TRAILER) {
		r = on_trailer(body, line);
	} else {
		r = line.len > 0 ? -EPROTO : 0;
		body->state = HTTP_BODY_CHUNK_SIZE;
	}
	if (r < 0)
		return r;
	buf_consume(in, line.len + 2);
	return 1;
}

static ssize_t take(struct http_body *body, struct buf *in, uint8_t *out, size_t size)
{
	size_t len = MIN(buf_len(in), size);

	if (body->state != HTTP_BODY_CLOSE)
		len = (size_t)MIN((uint64_t)len, body->left);
	if (len == 0)
		return 0;
	memcpy(out, buf_head(in), len);
	buf_consume(in, len);
	if (body->state == HTTP_BODY_CLOSE)
		return (ssize_t)len;
	body->left -= len;
	if (body->left == 0)
		body->state = body->state == HTTP_BODY_CHUNK ? HTTP_BODY_CHUNK_END : HTTP_BODY_DONE;
	return (ssize_t)len;
}

ssize_t http_body_decode(struct http_body *body, struct buf *in, uint8_t *out, size_t size)
{
	for (;;) {
		if (body->state == HTTP_BODY_DONE)
			return 0;
		if (body->state == HTTP_BODY_LENGTH || body->state == HTTP_BODY_CHUNK ||
		    body->state == HTTP_BODY_CLOSE)
			return take(body, in, out, size);
		int r = decode_line(body, in);

		if (r <= 0)
			return r;
	}
}

int http_body_end(struct http_body *body)
{
	if (body->state == HTTP_BODY_CLOSE)
		body->state = HTTP_BODY_DONE;
	return body->state == HTTP_BODY_DONE ? 0 : -EPROTO;
}

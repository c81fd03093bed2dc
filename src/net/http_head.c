#include "net/http_head.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

/* A piece of the head. */
struct span {
	const char *at;
	size_t len;
};

static bool is_equal(struct span span, const char *text)
{
	return span.len == strlen(text) && strncasecmp(span.at, text, span.len) == 0;
}

static bool is_token_byte(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       (c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL);
}

static bool is_token(struct span span)
{
	for (size_t i = 0; i < span.len; i++) {
		if (!is_token_byte(span.at[i]))
			return false;
	}
	return span.len > 0;
}

/* Bytes a value may have; a bare CR or LF, NUL and other controls end elsewhere for others. */
static bool is_value(struct span span)
{
	for (size_t i = 0; i < span.len; i++) {
		unsigned char c = (unsigned char)span.at[i];
		if ((c < 0x20 && c != '\t') || c == 0x7f)
			return false;
	}
	return true;
}

static struct span trim(struct span span)
{
	while (span.len > 0 && (span.at[0] == ' ' || span.at[0] == '\t'))
		span = (struct span){span.at + 1, span.len - 1};
	while (span.len > 0 && (span.at[span.len - 1] == ' ' || span.at[span.len - 1] == '\t'))
		span.len--;
	return span;
}

/* The next line, without its CR LF. False: no whole line is there. */
static bool take_line(struct span *rest, struct span *ret)
{
	const char *end = memmem(rest->at, rest->len, "\r\n", 2);
	if (!end)
		return false;
	*ret = (struct span){rest->at, (size_t)(end - rest->at)};
	rest->len -= ret->len + 2;
	rest->at = end + 2;
	return true;
}

/* Decimal digits alone. */
static bool to_number(struct span span, uint64_t most, uint64_t *ret)
{
	uint64_t value = 0;
	if (span.len == 0)
		return false;
	for (size_t i = 0; i < span.len; i++) {
		if (span.at[i] < '0' || span.at[i] > '9' || value > most / 10)
			return false;
		value = value * 10 + (uint64_t)(span.at[i] - '0');
	}
	*ret = value;
	return value <= most;
}

/* "name" or "name:port". */
static bool read_authority(struct span span, char host[HTTP_HEAD_NAME], uint16_t *ret_port)
{
	const char *colon = memchr(span.at, ':', span.len);
	uint64_t port = 0;
	size_t len = colon ? (size_t)(colon - span.at) : span.len;
	char before = '.';
	if (colon &&
	    (!to_number((struct span){colon + 1, span.len - len - 1}, 65535, &port) || port == 0))
		return false;
	if (len == 0 || len >= HTTP_HEAD_NAME)
		return false;
	for (size_t i = 0; i < len; i++) {
		char c = span.at[i];
		if (c >= 'A' && c <= 'Z')
			c = (char)(c | 0x20);
		bool is_label =
			(c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
		if (!is_label && (c != '.' || before == '.'))
			return false;
		host[i] = before = c;
	}
	host[len] = '\0';
	*ret_port = (uint16_t)port;
	return before != '.';
}

/* --- the head --- */

struct reading {
	struct http_head *head;
	struct span authority; /* of an absolute target; at NULL: none */
	bool has_host, has_length, has_encoding, is_old;
	size_t fields;
};

static bool refuse(struct reading *reading, const char *why)
{
	reading->head->why = why;
	return false;
}

/* "http://name/path" names a host once more: it must be the same (RFC 9112, 3.2.2). */
static bool read_absolute(struct reading *reading, struct span target)
{
	static const char scheme[] = "http://";
	size_t skip = sizeof(scheme) - 1;
	if (target.len <= skip || strncasecmp(target.at, scheme, skip) != 0)
		return refuse(reading, "the target of the request is no path");
	struct span rest = {target.at + skip, target.len - skip};
	size_t len = 0;
	while (len < rest.len && !strchr("/?#", rest.at[len]))
		len++;
	reading->authority = (struct span){rest.at, len};
	return true;
}

static bool read_request_line(struct reading *reading, struct span line)
{
	const char *first = memchr(line.at, ' ', line.len);
	const char *last = memrchr(line.at, ' ', line.len);
	if (!first || first == last)
		return refuse(reading, "this is no HTTP request");
	struct span method = {line.at, (size_t)(first - line.at)};
	struct span target = {first + 1, (size_t)(last - first - 1)};
	struct span version = {last + 1, (size_t)(line.at + line.len - last - 1)};
	for (size_t i = 0; i < target.len; i++) {
		if ((unsigned char)target.at[i] <= 0x20 || target.at[i] == 0x7f)
			return refuse(reading, "the target of the request has blanks in it");
	}
	reading->is_old = version.len == 8 && memcmp(version.at, "HTTP/1.0", 8) == 0;
	if (!is_token(method) || target.len == 0 ||
	    !(reading->is_old || (version.len == 8 && memcmp(version.at, "HTTP/1.1", 8) == 0)))
		return refuse(reading, "this is no HTTP/1 request");
	if (is_equal(method, "CONNECT"))
		return refuse(reading, "CONNECT is not allowed");
	if (target.at[0] == '/' || (target.len == 1 && target.at[0] == '*'))
		return true;
	return read_absolute(reading, target);
}

static bool read_host(struct reading *reading, struct span value)
{
	struct http_head *head = reading->head;
	if (reading->has_host)
		return refuse(reading, "the request names two hosts");
	reading->has_host = true;
	return read_authority(value, head->host, &head->port) ||
	       refuse(reading, "the Host of the request is no name");
}

static bool read_length(struct reading *reading, struct span value)
{
	if (reading->has_length)
		return refuse(reading, "the request has two lengths");
	reading->has_length = true;
	return to_number(value, INT64_MAX, &reading->head->length) ||
	       refuse(reading, "the length of the request is no number");
}

static bool read_encoding(struct reading *reading, struct span value)
{
	if (reading->has_encoding || !is_equal(value, "chunked"))
		return refuse(reading, "the request is encoded in a way that is not understood");
	reading->has_encoding = true;
	return true;
}

static bool read_upgrade(struct reading *reading, struct span value)
{
	if (is_equal(value, "websocket") && !reading->head->has_upgrade)
		reading->head->is_websocket = true;
	else
		reading->head->has_upgrade = true;
	return true;
}

static const struct {
	const char *name;
	bool (*read)(struct reading *reading, struct span value);
} fields[] = {
	{"Host", read_host},
	{"Content-Length", read_length},
	{"Transfer-Encoding", read_encoding},
	{"Upgrade", read_upgrade},
};

/* "name: value"; no blank before the colon, no line that goes on from the last (RFC
 * 9112, 5.1, 5.2).
 */
static bool split_field(struct span line, struct span *ret_name, struct span *ret_value)
{
	const char *colon = memchr(line.at, ':', line.len);
	if (!colon)
		return false;
	*ret_name = (struct span){line.at, (size_t)(colon - line.at)};
	*ret_value = trim((struct span){colon + 1, line.len - ret_name->len - 1});
	return is_token(*ret_name) && is_value(*ret_value);
}

static bool read_field(struct reading *reading, struct span line)
{
	struct span name, value;
	if (reading->fields++ == HTTP_HEAD_FIELDS)
		return refuse(reading, "the request has too many fields");
	if (!split_field(line, &name, &value))
		return refuse(reading, "a field of the request is malformed");
	for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
		if (is_equal(name, fields[i].name))
			return fields[i].read(reading, value);
	}
	return true;
}

/* What only the whole head can tell. */
static bool check_whole(struct reading *reading)
{
	struct http_head *head = reading->head;
	char host[HTTP_HEAD_NAME];
	uint16_t port;
	if (!reading->has_host)
		return refuse(reading, "the request names no host");
	if (reading->has_encoding && (reading->has_length || reading->is_old))
		return refuse(reading, "the request has a length and an encoding");
	if (reading->authority.at && (!read_authority(reading->authority, host, &port) ||
	                              strcmp(host, head->host) != 0 || port != head->port))
		return refuse(reading, "the request names two hosts");
	if (head->has_upgrade)
		head->is_websocket = false;
	head->body = reading->has_encoding                     ? HTTP_BODY_CHUNKED
	             : reading->has_length && head->length > 0 ? HTTP_BODY_LENGTH
	                                                       : HTTP_BODY_NONE;
	if (head->is_websocket && head->body != HTTP_BODY_NONE)
		return refuse(reading, "a request for a WebSocket has a body");
	return true;
}

enum http_head_result http_head_parse(const uint8_t *bytes, size_t len, struct http_head *ret)
{
	struct reading reading = {.head = ret};
	struct span rest = {(const char *)bytes, MIN(len, (size_t)HTTP_HEAD_MOST)};
	struct span line;
	*ret = (struct http_head){.why = "the head of the request is too long"};
	bool is_first = true;
	while (take_line(&rest, &line)) {
		if (line.len == 0 && !is_first) {
			ret->len = (size_t)((const uint8_t *)rest.at - bytes);
			return check_whole(&reading) ? HTTP_HEAD_WHOLE : HTTP_HEAD_BAD;
		}
		bool is_good =
			is_first ? read_request_line(&reading, line) : read_field(&reading, line);
		if (!is_good)
			return HTTP_HEAD_BAD;
		is_first = false;
	}
	/* What cannot become a line any more need not be waited for. */
	if (memchr(rest.at, '\n', rest.len) ||
	    (is_first && rest.len > 0 && !is_token_byte(*rest.at))) {
		ret->why = "this is no HTTP request";
		return HTTP_HEAD_BAD;
	}
	return len < HTTP_HEAD_MOST ? HTTP_HEAD_MORE : HTTP_HEAD_BAD;
}

static bool is_about_upgrade(struct span line)
{
	static const char *const names[] = {"Upgrade", "HTTP2-Settings", "Connection"};
	struct span name, value;
	if (!split_field(line, &name, &value))
		return false;
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		if (is_equal(name, names[i]))
			return true;
	}
	return false;
}

size_t http_head_strip(const struct http_head *head, const uint8_t *bytes, uint8_t *out)
{
	struct span rest = {(const char *)bytes, head->len};
	struct span line;
	size_t len = 0;
	bool is_first = true;
	while (take_line(&rest, &line)) {
		if (is_first || !is_about_upgrade(line)) {
			memcpy(out + len, line.at, line.len + 2);
			len += line.len + 2;
		}
		is_first = false;
	}
	return len;
}

/* --- the body --- */

enum { SIZE, SIZE_LF, DATA, DATA_CR, DATA_LF, LAST_CR, LAST_LF, DIGITS_MOST = 15 };

void http_body_start(struct http_body *body, const struct http_head *head)
{
	*body = (struct http_body){.kind = head->body, .state = SIZE, .left = head->length};
	if (head->body == HTTP_BODY_CHUNKED)
		body->left = 0;
}

static int hex(uint8_t c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* One byte of the framing between chunks. No extensions, no trailers: nobody sends them, and
 * readers disagree about them. False: malformed. */
static bool take_frame(struct http_body *body, uint8_t c, bool *ret_is_over)
{
	int digit = hex(c);
	switch (body->state) {
	case SIZE:
		if (c == '\r' && body->digits > 0) {
			body->state = SIZE_LF;
			return true;
		}
		if (digit < 0 || body->digits++ == DIGITS_MOST)
			return false;
		body->left = body->left << 4 | (uint64_t)digit;
		return true;
	case SIZE_LF:
		body->state = body->left > 0 ? DATA : LAST_CR;
		return c == '\n';
	case DATA_CR:
		body->state = DATA_LF;
		return c == '\r';
	case DATA_LF:
		body->state = SIZE;
		body->digits = 0;
		return c == '\n';
	case LAST_CR:
		body->state = LAST_LF;
		return c == '\r';
	default: /* LAST_LF */
		*ret_is_over = true;
		return c == '\n';
	}
}

static ssize_t take_chunks(struct http_body *body, const uint8_t *bytes, size_t len,
                           bool *ret_is_over)
{
	size_t at = 0;
	while (at < len && !*ret_is_over) {
		if (body->state != DATA) {
			if (!take_frame(body, bytes[at++], ret_is_over))
				return -EBADMSG;
			continue;
		}
		size_t here = (size_t)MIN(body->left, (uint64_t)(len - at));
		at += here;
		body->left -= here;
		if (body->left == 0)
			body->state = DATA_CR;
	}
	return (ssize_t)at;
}

ssize_t http_body_take(struct http_body *body, const uint8_t *bytes, size_t len, bool *ret_is_over)
{
	*ret_is_over = false;
	if (body->kind == HTTP_BODY_CHUNKED)
		return take_chunks(body, bytes, len, ret_is_over);
	size_t here = body->kind == HTTP_BODY_NONE ? 0 : (size_t)MIN(body->left, (uint64_t)len);
	body->left -= here;
	*ret_is_over = body->kind == HTTP_BODY_NONE || body->left == 0;
	return (ssize_t)here;
}

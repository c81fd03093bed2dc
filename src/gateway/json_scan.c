#include "gateway/json_scan.h"

#include <ctype.h>
#include <string.h>

enum state {
	VALUE,        /* one is due */
	VALUE_OR_END, /* behind '[' */
	KEY_OR_END,   /* behind '{' */
	KEY,          /* behind ',' in an object */
	COLON,
	AFTER, /* a value was there */
	STRING,
	ESCAPE,
	UNICODE,
	NUMBER,
	LITERAL,
	DONE,
	BROKEN,
};

void json_scan_init(struct json_scan *scan, json_scan_on_value on_value, void *ctx)
{
	*scan = (struct json_scan){.on_value = on_value, .ctx = ctx};
}

void json_scan_reset(struct json_scan *scan)
{
	scan->at = 0;
	scan->state = VALUE;
	scan->depth = 0;
	scan->path_len = 0;
}

static bool in_object(const struct json_scan *scan)
{
	unsigned top = scan->depth - 1;

	return scan->depth > 0 && (scan->is_object[top / 8] >> top % 8 & 1);
}

static void tell(struct json_scan *scan, enum json_scan_kind kind, uint64_t end)
{
	struct json_scan_value value = {.kind = kind,
	                                .path = scan->path,
	                                .depth = scan->depth,
	                                .text = scan->text,
	                                .is_whole = scan->is_whole,
	                                .from = scan->from,
	                                .end = end};

	if (scan->depth >= JSON_SCAN_PATHS)
		return;
	scan->path[scan->path_len] = '\0';
	scan->text[scan->text_len] = '\0';
	value.length = kind == JSON_SCAN_STRING ? end - scan->from - 2 : end - scan->from;
	scan->on_value(&value, scan->ctx);
}

/* A value is over: what may follow. */
static void value_over(struct json_scan *scan)
{
	scan->path_len = scan->depth < JSON_SCAN_PATHS ? scan->ends[scan->depth] : 0;
	scan->state = scan->depth == 0 ? DONE : AFTER;
}

/* --- names --- */

static void take_name(struct json_scan *scan)
{
	size_t at;

	if (scan->depth >= JSON_SCAN_PATHS)
		return;
	at = scan->ends[scan->depth];
	/* A name that does not fit is none that anybody looks for. */
	if (!scan->is_whole || at + scan->text_len + 2 >= sizeof(scan->path)) {
		scan->text[0] = '\1';
		scan->text_len = 1;
	}
	if (at + scan->text_len + 2 >= sizeof(scan->path))
		return;
	if (at > 0)
		scan->path[at++] = '.';
	for (size_t i = 0; i < scan->text_len; i++)
		scan->path[at++] = scan->text[i] == '.' ? '\1' : scan->text[i];
	scan->path_len = (uint8_t)at;
}

/* --- containers --- */

static bool enter(struct json_scan *scan, bool is_object)
{
	unsigned top = scan->depth;

	if (top == JSON_SCAN_DEPTH)
		return false;
	scan->text_len = 0;
	scan->is_whole = true;
	tell(scan, is_object ? JSON_SCAN_OBJECT : JSON_SCAN_ARRAY, scan->at + 1);
	scan->is_object[top / 8] &= (uint8_t) ~(1U << top % 8);
	scan->is_object[top / 8] |= (uint8_t)(is_object << top % 8);
	scan->depth++;
	if (scan->depth < JSON_SCAN_PATHS)
		scan->ends[scan->depth] = scan->path_len;
	scan->state = is_object ? KEY_OR_END : VALUE_OR_END;
	return true;
}

static bool leave(struct json_scan *scan, bool is_object)
{
	if (scan->depth == 0 || in_object(scan) != is_object)
		return false;
	scan->depth--;
	value_over(scan);
	return true;
}

/* --- scalars --- */

static void put(struct json_scan *scan, unsigned char c)
{
	if (scan->text_len + 1U < sizeof(scan->text))
		scan->text[scan->text_len++] = (char)c;
	else
		scan->is_whole = false;
}

static void begin(struct json_scan *scan, enum state state)
{
	scan->state = (uint8_t)state;
	scan->from = scan->at;
	scan->text_len = 0;
	scan->is_whole = true;
}

static void string_over(struct json_scan *scan)
{
	if (scan->is_key) {
		take_name(scan);
		scan->state = COLON;
		return;
	}
	tell(scan, JSON_SCAN_STRING, scan->at + 1);
	value_over(scan);
}

static bool begin_value(struct json_scan *scan, unsigned char c)
{
	static const char *const literals[] = {"true", "false", "null"};

	scan->is_key = false;
	if (c == '{' || c == '[') {
		scan->from = scan->at;
		return enter(scan, c == '{');
	}
	if (c == '"') {
		begin(scan, STRING);
		return true;
	}
	if (c == '-' || isdigit(c)) {
		begin(scan, NUMBER);
		put(scan, c);
		return true;
	}
	for (size_t i = 0; i < ARRAY_LEN(literals); i++) {
		if (literals[i][0] != (char)c)
			continue;
		begin(scan, LITERAL);
		scan->literal = literals[i];
		scan->digits = 1;
		return true;
	}
	return false;
}

static bool escape(struct json_scan *scan, unsigned char c)
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	const char *at = c ? strchr(from, c) : NULL;

	if (c == 'u') {
		scan->state = UNICODE;
		scan->digits = scan->code = 0;
		return true;
	}
	if (!at)
		return false;
	put(scan, (unsigned char)to[at - from]);
	scan->state = STRING;
	return true;
}

static bool unicode(struct json_scan *scan, unsigned char c)
{
	unsigned code;

	if (!isxdigit(c))
		return false;
	code = scan->code =
		scan->code * 16 + (unsigned)(isdigit(c) ? c - '0' : tolower(c) - 'a' + 10);
	if (++scan->digits < 4)
		return true;
	if (code == 0 || (code >= 0xd800 && code < 0xe000)) {
		put(scan, '?'); /* nobody looks for these */
	} else if (code < 0x80) {
		put(scan, (unsigned char)code);
	} else if (code < 0x800) {
		put(scan, (unsigned char)(0xc0 | code >> 6));
		put(scan, (unsigned char)(0x80 | (code & 0x3f)));
	} else {
		put(scan, (unsigned char)(0xe0 | code >> 12));
		put(scan, (unsigned char)(0x80 | (code >> 6 & 0x3f)));
		put(scan, (unsigned char)(0x80 | (code & 0x3f)));
	}
	scan->state = STRING;
	return true;
}

static bool literal(struct json_scan *scan, unsigned char c)
{
	enum json_scan_kind kind = scan->literal[0] == 't'   ? JSON_SCAN_TRUE
	                           : scan->literal[0] == 'f' ? JSON_SCAN_FALSE
	                                                     : JSON_SCAN_NULL;

	if (scan->literal[scan->digits] != (char)c)
		return false;
	if (scan->literal[++scan->digits] != '\0')
		return true;
	tell(scan, kind, scan->at + 1);
	value_over(scan);
	return true;
}

static void number_over(struct json_scan *scan)
{
	tell(scan, JSON_SCAN_NUMBER, scan->at);
	value_over(scan);
}

/* --- between them --- */

static bool between(struct json_scan *scan, unsigned char c)
{
	switch ((enum state)scan->state) {
	case VALUE_OR_END:
		return c == ']' ? leave(scan, false) : begin_value(scan, c);
	case VALUE:
		return begin_value(scan, c);
	case KEY_OR_END:
		if (c == '}')
			return leave(scan, true);
		/* fall through */
	case KEY:
		if (c != '"')
			return false;
		begin(scan, STRING);
		scan->is_key = true;
		return true;
	case COLON:
		scan->state = VALUE;
		return c == ':';
	case AFTER:
		if (c != ',')
			return (c == '}' || c == ']') && leave(scan, c == '}');
		scan->state = in_object(scan) ? KEY : VALUE;
		return true;
	case STRING:
	case ESCAPE:
	case UNICODE:
	case NUMBER:
	case LITERAL:
	case DONE:
	case BROKEN:
		break;
	}
	return false;
}

static bool is_blank(unsigned char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool take(struct json_scan *scan, unsigned char c)
{
	if (scan->state == NUMBER) {
		if (isdigit(c) || (c && strchr("+-.eE", c))) {
			put(scan, c);
			return true;
		}
		number_over(scan); /* and c is what comes after it */
	}
	if (scan->state == ESCAPE)
		return escape(scan, c);
	if (scan->state == UNICODE)
		return unicode(scan, c);
	if (scan->state == LITERAL)
		return literal(scan, c);
	return is_blank(c) || between(scan, c);
}

/* The inside of strings is most of all there is. */
static size_t take_string(struct json_scan *scan, const uint8_t *bytes, size_t len)
{
	size_t n = 0, room = sizeof(scan->text) - 1 - scan->text_len, kept;

	while (n < len && bytes[n] != '"' && bytes[n] != '\\' && bytes[n] >= ' ')
		n++;
	kept = MIN(n, room);
	memcpy(scan->text + scan->text_len, bytes, kept);
	scan->text_len = (uint16_t)(scan->text_len + kept);
	scan->is_whole = scan->is_whole && kept == n;
	scan->at += n;
	if (n == len)
		return n;
	if (bytes[n] == '"')
		string_over(scan);
	else
		scan->state = bytes[n] == '\\' ? ESCAPE : BROKEN;
	scan->at++;
	return n + 1;
}

bool json_scan_feed(struct json_scan *scan, const void *bytes, size_t len)
{
	const uint8_t *at = bytes, *end = at + len;

	while (at < end && scan->state != BROKEN) {
		if (scan->state == STRING) {
			at += take_string(scan, at, (size_t)(end - at));
			continue;
		}
		if (!take(scan, *at))
			scan->state = BROKEN;
		scan->at++;
		at++;
	}
	return scan->state != BROKEN;
}

bool json_scan_end(struct json_scan *scan)
{
	if (scan->state == NUMBER)
		number_over(scan);
	return scan->state == DONE;
}

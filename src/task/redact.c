#include "task/redact.h"

#include "base/mem.h"
#include "base/must.h"
#include "base/str.h"
#include "model/strings.h"

enum {
	BODY_MOST = 8 * 1024,              /* of a token behind its prefix */
	HELD_MOST = 64 * 1024 + BODY_MOST, /* the longest value that is looked for */
	PIECE_MOST = 1024 * 1024,          /* at one time */
};

enum body { PLAIN, WIDE, NAMED };

static const struct {
	const char *text;
	size_t least;
	enum body body;
} prefixes[] = {
#define PREFIX(text, least, body) {text, least, body},
#include "task/redact.def"
#undef PREFIX
};

/* Before who logs in, in an address: "https://user:password@host/". */
#define LOGIN "://"
enum { LOGIN_MOST = 512, LOGIN_TOKEN = 20 /* so long, a name alone is a token */ };

struct redact {
	struct strings values;
	bool can_begin[256]; /* a secret can begin with this byte */
	struct buf held[REDACT_STREAMS];
};

struct redact *redact_new(void)
{
	struct redact *redact = mem_new(struct redact);

	for (size_t i = 0; i < ARRAY_LEN(prefixes); i++)
		redact->can_begin[(uint8_t)prefixes[i].text[0]] = true;
	redact->can_begin[(uint8_t)LOGIN[0]] = true;
	for (size_t i = 0; i < REDACT_STREAMS; i++)
		buf_init(&redact->held[i], HELD_MOST + PIECE_MOST);
	return redact;
}

void redact_free(struct redact *redact)
{
	if (!redact)
		return;
	for (size_t i = 0; i < redact->values.count; i++)
		explicit_bzero(redact->values.items[i], strlen(redact->values.items[i]));
	strings_done(&redact->values);
	for (size_t i = 0; i < REDACT_STREAMS; i++)
		buf_done(&redact->held[i]);
	mem_freep(&redact);
}

void redact_add(struct redact *redact, const char *value)
{
	size_t len = strlen(value);

	if (len < REDACT_VALUE_LEAST || len > HELD_MOST || strings_has(&redact->values, value))
		return;
	strings_add(&redact->values, value);
	redact->can_begin[(uint8_t)value[0]] = true;
}

static bool is_body(uint8_t byte, enum body body)
{
	return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
	       (byte >= '0' && byte <= '9') || byte == '_' || byte == '-' ||
	       (body != PLAIN && byte != '\0' && strchr(".~+/=%", byte));
}

/* Of what follows a prefix, as far as it is there. */
static size_t body_of(size_t index, const uint8_t *bytes, size_t len)
{
	size_t body = 0;

	while (body < len && body < BODY_MOST && is_body(bytes[body], prefixes[index].body))
		body++;
	return body;
}

enum { NO = 0, MAYBE = -1 };

/* Length of a secret at the front; NO; MAYBE when more bytes are needed to know. */
static ssize_t match_value(const char *value, const uint8_t *bytes, size_t len)
{
	size_t want = strlen(value);

	if (memcmp(value, bytes, MIN(want, len)) != 0)
		return NO;
	return len >= want ? (ssize_t)want : MAYBE;
}

static ssize_t match_prefix(size_t index, const uint8_t *bytes, size_t len)
{
	const char *text = prefixes[index].text;
	size_t want = strlen(text);
	size_t body;

	if (memcmp(text, bytes, MIN(want, len)) != 0)
		return NO;
	if (len < want)
		return MAYBE;
	body = body_of(index, bytes + want, len - want);
	if (want + body == len && body < BODY_MOST)
		return MAYBE;
	return body >= prefixes[index].least ? (ssize_t)(want + body) : NO;
}

static ssize_t match_login(const uint8_t *bytes, size_t len)
{
	static const char ends[] = " /?#\"'<>\\`";
	size_t want = strlen(LOGIN);
	bool has_password = false;

	if (memcmp(LOGIN, bytes, MIN(want, len)) != 0)
		return NO;
	for (size_t i = want; i < len && i < LOGIN_MOST; i++) {
		if (bytes[i] == '@')
			return has_password || i - want >= LOGIN_TOKEN ? (ssize_t)i + 1 : NO;
		if (bytes[i] <= ' ' || strchr(ends, bytes[i]))
			return NO;
		has_password = has_password || bytes[i] == ':';
	}
	return len < LOGIN_MOST ? MAYBE : NO;
}

/* A known value that begins in what looks like a token may be longer than that. */
static ssize_t widen(const struct redact *redact, const uint8_t *bytes, size_t len, size_t secret,
                     bool is_last)
{
	for (size_t at = 1; at < secret; at++) {
		for (size_t i = 0; redact->can_begin[bytes[at]] && i < redact->values.count; i++) {
			ssize_t r = match_value(redact->values.items[i], bytes + at, len - at);

			if (r == MAYBE && !is_last)
				return MAYBE;
			secret = MAX(secret, r > NO ? at + (size_t)r : 0);
		}
	}
	return (ssize_t)secret;
}

/* The longest secret that begins here. */
static ssize_t match(const struct redact *redact, const uint8_t *bytes, size_t len)
{
	ssize_t best = NO;

	if (!redact->can_begin[bytes[0]])
		return NO;
	best = match_login(bytes, len);
	if (best == MAYBE)
		return MAYBE;
	for (size_t i = 0; i < redact->values.count; i++) {
		ssize_t r = match_value(redact->values.items[i], bytes, len);

		if (r == MAYBE)
			return MAYBE;
		best = MAX(best, r);
	}
	for (size_t i = 0; i < ARRAY_LEN(prefixes); i++) {
		ssize_t r = match_prefix(i, bytes, len);

		if (r == MAYBE)
			return MAYBE;
		best = MAX(best, r);
	}
	return best > NO ? widen(redact, bytes, len, (size_t)best, false) : NO;
}

/* At the end of a stream a token is as long as it is. */
static ssize_t match_last(const struct redact *redact, const uint8_t *bytes, size_t len)
{
	ssize_t best = match_login(bytes, len);

	for (size_t i = 0; i < redact->values.count; i++)
		best = MAX(best, match_value(redact->values.items[i], bytes, len));
	for (size_t i = 0; i < ARRAY_LEN(prefixes); i++) {
		size_t want = strlen(prefixes[i].text);
		size_t body;

		if (len < want || memcmp(prefixes[i].text, bytes, want) != 0)
			continue;
		body = body_of(i, bytes + want, len - want);
		if (body >= prefixes[i].least)
			best = MAX(best, (ssize_t)(want + body));
	}
	return best > NO ? widen(redact, bytes, len, (size_t)best, true) : NO;
}

/* What stands for a secret: an address stays one, and so does the name of a value. */
static int put_mark(const uint8_t *bytes, size_t len, redact_put put, void *ctx)
{
	size_t name = 0;

	if (bytes[0] == LOGIN[0] && bytes[len - 1] == '@')
		return put(ctx, LOGIN REDACT_MARK "@", strlen(LOGIN REDACT_MARK "@"));
	for (size_t i = 0; i < ARRAY_LEN(prefixes); i++) {
		size_t want = strlen(prefixes[i].text);

		if (prefixes[i].body == NAMED && len > want &&
		    memcmp(prefixes[i].text, bytes, want) == 0)
			name = want;
	}
	if (put(ctx, bytes, name) < 0)
		return -1;
	return put(ctx, REDACT_MARK, strlen(REDACT_MARK));
}

static int drain(struct redact *redact, struct buf *held, bool is_last, redact_put put, void *ctx)
{
	const uint8_t *bytes = buf_head(held);
	size_t len = buf_len(held);
	size_t clean = 0;
	size_t at = 0;

	while (at < len) {
		ssize_t r = match(redact, bytes + at, len - at);

		if (r == MAYBE && !is_last)
			break;
		if (r == MAYBE)
			r = match_last(redact, bytes + at, len - at);
		if (r <= NO) {
			at++;
			continue;
		}
		if (put(ctx, bytes + clean, at - clean) < 0 ||
		    put_mark(bytes + at, (size_t)r, put, ctx) < 0)
			return -1;
		at += (size_t)r;
		clean = at;
	}
	if (put(ctx, bytes + clean, at - clean) < 0)
		return -1;
	buf_consume(held, at);
	return 0;
}

int redact_feed(struct redact *redact, int stream, const void *bytes, size_t len, redact_put put,
                void *ctx)
{
	struct buf *held = &redact->held[stream];

	must(buf_put(held, bytes, len) == 0);
	return drain(redact, held, false, put, ctx);
}

int redact_end(struct redact *redact, int stream, redact_put put, void *ctx)
{
	struct buf *held = &redact->held[stream];

	return buf_len(held) > 0 ? drain(redact, held, true, put, ctx) : 0;
}

static int put_text(void *ctx, const void *bytes, size_t len)
{
	return buf_put(ctx, bytes, len);
}

char *redact_text(struct redact *redact, const char *text)
{
	struct buf out, held;
	char *clean;

	if (!text)
		return NULL;
	/* A mark is longer than the shortest secret, but not twice as long. */
	buf_init(&out, 2 * strlen(text) + 1);
	buf_init(&held, strlen(text) + 1);
	must(buf_puts(&held, text) == 0 && drain(redact, &held, true, put_text, &out) == 0);
	clean = buf_take_string(&out);
	buf_done(&out);
	buf_done(&held);
	return clean;
}

bool redact_is_secret_name(const char *name)
{
	static const char *const words[] = {"TOKEN",       "SECRET",     "PASSWORD",
	                                    "PASSWD",      "APIKEY",     "API_KEY",
	                                    "PRIVATE_KEY", "CREDENTIAL", "ACCESS_KEY"};

	for (size_t i = 0; i < ARRAY_LEN(words); i++) {
		if (strcasestr(name, words[i]))
			return true;
	}
	return str_has_suffix(name, "_KEY");
}

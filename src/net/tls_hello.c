/*
 * A hello is a handshake message that may be cut into several records, at any byte. The records
 * are put together first, then read once. Everything that two readers might understand differently
 * (two names, two extensions of a kind, bytes left over) is refused.
 */
#include "net/tls_hello.h"

#include <string.h>

enum {
	RECORD_HEAD = 5,
	RECORD_MOST = 16384,
	CHANGE_CIPHER = 20,
	HANDSHAKE = 22,
	APPLICATION = 23,
	CLIENT_HELLO = 1,
	MESSAGE_HEAD = 4,
	RANDOM = 32,
	SESSION_ID_MOST = 32,
	EXTENSION_NAME = 0,
	EXTENSION_EARLY_DATA = 42,
	EXTENSION_ECH = 0xfe0d,
	EXTENSION_ESNI = 0xffce, /* its ancestor */
	EXTENSIONS_MOST = 64,
	NAME_HOST = 0,
};

struct reader {
	const uint8_t *bytes;
	size_t left;
	bool failed;
};

static size_t take(struct reader *in, size_t count)
{
	size_t value = 0;
	if (in->failed || count > in->left) {
		in->failed = true;
		return 0;
	}
	for (size_t i = 0; i < count; i++)
		value = value << 8 | in->bytes[i];
	in->bytes += count;
	in->left -= count;
	return value;
}

/* What a length of `width` bytes announces. */
static struct reader take_part(struct reader *in, size_t width)
{
	size_t len = take(in, width);
	struct reader part = {.bytes = in->bytes, .left = len};
	if (in->failed || len > in->left) {
		in->failed = true;
		return (struct reader){.failed = true};
	}
	in->bytes += len;
	in->left -= len;
	return part;
}

static void skip(struct reader *in, size_t count)
{
	if (in->failed || count > in->left) {
		in->failed = true;
		return;
	}
	in->bytes += count;
	in->left -= count;
}

/* Letters, digits, "-", "_" and single dots between them: what a name that was resolved looks like.
 * No dot at the end, no address, no NUL. */
static bool copy_name(const struct reader *in, char *to)
{
	uint8_t before = '.';
	if (in->left == 0 || in->left >= TLS_HELLO_NAME)
		return false;
	for (size_t i = 0; i < in->left; i++) {
		uint8_t c = in->bytes[i];
		if (c >= 'A' && c <= 'Z')
			c |= 0x20;
		bool is_label =
			(c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
		if (!is_label && (c != '.' || before == '.'))
			return false;
		to[i] = (char)c;
		before = c;
	}
	to[in->left] = '\0';
	return before != '.';
}

/* RFC 6066, 3: a list that may hold one name of each kind; there is one kind. */
static bool read_name(struct reader *extension, struct tls_hello *ret)
{
	struct reader list = take_part(extension, 2);
	size_t kind = take(&list, 1);
	struct reader name = take_part(&list, 2);
	return !list.failed && extension->left == 0 && list.left == 0 && kind == NAME_HOST &&
	       copy_name(&name, ret->name);
}

static bool read_extensions(struct reader *list, struct tls_hello *ret)
{
	size_t seen[EXTENSIONS_MOST], count = 0;
	while (list->left > 0) {
		size_t kind = take(list, 2);
		struct reader extension = take_part(list, 2);
		if (list->failed || count == EXTENSIONS_MOST)
			return false;
		for (size_t i = 0; i < count; i++) {
			if (seen[i] == kind)
				return false;
		}
		seen[count++] = kind;
		if (kind == EXTENSION_NAME && !read_name(&extension, ret))
			return false;
		ret->has_early_data |= kind == EXTENSION_EARLY_DATA;
		ret->has_ech |= kind == EXTENSION_ECH || kind == EXTENSION_ESNI;
	}
	return true;
}

static bool read_message(struct reader in, struct tls_hello *ret)
{
	skip(&in, 2); /* the version says nothing any more */
	skip(&in, RANDOM);
	struct reader session = take_part(&in, 1);
	struct reader suites = take_part(&in, 2);
	struct reader compressions = take_part(&in, 1);
	if (in.failed || session.left > SESSION_ID_MOST || suites.left < 2 ||
	    suites.left % 2 != 0 || compressions.left == 0)
		return false;
	if (in.left == 0)
		return true; /* before there were extensions */
	struct reader extensions = take_part(&in, 2);
	return !in.failed && in.left == 0 && read_extensions(&extensions, ret);
}

/* How long the whole message is, once its head is there. 0: not yet; SIZE_MAX: no hello. */
static size_t message_length(const uint8_t *message, size_t len)
{
	if (len > 0 && message[0] != CLIENT_HELLO)
		return SIZE_MAX;
	if (len < MESSAGE_HEAD)
		return 0;
	size_t whole =
		MESSAGE_HEAD + ((size_t)message[1] << 16 | (size_t)message[2] << 8 | message[3]);
	return whole > TLS_HELLO_MOST ? SIZE_MAX : whole;
}

/* A record's head at bytes, as far as it is there: false when it cannot be one of a hello. */
static bool is_record(const uint8_t *bytes, size_t len)
{
	size_t size = len >= RECORD_HEAD ? (size_t)bytes[3] << 8 | bytes[4] : 1;
	return (len < 1 || bytes[0] == HANDSHAKE) && (len < 2 || bytes[1] == 3) &&
	       (len < 3 || bytes[2] <= 4) && size > 0 && size <= RECORD_MOST;
}

/* The message put together from its records. */
struct gathered {
	uint8_t message[TLS_HELLO_MOST];
	size_t len;
	size_t at; /* in the bytes: behind the last record used */
};

/* One more record, or the piece of it that is there. */
static enum tls_hello_result gather(struct gathered *to, const uint8_t *bytes, size_t len)
{
	if (!is_record(bytes + to->at, len - to->at))
		return TLS_HELLO_BAD;
	if (len - to->at < RECORD_HEAD)
		return TLS_HELLO_MORE;
	size_t size = (size_t)bytes[to->at + 3] << 8 | bytes[to->at + 4];
	to->at += RECORD_HEAD;
	size_t here = MIN(size, len - to->at);
	if (here > sizeof(to->message) - to->len)
		return TLS_HELLO_BAD;
	memcpy(to->message + to->len, bytes + to->at, here);
	to->len += here;
	to->at += here;
	return here < size ? TLS_HELLO_MORE : TLS_HELLO_WHOLE;
}

enum tls_hello_result tls_hello_parse(const uint8_t *bytes, size_t len, struct tls_hello *ret)
{
	struct gathered gathered = {.len = 0};
	*ret = (struct tls_hello){0};
	size_t whole = 0;
	while (whole == 0 || gathered.len < whole) {
		enum tls_hello_result r = gather(&gathered, bytes, len);
		whole = message_length(gathered.message, gathered.len);
		/* More than the hello in its record: nobody sends that, and who knows who reads it.
		 */
		if (r == TLS_HELLO_BAD || whole == SIZE_MAX || (whole > 0 && gathered.len > whole))
			return TLS_HELLO_BAD;
		if (r == TLS_HELLO_MORE)
			return len < TLS_HELLO_MOST ? TLS_HELLO_MORE : TLS_HELLO_BAD;
	}
	struct reader in = {.bytes = gathered.message + MESSAGE_HEAD,
	                    .left = gathered.len - MESSAGE_HEAD};
	ret->len = gathered.at;
	return read_message(in, ret) ? TLS_HELLO_WHOLE : TLS_HELLO_BAD;
}

/* A record at bytes that is no hello goes on as it is. */
static enum tls_watch_result pass_record(struct tls_watch *watch, const uint8_t *bytes, size_t len,
                                         size_t *ret_pass)
{
	size_t size = RECORD_HEAD + ((size_t)bytes[3] << 8 | bytes[4]);
	*ret_pass = MIN(size, len);
	watch->left = size - *ret_pass;
	return TLS_WATCH_PASS;
}

enum tls_watch_result tls_watch(struct tls_watch *watch, const uint8_t *bytes, size_t len,
                                size_t *ret_pass, struct tls_hello *ret)
{
	*ret_pass = MIN(watch->left, len);
	watch->left -= *ret_pass;
	if (*ret_pass > 0)
		return TLS_WATCH_PASS;
	if (len <= RECORD_HEAD)
		return TLS_WATCH_MORE;
	if (bytes[0] == CHANGE_CIPHER || (bytes[0] == APPLICATION && watch->has_early_data))
		return pass_record(watch, bytes, len, ret_pass);
	if (bytes[0] != HANDSHAKE || bytes[RECORD_HEAD] != CLIENT_HELLO)
		return TLS_WATCH_OVER;
	enum tls_hello_result r = tls_hello_parse(bytes, len, ret);
	*ret_pass = ret->len;
	watch->has_early_data = false;
	return r == TLS_HELLO_MORE  ? TLS_WATCH_MORE
	       : r == TLS_HELLO_BAD ? TLS_WATCH_BAD
	                            : TLS_WATCH_HELLO;
}

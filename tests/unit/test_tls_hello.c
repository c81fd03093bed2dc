#include "net/tls_hello.h"

#include "harness/test.h"

struct message {
	uint8_t bytes[20000];
	size_t len;
};

static void put(struct message *to, const void *bytes, size_t len)
{
	CHECK(to->len + len <= sizeof(to->bytes));
	if (len > 0)
		memcpy(to->bytes + to->len, bytes, len);
	to->len += len;
}

static void put_number(struct message *to, size_t value, size_t width)
{
	for (size_t i = width; i-- > 0;)
		put(to, (const uint8_t[]){(uint8_t)(value >> (8 * i))}, 1);
}

/* An extension: its kind, then a length and these bytes. */
static void put_extension(struct message *to, unsigned kind, const void *bytes, size_t len)
{
	put_number(to, kind, 2);
	put_number(to, len, 2);
	put(to, bytes, len);
}

static void put_name(struct message *to, const char *name, size_t len)
{
	struct message list = {.len = 0};
	put_number(&list, len + 3, 2);
	put_number(&list, 0, 1);
	put_number(&list, len, 2);
	put(&list, name, len);
	put_extension(to, 0, list.bytes, list.len);
}

/* The hello with these extensions, cut into records of at most `most` bytes. */
static struct message hello(const struct message *extensions, size_t most)
{
	struct message body = {.len = 0}, message = {.len = 0}, out = {.len = 0};
	static const uint8_t random[32];
	put_number(&body, 0x0303, 2);
	put(&body, random, sizeof(random));
	put_number(&body, 0, 1);
	put_number(&body, 2, 2);
	put_number(&body, 0x1301, 2);
	put_number(&body, 0x0100, 2);
	put_number(&body, extensions->len, 2);
	put(&body, extensions->bytes, extensions->len);
	put_number(&message, 1, 1);
	put_number(&message, body.len, 3);
	put(&message, body.bytes, body.len);
	for (size_t at = 0; at < message.len; at += most) {
		size_t len = MIN(most, message.len - at);
		put_number(&out, 0x160301, 3);
		put_number(&out, len, 2);
		put(&out, message.bytes + at, len);
	}
	return out;
}

static struct message named(const char *name, size_t most)
{
	struct message extensions = {.len = 0};
	put_extension(&extensions, 43, "\x02\x03\x04", 3);
	put_name(&extensions, name, strlen(name));
	return hello(&extensions, most);
}

TEST(the_name_is_found)
{
	struct message message = named("Example.TEST", 16384);
	struct tls_hello got;
	CHECK_INT(tls_hello_parse(message.bytes, message.len, &got), TLS_HELLO_WHOLE);
	CHECK_STR(got.name, "example.test");
	CHECK(!got.has_ech);
	CHECK_INT(got.len, message.len);
}

TEST(pieces_do_not_matter)
{
	static const size_t sizes[] = {1, 2, 3, 7, 50};
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		struct message message = named("example.test", sizes[i]);
		struct tls_hello got;
		for (size_t len = 0; len < message.len; len++)
			CHECK_INT(tls_hello_parse(message.bytes, len, &got), TLS_HELLO_MORE);
		CHECK_INT(tls_hello_parse(message.bytes, message.len, &got), TLS_HELLO_WHOLE);
		CHECK_STR(got.name, "example.test");
	}
}

TEST(without_a_name_there_is_none)
{
	struct message extensions = {.len = 0};
	put_extension(&extensions, 43, "\x02\x03\x04", 3);
	struct message message = hello(&extensions, 16384);
	struct tls_hello got;
	CHECK_INT(tls_hello_parse(message.bytes, message.len, &got), TLS_HELLO_WHOLE);
	CHECK_STR(got.name, "");
}

TEST(an_encrypted_hello_is_seen)
{
	static const unsigned kinds[] = {0xfe0d, 0xffce};
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		struct message extensions = {.len = 0};
		struct tls_hello got;
		put_name(&extensions, "example.test", 12);
		put_extension(&extensions, kinds[i], "xx", 2);
		struct message message = hello(&extensions, 16384);
		CHECK_INT(tls_hello_parse(message.bytes, message.len, &got), TLS_HELLO_WHOLE);
		CHECK(got.has_ech);
	}
}

TEST(two_meanings_are_none)
{
	struct tls_hello got;
	static const struct {
		const char *name;
		size_t len;
	} odd[] = {{"evil\0.example.test", 18},
	           {"example.test.", 13},
	           {".example.test", 13},
	           {"a..b", 4},
	           {"", 0},
	           {"exa mple", 8},
	           {"ex\xc3\xa4mple", 8}};
	for (size_t i = 0; i < ARRAY_LEN(odd); i++) {
		struct message extensions = {.len = 0};
		put_name(&extensions, odd[i].name, odd[i].len);
		struct message message = hello(&extensions, 16384);
		CHECK_INT(tls_hello_parse(message.bytes, message.len, &got), TLS_HELLO_BAD);
	}
	struct message twice = {.len = 0};
	put_name(&twice, "a.test", 6);
	put_name(&twice, "b.test", 6);
	struct message message = hello(&twice, 16384);
	CHECK_INT(tls_hello_parse(message.bytes, message.len, &got), TLS_HELLO_BAD);
	struct message list = {.len = 0}, extensions = {.len = 0};
	put(&list,
	    "\0\x0e\0\0\x04"
	    "a.te"
	    "\0\0\x04"
	    "b.te",
	    16);
	put_extension(&extensions, 0, list.bytes, list.len);
	message = hello(&extensions, 16384);
	CHECK_INT(tls_hello_parse(message.bytes, message.len, &got), TLS_HELLO_BAD);
}

TEST(other_protocols_are_refused_at_once)
{
	struct tls_hello got;
	static const char *const texts[] = {"GET / HTTP/1.1\r\n", "SSH-2.0-x\r\n", "\x80\x2e\x01",
	                                    "\x16\x02", "\x17\x03\x03"};
	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		CHECK_INT(tls_hello_parse((const uint8_t *)texts[i], strlen(texts[i]), &got),
		          TLS_HELLO_BAD);
	/* a server's hello */
	CHECK_INT(tls_hello_parse((const uint8_t *)"\x16\x03\x03\0\x04\x02", 6, &got),
	          TLS_HELLO_BAD);
	/* longer than any */
	CHECK_INT(tls_hello_parse((const uint8_t *)"\x16\x03\x03\x40\0\x01\x7f\xff\xff", 9, &got),
	          TLS_HELLO_BAD);
}

TEST(a_second_hello_is_seen)
{
	struct message second = named("other.test", 16384);
	struct message stream = {.len = 0};
	struct tls_watch watch = {0};
	struct tls_hello got;
	size_t pass;
	put(&stream, "\x14\x03\x03\0\x01\x01", 6);
	put(&stream, second.bytes, second.len);
	CHECK_INT(tls_watch(&watch, stream.bytes, 3, &pass, &got), TLS_WATCH_MORE);
	CHECK_INT(tls_watch(&watch, stream.bytes, stream.len, &pass, &got), TLS_WATCH_PASS);
	CHECK_INT(pass, 6);
	CHECK_INT(tls_watch(&watch, stream.bytes + 6, 20, &pass, &got), TLS_WATCH_MORE);
	CHECK_INT(tls_watch(&watch, stream.bytes + 6, stream.len - 6, &pass, &got),
	          TLS_WATCH_HELLO);
	CHECK_STR(got.name, "other.test");
	CHECK_INT(pass, second.len);
}

TEST(early_data_hides_no_second_hello)
{
	struct message second = named("other.test", 16384), stream = {.len = 0};
	struct tls_watch watch = {.has_early_data = true};
	struct tls_hello got;
	size_t pass;
	put(&stream,
	    "\x17\x03\x03\0\x04"
	    "data",
	    9);
	put(&stream, second.bytes, second.len);
	CHECK_INT(tls_watch(&watch, stream.bytes, 7, &pass, &got), TLS_WATCH_PASS);
	CHECK_INT(pass, 7);
	CHECK_INT(tls_watch(&watch, stream.bytes + 7, 2, &pass, &got), TLS_WATCH_PASS);
	CHECK_INT(pass, 2);
	CHECK_INT(tls_watch(&watch, stream.bytes + 9, stream.len - 9, &pass, &got),
	          TLS_WATCH_HELLO);
	CHECK_STR(got.name, "other.test");
}

TEST(the_watch_ends)
{
	struct tls_watch watch = {0};
	struct tls_hello got;
	size_t pass;
	/* TLS 1.3: encrypted; 1.2: the client's key */
	CHECK_INT(tls_watch(&watch, (const uint8_t *)"\x17\x03\x03\0\x04xxxx", 9, &pass, &got),
	          TLS_WATCH_OVER);
	CHECK_INT(tls_watch(&watch, (const uint8_t *)"\x16\x03\x03\0\x04\x10xxx", 9, &pass, &got),
	          TLS_WATCH_OVER);
}

/* The command line's small codecs: URLs, base64, SHA-1, server-sent events, keys, mounts. */
#include "cli/encode.h"

#include <errno.h>

#include "base/mem.h"
#include "base/str.h"
#include "cli/ask.h"
#include "cli/client.h"
#include "cli/output.h"
#include "cli/sse.h"
#include "cli/term.h"
#include "harness/test.h"

TEST(targets_are_escaped)
{
	auto_free char *target = client_target("/sandboxes/%s/files", "a/b ?&#%\xff");
	CHECK_STR(target, "/api/v1/sandboxes/a%2Fb%20%3F%26%23%25%FF/files");
	client_query(&target, "path", "/x y&z=1");
	client_query(&target, "user", NULL);
	client_query_u64(&target, "offset", UINT64_MAX);
	CHECK_STR(target, "/api/v1/sandboxes/a%2Fb%20%3F%26%23%25%FF/files?path=/x%20y%26z%3D1"
	                  "&offset=18446744073709551615");
}

TEST(base64_both_ways)
{
	static const char *const texts[][2] = {
		{"", ""},        {"f", "Zg=="},        {"fo", "Zm8="},
		{"foo", "Zm9v"}, {"foob", "Zm9vYg=="}, {"\xff\xfe", "//4="}};
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		struct buf buf;
		uint8_t back[16];
		buf_init(&buf, 64);
		CHECK_INT(encode_base64(&buf, texts[i][0], strlen(texts[i][0])), 0);
		auto_free char *text = buf_take_string(&buf);
		CHECK_STR(text, texts[i][1]);
		CHECK_INT(encode_from_base64(text, strlen(text), back), strlen(texts[i][0]));
		CHECK_MEM(back, texts[i][0], strlen(texts[i][0]));
		buf_done(&buf);
	}
}

TEST(bad_base64_is_refused)
{
	static const char *const bad[] = {"a",    "ab",   "abc",      "ab=c", "=abc",
	                                  "a===", "ab c", "ab==abcd", "a-b_"};
	uint8_t out[16];
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		CHECK_INT(encode_from_base64(bad[i], strlen(bad[i]), out), -EINVAL);
}

static void check_sha1(const char *text, size_t len, const char *hex)
{
	uint8_t digest[ENCODE_SHA1_BYTES];
	char shown[41];
	encode_sha1(text, len, digest);
	for (size_t i = 0; i < sizeof(digest); i++)
		(void)snprintf(shown + 2 * i, 3, "%02x", digest[i]);
	CHECK_STR(shown, hex);
}

TEST(sha1_of_known_texts)
{
	auto_free char *million = mem_zalloc(1000001);
	memset(million, 'a', 1000000);
	check_sha1("", 0, "da39a3ee5e6b4b0d3255bfef95601890afd80709");
	check_sha1("abc", 3, "a9993e364706816aba3e25717850c26c9cd0d89d");
	check_sha1("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56,
	           "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
	check_sha1(million, 1000000, "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
}

TEST(events_byte_by_byte)
{
	static const char stream[] = ": hello\n"
				     "id: 7\nevent: change\ndata: one\ndata:two\n\n"
				     "retry: 5\n\n"
				     "data\r\n\r\n"
				     "data: last, never finished\n";
	struct sse sse;
	struct sse_event event;
	size_t count = 0;
	sse_init(&sse);
	for (size_t i = 0; i + 1 < sizeof(stream); i++) {
		CHECK_INT(sse_feed(&sse, stream + i, 1), 0);
		int r = sse_next(&sse, &event);
		CHECK(r >= 0);
		if (r == 0)
			continue;
		count++;
		CHECK_STR(event.id, "7");
		CHECK_STR(event.event, count == 1 ? "change" : "message");
		CHECK_STR(event.data, count == 1 ? "one\ntwo" : "");
	}
	CHECK_INT(count, 2);
	sse_done(&sse);
}

TEST(endless_events_are_refused)
{
	struct sse sse;
	struct sse_event event;
	auto_free char *bytes = mem_zalloc(64 * 1024);
	int r = 0;
	memset(bytes, 'x', 64 * 1024);
	sse_init(&sse);
	for (int i = 0; i < 100 && r >= 0; i++) {
		r = sse_feed(&sse, bytes, 64 * 1024);
		if (r >= 0)
			r = sse_next(&sse, &event);
	}
	CHECK_INT(r, -EPROTO);
	sse_done(&sse);
	sse_init(&sse);
	CHECK_INT(sse_feed(&sse, "data: a\0b\n", 10), 0);
	CHECK_INT(sse_next(&sse, &event), -EPROTO);
	sse_done(&sse);
}

static char *filter(struct term_keys *keys, const char *typed, bool *ret_matched)
{
	uint8_t out[64 + TERM_KEYS_MAX];
	size_t len = 0;
	*ret_matched = term_keys_filter(keys, (const uint8_t *)typed, strlen(typed), out, &len);
	return mem_strndup((const char *)out, len);
}

TEST(detach_keys)
{
	struct term_keys keys;
	struct err err = {0};
	bool matched;
	CHECK_INT(term_keys_parse("ctrl-p,ctrl-q", &keys, &err), 0);
	CHECK_INT(keys.count, 2);
	auto_free char *plain = filter(&keys, "abc", &matched);
	CHECK_STR(plain, "abc");
	auto_free char *held = filter(&keys, "x\x10", &matched);
	CHECK_STR(held, "x");
	auto_free char *released = filter(&keys, "y", &matched);
	CHECK_STR(released, "\x10y");
	auto_free char *twice = filter(&keys, "\x10\x10", &matched);
	CHECK_STR(twice, "\x10");
	CHECK(!matched);
	auto_free char *left = filter(&keys, "\x11rest", &matched);
	CHECK(matched);
	CHECK_STR(left, "");
}

TEST(detach_keys_that_are_none)
{
	static const char *const bad[] = {"",       "ctrl-", "ctrl-p,",
	                                  "ctrl-1", "alt-x", "a,b,c,d,e,f,g,h,i"};
	struct term_keys keys;
	struct err err = {0};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		CHECK_INT(term_keys_parse(bad[i], &keys, &err), -1);
	CHECK_INT(term_keys_parse("none", &keys, &err), 0);
	CHECK_INT(keys.count, 0);
	bool matched;
	auto_free char *all = filter(&keys, "\x10\x11", &matched);
	CHECK(!matched);
	CHECK_STR(all, "\x10\x11");
}

TEST(mounts_as_people_write_them)
{
	struct ask_mount mount;
	struct err err = {0};
	CHECK_INT(ask_mount_parse("./src:/workspace", &mount, &err), 0);
	CHECK_STR(mount.source, "./src");
	CHECK_STR(mount.target, "/workspace");
	CHECK(mount.read_only);
	ask_mount_done(&mount);
	CHECK_INT(ask_mount_parse("/a:/b:rw", &mount, &err), 0);
	CHECK_STR(mount.target, "/b");
	CHECK(!mount.read_only);
	ask_mount_done(&mount);
	static const char *const bad[] = {"",       "/a",       ":/b",       "/a:b",
	                                  "/a:/b:", "/a:/b:rx", "/a:/b:ro:x"};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		CHECK_INT(ask_mount_parse(bad[i], &mount, &err), -1);
}

TEST(times_of_answers)
{
	CHECK_INT(output_parse_time("1970-01-01T00:00:01.500Z"), 1500);
	CHECK_INT(output_parse_time("2026-01-31T12:00:00.123Z"), INT64_C(1769860800123));
	CHECK_INT(output_parse_time(""), 0);
	CHECK_INT(output_parse_time("2026-01-31 12:00:00.123Z"), 0);
	CHECK_INT(output_parse_time("2026-01-31T12:00:00Z"), 0);
}

TEST(what_was_said_cannot_command_a_terminal)
{
	static const char *const texts[][2] = {
		{"", ""},
		{"two\n\tlines \"quoted\"\n", "two\n\tlines \"quoted\"\n"},
		{"\033[1;31mred\033[0m\033[m", "\033[1;31mred\033[0m\033[m"},
		{"\033]52;c;ZXZpbA==\a", "\\x1b]52;c;ZXZpbA==\\x07"},
		{"\033[2J\033[", "\\x1b[2J\\x1b["},
		{"a\xc2\x9b"
	         "31m\rb\x7f",
	         "a\\xc2\\x9b31m\\rb\\x7f"},
		{"caf\xc3\xa9", "caf\xc3\xa9"}};
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		auto_free char *safe = output_disarm(texts[i][0], strlen(texts[i][0]));
		CHECK_STR(safe, texts[i][1]);
	}
}

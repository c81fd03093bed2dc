/* The line records between the inside and the daemon. */
#include "wire/record.h"

#include <errno.h>

#include "base/buf.h"
#include "base/mem.h"
#include "harness/test.h"

static char *escape(const char *s)
{
	struct buf buf;
	buf_init(&buf, 4096);
	CHECK_INT(record_put_escaped(&buf, s, strlen(s)), 0);
	char *text = buf_take_string(&buf);
	buf_done(&buf);
	return text;
}

TEST(every_byte_survives_escaping)
{
	char all[256];
	for (int i = 1; i < 256; i++)
		all[i - 1] = (char)i;
	all[255] = '\0';
	auto_free char *text = escape(all);
	CHECK(strpbrk(text, "\t\n \x7f") == NULL);
	CHECK_INT(record_unescape(text), 0);
	CHECK_STR(text, all);
}

TEST(escapes_are_what_the_header_says)
{
	auto_free char *text = escape("a b%c\td/\xff\n");
	CHECK_STR(text, "a%20b%25c%09d/%FF%0A");
}

TEST(malformed_escapes_are_refused)
{
	static const char *const bad[] = {"%",   "%4",  "%4g",   "%00",
	                                  "a b", "%2f", "tab\t", "\xc3\xa9"};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		auto_free char *text = mem_strdup(bad[i]);
		CHECK_INT(record_unescape(text), -EINVAL);
	}
}

static char *stat_line(const struct record_stat *record)
{
	struct buf buf;
	buf_init(&buf, 4096);
	CHECK_INT(record_put_stat(&buf, record), 0);
	char *text = buf_take_string(&buf);
	buf_done(&buf);
	size_t len = strlen(text);
	CHECK(len > 0 && text[len - 1] == '\n');
	text[len - 1] = '\0';
	return text;
}

TEST(stat_record_round_trip)
{
	const struct record_stat in = {.type = RECORD_SYMLINK,
	                               .mode = 01777,
	                               .size = UINT64_MAX,
	                               .uid = 1000,
	                               .gid = 60999,
	                               .mtime_ms = -5,
	                               .links = 2,
	                               .inode = 77,
	                               .name = "new\nline\tand space",
	                               .target = "../%x"};
	auto_free char *line = stat_line(&in);
	struct record_stat out;
	CHECK(strchr(line, '\n') == NULL);
	CHECK_INT(record_parse_stat(line, &out), 0);
	CHECK_INT(out.type, in.type);
	CHECK_INT(out.mode, in.mode);
	CHECK(out.size == in.size);
	CHECK_INT(out.mtime_ms, -5);
	CHECK_STR(out.name, in.name);
	CHECK_STR(out.target, in.target);
}

TEST(stat_record_with_an_empty_target)
{
	const struct record_stat in = {.type = RECORD_FILE, .name = "f"};
	auto_free char *line = stat_line(&in);
	struct record_stat out;
	CHECK_INT(record_parse_stat(line, &out), 0);
	CHECK_STR(out.target, "");
}

TEST(hostile_stat_records_are_refused)
{
	static const char *const bad[] = {
		"",
		"file",
		"file\t1\t0644\t0\t0\t0\t1\t1\tname",
		"file\t1\t0644\t0\t0\t0\t1\t1\tname\t\t",
		"what\t1\t0644\t0\t0\t0\t1\t1\tname\t",
		"file\t-1\t0644\t0\t0\t0\t1\t1\tname\t",
		"file\t1\t0999\t0\t0\t0\t1\t1\tname\t",
		"file\t1\t00644\t0\t0\t0\t1\t1\tname\t",
		"file\t99999999999999999999\t0644\t0\t0\t0\t1\t1\tname\t",
		"file\t1\t0644\t0\t0\t--1\t1\t1\tname\t",
		"file\t1\t0644\t0\t0\t0\t1\t1\tna%0\t",
	};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		auto_free char *line = mem_strdup(bad[i]);
		struct record_stat out;
		CHECK_INT(record_parse_stat(line, &out), -EINVAL);
	}
}

TEST(change_record_round_trip)
{
	const struct record_change in = {
		.kind = RECORD_CHANGE_MOVED_TO, .is_dir = true, .name = "a/b c"};
	struct buf buf;
	buf_init(&buf, 4096);
	CHECK_INT(record_put_change(&buf, &in), 0);
	auto_free char *line = buf_take_string(&buf);
	buf_done(&buf);
	CHECK_STR(line, "moved_to\tdir\ta/b%20c\n");
	line[strlen(line) - 1] = '\0';
	struct record_change out;
	CHECK_INT(record_parse_change(line, &out), 0);
	CHECK_INT(out.kind, in.kind);
	CHECK(out.is_dir);
	CHECK_STR(out.name, "a/b c");
}

TEST(a_full_buffer_is_told)
{
	struct buf buf;
	buf_init(&buf, 8);
	const struct record_stat in = {.type = RECORD_FILE, .name = "f"};
	CHECK_INT(record_put_stat(&buf, &in), -ENOBUFS);
	buf_done(&buf);
}

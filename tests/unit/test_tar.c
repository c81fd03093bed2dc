#include "base/tar.h"

#include <errno.h>

#include "base/limits.h"
#include "base/mem.h"
#include "base/str.h"
#include "harness/test.h"

enum { ARCHIVE_MAX = 1 << 20 };

static void put(struct buf *out, const struct tar_entry *entry, const char *content)
{
	CHECK_INT(tar_put_entry(out, entry), 0);
	if (content) {
		CHECK_INT(buf_puts(out, content), 0);
		CHECK_INT(tar_put_padding(out, strlen(content)), 0);
	}
}

/* A line per entry: type, name, target, size, mode, time, content. */
static int list(const uint8_t *bytes, size_t len, size_t piece, struct buf *out)
{
	struct tar_reader reader;
	tar_reader_init(&reader);
	int r = 0;
	while (len > 0 && r >= 0) {
		const uint8_t *at = bytes;
		size_t left = MIN(piece, len);
		bytes += left;
		len -= left;
		for (;;) {
			const uint8_t *content = NULL;
			size_t content_len = 0;
			const struct tar_entry *entry = &reader.entry;
			r = tar_read(&reader, &at, &left, &content, &content_len);
			if (r < 0 || r == TAR_MORE || r == TAR_END)
				break;
			int put_r = 0;
			if (r == TAR_ENTRY)
				put_r = buf_printf(out, "%d %s -> %s %llu %o %lld.%09u ",
				                   entry->type, entry->name,
				                   entry->target ? entry->target : "",
				                   (unsigned long long)entry->size, entry->mode,
				                   (long long)entry->mtime_s, entry->mtime_ns);
			else if (r == TAR_CONTENT)
				put_r = buf_put(out, content, content_len);
			else
				put_r = buf_puts(out, "\n");
			CHECK_INT(put_r, 0);
		}
	}
	if (r >= 0)
		r = tar_reader_finish(&reader);
	tar_reader_done(&reader);
	return r;
}

static void check_list(const struct buf *archive, const char *wanted)
{
	static const size_t pieces[] = {1, 7, 511, 512, 513, ARCHIVE_MAX};
	for (size_t i = 0; i < ARRAY_LEN(pieces); i++) {
		struct buf out;
		buf_init(&out, ARCHIVE_MAX);
		CHECK_INT(list(buf_head(archive), buf_len(archive), pieces[i], &out), 0);
		auto_free char *text = buf_take_string(&out);
		CHECK_STR(text, wanted);
		buf_done(&out);
	}
}

static int list_result(const struct buf *archive)
{
	struct buf out;
	buf_init(&out, ARCHIVE_MAX);
	int r = list(buf_head(archive), buf_len(archive), ARCHIVE_MAX, &out);
	buf_done(&out);
	return r;
}

TEST(all_kinds_survive_the_way)
{
	struct buf archive;
	buf_init(&archive, ARCHIVE_MAX);
	put(&archive, &(struct tar_entry){.type = TAR_DIR, .name = "d", .mode = 0755, .mtime_s = 5},
	    NULL);
	put(&archive, &(struct tar_entry){.type = TAR_FILE, .name = "d/f", .mode = 0640, .size = 5},
	    "hello");
	put(&archive, &(struct tar_entry){.type = TAR_FILE, .name = "empty", .size = 0}, "");
	put(&archive,
	    &(struct tar_entry){.type = TAR_SYMLINK, .name = "l", .target = "../x", .mode = 0777},
	    NULL);
	put(&archive, &(struct tar_entry){.type = TAR_HARDLINK, .name = "h", .target = "d/f"},
	    NULL);
	CHECK_INT(tar_put_end(&archive), 0);
	CHECK_INT(buf_len(&archive) % TAR_BLOCK, 0);
	check_list(&archive, "1 d/ ->  0 755 5.000000000 \n"
	                     "0 d/f ->  5 640 0.000000000 hello\n"
	                     "0 empty ->  0 0 0.000000000 \n"
	                     "2 l -> ../x 0 777 0.000000000 \n"
	                     "3 h -> d/f 0 0 0.000000000 \n");
	buf_done(&archive);
}

TEST(long_names_and_fine_times_survive)
{
	char name[300];
	char target[LIMIT_PATH_LEN + 1];
	memset(name, 'n', sizeof(name) - 1);
	memset(target, 't', sizeof(target) - 1);
	name[150] = '/';
	name[sizeof(name) - 1] = target[sizeof(target) - 1] = '\0';
	struct buf archive;
	buf_init(&archive, ARCHIVE_MAX);
	put(&archive,
	    &(struct tar_entry){.type = TAR_SYMLINK,
	                        .name = name,
	                        .target = target,
	                        .mtime_s = 7,
	                        .mtime_ns = 250},
	    NULL);
	put(&archive, &(struct tar_entry){.type = TAR_DIR, .name = "old", .mtime_s = -1}, NULL);
	put(&archive,
	    &(struct tar_entry){
		    .type = TAR_DIR, .name = "older", .mtime_s = -3, .mtime_ns = 250000000},
	    NULL);
	CHECK_INT(tar_put_end(&archive), 0);
	auto_free char *wanted = mem_printf("2 %s -> %s 0 0 7.000000250 \n"
	                                    "1 old/ ->  0 0 -1.000000000 \n"
	                                    "1 older/ ->  0 0 -3.250000000 \n",
	                                    name, target);
	check_list(&archive, wanted);
	buf_done(&archive);
}

TEST(hundred_characters_need_no_extension)
{
	char name[102];
	memset(name, 'n', sizeof(name));
	name[100] = '\0';
	struct buf archive;
	buf_init(&archive, ARCHIVE_MAX);
	put(&archive, &(struct tar_entry){.type = TAR_FILE, .name = name}, "");
	CHECK_INT(buf_len(&archive), TAR_BLOCK);
	name[100] = 'n';
	name[101] = '\0';
	put(&archive, &(struct tar_entry){.type = TAR_FILE, .name = name}, "");
	CHECK_INT(buf_len(&archive), 4 * TAR_BLOCK);
	CHECK_INT(tar_put_end(&archive), 0);
	CHECK_INT(list_result(&archive), 0);
	buf_done(&archive);
}

TEST(sizes_beyond_eight_gigabytes)
{
	struct buf archive;
	buf_init(&archive, ARCHIVE_MAX);
	struct tar_entry big = {.type = TAR_FILE,
	                        .name = "big",
	                        .size = UINT64_C(1) << 40,
	                        .uid = UINT64_C(1) << 31,
	                        .gid = UINT64_C(1) << 30};
	put(&archive, &big, NULL);
	struct tar_reader reader;
	tar_reader_init(&reader);
	const uint8_t *at = buf_head(&archive);
	size_t len = buf_len(&archive);
	const uint8_t *content = NULL;
	size_t content_len = 0;
	CHECK_INT(tar_read(&reader, &at, &len, &content, &content_len), TAR_ENTRY);
	CHECK_INT(reader.entry.size, UINT64_C(1) << 40);
	CHECK_INT(reader.entry.uid, UINT64_C(1) << 31);
	CHECK_INT(reader.entry.gid, UINT64_C(1) << 30);
	CHECK_INT(tar_read(&reader, &at, &len, &content, &content_len), TAR_MORE);
	CHECK_INT(tar_reader_finish(&reader), -EBADMSG);
	tar_reader_done(&reader);
	buf_done(&archive);
}

TEST(the_writer_refuses_what_it_cannot_say)
{
	char name[LIMIT_PATH_LEN + 2];
	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	struct buf archive;
	buf_init(&archive, ARCHIVE_MAX);
	CHECK_INT(tar_put_entry(&archive, &(struct tar_entry){.type = TAR_FILE, .name = name}),
	          -ENAMETOOLONG);
	CHECK_INT(tar_put_entry(&archive, &(struct tar_entry){.type = TAR_FILE, .name = ""}),
	          -EINVAL);
	CHECK_INT(tar_put_entry(&archive, &(struct tar_entry){.type = TAR_SYMLINK, .name = "l"}),
	          -EINVAL);
	CHECK_INT(tar_put_entry(&archive, &(struct tar_entry){.type = TAR_SPECIAL, .name = "d"}),
	          -EINVAL);
	CHECK_INT(buf_len(&archive), 0);
	buf_done(&archive);
	buf_init(&archive, 1000);
	CHECK_INT(tar_put_entry(&archive,
	                        &(struct tar_entry){.type = TAR_FILE, .name = "n", .mtime_ns = 1}),
	          -ENOBUFS);
	CHECK_INT(buf_len(&archive), 0);
	buf_done(&archive);
}

/* --- archives made by hand --- */

static void set_sum(uint8_t *block)
{
	unsigned sum = 0;
	memset(block + 148, ' ', 8);
	for (size_t i = 0; i < TAR_BLOCK; i++)
		sum += block[i];
	(void)snprintf((char *)block + 148, 8, "%06o", sum);
}

static void put_raw(struct buf *out, const char *name, char type, const char *content, size_t len)
{
	uint8_t block[TAR_BLOCK] = {0};
	(void)snprintf((char *)block, 100, "%s", name);
	(void)snprintf((char *)block + 100, 8, "%07o", 0644);
	(void)snprintf((char *)block + 124, 12, "%011zo", len);
	block[156] = (uint8_t)type;
	memcpy(block + 257, "ustar  ", 8);
	set_sum(block);
	CHECK_INT(buf_put(out, block, sizeof(block)), 0);
	CHECK_INT(buf_put(out, content, len), 0);
	CHECK_INT(tar_put_padding(out, len), 0);
}

TEST(gnu_long_names_are_read)
{
	char name[301];
	memset(name, 'g', 300);
	name[300] = '\0';
	struct buf archive;
	buf_init(&archive, ARCHIVE_MAX);
	put_raw(&archive, "././@LongLink", 'L', name, 301);
	put_raw(&archive, "././@LongLink", 'K', "target", 7);
	put_raw(&archive, "cut", '2', "", 0);
	put_raw(&archive, "next", '0', "x", 1);
	CHECK_INT(tar_put_end(&archive), 0);
	auto_free char *wanted = mem_printf(
		"2 %s -> target 0 644 0.000000000 \n0 next ->  1 644 0.000000000 x\n", name);
	check_list(&archive, wanted);
	buf_done(&archive);
}

TEST(old_and_odd_headers_are_read)
{
	struct buf archive;
	buf_init(&archive, ARCHIVE_MAX);
	uint8_t block[TAR_BLOCK] = {0};
	/* before POSIX: no magic, a directory is a file whose name ends with a slash */
	memcpy(block, "old/", 4);
	set_sum(block);
	CHECK_INT(buf_put(&archive, block, sizeof(block)), 0);
	/* ustar with a prefix, base-256 size, numbers with leading blanks */
	memset(block, 0, sizeof(block));
	memcpy(block, "name", 4);
	memcpy(block + 100, "   644 ", 7);
	block[124] = 0x80;
	block[135] = 3;
	block[136] = 0xff;
	memset(block + 137, 0xff, 11);
	block[156] = '0';
	memcpy(block + 257, "ustar\00000", 8);
	memcpy(block + 345, "some/prefix", 11);
	set_sum(block);
	CHECK_INT(buf_put(&archive, block, sizeof(block)), 0);
	CHECK_INT(buf_puts(&archive, "abc"), 0);
	CHECK_INT(tar_put_padding(&archive, 3), 0);
	CHECK_INT(tar_put_end(&archive), 0);
	check_list(&archive, "1 old/ ->  0 0 0.000000000 \n"
	                     "0 some/prefix/name ->  3 644 -1.000000000 abc\n");
	buf_done(&archive);
}

TEST(notes_about_the_archive_are_ignored)
{
	struct buf archive;
	buf_init(&archive, ARCHIVE_MAX);
	put_raw(&archive, "pax_global_header", 'g', "16 comment=abcd\n", 16);
	put_raw(&archive, "x", 'x', "11 other=1\n10 mtime=\n", 21);
	put_raw(&archive, "f", '0', "1", 1);
	put_raw(&archive, "x", 'x', "", 0);
	put_raw(&archive, "g", '7', "2", 1);
	CHECK_INT(tar_put_end(&archive), 0);
	CHECK_INT(buf_puts(&archive, "what follows the end is not looked at"), 0);
	check_list(&archive, "0 f ->  1 644 0.000000000 1\n0 g ->  1 644 0.000000000 2\n");
	buf_done(&archive);
}

TEST(devices_and_unknown_kinds_are_told_apart)
{
	struct buf archive;
	buf_init(&archive, ARCHIVE_MAX);
	put_raw(&archive, "c", '3', "", 0);
	put_raw(&archive, "b", '4', "", 0);
	put_raw(&archive, "p", '6', "", 0);
	put_raw(&archive, "s", 'S', "x", 1);
	put_raw(&archive, "x", 'x', "22 GNU.sparse.major=1\n", 22);
	put_raw(&archive, "t", '0', "y", 1);
	CHECK_INT(tar_put_end(&archive), 0);
	check_list(&archive, "4 c ->  0 644 0.000000000 \n"
	                     "4 b ->  0 644 0.000000000 \n"
	                     "4 p ->  0 644 0.000000000 \n"
	                     "5 s ->  1 644 0.000000000 x\n"
	                     "5 t ->  1 644 0.000000000 y\n");
	buf_done(&archive);
}

static void check_bad_note(const char *text, int wanted)
{
	struct buf archive;
	buf_init(&archive, ARCHIVE_MAX);
	put_raw(&archive, "x", 'x', text, strlen(text));
	put_raw(&archive, "f", '0', "", 0);
	CHECK_INT(tar_put_end(&archive), 0);
	CHECK_INT(list_result(&archive), wanted);
	buf_done(&archive);
}

TEST(malformed_notes_are_refused)
{
	check_bad_note("11 path=ab\n", 0);
	static const char *const bad[] = {
		"11 path=ab",
		"12 path=ab\n",
		"10 path=ab\n",
		"path=ab\n",
		" 11 path=ab\n",
		"0 path=ab\n",
		"99999999 path=ab\n",
		"4 =\n",
		"5 a=\n\n",
		"9 pathab\n",
		"-1 path=ab\n",
		"11 size=-1\n",
		"11 size=0x\n",
		"12 mtime=1-\n",
		"12 mtime=.5\n",
		"10 mtime=-\n",
		"30 size=9223372036854775808\n",
		"29 size=99999999999999999999\n",
	};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		check_bad_note(bad[i], -EBADMSG);
}

TEST(names_are_bounded)
{
	auto_free char *text = mem_zalloc(300000);
	memset(text, 'a', 299999);
	struct buf archive;
	buf_init(&archive, ARCHIVE_MAX);
	put_raw(&archive, "L", 'L', text, LIMIT_PATH_LEN + 1);
	put_raw(&archive, "f", '0', "", 0);
	CHECK_INT(list_result(&archive), -ENAMETOOLONG);
	buf_reset(&archive);
	put_raw(&archive, "L", 'L', text, 299999);
	CHECK_INT(list_result(&archive), -EFBIG);
	buf_reset(&archive);
	put_raw(&archive, "x", 'x', "12 path=a\0b\n", 12);
	put_raw(&archive, "f", '0', "", 0);
	CHECK_INT(list_result(&archive), -EBADMSG);
	buf_done(&archive);
}

TEST(damage_is_noticed)
{
	struct buf archive;
	buf_init(&archive, ARCHIVE_MAX);
	put_raw(&archive, "f", '0', "content", 7);
	CHECK_INT(list_result(&archive), -EBADMSG); /* no end mark */
	CHECK_INT(tar_put_end(&archive), 0);
	CHECK_INT(list_result(&archive), 0);
	archive.bytes[archive.start]++;
	CHECK_INT(list_result(&archive), -EBADMSG);
	buf_done(&archive);
	buf_init(&archive, ARCHIVE_MAX);
	CHECK_INT(buf_puts(&archive, "this is no archive"), 0);
	CHECK_INT(list_result(&archive), -EBADMSG);
	put_raw(&archive, "", '0', "", 0);
	buf_done(&archive);
}

static void check_bad_header(size_t at, const void *bytes, size_t len)
{
	uint8_t block[TAR_BLOCK] = "name";
	struct buf archive;
	buf_init(&archive, ARCHIVE_MAX);
	block[156] = '0';
	memcpy(block + at, bytes, len);
	set_sum(block);
	CHECK_INT(buf_put(&archive, block, sizeof(block)), 0);
	CHECK_INT(tar_put_end(&archive), 0);
	CHECK_INT(list_result(&archive), -EBADMSG);
	buf_done(&archive);
}

TEST(malformed_headers_are_refused)
{
	check_bad_header(0, "\0\0\0\0", 4); /* no name */
	check_bad_header(100, "8", 1);      /* not octal */
	check_bad_header(124, "1 2", 3);    /* two numbers */
	check_bad_header(124, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 12); /* -1 */
	check_bad_header(124, "\x80\0\0\1\0\0\0\0\0\0\0\0", 12);                       /* 2^64 */
	check_bad_header(124, "\x80\0\0\0\x80\0\0\0\0\0\0\0", 12);                     /* 2^63 */
	check_bad_header(108, "-1", 2); /* negative owner */
	check_bad_header(156, "2", 1);  /* link without target */
	check_bad_header(156, "1", 1);
}

TEST(clean_names)
{
	static const struct {
		const char *name, *wanted;
	} rows[] = {
		{"a", "a"},     {"a/b", "a/b"}, {"./a//b/", "a/b"}, {".", ""},
		{"./", ""},     {"././.", ""},  {"a/./b", "a/b"},   {"..a/b..", "..a/b.."},
		{"...", "..."}, {"a/", "a"},    {"", ""},
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char out[32] = "?";
		CHECK_INT(tar_clean_name(rows[i].name, out, sizeof(out)), 0);
		CHECK_STR(out, rows[i].wanted);
	}
	static const char *const bad[] = {"/", "/a", "..", "../a", "a/..", "a/../b", "./..", "//a"};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		char out[32];
		CHECK_INT(tar_clean_name(bad[i], out, sizeof(out)), -EINVAL);
	}
	char out[4];
	CHECK_INT(tar_clean_name("abcd", out, sizeof(out)), -ENAMETOOLONG);
	CHECK_INT(tar_clean_name("a/bc", out, sizeof(out)), -ENAMETOOLONG);
	char part[400];
	char room[500];
	memset(part, 'a', 256);
	part[256] = '\0';
	CHECK_INT(tar_clean_name(part, room, sizeof(room)), -ENAMETOOLONG);
}

TEST_WITHIN(every_changed_byte_is_survived, 120)
{
	struct buf archive;
	buf_init(&archive, ARCHIVE_MAX);
	put_raw(&archive, "x", 'x', "11 path=ab\n14 mtime=1.25\n11 size=1\n", 36);
	put_raw(&archive, "f", '0', "1", 1);
	put_raw(&archive, "L", 'L', "name", 5);
	put_raw(&archive, "d", '5', "", 0);
	CHECK_INT(tar_put_end(&archive), 0);
	uint8_t *bytes = archive.bytes + archive.start;
	static const uint8_t values[] = {0, 1, '0', '7', '9', ' ', 'x', 'L', 0x7f, 0x80, 0xff};
	for (size_t i = 0; i < buf_len(&archive); i++) {
		uint8_t old = bytes[i];
		uint8_t *block = bytes + i / TAR_BLOCK * TAR_BLOCK;
		uint8_t saved[TAR_BLOCK];
		memcpy(saved, block, TAR_BLOCK);
		for (size_t j = 0; j < ARRAY_LEN(values); j++) {
			bytes[i] = values[j];
			(void)list_result(&archive);
			set_sum(block); /* past the checksum, too */
			(void)list_result(&archive);
			memcpy(block, saved, TAR_BLOCK);
		}
		CHECK_INT(bytes[i], old);
	}
	buf_done(&archive);
}

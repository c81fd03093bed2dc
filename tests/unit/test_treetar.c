#include "os/treetar.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/tar.h"
#include "harness/test.h"

enum { ARCHIVE_MAX = 64 << 20 };

static const struct treetar_options roomy = {.max_bytes = ARCHIVE_MAX, .max_entries = 10000};

static int append(void *ctx, const void *bytes, size_t len)
{
	return buf_put(ctx, bytes, len);
}

static int make_dir(int dir_fd, const char *name)
{
	CHECK_INT(mkdirat(dir_fd, name, 0755), 0);
	int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(fd >= 0);
	return fd;
}

static void write_file(int dir_fd, const char *name, const char *text, mode_t mode)
{
	auto_close int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	CHECK(fd >= 0);
	CHECK_INT(io_write_all(fd, text, strlen(text)), 0);
	CHECK_INT(fchmod(fd, mode), 0);
}

static void check_file(int dir_fd, const char *name, const char *wanted)
{
	auto_free char *text = NULL;
	CHECK_INT(io_read_file(dir_fd, name, 1 << 20, &text, NULL), 0);
	CHECK_STR(text, wanted);
}

static mode_t mode_of(int dir_fd, const char *name)
{
	struct stat st;
	CHECK_INT(fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW), 0);
	return st.st_mode & 07777;
}

static bool exists(int dir_fd, const char *name)
{
	struct stat st;
	return fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static void pack(int dir_fd, const char *name, const char *as, struct buf *archive)
{
	struct treetar_pack job = {
		.dir_fd = dir_fd, .name = name, .as = as, .write = append, .ctx = archive};
	CHECK_INT(treetar_pack(&job), 0);
}

static int unpack(int dir_fd, const struct treetar_options *options, const struct buf *archive,
                  size_t piece)
{
	auto_(treetar_unpack_freep) struct treetar_unpack *job = NULL;
	int r = treetar_unpack_new(dir_fd, options, &job);
	const uint8_t *at = buf_head(archive);
	for (size_t left = buf_len(archive); r == 0 && left > 0;) {
		size_t n = MIN(left, piece);
		r = treetar_unpack_feed(job, at, n);
		at += n;
		left -= n;
	}
	return r < 0 ? r : treetar_unpack_finish(job);
}

TEST(a_tree_goes_there_and_back)
{
	auto_close int top = test_dir_fd();
	auto_close int from = make_dir(top, "from");
	auto_close int sub = make_dir(from, "sub");
	auto_close int to = make_dir(top, "to");
	write_file(from, "script", "#!/bin/sh\n", 0755);
	write_file(sub, "private", "x", 0600);
	write_file(sub, "empty", "", 0644);
	CHECK_INT(symlinkat("../script", sub, "link"), 0);
	CHECK_INT(linkat(from, "script", sub, "same", 0), 0);
	CHECK_INT(mkfifoat(sub, "fifo", 0600), 0);
	const struct timespec times[2] = {{.tv_sec = 1}, {.tv_sec = 1234567890, .tv_nsec = 5000}};
	CHECK_INT(utimensat(sub, "private", times, 0), 0);
	CHECK_INT(fchmod(sub, 0500), 0);
	CHECK_INT(futimens(sub, times), 0);

	struct buf archive;
	buf_init(&archive, ARCHIVE_MAX);
	struct treetar_pack job = {
		.dir_fd = top, .name = "from", .as = "", .write = append, .ctx = &archive};
	CHECK_INT(treetar_pack(&job), 0);
	CHECK_INT(job.entries, 6);
	CHECK_INT(job.skipped, 1);
	static const size_t pieces[] = {1, 1000, ARCHIVE_MAX};
	for (size_t i = 0; i < ARRAY_LEN(pieces); i++) {
		char name[8];
		struct stat st;
		struct stat other;
		(void)snprintf(name, sizeof(name), "%zu", i);
		auto_close int into = make_dir(to, name);
		CHECK_INT(unpack(into, &roomy, &archive, pieces[i]), 0);
		check_file(into, "script", "#!/bin/sh\n");
		CHECK_INT(mode_of(into, "script"), 0755);
		CHECK_INT(mode_of(into, "sub"), 0500);
		CHECK_INT(mode_of(into, "sub/private"), 0600);
		check_file(into, "sub/empty", "");
		char target[32] = "";
		CHECK_INT(readlinkat(into, "sub/link", target, sizeof(target)), 9);
		CHECK_STR(target, "../script");
		CHECK_INT(fstatat(into, "sub/same", &st, 0), 0);
		CHECK_INT(fstatat(into, "script", &other, 0), 0);
		CHECK_INT(st.st_ino, other.st_ino);
		CHECK(!exists(into, "sub/fifo"));
		CHECK_INT(fstatat(into, "sub/private", &st, 0), 0);
		CHECK_INT(st.st_mtim.tv_sec, 1234567890);
		CHECK_INT(st.st_mtim.tv_nsec, 5000);
		CHECK_INT(fstatat(into, "sub", &st, 0), 0);
		CHECK_INT(st.st_mtim.tv_sec, 1234567890);
	}
	buf_done(&archive);
}

TEST(one_file_gets_the_name_it_is_given)
{
	auto_close int top = test_dir_fd();
	auto_close int to = make_dir(top, "to");
	write_file(top, "f", "text", 0644);
	struct buf archive;
	buf_init(&archive, ARCHIVE_MAX);
	pack(top, "f", "g", &archive);
	CHECK_INT(unpack(to, &roomy, &archive, 512), 0);
	check_file(to, "g", "text");
	struct treetar_options renamed = roomy;
	renamed.top = "h";
	CHECK_INT(unpack(to, &renamed, &archive, 512), 0);
	check_file(to, "h", "text");
	buf_done(&archive);
}

TEST(a_folder_can_be_renamed_on_the_way)
{
	auto_close int top = test_dir_fd();
	auto_close int from = make_dir(top, "from");
	auto_close int to = make_dir(top, "to");
	write_file(from, "a", "1", 0644);
	CHECK_INT(linkat(from, "a", from, "b", 0), 0);
	struct buf archive;
	buf_init(&archive, ARCHIVE_MAX);
	pack(top, "from", "from", &archive);
	struct treetar_options renamed = roomy;
	renamed.top = "new";
	CHECK_INT(unpack(to, &renamed, &archive, ARCHIVE_MAX), 0);
	check_file(to, "new/a", "1");
	check_file(to, "new/b", "1");
	static const char *const bad[] = {"..", "a/b", "/a", "", "."};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		renamed.top = bad[i];
		CHECK_INT(unpack(to, &renamed, &archive, ARCHIVE_MAX), -EINVAL);
	}
	buf_done(&archive);
}

TEST(large_files_stream)
{
	enum { SIZE = 5 << 20 };
	auto_close int top = test_dir_fd();
	auto_close int to = make_dir(top, "to");
	auto_free char *text = mem_zalloc(SIZE + 1);
	for (size_t i = 0; i < SIZE; i++)
		text[i] = (char)('a' + i % 26);
	write_file(top, "big", text, 0644);
	struct buf archive;
	buf_init(&archive, ARCHIVE_MAX);
	pack(top, "big", "big", &archive);
	CHECK_INT(unpack(to, &roomy, &archive, 65536), 0);
	auto_free char *got = NULL;
	size_t len = 0;
	CHECK_INT(io_read_file(to, "big", SIZE, &got, &len), 0);
	CHECK_INT(len, SIZE);
	CHECK_MEM(got, text, SIZE);
	buf_done(&archive);
}

TEST(packing_follows_no_link)
{
	auto_close int top = test_dir_fd();
	auto_close int from = make_dir(top, "from");
	CHECK_INT(symlinkat("/etc", from, "etc"), 0);
	CHECK_INT(symlinkat("from", top, "link"), 0);
	struct buf archive;
	buf_init(&archive, ARCHIVE_MAX);
	pack(top, "from", "x", &archive);
	CHECK_INT(buf_len(&archive) / TAR_BLOCK <= 8, 1);
	struct treetar_pack job = {
		.dir_fd = top, .name = "link", .as = "", .write = append, .ctx = &archive};
	CHECK_INT(treetar_pack(&job), -ENOTDIR);
	job.name = "missing";
	CHECK_INT(treetar_pack(&job), -ENOENT);
	buf_done(&archive);
}

TEST(packing_stops_when_the_writer_fails)
{
	auto_close int top = test_dir_fd();
	auto_close int from = make_dir(top, "from");
	auto_close int sub = make_dir(from, "sub");
	write_file(sub, "f", "text", 0644);
	struct buf archive;
	buf_init(&archive, 600);
	struct treetar_pack job = {
		.dir_fd = top, .name = "from", .as = "", .write = append, .ctx = &archive};
	CHECK_INT(treetar_pack(&job), -ENOBUFS);
	buf_done(&archive);
}

TEST(packing_has_a_floor)
{
	auto_close int top = test_dir_fd();
	int fd = make_dir(top, "d");
	for (int i = 0; i < 210; i++) {
		int next = make_dir(fd, "d");
		(void)close(fd);
		fd = next;
	}
	(void)close(fd);
	struct buf archive;
	buf_init(&archive, ARCHIVE_MAX);
	struct treetar_pack job = {
		.dir_fd = top, .name = "d", .as = "", .write = append, .ctx = &archive};
	CHECK_INT(treetar_pack(&job), -ELOOP);
	CHECK_HAS(job.where, "d/d/d/d");
	buf_done(&archive);
}

/* --- hostile archives --- */

struct item {
	enum tar_type type;
	const char *name, *target, *content;
	uint32_t mode;
};

static void build(struct buf *archive, const struct item *items, size_t count)
{
	buf_init(archive, ARCHIVE_MAX);
	for (size_t i = 0; i < count; i++) {
		struct tar_entry entry = {
			.type = items[i].type,
			.name = items[i].name,
			.target = items[i].target,
			.mode = items[i].mode ? items[i].mode : 0755,
			.size = items[i].content ? strlen(items[i].content) : 0,
		};
		CHECK_INT(tar_put_entry(archive, &entry), 0);
		if (items[i].content) {
			CHECK_INT(buf_puts(archive, items[i].content), 0);
			CHECK_INT(tar_put_padding(archive, entry.size), 0);
		}
	}
	CHECK_INT(tar_put_end(archive), 0);
}

/* Unpacks into test_dir/in, next to a canary, and gives back the result. */
#define UNPACK(...)                                                                                \
	({                                                                                         \
		const struct item items_[] = {__VA_ARGS__};                                        \
		unpack_items(items_, ARRAY_LEN(items_));                                           \
	})

static int unpack_items(const struct item *items, size_t count)
{
	auto_close int top = test_dir_fd();
	if (!exists(top, "in")) {
		(void)close(make_dir(top, "in"));
		write_file(top, "canary", "alive", 0600);
	}
	auto_close int in = openat(top, "in", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct buf archive;
	build(&archive, items, count);
	int r = unpack(in, &roomy, &archive, 700);
	buf_done(&archive);
	check_file(top, "canary", "alive");
	CHECK_INT(mode_of(top, "canary"), 0600);
	CHECK(!exists(top, "evil"));
	return r;
}

TEST(names_that_leave_are_refused)
{
	CHECK_INT(UNPACK({TAR_FILE, "../evil", NULL, "x"}), -EINVAL);
	CHECK_INT(UNPACK({TAR_FILE, "/tmp/evil", NULL, "x"}), -EINVAL);
	CHECK_INT(UNPACK({TAR_FILE, "a/../../evil", NULL, "x"}), -EINVAL);
	CHECK_INT(UNPACK({TAR_DIR, "..", NULL, NULL}), -EINVAL);
	CHECK_INT(UNPACK({TAR_SYMLINK, "../evil", "x", NULL}), -EINVAL);
	CHECK_INT(UNPACK({TAR_HARDLINK, "h", "../canary", NULL}), -EINVAL);
	CHECK_INT(UNPACK({TAR_HARDLINK, "h", "/etc/passwd", NULL}), -EINVAL);
	CHECK_INT(UNPACK({TAR_FILE, ".", NULL, "x"}), -EINVAL);
}

TEST(planted_links_are_not_walked)
{
	CHECK_INT(UNPACK({TAR_SYMLINK, "l", "..", NULL}, {TAR_FILE, "l/evil", NULL, "x"}), -ELOOP);
	CHECK_INT(UNPACK({TAR_SYMLINK, "m", "..", NULL}, {TAR_DIR, "m/evil", NULL, NULL}), -ELOOP);
	CHECK_INT(UNPACK({TAR_SYMLINK, "n", "..", NULL}, {TAR_DIR, "n", NULL, NULL}), -ELOOP);
	CHECK_INT(UNPACK({TAR_SYMLINK, "o", "../canary", NULL}, {TAR_HARDLINK, "p", "o", NULL}),
	          -EPERM);
	CHECK_INT(UNPACK({TAR_SYMLINK, "q", "..", NULL}, {TAR_HARDLINK, "r", "q/canary", NULL}),
	          -ELOOP);
	CHECK_INT(UNPACK({TAR_SYMLINK, "s", ".", NULL}, {TAR_FILE, "s/t", NULL, "x"}), -ELOOP);
}

TEST(a_file_replaces_a_link_instead_of_writing_through_it)
{
	auto_close int top = test_dir_fd();
	CHECK_INT(UNPACK({TAR_SYMLINK, "l", "../canary", NULL}, {TAR_FILE, "l", NULL, "evil"}), 0);
	check_file(top, "in/l", "evil");
}

TEST(a_file_does_not_write_through_a_hard_link)
{
	auto_close int top = test_dir_fd();
	(void)close(make_dir(top, "in"));
	write_file(top, "canary", "alive", 0600);
	CHECK_INT(linkat(top, "canary", top, "in/f", 0), 0);
	CHECK_INT(UNPACK({TAR_FILE, "f", NULL, "evil"}), 0);
	check_file(top, "in/f", "evil");
}

TEST(hard_links_lead_to_files_of_the_archive_only)
{
	auto_close int top = test_dir_fd();
	(void)close(make_dir(top, "in"));
	write_file(top, "canary", "alive", 0600);
	write_file(top, "in/before", "old", 0600);
	CHECK_INT(UNPACK({TAR_HARDLINK, "h", "before", NULL}), -EPERM);
	CHECK(!exists(top, "in/h"));
	CHECK_INT(UNPACK({TAR_HARDLINK, "h", "missing", NULL}), -EPERM);
	CHECK_INT(UNPACK({TAR_HARDLINK, "h", "nowhere/x", NULL}), -EPERM);
	CHECK_INT(UNPACK({TAR_DIR, "d", NULL, NULL}, {TAR_HARDLINK, "h", "d", NULL}), -EPERM);
	CHECK_INT(UNPACK({TAR_FILE, "a", NULL, "1"}, {TAR_HARDLINK, "a", "a", NULL}), -EPERM);
	CHECK_INT(UNPACK({TAR_FILE, "a", NULL, "1"}, {TAR_HARDLINK, "b", "./a", NULL},
	                 {TAR_HARDLINK, "b", "a", NULL}, {TAR_HARDLINK, "c", "b", NULL}),
	          0);
	struct stat st;
	CHECK_INT(fstatat(top, "in/c", &st, 0), 0);
	CHECK_INT(st.st_nlink, 3);
}

TEST(no_dangerous_bits_come_out)
{
	auto_close int top = test_dir_fd();
	CHECK_INT(UNPACK({TAR_FILE, "s", NULL, "x", 06777}, {TAR_DIR, "d", NULL, NULL, 07775}), 0);
	CHECK_INT(mode_of(top, "in/s"), 0777);
	CHECK_INT(mode_of(top, "in/d"), 0775);
}

TEST(devices_and_unknown_kinds_are_refused)
{
	static const struct {
		char type;
		int wanted;
	} rows[] = {{'3', -EPERM}, {'4', -EPERM}, {'6', -EPERM}, {'S', -ENOTSUP}, {'V', -ENOTSUP}};
	auto_close int top = test_dir_fd();
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct buf archive;
		const struct item items[] = {{TAR_FILE, "dev", NULL, ""}};
		build(&archive, items, 1);
		/* the type, and the checksum that goes with it */
		int change = rows[i].type - '0';
		archive.bytes[156] = (uint8_t)rows[i].type;
		unsigned sum = (unsigned)strtoul((char *)archive.bytes + 148, NULL, 8);
		(void)snprintf((char *)archive.bytes + 148, 7, "%06o", sum + (unsigned)change);
		CHECK_INT(unpack(top, &roomy, &archive, 512), rows[i].wanted);
		CHECK(!exists(top, "dev"));
		buf_done(&archive);
	}
}

TEST(kinds_do_not_replace_each_other_badly)
{
	auto_close int top = test_dir_fd();
	CHECK_INT(UNPACK({TAR_DIR, "d", NULL, NULL}, {TAR_FILE, "d", NULL, "x"}), -EISDIR);
	CHECK_INT(UNPACK({TAR_FILE, "f", NULL, "x"}, {TAR_FILE, "f/g", NULL, "x"}), -ENOTDIR);
	CHECK_INT(UNPACK({TAR_FILE, "f", NULL, "x"}, {TAR_DIR, "f", NULL, NULL}), -ENOTDIR);
	CHECK_INT(UNPACK({TAR_DIR, "e", NULL, NULL}, {TAR_SYMLINK, "e", "..", NULL}), -EISDIR);
	CHECK_INT(mode_of(top, "in/d") & 0700, 0700);
}

TEST(missing_folders_are_made)
{
	auto_close int top = test_dir_fd();
	CHECK_INT(UNPACK({TAR_FILE, "a/b/c/f", NULL, "x"}, {TAR_FILE, "a/b/g", NULL, "y"},
	                 {TAR_DIR, "a/b", NULL, NULL, 0711}),
	          0);
	check_file(top, "in/a/b/c/f", "x");
	CHECK_INT(mode_of(top, "in/a/b"), 0711);
}

TEST(folders_that_were_there_keep_their_mode)
{
	auto_close int top = test_dir_fd();
	(void)close(make_dir(top, "in"));
	write_file(top, "canary", "alive", 0600);
	CHECK_INT(mkdirat(top, "in/d", 0700), 0);
	CHECK_INT(UNPACK({TAR_DIR, ".", NULL, NULL, 0777}, {TAR_DIR, "d", NULL, NULL, 0777}), 0);
	CHECK_INT(mode_of(top, "in"), 0755);
	CHECK_INT(mode_of(top, "in/d"), 0700);
}

TEST(limits_hold)
{
	auto_close int top = test_dir_fd();
	auto_close int to = make_dir(top, "to");
	struct buf archive;
	const struct item items[] = {{TAR_FILE, "a", NULL, "123456"},
	                             {TAR_FILE, "b", NULL, "7890"}};
	build(&archive, items, 2);
	struct treetar_options options = {.max_bytes = 9, .max_entries = 2};
	CHECK_INT(unpack(to, &options, &archive, 512), -EFBIG);
	options = (struct treetar_options){.max_bytes = 10, .max_entries = 1};
	CHECK_INT(unpack(to, &options, &archive, 512), -E2BIG);
	options.max_entries = 2;
	CHECK_INT(unpack(to, &options, &archive, 512), 0);
	buf_done(&archive);
}

TEST(a_cut_archive_leaves_no_half_file)
{
	auto_close int top = test_dir_fd();
	auto_close int to = make_dir(top, "to");
	write_file(to, "a", "old", 0644);
	struct buf archive;
	const struct item items[] = {{TAR_FILE, "a", NULL, "new content"}};
	build(&archive, items, 1);
	archive.end = archive.start + TAR_BLOCK + 5;
	CHECK_INT(unpack(to, &roomy, &archive, 100), -EBADMSG);
	check_file(to, "a", "old");
	CHECK_INT(unlinkat(to, "a", 0), 0);
	CHECK_INT(unlinkat(top, "to", AT_REMOVEDIR), 0); /* nothing else was left in it */
	buf_done(&archive);
}

TEST(the_entry_at_fault_is_named)
{
	auto_close int top = test_dir_fd();
	struct buf archive;
	const struct item items[] = {{TAR_FILE, "fine", NULL, "1"},
	                             {TAR_FILE, "../bad", NULL, "2"}};
	build(&archive, items, 2);
	auto_(treetar_unpack_freep) struct treetar_unpack *job = NULL;
	CHECK_INT(treetar_unpack_new(top, &roomy, &job), 0);
	CHECK_STR(treetar_unpack_where(job), "");
	CHECK_INT(treetar_unpack_feed(job, buf_head(&archive), buf_len(&archive)), -EINVAL);
	CHECK_STR(treetar_unpack_where(job), "../bad");
	CHECK_INT(treetar_unpack_entries(job), 2);
	buf_done(&archive);
}

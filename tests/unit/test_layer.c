#include "worker/layer.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "harness/test.h"
#include "unit/made.h"
#include "worker/unpack.h"

/* One plain tar below the test's directory. */
struct fixture {
	struct layer_limits limits;
	struct unpack_result result;
	struct err err;
	int dir_fd;  /* destination */
	int root_fd; /* l0 below it; -1 after a failure */
};

static void set_up(struct fixture *fixture)
{
	*fixture = (struct fixture){.limits = unpack_default_limits, .root_fd = -1};
	fixture->limits.ids = made_root();
	fixture->dir_fd = test_dir_fd();
}

static void tear_down(struct fixture *fixture)
{
	unpack_done(&fixture->result);
	fd_closep(&fixture->root_fd);
	fd_closep(&fixture->dir_fd);
}

static int try_bytes(struct fixture *fixture, struct buf *bytes)
{
	int fd = made_fd(bytes);
	int r = unpack_image(fd, fixture->dir_fd, BUNDLE_TAR, &fixture->limits, &fixture->result,
	                     &fixture->err);

	fd_closep(&fd);
	buf_done(bytes);
	if (r == 0)
		fixture->root_fd =
			openat(fixture->dir_fd, "l0", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return r;
}

static void unpack_bytes(struct fixture *fixture, struct buf *bytes)
{
	if (try_bytes(fixture, bytes) < 0)
		test_fail(__FILE__, __LINE__, "refused: %s", fixture->err.msg);
}

static void unpack_entries(struct fixture *fixture, const struct made *entries, size_t count)
{
	struct buf bytes = {0};

	set_up(fixture);
	made_tar(&bytes, ARCHIVE_FILTER_NONE, entries, count);
	unpack_bytes(fixture, &bytes);
}

#define UNPACK(fixture, ...)                                                                       \
	unpack_entries(fixture, (const struct made[]){__VA_ARGS__},                                \
	               ARRAY_LEN(((const struct made[]){__VA_ARGS__})))

static void check_nothing_left(struct fixture *fixture)
{
	DIR *dir = fdopendir(dup(fixture->dir_fd));
	size_t count = 0;

	CHECK(dir != NULL);
	rewinddir(dir);
	while (readdir(dir))
		count++;
	(void)closedir(dir);
	CHECK_INT(count, 2); /* "." and ".." */
}

/* The bytes must be refused with this text in the message, and nothing may be left. */
static void check_refused(struct buf *bytes, const char *text)
{
	struct fixture fixture;

	set_up(&fixture);
	CHECK(try_bytes(&fixture, bytes) < 0);
	CHECK_HAS(fixture.err.msg, text);
	check_nothing_left(&fixture);
	tear_down(&fixture);
}

static void refuse_entries(const struct made *entries, size_t count, const char *text)
{
	struct buf bytes = {0};

	made_tar(&bytes, ARCHIVE_FILTER_NONE, entries, count);
	check_refused(&bytes, text);
}

#define REFUSED(text, ...)                                                                         \
	refuse_entries((const struct made[]){__VA_ARGS__},                                         \
	               ARRAY_LEN(((const struct made[]){__VA_ARGS__})), text)

static struct stat stat_of(const struct fixture *fixture, const char *path)
{
	struct stat st;

	if (fstatat(fixture->root_fd, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
		test_fail(__FILE__, __LINE__, "no %s", path);
	return st;
}

static void check_text(const struct fixture *fixture, const char *path, const char *wanted)
{
	char *text = made_read(fixture->root_fd, path);

	CHECK_STR(text, wanted);
	free(text);
}

static void check_xattr(const struct fixture *fixture, const char *path, const char *name,
                        const char *wanted)
{
	char value[64] = "";
	int fd = openat(fixture->root_fd, path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fgetxattr(fd, name, value, sizeof(value) - 1);

	(void)close(fd);
	if (!wanted) {
		CHECK(n < 0);
		return;
	}
	CHECK(n >= 0);
	CHECK_STR(value, wanted);
}

static bool is_whiteout(const struct fixture *fixture, const char *path)
{
	struct stat st = stat_of(fixture, path);

	return S_ISCHR(st.st_mode) && st.st_rdev == makedev(0, 0);
}

/* --- what comes out as it went in --- */

TEST(files_keep_content_mode_owner_and_time)
{
	struct fixture fixture;

	UNPACK(&fixture, {.name = "etc/", .mode = S_IFDIR | 0751, .mtime = 1000, .uid = 3},
	       {.name = "etc/motd",
	        .mode = 0640,
	        .data = "hi\n",
	        .uid = 7,
	        .gid = 9,
	        .mtime = 2000},
	       {.name = "./etc/none", .mode = 0});
	check_text(&fixture, "etc/motd", "hi\n");
	struct stat st = stat_of(&fixture, "etc/motd");
	CHECK_INT(st.st_mode, S_IFREG | 0640);
	CHECK_INT(st.st_mtim.tv_sec, 2000);
	if (fixture.limits.ids > 9) {
		CHECK_INT(st.st_uid, 7);
		CHECK_INT(st.st_gid, 9);
		CHECK_INT(stat_of(&fixture, "etc").st_uid, 3);
	}
	CHECK_INT(stat_of(&fixture, "etc").st_mode, S_IFDIR | 0751);
	CHECK_INT(stat_of(&fixture, "etc").st_mtim.tv_sec, 1000);
	CHECK_INT(stat_of(&fixture, "etc/none").st_mode, S_IFREG);
	CHECK_INT(fixture.result.counts.entries, 3);
	CHECK_INT(fixture.result.counts.bytes, 3);
	tear_down(&fixture);
}

TEST(root_entry_sets_the_layers_own_mode)
{
	struct fixture fixture;

	UNPACK(&fixture, {.name = "./", .mode = S_IFDIR | 0711, .mtime = 77}, {.name = "a"});
	CHECK_INT(stat_of(&fixture, ".").st_mode, S_IFDIR | 0711);
	CHECK_INT(stat_of(&fixture, ".").st_mtim.tv_sec, 77);
	tear_down(&fixture);
}

TEST(links_are_kept_as_they_are)
{
	struct fixture fixture;
	char target[64] = "";

	UNPACK(&fixture, {.name = "bin", .mode = S_IFLNK | 0777, .link = "usr/bin"},
	       {.name = "out", .mode = S_IFLNK | 0777, .link = "../../../etc/passwd", .mtime = 5},
	       {.name = "usr/a", .data = "x", .mode = 0644},
	       {.name = "usr/deep/b", .hard = "usr/a"}, {.name = "c", .hard = "./usr//a"});
	CHECK_INT(readlinkat(fixture.root_fd, "out", target, sizeof(target) - 1), 19);
	CHECK_STR(target, "../../../etc/passwd");
	CHECK_INT(stat_of(&fixture, "out").st_mtim.tv_sec, 5);
	CHECK_INT(stat_of(&fixture, "usr/a").st_ino, stat_of(&fixture, "usr/deep/b").st_ino);
	CHECK_INT(stat_of(&fixture, "c").st_nlink, 3);
	tear_down(&fixture);
}

TEST(parents_that_no_entry_names_are_made_and_counted)
{
	struct fixture fixture;

	UNPACK(&fixture, {.name = "a/b/c/d", .data = "x", .mode = 0600});
	CHECK_INT(stat_of(&fixture, "a/b").st_mode, S_IFDIR | 0755);
	CHECK_INT(fixture.result.counts.entries, 4);
	tear_down(&fixture);
}

TEST(long_names)
{
	struct fixture fixture;
	char component[256];
	char path[1600];

	memset(component, 'n', sizeof(component) - 1);
	component[255] = '\0';
	(void)snprintf(path, sizeof(path), "%s/%s/%s/%s/%s", component, component, component,
	               component, component);
	UNPACK(&fixture, {.name = path, .data = "far", .mode = 0600});
	check_text(&fixture, path, "far");
	tear_down(&fixture);
}

/* Composed and decomposed "é", Latin-1, a newline: four names, byte by byte. */
TEST(names_are_bytes)
{
	static const char *const names[] = {"\xc3\xa9", "e\xcc\x81", "\xe9", "a\nb",
	                                    "\xf0\x9f\x8c\xb1"};
	struct fixture fixture;
	struct buf bytes = {0};

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		made_pax(&bytes, "path", names[i], strlen(names[i]));
		made_file(&bytes, "short", names[i], strlen(names[i]));
		made_file(&bytes, names[i], "twice", 5);
		made_pax(&bytes, "path", "d/", 2);
		made_header(&bytes, "d", '5', "00000000000", NULL);
	}
	made_file(&bytes, "\xe9\xff-plain", "p", 1);
	made_pax(&bytes, "linkpath", "e\xcc\x81/\xff", 5);
	made_header(&bytes, "link", '2', "00000000000", "short");
	made_end(&bytes);
	set_up(&fixture);
	unpack_bytes(&fixture, &bytes);
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		check_text(&fixture, names[i], "twice");
	check_text(&fixture, "\xe9\xff-plain", "p");
	char target[16] = "";
	CHECK_INT(readlinkat(fixture.root_fd, "link", target, sizeof(target) - 1), 5);
	CHECK_STR(target, "e\xcc\x81/\xff");
	tear_down(&fixture);
}

TEST(every_compression)
{
	static const int filters[] = {ARCHIVE_FILTER_NONE,  ARCHIVE_FILTER_GZIP,
	                              ARCHIVE_FILTER_BZIP2, ARCHIVE_FILTER_XZ,
	                              ARCHIVE_FILTER_ZSTD,  ARCHIVE_FILTER_LZ4,
	                              ARCHIVE_FILTER_LZMA,  ARCHIVE_FILTER_COMPRESS};

	for (size_t i = 0; i < ARRAY_LEN(filters); i++) {
		struct fixture fixture;
		struct buf bytes = {0};
		const struct made entry = {.name = "file", .data = "content", .mode = 0644};

		made_tar(&bytes, filters[i], &entry, 1);
		set_up(&fixture);
		unpack_bytes(&fixture, &bytes);
		check_text(&fixture, "file", "content");
		CHECK_INT(unlinkat(fixture.root_fd, "file", 0), 0);
		CHECK_INT(unlinkat(fixture.dir_fd, "l0", AT_REMOVEDIR), 0);
		tear_down(&fixture);
	}
}

TEST(holes_stay_holes)
{
	struct fixture fixture;

	UNPACK(&fixture, {.name = "sparse", .data = "start", .size = 64 << 20, .mode = 0600});
	struct stat st = stat_of(&fixture, "sparse");
	CHECK_INT(st.st_size, 64 << 20);
	CHECK(st.st_blocks * 512 < 1 << 20);
	CHECK(fixture.result.counts.bytes < 1 << 20);
	tear_down(&fixture);
}

TEST(a_later_entry_replaces_an_earlier_one)
{
	struct fixture fixture;

	UNPACK(&fixture, {.name = "a", .data = "old", .mode = 0600},
	       {.name = "a", .data = "new", .mode = 0644},
	       {.name = "tree/x/y", .data = "gone", .mode = 0600},
	       {.name = "tree", .mode = S_IFLNK | 0777, .link = "a"},
	       {.name = "link", .mode = S_IFLNK | 0777, .link = "/etc"},
	       {.name = "link/", .mode = S_IFDIR | 0700},
	       {.name = "link/inside", .data = "in", .mode = 0600},
	       {.name = "kept/", .mode = S_IFDIR | 0700}, {.name = "kept/f", .mode = 0600},
	       {.name = "kept/", .mode = S_IFDIR | 0755});
	check_text(&fixture, "a", "new");
	CHECK(S_ISLNK(stat_of(&fixture, "tree").st_mode));
	check_text(&fixture, "link/inside", "in");
	CHECK(!made_exists(AT_FDCWD, "/etc/inside"));
	CHECK_INT(stat_of(&fixture, "kept").st_mode, S_IFDIR | 0755);
	CHECK(made_exists(fixture.root_fd, "kept/f"));
	tear_down(&fixture);
}

TEST(extended_attributes_of_users_are_kept_others_dropped)
{
	struct fixture fixture;

	UNPACK(&fixture,
	       {.name = "f",
	        .data = "x",
	        .mode = 0400,
	        .xattr = "user.note",
	        .value = "kept",
	        .uid = 5},
	       {.name = "d/", .mode = S_IFDIR | 0500, .xattr = "user.dir", .value = "too"},
	       {.name = "cap", .mode = 0755, .xattr = "security.capability", .value = "\1\2\3"},
	       {.name = "t", .mode = 0600, .xattr = "trusted.x", .value = "1"},
	       {.name = "l", .mode = S_IFLNK | 0777, .link = "f", .xattr = "user.x", .value = "1"});
	check_xattr(&fixture, "f", "user.note", "kept");
	check_xattr(&fixture, "d", "user.dir", "too");
	check_xattr(&fixture, "cap", "security.capability", NULL);
	check_xattr(&fixture, "t", "trusted.x", NULL);
	CHECK(fixture.result.counts.xattrs >= 3); /* the writer says each twice */
	tear_down(&fixture);
}

TEST(set_id_bits_go_and_devices_are_left_out)
{
	struct fixture fixture;

	UNPACK(&fixture, {.name = "su", .mode = 06755, .data = "#!"},
	       {.name = "mail/", .mode = S_IFDIR | 02775},
	       {.name = "tmp/", .mode = S_IFDIR | 01777},
	       {.name = "dev/null", .mode = S_IFCHR | 0666},
	       {.name = "dev/sda", .mode = S_IFBLK | 0660},
	       {.name = "pipe", .mode = S_IFIFO | 0622});
	CHECK_INT(stat_of(&fixture, "su").st_mode, S_IFREG | 0755);
	CHECK_INT(stat_of(&fixture, "mail").st_mode, S_IFDIR | 02775);
	CHECK_INT(stat_of(&fixture, "tmp").st_mode, S_IFDIR | 01777);
	CHECK_INT(stat_of(&fixture, "pipe").st_mode, S_IFIFO | 0622);
	CHECK(!made_exists(fixture.root_fd, "dev/null"));
	CHECK(!made_exists(fixture.root_fd, "dev/sda"));
	CHECK_INT(fixture.result.counts.devices, 2);
	CHECK_INT(fixture.result.counts.set_ids, 1);
	tear_down(&fixture);
}

TEST(owners_outside_a_small_range_become_root)
{
	struct fixture fixture;
	struct buf bytes = {0};
	const struct made entry = {.name = "f", .mode = 0600, .uid = 1000, .gid = 65535};

	set_up(&fixture);
	fixture.limits.ids = 1;
	made_tar(&bytes, ARCHIVE_FILTER_NONE, &entry, 1);
	unpack_bytes(&fixture, &bytes);
	CHECK_INT(stat_of(&fixture, "f").st_uid, 0);
	CHECK_INT(fixture.result.counts.owners, 1);
	tear_down(&fixture);
}

/* --- whiteouts --- */

TEST(whiteouts_become_what_overlayfs_reads)
{
	struct fixture fixture;

	UNPACK(&fixture, {.name = "etc/.wh.gone", .mode = 0644}, {.name = ".wh.top", .mode = 0644},
	       {.name = "var/cache/.wh..wh..opq", .mode = 0644},
	       {.name = ".wh..wh.plnk/", .mode = S_IFDIR | 0700}, {.name = ".wh..wh.aufs"});
	CHECK(is_whiteout(&fixture, "etc/gone"));
	CHECK(is_whiteout(&fixture, "top"));
	check_xattr(&fixture, "var/cache", "user.overlay.opaque", "y");
	CHECK(!made_exists(fixture.root_fd, "var/cache/.wh..wh..opq"));
	CHECK(!made_exists(fixture.root_fd, ".wh..wh.plnk"));
	tear_down(&fixture);
}

/* The same layer may hold the new thing: before the whiteout or behind it, it stays. */
TEST(whiteouts_speak_of_lower_layers_only)
{
	struct fixture fixture;

	UNPACK(&fixture, {.name = "before", .data = "1", .mode = 0600}, {.name = ".wh.before"},
	       {.name = ".wh.after"}, {.name = "after", .data = "2", .mode = 0600},
	       {.name = "dir1/f", .data = "3", .mode = 0600}, {.name = ".wh.dir1"},
	       {.name = ".wh.dir2"}, {.name = "dir2/", .mode = S_IFDIR | 0755},
	       {.name = ".wh.dir3"}, {.name = "dir3/sub/f", .data = "4", .mode = 0600});
	check_text(&fixture, "before", "1");
	check_text(&fixture, "after", "2");
	check_text(&fixture, "dir1/f", "3");
	check_text(&fixture, "dir3/sub/f", "4");
	check_xattr(&fixture, "dir1", "user.overlay.opaque", "y");
	check_xattr(&fixture, "dir2", "user.overlay.opaque", "y");
	check_xattr(&fixture, "dir3", "user.overlay.opaque", "y");
	tear_down(&fixture);
}

TEST(whiteouts_of_no_name_are_refused)
{
	REFUSED("\".wh...\" is a whiteout of no name", {.name = ".wh..."});
	REFUSED("\"a/.wh..\" is a whiteout of no name", {.name = "a/.wh.."});
	REFUSED("\".wh.\" is a whiteout of no name", {.name = ".wh."});
	REFUSED("would hide the whole root", {.name = ".wh..wh..opq"});
}

/* --- hostile entries --- */

TEST(absolute_and_climbing_names_are_refused)
{
	struct buf bytes = {0};

	made_file(&bytes, "/etc/cron.d/x", "x", 1);
	made_end(&bytes);
	check_refused(&bytes, "entry \"/etc/cron.d/x\" is absolute");
	REFUSED("entry \"../x\" has a \"..\" component", {.name = "../x", .data = "x"});
	REFUSED("has a \"..\" component", {.name = "ok"}, {.name = "a/b/../../../x"});
	REFUSED("has a \"..\" component", {.name = "a/.."});
	REFUSED("has a \"..\" component", {.name = "..", .mode = S_IFDIR | 0777});
}

TEST(names_out_of_bounds_are_refused)
{
	struct buf bytes = {0};
	struct buf deep = {.max = 8192};
	char component[257];

	memset(component, 'x', 256);
	component[256] = '\0';
	REFUSED("component longer than 255 bytes", {.name = component});
	for (int i = 0; i < 300; i++)
		CHECK_INT(buf_puts(&deep, "d/"), 0);
	made_pax(&bytes, "path", (const char *)buf_head(&deep), buf_len(&deep));
	made_header(&bytes, "short", '5', "00000000000", NULL);
	made_end(&bytes);
	check_refused(&bytes, "256 directories deep");
	buf_reset(&deep);
	for (int i = 0; i < 40; i++)
		CHECK_INT(buf_printf(&deep, "%.120s/", component), 0);
	bytes = (struct buf){0};
	made_pax(&bytes, "path", (const char *)buf_head(&deep), buf_len(&deep));
	made_header(&bytes, "short", '5', "00000000000", NULL);
	made_end(&bytes);
	check_refused(&bytes, "longer than 4095 bytes");
	buf_done(&deep);
}

TEST(nothing_is_reached_through_a_symlink)
{
	REFUSED("entry \"a/x\" would be reached through a symbolic link",
	        {.name = "a", .mode = S_IFLNK | 0777, .link = "/tmp"},
	        {.name = "a/x", .data = "x"});
	REFUSED("through a symbolic link", {.name = "d/", .mode = S_IFDIR | 0755},
	        {.name = "a", .mode = S_IFLNK | 0777, .link = "d"}, {.name = "a/x", .data = "x"});
	REFUSED("through a symbolic link",
	        {.name = "d/a", .mode = S_IFLNK | 0777, .link = "../../.."},
	        {.name = "d/a/b/c/", .mode = S_IFDIR | 0755});
	REFUSED("through a symbolic link", {.name = "a", .mode = S_IFLNK | 0777, .link = "/"},
	        {.name = "a/.wh.etc"});
	REFUSED("through a symbolic link", {.name = "a", .mode = S_IFLNK | 0777, .link = "/"},
	        {.name = "a/.wh..wh..opq"});
	REFUSED("below something that is not a directory", {.name = "f", .data = "x", .mode = 0600},
	        {.name = "f/x", .data = "x"});
}

TEST(hard_links_lead_to_earlier_regular_files_only)
{
	REFUSED("whose target is absolute", {.name = "x", .hard = "/etc/shadow"});
	REFUSED("whose target has a \"..\" component", {.name = "x", .hard = "../../etc/shadow"});
	REFUSED("no regular file before it", {.name = "x", .hard = "later"}, {.name = "later"});
	REFUSED("no regular file before it",
	        {.name = "s", .mode = S_IFLNK | 0777, .link = "/etc/shadow"},
	        {.name = "x", .hard = "s"});
	REFUSED("no regular file before it", {.name = "s", .mode = S_IFLNK | 0777, .link = "/etc"},
	        {.name = "x", .hard = "s/shadow"});
	REFUSED("no regular file before it", {.name = "d/", .mode = S_IFDIR | 0755},
	        {.name = "x", .hard = "d"});
	REFUSED("no regular file before it", {.name = ".wh.w"}, {.name = "x", .hard = "w"});
	REFUSED("hard link to itself", {.name = "x", .data = "1", .mode = 0600},
	        {.name = "./x", .hard = "x"});
}

TEST(overlay_attributes_cannot_be_forged)
{
	REFUSED("carries an overlay attribute", {.name = "d/",
	                                         .mode = S_IFDIR | 0755,
	                                         .xattr = "user.overlay.redirect",
	                                         .value = "/etc"});
	REFUSED("carries an overlay attribute",
	        {.name = "f", .mode = 0600, .xattr = "trusted.overlay.metacopy", .value = "1"});
	REFUSED("carries an overlay attribute", {.name = "l",
	                                         .mode = S_IFLNK | 0777,
	                                         .link = "x",
	                                         .xattr = "user.overlay.origin",
	                                         .value = "1"});
}

TEST(owners_above_the_range_are_refused)
{
	REFUSED("entry \"f\" has an owner above 65535", {.name = "f", .uid = 65536});
	REFUSED("entry \"g\" has an owner above 65535", {.name = "g", .gid = 0x40000000});
}

TEST(the_root_is_a_directory)
{
	struct buf bytes = {0};

	made_header(&bytes, "./", '2', "00000000000", "/etc");
	made_end(&bytes);
	check_refused(&bytes, "would replace the root");
}

/* --- caps --- */

static void refuse_within(const struct layer_limits *limits, struct buf *bytes, const char *text)
{
	struct fixture fixture;

	set_up(&fixture);
	uint32_t ids = fixture.limits.ids;
	fixture.limits = *limits;
	fixture.limits.ids = ids;
	CHECK(try_bytes(&fixture, bytes) < 0);
	CHECK_INT(fixture.err.code, ERR_TOO_LARGE);
	CHECK_HAS(fixture.err.msg, text);
	check_nothing_left(&fixture);
	tear_down(&fixture);
}

TEST(caps_name_the_entry_that_passed_them)
{
	struct layer_limits limits = unpack_default_limits;
	const struct made two[] = {{.name = "one", .data = "12345678", .mode = 0600},
	                           {.name = "two", .data = "12345678", .mode = 0600}};
	const struct made deep = {.name = "a/b/c/d/e/f", .mode = 0600};
	const struct made after[] = {deep, {.name = "last", .mode = 0600}};
	struct buf bytes = {0};

	limits.bytes = 15;
	made_tar(&bytes, ARCHIVE_FILTER_NONE, two, 2);
	refuse_within(&limits, &bytes, "entry \"two\" does not fit");
	limits = unpack_default_limits;
	limits.file_bytes = 7;
	bytes = (struct buf){0};
	made_tar(&bytes, ARCHIVE_FILTER_NONE, two, 2);
	refuse_within(&limits, &bytes, "entry \"one\" is larger");
	limits = unpack_default_limits;
	limits.entries = 1;
	bytes = (struct buf){0};
	made_tar(&bytes, ARCHIVE_FILTER_NONE, two, 2);
	refuse_within(&limits, &bytes, "entry \"two\" is one more");
	limits.entries = 6;
	bytes = (struct buf){0};
	made_tar(&bytes, ARCHIVE_FILTER_NONE, after, 2);
	refuse_within(&limits, &bytes, "entry \"last\" is one more");
}

TEST(a_terabyte_of_hole_is_refused_by_its_size)
{
	struct layer_limits limits = unpack_default_limits;
	const struct made huge = {.name = "huge", .data = "x", .size = INT64_C(1) << 40};
	struct buf bytes = {0};

	made_tar(&bytes, ARCHIVE_FILTER_NONE, &huge, 1);
	refuse_within(&limits, &bytes, "entry \"huge\" is larger than a file may be");
}

TEST(a_decompression_bomb_is_stopped)
{
	struct layer_limits limits = unpack_default_limits;
	struct buf plain = {0};
	struct buf bytes = {0};
	size_t len = 200 << 20;
	char *zeros = calloc(1, len);

	made_file(&plain, "zeros", zeros, len);
	made_packed(&bytes, ARCHIVE_FILTER_ZSTD, buf_head(&plain), buf_len(&plain));
	buf_done(&plain);
	free(zeros);
	CHECK(buf_len(&bytes) < len / 1000);
	refuse_within(&limits, &bytes, "decompression bomb");
}

TEST(compressed_twice_is_refused)
{
	struct buf once = {0};
	struct buf twice = {0};
	const struct made entry = {.name = "f", .data = "x", .mode = 0600};

	made_tar(&once, ARCHIVE_FILTER_GZIP, &entry, 1);
	made_packed(&twice, ARCHIVE_FILTER_XZ, buf_head(&once), buf_len(&once));
	buf_done(&once);
	check_refused(&twice, "compressed more than once");
}

TEST(broken_bytes_are_refused)
{
	struct buf bytes = {0};

	made_file(&bytes, "cut", "0123456789", 10);
	bytes.end -= 500;
	check_refused(&bytes, "damaged");
	bytes = (struct buf){.max = 4096};
	CHECK_INT(buf_puts(&bytes, "this is a letter, not an archive"), 0);
	check_refused(&bytes, "damaged");
	bytes = (struct buf){.max = 4096};
	check_refused(&bytes, "archive");
	bytes = (struct buf){0};
	made_end(&bytes);
	check_refused(&bytes, "the archive is empty");
	bytes = (struct buf){0};
	made_header(&bytes, "f", '0', "77777777777777", NULL);
	made_end(&bytes);
	check_refused(&bytes, "");
}

TEST(the_destination_must_be_empty)
{
	struct fixture fixture;
	struct buf bytes = {0};
	const struct made entry = {.name = "f"};

	set_up(&fixture);
	test_write_file("precious", "x", 1);
	made_tar(&bytes, ARCHIVE_FILTER_NONE, &entry, 1);
	CHECK(try_bytes(&fixture, &bytes) < 0);
	CHECK_INT(fixture.err.code, ERR_CONFLICT);
	CHECK(made_exists(fixture.dir_fd, "precious"));
	tear_down(&fixture);
}

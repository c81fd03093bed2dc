#include "unit/made.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "harness/test.h"

enum { BLOCK = 512, MOST = 512 * 1024 * 1024 };

static la_ssize_t on_write(struct archive *archive, void *ctx, const void *bytes, size_t len)
{
	CHECK_INT(buf_put(ctx, bytes, len), 0);
	return (la_ssize_t)len;
}

static void prepare(struct buf *out)
{
	if (out->max == 0)
		buf_init(out, MOST);
}

static struct archive_entry *new_entry(const struct made *made)
{
	struct archive_entry *entry = archive_entry_new();
	size_t len = made->data ? strlen(made->data) : 0;
	mode_t mode = made->mode & S_IFMT ? made->mode : S_IFREG | made->mode;

	archive_entry_copy_pathname(entry, made->name);
	archive_entry_set_mode(entry, mode);
	archive_entry_set_uid(entry, made->uid);
	archive_entry_set_gid(entry, made->gid);
	archive_entry_set_mtime(entry, made->mtime, 0);
	archive_entry_set_size(entry, S_ISREG(mode) ? MAX((int64_t)len, made->size) : 0);
	if (made->size > (int64_t)len)
		archive_entry_sparse_add_entry(entry, 0, (int64_t)len);
	if (made->link)
		archive_entry_copy_symlink(entry, made->link);
	if (made->hard) {
		archive_entry_set_size(entry, 0);
		archive_entry_copy_hardlink(entry, made->hard);
	}
	if (made->xattr)
		archive_entry_xattr_add_entry(entry, made->xattr, made->value, strlen(made->value));
	return entry;
}

void made_tar(struct buf *out, int filter, const struct made *entries, size_t count)
{
	struct archive *archive = archive_write_new();

	prepare(out);
	CHECK_INT(archive_write_set_format_pax_restricted(archive), ARCHIVE_OK);
	CHECK_INT(archive_write_add_filter(archive, filter), ARCHIVE_OK);
	CHECK_INT(archive_write_set_bytes_in_last_block(archive, 1), ARCHIVE_OK);
	CHECK_INT(archive_write_open(archive, out, NULL, on_write, NULL), ARCHIVE_OK);
	for (size_t i = 0; i < count; i++) {
		struct archive_entry *entry = new_entry(&entries[i]);
		CHECK(archive_write_header(archive, entry) >= ARCHIVE_WARN);
		if (entries[i].data) {
			size_t len = strlen(entries[i].data);
			CHECK_INT(archive_write_data(archive, entries[i].data, len), len);
		}
		archive_entry_free(entry);
	}
	CHECK_INT(archive_write_close(archive), ARCHIVE_OK);
	CHECK_INT(archive_write_free(archive), ARCHIVE_OK);
}

void made_packed(struct buf *out, int filter, const void *bytes, size_t len)
{
	struct archive *archive = archive_write_new();
	struct archive_entry *entry = archive_entry_new();

	prepare(out);
	archive_entry_set_mode(entry, S_IFREG | 0644);
	archive_entry_copy_pathname(entry, "raw");
	CHECK_INT(archive_write_set_format_raw(archive), ARCHIVE_OK);
	CHECK_INT(archive_write_add_filter(archive, filter), ARCHIVE_OK);
	CHECK_INT(archive_write_set_bytes_in_last_block(archive, 1), ARCHIVE_OK);
	CHECK_INT(archive_write_open(archive, out, NULL, on_write, NULL), ARCHIVE_OK);
	CHECK_INT(archive_write_header(archive, entry), ARCHIVE_OK);
	CHECK_INT(archive_write_data(archive, bytes, len), len);
	archive_entry_free(entry);
	CHECK_INT(archive_write_close(archive), ARCHIVE_OK);
	CHECK_INT(archive_write_free(archive), ARCHIVE_OK);
}

/* Offsets of a ustar header, POSIX.1-1988. */
void made_header(struct buf *out, const char *name, char type, const char *size, const char *link)
{
	char block[BLOCK] = {0};
	unsigned sum = 0;

	prepare(out);
	memcpy(block, name, MIN(strlen(name), (size_t)100));
	memcpy(block + 100, "0000644", 8);
	memcpy(block + 108, "0000000", 8);
	memcpy(block + 116, "0000000", 8);
	memcpy(block + 124, size, MIN(strlen(size), (size_t)12));
	memcpy(block + 136, "00000000000", 12);
	memset(block + 148, ' ', 8);
	block[156] = type;
	if (link)
		memcpy(block + 157, link, MIN(strlen(link), (size_t)100));
	memcpy(block + 257, "ustar\00000", 8);
	for (size_t i = 0; i < sizeof(block); i++)
		sum += (unsigned char)block[i];
	(void)snprintf(block + 148, 8, "%06o", sum);
	CHECK_INT(buf_put(out, block, sizeof(block)), 0);
}

void made_data(struct buf *out, const void *bytes, size_t len)
{
	static const char zeros[BLOCK];

	CHECK_INT(buf_put(out, bytes, len), 0);
	CHECK_INT(buf_put(out, zeros, (BLOCK - len % BLOCK) % BLOCK), 0);
}

void made_pax(struct buf *out, const char *key, const char *value, size_t value_len)
{
	struct buf record = {.max = 64 * 1024};
	size_t bare = strlen(key) + value_len + strlen(" =\n");
	size_t total = bare + 1;
	char size[16];

	while (total != bare + (size_t)snprintf(NULL, 0, "%zu", total))
		total = bare + (size_t)snprintf(NULL, 0, "%zu", total);
	CHECK_INT(buf_printf(&record, "%zu %s=", total, key), 0);
	CHECK_INT(buf_put(&record, value, value_len), 0);
	CHECK_INT(buf_put(&record, "\n", 1), 0);
	CHECK_INT(buf_len(&record), total);
	(void)snprintf(size, sizeof(size), "%011zo", total);
	made_header(out, "pax", 'x', size, NULL);
	made_data(out, buf_head(&record), buf_len(&record));
	buf_done(&record);
}

void made_file(struct buf *out, const char *name, const void *bytes, size_t len)
{
	char size[16];

	(void)snprintf(size, sizeof(size), "%011zo", len);
	made_header(out, name, '0', size, NULL);
	made_data(out, bytes, len);
}

void made_end(struct buf *out)
{
	static const char zeros[2 * BLOCK];

	prepare(out);
	CHECK_INT(buf_put(out, zeros, sizeof(zeros)), 0);
}

int made_fd(const struct buf *bytes)
{
	int fd = memfd_create("archive", MFD_CLOEXEC);

	CHECK(fd >= 0);
	if (buf_len(bytes) > 0)
		CHECK_INT(io_write_all(fd, buf_head(bytes), buf_len(bytes)), 0);
	return fd;
}

uint32_t made_root(void)
{
	char map[64];
	uid_t uid = geteuid();
	gid_t gid = getegid();

	if (uid == 0)
		return 65536;
	if (unshare(CLONE_NEWUSER) < 0)
		SKIP("neither root nor user namespaces: %s", strerror(errno));
	CHECK_INT(io_write_ctl(AT_FDCWD, "/proc/self/setgroups", "deny"), 0);
	(void)snprintf(map, sizeof(map), "0 %u 1", uid);
	CHECK_INT(io_write_ctl(AT_FDCWD, "/proc/self/uid_map", map), 0);
	(void)snprintf(map, sizeof(map), "0 %u 1", gid);
	CHECK_INT(io_write_ctl(AT_FDCWD, "/proc/self/gid_map", map), 0);
	return 1;
}

char *made_read(int dir_fd, const char *path)
{
	char *text = NULL;
	size_t len = 0;

	CHECK_INT(io_read_file(dir_fd, path, 1024 * 1024, &text, &len), 0);
	return text;
}

bool made_exists(int dir_fd, const char *path)
{
	struct stat st;

	return fstatat(dir_fd, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

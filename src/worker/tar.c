/*
 * A member is read through two libarchive readers: the first only decompresses (format "raw"), the
 * second only knows tar. Between them the plain bytes can be hashed, which is what an image's
 * config calls its diff_ids.
 *
 * The locale is never set in this role, on purpose: with "C", libarchive cannot convert (and
 * normalise) names, and falls back to handing them over byte by byte.
 */
#include "worker/tar.h"

#include <errno.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "worker/name.h"

enum {
	CHUNK_BYTES = 64 * 1024,
	FILE_BLOCK_BYTES = 256 * 1024,
	BOMB_ALLOWANCE_BYTES = 128 * 1024 * 1024, /* below this nobody is hurt */
	READERS = 2,                              /* the file itself and one decompressor */
};

static int (*const decompressors[])(struct archive *) = {
	archive_read_support_filter_gzip,     archive_read_support_filter_zstd,
	archive_read_support_filter_xz,       archive_read_support_filter_bzip2,
	archive_read_support_filter_lzma,     archive_read_support_filter_lz4,
	archive_read_support_filter_compress,
};

static int damaged(struct archive *archive, struct err *err)
{
	/* The text may quote the archive. */
	struct name_text why = name_show(archive_error_string(archive));

	return err_set(err, ERR_INVALID, "the archive is damaged: %s", why.text);
}

/* libarchive answers ARCHIVE_WARN when it would run a program instead: then it stays off. */
static struct archive *new_reader(bool decompresses)
{
	struct archive *archive = archive_read_new();

	if (!archive)
		return NULL;
	for (size_t i = 0; decompresses && i < ARRAY_LEN(decompressors); i++) {
		if (decompressors[i](archive) != ARCHIVE_OK) {
			(void)archive_read_free(archive); /* nothing was opened */
			return NULL;
		}
	}
	return archive;
}

static int check_ratio(const struct tar *tar, struct archive *archive, struct err *err)
{
	if (!archive)
		return 0;
	uint64_t in = (uint64_t)archive_filter_bytes(archive, -1);
	uint64_t out = (uint64_t)archive_filter_bytes(archive, 0);

	if (out <= BOMB_ALLOWANCE_BYTES || (out - BOMB_ALLOWANCE_BYTES) / tar->max_ratio <= in)
		return 0;
	return err_set(err, ERR_TOO_LARGE,
	               "the archive is a decompression bomb: %" PRIu64 " bytes became %" PRIu64, in,
	               out);
}

static int check_bomb(const struct tar *tar, struct err *err)
{
	for (; tar; tar = tar->outer) {
		if (check_ratio(tar, tar->archive, err) < 0 ||
		    check_ratio(tar, tar->plain, err) < 0)
			return -1;
	}
	return 0;
}

static int check_readers(struct archive *archive, struct err *err)
{
	if (archive_filter_count(archive) <= READERS)
		return 0;
	return err_set(err, ERR_INVALID, "the archive is compressed more than once");
}

int tar_open_file(struct tar *tar, int fd, uint64_t max_ratio, struct err *err)
{
	struct stat st;

	*tar = (struct tar){.max_ratio = MAX(max_ratio, UINT64_C(1))};
	if (fstat(fd, &st) < 0)
		return err_sys(err, errno, "look at the archive");
	if (!S_ISREG(st.st_mode))
		return err_set(err, ERR_INVALID, "the archive is not a regular file");
	if (lseek(fd, 0, SEEK_SET) < 0)
		return err_sys(err, errno, "rewind the archive");
	tar->archive = new_reader(true);
	if (!tar->archive || archive_read_support_format_tar(tar->archive) != ARCHIVE_OK)
		return err_set(err, ERR_UNAVAILABLE, "no memory to read the archive");
	if (archive_read_open_fd(tar->archive, fd, FILE_BLOCK_BYTES) != ARCHIVE_OK)
		return damaged(tar->archive, err);
	return check_readers(tar->archive, err);
}

/* Client of the decompressor: the bytes of the outer archive's current member. */
static la_ssize_t read_packed(struct archive *archive, void *ctx, const void **ret)
{
	struct tar *tar = ctx;
	la_ssize_t n = archive_read_data(tar->outer->archive, tar->chunk, CHUNK_BYTES);

	if (n < 0) {
		const char *why = archive_error_string(tar->outer->archive);
		archive_set_error(archive, EIO, "%s", why ? why : "cannot read the member");
		return -1;
	}
	digest_add(&tar->packed_state, tar->chunk, (size_t)n);
	*ret = tar->chunk;
	return n;
}

/* Client of the tar reader: what the decompressor makes of them. */
static la_ssize_t read_plain(struct archive *archive, void *ctx, const void **ret)
{
	struct tar *tar = ctx;
	size_t len = 0;
	la_int64_t offset;

	while (len == 0) {
		if (tar->has_ended)
			return 0;
		int r = archive_read_data_block(tar->plain, ret, &len, &offset);
		if (r == ARCHIVE_EOF) {
			tar->has_ended = true;
			return 0;
		}
		if (r != ARCHIVE_OK) {
			const char *why = archive_error_string(tar->plain);
			archive_set_error(archive, EIO, "%s", why ? why : "cannot decompress");
			return -1;
		}
	}
	digest_add(&tar->plain_state, *ret, len);
	return (la_ssize_t)len;
}

/* "empty" takes a member without any bytes, which "raw" refuses. */
static int open_plain(struct tar *tar, struct err *err)
{
	struct archive_entry *entry;

	tar->plain = new_reader(true);
	if (!tar->plain || archive_read_support_format_raw(tar->plain) != ARCHIVE_OK ||
	    archive_read_support_format_empty(tar->plain) != ARCHIVE_OK)
		return err_set(err, ERR_UNAVAILABLE, "no memory to read the archive");
	if (archive_read_open(tar->plain, tar, NULL, read_packed, NULL) != ARCHIVE_OK)
		return damaged(tar->plain, err);
	if (check_readers(tar->plain, err) < 0)
		return -1;
	int r = archive_read_next_header(tar->plain, &entry);
	tar->has_ended = r == ARCHIVE_EOF;
	return r == ARCHIVE_OK || r == ARCHIVE_EOF ? 0 : damaged(tar->plain, err);
}

int tar_open_member(struct tar *tar, struct tar *outer, struct err *err)
{
	*tar = (struct tar){.outer = outer, .max_ratio = outer->max_ratio};
	tar->chunk = mem_zalloc(CHUNK_BYTES);
	digest_begin(&tar->packed_state);
	digest_begin(&tar->plain_state);
	if (open_plain(tar, err) < 0)
		return -1;
	tar->archive = new_reader(false);
	if (!tar->archive || archive_read_support_format_tar(tar->archive) != ARCHIVE_OK ||
	    archive_read_support_format_empty(tar->archive) != ARCHIVE_OK)
		return err_set(err, ERR_UNAVAILABLE, "no memory to read the archive");
	if (archive_read_open(tar->archive, tar, NULL, read_plain, NULL) != ARCHIVE_OK)
		return damaged(tar->archive, err);
	return 0;
}

void tar_close(struct tar *tar)
{
	if (tar->archive)
		(void)archive_read_free(tar->archive); /* reading: nothing to lose */
	if (tar->plain)
		(void)archive_read_free(tar->plain);
	free(tar->chunk);
	*tar = (struct tar){0};
}

int tar_next(struct tar *tar, struct archive_entry **ret, struct err *err)
{
	int r = archive_read_next_header(tar->archive, ret);

	if (check_bomb(tar, err) < 0)
		return -1;
	if (r == ARCHIVE_EOF)
		return 0;
	/* A warning is about a name that is not in the locale's character set. */
	if (r == ARCHIVE_OK || r == ARCHIVE_WARN)
		return 1;
	return damaged(tar->archive, err);
}

int tar_block(struct tar *tar, const void **ret_bytes, size_t *ret_len, uint64_t *ret_offset,
              struct err *err)
{
	la_int64_t offset = 0;
	int r = archive_read_data_block(tar->archive, ret_bytes, ret_len, &offset);

	if (check_bomb(tar, err) < 0)
		return -1;
	if (r == ARCHIVE_EOF)
		return 0;
	if (r != ARCHIVE_OK || offset < 0)
		return damaged(tar->archive, err);
	*ret_offset = (uint64_t)offset;
	return 1;
}

int tar_finish(struct tar *tar, struct tar_digests *ret, struct err *err)
{
	la_ssize_t n;
	const void *bytes;

	do {
		n = read_plain(tar->archive, tar, &bytes);
		if (check_bomb(tar, err) < 0)
			return -1;
	} while (n > 0);
	if (n < 0)
		return damaged(tar->archive, err);
	do {
		n = read_packed(tar->plain, tar, &bytes);
	} while (n > 0);
	if (n < 0)
		return damaged(tar->plain, err);
	ret->packed = digest_end(&tar->packed_state);
	ret->plain = digest_end(&tar->plain_state);
	return 0;
}

/*
 * A member is read through two libarchive readers: the first only decompresses (format "raw"), the
 * second only knows tar. Between them the plain bytes can be hashed, which is what an image's
 * config calls its diff_ids.
 *
 * The locale is never set in this role, on purpose: with "C", libarchive cannot convert (and
 * normalise) names, and falls back to handing them over byte by byte.
 */
#include "worker/reader.h"

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
	FILTERS = 2,                              /* the file itself and one decompressor */
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

/* libarchive answers ARCHIVE_WARN when it would run a program instead: never. */
static struct archive *new_archive(bool decompresses)
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

static int check_ratio(const struct reader *reader, struct archive *archive, struct err *err)
{
	if (!archive)
		return 0;
	uint64_t in = (uint64_t)archive_filter_bytes(archive, -1);
	uint64_t out = (uint64_t)archive_filter_bytes(archive, 0);

	if (out <= BOMB_ALLOWANCE_BYTES || (out - BOMB_ALLOWANCE_BYTES) / reader->max_ratio <= in)
		return 0;
	return err_set(err, ERR_TOO_LARGE,
	               "the archive is a decompression bomb: %" PRIu64 " bytes became %" PRIu64, in,
	               out);
}

static int check_bomb(const struct reader *reader, struct err *err)
{
	for (; reader; reader = reader->outer) {
		if (check_ratio(reader, reader->archive, err) < 0 ||
		    check_ratio(reader, reader->plain, err) < 0)
			return -1;
	}
	return 0;
}

static int check_filters(struct archive *archive, struct err *err)
{
	if (archive_filter_count(archive) <= FILTERS)
		return 0;
	return err_set(err, ERR_INVALID, "the archive is compressed more than once");
}

int reader_open_file(struct reader *reader, int fd, uint64_t max_ratio, struct err *err)
{
	struct stat st;

	*reader = (struct reader){.max_ratio = max_ratio > 0 ? max_ratio : 1};
	if (fstat(fd, &st) < 0)
		return err_sys(err, errno, "look at the archive");
	if (!S_ISREG(st.st_mode))
		return err_set(err, ERR_INVALID, "the archive is not a regular file");
	if (lseek(fd, 0, SEEK_SET) < 0)
		return err_sys(err, errno, "rewind the archive");
	reader->archive = new_archive(true);
	if (!reader->archive || archive_read_support_format_tar(reader->archive) != ARCHIVE_OK)
		return err_set(err, ERR_UNAVAILABLE, "cannot set up reading archives");
	if (archive_read_open_fd(reader->archive, fd, FILE_BLOCK_BYTES) != ARCHIVE_OK)
		return damaged(reader->archive, err);
	return check_filters(reader->archive, err);
}

/* Client of the decompressor: the bytes of the outer archive's current member. */
static la_ssize_t read_packed(struct archive *archive, void *ctx, const void **ret)
{
	struct reader *reader = ctx;
	la_ssize_t n = archive_read_data(reader->outer->archive, reader->chunk, CHUNK_BYTES);

	if (n < 0) {
		const char *why = archive_error_string(reader->outer->archive);
		archive_set_error(archive, EIO, "%s", why ? why : "cannot read the member");
		return -1;
	}
	digest_add(&reader->packed_state, reader->chunk, (size_t)n);
	*ret = reader->chunk;
	return n;
}

/* Client of the tar reader: what the decompressor makes of them. */
static la_ssize_t read_plain(struct archive *archive, void *ctx, const void **ret)
{
	struct reader *reader = ctx;
	size_t len = 0;
	la_int64_t offset;

	while (len == 0) {
		if (reader->has_ended)
			return 0;
		int r = archive_read_data_block(reader->plain, ret, &len, &offset);
		if (r == ARCHIVE_EOF) {
			reader->has_ended = true;
			return 0;
		}
		if (r != ARCHIVE_OK) {
			const char *why = archive_error_string(reader->plain);
			archive_set_error(archive, EIO, "%s", why ? why : "cannot decompress");
			return -1;
		}
	}
	digest_add(&reader->plain_state, *ret, len);
	return (la_ssize_t)len;
}

/* "empty" takes a member without any bytes, which "raw" refuses. */
static int open_plain(struct reader *reader, struct err *err)
{
	struct archive_entry *entry;

	reader->plain = new_archive(true);
	if (!reader->plain || archive_read_support_format_raw(reader->plain) != ARCHIVE_OK ||
	    archive_read_support_format_empty(reader->plain) != ARCHIVE_OK)
		return err_set(err, ERR_UNAVAILABLE, "cannot set up reading archives");
	if (archive_read_open(reader->plain, reader, NULL, read_packed, NULL) != ARCHIVE_OK)
		return damaged(reader->plain, err);
	if (check_filters(reader->plain, err) < 0)
		return -1;
	int r = archive_read_next_header(reader->plain, &entry);
	reader->has_ended = r == ARCHIVE_EOF;
	return r == ARCHIVE_OK || r == ARCHIVE_EOF ? 0 : damaged(reader->plain, err);
}

int reader_open_member(struct reader *reader, struct reader *outer, struct err *err)
{
	*reader = (struct reader){.outer = outer, .max_ratio = outer->max_ratio};
	reader->chunk = mem_zalloc(CHUNK_BYTES);
	digest_begin(&reader->packed_state);
	digest_begin(&reader->plain_state);
	if (open_plain(reader, err) < 0)
		return -1;
	reader->archive = new_archive(false);
	if (!reader->archive || archive_read_support_format_tar(reader->archive) != ARCHIVE_OK ||
	    archive_read_support_format_empty(reader->archive) != ARCHIVE_OK)
		return err_set(err, ERR_UNAVAILABLE, "cannot set up reading archives");
	if (archive_read_open(reader->archive, reader, NULL, read_plain, NULL) != ARCHIVE_OK)
		return damaged(reader->archive, err);
	return 0;
}

void reader_close(struct reader *reader)
{
	if (reader->archive)
		(void)archive_read_free(reader->archive); /* reading: nothing to lose */
	if (reader->plain)
		(void)archive_read_free(reader->plain);
	free(reader->chunk);
	*reader = (struct reader){0};
}

int reader_next(struct reader *reader, struct archive_entry **ret, struct err *err)
{
	int r = archive_read_next_header(reader->archive, ret);

	if (check_bomb(reader, err) < 0)
		return -1;
	if (r == ARCHIVE_EOF)
		return 0;
	/* A warning is about a name that is not in the locale's character set. */
	if (r == ARCHIVE_OK || r == ARCHIVE_WARN)
		return 1;
	return damaged(reader->archive, err);
}

int reader_block(struct reader *reader, const void **ret_bytes, size_t *ret_len,
                 uint64_t *ret_offset, struct err *err)
{
	la_int64_t offset = 0;
	int r = archive_read_data_block(reader->archive, ret_bytes, ret_len, &offset);

	if (check_bomb(reader, err) < 0)
		return -1;
	if (r == ARCHIVE_EOF)
		return 0;
	if (r != ARCHIVE_OK || offset < 0)
		return damaged(reader->archive, err);
	*ret_offset = (uint64_t)offset;
	return 1;
}

int reader_finish(struct reader *reader, struct reader_digests *ret, struct err *err)
{
	la_ssize_t n;
	const void *bytes;

	do {
		n = read_plain(reader->archive, reader, &bytes);
		if (check_bomb(reader, err) < 0)
			return -1;
	} while (n > 0);
	if (n < 0)
		return damaged(reader->archive, err);
	do {
		n = read_packed(reader->plain, reader, &bytes);
	} while (n > 0);
	if (n < 0)
		return damaged(reader->plain, err);
	ret->packed = digest_end(&reader->packed_state);
	ret->plain = digest_end(&reader->plain_state);
	return 0;
}

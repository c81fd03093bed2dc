#include <errno.h>

#include "base/limits.h"
#include "base/mem.h"
#include "base/tar.h"

/* ustar's fields: offset and length in the block (POSIX.1-2017, pax). */
enum {
	NAME_AT = 0,
	NAME_LEN = 100,
	MODE_AT = 100,
	UID_AT = 108,
	GID_AT = 116,
	SIZE_AT = 124,
	MTIME_AT = 136,
	SUM_AT = 148,
	TYPE_AT = 156,
	TARGET_AT = 157,
	MAGIC_AT = 257,
};

static const uint64_t OCTAL_7_MAX = 07777777;
static const uint64_t OCTAL_11_MAX = 077777777777;

static void put_octal(uint8_t *block, size_t at, int digits, uint64_t value)
{
	char text[24];
	(void)snprintf(text, sizeof(text), "%0*llo", digits, (unsigned long long)value);
	memcpy(block + at, text, (size_t)digits + 1);
}

static void put_text(uint8_t *block, size_t at, const char *text)
{
	memcpy(block + at, text, MIN(strlen(text), (size_t)NAME_LEN));
}

static void fill_block(uint8_t block[TAR_BLOCK], const struct tar_entry *entry, char type)
{
	memset(block, 0, TAR_BLOCK);
	put_text(block, NAME_AT, entry->name);
	put_octal(block, MODE_AT, 7, entry->mode & 07777);
	put_octal(block, UID_AT, 7, entry->uid <= OCTAL_7_MAX ? entry->uid : 0);
	put_octal(block, GID_AT, 7, entry->gid <= OCTAL_7_MAX ? entry->gid : 0);
	put_octal(block, SIZE_AT, 11, entry->size <= OCTAL_11_MAX ? entry->size : 0);
	bool mtime_fits = entry->mtime_s >= 0 && (uint64_t)entry->mtime_s <= OCTAL_11_MAX;
	put_octal(block, MTIME_AT, 11, mtime_fits ? (uint64_t)entry->mtime_s : 0);
	block[TYPE_AT] = (uint8_t)type;
	if (entry->target)
		put_text(block, TARGET_AT, entry->target);
	memcpy(block + MAGIC_AT, "ustar\00000", 8);

	memset(block + SUM_AT, ' ', 8);
	unsigned sum = 0;
	for (size_t i = 0; i < TAR_BLOCK; i++)
		sum += block[i];
	put_octal(block, SUM_AT, 6, sum);
}

/* A pax record counts its own length, the digits of the count included. */
static int put_record(struct buf *records, const char *key, const char *value)
{
	size_t body = strlen(key) + strlen(value) + 3;
	size_t total = body;
	for (int i = 0; i < 3; i++)
		total = body + (size_t)snprintf(NULL, 0, "%zu", total);
	return buf_printf(records, "%zu %s=%s\n", total, key, value);
}

static int put_number(struct buf *records, const char *key, uint64_t value)
{
	char text[24];
	(void)snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
	return put_record(records, key, text);
}

static int put_time(struct buf *records, int64_t seconds, uint32_t ns)
{
	char text[40];
	/* -1 s + 0.25 s is written -0.75: the fraction counts away from zero */
	bool negative = seconds < 0;
	uint64_t whole = negative ? -(uint64_t)seconds : (uint64_t)seconds;
	if (negative && ns > 0) {
		whole--;
		ns = 1000000000 - ns;
	}
	(void)snprintf(text, sizeof(text), "%s%llu.%09u", negative ? "-" : "",
	               (unsigned long long)whole, ns);
	return put_record(records, "mtime", text);
}

static int put_records(struct buf *records, const struct tar_entry *entry)
{
	int r = 0;
	if (strlen(entry->name) > NAME_LEN)
		r = put_record(records, "path", entry->name);
	if (r == 0 && entry->target && strlen(entry->target) > NAME_LEN)
		r = put_record(records, "linkpath", entry->target);
	if (r == 0 && entry->size > OCTAL_11_MAX)
		r = put_number(records, "size", entry->size);
	if (r == 0 && entry->uid > OCTAL_7_MAX)
		r = put_number(records, "uid", entry->uid);
	if (r == 0 && entry->gid > OCTAL_7_MAX)
		r = put_number(records, "gid", entry->gid);
	if (r == 0 &&
	    (entry->mtime_ns || entry->mtime_s < 0 || (uint64_t)entry->mtime_s > OCTAL_11_MAX))
		r = put_time(records, entry->mtime_s, entry->mtime_ns);
	return r;
}

static int put_pax(struct buf *out, const struct buf *records)
{
	uint8_t block[TAR_BLOCK];
	struct tar_entry note = {.name = "pax", .mode = 0644, .size = buf_len(records)};
	fill_block(block, &note, 'x');
	int r = buf_put(out, block, sizeof(block));
	if (r == 0)
		r = buf_put(out, buf_head(records), buf_len(records));
	if (r == 0)
		r = tar_put_padding(out, buf_len(records));
	return r;
}

static int put_whole(struct buf *out, const struct tar_entry *entry, struct buf *records)
{
	static const char types[] = {
		[TAR_FILE] = '0',
		[TAR_DIR] = '5',
		[TAR_SYMLINK] = '2',
		[TAR_HARDLINK] = '1',
	};
	int r = put_records(records, entry);
	if (r == 0 && buf_len(records) > 0)
		r = put_pax(out, records);
	if (r < 0)
		return r;
	uint8_t block[TAR_BLOCK];
	fill_block(block, entry, types[entry->type]);
	return buf_put(out, block, sizeof(block));
}

int tar_put_entry(struct buf *out, const struct tar_entry *entry)
{
	bool is_link = entry->type == TAR_SYMLINK || entry->type == TAR_HARDLINK;
	size_t len = strlen(entry->name);
	if (entry->type > TAR_HARDLINK || is_link != (entry->target != NULL) || len == 0 ||
	    entry->mtime_ns > 999999999)
		return -EINVAL;
	if (len > LIMIT_PATH_LEN || (is_link && strlen(entry->target) > LIMIT_PATH_LEN))
		return -ENAMETOOLONG;
	struct tar_entry whole = *entry;
	if (entry->type != TAR_FILE)
		whole.size = 0;
	bool bare_dir = entry->type == TAR_DIR && entry->name[len - 1] != '/';
	auto_free char *dir_name = bare_dir ? mem_printf("%s/", entry->name) : NULL;
	if (dir_name)
		whole.name = dir_name;

	/* all or nothing: a full buffer must not hold half a header */
	struct buf records;
	struct buf header;
	buf_init(&records, TAR_HEADER_MAX);
	buf_init(&header, TAR_HEADER_MAX);
	int r = put_whole(&header, &whole, &records);
	if (r == 0)
		r = buf_put(out, buf_head(&header), buf_len(&header));
	buf_done(&records);
	buf_done(&header);
	return r;
}

int tar_put_padding(struct buf *out, uint64_t size)
{
	static const uint8_t zeros[TAR_BLOCK];
	return buf_put(out, zeros, (TAR_BLOCK - size % TAR_BLOCK) % TAR_BLOCK);
}

int tar_put_end(struct buf *out)
{
	static const uint8_t zeros[2 * TAR_BLOCK];
	return buf_put(out, zeros, sizeof(zeros));
}

/*
 * The reader. Blocks are gathered until whole; content is handed out where it lies. Extended
 * headers ("notes": pax x and g, GNU L and K) are collected in a capped buffer and apply to the
 * next entry only. Numbers are checked once, where they are read.
 */
#include "base/tar.h"

#include <errno.h>

#include "base/limits.h"
#include "base/mem.h"
#include "base/str.h"

enum { NOTE_MAX = 256 * 1024 };

/* Offsets in the block (POSIX.1-2017, pax). */
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
	PREFIX_AT = 345,
	PREFIX_LEN = 155,
};

static void forget_pax(struct tar_reader *reader)
{
	free(reader->pax.name);
	free(reader->pax.target);
	memset(&reader->pax, 0, sizeof(reader->pax));
}

static void forget_entry(struct tar_reader *reader)
{
	mem_freep(&reader->name);
	mem_freep(&reader->target);
	reader->entry = (struct tar_entry){0};
}

void tar_reader_init(struct tar_reader *reader)
{
	*reader = (struct tar_reader){0};
	buf_init(&reader->note, NOTE_MAX);
}

void tar_reader_done(struct tar_reader *reader)
{
	forget_pax(reader);
	forget_entry(reader);
	buf_done(&reader->note);
}

/* --- numbers --- */

/* Octal text, or GNU's base 256 with the top bit of the first byte set. */
static int get_number(const uint8_t *field, size_t len, int64_t *ret)
{
	if (field[0] & 0x80) {
		int64_t value = field[0] & 0x40 ? -1 : 0;
		for (size_t i = 0; i < len; i++) {
			uint8_t byte =
				i ? field[i]
				  : (uint8_t)((field[0] & 0x3f) | (field[0] & 0x40 ? 0xc0 : 0));
			if (value > (INT64_MAX >> 8) || value < (INT64_MIN >> 8))
				return -EBADMSG;
			value = (int64_t)((uint64_t)value << 8 | byte);
		}
		*ret = value;
		return 0;
	}
	size_t i = 0;
	while (i < len && field[i] == ' ')
		i++;
	uint64_t value = 0;
	for (; i < len && field[i] >= '0' && field[i] <= '7'; i++)
		value = value << 3 | (uint64_t)(field[i] - '0');
	for (; i < len; i++) {
		if (field[i] != ' ' && field[i] != '\0')
			return -EBADMSG;
	}
	*ret = (int64_t)value; /* at most twelve digits */
	return 0;
}

static int get_unsigned(const uint8_t *field, size_t len, uint64_t *ret)
{
	int64_t value = 0;
	int r = get_number(field, len, &value);
	if (r < 0)
		return r;
	if (value < 0)
		return -EBADMSG;
	*ret = (uint64_t)value;
	return 0;
}

static bool has_valid_sum(const uint8_t block[TAR_BLOCK])
{
	uint64_t wanted = 0;
	if (get_unsigned(block + SUM_AT, 8, &wanted) < 0)
		return false;
	uint64_t sum = 0;
	int64_t signed_sum = 0; /* some old writers summed signed characters */
	for (size_t i = 0; i < TAR_BLOCK; i++) {
		uint8_t byte = i >= SUM_AT && i < SUM_AT + 8 ? ' ' : block[i];
		sum += byte;
		signed_sum += (int8_t)byte;
	}
	return wanted == sum || (signed_sum >= 0 && wanted == (uint64_t)signed_sum);
}

static bool is_zero(const uint8_t block[TAR_BLOCK])
{
	for (size_t i = 0; i < TAR_BLOCK; i++) {
		if (block[i])
			return false;
	}
	return true;
}

/* --- pax records --- */

static int set_text(char **to, const char *value, size_t len)
{
	if (len > LIMIT_PATH_LEN)
		return -ENAMETOOLONG;
	if (len == 0 || memchr(value, '\0', len))
		return -EBADMSG;
	free(*to);
	*to = mem_strndup(value, len);
	return 0;
}

static int set_number(const char *value, size_t len, uint64_t *ret, bool *ret_has)
{
	char text[24];
	if (len >= sizeof(text))
		return -EBADMSG;
	memcpy(text, value, len);
	text[len] = '\0';
	if (str_to_u64(text, ret) < 0 || *ret > INT64_MAX)
		return -EBADMSG;
	*ret_has = true;
	return 0;
}

/* "-0.75" is -1 s and 250 ms: nanoseconds always count forward. */
static int set_time(struct tar_reader *reader, const char *value, size_t len)
{
	bool negative = len > 0 && value[0] == '-';
	const char *point = memchr(value, '.', len);
	size_t whole_at = negative ? 1 : 0;
	size_t whole_len = (point ? (size_t)(point - value) : len) - whole_at;
	uint64_t whole = 0;
	uint32_t ns = 0;
	bool has = false;
	if (set_number(value + whole_at, whole_len, &whole, &has) < 0)
		return -EBADMSG;
	uint32_t unit = 100000000;
	for (const char *s = point ? point + 1 : value + len; s < value + len; s++, unit /= 10) {
		if (*s < '0' || *s > '9')
			return -EBADMSG;
		ns += unit * (uint32_t)(*s - '0');
	}
	int64_t seconds = negative ? -(int64_t)whole : (int64_t)whole;
	if (negative && ns > 0) {
		seconds--;
		ns = 1000000000 - ns;
	}
	reader->pax.mtime_s = seconds;
	reader->pax.mtime_ns = ns;
	reader->pax.has_mtime = true;
	return 0;
}

static bool is_key(const char *key, size_t len, const char *name)
{
	return strlen(name) == len && memcmp(key, name, len) == 0;
}

static int use_record(struct tar_reader *reader, const char *key, size_t key_len, const char *value,
                      size_t len)
{
	static const char sparse[] = "GNU.sparse.";
	if (len == 0)
		return 0; /* "use the header's value" */
	if (is_key(key, key_len, "path"))
		return set_text(&reader->pax.name, value, len);
	if (is_key(key, key_len, "linkpath"))
		return set_text(&reader->pax.target, value, len);
	if (is_key(key, key_len, "size"))
		return set_number(value, len, &reader->pax.size, &reader->pax.has_size);
	if (is_key(key, key_len, "uid"))
		return set_number(value, len, &reader->pax.uid, &reader->pax.has_uid);
	if (is_key(key, key_len, "gid"))
		return set_number(value, len, &reader->pax.gid, &reader->pax.has_gid);
	if (is_key(key, key_len, "mtime"))
		return set_time(reader, value, len);
	if (key_len >= sizeof(sparse) - 1 && memcmp(key, sparse, sizeof(sparse) - 1) == 0)
		reader->pax.is_sparse = true;
	return 0;
}

static int use_pax(struct tar_reader *reader, const char *text, size_t len)
{
	while (len > 0) {
		size_t total = 0;
		size_t digits = 0;
		while (digits < len && digits < 8 && text[digits] >= '0' && text[digits] <= '9')
			total = total * 10 + (size_t)(text[digits++] - '0');
		/* "N key=value\n", N counting all of it */
		if (digits == 0 || total > len || total < digits + 4 || text[digits] != ' ' ||
		    text[total - 1] != '\n')
			return -EBADMSG;
		const char *key = text + digits + 1;
		const char *equals = memchr(key, '=', total - digits - 2);
		if (!equals || equals == key)
			return -EBADMSG;
		const char *value = equals + 1;
		int r = use_record(reader, key, (size_t)(equals - key), value,
		                   (size_t)(text + total - 1 - value));
		if (r < 0)
			return r;
		text += total;
		len -= total;
	}
	return 0;
}

static int use_note(struct tar_reader *reader)
{
	const char *text = (const char *)buf_head(&reader->note);
	size_t len = buf_len(&reader->note);
	int r = 0;
	if (len == 0)
		return 0;
	if (reader->note_type == 'x')
		r = use_pax(reader, text, len);
	else if (reader->note_type == 'L')
		r = set_text(&reader->pax.name, text, strnlen(text, len));
	else if (reader->note_type == 'K')
		r = set_text(&reader->pax.target, text, strnlen(text, len));
	buf_reset(&reader->note);
	return r;
}

/* --- headers --- */

static char *block_name(const uint8_t block[TAR_BLOCK])
{
	const char *name = (const char *)block + NAME_AT;
	const char *prefix = (const char *)block + PREFIX_AT;
	size_t name_len = strnlen(name, NAME_LEN);
	/* GNU's own magic is "ustar  ", and its headers have other things where the prefix is */
	bool is_posix = memcmp(block + MAGIC_AT, "ustar", 6) == 0;
	if (!is_posix || !prefix[0])
		return mem_strndup(name, name_len);
	return mem_printf("%.*s/%.*s", (int)strnlen(prefix, PREFIX_LEN), prefix, (int)name_len,
	                  name);
}

static enum tar_type type_of(const struct tar_reader *reader, const char *name)
{
	size_t len = strlen(name);
	if (reader->pax.is_sparse)
		return TAR_OTHER;
	switch (reader->block[TYPE_AT]) {
	case '\0':
	case '0':
	case '7':
		return name[len - 1] == '/' ? TAR_DIR : TAR_FILE;
	case '1':
		return TAR_HARDLINK;
	case '2':
		return TAR_SYMLINK;
	case '3':
	case '4':
	case '6':
		return TAR_SPECIAL;
	case '5':
		return TAR_DIR;
	default:
		return TAR_OTHER;
	}
}

static int fill_names(struct tar_reader *reader)
{
	struct tar_entry *entry = &reader->entry;
	reader->name = reader->pax.name ? take_ptr(reader->pax.name) : block_name(reader->block);
	if (reader->name[0] == '\0')
		return -EBADMSG;
	entry->name = reader->name;
	entry->type = type_of(reader, reader->name);
	if (entry->type != TAR_SYMLINK && entry->type != TAR_HARDLINK)
		return 0;
	const char *target = (const char *)reader->block + TARGET_AT;
	reader->target = reader->pax.target ? take_ptr(reader->pax.target)
	                                    : mem_strndup(target, strnlen(target, NAME_LEN));
	if (reader->target[0] == '\0')
		return -EBADMSG;
	entry->target = reader->target;
	return 0;
}

static int fill_numbers(struct tar_reader *reader)
{
	struct tar_entry *entry = &reader->entry;
	const uint8_t *block = reader->block;
	uint64_t mode = 0;
	int r = get_unsigned(block + MODE_AT, 8, &mode);
	if (r == 0)
		r = get_unsigned(block + UID_AT, 8, &entry->uid);
	if (r == 0)
		r = get_unsigned(block + GID_AT, 8, &entry->gid);
	if (r == 0)
		r = get_unsigned(block + SIZE_AT, 12, &entry->size);
	if (r == 0)
		r = get_number(block + MTIME_AT, 12, &entry->mtime_s);
	if (r < 0)
		return r;
	entry->mode = (uint32_t)(mode & 07777);
	if (reader->pax.has_size)
		entry->size = reader->pax.size;
	if (reader->pax.has_uid)
		entry->uid = reader->pax.uid;
	if (reader->pax.has_gid)
		entry->gid = reader->pax.gid;
	if (reader->pax.has_mtime) {
		entry->mtime_s = reader->pax.mtime_s;
		entry->mtime_ns = reader->pax.mtime_ns;
	}
	/* POSIX: nothing follows the header of a directory, link, device or fifo */
	if (entry->type != TAR_FILE && entry->type != TAR_OTHER)
		entry->size = 0;
	return 0;
}

static void expect(struct tar_reader *reader, enum tar_state state, uint64_t size)
{
	reader->state = state;
	reader->left = size;
	reader->padding = (uint32_t)((TAR_BLOCK - size % TAR_BLOCK) % TAR_BLOCK);
}

/* reader->block is whole. TAR_MORE: it was a note's header. */
static int use_block(struct tar_reader *reader)
{
	char type = (char)reader->block[TYPE_AT];
	if (is_zero(reader->block)) {
		reader->state = TAR_AT_END;
		return TAR_END;
	}
	if (!has_valid_sum(reader->block))
		return -EBADMSG;
	if (type == 'x' || type == 'g' || type == 'L' || type == 'K') {
		uint64_t size = 0;
		if (get_unsigned(reader->block + SIZE_AT, 12, &size) < 0)
			return -EBADMSG;
		if (size > NOTE_MAX)
			return -EFBIG;
		reader->note_type = type;
		expect(reader, TAR_AT_NOTE, size);
		return TAR_MORE;
	}
	int r = fill_names(reader);
	if (r == 0)
		r = fill_numbers(reader);
	if (r < 0)
		return r;
	forget_pax(reader);
	expect(reader, TAR_AT_CONTENT, reader->entry.size);
	return TAR_ENTRY;
}

/* --- the stream --- */

static size_t take(const uint8_t **at, size_t *len, uint64_t most)
{
	size_t n = (size_t)MIN((uint64_t)*len, most);
	*at += n;
	*len -= n;
	return n;
}

static int read_header(struct tar_reader *reader, const uint8_t **at, size_t *len)
{
	const uint8_t *from = *at;
	size_t n = take(at, len, TAR_BLOCK - reader->block_len);
	if (n > 0)
		memcpy(reader->block + reader->block_len, from, n);
	reader->block_len += n;
	if (reader->block_len < TAR_BLOCK)
		return TAR_MORE;
	reader->block_len = 0;
	return use_block(reader);
}

static int read_note(struct tar_reader *reader, const uint8_t **at, size_t *len)
{
	const uint8_t *from = *at;
	size_t n = take(at, len, reader->left);
	int r = buf_put(&reader->note, from, n);
	if (r < 0)
		return -EFBIG;
	reader->left -= n;
	reader->padding -= (uint32_t)take(at, len, reader->left ? 0 : reader->padding);
	if (reader->left > 0 || reader->padding > 0)
		return TAR_MORE;
	reader->state = TAR_AT_HEADER;
	return use_note(reader);
}

static int read_content(struct tar_reader *reader, const uint8_t **at, size_t *len,
                        const uint8_t **ret_bytes, size_t *ret_len)
{
	if (reader->left > 0) {
		*ret_bytes = *at;
		*ret_len = take(at, len, reader->left);
		reader->left -= *ret_len;
		return TAR_CONTENT;
	}
	reader->padding -= (uint32_t)take(at, len, reader->padding);
	if (reader->padding > 0)
		return TAR_MORE;
	reader->state = TAR_AT_HEADER;
	return TAR_ENTRY_END;
}

int tar_read(struct tar_reader *reader, const uint8_t **at, size_t *len, const uint8_t **ret_bytes,
             size_t *ret_len)
{
	for (;;) {
		bool no_content_left = reader->state == TAR_AT_CONTENT && reader->left == 0 &&
		                       reader->padding == 0;
		if (reader->state == TAR_AT_END) {
			(void)take(at, len, *len);
			return TAR_END;
		}
		if (*len == 0 && !no_content_left)
			return TAR_MORE;
		int r = TAR_MORE;
		switch (reader->state) {
		case TAR_AT_HEADER:
			if (reader->block_len == 0)
				forget_entry(reader);
			r = read_header(reader, at, len);
			break;
		case TAR_AT_NOTE:
			r = read_note(reader, at, len);
			break;
		case TAR_AT_CONTENT:
			return read_content(reader, at, len, ret_bytes, ret_len);
		case TAR_AT_END:
			break;
		}
		if (r != TAR_MORE)
			return r;
	}
}

int tar_reader_finish(const struct tar_reader *reader)
{
	return reader->state == TAR_AT_END ? 0 : -EBADMSG;
}

int tar_clean_name(const char *name, char *out, size_t size)
{
	size_t used = 0;
	if (name[0] == '/' || size == 0)
		return -EINVAL;
	while (*name) {
		size_t len = strcspn(name, "/");
		bool is_dot = len == 1 && name[0] == '.';
		if (len == 2 && name[0] == '.' && name[1] == '.')
			return -EINVAL;
		if (len > 255)
			return -ENAMETOOLONG;
		if (len > 0 && !is_dot) {
			if (used + len + 2 > size)
				return -ENAMETOOLONG;
			if (used > 0)
				out[used++] = '/';
			memcpy(out + used, name, len);
			used += len;
		}
		name += len;
		name += strspn(name, "/");
	}
	out[used] = '\0';
	return 0;
}

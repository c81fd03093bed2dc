#include "wire/record.h"

#include <errno.h>

#include "base/str.h"

static const char *const type_names[] = {
#define RECORD_TYPE(name, text) [RECORD_##name] = (text),
#include "wire/record_types.def"
#undef RECORD_TYPE
};

static const char *const change_names[] = {
#define RECORD_CHANGE(name, text) [RECORD_CHANGE_##name] = (text),
#include "wire/record_types.def"
#undef RECORD_CHANGE
};

const char *record_type_name(enum record_type type)
{
	return (size_t)type < ARRAY_LEN(type_names) ? type_names[type] : "unknown";
}

const char *record_change_name(enum record_change_kind kind)
{
	return (size_t)kind < ARRAY_LEN(change_names) ? change_names[kind] : "unknown";
}

static int find_name(const char *const *names, size_t count, const char *word)
{
	for (size_t i = 0; i < count; i++)
		if (str_eq(names[i], word))
			return (int)i;
	return -EINVAL;
}

static bool is_plain(uint8_t c)
{
	return c > 0x20 && c < 0x7f && c != '%';
}

int record_put_escaped(struct buf *to, const char *s, size_t len)
{
	static const char digits[] = "0123456789ABCDEF";

	for (size_t i = 0; i < len; i++) {
		uint8_t c = (uint8_t)s[i];
		char escaped[3] = {'%', digits[c >> 4], digits[c & 15]};
		int r = is_plain(c) ? buf_put(to, &c, 1) : buf_put(to, escaped, 3);

		if (r < 0)
			return r;
	}
	return 0;
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

int record_unescape(char *s)
{
	char *to = s;

	while (*s != '\0') {
		if (is_plain((uint8_t)*s)) {
			*to++ = *s++;
			continue;
		}
		if (*s != '%')
			return -EINVAL;
		int high = hex_digit(s[1]);
		int low = high < 0 ? -1 : hex_digit(s[2]);

		if (low < 0 || (high == 0 && low == 0))
			return -EINVAL;
		*to++ = (char)(high * 16 + low);
		s += 3;
	}
	*to = '\0';
	return 0;
}

int record_put_stat(struct buf *to, const struct record_stat *record)
{
	const char *target = record->target == NULL ? "" : record->target;
	int r = buf_printf(to, "%s\t%llu\t%04o\t%llu\t%llu\t%lld\t%llu\t%llu\t",
	                   record_type_name(record->type), (unsigned long long)record->size,
	                   record->mode & 07777, (unsigned long long)record->uid,
	                   (unsigned long long)record->gid, (long long)record->mtime_ms,
	                   (unsigned long long)record->links, (unsigned long long)record->inode);

	if (r >= 0)
		r = record_put_escaped(to, record->name, strlen(record->name));
	if (r >= 0)
		r = buf_puts(to, "\t");
	if (r >= 0)
		r = record_put_escaped(to, target, strlen(target));
	if (r >= 0)
		r = buf_puts(to, "\n");
	return r < 0 ? r : 0;
}

int record_put_change(struct buf *to, const struct record_change *record)
{
	int r = buf_printf(to, "%s\t%s\t", record_change_name(record->kind),
	                   record->is_dir ? "dir" : "other");

	if (r >= 0)
		r = record_put_escaped(to, record->name, strlen(record->name));
	if (r >= 0)
		r = buf_puts(to, "\n");
	return r < 0 ? r : 0;
}

/* Cuts line into exactly `count` fields. */
static int split(char *line, char **fields, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		char *tab = strchr(line, '\t');

		if ((tab == NULL) != (i + 1 == count))
			return -EINVAL;
		fields[i] = line;
		if (tab != NULL) {
			*tab = '\0';
			line = tab + 1;
		}
	}
	return 0;
}

static int parse_signed(const char *s, int64_t *ret)
{
	bool negative = *s == '-';
	uint64_t value;

	if (str_to_u64(negative ? s + 1 : s, &value) < 0 || value > INT64_MAX)
		return -EINVAL;
	*ret = negative ? -(int64_t)value : (int64_t)value;
	return 0;
}

static int parse_mode(const char *s, uint32_t *ret)
{
	uint32_t mode = 0;

	if (*s == '\0' || strlen(s) > 4)
		return -EINVAL;
	for (; *s != '\0'; s++) {
		if (*s < '0' || *s > '7')
			return -EINVAL;
		mode = mode * 8 + (uint32_t)(*s - '0');
	}
	*ret = mode;
	return 0;
}

int record_parse_stat(char *line, struct record_stat *ret)
{
	char *fields[10];
	struct record_stat record = {0};

	if (split(line, fields, ARRAY_LEN(fields)) < 0)
		return -EINVAL;
	int type = find_name(type_names, ARRAY_LEN(type_names), fields[0]);

	if (type < 0 || str_to_u64(fields[1], &record.size) < 0 ||
	    parse_mode(fields[2], &record.mode) < 0 || str_to_u64(fields[3], &record.uid) < 0 ||
	    str_to_u64(fields[4], &record.gid) < 0 ||
	    parse_signed(fields[5], &record.mtime_ms) < 0 ||
	    str_to_u64(fields[6], &record.links) < 0 || str_to_u64(fields[7], &record.inode) < 0 ||
	    record_unescape(fields[8]) < 0 || record_unescape(fields[9]) < 0)
		return -EINVAL;
	record.type = (enum record_type)type;
	record.name = fields[8];
	record.target = fields[9];
	*ret = record;
	return 0;
}

int record_parse_change(char *line, struct record_change *ret)
{
	char *fields[3];

	if (split(line, fields, ARRAY_LEN(fields)) < 0)
		return -EINVAL;
	int kind = find_name(change_names, ARRAY_LEN(change_names), fields[0]);
	bool is_dir = str_eq(fields[1], "dir");

	if (kind < 0 || (!is_dir && !str_eq(fields[1], "other")) || record_unescape(fields[2]) < 0)
		return -EINVAL;
	*ret = (struct record_change){
		.kind = (enum record_change_kind)kind, .is_dir = is_dir, .name = fields[2]};
	return 0;
}

#include "store/cursor.h"

#include "base/limits.h"
#include "base/mem.h"

enum { LIMIT_DEFAULT = 100 };

static const char digits[] = "0123456789abcdef";

char *cursor_make(const char *key)
{
	size_t len = strlen(key);
	char *cursor = mem_zalloc(2 * len + 2);

	cursor[0] = 'c';
	for (size_t i = 0; i < len; i++) {
		cursor[1 + 2 * i] = digits[(unsigned char)key[i] >> 4];
		cursor[2 + 2 * i] = digits[(unsigned char)key[i] & 15];
	}
	return cursor;
}

static int digit(char c)
{
	const char *at = c != '\0' ? strchr(digits, c) : NULL;

	return at != NULL ? (int)(at - digits) : -1;
}

int cursor_read(const char *cursor, char **ret_key, struct err *err)
{
	auto_free char *key = NULL;
	size_t len;

	if (cursor == NULL) {
		*ret_key = mem_strdup("");
		return 0;
	}
	len = strlen(cursor);
	if (cursor[0] != 'c' || len % 2 == 0 || len > 2 * LIMIT_NAME_LEN + 1)
		return err_set(err, ERR_INVALID, "this is not a cursor of ours");
	key = mem_zalloc(len / 2 + 1);
	for (size_t i = 0; i < len / 2; i++) {
		int high = digit(cursor[1 + 2 * i]), low = digit(cursor[2 + 2 * i]);

		if (high < 0 || low < 0 || high + low == 0)
			return err_set(err, ERR_INVALID, "this is not a cursor of ours");
		key[i] = (char)(high << 4 | low);
	}
	*ret_key = take_ptr(key);
	return 0;
}

int cursor_check_limit(size_t limit, size_t *ret, struct err *err)
{
	if (limit > LIMIT_PAGE)
		return err_set(err, ERR_INVALID, "limit %zu is above the most of %d", limit,
		               LIMIT_PAGE);
	*ret = limit != 0 ? limit : LIMIT_DEFAULT;
	return 0;
}

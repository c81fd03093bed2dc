#include "cli/words.h"

#include "base/buf.h"
#include "base/mem.h"
#include "base/str.h"

enum { TEXT_MAX = 16 * 1024 };

int words_put(json_t *body, const char *key, const char *text, struct err *err)
{
	if (text != NULL && json_object_set_new(body, key, json_string(text)) < 0)
		return err_set(err, ERR_INVALID, "%s is not valid UTF-8", key);
	return 0;
}

int words_put_list(json_t *body, const char *key, const struct opt_list *list, struct err *err)
{
	json_t *array;

	if (list->count == 0)
		return 0;
	array = json_array();
	if (json_object_set_new(body, key, array) < 0)
		return err_set(err, ERR_INTERNAL, "out of memory");
	for (size_t i = 0; i < list->count; i++) {
		for (const char *at = list->items[i]; *at != '\0';) {
			size_t len = strcspn(at, ",");

			if (len > 0 && json_array_append_new(array, json_stringn(at, len)) < 0)
				return err_set(err, ERR_INVALID, "%s is not valid UTF-8", key);
			at += len;
			at += *at == ',';
		}
	}
	return 0;
}

static bool has(const json_t *list, const char *object, size_t len, const char *verb)
{
	auto_free char *wanted = mem_printf("%.*s:%s", (int)len, object, verb);
	size_t index;
	json_t *item;

	json_array_foreach (list, index, item) {
		if (json_is_string(item) && str_eq(json_string_value(item), wanted))
			return true;
	}
	return false;
}

char *words_shorten(const json_t *list)
{
	auto_(buf_done) struct buf out;
	size_t index;
	json_t *item;
	int r = 0;

	buf_init(&out, TEXT_MAX);
	json_array_foreach (list, index, item) {
		const char *scope = json_is_string(item) ? json_string_value(item) : "";
		size_t len = strcspn(scope, ":");
		bool both = has(list, scope, len, "read") && has(list, scope, len, "write");

		if (both && str_has_suffix(scope, ":write"))
			continue;
		if (r >= 0)
			r = buf_printf(&out, "%s%.*s%s", buf_len(&out) > 0 ? " " : "", (int)len,
			               scope, both ? ":*" : scope + len);
	}
	/* Too many to show: cut. */
	return buf_take_string(&out);
}

#include "cli/body.h"

#include <string.h>

#include "base/mem.h"

void body_put_text(json_t *body, const char *name, const char *text)
{
	if (text)
		json_object_set_new(body, name, json_string(text));
}

void body_put_ms(json_t *body, const char *name, uint64_t ms)
{
	if (ms)
		json_object_set_new(body, name, json_integer((json_int_t)ms));
}

void body_put_list(json_t *body, const char *name, const struct opt_list *list)
{
	json_t *items;

	if (list->count == 0)
		return;
	items = json_array();
	for (size_t i = 0; i < list->count; i++)
		json_array_append_new(items, json_string(list->items[i]));
	json_object_set_new(body, name, items);
}

int body_put_map(json_t *body, const char *name, const struct opt_list *list, struct err *err)
{
	json_t *map;

	if (list->count == 0)
		return 0;
	map = json_object();
	json_object_set_new(body, name, map);
	for (size_t i = 0; i < list->count; i++) {
		size_t len = strcspn(list->items[i], "=");
		auto_free char *key = mem_strndup(list->items[i], len);

		if (list->items[i][len] != '=')
			return err_set(err, ERR_INVALID, "'%s' is not NAME=VALUE", list->items[i]);
		json_object_set_new(map, key, json_string(list->items[i] + len + 1));
	}
	return 0;
}

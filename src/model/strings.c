#include "model/strings.h"

#include "base/mem.h"
#include "base/str.h"

void strings_done(struct strings *list)
{
	for (size_t i = 0; i < list->count; i++)
		free(list->items[i]);
	free(list->items);
	*list = (struct strings){0};
}

void strings_take(struct strings *list, char *text)
{
	/* Grown by doubling: the list is full exactly when count + 1 is a power of two. */
	if ((list->count & (list->count + 1)) == 0)
		list->items = mem_resize(list->items, (list->count + 1) * 2, sizeof(char *));
	list->items[list->count++] = text;
	list->items[list->count] = NULL;
}

void strings_add(struct strings *list, const char *text)
{
	strings_take(list, mem_strdup(text));
}

void strings_copy(struct strings *to, const struct strings *from)
{
	struct strings copy = {0};

	for (size_t i = 0; i < from->count; i++)
		strings_add(&copy, from->items[i]);
	strings_done(to);
	*to = copy;
}

bool strings_has(const struct strings *list, const char *text)
{
	for (size_t i = 0; i < list->count; i++) {
		if (str_eq(list->items[i], text))
			return true;
	}
	return false;
}

bool strings_equal(const struct strings *a, const struct strings *b)
{
	if (a->count != b->count)
		return false;
	for (size_t i = 0; i < a->count; i++) {
		if (!str_eq(a->items[i], b->items[i]))
			return false;
	}
	return true;
}

void strings_split(struct strings *list, const char *text)
{
	text += strspn(text, " ");
	while (*text != '\0') {
		size_t len = strcspn(text, " ");

		strings_take(list, mem_strndup(text, len));
		text += len;
		text += strspn(text, " ");
	}
}

char *strings_join(const struct strings *list)
{
	size_t size = 1;
	char *text, *at;

	for (size_t i = 0; i < list->count; i++)
		size += strlen(list->items[i]) + 1;
	text = at = mem_zalloc(size);
	for (size_t i = 0; i < list->count; i++) {
		if (i > 0)
			*at++ = ' ';
		memcpy(at, list->items[i], strlen(list->items[i]));
		at += strlen(list->items[i]);
	}
	return text;
}

/* Index of the entry with this key; count when there is none. */
static size_t find_key(const struct strings *list, const char *key)
{
	size_t len = strlen(key);

	for (size_t i = 0; i < list->count; i++) {
		if (strncmp(list->items[i], key, len) == 0 && list->items[i][len] == '=')
			return i;
	}
	return list->count;
}

const char *strings_value(const struct strings *list, const char *key)
{
	size_t at = find_key(list, key);

	return at < list->count ? list->items[at] + strlen(key) + 1 : NULL;
}

void strings_set(struct strings *list, const char *key, const char *value)
{
	size_t at = find_key(list, key);
	char *entry = mem_printf("%s=%s", key, value);

	if (at == list->count) {
		strings_take(list, entry);
		return;
	}
	free(list->items[at]);
	list->items[at] = entry;
}

bool strings_unset(struct strings *list, const char *key)
{
	size_t at = find_key(list, key);

	if (at == list->count)
		return false;
	free(list->items[at]);
	/* The NULL at the end moves down with the rest. */
	memmove(&list->items[at], &list->items[at + 1], (list->count - at) * sizeof(char *));
	list->count--;
	return true;
}

void strings_format_positions(char *out, size_t size, const size_t *indices, size_t count)
{
	size_t used = 0;

	out[0] = '\0';
	for (size_t i = 0; i < count;) {
		size_t last = i;
		int len;

		while (last + 1 < count && indices[last + 1] == indices[last] + 1)
			last++;
		len = last > i ? snprintf(out + used, size - used, "%s%zu-%zu",
		                          used > 0 ? ", " : "", indices[i] + 1, indices[last] + 1)
		               : snprintf(out + used, size - used, "%s%zu", used > 0 ? ", " : "",
		                          indices[i] + 1);
		used += (size_t)len;
		if (used + 12 >= size) {
			snprintf(out + used, size - used, ", …");
			return;
		}
		i = last + 1;
	}
}

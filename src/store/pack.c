#include "store/pack.h"

#include "base/mem.h"
#include "base/str.h"

/* Writes the escaped text and returns its end. */
static char *put_escaped(char *to, const char *text)
{
	for (; *text != '\0'; text++) {
		if (*text == '\\' || *text == '\n')
			*to++ = '\\';
		if (*text == '\n')
			*to++ = 'n';
		else
			*to++ = *text;
	}
	return to;
}

char *pack_strings(const struct strings *list)
{
	size_t size = 1;
	char *packed, *at;

	for (size_t i = 0; i < list->count; i++)
		size += 2 * strlen(list->items[i]) + 1;
	packed = mem_zalloc(size);
	at = packed;
	for (size_t i = 0; i < list->count; i++) {
		at = put_escaped(at, list->items[i]);
		*at++ = '\n';
	}
	return packed;
}

void unpack_strings(const char *text, struct strings *list)
{
	while (*text != '\0') {
		size_t len = strcspn(text, "\n");
		char *item = mem_zalloc(len + 1), *to = item;

		for (size_t i = 0; i < len; i++) {
			bool escape = text[i] == '\\' && i + 1 < len;

			if (escape)
				i++;
			if (escape && text[i] == 'n')
				*to++ = '\n';
			else
				*to++ = text[i];
		}
		strings_take(list, item);
		text += text[len] == '\n' ? len + 1 : len;
	}
}

static void set_number(struct strings *list, const char *name, uint64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
	strings_set(list, name, text);
}

char *pack_limits(const struct limits *limits)
{
	struct strings list = {0};
	char *packed;

	for (const struct limit *limit = limits_table; limit->name != NULL; limit++)
		set_number(&list, limit->name, limits_get(limits, limit));
	packed = pack_strings(&list);
	strings_done(&list);
	return packed;
}

char *pack_meters(const struct meters *meters)
{
	struct strings list = {0};
	char *packed;

	for (const struct meter *meter = meters_table; meter->name != NULL; meter++)
		set_number(&list, meter->name, meters_get(meters, meter));
	packed = pack_strings(&list);
	strings_done(&list);
	return packed;
}

void unpack_limits(const char *text, struct limits *limits)
{
	struct strings list = {0};

	limits_init(limits);
	unpack_strings(text, &list);
	for (const struct limit *limit = limits_table; limit->name != NULL; limit++) {
		const char *value = strings_value(&list, limit->name);
		uint64_t number;

		if (value == NULL || str_to_u64(value, &number) < 0)
			continue;
		/* A value that this version no longer allows falls back to the default. */
		if (limits_set(limits, limit, number, NULL) < 0)
			continue;
	}
	strings_done(&list);
}

void unpack_meters(const char *text, struct meters *meters)
{
	struct strings list = {0};

	unpack_strings(text, &list);
	for (const struct meter *meter = meters_table; meter->name != NULL; meter++) {
		const char *value = strings_value(&list, meter->name);
		uint64_t number;

		if (value != NULL && str_to_u64(value, &number) == 0)
			meters_set(meters, meter->name, number);
	}
	strings_done(&list);
}

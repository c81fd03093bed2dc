#include "store/pack.h"

#include "base/mem.h"
#include "base/must.h"
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

/* Room for all limits, or all meters: their tables are ours. */
enum { PACKED_MOST = 4096 };

static char *put_number(char *to, const char *end, const char *name, uint64_t value)
{
	int len = snprintf(to, (size_t)(end - to), "%s=%llu\n", name, (unsigned long long)value);

	must(len > 0 && len < end - to);
	return to + len;
}

char *pack_limits(const struct limits *limits)
{
	char packed[PACKED_MOST], *at = packed;

	for (const struct limit *limit = limits_table; limit->name != NULL; limit++)
		at = put_number(at, packed + sizeof(packed), limit->name,
		                limits_get(limits, limit));
	return mem_strndup(packed, (size_t)(at - packed));
}

char *pack_meters(const struct meters *meters)
{
	char packed[PACKED_MOST], *at = packed;

	for (const struct meter *meter = meters_table; meter->name != NULL; meter++)
		at = put_number(at, packed + sizeof(packed), meter->name,
		                meters_get(meters, meter));
	return mem_strndup(packed, (size_t)(at - packed));
}

/* --- the journal of a run: step, status, attempts, two times, what there is to say --- */

char *pack_steps(const struct run_progress *steps)
{
	struct strings list = {0};
	char *packed;

	for (size_t i = 0; i < RUN_STEP_COUNT_; i++) {
		const struct run_progress *step = &steps[i];

		if (step->status != NULL)
			strings_take(&list, mem_printf("%s %s %llu %llu %llu %s",
			                               run_step_name(step->step), step->status,
			                               (unsigned long long)step->attempts,
			                               (unsigned long long)step->started_ms,
			                               (unsigned long long)step->ended_ms,
			                               step->detail != NULL ? step->detail : ""));
	}
	packed = pack_strings(&list);
	strings_done(&list);
	return packed;
}

/* Cuts the next word off. */
static char *next_word(char **at)
{
	char *word = *at;
	size_t len = strcspn(word, " ");

	*at = word + len + (word[len] != '\0');
	word[len] = '\0';
	return word;
}

/* False: nothing was taken. */
static bool unpack_step(char *line, struct run_progress *ret)
{
	uint64_t *numbers[] = {&ret->attempts, &ret->started_ms, &ret->ended_ms};
	const char *step = next_word(&line);
	const char *status = next_word(&line);

	*ret = (struct run_progress){0};
	if (!run_step_from(step, &ret->step))
		return false;
	for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
		if (str_to_u64(next_word(&line), numbers[i]) < 0)
			return false;
	}
	ret->status = mem_strdup(status);
	ret->detail = *line != '\0' ? mem_strdup(line) : NULL;
	return true;
}

size_t unpack_steps(const char *text, struct run_progress *ret)
{
	struct strings list = {0};
	size_t count = 0;

	unpack_strings(text, &list);
	for (size_t i = 0; i < list.count && count < RUN_STEP_COUNT_; i++)
		count += unpack_step(list.items[i], &ret[count]);
	strings_done(&list);
	return count;
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

static void put_each(struct strings *to, const char *name, const struct strings *from)
{
	for (size_t i = 0; i < from->count; i++)
		strings_take(to, mem_printf("%s=%s", name, from->items[i]));
}

static void put_text(struct strings *to, const char *name, const char *text)
{
	if (text != NULL)
		strings_take(to, mem_printf("%s=%s", name, text));
}

char *pack_network(const struct sandbox *sandbox)
{
	const struct sandbox_network *network = &sandbox->network;
	struct strings list = {0};
	char *text;

	put_each(&list, "allow", &sandbox->spec.allow);
	put_each(&list, "allow_cidr", &sandbox->spec.allow_cidrs);
	put_text(&list, "wanted_mode", sandbox->spec.network_mode);
	put_each(&list, "approved", &network->approved);
	put_text(&list, "level", network->level);
	put_text(&list, "mode", network->mode);
	put_text(&list, "fingerprint", network->fingerprint);
	put_text(&list, "policy", network->policy);
	if (network->generation > 0)
		strings_take(&list, mem_printf("generation=%llu",
		                               (unsigned long long)network->generation));
	text = pack_strings(&list);
	strings_done(&list);
	return text;
}

static void take_network(const char *name, const char *value, struct sandbox *sandbox)
{
	struct sandbox_network *network = &sandbox->network;
	const struct {
		const char *name;
		char **text;
		struct strings *list;
	} members[] = {
		{"allow", NULL, &sandbox->spec.allow},
		{"allow_cidr", NULL, &sandbox->spec.allow_cidrs},
		{"wanted_mode", &sandbox->spec.network_mode, NULL},
		{"approved", NULL, &network->approved},
		{"level", &network->level, NULL},
		{"mode", &network->mode, NULL},
		{"fingerprint", &network->fingerprint, NULL},
		{"policy", &network->policy, NULL},
	};
	uint64_t number;

	if (str_eq(name, "generation") && str_to_u64(value, &number) == 0)
		network->generation = number;
	for (size_t i = 0; i < ARRAY_LEN(members); i++) {
		if (!str_eq(members[i].name, name))
			continue;
		if (members[i].list != NULL)
			strings_add(members[i].list, value);
		else
			spec_set(members[i].text, value);
	}
}

void unpack_network(const char *text, struct sandbox *sandbox)
{
	struct strings list = {0};

	unpack_strings(text, &list);
	for (size_t i = 0; i < list.count; i++) {
		char *equals = strchr(list.items[i], '=');

		if (equals == NULL)
			continue;
		*equals = '\0';
		take_network(list.items[i], equals + 1, sandbox);
	}
	strings_done(&list);
}

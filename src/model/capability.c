#include "model/capability.h"

#include "base/mem.h"
#include "base/opt.h"
#include "base/str.h"

static const struct {
	const char *name;
	const char *network;
	const char *about;
} builtin[] = {
#define CAPABILITY(name, network, about) {name, network, about},
#include "model/capabilities.def"
#undef CAPABILITY
};

/* The lists of a definition and where they go. */
static const struct {
	size_t in_capability, in_rights, in_wish;
} lists[] = {
#define RIGHT(field, text, about)                                                                  \
	{offsetof(struct capability, field), offsetof(struct rights, field),                       \
	 offsetof(struct wish, field)},
#include "model/rights.def"
#undef RIGHT
};

static struct strings *list_of(struct capability *capability, size_t index)
{
	return (struct strings *)((char *)capability + lists[index].in_capability);
}

static int find_builtin(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(builtin); i++) {
		if (str_eq(builtin[i].name, name))
			return (int)i;
	}
	return -1;
}

static struct capability *find(const struct capabilities *list, const char *name)
{
	for (size_t i = 0; list && i < list->count; i++) {
		if (str_eq(list->items[i].name, name))
			return &list->items[i];
	}
	return NULL;
}

static void capability_done(struct capability *capability)
{
	free(capability->name);
	free(capability->about);
	strings_done(&capability->network);
	strings_done(&capability->scopes);
	for (size_t i = 0; i < ARRAY_LEN(lists); i++)
		strings_done(list_of(capability, i));
}

void capabilities_done(struct capabilities *list)
{
	for (size_t i = 0; i < list->count; i++)
		capability_done(&list->items[i]);
	free(list->items);
	*list = (struct capabilities){0};
}

struct capability *capabilities_enter(struct capabilities *list, const char *name)
{
	struct capability *known = find(list, name);

	if (known || find_builtin(name) >= 0)
		return known;
	list->items = mem_resize(list->items, list->count + 1, sizeof(*list->items));
	list->items[list->count] = (struct capability){.name = mem_strdup(name)};
	return &list->items[list->count++];
}

static int add_rules(struct reach *reach, const struct strings *rules, struct err *err)
{
	for (size_t i = 0; i < rules->count; i++) {
		if (reach_add(reach, rules->items[i], err) < 0)
			return -1;
	}
	return 0;
}

int capability_check(const struct capability *capability, const struct strings *objects,
                     struct err *err)
{
	struct scopes scopes = {0};
	struct reach reach = {0};
	int r = add_rules(&reach, &capability->network, err);

	if (r == 0 && capability->scopes.count > 0)
		r = scopes_parse(&capability->scopes, objects, &scopes, err);
	scopes_done(&scopes);
	reach_done(&reach);
	return r;
}

/* --- compiling --- */

void demand_done(struct demand *demand)
{
	rights_done(&demand->rights);
	*demand = (struct demand){0};
}

static void take_lists(struct demand *demand, struct capability *capability)
{
	for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
		const struct strings *from = list_of(capability, i);
		struct allowed *to =
			(struct allowed *)((char *)&demand->rights + lists[i].in_rights);

		for (size_t j = 0; j < from->count; j++) {
			if (!strings_has(&to->items, from->items[j]))
				strings_add(&to->items, from->items[j]);
		}
		if (from->count > 0)
			*(const struct allowed **)((char *)&demand->wish + lists[i].in_wish) = to;
	}
}

static int take_defined(struct demand *demand, struct capability *capability,
                        const struct strings *objects, struct err *err)
{
	struct scopes scopes = {0};

	if (capability->scopes.count > 0) {
		if (scopes_parse(&capability->scopes, objects, &scopes, err) < 0)
			return -1;
		scopes_add(&demand->rights.scopes, &scopes);
		scopes_done(&scopes);
		demand->wish.scopes = &demand->rights.scopes;
	}
	take_lists(demand, capability);
	return add_rules(&demand->rights.network, &capability->network, err);
}

static int take_builtin(struct demand *demand, int index, struct err *err)
{
	const char *at = builtin[index].network;

	while (*at != '\0') {
		size_t len = strcspn(at, " ");
		auto_free char *rule = mem_strndup(at, len);

		if (reach_add(&demand->rights.network, rule, err) < 0)
			return -1;
		at += len;
		at += strspn(at, " ");
	}
	return 0;
}

static int refuse(const char *word, const struct capabilities *defined, struct err *err)
{
	size_t more = defined ? defined->count : 0, count = 0;
	auto_free const char **names =
		mem_resize(NULL, ARRAY_LEN(builtin) + more + 1, sizeof(*names));
	const char *near;
	char shown[64];

	for (size_t i = 0; i < ARRAY_LEN(builtin); i++)
		names[count++] = builtin[i].name;
	for (size_t i = 0; i < more; i++)
		names[count++] = defined->items[i].name;
	names[count] = NULL;
	near = opt_nearest(word, names);
	str_escape(shown, sizeof(shown), word, strlen(word));
	return err_set(err, ERR_INVALID, "unknown capability '%s'%s%s%s", shown,
	               near ? " (did you mean '" : "", near ? near : "", near ? "'?)" : "");
}

static int take(struct demand *demand, const char *word, const struct capabilities *defined,
                const struct strings *objects, struct err *err)
{
	int index = find_builtin(word);
	struct capability *capability = find(defined, word);

	if (index >= 0)
		return take_builtin(demand, index, err);
	if (capability)
		return take_defined(demand, capability, objects, err);
	return refuse(word, defined, err);
}

int capability_compile(const struct strings *words, const struct capabilities *defined,
                       const struct strings *objects, struct demand *ret, struct err *err)
{
	*ret = (struct demand){0};
	ret->wish.network = &ret->rights.network;
	for (size_t i = 0; i < words->count; i++) {
		if (take(ret, words->items[i], defined, objects, err) < 0) {
			demand_done(ret);
			return -1;
		}
	}
	return 0;
}

const char *capability_at(const struct capabilities *defined, size_t index, const char **ret_about,
                          char **ret_network)
{
	const struct capability *capability;

	if (index < ARRAY_LEN(builtin)) {
		*ret_about = builtin[index].about;
		*ret_network = mem_strdup(builtin[index].network);
		return builtin[index].name;
	}
	index -= ARRAY_LEN(builtin);
	if (!defined || index >= defined->count)
		return NULL;
	capability = &defined->items[index];
	*ret_about = capability->about ? capability->about : "";
	*ret_network = strings_join(&capability->network);
	return capability->name;
}

/* The network that capabilities stand for, as an environment that needs nobody to write it. */
#include "base/mem.h"
#include "base/str.h"
#include "model/capability.h"
#include "model/environment.h"
#include "model/spec.h"

enum { NAME_MOST = 512 };

bool capability_is_network(const char *name)
{
	return str_has_prefix(name, CAPABILITY_NETWORK);
}

char *capability_network_name(const struct strings *words)
{
	char *name = mem_strdup(CAPABILITY_NETWORK);

	for (size_t i = 0; i < words->count; i++) {
		char *longer = mem_printf("%s%s%s", name, i ? "," : "", words->items[i]);

		free(name);
		name = longer;
	}
	return name;
}

static int read_name(const char *name, struct strings *ret, struct err *err)
{
	const char *at = name + strlen(CAPABILITY_NETWORK);

	if (strlen(name) > NAME_MOST)
		return err_set(err, ERR_INVALID, "the name of a network has at most %d bytes",
		               NAME_MOST);
	while (*at) {
		size_t len = strcspn(at, ",");

		if (len > 0)
			strings_take(ret, mem_strndup(at, len));
		at += len;
		at += *at == ',';
	}
	return 0;
}

/* One entry for each port, as lists of environments have them. */
static void add_entries(struct strings *list, const struct reach_rule *rule)
{
	if (rule->ports_any)
		strings_add(list, rule->pattern);
	for (size_t i = 0; !rule->ports_any && i < rule->port_count; i++)
		strings_take(list, mem_printf("%s:%u", rule->pattern, rule->ports[i]));
}

static void add_ports(uint64_t *ports, size_t *count, const struct reach_rule *rule)
{
	for (size_t i = 0; i < rule->port_count; i++) {
		size_t at = 0;

		while (at < *count && ports[at] != rule->ports[i])
			at++;
		if (at == *count && *count < ENVIRONMENT_PORTS)
			ports[(*count)++] = rule->ports[i];
	}
}

/* The ports of "every name" are those of the environment. What names no ports of its own then has
 * these, too: less than it could have, never more. */
static int fill(struct environment *environment, const struct reach *reach, struct err *err)
{
	uint64_t ports[ENVIRONMENT_PORTS];
	bool is_open = false;
	size_t count = 0;

	environment->level = reach->count > 0 ? ENVIRONMENT_CUSTOM : ENVIRONMENT_NONE;
	for (size_t i = 0; i < reach->count; i++) {
		const struct reach_rule *rule = &reach->rules[i];

		is_open = is_open || rule->ports_any;
		if (str_eq(rule->pattern, "*")) {
			environment->domains_any = true;
			environment->ports_any = environment->ports_any || rule->ports_any;
			add_ports(ports, &count, rule);
		} else {
			add_entries(strchr(rule->pattern, '/') ? &environment->cidrs
			                                       : &environment->domains,
			            rule);
		}
	}
	if (!environment->domains_any)
		environment->ports_any = is_open;
	if (count > 0 && environment_set_ports(environment, ports, count, err) < 0)
		return -1;
	return environment_normalise(environment, err);
}

int capability_network(const char *name, const struct capabilities *defined,
                       const struct strings *objects, struct environment **ret, struct err *err)
{
	auto_(environment_freep) struct environment *environment = environment_new(name);
	struct strings words = {0};
	struct demand demand = {0};
	int r = read_name(name, &words, err);

	if (r == 0)
		r = capability_compile(&words, defined, objects, &demand, err);
	environment->visibility = VISIBILITY_GLOBAL;
	spec_set(&environment->origin, "built-in");
	if (r == 0)
		r = fill(environment, &demand.rights.network, err);
	demand_done(&demand);
	strings_done(&words);
	if (r == 0)
		*ret = take_ptr(environment);
	return r;
}

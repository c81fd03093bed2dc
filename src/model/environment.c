#include "model/environment.h"

#include <stdlib.h>
#include <string.h>

#include "base/addr.h"
#include "base/id.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/str.h"
#include "model/domain.h"

static const char *const trusted[] = {
#define TRUSTED(kind, entry) entry,
#include "model/trusted.def"
#undef TRUSTED
	NULL,
};

static const char *const level_names[] = {
#define LEVEL(level, text, about) text,
#include "model/levels.def"
#undef LEVEL
};

static const char *const mode_names[] = {
#define MODE(mode, text, about) text,
#include "model/levels.def"
#undef MODE
};

#define COMMON_PORTS .ports = {22, 80, 443}, .port_count = 3

/* Written out: they are shared and never freed. */
static const struct environment builtins[] = {
	{
		.name = (char *)"none",
		.origin = (char *)"built-in",
		.level = ENVIRONMENT_NONE,
		.visibility = VISIBILITY_GLOBAL,
		COMMON_PORTS,
	},
	{
		.name = (char *)"trusted",
		.origin = (char *)"built-in",
		.level = ENVIRONMENT_TRUSTED,
		.visibility = VISIBILITY_GLOBAL,
		COMMON_PORTS,
	},
	{
		.name = (char *)"full",
		.origin = (char *)"built-in",
		.level = ENVIRONMENT_FULL,
		.visibility = VISIBILITY_GLOBAL,
		.ports_any = true,
	},
};

struct environment *environment_new(const char *name)
{
	struct environment *environment = mem_new(struct environment);

	*environment = (struct environment){
		.level = ENVIRONMENT_NONE, .visibility = VISIBILITY_PRIVATE, COMMON_PORTS};
	environment->name = mem_strdup(name);
	environment->origin = mem_strdup("api");
	return environment;
}

static char *copy_text(const char *text)
{
	return text != NULL ? mem_strdup(text) : NULL;
}

struct environment *environment_copy(const struct environment *environment)
{
	struct environment *copy = mem_new(struct environment);
	struct strings *lists[] = {&copy->domains, &copy->denied_domains, &copy->cidrs,
	                           &copy->denied_cidrs, &copy->variables};

	*copy = *environment;
	copy->name = copy_text(environment->name);
	copy->origin = copy_text(environment->origin);
	copy->owner = copy_text(environment->owner);
	copy->team = copy_text(environment->team);
	for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
		struct strings borrowed = *lists[i];

		*lists[i] = (struct strings){0};
		strings_copy(lists[i], &borrowed);
	}
	return copy;
}

void environment_free(struct environment *environment)
{
	if (environment == NULL)
		return;
	free(environment->name);
	free(environment->origin);
	free(environment->owner);
	free(environment->team);
	strings_done(&environment->domains);
	strings_done(&environment->denied_domains);
	strings_done(&environment->cidrs);
	strings_done(&environment->denied_cidrs);
	strings_done(&environment->variables);
	free(environment);
}

void environment_freep(struct environment **environment)
{
	environment_free(*environment);
	*environment = NULL;
}

int environment_check_name(const char *name, struct err *err)
{
	char shown[64];

	if (environment_builtin(name) != NULL)
		return err_set(err, ERR_CONFLICT,
		               "environment '%s' is built in: choose another name", name);
	if (str_is_name(name) && !id_is_valid(name, "en"))
		return 0;
	str_escape(shown, sizeof(shown), name, strlen(name));
	return err_set(err, ERR_INVALID,
	               "'%s' is not a name for an environment: at most %d of a-z 0-9 . _ -", shown,
	               LIMIT_NAME_LEN);
}

bool environment_parse_cidr(const char *text, struct addr_cidr *ret, uint16_t *ret_port)
{
	const char *slash = strchr(text, '/');
	const char *colon = slash != NULL ? strchr(slash, ':') : NULL;
	char range[ADDR_CIDR_TEXT];
	uint64_t port = 0;
	size_t len = colon != NULL ? (size_t)(colon - text) : strlen(text);

	if (len >= sizeof(range) ||
	    (colon != NULL && (str_to_u64(colon + 1, &port) < 0 || port < 1 || port > UINT16_MAX)))
		return false;
	memcpy(range, text, len);
	range[len] = '\0';
	*ret_port = (uint16_t)port;
	return addr_parse_cidr(range, ret);
}

int environment_parse_cidrs(const char *what, const struct strings *list, struct strings *ret,
                            struct err *err)
{
	size_t bad[DOMAIN_LIST], bad_count = 0;
	char positions[STRINGS_POSITIONS], shown[40];
	struct strings made = {0};

	if (list->count > DOMAIN_LIST)
		return err_set(err, ERR_INVALID, "%s: %zu entries are more than %d", what,
		               list->count, DOMAIN_LIST);
	for (size_t i = 0; i < list->count; i++) {
		char range[ADDR_CIDR_TEXT], text[ADDR_CIDR_TEXT + 8];
		struct addr_cidr cidr;
		uint16_t port;

		if (!environment_parse_cidr(list->items[i], &cidr, &port)) {
			bad[bad_count++] = i;
			continue;
		}
		addr_format_cidr(range, sizeof(range), &cidr);
		snprintf(text, sizeof(text), port != 0 ? "%s:%u" : "%s", range, port);
		if (!strings_has(&made, text))
			strings_add(&made, text);
	}
	if (bad_count == 0) {
		strings_done(ret);
		*ret = made;
		return 0;
	}
	strings_done(&made);
	strings_format_positions(positions, sizeof(positions), bad, bad_count);
	str_escape(shown, sizeof(shown), list->items[bad[0]], strlen(list->items[bad[0]]));
	return err_set(err, ERR_INVALID, "%s: entry %s: '%s' is not a range such as 10.1.0.0/16",
	               what, positions, shown);
}

static int order_ports(const void *left, const void *right)
{
	return *(const uint16_t *)left - *(const uint16_t *)right;
}

int environment_set_ports(struct environment *environment, const uint64_t *ports, size_t count,
                          struct err *err)
{
	size_t bad[ENVIRONMENT_PORTS], bad_count = 0, kept = 0;
	uint16_t made[ENVIRONMENT_PORTS];
	char positions[STRINGS_POSITIONS];

	if (count > ENVIRONMENT_PORTS)
		return err_set(err, ERR_INVALID, "ports: %zu entries are more than %d", count,
		               ENVIRONMENT_PORTS);
	for (size_t i = 0; i < count; i++) {
		if (ports[i] < 1 || ports[i] > UINT16_MAX)
			bad[bad_count++] = i;
		else
			made[kept++] = (uint16_t)ports[i];
	}
	if (bad_count > 0) {
		strings_format_positions(positions, sizeof(positions), bad, bad_count);
		return err_set(err, ERR_INVALID, "ports: entry %s: not between 1 and 65535",
		               positions);
	}
	if (kept > 0)
		qsort(made, kept, sizeof(made[0]), order_ports);
	environment->ports_any = false;
	environment->port_count = 0;
	for (size_t i = 0; i < kept; i++) {
		if (i == 0 || made[i] != made[i - 1])
			environment->ports[environment->port_count++] = made[i];
	}
	return 0;
}

/* Members that a level gives a meaning to. Others are refused: they would be ignored. */
static int check_level(const struct environment *environment, struct err *err)
{
	const char *level = environment_level_name(environment->level);
	bool is_custom = environment->level == ENVIRONMENT_CUSTOM;

	if (!is_custom && (environment->domains.count > 0 || environment->domains_any))
		return err_set(err, ERR_INVALID,
		               "allowedDomains has no meaning under level %s: use custom", level);
	if (!is_custom && environment->include_default)
		return err_set(err, ERR_INVALID,
		               "includeDefaultDomains has no meaning under level %s: use custom",
		               level);
	if (environment->level != ENVIRONMENT_NONE)
		return 0;
	if (environment->cidrs.count > 0 || environment->denied_cidrs.count > 0 ||
	    environment->denied_domains.count > 0 || environment->mode != ENVIRONMENT_ENFORCE)
		return err_set(err, ERR_INVALID,
		               "level none takes no lists and no mode: use custom");
	return 0;
}

int environment_normalise(struct environment *environment, struct err *err)
{
	if (environment->domains_any && environment->domains.count > 0)
		return err_set(err, ERR_INVALID, "allowedDomains is both null and a list");
	struct {
		const char *what;
		struct strings *list;
		int (*parse)(const char *what, const struct strings *list, struct strings *ret,
		             struct err *err);
	} lists[] = {
		{"allowedDomains", &environment->domains, domain_parse_list},
		{"deniedDomains", &environment->denied_domains, domain_parse_list},
		{"allowedCidrs", &environment->cidrs, environment_parse_cidrs},
		{"deniedCidrs", &environment->denied_cidrs, environment_parse_cidrs},
	};
	struct err all = {0}, one = {0};
	for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
		if (lists[i].parse(lists[i].what, lists[i].list, lists[i].list, &one) < 0)
			err_also(&all, &one);
	}
	if (all.code != ERR_OK) {
		*err = all;
		return -1;
	}
	return check_level(environment, err);
}

struct ownership environment_ownership(const struct environment *environment)
{
	return (struct ownership){
		.owner = environment->owner != NULL ? environment->owner : ACCESS_OPERATOR,
		.team = environment->team != NULL ? environment->team : ACCESS_TEAM,
		.visibility = environment->visibility,
	};
}

bool environment_serves(const struct environment *environment, const char *owner, const char *team)
{
	struct ownership whose = environment_ownership(environment);

	if (whose.visibility == VISIBILITY_GLOBAL)
		return true;
	if (!str_eq(whose.team, team != NULL ? team : ACCESS_TEAM))
		return false;
	return whose.visibility == VISIBILITY_TEAM ||
	       str_eq(whose.owner, owner != NULL ? owner : ACCESS_OPERATOR);
}

const struct environment *environment_builtin_at(size_t index)
{
	return index < ARRAY_LEN(builtins) ? &builtins[index] : NULL;
}

const struct environment *environment_builtin(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(builtins); i++) {
		if (str_eq(builtins[i].name, name))
			return &builtins[i];
	}
	return NULL;
}

const char *environment_level_name(enum environment_level level)
{
	return level < ENVIRONMENT_LEVEL_COUNT_ ? level_names[level] : "none";
}

const char *environment_mode_name(enum environment_mode mode)
{
	return mode < ENVIRONMENT_MODE_COUNT_ ? mode_names[mode] : "enforce";
}

bool environment_level_from(const char *text, enum environment_level *ret)
{
	for (size_t i = 0; i < ARRAY_LEN(level_names); i++) {
		if (!str_eq(level_names[i], text))
			continue;
		*ret = (enum environment_level)i;
		return true;
	}
	return false;
}

bool environment_mode_from(const char *text, enum environment_mode *ret)
{
	for (size_t i = 0; i < ARRAY_LEN(mode_names); i++) {
		if (!str_eq(mode_names[i], text))
			continue;
		*ret = (enum environment_mode)i;
		return true;
	}
	return false;
}

const char *environment_trusted_at(size_t index)
{
	return index < ARRAY_LEN(trusted) ? trusted[index] : NULL;
}

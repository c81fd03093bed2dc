#include "api/decode.h"
#include "api/encode.h"
#include "api/environments.h"
#include "api/schema.h"
#include "base/str.h"
#include "model/policy.h"

static json_t *list_of(const struct strings *list)
{
	json_t *items = json_array();

	for (size_t i = 0; i < list->count; i++)
		json_array_append_new(items, json_string(list->items[i]));
	return items;
}

static json_t *ports_of(const struct environment *environment)
{
	json_t *items = json_array();

	for (size_t i = 0; i < environment->port_count; i++)
		json_array_append_new(items, json_integer(environment->ports[i]));
	return items;
}

static json_t *cap_of(uint64_t bytes)
{
	return bytes ? json_integer((json_int_t)MIN(bytes, (uint64_t)INT64_MAX)) : json_null();
}

/* What it comes to: every name it allows, and the fingerprint of it all. */
static void put_effect(json_t *object, const struct environment *environment)
{
	struct policy policy;
	char fingerprint[SHA256_TEXT];
	json_t *domains;

	/* One of the store was normalised when it was written; a rule of a later version is not. */
	if (policy_compile(environment, NULL, &policy, NULL) < 0) {
		json_object_set_new(object, "effectiveDomains", json_array());
		json_object_set_new(object, "fingerprint", json_null());
		return;
	}
	domains = policy.names_any ? json_null() : json_array();
	for (size_t i = 0; !policy.names_any && i < policy.rule_count; i++) {
		char text[DOMAIN_ENTRY_TEXT];

		if (policy.rules[i].is_deny)
			continue;
		policy_rule_entry(&policy.rules[i], text, sizeof(text));
		json_array_append_new(domains, json_string(text));
	}
	policy_fingerprint(&policy, fingerprint);
	json_object_set_new(object, "effectiveDomains", domains);
	json_object_set_new(object, "fingerprint", json_string(fingerprint));
	policy_done(&policy);
}

json_t *environment_encode(const struct environment *environment)
{
	json_t *object = json_object();

	json_object_set_new(object, "id", encode_text(environment->id.text));
	json_object_set_new(object, "name", encode_text(environment->name));
	json_object_set_new(object, "origin", encode_text(environment->origin));
	json_object_set_new(object, "level",
	                    json_string(environment_level_name(environment->level)));
	json_object_set_new(object, "mode", json_string(environment_mode_name(environment->mode)));
	json_object_set_new(object, "allowedDomains",
	                    environment->domains_any || environment->level == ENVIRONMENT_FULL
	                            ? json_null()
	                            : list_of(&environment->domains));
	json_object_set_new(object, "includeDefaultDomains",
	                    json_boolean(environment->include_default));
	json_object_set_new(object, "deniedDomains", list_of(&environment->denied_domains));
	json_object_set_new(object, "ports",
	                    environment->ports_any ? json_null() : ports_of(environment));
	json_object_set_new(object, "allowedCidrs", list_of(&environment->cidrs));
	json_object_set_new(object, "deniedCidrs", list_of(&environment->denied_cidrs));
	json_object_set_new(object, "egressBytes", cap_of(environment->egress_bytes));
	json_object_set_new(object, "egressRate", cap_of(environment->egress_rate));
	json_object_set_new(object, "visibility",
	                    json_string(visibility_name(environment->visibility)));
	json_object_set_new(object, "owner", encode_text(environment->owner));
	json_object_set_new(object, "team", encode_text(environment->team));
	json_object_set_new(object, "variables", list_of(&environment->variables));
	put_effect(object, environment);
	json_object_set_new(object, "createdAt", encode_time(environment->created_ms));
	json_object_set_new(object, "updatedAt", encode_time(environment->updated_ms));
	return object;
}

/* --- reading --- */

static int take_words(const json_t *body, struct environment *environment, struct err *err)
{
	const char *level = json_string_value(json_object_get(body, "level"));
	const char *mode = json_string_value(json_object_get(body, "mode"));
	const char *visibility = json_string_value(json_object_get(body, "visibility"));

	if (level && !environment_level_from(level, &environment->level))
		return err_set(err, ERR_INVALID, "'level' is none, trusted, custom or full");
	if (mode && !environment_mode_from(mode, &environment->mode))
		return err_set(err, ERR_INVALID, "'mode' is enforce, record or ask");
	return visibility ? visibility_parse(visibility, &environment->visibility, err) : 0;
}

static int take_ports(const json_t *body, struct environment *environment, struct err *err)
{
	const json_t *list = json_object_get(body, "ports");
	uint64_t ports[ENVIRONMENT_PORTS];
	size_t count = json_array_size(list);

	if (!list)
		return 0;
	environment->ports_any = json_is_null(list);
	environment->port_count = 0;
	if (environment->ports_any)
		return 0;
	if (count > ENVIRONMENT_PORTS)
		return err_set(err, ERR_INVALID, "ports: %zu entries are more than %d", count,
		               ENVIRONMENT_PORTS);
	for (size_t i = 0; i < count; i++)
		ports[i] = (uint64_t)json_integer_value(json_array_get(list, i));
	return environment_set_ports(environment, ports, count, err);
}

/* null, 0 and "max" are no cap. */
static int take_cap(const json_t *body, const char *name, uint64_t *bytes, struct err *err)
{
	const json_t *value = json_object_get(body, name);

	if (!value)
		return 0;
	*bytes = 0;
	if (json_is_null(value))
		return 0;
	if (json_is_string(value)) {
		if (str_to_bytes(json_string_value(value), bytes) < 0)
			return err_set(err, ERR_INVALID, "'%s' is not a size such as \"64M\"",
			               name);
		if (*bytes == UINT64_MAX)
			*bytes = 0;
		return 0;
	}
	if (!json_is_integer(value) || json_integer_value(value) < 0)
		return err_set(err, ERR_INVALID, "'%s' is not a number of bytes", name);
	*bytes = (uint64_t)json_integer_value(value);
	return 0;
}

int environment_decode(const json_t *body, struct environment *environment, struct err *err)
{
	const json_t *domains = json_object_get(body, "allowedDomains");
	const json_t *defaults = json_object_get(body, "includeDefaultDomains");
	struct err lists = {0};

	if (take_words(body, environment, err) < 0 ||
	    take_cap(body, "egressBytes", &environment->egress_bytes, err) < 0 ||
	    take_cap(body, "egressRate", &environment->egress_rate, err) < 0)
		return -1;
	if (defaults)
		environment->include_default = json_is_true(defaults);
	if (domains) {
		environment->domains_any = json_is_null(domains);
		strings_done(&environment->domains);
	}
	decode_list(body, "allowedDomains", &environment->domains);
	decode_list(body, "deniedDomains", &environment->denied_domains);
	decode_list(body, "allowedCidrs", &environment->cidrs);
	decode_list(body, "deniedCidrs", &environment->denied_cidrs);
	/* Whoever sent it hears of every bad entry at once. */
	int ports = take_ports(body, environment, err);
	if (environment_normalise(environment, &lists) >= 0)
		return ports;
	if (ports < 0)
		err_also(err, &lists);
	else
		*err = lists;
	return -1;
}

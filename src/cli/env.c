/* `cloche env`: create, list, show, set, rm, learn. */
#include <jansson.h>

#include "base/mem.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/spec.h"

struct wish {
	const char *level, *mode, *visibility, *egress_bytes, *egress_rate;
	bool any_domain, any_port, defaults, no_defaults;
	struct opt_list allow, deny, ports, cidrs, deny_cidrs, variables, drop, unset;
};

static void wish_done(struct wish *wish)
{
	struct opt_list *lists[] = {&wish->allow, &wish->deny,       &wish->ports,
	                            &wish->cidrs, &wish->deny_cidrs, &wish->variables,
	                            &wish->drop,  &wish->unset};

	for (size_t i = 0; i < ARRAY_LEN(lists); i++)
		opt_list_done(lists[i]);
}

static int put_text(json_t *body, const char *key, const char *text, struct err *err)
{
	if (text != NULL && json_object_set_new(body, key, json_string(text)) < 0)
		return err_set(err, ERR_INVALID, "%s is not valid UTF-8", key);
	return 0;
}

/* The entries of `more` that the list does not have. */
static int add_entries(json_t *list, const struct opt_list *more, struct err *err)
{
	for (size_t i = 0; i < more->count; i++) {
		json_t *entry = json_string(more->items[i]);
		size_t index;
		json_t *known;
		bool is_there = false;

		if (entry == NULL)
			return err_set(err, ERR_INVALID, "an entry is not valid UTF-8");
		json_array_foreach (list, index, known)
			is_there = is_there || json_equal(known, entry);
		if (!is_there)
			(void)json_array_append(list, entry); /* only fails without memory */
		json_decref(entry);
	}
	return 0;
}

/* What `drop` names; how many were there. */
static size_t drop_entries(json_t *list, const struct opt_list *drop)
{
	size_t dropped = 0;

	for (size_t i = json_array_size(list); i > 0; i--) {
		const char *entry = json_string_value(json_array_get(list, i - 1));

		for (size_t k = 0; entry != NULL && k < drop->count; k++) {
			if (!str_eq(drop->items[k], entry))
				continue;
			(void)json_array_remove(list, i - 1); /* the index is there */
			dropped++;
			break;
		}
	}
	return dropped;
}

/* A list of the body: what is added and what goes. */
struct list_change {
	const char *key;
	const struct opt_list *more, *drop;
};

/* before is NULL for a new environment. */
static int put_list(json_t *body, const json_t *before, const struct list_change *change,
                    size_t *dropped, struct err *err)
{
	const json_t *old = json_object_get(before, change->key);
	auto_json json_t *list = json_is_array(old) ? json_deep_copy(old) : json_array();
	size_t less = drop_entries(list, change->drop);

	*dropped += less;
	if (change->more->count == 0 && less == 0)
		return 0;
	if (add_entries(list, change->more, err) < 0)
		return -1;
	(void)json_object_set(body, change->key, list); /* only fails without memory */
	return 0;
}

static int put_ports(json_t *body, const struct wish *wish, struct err *err)
{
	json_t *ports;

	if (wish->any_port)
		(void)json_object_set_new(body, "ports", json_null());
	if (wish->ports.count == 0)
		return 0;
	ports = json_array();
	(void)json_object_set_new(body, "ports", ports);
	for (size_t i = 0; i < wish->ports.count; i++) {
		uint64_t port;

		if (str_to_u64(wish->ports.items[i], &port) < 0 || port > UINT16_MAX)
			return err_set(err, ERR_INVALID,
			               "--port '%s' is not a number of 1 to 65535",
			               wish->ports.items[i]);
		(void)json_array_append_new(ports, json_integer((json_int_t)port));
	}
	return 0;
}

static int put_lists(json_t *body, const json_t *before, const struct wish *wish, struct err *err)
{
	const struct list_change lists[] = {
		{"allowedDomains", &wish->allow, &wish->drop},
		{"deniedDomains", &wish->deny, &wish->drop},
		{"allowedCidrs", &wish->cidrs, &wish->drop},
		{"deniedCidrs", &wish->deny_cidrs, &wish->drop},
	};
	size_t dropped = 0;

	for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
		if (put_list(body, before, &lists[i], &dropped, err) < 0)
			return -1;
	}
	if (dropped < wish->drop.count)
		return err_set(err, ERR_NOT_FOUND,
		               "--drop names something that no list has; 'cloche env show' "
		               "prints what they have");
	return 0;
}

static int make_body(json_t *body, const json_t *before, const struct wish *wish, struct err *err)
{
	const struct {
		const char *key, *text;
	} texts[] = {
		{"level", wish->level},
		{"mode", wish->mode},
		{"visibility", wish->visibility},
		{"egressBytes", wish->egress_bytes},
		{"egressRate", wish->egress_rate},
	};

	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		if (put_text(body, texts[i].key, texts[i].text, err) < 0)
			return -1;
	}
	if (put_lists(body, before, wish, err) < 0 || put_ports(body, wish, err) < 0)
		return -1;
	if (wish->any_domain)
		(void)json_object_set_new(body, "allowedDomains", json_null());
	if (wish->defaults || wish->no_defaults)
		(void)json_object_set_new(body, "includeDefaultDomains",
		                          json_boolean(wish->defaults));
	return 0;
}

static void print_name(const struct cli *cli, const json_t *environment)
{
	if (!output_json(cli, environment))
		output_line(client_str(environment, "name"));
}

int cmd_env_create(struct cli *cli)
{
	auto_(wish_done) struct wish wish = {0};
	const struct opt opts[] = {
#define ENV_OPT(name, letter, kind, member, arg, help)                                             \
	{name, letter, kind, &wish.member, arg, help},
#include "cli/env.def"
#undef ENV_OPT
		{0},
	};
	int r = cli_parse(cli, opts, 1, 1);
	auto_json json_t *body = json_object();
	auto_json json_t *made = NULL;
	json_t *variables = json_object();

	(void)json_object_set_new(body, "variables", variables);
	if (r <= 0)
		return r;
	if (put_text(body, "name", cli->argv[0], &cli->err) < 0 ||
	    make_body(body, NULL, &wish, &cli->err) < 0 ||
	    cli_spec_add_env(variables, &wish.variables, &cli->err) < 0)
		return -1;
	if (client_json(cli, "POST", "/api/v1/environments", body, &made) < 0)
		return -1;
	print_name(cli, made);
	return 0;
}

static int set_variables(struct cli *cli, const struct wish *wish)
{
	auto_json json_t *values = json_object();
	const char *name;
	json_t *value;

	if (cli_spec_add_env(values, &wish->variables, &cli->err) < 0)
		return -1;
	json_object_foreach (values, name, value) {
		auto_free char *target =
			client_target("/environments/%s/variables/%s", cli->argv[0], name);
		auto_json json_t *body = json_pack("{s:O}", "value", value);

		if (client_json(cli, "PUT", target, body, NULL) < 0)
			return -1;
	}
	for (size_t i = 0; i < wish->unset.count; i++) {
		auto_free char *target = client_target("/environments/%s/variables/%s",
		                                       cli->argv[0], wish->unset.items[i]);

		if (client_json(cli, "DELETE", target, NULL, NULL) < 0)
			return -1;
	}
	return 0;
}

int cmd_env_set(struct cli *cli)
{
	auto_(wish_done) struct wish wish = {0};
	const struct opt opts[] = {
#define ENV_OPT(name, letter, kind, member, arg, help)                                             \
	{name, letter, kind, &wish.member, arg, help},
#define SET_OPT ENV_OPT
#include "cli/env.def"
#undef SET_OPT
#undef ENV_OPT
		{0},
	};
	int r = cli_parse(cli, opts, 1, 1);
	auto_json json_t *body = json_object();
	auto_json json_t *before = NULL;
	auto_json json_t *after = NULL;

	if (r <= 0)
		return r;
	auto_free char *target = client_target("/environments/%s", cli->argv[0]);

	if (client_get(cli, target, &before) < 0 || make_body(body, before, &wish, &cli->err) < 0)
		return -1;
	if (json_object_size(body) == 0 && wish.variables.count == 0 && wish.unset.count == 0)
		return err_set(&cli->err, ERR_INVALID,
		               "nothing to change; see cloche env set --help");
	if (json_object_size(body) > 0 && client_json(cli, "PATCH", target, body, NULL) < 0)
		return -1;
	if (set_variables(cli, &wish) < 0 || client_get(cli, target, &after) < 0)
		return -1;
	print_name(cli, after);
	return 0;
}

static void count_cell(struct output_table *table, const json_t *list, const char *otherwise)
{
	auto_free char *text = json_is_array(list) ? mem_printf("%zu", json_array_size(list))
	                                           : mem_strdup(otherwise);

	output_cell(table, text);
}

int cmd_env_list(struct cli *cli)
{
	static const char *const titles[] = {"NAME",    "LEVEL",     "MODE", "ORIGIN",
	                                     "DOMAINS", "VARIABLES", NULL};
	int r = cli_parse(cli, NULL, 0, 0);
	struct output_table table;
	auto_json json_t *page = NULL;
	size_t index;
	json_t *item;

	if (r <= 0)
		return r;
	if (client_get(cli, "/api/v1/environments?limit=1000", &page) < 0)
		return -1;
	const json_t *items = json_object_get(page, "items");

	if (output_json(cli, items))
		return 0;
	output_table_init(&table, titles);
	json_array_foreach (items, index, item) {
		output_cell(&table, client_str(item, "name"));
		output_cell(&table, client_str(item, "level"));
		output_cell(&table, client_str(item, "mode"));
		output_cell(&table, client_str(item, "origin"));
		count_cell(&table, json_object_get(item, "effectiveDomains"), "all");
		count_cell(&table, json_object_get(item, "variables"), "0");
	}
	output_table_print(&table);
	return 0;
}

static void print_list(const char *name, const json_t *list, const char *if_null)
{
	size_t index;
	json_t *item;

	if (json_is_null(list))
		output_fact(name, "%s", if_null);
	json_array_foreach (list, index, item) {
		if (json_is_integer(item))
			output_fact(name, "%lld", (long long)json_integer_value(item));
		else
			output_fact(name, "%s", json_string_value(item));
	}
}

static void print_environment(const json_t *environment)
{
	static const char *const facts[] = {"name",        "id",        "origin",
	                                    "level",       "mode",      "visibility",
	                                    "fingerprint", "createdAt", "updatedAt"};
	static const char *const caps[] = {"egressBytes", "egressRate"};

	for (size_t i = 0; i < ARRAY_LEN(facts); i++)
		output_fact(facts[i], "%s", client_str(environment, facts[i]));
	for (size_t i = 0; i < ARRAY_LEN(caps); i++) {
		char size[32];

		if (client_u64(environment, caps[i]) == 0)
			continue;
		str_format_bytes(size, sizeof(size), client_u64(environment, caps[i]));
		output_fact(caps[i], "%s", size);
	}
	print_list("port", json_object_get(environment, "ports"), "any");
	print_list("allow", json_object_get(environment, "effectiveDomains"), "any");
	print_list("allow", json_object_get(environment, "allowedCidrs"), "");
	print_list("deny", json_object_get(environment, "deniedDomains"), "");
	print_list("deny", json_object_get(environment, "deniedCidrs"), "");
	print_list("variable", json_object_get(environment, "variables"), "");
}

int cmd_env_show(struct cli *cli)
{
	int r = cli_parse(cli, NULL, 1, 1);
	auto_json json_t *environment = NULL;

	if (r <= 0)
		return r;
	auto_free char *target = client_target("/environments/%s", cli->argv[0]);

	if (client_get(cli, target, &environment) < 0)
		return -1;
	if (!output_json(cli, environment))
		print_environment(environment);
	return 0;
}

int cmd_env_rm(struct cli *cli)
{
	return client_remove_each(cli, "environments");
}

int cmd_env_learn(struct cli *cli)
{
	const char *name = NULL;
	const struct opt opts[] = {
		{"name", 0, OPT_STR, &name, "NAME", "of the new environment"},
		{0},
	};
	int r = cli_parse(cli, opts, 1, 1);
	auto_json json_t *body = NULL;
	auto_json json_t *learned = NULL;

	if (r <= 0)
		return r;
	if (name == NULL)
		return err_set(&cli->err, ERR_INVALID,
		               "--name says what the environment is called");
	auto_free char *target = client_target("/sandboxes/%s/network/learn", cli->argv[0]);

	body = json_pack("{s:s}", "name", name);
	if (body == NULL)
		return err_set(&cli->err, ERR_INVALID, "the name is not valid UTF-8");
	if (client_json(cli, "POST", target, body, &learned) < 0)
		return -1;
	if (output_json(cli, learned))
		return 0;
	output_hosts(json_object_get(learned, "hosts"));
	if (client_u64(learned, "left") > 0)
		cli_note("%llu destinations by UDP are not in it: no rule can name them",
		         (unsigned long long)client_u64(learned, "left"));
	cli_note("environment %s allows this; try: cloche run --network %s -- …", name, name);
	return 0;
}

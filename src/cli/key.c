/* `cloche key`: create, list, rotate, revoke; and `cloche whoami`. */
#include <jansson.h>

#include "base/mem.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/words.h"

/* --- which key: an id, or a name that only one of ours has --- */

static int find_by_name(struct cli *cli, const char *name, char **ret)
{
	auto_json json_t *page = NULL;
	auto_free char *found = NULL;
	size_t index;
	json_t *key;

	if (client_get(cli, "/api/v1/keys?limit=1000", &page) < 0)
		return -1;
	json_array_foreach (json_object_get(page, "items"), index, key) {
		if (!str_eq(client_str(key, "name"), name))
			continue;
		if (found != NULL)
			return err_set(&cli->err, ERR_CONFLICT,
			               "several keys are named '%s': use the id", name);
		found = mem_strdup(client_str(key, "id"));
	}
	if (found == NULL)
		return err_set(&cli->err, ERR_NOT_FOUND, "no key '%s'", name);
	*ret = take_ptr(found);
	return 0;
}

static int find_key(struct cli *cli, const char *given, char **ret)
{
	if (!str_has_prefix(given, "ky_"))
		return find_by_name(cli, given, ret);
	*ret = mem_strdup(given);
	return 0;
}

/* The secret alone on standard output, so that it can be caught; the rest beside it. */
static void print_secret(const struct cli *cli, const json_t *key)
{
	if (output_json(cli, key))
		return;
	output_line(client_str(key, "secret"));
	cli_note("key %s (%s); its secret is not shown again", client_str(key, "name"),
	         client_str(key, "id"));
}

int cmd_key_create(struct cli *cli)
{
	struct opt_list scopes = {0};
	const char *expires = NULL, *principal = NULL, *team = NULL;
	bool is_operator = false;
	const struct opt opts[] = {
		{"scope", 's', OPT_LIST, &scopes, "SCOPE",
	         "read_only, full or like sandboxes:read; may repeat (all of yours)"},
		{"expires", 0, OPT_STR, &expires, "TIME", "ends after this time, like 30d (never)"},
		{"for", 0, OPT_STR, &principal, "MEMBER", "another member of the team"},
		{"team", 0, OPT_STR, &team, "TEAM", "another team"},
		{"operator", 0, OPT_FLAG, &is_operator, NULL, "rights on all teams"},
		{0},
	};
	int r = cli_parse(cli, opts, 1, 1);
	auto_json json_t *body = json_pack("{s:s}", "name", r > 0 ? cli->argv[0] : "");
	auto_json json_t *key = NULL;

	if (r > 0 && body == NULL)
		r = err_set(&cli->err, ERR_INVALID, "the name is not valid UTF-8");
	if (r > 0 && (words_put_list(body, "scopes", &scopes, &cli->err) < 0 ||
	              words_put(body, "expiresIn", expires, &cli->err) < 0 ||
	              words_put(body, "principal", principal, &cli->err) < 0 ||
	              words_put(body, "team", team, &cli->err) < 0))
		r = -1;
	if (r > 0 && is_operator)
		(void)json_object_set_new(body, "operator", json_true()); /* only without memory */
	opt_list_done(&scopes);
	if (r <= 0 || client_json(cli, "POST", "/api/v1/keys", body, &key) < 0)
		return r <= 0 ? r : -1;
	print_secret(cli, key);
	return 0;
}

int cmd_key_list(struct cli *cli)
{
	static const char *const titles[] = {"ID",      "NAME",    "OF",   "TEAM",  "SCOPES",
	                                     "CREATED", "EXPIRES", "USED", "STATE", NULL};
	bool all = false;
	const char *team = NULL;
	const struct opt opts[] = {
		{"all", 'a', OPT_FLAG, &all, NULL, "also those that are revoked"},
		{"team", 0, OPT_STR, &team, "TEAM", "only of this team"},
		{0},
	};
	int r = cli_parse(cli, opts, 0, 0);
	auto_free char *target = client_target("/keys?limit=1000");
	auto_json json_t *page = NULL;
	struct output_table table;
	size_t index;
	json_t *key;

	if (r <= 0)
		return r;
	client_query(&target, "revoked", all ? "1" : NULL);
	client_query(&target, "team", team);
	if (client_get(cli, target, &page) < 0)
		return -1;
	if (output_json(cli, json_object_get(page, "items")))
		return 0;
	output_table_init(&table, titles);
	json_array_foreach (json_object_get(page, "items"), index, key) {
		auto_free char *scopes = words_shorten(json_object_get(key, "scopes"));

		output_cell(&table, client_str(key, "id"));
		output_cell(&table, client_str(key, "name"));
		output_cell(&table, client_str(key, "principal"));
		output_cell(&table, client_str(key, "team"));
		output_cell(&table, scopes);
		output_cell_ago(&table, output_parse_time(client_str(key, "createdAt")));
		output_cell(&table, client_str(key, "expiresAt"));
		output_cell_ago(&table, output_parse_time(client_str(key, "lastUsedAt")));
		output_cell(&table, *client_str(key, "revokedAt") ? "revoked" : "live");
	}
	output_table_print(&table);
	return 0;
}

int cmd_key_rotate(struct cli *cli)
{
	int r = cli_parse(cli, NULL, 1, 1);
	auto_free char *id = NULL;
	auto_json json_t *key = NULL;

	if (r <= 0 || find_key(cli, cli->argv[0], &id) < 0)
		return r <= 0 ? r : -1;
	auto_free char *target = client_target("/keys/%s/rotate", id);

	if (client_json(cli, "POST", target, NULL, &key) < 0)
		return -1;
	print_secret(cli, key);
	return 0;
}

int cmd_key_revoke(struct cli *cli)
{
	int r = cli_parse(cli, NULL, 1, -1);

	if (r <= 0)
		return r;
	for (int i = 0; i < cli->argc; i++) {
		auto_free char *id = NULL;

		if (find_key(cli, cli->argv[i], &id) < 0)
			return -1;
		auto_free char *target = client_target("/keys/%s", id);

		if (client_json(cli, "DELETE", target, NULL, NULL) < 0)
			return err_wrap(&cli->err, "revoke %s", cli->argv[i]);
	}
	return 0;
}

int cmd_whoami(struct cli *cli)
{
	static const char *const facts[] = {"name",       "team",   "role",
	                                    "credential", "source", "expiresAt"};
	int r = cli_parse(cli, NULL, 0, 0);
	auto_json json_t *me = NULL;

	if (r <= 0)
		return r;
	if (client_get(cli, "/api/v1/me", &me) < 0)
		return -1;
	if (output_json(cli, me))
		return 0;
	for (size_t i = 0; i < ARRAY_LEN(facts); i++)
		output_fact(facts[i], "%s", client_str(me, facts[i]));
	if (json_is_true(json_object_get(me, "operator")))
		output_fact("operator", "of this machine");
	auto_free char *scopes = words_shorten(json_object_get(me, "scopes"));

	output_fact("scopes", "%s", scopes);
	return 0;
}

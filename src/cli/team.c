/* `cloche team`: create, list, set, and its members. */
#include <jansson.h>

#include "base/mem.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/words.h"

struct wish {
	struct opt_list scopes;
	const char *floor;
};

#define TEAM_OPTS(wish)                                                                            \
	{"default-scope", 0,       OPT_LIST,                                                       \
	 &(wish).scopes,  "SCOPE", "of keys made without any, like read_only; may repeat"},        \
	{                                                                                          \
		"trust-floor", 0, OPT_STR, &(wish).floor, "RUNTIME",                               \
			"the weakest runtime its sandboxes may have"                               \
	}

/* "none" takes back what was set. */
static int put_wish(json_t *body, const struct wish *wish, struct err *err)
{
	bool is_none = wish->scopes.count == 1 && str_eq(wish->scopes.items[0], "none");

	if (is_none)
		(void)json_object_set_new(body, "defaultScopes", json_null());
	else if (words_put_list(body, "defaultScopes", &wish->scopes, err) < 0)
		return -1;
	if (wish->floor != NULL && str_eq(wish->floor, "none"))
		return json_object_set_new(body, "trustFloor", json_null());
	return words_put(body, "trustFloor", wish->floor, err);
}

static int send_team(struct cli *cli, const char *method, const char *target, json_t *body)
{
	auto_json json_t *team = NULL;

	if (client_json(cli, method, target, body, &team) < 0)
		return -1;
	if (!output_json(cli, team))
		output_line(client_str(team, "name"));
	return 0;
}

int cmd_team_create(struct cli *cli)
{
	struct wish wish = {0};
	const struct opt opts[] = {TEAM_OPTS(wish), {0}};
	int r = cli_parse(cli, opts, 1, 1);
	auto_json json_t *body = json_pack("{s:s}", "name", r > 0 ? cli->argv[0] : "");

	if (r > 0 && body == NULL)
		r = err_set(&cli->err, ERR_INVALID, "the name is not valid UTF-8");
	if (r > 0 && put_wish(body, &wish, &cli->err) < 0)
		r = -1;
	opt_list_done(&wish.scopes);
	return r <= 0 ? r : send_team(cli, "POST", "/api/v1/teams", body);
}

int cmd_team_set(struct cli *cli)
{
	struct wish wish = {0};
	const struct opt opts[] = {TEAM_OPTS(wish), {0}};
	int r = cli_parse(cli, opts, 1, 1);
	auto_json json_t *body = json_object();

	if (r > 0 && put_wish(body, &wish, &cli->err) < 0)
		r = -1;
	opt_list_done(&wish.scopes);
	if (r <= 0)
		return r;
	auto_free char *target = client_target("/teams/%s", cli->argv[0]);

	return send_team(cli, "PATCH", target, body);
}

int cmd_team_list(struct cli *cli)
{
	static const char *const titles[] = {"NAME", "ID", "DEFAULT SCOPES", "TRUST FLOOR", NULL};
	int r = cli_parse(cli, NULL, 0, 0);
	auto_json json_t *page = NULL;
	struct output_table table;
	size_t index;
	json_t *team;

	if (r <= 0)
		return r;
	if (client_get(cli, "/api/v1/teams?limit=1000", &page) < 0)
		return -1;
	if (output_json(cli, json_object_get(page, "items")))
		return 0;
	output_table_init(&table, titles);
	json_array_foreach (json_object_get(page, "items"), index, team) {
		output_cell(&table, client_str(team, "name"));
		output_cell(&table, client_str(team, "id"));
		output_cell(&table, client_str(team, "defaultScopes"));
		output_cell(&table, client_str(team, "trustFloor"));
	}
	output_table_print(&table);
	return 0;
}

/* --- members --- */

int cmd_team_member_add(struct cli *cli)
{
	const char *role = "member", *kind = NULL;
	uint64_t uid = UINT64_MAX;
	const struct opt opts[] = {
		{"role", 0, OPT_STR, &role, "ROLE", "viewer, member or admin (member)"},
		{"kind", 0, OPT_STR, &kind, "KIND", "person, service or agent (person)"},
		{"uid", 0, OPT_U64, &uid, "UID", "user of this machine that it is on the socket"},
		{0},
	};
	int r = cli_parse(cli, opts, 2, 2);
	auto_json json_t *body = json_object();
	auto_json json_t *member = NULL;

	if (r <= 0)
		return r;
	auto_free char *target = client_target("/teams/%s/members/%s", cli->argv[0], cli->argv[1]);

	if (words_put(body, "role", role, &cli->err) < 0 ||
	    words_put(body, "kind", kind, &cli->err) < 0)
		return -1;
	if (uid != UINT64_MAX)
		(void)json_object_set_new(body, "uid", json_integer((json_int_t)uid));
	if (client_json(cli, "PUT", target, body, &member) < 0)
		return -1;
	if (!output_json(cli, member))
		output_line(client_str(member, "name"));
	return 0;
}

int cmd_team_member_rm(struct cli *cli)
{
	int r = cli_parse(cli, NULL, 2, -1);

	if (r <= 0)
		return r;
	for (int i = 1; i < cli->argc; i++) {
		auto_free char *target =
			client_target("/teams/%s/members/%s", cli->argv[0], cli->argv[i]);

		if (client_json(cli, "DELETE", target, NULL, NULL) < 0)
			return err_wrap(&cli->err, "remove %s", cli->argv[i]);
	}
	return 0;
}

int cmd_team_member_list(struct cli *cli)
{
	static const char *const titles[] = {"NAME", "ROLE", "KIND", "UID", "ADDED", NULL};
	int r = cli_parse(cli, NULL, 1, 1);
	auto_json json_t *page = NULL;
	struct output_table table;
	size_t index;
	json_t *member;

	if (r <= 0)
		return r;
	auto_free char *target = client_target("/teams/%s/members?limit=1000", cli->argv[0]);

	if (client_get(cli, target, &page) < 0)
		return -1;
	if (output_json(cli, json_object_get(page, "items")))
		return 0;
	output_table_init(&table, titles);
	json_array_foreach (json_object_get(page, "items"), index, member) {
		bool has_uid = json_is_integer(json_object_get(member, "uid"));
		auto_free char *uid =
			mem_printf("%llu", (unsigned long long)client_u64(member, "uid"));

		output_cell(&table, client_str(member, "name"));
		output_cell(&table, client_str(member, "role"));
		output_cell(&table, client_str(member, "kind"));
		output_cell(&table, has_uid ? uid : "");
		output_cell_ago(&table, output_parse_time(client_str(member, "addedAt")));
	}
	output_table_print(&table);
	return 0;
}

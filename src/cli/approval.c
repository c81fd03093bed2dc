/* `cloche approval`: list, allow, deny. */
#include <jansson.h>

#include "base/mem.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/commands.h"
#include "cli/output.h"

int cmd_approval_list(struct cli *cli)
{
	static const char *const titles[] = {"ID",      "SANDBOX", "DESTINATION", "PROTO",
	                                     "PROGRAM", "ASKED",   NULL};
	int r = cli_parse(cli, NULL, 0, 0);
	struct output_table table;
	auto_json json_t *answer = NULL;
	size_t index;
	json_t *item;

	if (r <= 0)
		return r;
	if (client_get(cli, "/api/v1/approvals", &answer) < 0)
		return -1;
	const json_t *items = json_object_get(answer, "items");

	if (output_json(cli, items))
		return 0;
	output_table_init(&table, titles);
	json_array_foreach (items, index, item) {
		const char *host = client_str(item, "host");
		auto_free char *destination =
			*client_str(item, "tool") != '\0'
				? mem_printf("%s %s", client_str(item, "tool"),
		                             client_str(item, "arguments"))
				: mem_printf("%s:%llu",
		                             *host != '\0' ? host : client_str(item, "address"),
		                             (unsigned long long)client_u64(item, "port"));

		output_cell(&table, client_str(item, "id"));
		output_cell(&table, *client_str(item, "sandbox") != '\0'
		                            ? client_str(item, "sandbox")
		                            : client_str(item, "caller"));
		output_cell(&table, destination);
		output_cell(&table, client_str(item, "proto"));
		output_cell(&table, client_str(item, "program"));
		output_cell_ago(&table, output_parse_time(client_str(item, "askedAt")));
	}
	output_table_print(&table);
	return 0;
}

static int answer_all(struct cli *cli, const json_t *body)
{
	for (int i = 0; i < cli->argc; i++) {
		auto_free char *target = client_target("/approvals/%s", cli->argv[i]);

		if (client_json(cli, "POST", target, body, NULL) < 0)
			return err_wrap(&cli->err, "answer %s", cli->argv[i]);
	}
	return 0;
}

int cmd_approval_allow(struct cli *cli)
{
	const char *reach = "once";
	const struct opt opts[] = {
		{"for", 0, OPT_STR, &reach, "REACH", "once, sandbox or environment (once)"},
		{0},
	};
	int r = cli_parse(cli, opts, 1, -1);
	auto_json json_t *body = NULL;

	if (r <= 0)
		return r;
	body = json_pack("{s:s, s:s}", "verdict", "allow", "for", reach);
	if (body == NULL)
		return err_set(&cli->err, ERR_INVALID, "--for is not valid UTF-8");
	return answer_all(cli, body);
}

int cmd_approval_deny(struct cli *cli)
{
	int r = cli_parse(cli, NULL, 1, -1);
	auto_json json_t *body = json_pack("{s:s}", "verdict", "deny");

	return r <= 0 ? r : answer_all(cli, body);
}

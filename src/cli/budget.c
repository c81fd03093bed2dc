/* `cloche budget`: set, list, rm. */
#include <jansson.h>

#include "base/mem.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "model/money.h"

static char *dollars(const json_t *budget, const char *name)
{
	double value = json_number_value(json_object_get(budget, name));
	char text[MONEY_TEXT];
	uint64_t amount = 0;

	return money_from_dollars(value, &amount) ? mem_printf("$%s", money_format(text, amount))
	                                          : mem_strdup("-");
}

static void print(const json_t *items)
{
	static const char *const titles[] = {"KIND",  "SUBJECT",  "AMOUNT", "PERIOD", "ACTION",
	                                     "SPENT", "RESERVED", "LEFT",   NULL};
	static const char *const names[] = {"kind",   "subject", "amount",   "period",
	                                    "action", "spent",   "reserved", "left"};
	struct output_table table;
	size_t index;
	json_t *budget;

	output_table_init(&table, titles);
	json_array_foreach (items, index, budget) {
		for (size_t i = 0; i < ARRAY_LEN(names); i++) {
			auto_free char *money = dollars(budget, names[i]);
			bool is_text = json_is_string(json_object_get(budget, names[i]));

			output_cell(&table, is_text ? client_str(budget, names[i]) : money);
		}
	}
	output_table_print(&table);
}

int cmd_budget_list(struct cli *cli)
{
	auto_json json_t *answer = NULL;
	int r = cli_parse(cli, NULL, 0, 0);

	if (r <= 0)
		return r;
	if (client_get(cli, "/api/v1/budgets", &answer) < 0)
		return -1;
	const json_t *items = json_object_get(answer, "items");

	if (!output_json(cli, items))
		print(items);
	return 0;
}

int cmd_budget_set(struct cli *cli)
{
	const char *period = "total", *action = NULL;
	const struct opt opts[] = {
		{"period", 'p', OPT_STR, &period, "WHEN", "total, day or month of UTC (total)"},
		{"action", 0, OPT_STR, &action, "WHAT",
	         "when it is spent: stop what it pays for, or freeze it until it is raised"},
		{0},
	};
	auto_json json_t *answer = NULL;
	auto_json json_t *body = NULL;
	auto_json json_t *items = json_array();
	int r = cli_parse(cli, opts, 3, 3);
	uint64_t amount;

	if (r <= 0)
		return r;
	if (!money_parse(cli->argv[2], &amount))
		return err_set(&cli->err, ERR_INVALID, "'%.40s' is no amount such as 5 or 0.25",
		               cli->argv[2]);
	auto_free char *target = client_target("/budgets/%s/%s", cli->argv[0], cli->argv[1]);

	body = json_pack("{s:f, s:s}", "amount", money_to_dollars(amount), "period", period);
	if (action)
		json_object_set_new(body, "action", json_string(action));
	if (client_json(cli, "PUT", target, body, &answer) < 0)
		return -1;
	json_array_append(items, answer);
	if (!output_json(cli, answer))
		print(items);
	return 0;
}

int cmd_budget_rm(struct cli *cli)
{
	int r = cli_parse(cli, NULL, 2, 2);

	if (r <= 0)
		return r;
	auto_free char *target = client_target("/budgets/%s/%s", cli->argv[0], cli->argv[1]);

	return client_json(cli, "DELETE", target, NULL, NULL) < 0 ? -1 : 0;
}

/* `cloche usage`. */
#include <jansson.h>

#include "base/mem.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/commands.h"
#include "cli/output.h"

static const struct {
	const char *name, *title;
} columns[] = {
	{"runs", "RUNS"},
	{"cost", "COST"},
	{"cpuSeconds", "CPU-S"},
	{"sandboxSeconds", "SANDBOX-S"},
	{"memoryByteSeconds", "MEM-B-S"},
	{"diskByteSeconds", "DISK-B-S"},
	{"networkBytes", "NET"},
	{"inputTokens", "IN"},
	{"outputTokens", "OUT"},
	{"cachedTokens", "CACHED"},
	{"sandboxes", "SANDBOXES"},
};

static char *cell(const json_t *row, const char *name)
{
	const json_t *value = json_object_get(row, name);

	return json_is_integer(value) ? mem_printf("%lld", (long long)json_integer_value(value))
	                              : mem_printf("%.6f", json_number_value(value));
}

static void print_csv(const json_t *items)
{
	size_t index;
	json_t *row;

	(void)printf("key");
	for (size_t i = 0; i < ARRAY_LEN(columns); i++)
		(void)printf(",%s", columns[i].name);
	(void)printf("\n");
	json_array_foreach (items, index, row) {
		(void)printf("%s", client_str(row, "key")); /* ids, names of agents and days */
		for (size_t i = 0; i < ARRAY_LEN(columns); i++) {
			auto_free char *text = cell(row, columns[i].name);

			(void)printf(",%s", text);
		}
		(void)printf("\n");
	}
}

static void print_table(const json_t *items, const char *by)
{
	const char *titles[ARRAY_LEN(columns) + 2] = {by};
	struct output_table table;
	size_t index;
	json_t *row;

	for (size_t i = 0; i < ARRAY_LEN(columns); i++)
		titles[i + 1] = columns[i].title;
	output_table_init(&table, titles);
	json_array_foreach (items, index, row) {
		output_cell(&table, client_str(row, "key"));
		for (size_t i = 0; i < ARRAY_LEN(columns); i++) {
			auto_free char *text = cell(row, columns[i].name);

			output_cell(&table, text);
		}
	}
	output_table_print(&table);
}

int cmd_usage(struct cli *cli)
{
	const char *by = "task";
	bool csv = false;
	const struct opt opts[] = {
		{"by", 0, OPT_STR, &by, "WHAT", "task, agent, key, team or day (task)"},
		{"csv", 0, OPT_FLAG, &csv, NULL, "as comma-separated values"},
		{0},
	};
	auto_free char *target = client_target("/usage");
	auto_json json_t *answer = NULL;
	int r = cli_parse(cli, opts, 0, 0);

	if (r <= 0)
		return r;
	client_query(&target, "by", by);
	if (client_get(cli, target, &answer) < 0)
		return -1;
	const json_t *items = json_object_get(answer, "items");

	if (csv)
		print_csv(items);
	else if (!output_json(cli, items))
		print_table(items, by);
	return 0;
}

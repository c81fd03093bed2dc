#include "cli/verbs.h"

#include <string.h>

#include "base/mem.h"
#include "base/must.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/output.h"

static const json_t *member(const json_t *item, const char *key)
{
	const char *dot = strchr(key, '.');
	auto_free char *outer = dot ? mem_strndup(key, (size_t)(dot - key)) : NULL;

	return dot ? json_object_get(json_object_get(item, outer), dot + 1)
	           : json_object_get(item, key);
}

static void put_cell(struct output_table *table, const json_t *value)
{
	auto_free char *number = NULL;

	if (json_is_integer(value))
		number = mem_printf("%lld", (long long)json_integer_value(value));
	if (json_is_boolean(value))
		output_cell(table, json_is_true(value) ? "yes" : "no");
	else if (number)
		output_cell(table, number);
	else
		output_cell(table, json_is_string(value) ? json_string_value(value) : "");
}

int verbs_list(struct cli *cli, const char *collection, bool is_paged,
               const struct verbs_column *columns)
{
	const char *titles[VERBS_COLUMNS + 1] = {NULL};
	auto_free char *target = client_target("/%s", collection);
	auto_json json_t *page = NULL;
	struct output_table table;
	size_t index;
	json_t *item;
	int r = cli_parse(cli, NULL, 0, 0);

	if (r <= 0)
		return r;
	if (is_paged)
		client_query(&target, "limit", "1000");
	if (client_get(cli, target, &page) < 0)
		return -1;
	if (output_json(cli, json_object_get(page, "items")))
		return 0;
	for (size_t i = 0; columns[i].title; i++) {
		must(i < VERBS_COLUMNS);
		titles[i] = columns[i].title;
	}
	output_table_init(&table, titles);
	json_array_foreach (json_object_get(page, "items"), index, item) {
		for (size_t i = 0; columns[i].title; i++)
			put_cell(&table, member(item, columns[i].key));
	}
	output_table_print(&table);
	return 0;
}

int verbs_show(struct cli *cli, const char *collection,
               void (*print)(const struct cli *cli, const json_t *item))
{
	auto_json json_t *item = NULL;
	int r = cli_parse(cli, NULL, 1, 1);

	if (r <= 0)
		return r;
	auto_free char *target = client_target("/%s/%s", collection, cli->argv[0]);

	if (client_get(cli, target, &item) < 0)
		return -1;
	print(cli, item);
	return 0;
}

int verbs_test(struct cli *cli, const char *collection, const char *refused)
{
	auto_json json_t *answer = NULL;
	int r = cli_parse(cli, NULL, 1, 1);

	if (r <= 0)
		return r;
	auto_free char *target = client_target("/%s/%s/test", collection, cli->argv[0]);

	if (client_json(cli, "POST", target, NULL, &answer) < 0)
		return -1;
	if (!output_json(cli, answer))
		output_fact("status", "%llu", (unsigned long long)client_u64(answer, "status"));
	return client_u64(answer, "status") < 300 ? 0
	                                          : err_set(&cli->err, ERR_PROTOCOL, "%s", refused);
}

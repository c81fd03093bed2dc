/* `cloche profile`: list, show. */
#include <jansson.h>

#include "base/mem.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/commands.h"
#include "cli/output.h"

int cmd_profile_list(struct cli *cli)
{
	static const char *const titles[] = {"NAME", "RUNTIME", "IMAGE", "MEMORY",
	                                     "CPU",  "DISK",    "POOL",  NULL};
	int r = cli_parse(cli, NULL, 0, 0);
	struct output_table table;
	auto_json json_t *answer = NULL;
	size_t index;
	json_t *profile;

	if (r <= 0)
		return r;
	if (client_get(cli, "/api/v1/profiles", &answer) < 0)
		return -1;
	const json_t *items = json_object_get(answer, "items");

	if (output_json(cli, items))
		return 0;
	output_table_init(&table, titles);
	json_array_foreach (items, index, profile) {
		const json_t *limits = json_object_get(profile, "limits");
		auto_free char *cpu =
			mem_printf("%g", json_number_value(json_object_get(limits, "cpu")));
		auto_free char *pool =
			mem_printf("%llu", (unsigned long long)client_u64(profile, "pool"));

		output_cell(&table, client_str(profile, "name"));
		output_cell(&table, client_str(profile, "runtime"));
		output_cell(&table, client_str(profile, "image"));
		output_cell_bytes(&table, client_u64(limits, "memory"));
		output_cell(&table, cpu);
		output_cell_bytes(&table, client_u64(limits, "disk"));
		output_cell(&table, pool);
	}
	output_table_print(&table);
	return 0;
}

int cmd_profile_show(struct cli *cli)
{
	static const char *const facts[] = {"name", "runtime", "image",      "user",
	                                    "cwd",  "network", "diskBackend"};
	int r = cli_parse(cli, NULL, 1, 1);
	auto_json json_t *profile = NULL;
	const char *key;
	json_t *value;
	size_t index;

	if (r <= 0)
		return r;
	auto_free char *target = client_target("/profiles/%s", cli->argv[0]);

	if (client_get(cli, target, &profile) < 0)
		return -1;
	if (output_json(cli, profile))
		return 0;
	for (size_t i = 0; i < ARRAY_LEN(facts); i++)
		output_fact(facts[i], "%s", client_str(profile, facts[i]));
	json_object_foreach (json_object_get(profile, "limits"), key, value) {
		output_fact(key, "%.12g", json_number_value(value));
	}
	json_array_foreach (json_object_get(profile, "env"), index, value) {
		output_fact("env", "%s",
		            json_string_value(value) == NULL ? "" : json_string_value(value));
	}
	output_fact("pool", "%llu", (unsigned long long)client_u64(profile, "pool"));
	if (json_is_true(json_object_get(profile, "degraded")))
		output_fact("degraded", "allowed");
	return 0;
}

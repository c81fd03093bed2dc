/* `cloche audit`: list, verify, export. */
#include <jansson.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/commands.h"
#include "cli/output.h"

int cmd_audit_list(struct cli *cli)
{
	static const char *const titles[] = {"SEQ",    "TIME",    "WHO",  "KEY",   "FROM", "ACTION",
	                                     "OBJECT", "VERDICT", "RULE", "COUNT", NULL};
	uint64_t last = 50;
	const struct opt opts[] = {
		{"last", 'n', OPT_U64, &last, "N", "so many of the newest (50)"},
		{0},
	};
	int r = cli_parse(cli, opts, 0, 0);
	auto_free char *target = client_target("/audit?newest=1");
	auto_json json_t *page = NULL;
	struct output_table table;

	if (r <= 0)
		return r;
	if (last == 0 || last > 1000)
		return err_set(&cli->err, ERR_INVALID, "--last is 1 to 1000");
	client_query_u64(&target, "limit", last);
	if (client_get(cli, target, &page) < 0)
		return -1;
	const json_t *items = json_object_get(page, "items");
	auto_json json_t *rows = json_array();

	for (size_t i = json_array_size(items); i > 0; i--)
		(void)json_array_append(rows, json_array_get(items, i - 1));
	if (output_json(cli, rows))
		return 0;
	output_table_init(&table, titles);
	for (size_t i = 0; i < json_array_size(rows); i++) {
		const json_t *row = json_array_get(rows, i);
		auto_free char *seq =
			mem_printf("%llu", (unsigned long long)client_u64(row, "seq"));
		auto_free char *count =
			mem_printf("%llu", (unsigned long long)client_u64(row, "count"));

		output_cell(&table, seq);
		output_cell(&table, client_str(row, "time"));
		output_cell(&table, client_str(row, "actorName"));
		output_cell(&table, client_str(row, "credential"));
		output_cell(&table, client_str(row, "source"));
		output_cell(&table, client_str(row, "action"));
		output_cell(&table, client_str(row, "object"));
		output_cell(&table, client_str(row, "verdict"));
		output_cell(&table, client_str(row, "rule"));
		output_cell(&table, count);
	}
	output_table_print(&table);
	return 0;
}

/* A head that was kept elsewhere must still be in the record. */
static int check_kept(struct cli *cli, const char *kept, uint64_t pruned)
{
	const char *colon = strchr(kept, ':');
	auto_free char *number = mem_strndup(kept, colon == NULL ? 0 : (size_t)(colon - kept));
	auto_json json_t *page = NULL;
	uint64_t seq;

	if (colon == NULL || str_to_u64(number, &seq) < 0 || seq == 0)
		return err_set(&cli->err, ERR_INVALID,
		               "--expect is ROWS:HASH, as verify printed it");
	if (seq <= pruned)
		return err_set(&cli->err, ERR_INVALID,
		               "row %s was removed by [audit] keep: expect a newer end", number);
	auto_free char *target = client_target("/audit?limit=1");

	client_query_u64(&target, "after", seq - 1);
	if (client_get(cli, target, &page) < 0)
		return -1;
	const json_t *row = json_array_get(json_object_get(page, "items"), 0);

	if (client_u64(row, "seq") != seq || !str_eq(client_str(row, "hash"), colon + 1))
		return err_set(&cli->err, ERR_IO, "row %s is not the one that was expected",
		               number);
	return 0;
}

int cmd_audit_verify(struct cli *cli)
{
	const char *kept = NULL;
	const struct opt opts[] = {
		{"expect", 0, OPT_STR, &kept, "ROWS:HASH", "an end that was kept elsewhere"},
		{0},
	};
	int r = cli_parse(cli, opts, 0, 0);
	auto_json json_t *check = NULL;

	if (r <= 0)
		return r;
	if (client_get(cli, "/api/v1/audit/verify", &check) < 0)
		return -1;
	const json_t *bad = json_object_get(check, "bad");
	uint64_t pruned = client_u64(check, "pruned");

	if (!output_json(cli, check)) {
		output_fact("rows", "%llu", (unsigned long long)client_u64(check, "rows"));
		if (pruned > 0)
			output_fact("pruned", "%llu", (unsigned long long)pruned);
		output_fact("end", "%llu:%s", (unsigned long long)client_u64(check, "rows"),
		            client_str(check, "hash"));
	}
	if (json_is_object(bad))
		return err_set(&cli->err, ERR_IO, "row %llu: %s",
		               (unsigned long long)client_u64(bad, "seq"), client_str(bad, "what"));
	return kept == NULL ? 0 : check_kept(cli, kept, pruned);
}

int cmd_audit_export(struct cli *cli)
{
	const struct http_request request = {.method = "GET",
	                                     .target = "/api/v1/audit/export",
	                                     .accept = "application/x-ndjson"};
	int r = cli_parse(cli, NULL, 0, 0);

	if (r <= 0)
		return r;
	if (client_send(cli, &request) < 0)
		return -1;
	return http_read_to_fd(&cli->http, STDOUT_FILENO, NULL, NULL, &cli->err);
}

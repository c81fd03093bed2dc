/* `cloche task`: list, get, runs, logs, artifacts. */
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"
#include "cli/client.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/task.h"

int cmd_task_list(struct cli *cli)
{
	static const char *const titles[] = {"ID",    "STATUS",  "REASON", "AGENT",
	                                     "TITLE", "CREATED", NULL};
	const char *status = NULL;
	uint64_t limit = 100;
	const struct opt opts[] = {
		{"status", 's', OPT_STR, &status, "STATE",
	         "pending, running, completed, failed or cancelled"},
		{"limit", 'n', OPT_U64, &limit, "N", "the newest so many (100)"},
		{0},
	};
	auto_free char *target = client_target("/tasks");
	auto_json json_t *page = NULL;
	struct output_table table;
	int r = cli_parse(cli, opts, 0, 0);
	size_t index;
	json_t *task;

	if (r <= 0)
		return r;
	client_query_u64(&target, "limit", limit);
	client_query(&target, "state", status);
	if (client_get(cli, target, &page) < 0)
		return -1;
	const json_t *items = json_object_get(page, "items");

	if (output_json(cli, items))
		return 0;
	output_table_init(&table, titles);
	json_array_foreach (items, index, task) {
		output_cell(&table, client_str(task, "id"));
		output_cell(&table, client_str(task, "status"));
		output_cell(&table, client_str(task, "endReason"));
		output_cell(&table, client_str(task, "agent"));
		output_cell(&table, client_str(task, "title"));
		output_cell_ago(&table, output_parse_time(client_str(task, "createdAt")));
	}
	output_table_print(&table);
	return 0;
}

int cmd_task_get(struct cli *cli)
{
	auto_json json_t *answer = NULL;
	int r = cli_parse(cli, NULL, 1, 1);

	if (r <= 0)
		return r;
	auto_free char *target = client_target("/tasks/%s", cli->argv[0]);

	if (client_get(cli, target, &answer) < 0)
		return -1;
	task_show(cli, answer);
	return 0;
}

int cmd_task_runs(struct cli *cli)
{
	static const char *const titles[] = {"RUN",  "N",       "STATUS", "REASON",
	                                     "COST", "CREATED", NULL};
	auto_json json_t *page = NULL;
	struct output_table table;
	int r = cli_parse(cli, NULL, 1, 1);
	size_t index;
	json_t *run;

	if (r <= 0)
		return r;
	auto_free char *target = client_target("/tasks/%s/runs", cli->argv[0]);

	client_query(&target, "limit", "1000");
	if (client_get(cli, target, &page) < 0)
		return -1;
	const json_t *items = json_object_get(page, "items");

	if (output_json(cli, items))
		return 0;
	output_table_init(&table, titles);
	json_array_foreach (items, index, run) {
		auto_free char *number =
			mem_printf("%llu", (unsigned long long)client_u64(run, "number"));
		auto_free char *cost =
			mem_printf("$%.6f", json_number_value(json_object_get(run, "cost")));

		output_cell(&table, client_str(run, "id"));
		output_cell(&table, number);
		output_cell(&table, client_str(run, "status"));
		output_cell(&table, client_str(run, "endReason"));
		output_cell(&table, cost);
		output_cell_ago(&table, output_parse_time(client_str(run, "createdAt")));
	}
	output_table_print(&table);
	return 0;
}

int cmd_task_logs(struct cli *cli)
{
	const char *run = NULL, *stream = NULL;
	bool follow = false;
	const struct opt opts[] = {
		{"follow", 'f', OPT_FLAG, &follow, NULL, "until it is over"},
		{"run", 0, OPT_STR, &run, "ID", "an earlier run"},
		{"stream", 0, OPT_STR, &stream, "NAME", "stdout or stderr (both)"},
		{0},
	};
	int r = cli_parse(cli, opts, 1, 1);

	if (r <= 0)
		return r;
	auto_free char *target = client_target("/tasks/%s/logs", cli->argv[0]);

	client_query(&target, "follow", follow ? "true" : NULL);
	client_query(&target, "run", run);
	client_query(&target, "stream", stream);
	const struct http_request request = {
		.method = "GET", .target = target, .accept = "application/octet-stream"};

	if (client_send(cli, &request) < 0)
		return -1;
	return http_read_to_fd(&cli->http, STDOUT_FILENO, NULL, NULL, &cli->err);
}

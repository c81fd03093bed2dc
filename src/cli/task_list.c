/* `cloche task`: list, get, runs, logs, artifacts. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"
#include "cli/client.h"
#include "cli/commands.h"
#include "cli/files.h"
#include "cli/output.h"
#include "cli/task.h"

enum { TITLE_SHOWN = 48 };

/* Of a title as much as leaves room for the rest; cut between characters. */
static char *shortened(const char *title)
{
	size_t len = 0, shown = 0;

	while (title[len] != '\0' && shown < TITLE_SHOWN) {
		len++;
		while (((unsigned char)title[len] & 0xc0) == 0x80)
			len++;
		shown++;
	}
	return title[len] == '\0' ? mem_strdup(title) : mem_printf("%.*s…", (int)len, title);
}

/* One that stands still for want of money is running, and is not. */
static char *status_of(const json_t *object, const json_t *run)
{
	bool is_frozen = json_is_string(json_object_get(run, "frozenAt"));

	return mem_printf("%s%s", client_str(object, "status"), is_frozen ? " (frozen)" : "");
}

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
		auto_free char *state = status_of(task, json_object_get(task, "run"));

		output_cell(&table, state);
		output_cell(&table, client_str(task, "endReason"));
		output_cell(&table, client_str(task, "agent"));
		auto_free char *title = shortened(client_str(task, "title"));

		output_cell(&table, title);
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
		auto_free char *status = status_of(run, run);

		output_cell(&table, status);
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

/* --- the result --- */

static int set_output(struct cli *cli, const char *target, const char *text)
{
	auto_json json_t *body = json_object();
	json_error_t where;
	json_t *output = json_loads(text, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, &where);

	if (!output)
		return err_set(&cli->err, ERR_INVALID, "--set is JSON: %s", where.text);
	json_object_set_new(body, "output", output);
	return client_json(cli, "PUT", target, body, NULL);
}

int cmd_task_output(struct cli *cli)
{
	const char *set = NULL;
	const struct opt opts[] = {
		{"set", 0, OPT_STR, &set, "JSON", "give it, while the task runs"},
		{0},
	};
	auto_json json_t *answer = NULL;
	int r = cli_parse(cli, opts, 1, 1);

	if (r <= 0)
		return r;
	auto_free char *target = client_target("/tasks/%s/output", cli->argv[0]);

	if (set)
		return set_output(cli, target, set);
	if (client_get(cli, target, &answer) < 0)
		return -1;
	if (!output_json(cli, answer))
		output_json_line(json_object_get(answer, "output"));
	return 0;
}

/* --- artifacts --- */

static int put_artifact(struct cli *cli, const char *task, const char *path)
{
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	const char *slash = strrchr(path, '/');
	struct files_source source = {.fd = fd, .progress = {.what = "sent", .total = UINT64_MAX}};
	auto_free char *target = client_target("/tasks/%s/artifacts", task);
	auto_json json_t *artifact = NULL;
	struct http_request request = {.method = "POST",
	                               .content_type = "application/octet-stream",
	                               .has_stream = true,
	                               .stream_len = UINT64_MAX};

	if (fd < 0)
		return err_sys(&cli->err, errno, "open %s", path);
	client_query(&target, "name", slash ? slash + 1 : path);
	request.target = target;
	int r = client_upload(cli, &request, files_read_source, &source);

	term_progress_done(&source.progress);
	if (r < 0 || client_read_json(cli, &artifact) < 0)
		return -1;
	if (!output_json(cli, artifact))
		output_line(client_str(artifact, "id"));
	return 0;
}

static int get_artifact(struct cli *cli, const char *task, const char *id)
{
	auto_free char *target = client_target("/tasks/%s/artifacts/%s", task, id);
	const struct http_request request = {
		.method = "GET", .target = target, .accept = "application/octet-stream"};

	if (client_send(cli, &request) < 0)
		return -1;
	return http_read_to_fd(&cli->http, STDOUT_FILENO, NULL, NULL, &cli->err);
}

static int list_artifacts(struct cli *cli, const char *task)
{
	static const char *const titles[] = {"ID", "NAME", "SIZE", "CREATED", NULL};
	auto_free char *target = client_target("/tasks/%s/artifacts?limit=1000", task);
	auto_json json_t *page = NULL;
	struct output_table table;
	size_t index;
	json_t *artifact;

	if (client_get(cli, target, &page) < 0)
		return -1;
	const json_t *items = json_object_get(page, "items");

	if (output_json(cli, items))
		return 0;
	output_table_init(&table, titles);
	json_array_foreach (items, index, artifact) {
		output_cell(&table, client_str(artifact, "id"));
		output_cell(&table, client_str(artifact, "name"));
		output_cell_bytes(&table, client_u64(artifact, "size"));
		output_cell_ago(&table, output_parse_time(client_str(artifact, "createdAt")));
	}
	output_table_print(&table);
	return 0;
}

static int remove_artifact(struct cli *cli, const char *task, const char *id)
{
	auto_free char *target = client_target("/tasks/%s/artifacts/%s", task, id);
	const struct http_request request = {.method = "DELETE", .target = target};

	return client_send(cli, &request);
}

int cmd_task_artifacts(struct cli *cli)
{
	const char *put = NULL, *get = NULL, *gone = NULL;
	const struct opt opts[] = {
		{"put", 0, OPT_STR, &put, "FILE", "keep a file"},
		{"get", 0, OPT_STR, &get, "ARTIFACT", "print one"},
		{"rm", 0, OPT_STR, &gone, "ARTIFACT", "keep one no longer"},
		{0},
	};
	int r = cli_parse(cli, opts, 1, 1);

	if (r <= 0)
		return r;
	if (put)
		return put_artifact(cli, cli->argv[0], put);
	if (gone)
		return remove_artifact(cli, cli->argv[0], gone);
	return get ? get_artifact(cli, cli->argv[0], get) : list_artifacts(cli, cli->argv[0]);
}

#include "cli/task.h"

#include <time.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/client.h"
#include "cli/output.h"
#include "cli/term.h"

struct follow {
	struct cli *cli;
	const char *id;
	char run[40];  /* the newest when we came */
	char last[64]; /* id of the last event seen */
	uint64_t deadline_ms;
	bool is_over, is_late;
	bool shows; /* steps, on a terminal */
};

/* --- steps, for people --- */

static void show_step(const json_t *data)
{
	static const struct {
		const char *status, *mark;
	} marks[] = {{"completed", "done"}, {"failed", "FAILED"}, {"skipped", "-"}};
	const char *status = client_str(data, "status");
	const char *detail = client_str(data, "detail");
	char took[32], shown[400];

	for (size_t i = 0; i < ARRAY_LEN(marks); i++) {
		if (!str_eq(marks[i].status, status))
			continue;
		str_format_ms(took, sizeof(took), client_u64(data, "ms"));
		str_escape(shown, sizeof(shown), detail, strlen(detail));
		(void)fprintf(stderr, "%-10s %-7s %8s  %s\n", client_str(data, "step"),
		              marks[i].mark, took, shown);
	}
}

/* It was over before we came to look. */
static void show_steps(const json_t *task)
{
	size_t index;
	json_t *step;

	json_array_foreach (json_object_get(json_object_get(task, "run"), "steps"), index, step) {
		uint64_t began = output_parse_time(client_str(step, "startedAt"));
		uint64_t end = output_parse_time(client_str(step, "endedAt"));

		json_object_set_new(step, "ms",
		                    json_integer(end > began ? (json_int_t)(end - began) : 0));
		show_step(step);
	}
}

static bool is_end(const char *kind)
{
	return str_eq(kind, "task.completed") || str_eq(kind, "task.failed") ||
	       str_eq(kind, "task.cancelled");
}

static void take_event(struct follow *follow, const struct sse_event *event)
{
	auto_json json_t *object = json_loadb(event->data, event->len, 0, NULL);
	const json_t *data = json_object_get(object, "data");

	if (event->id[strcspn(event->id, "\r\n")] == '\0')
		(void)!str_copy(follow->last, sizeof(follow->last), event->id);
	/* The events of earlier runs come first. */
	if (!str_eq(client_str(data, "run"), follow->run))
		return;
	if (follow->shows && str_eq(event->event, "task.step"))
		show_step(data);
	if (is_end(event->event))
		follow->is_over = true;
}

/* --- until its newest run is over --- */

static int ask_state(struct follow *follow)
{
	auto_free char *target = client_target("/tasks/%s", follow->id);
	auto_json json_t *answer = NULL;

	if (client_get(follow->cli, target, &answer) < 0)
		return -1;
	const json_t *task = json_object_get(answer, "task");
	const char *status = client_str(task, "status");

	if (*follow->run == '\0')
		(void)!str_copy(follow->run, sizeof(follow->run),
		                client_str(json_object_get(task, "run"), "id"));
	follow->is_over = !str_eq(status, "pending") && !str_eq(status, "running");
	if (follow->is_over && follow->shows && *follow->last == '\0')
		show_steps(task);
	return 0;
}

static int stream_once(struct follow *follow)
{
	auto_(sse_done) struct sse sse;
	auto_free char *target = client_target("/tasks/%s/events", follow->id);
	auto_free char *headers =
		*follow->last == '\0' ? NULL : mem_printf("Last-Event-ID: %s\r\n", follow->last);
	const struct http_request request = {.method = "GET",
	                                     .target = target,
	                                     .accept = "text/event-stream",
	                                     .headers = headers};
	struct sse_event event;
	int r;

	sse_init(&sse);
	r = client_send(follow->cli, &request);
	while (r >= 0 && !follow->is_over && (r = client_next_event(follow->cli, &sse, &event)) > 0)
		take_event(follow, &event);
	http_close(&follow->cli->http); /* the stream goes on, we do not */
	return r;
}

static bool is_overdue(struct follow *follow)
{
	follow->is_late = follow->deadline_ms != 0 && io_boot_ms() >= follow->deadline_ms;
	return follow->is_late;
}

static int follow_to_end(struct follow *follow)
{
	const struct timespec pause = {.tv_nsec = 200 * 1000000L};
	struct cli *cli = follow->cli;
	int misses = 0;

	while (misses < 50 && !is_overdue(follow)) {
		cli->err = (struct err){0};
		if (follow->deadline_ms != 0)
			cli->http.wait_ms = (int)(follow->deadline_ms - io_boot_ms());
		if (stream_once(follow) < 0 && cli->err.code != ERR_UNAVAILABLE &&
		    cli->err.code != ERR_PROTOCOL && cli->err.code != ERR_TIMEOUT)
			return -1;
		cli->http.wait_ms = -1;
		if (follow->is_over || is_overdue(follow))
			break;
		misses = cli->err.code == ERR_UNAVAILABLE ? misses + 1 : 0;
		(void)nanosleep(&pause, NULL); /* an early end is harmless */
		if (misses == 0 && ask_state(follow) == 0 && follow->is_over)
			break;
	}
	if (follow->is_late)
		return err_set(&cli->err, ERR_TIMEOUT, "task %s still runs", follow->id);
	if (!follow->is_over)
		return -1;
	cli->err = (struct err){0};
	return 0;
}

int task_follow(struct cli *cli, const char *id, uint64_t timeout_ms)
{
	struct follow follow = {.cli = cli, .id = id};

	follow.shows = cli->output == CLI_HUMAN && isatty(STDERR_FILENO);
	follow.deadline_ms = timeout_ms ? io_boot_ms() + timeout_ms : 0;
	if (ask_state(&follow) < 0)
		return -1;
	return follow.is_over ? 0 : follow_to_end(&follow);
}

/* --- what came of it --- */

static int status_of(const json_t *task)
{
	const json_t *code = json_object_get(task, "exitCode");
	const char *reason = client_str(task, "endReason");

	if (str_eq(client_str(task, "status"), "completed"))
		return 0;
	if (str_eq(reason, "timeout"))
		return 124;
	if (str_eq(reason, "agent_error") && json_is_integer(code) && json_integer_value(code) != 0)
		return (int)(json_integer_value(code) & 255);
	return 1;
}

static void print_summary(const json_t *task)
{
	const json_t *run = json_object_get(task, "run");
	char shown[300];
	const char *detail = client_str(run, "detail");

	str_escape(shown, sizeof(shown), detail, strlen(detail));
	(void)fprintf(stderr, "%s %s (%s)%s%s, $%.6f\n", client_str(task, "id"),
	              client_str(task, "status"), client_str(task, "endReason"), *shown ? ": " : "",
	              shown, json_number_value(json_object_get(task, "cost")));
}

int task_show_end(struct cli *cli, const char *id)
{
	auto_free char *target = client_target("/tasks/%s", id);
	auto_json json_t *answer = NULL;

	if (client_get(cli, target, &answer) < 0)
		return -1;
	const json_t *task = json_object_get(answer, "task");

	if (!output_json(cli, answer)) {
		output_text(stdout, json_object_get(task, "stdout"));
		output_text(stderr, json_object_get(task, "stderr"));
		if (json_is_true(json_object_get(json_object_get(task, "run"), "truncated")))
			cli_note("that was the end of its output; `cloche task logs %s` has more",
			         id);
		if (isatty(STDERR_FILENO) || !str_eq(client_str(task, "status"), "completed"))
			print_summary(task);
	}
	return status_of(task);
}

void task_show(struct cli *cli, const json_t *answer)
{
	static const char *const facts[] = {"id",        "title",     "agent",      "status",
	                                    "endReason", "createdAt", "completedAt"};
	const json_t *task = json_object_get(answer, "task");
	const json_t *run = json_object_get(task, "run");
	size_t index;
	json_t *step;

	if (output_json(cli, answer))
		return;
	for (size_t i = 0; i < ARRAY_LEN(facts); i++)
		output_fact(facts[i], "%s", client_str(task, facts[i]));
	if (*client_str(task, "repository")) {
		output_fact("repository", "%s", client_str(task, "repository"));
		output_fact("branch", "%s", client_str(task, "branch"));
		output_fact("pull request", "%s",
		            client_str(json_object_get(task, "pullRequest"), "url"));
	}
	output_fact("run", "%s", client_str(run, "id"));
	output_fact("detail", "%s", client_str(run, "detail"));
	if (*client_str(run, "frozenAt"))
		output_fact("frozen", "since %s: raise the budget, or stop it",
		            client_str(run, "frozenAt"));
	output_fact("sandbox", "%s", client_str(run, "sandbox"));
	output_fact("credential", "%s%s%s", client_str(run, "token"),
	            *client_str(run, "tokenRevokedAt") ? ", revoked " : "",
	            client_str(run, "tokenRevokedAt"));
	if (json_is_integer(json_object_get(task, "exitCode")))
		output_fact("exitCode", "%lld",
		            (long long)json_integer_value(json_object_get(task, "exitCode")));
	output_fact("cost", "$%.6f", json_number_value(json_object_get(task, "cost")));
	json_array_foreach (json_object_get(run, "steps"), index, step) {
		output_fact("step", "%-10s %s  %s", client_str(step, "step"),
		            client_str(step, "status"), client_str(step, "detail"));
	}
}

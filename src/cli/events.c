/* `cloche events`, and those of one sandbox or task: pages, or a stream that survives a restart. */
#include <jansson.h>
#include <time.h>

#include "base/mem.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/commands.h"
#include "cli/events.h"
#include "cli/output.h"

void events_done(struct events *events)
{
	free(events->base);
}

static void print_event(const struct cli *cli, const struct events *events, const json_t *event)
{
	const json_t *data = json_object_get(event, "data");
	const char *sandbox = client_str(event, "sandbox");

	if (*sandbox == '\0')
		sandbox = client_str(event, "task");

	if (cli->output != CLI_HUMAN) {
		output_json_line(event);
		return;
	}
	if (events->print != NULL) {
		events->print(event);
		return;
	}
	auto_free char *shown =
		json_object_size(data) == 0
			? mem_strdup("")
			: json_dumps(data, JSON_COMPACT | JSON_REAL_PRECISION(OUTPUT_DIGITS));
	auto_free char *line = mem_printf(
		"%s  %-18s %-23s %s", client_str(event, "time"), client_str(event, "kind"),
		*sandbox == '\0' ? "-" : sandbox, shown == NULL ? "" : shown);
	size_t size = strlen(line) * 4 + 1;
	auto_free char *safe = mem_zalloc(size);

	/* JSON text may have DEL, C1 controls and marks that reorder it. */
	str_disarm(safe, size, line, strlen(line));
	(void)puts(safe);
	(void)fflush(stdout);
}

static int print_pages(struct cli *cli, struct events *events)
{
	auto_free char *cursor = NULL;

	do {
		auto_free char *target = mem_strdup(events->base);
		auto_json json_t *page = NULL;
		size_t index;
		json_t *event;

		client_query(&target, "limit", "1000");
		if (cursor != NULL)
			client_query(&target, "cursor", cursor);
		else if (events->after > 0)
			client_query_u64(&target, "after", events->after);
		if (client_get(cli, target, &page) < 0)
			return -1;
		json_array_foreach (json_object_get(page, "items"), index, event) {
			print_event(cli, events, event);
		}
		const char *next = client_str(page, "nextCursor");

		free(cursor);
		cursor = *next == '\0' ? NULL : mem_strdup(next);
	} while (cursor != NULL);
	return 0;
}

/* Until the stream breaks; *last is the id of the last event seen. */
static int follow_once(struct cli *cli, const struct events *events, char *last, size_t size)
{
	auto_(sse_done) struct sse sse;
	auto_free char *target = mem_strdup(events->base);
	auto_free char *headers = *last == '\0' ? NULL : mem_printf("Last-Event-ID: %s\r\n", last);
	struct sse_event event;

	sse_init(&sse);
	if (*last == '\0' && events->after > 0)
		client_query_u64(&target, "after", events->after);
	const struct http_request request = {.method = "GET",
	                                     .target = target,
	                                     .accept = "text/event-stream",
	                                     .headers = headers};
	int r = client_send(cli, &request);

	while (r >= 0 && (r = client_next_event(cli, &sse, &event)) > 0) {
		auto_json json_t *object = json_loadb(event.data, event.len, 0, NULL);

		if (object != NULL)
			print_event(cli, events, object);
		if (event.id[strcspn(event.id, "\r\n")] == '\0')
			(void)!str_copy(last, size, event.id);
	}
	return r;
}

static int follow(struct cli *cli, const struct events *events)
{
	const struct timespec wait = {.tv_nsec = 200 * 1000000L};
	char last[64] = "";
	int misses = 0;

	/* A daemon that restarts is waited for; one that stays away is not. */
	while (misses < 50) {
		cli->err = (struct err){0};
		if (follow_once(cli, events, last, sizeof(last)) < 0 &&
		    cli->err.code != ERR_UNAVAILABLE && cli->err.code != ERR_PROTOCOL)
			return -1;
		misses = cli->err.code == ERR_UNAVAILABLE ? misses + 1 : 0;
		(void)nanosleep(&wait, NULL); /* an early end is harmless */
	}
	return -1;
}

int events_show(struct cli *cli, struct events *events)
{
	return events->follow ? follow(cli, events) : print_pages(cli, events);
}

#define EVENTS_OPTS(events)                                                                        \
	{"follow", 'f', OPT_FLAG, &(events).follow, NULL, "go on as they happen"},                 \
	{                                                                                          \
		"after", 0, OPT_U64, &(events).after, "N", "only events with a greater number"     \
	}

int cmd_events(struct cli *cli)
{
	auto_(events_done) struct events events = {0};
	const struct opt opts[] = {EVENTS_OPTS(events), {0}};
	int r = cli_parse(cli, opts, 0, 0);

	if (r <= 0)
		return r;
	events.base = client_target("/events");
	return events_show(cli, &events);
}

int cmd_sandbox_events(struct cli *cli)
{
	auto_(events_done) struct events events = {0};
	const struct opt opts[] = {EVENTS_OPTS(events), {0}};
	int r = cli_parse(cli, opts, 1, 1);

	if (r <= 0)
		return r;
	events.base = client_target("/sandboxes/%s/events", cli->argv[0]);
	return events_show(cli, &events);
}

int cmd_task_events(struct cli *cli)
{
	auto_(events_done) struct events events = {0};
	const struct opt opts[] = {EVENTS_OPTS(events), {0}};
	int r = cli_parse(cli, opts, 1, 1);

	if (r <= 0)
		return r;
	events.base = client_target("/tasks/%s/events", cli->argv[0]);
	return events_show(cli, &events);
}

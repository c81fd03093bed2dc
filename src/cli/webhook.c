/* `cloche webhook`: add, list, rm, test, rotate, deliveries, redeliver. */
#include <jansson.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/commands.h"
#include "cli/output.h"

/* Kinds of events as one would write them, with a comma between. */
static char *joined(const json_t *kinds)
{
	char *text = mem_strdup("");
	size_t index;
	json_t *kind;

	json_array_foreach (kinds, index, kind) {
		char *longer =
			mem_printf("%s%s%s", text, index > 0 ? ", " : "", json_string_value(kind));

		free(text);
		text = longer;
	}
	return text;
}

static void show_secret(struct cli *cli, const json_t *webhook)
{
	if (output_json(cli, webhook))
		return;
	output_fact("id", "%s", client_str(webhook, "id"));
	output_fact("url", "%s", client_str(webhook, "url"));
	output_fact("secret", "%s", client_str(webhook, "secret"));
	cli_note("the secret is shown this once");
}

int cmd_webhook_add(struct cli *cli)
{
	struct opt_list events = {0};
	const char *about = NULL;
	const struct opt opts[] = {
		{"event", 'e', OPT_LIST, &events, "KIND", "task.*, task.completed, …; may repeat"},
		{"about", 0, OPT_STR, &about, "TEXT", "for people"},
		{0},
	};
	auto_json json_t *body = json_object();
	auto_json json_t *answer = NULL;
	json_t *kinds = json_array();
	int r = cli_parse(cli, opts, 1, 1);

	json_object_set_new(body, "events", kinds);
	for (size_t i = 0; r > 0 && i < events.count; i++)
		json_array_append_new(kinds, json_string(events.items[i]));
	if (events.count == 0)
		json_array_append_new(kinds, json_string("task.*"));
	opt_list_done(&events);
	if (r <= 0)
		return r;
	json_object_set_new(body, "url", json_string(cli->argv[0]));
	if (about)
		json_object_set_new(body, "about", json_string(about));
	if (client_json(cli, "POST", "/api/v1/webhooks", body, &answer) < 0)
		return -1;
	show_secret(cli, answer);
	return 0;
}

int cmd_webhook_list(struct cli *cli)
{
	static const char *const titles[] = {"ID", "URL", "EVENTS", "CREATED", NULL};
	auto_json json_t *page = NULL;
	struct output_table table;
	int r = cli_parse(cli, NULL, 0, 0);
	size_t index;
	json_t *webhook;

	if (r <= 0)
		return r;
	if (client_get(cli, "/api/v1/webhooks?limit=1000", &page) < 0)
		return -1;
	const json_t *items = json_object_get(page, "items");

	if (output_json(cli, items))
		return 0;
	output_table_init(&table, titles);
	json_array_foreach (items, index, webhook) {
		auto_free char *events = joined(json_object_get(webhook, "events"));

		output_cell(&table, client_str(webhook, "id"));
		output_cell(&table, client_str(webhook, "url"));
		output_cell(&table, events);
		output_cell_ago(&table, output_parse_time(client_str(webhook, "createdAt")));
	}
	output_table_print(&table);
	return 0;
}

int cmd_webhook_rm(struct cli *cli)
{
	return client_remove_each(cli, "webhooks");
}

int cmd_webhook_rotate(struct cli *cli)
{
	auto_json json_t *answer = NULL;
	int r = cli_parse(cli, NULL, 1, 1);

	if (r <= 0)
		return r;
	auto_free char *target = client_target("/webhooks/%s/rotate", cli->argv[0]);

	if (client_json(cli, "POST", target, NULL, &answer) < 0)
		return -1;
	show_secret(cli, answer);
	return 0;
}

static void show_delivery(struct cli *cli, const json_t *delivery)
{
	if (!output_json(cli, delivery))
		output_line(client_str(delivery, "id"));
}

int cmd_webhook_test(struct cli *cli)
{
	auto_json json_t *answer = NULL;
	int r = cli_parse(cli, NULL, 1, 1);

	if (r <= 0)
		return r;
	auto_free char *target = client_target("/webhooks/%s/test", cli->argv[0]);

	if (client_json(cli, "POST", target, NULL, &answer) < 0)
		return -1;
	show_delivery(cli, answer);
	return 0;
}

int cmd_webhook_redeliver(struct cli *cli)
{
	auto_json json_t *answer = NULL;
	int r = cli_parse(cli, NULL, 2, 2);

	if (r <= 0)
		return r;
	auto_free char *target =
		client_target("/webhooks/%s/deliveries/%s/redeliver", cli->argv[0], cli->argv[1]);

	if (client_json(cli, "POST", target, NULL, &answer) < 0)
		return -1;
	show_delivery(cli, answer);
	return 0;
}

static void put_delivery(struct output_table *table, const json_t *delivery)
{
	auto_free char *tries =
		mem_printf("%llu", (unsigned long long)client_u64(delivery, "attempts"));

	output_cell(table, client_str(delivery, "id"));
	output_cell(table, client_str(delivery, "kind"));
	output_cell(table, client_str(delivery, "subject"));
	output_cell(table, client_str(delivery, "state"));
	output_cell(table, tries);
	output_cell(table, client_str(delivery, "lastError"));
	output_cell_ago(table, output_parse_time(client_str(delivery, "createdAt")));
}

/* All pages of them. */
static int get_deliveries(struct cli *cli, const char *target, json_t *items)
{
	auto_free char *cursor = NULL;

	do {
		auto_free char *one = mem_strdup(target);
		auto_json json_t *page = NULL;
		const char *next;

		client_query(&one, "cursor", cursor);
		if (client_get(cli, one, &page) < 0)
			return -1;
		json_array_extend(items, json_object_get(page, "items"));
		next = client_str(page, "nextCursor");
		mem_freep(&cursor);
		cursor = *next == '\0' ? NULL : mem_strdup(next);
	} while (cursor != NULL);
	return 0;
}

int cmd_webhook_deliveries(struct cli *cli)
{
	static const char *const titles[] = {"ID",    "EVENT", "SUBJECT", "STATE",
	                                     "TRIES", "LAST",  "CREATED", NULL};
	const char *state = NULL;
	uint64_t since_ms = 0;
	const struct opt opts[] = {
		{"status", 's', OPT_STR, &state, "STATE", "pending, delivered or dead"},
		{"since", 0, OPT_MS, &since_ms, "TIME",
	         "only of the last 7d, 12h, …; 30d are kept"},
		{0},
	};
	auto_json json_t *items = json_array();
	struct output_table table;
	int r = cli_parse(cli, opts, 1, 1);
	size_t index;
	json_t *delivery;

	if (r <= 0)
		return r;
	auto_free char *target = client_target("/webhooks/%s/deliveries", cli->argv[0]);

	client_query(&target, "limit", "1000");
	client_query(&target, "state", state);
	if (since_ms > 0)
		client_query_u64(&target, "since", io_real_ms() - MIN(since_ms, io_real_ms()));
	if (get_deliveries(cli, target, items) < 0)
		return -1;
	if (output_json(cli, items))
		return 0;
	output_table_init(&table, titles);
	json_array_foreach (items, index, delivery) {
		put_delivery(&table, delivery);
	}
	output_table_print(&table);
	return 0;
}

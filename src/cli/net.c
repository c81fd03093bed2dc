/* `cloche sandbox net`: what the network policy of a sandbox decided, and changing it. */
#include <jansson.h>
#include <stdio.h>

#include "base/mem.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/commands.h"
#include "cli/events.h"
#include "cli/output.h"

static void put(char **line, const char *fmt, ...) PRINTF(2, 3);

static void put(char **line, const char *fmt, ...)
{
	auto_free char *more = NULL;
	va_list args;
	char *longer;

	va_start(args, fmt);
	if (vasprintf(&more, fmt, args) < 0)
		more = NULL;
	va_end(args);
	if (more == NULL)
		return;
	longer = mem_printf("%s%s", *line, more);
	free(*line);
	*line = longer;
}

/* TIME  deny  tcp example.org:443 (192.0.2.1) by curl: no rule allows this name */
static void print_decision(const json_t *event)
{
	const json_t *data = json_object_get(event, "data");
	const char *host = client_str(data, "host"), *address = client_str(data, "address");
	const char *program = client_str(data, "program"), *rule = client_str(data, "rule");
	const char *when = client_str(data, "decidedAt"); /* told later if nobody listened */
	uint64_t count = client_u64(data, "count");
	auto_free char *line =
		mem_printf("%s  %-6s %s", *when != '\0' ? when : client_str(event, "time"),
	                   client_str(data, "verdict"), client_str(data, "proto"));

	if (*host != '\0' || *address != '\0')
		put(&line, " %s", *host != '\0' ? host : address);
	if (client_u64(data, "port") > 0)
		put(&line, ":%llu", (unsigned long long)client_u64(data, "port"));
	if (*host != '\0' && *address != '\0')
		put(&line, " (%s)", address);
	if (*program != '\0')
		put(&line, " by %s", program);
	if (*rule != '\0')
		put(&line, ": %s", rule);
	if (client_u64(data, "sent") + client_u64(data, "received") > 0)
		put(&line, ", %llu bytes out, %llu in",
		    (unsigned long long)client_u64(data, "sent"),
		    (unsigned long long)client_u64(data, "received"));
	if (count > 1)
		put(&line, ", %llu times", (unsigned long long)count);
	output_line(line);
	(void)fflush(stdout);
}

static int show_hosts(struct cli *cli, const char *id)
{
	auto_free char *target = client_target("/sandboxes/%s/network", id);
	auto_json json_t *network = NULL;

	if (client_get(cli, target, &network) < 0)
		return -1;
	if (!output_json(cli, network))
		output_hosts(json_object_get(network, "hosts"));
	return 0;
}

int cmd_sandbox_net(struct cli *cli)
{
	auto_(events_done) struct events events = {.print = print_decision};
	bool hosts = false;
	const struct opt opts[] = {
		{"follow", 'f', OPT_FLAG, &events.follow, NULL, "go on as they happen"},
		{"after", 0, OPT_U64, &events.after, "N", "only events with a greater number"},
		{"hosts", 0, OPT_FLAG, &hosts, NULL, "connections and bytes by host instead"},
		{0},
	};
	int r = cli_parse(cli, opts, 1, 1);

	if (r <= 0)
		return r;
	if (hosts)
		return show_hosts(cli, cli->argv[0]);
	events.base = client_target("/sandboxes/%s/events?kind=sandbox.network", cli->argv[0]);
	return events_show(cli, &events);
}

struct wish {
	const char *network, *mode;
	struct opt_list allow, cidrs, drop;
	bool clear;
};

static void wish_done(struct wish *wish)
{
	opt_list_done(&wish->allow);
	opt_list_done(&wish->cidrs);
	opt_list_done(&wish->drop);
}

static bool is_dropped(const struct wish *wish, const char *entry)
{
	for (size_t i = 0; i < wish->drop.count; i++) {
		if (str_eq(wish->drop.items[i], entry))
			return true;
	}
	return wish->clear;
}

/* What is there and not dropped, then what is new. */
static int put_list(json_t *body, const char *key, const json_t *before, const struct wish *wish,
                    const struct opt_list *more, struct err *err)
{
	json_t *list = json_array();
	size_t index;
	json_t *item;

	(void)json_object_set_new(body, key, list); /* only fails without memory */
	json_array_foreach (json_object_get(before, key), index, item) {
		if (!is_dropped(wish, json_string_value(item)))
			(void)json_array_append(list, item);
	}
	for (size_t i = 0; i < more->count; i++) {
		if (json_array_append_new(list, json_string(more->items[i])) < 0)
			return err_set(err, ERR_INVALID, "an entry is not valid UTF-8");
	}
	return 0;
}

static int put_texts(json_t *body, const struct wish *wish, struct err *err)
{
	if (wish->network != NULL &&
	    json_object_set_new(body, "network", json_string(wish->network)) < 0)
		return err_set(err, ERR_INVALID, "--network is not valid UTF-8");
	if (wish->mode == NULL)
		return 0;
	if (str_eq(wish->mode, "default"))
		return json_object_set_new(body, "networkMode", json_null());
	if (json_object_set_new(body, "networkMode", json_string(wish->mode)) < 0)
		return err_set(err, ERR_INVALID, "--mode is not valid UTF-8");
	return 0;
}

int cmd_sandbox_net_set(struct cli *cli)
{
	auto_(wish_done) struct wish wish = {0};
	const struct opt opts[] = {
		{"network", 0, OPT_STR, &wish.network, "NAME", "another environment"},
		{"allow", 'a', OPT_LIST, &wish.allow, "DOMAIN[:PORT]", "allow it too; may repeat"},
		{"allow-cidr", 0, OPT_LIST, &wish.cidrs, "RANGE",
	         "addresses to allow too, also private ones; may repeat"},
		{"drop", 0, OPT_LIST, &wish.drop, "ENTRY",
	         "no longer allow what was added; may repeat"},
		{"clear", 0, OPT_FLAG, &wish.clear, NULL, "drop everything that was added"},
		{"mode", 0, OPT_STR, &wish.mode, "MODE",
	         "enforce, record or ask; default: the environment's"},
		{0},
	};
	int r = cli_parse(cli, opts, 1, 1);
	auto_json json_t *body = json_object();
	auto_json json_t *before = NULL;
	auto_json json_t *after = NULL;

	if (r <= 0)
		return r;
	auto_free char *target = client_target("/sandboxes/%s/network", cli->argv[0]);

	if (client_get(cli, target, &before) < 0 || put_texts(body, &wish, &cli->err) < 0 ||
	    put_list(body, "allow", before, &wish, &wish.allow, &cli->err) < 0 ||
	    put_list(body, "allowCidrs", before, &wish, &wish.cidrs, &cli->err) < 0)
		return -1;
	if (client_json(cli, "PUT", target, body, &after) < 0)
		return -1;
	if (output_json(cli, after))
		return 0;
	const json_t *policy = json_object_get(after, "networkPolicy");

	output_fact("network", "%s", client_str(after, "network"));
	output_fact("generation", "%llu", (unsigned long long)client_u64(policy, "generation"));
	output_fact("fingerprint", "%s", client_str(policy, "fingerprint"));
	return 0;
}

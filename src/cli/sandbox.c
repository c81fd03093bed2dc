/* `cloche sandbox`: create, list, info, stop, start, rm, rename, label, extend, wait. */
#include <jansson.h>

#include "base/mem.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/spec.h"
#include "cli/term.h"

/* The id alone for people and scripts, the object with -o json. */
static void print_id(const struct cli *cli, const json_t *sandbox)
{
	if (!output_json(cli, sandbox))
		output_line(client_str(sandbox, "id"));
}

int cmd_sandbox_create(struct cli *cli)
{
	auto_(cli_spec_done) struct cli_spec spec = {0};
	const struct opt opts[] = {
#define SPEC_OPT(name, letter, kind, field, arg, help) {name, letter, kind, &spec.field, arg, help},
#include "cli/spec.def"
#undef SPEC_OPT
		{0},
	};
	int r = cli_parse(cli, opts, 0, 0);

	if (r <= 0)
		return r;
	auto_json json_t *body = cli_spec_to_json(cli, &spec);
	auto_json json_t *sandbox = NULL;

	if (body == NULL || client_json(cli, "POST", "/api/v1/sandboxes", body, &sandbox) < 0)
		return -1;
	print_id(cli, sandbox);
	return 0;
}

struct list {
	const char *status, *name, *image;
	struct opt_list labels;
	bool quiet;
};

static void list_done(struct list *list)
{
	opt_list_done(&list->labels);
}

static char *join_labels(const struct opt_list *labels)
{
	char *text = NULL;

	for (size_t i = 0; i < labels->count; i++) {
		char *longer = text == NULL ? mem_strdup(labels->items[i])
		                            : mem_printf("%s,%s", text, labels->items[i]);

		free(text);
		text = longer;
	}
	return text;
}

/* All pages as one array; NULL with cli->err. */
static json_t *fetch_list(struct cli *cli, const struct list *list)
{
	auto_json json_t *all = json_array();
	auto_free char *cursor = NULL;
	auto_free char *labels = join_labels(&list->labels);

	do {
		auto_json json_t *page = NULL;
		auto_free char *target = client_target("/sandboxes");

		client_query(&target, "state", list->status);
		client_query(&target, "name", list->name);
		client_query(&target, "image", list->image);
		client_query(&target, "label", labels);
		client_query(&target, "limit", "1000");
		client_query(&target, "cursor", cursor);
		if (client_get(cli, target, &page) < 0)
			return NULL;
		const char *next = client_str(page, "nextCursor");

		(void)json_array_extend(all, json_object_get(page, "items"));
		free(cursor);
		cursor = *next == '\0' ? NULL : mem_strdup(next);
	} while (cursor != NULL);
	return take_ptr(all);
}

static void print_list(const json_t *all)
{
	static const char *const titles[] = {"ID",     "NAME", "STATE",   "IMAGE",
	                                     "MEMORY", "CPU",  "CREATED", NULL};
	struct output_table table;
	size_t index;
	json_t *sandbox;

	output_table_init(&table, titles);
	json_array_foreach (all, index, sandbox) {
		const json_t *meters = json_object_get(sandbox, "meters");
		bool degraded = json_is_true(json_object_get(sandbox, "degraded"));
		auto_free char *state = mem_printf("%s%s%s", client_str(sandbox, "state"),
		                                   client_u64(meters, "frozen") ? " (frozen)" : "",
		                                   degraded ? " (degraded)" : "");
		auto_free char *cpu = mem_printf(
			"%.1fs", json_number_value(json_object_get(meters, "cpuSeconds")));

		output_cell(&table, client_str(sandbox, "id"));
		output_cell(&table, client_str(sandbox, "name"));
		output_cell(&table, state);
		output_cell(&table, client_str(sandbox, "image"));
		output_cell_bytes(&table, client_u64(meters, "memoryBytes"));
		output_cell(&table, cpu);
		output_cell_ago(&table, output_parse_time(client_str(sandbox, "createdAt")));
	}
	output_table_print(&table);
}

/* One word a sandbox, and its name if it has one: for completion and scripts. */
static void print_words(const json_t *all)
{
	size_t index;
	json_t *sandbox;

	json_array_foreach (all, index, sandbox) {
		const char *name = client_str(sandbox, "name");

		output_line(*name == '\0' ? client_str(sandbox, "id") : name);
	}
}

int cmd_sandbox_list(struct cli *cli)
{
	auto_(list_done) struct list list = {0};
	const struct opt opts[] = {
		{"status", 's', OPT_STR, &list.status, "STATE", "only in this state, like running"},
		{"label", 'l', OPT_LIST, &list.labels, "KEY=VALUE", "only with this label"},
		{"name", 0, OPT_STR, &list.name, "NAME", "only of this name"},
		{"image", 0, OPT_STR, &list.image, "NAME", "only of this image"},
		{"quiet", 'q', OPT_FLAG, &list.quiet, NULL, "names (or ids) alone"},
		{0},
	};
	int r = cli_parse(cli, opts, 0, 0);

	if (r <= 0)
		return r;
	auto_json json_t *all = fetch_list(cli, &list);

	if (all == NULL)
		return -1;
	if (list.quiet)
		print_words(all);
	else if (!output_json(cli, all))
		print_list(all);
	return 0;
}

static void print_limits(const json_t *limits)
{
	static const struct {
		const char *key;
		bool is_bytes;
	} rows[] = {{"memory", true},
	            {"disk", true},
	            {"pids", false},
	            {"inodes", false},
	            {"nofile", false}};
	char text[32];

	output_fact("limit cpu", "%g cores", json_number_value(json_object_get(limits, "cpu")));
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		auto_free char *name = mem_printf("limit %s", rows[i].key);
		uint64_t value = client_u64(limits, rows[i].key);

		if (rows[i].is_bytes)
			str_format_bytes(text, sizeof(text), value);
		else
			(void)snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
		output_fact(name, "%s", text);
	}
}

static void print_meters(const json_t *meters)
{
	char now[32], peak[32], uptime[32];

	str_format_bytes(now, sizeof(now), client_u64(meters, "memoryBytes"));
	str_format_bytes(peak, sizeof(peak), client_u64(meters, "memoryPeakBytes"));
	str_format_ms(uptime, sizeof(uptime), client_u64(meters, "uptimeMs"));
	output_fact("uptime", "%s", uptime);
	output_fact("cpu", "%.3f s", json_number_value(json_object_get(meters, "cpuSeconds")));
	output_fact("memory", "%s (peak %s)", now, peak);
	output_fact("processes", "%llu", (unsigned long long)client_u64(meters, "pids"));
	str_format_bytes(now, sizeof(now), client_u64(meters, "diskBytes"));
	output_fact("disk", "%s in %llu files", now,
	            (unsigned long long)client_u64(meters, "inodes"));
	if (client_u64(meters, "netConnections") + client_u64(meters, "netDenied") == 0)
		return;
	str_format_bytes(now, sizeof(now), client_u64(meters, "netSentBytes"));
	str_format_bytes(peak, sizeof(peak), client_u64(meters, "netReceivedBytes"));
	output_fact("traffic", "%s out, %s in, %llu connections, %llu denied", now, peak,
	            (unsigned long long)client_u64(meters, "netConnections"),
	            (unsigned long long)client_u64(meters, "netDenied"));
}

/* "cgroup=v1 disk=tmpfs …" */
static void print_isolation(const json_t *isolation)
{
	auto_free char *text = mem_strdup("");
	const char *key;
	json_t *value;
	size_t index;

	json_object_foreach ((json_t *)isolation, key, value) {
		auto_free char *shown = json_is_string(value)
		                                ? mem_strdup(json_string_value(value))
		                                : json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);

		if (json_is_array(value))
			continue;
		char *longer = mem_printf("%s%s%s=%s", text, *text == '\0' ? "" : " ", key, shown);

		free(text);
		text = longer;
	}
	output_fact("isolation", "%s", text);
	json_array_foreach (json_object_get(isolation, "degraded"), index, value) {
		output_fact("degraded", "%s",
		            json_string_value(value) == NULL ? "" : json_string_value(value));
	}
	json_array_foreach (json_object_get(isolation, "shared"), index, value) {
		output_fact("shared", "%s, with all sandboxes of this user",
		            json_string_value(value) == NULL ? "" : json_string_value(value));
	}
}

static void print_map(const char *name, const json_t *map)
{
	const char *key;
	json_t *value;

	json_object_foreach ((json_t *)map, key, value) {
		output_fact(name, "%s=%s", key, client_str(map, key));
	}
}

static void print_mounts(const json_t *mounts)
{
	size_t index;
	json_t *mount;

	json_array_foreach (mounts, index, mount) {
		output_fact("mount", "%s on %s (%s)", client_str(mount, "source"),
		            client_str(mount, "target"),
		            json_is_false(json_object_get(mount, "readOnly")) ? "rw" : "ro");
	}
}

static void print_entries(const char *name, const json_t *list)
{
	size_t index;
	json_t *item;

	json_array_foreach (list, index, item) {
		output_fact(name, "%s",
		            json_string_value(item) != NULL ? json_string_value(item) : "");
	}
}

static void print_network(const json_t *sandbox)
{
	const json_t *policy = json_object_get(sandbox, "networkPolicy");

	print_entries("allow", json_object_get(sandbox, "allow"));
	print_entries("allow", json_object_get(sandbox, "allowCidrs"));
	print_entries("approved", json_object_get(policy, "approved"));
	if (!json_is_object(policy))
		return;
	output_fact("policy", "%s, %s, generation %llu", client_str(policy, "level"),
	            client_str(policy, "mode"),
	            (unsigned long long)client_u64(policy, "generation"));
	output_fact("fingerprint", "%s", client_str(policy, "fingerprint"));
}

static void print_info(const json_t *sandbox)
{
	static const char *const first[] = {"id", "name", "state", "endReason", "detail"};
	static const char *const second[] = {"profile", "runtime",   "image",   "user",     "cwd",
	                                     "network", "createdAt", "endedAt", "expiresAt"};

	for (size_t i = 0; i < ARRAY_LEN(first); i++)
		output_fact(first[i], "%s", client_str(sandbox, first[i]));
	for (size_t i = 0; i < ARRAY_LEN(second); i++)
		output_fact(second[i], "%s", client_str(sandbox, second[i]));
	print_map("label", json_object_get(sandbox, "labels"));
	print_mounts(json_object_get(sandbox, "mounts"));
	print_network(sandbox);
	print_isolation(json_object_get(sandbox, "isolation"));
	print_limits(json_object_get(sandbox, "limits"));
	print_meters(json_object_get(sandbox, "meters"));
}

int cmd_sandbox_info(struct cli *cli)
{
	int r = cli_parse(cli, NULL, 1, 1);
	auto_json json_t *sandbox = NULL;

	if (r <= 0)
		return r;
	auto_free char *target = client_target("/sandboxes/%s", cli->argv[0]);

	if (client_get(cli, target, &sandbox) < 0)
		return -1;
	if (!output_json(cli, sandbox))
		print_info(sandbox);
	return 0;
}

int cmd_sandbox_stop(struct cli *cli)
{
	uint64_t grace_ms = UINT64_MAX;
	const struct opt opts[] = {
		{"grace", 'g', OPT_MS, &grace_ms, "TIME", "between SIGTERM and SIGKILL (5s)"},
		{0},
	};
	int r = cli_parse(cli, opts, 1, -1);

	if (r <= 0)
		return r;
	auto_json json_t *body = json_object();

	if (grace_ms != UINT64_MAX)
		(void)json_object_set_new(body, "graceMs", json_integer((json_int_t)grace_ms));
	for (int i = 0; i < cli->argc; i++) {
		auto_free char *target = client_target("/sandboxes/%s/stop", cli->argv[i]);
		auto_json json_t *sandbox = NULL;

		if (client_json(cli, "POST", target, body, &sandbox) < 0)
			return err_wrap(&cli->err, "stop %s", cli->argv[i]);
		print_id(cli, sandbox);
	}
	return 0;
}

int cmd_sandbox_start(struct cli *cli)
{
	int r = cli_parse(cli, NULL, 1, 1);
	auto_json json_t *sandbox = NULL;

	if (r <= 0)
		return r;
	auto_free char *target = client_target("/sandboxes/%s/start", cli->argv[0]);

	if (client_json(cli, "POST", target, NULL, &sandbox) < 0)
		return -1;
	print_id(cli, sandbox);
	return 0;
}

int cmd_sandbox_rm(struct cli *cli)
{
	bool force = false;
	const struct opt opts[] = {
		{"force", 'f', OPT_FLAG, &force, NULL, "also when it still runs"},
		{0},
	};
	int r = cli_parse(cli, opts, 1, -1);

	if (r <= 0)
		return r;
	for (int i = 0; i < cli->argc; i++) {
		auto_free char *target = client_target("/sandboxes/%s", cli->argv[i]);

		client_query(&target, "force", force ? "true" : NULL);
		if (client_json(cli, "DELETE", target, NULL, NULL) < 0)
			return err_wrap(&cli->err, "remove %s", cli->argv[i]);
	}
	return 0;
}

/* PATCH with one member; takes value. */
static int change(struct cli *cli, const char *key, json_t *value)
{
	auto_free char *target = client_target("/sandboxes/%s", cli->argv[0]);
	auto_json json_t *body = json_pack("{s:o}", key, value);
	auto_json json_t *sandbox = NULL;

	if (body == NULL)
		return err_set(&cli->err, ERR_INVALID, "the %s is not valid UTF-8", key);
	if (client_json(cli, "PATCH", target, body, &sandbox) < 0)
		return -1;
	print_id(cli, sandbox);
	return 0;
}

int cmd_sandbox_rename(struct cli *cli)
{
	int r = cli_parse(cli, NULL, 2, 2);

	return r <= 0 ? r : change(cli, "name", json_string(cli->argv[1]));
}

int cmd_sandbox_share(struct cli *cli)
{
	int r = cli_parse(cli, NULL, 2, 2);

	return r <= 0 ? r : change(cli, "visibility", json_string(cli->argv[1]));
}

/* "key=value" sets, "key-" removes. */
static int change_label(struct cli *cli, json_t *labels, const char *text)
{
	const char *equals = strchr(text, '=');
	size_t len = strlen(text);
	auto_free char *key = mem_strndup(text, equals ? (size_t)(equals - text) : len - (len > 0));

	if (*key == '\0' || (!equals && text[len - 1] != '-'))
		return err_set(&cli->err, ERR_INVALID,
		               "'%s' is neither KEY=VALUE, which sets a label, nor KEY-, which "
		               "removes one",
		               text);
	if (!equals && json_object_del(labels, key) < 0)
		return err_set(&cli->err, ERR_NOT_FOUND, "there is no label '%s'", key);
	if (equals && json_object_set_new(labels, key, json_string(equals + 1)) < 0)
		return err_set(&cli->err, ERR_INVALID, "the label is not valid UTF-8");
	return 0;
}

int cmd_sandbox_label(struct cli *cli)
{
	int r = cli_parse(cli, NULL, 2, -1);
	auto_json json_t *sandbox = NULL;

	if (r <= 0)
		return r;
	auto_free char *target = client_target("/sandboxes/%s", cli->argv[0]);
	if (client_get(cli, target, &sandbox) < 0)
		return -1;
	json_t *labels = json_object_get(sandbox, "labels");
	for (int i = 1; i < cli->argc; i++)
		if (change_label(cli, labels, cli->argv[i]) < 0)
			return -1;
	return change(cli, "labels", json_incref(labels));
}

int cmd_sandbox_extend(struct cli *cli)
{
	int r = cli_parse(cli, NULL, 2, 2);
	uint64_t ttl_ms = 0;

	if (r <= 0)
		return r;
	if (str_eq(cli->argv[1], "none"))
		return change(cli, "ttl", json_null());
	if (str_to_ms(cli->argv[1], &ttl_ms) < 0 || ttl_ms > INT64_MAX)
		return err_set(&cli->err, ERR_INVALID, "'%s' is not a time like 30s or 2h",
		               cli->argv[1]);
	return change(cli, "ttl", json_integer((json_int_t)ttl_ms));
}

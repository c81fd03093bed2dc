/* `cloche sandbox`: exec, shell, attach, logs, execs, signal, wait. */
#include <jansson.h>
#include <time.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/attach.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/commands.h"
#include "cli/encode.h"
#include "cli/exec.h"
#include "cli/output.h"

/* How much of a terminal's past is shown to who comes back: a few screens. */
enum { REPLAY_BYTES = 16 * 1024 };

static void options_done(struct exec_options *options)
{
	opt_list_done(&options->env);
}

#define WHERE_OPTS(options)                                                                        \
	{"env", 'e', OPT_LIST, &(options).env, "NAME[=VALUE]", "variable; may repeat"},            \
		{"cwd", 'w', OPT_STR, &(options).cwd, "DIR", "where it starts"},                   \
		{"user", 'u', OPT_STR, &(options).user, "USER", "who it runs as"},                 \
	{                                                                                          \
		"detach-keys", 0, OPT_STR, &(options).detach_keys, "KEYS",                         \
			"leave it running (ctrl-p,ctrl-q)"                                         \
	}

int cmd_sandbox_exec(struct cli *cli)
{
	auto_(options_done) struct exec_options options = {.can_detach = true};
	bool background = false;
	const struct opt opts[] = {
		{"background", 'd', OPT_FLAG, &background, NULL, "print its id and return at once"},
		EXEC_OPTS(options),
		WHERE_OPTS(options),
		{0},
	};
	int r = cli_parse_tail(cli, opts, 1, 1);

	if (r <= 0)
		return r;
	if (exec_check(cli, &options) < 0)
		return -1;
	if (background) {
		auto_json json_t *exec = NULL;

		if (exec_background(cli, cli->argv[0], &options, cli->argv + 1, &exec) < 0)
			return -1;
		if (!output_json(cli, exec))
			output_line(client_str(exec, "id"));
		return 0;
	}
	if (attach_guard(cli) < 0)
		return -1;
	return exec_stay(cli, cli->argv[0], &options, cli->argv + 1);
}

int cmd_sandbox_shell(struct cli *cli)
{
	static const char find_shell[] = "for s in \"$SHELL\" /bin/bash /usr/bin/bash; do "
					 "[ -x \"$s\" ] && exec \"$s\" -l; done; exec /bin/sh -l";
	auto_(options_done) struct exec_options options = {.can_detach = true};
	const char *shell = NULL;
	const struct opt opts[] = {
		{"shell", 's', OPT_STR, &shell, "PATH", "which one (the user's own)"},
		EXEC_OPTS(options),
		WHERE_OPTS(options),
		{0},
	};
	int r = cli_parse(cli, opts, 1, 1);

	if (r <= 0)
		return r;
	if (exec_check(cli, &options) < 0)
		return -1;
	char *const own[] = {"/bin/sh", "-c", (char *)find_shell, NULL};
	char *const given[] = {(char *)shell, "-l", NULL};

	if (attach_guard(cli) < 0)
		return -1;
	return exec_stay(cli, cli->argv[0], &options, shell == NULL ? own : given);
}

/* The object of --exec, or of the newest that runs. */
static int get_exec(struct cli *cli, const char *sandbox, const char *given, json_t **ret)
{
	auto_free char *newest =
		given != NULL ? mem_strdup(given) : exec_newest(cli, sandbox, true);

	if (newest == NULL)
		return -1;
	auto_free char *target = client_target("/sandboxes/%s/execs/%s", sandbox, newest);

	return client_get(cli, target, ret);
}

struct attach_options {
	const char *exec, *keys;
	uint64_t offset;
	bool read_only;
};

#define ATTACH_OPTS(o)                                                                             \
	{"offset", 0, OPT_U64, &(o).offset, "N", "first byte of output wanted"},                   \
		{"read-only", 'r', OPT_FLAG, &(o).read_only, NULL, "look, do not type"},           \
	{                                                                                          \
		"detach-keys", 0, OPT_STR, &(o).keys, "KEYS", "leave it running (ctrl-p,ctrl-q)"   \
	}

static int attach_to(struct cli *cli, const char *sandbox, const struct attach_options *options)
{
	auto_json json_t *exec = NULL;
	struct attach_result result;

	if (get_exec(cli, sandbox, options->exec, &exec) < 0)
		return -1;
	uint64_t written = client_u64(exec, "outputBytes");
	struct attach_spec spec = {
		.sandbox = sandbox,
		.exec = client_str(exec, "id"),
		.tty = json_is_true(json_object_get(exec, "tty")) && term_is_interactive(),
		.input = !options->read_only,
		.read_only = options->read_only,
	};

	spec.offset = options->offset != UINT64_MAX        ? options->offset
	              : spec.tty && written > REPLAY_BYTES ? written - REPLAY_BYTES
	                                                   : 0;
	if (term_keys_parse(options->keys, &spec.detach, &cli->err) < 0 ||
	    attach_run(cli, &spec, &result) < 0)
		return -1;
	if (result.detached) {
		cli_note("detached");
		return 0;
	}
	exec_explain(result.reason, NULL, 0);
	return attach_status(&result);
}

int cmd_sandbox_attach(struct cli *cli)
{
	struct attach_options options = {.keys = "ctrl-p,ctrl-q", .offset = UINT64_MAX};
	const struct opt opts[] = {
		{"exec", 'x', OPT_STR, &options.exec, "ID", "which command (the newest that runs)"},
		ATTACH_OPTS(options),
		{0},
	};
	int r = cli_parse(cli, opts, 1, 1);

	if (r <= 0)
		return r;
	return attach_guard(cli) < 0 ? -1 : attach_to(cli, cli->argv[0], &options);
}

int cmd_task_attach(struct cli *cli)
{
	struct attach_options options = {.keys = "ctrl-p,ctrl-q", .offset = UINT64_MAX};
	const struct opt opts[] = {ATTACH_OPTS(options), {0}};
	int r = cli_parse(cli, opts, 1, 1);
	auto_free char *target = r > 0 ? client_target("/tasks/%s", cli->argv[0]) : NULL;
	auto_json json_t *answer = NULL;

	if (r <= 0)
		return r;
	if (attach_guard(cli) < 0 || client_get(cli, target, &answer) < 0)
		return -1;
	const json_t *run = json_object_get(json_object_get(answer, "task"), "run");

	if (!str_eq(client_str(run, "step"), "wait"))
		return err_set(&cli->err, ERR_CONFLICT,
		               "no agent of this task works now: cloche task get says why");
	options.exec = client_str(run, "exec");
	return attach_to(cli, client_str(run, "sandbox"), &options);
}

/* --- logs --- */

static int write_out(struct cli *cli, int fd, const void *bytes, size_t len)
{
	int r = io_write_all(fd, bytes, len);

	return r < 0 ? err_sys(&cli->err, -r, "write the output") : 0;
}

static int on_log_event(struct cli *cli, const struct sse_event *event)
{
	auto_json json_t *record = json_loadb(event->data, event->len, 0, NULL);
	const char *stream = client_str(record, "stream");
	const char *text = client_str(record, "data");
	size_t len = strlen(text);

	if (str_eq(stream, "gap"))
		cli_note("output up to byte %llu is no longer kept",
		         (unsigned long long)client_u64(record, "offset"));
	if (!str_eq(stream, "stdout") && !str_eq(stream, "stderr"))
		return 0;
	auto_free uint8_t *bytes = mem_zalloc(len / 4 * 3 + 1);
	ssize_t count = encode_from_base64(text, len, bytes);

	if (count < 0)
		return err_set(&cli->err, ERR_PROTOCOL, "the daemon's output is malformed");
	return write_out(cli, str_eq(stream, "stderr") ? STDERR_FILENO : STDOUT_FILENO, bytes,
	                 (size_t)count);
}

/* Both streams, each to its own descriptor: only the event form tells them apart. */
static int print_both(struct cli *cli, const char *target)
{
	const struct http_request request = {
		.method = "GET", .target = target, .accept = "text/event-stream"};
	auto_(sse_done) struct sse sse;
	struct sse_event event;
	int r = client_send(cli, &request);

	sse_init(&sse);
	while (r >= 0 && (r = client_next_event(cli, &sse, &event)) > 0)
		r = on_log_event(cli, &event);
	return r;
}

static int print_one(struct cli *cli, const char *target)
{
	const struct http_request request = {
		.method = "GET", .target = target, .accept = "application/octet-stream"};

	if (client_send(cli, &request) < 0)
		return -1;
	return http_read_to_fd(&cli->http, STDOUT_FILENO, NULL, NULL, &cli->err);
}

int cmd_sandbox_logs(struct cli *cli)
{
	const char *exec_id = NULL, *stream = NULL;
	uint64_t offset = 0;
	bool follow = false;
	const struct opt opts[] = {
		{"exec", 'x', OPT_STR, &exec_id, "ID", "which command (the newest)"},
		{"follow", 'f', OPT_FLAG, &follow, NULL, "go on until it ends"},
		{"offset", 0, OPT_U64, &offset, "N", "first byte wanted"},
		{"stream", 0, OPT_STR, &stream, "NAME", "stdout, stderr or all to stdout"},
		{0},
	};
	int r = cli_parse(cli, opts, 1, 1);

	if (r <= 0)
		return r;
	auto_free char *target = client_target("/sandboxes/%s/logs", cli->argv[0]);

	client_query(&target, "exec", exec_id);
	if (offset > 0)
		client_query_u64(&target, "offset", offset);
	client_query(&target, "follow", follow ? "true" : NULL);
	client_query(&target, "stream", stream);
	return stream == NULL ? print_both(cli, target) : print_one(cli, target);
}

/* --- execs, signal, wait --- */

static char *join_argv(const json_t *argv)
{
	char *text = mem_strdup("");
	size_t index;
	json_t *word;

	json_array_foreach (argv, index, word) {
		const char *shown = json_string_value(word) == NULL ? "" : json_string_value(word);
		char *longer = mem_printf("%s%s%s", text, index > 0 ? " " : "", shown);

		free(text);
		text = longer;
	}
	return text;
}

static void add_exec_row(struct output_table *table, const json_t *exec)
{
	auto_free char *command = join_argv(json_object_get(exec, "argv"));
	auto_free char *ended = NULL;

	if (json_is_integer(json_object_get(exec, "exitCode")))
		ended = mem_printf("%llu", (unsigned long long)client_u64(exec, "exitCode"));
	else if (client_u64(exec, "signal") > 0)
		ended = mem_printf("signal %llu", (unsigned long long)client_u64(exec, "signal"));
	output_cell(table, client_str(exec, "id"));
	output_cell(table, client_str(exec, "state"));
	output_cell(table, ended);
	output_cell(table, client_str(exec, "reason"));
	output_cell_ago(table, output_parse_time(client_str(exec, "startedAt")));
	output_cell(table, command);
}

int cmd_sandbox_execs(struct cli *cli)
{
	static const char *const titles[] = {"ID",      "STATE",   "EXIT", "REASON",
	                                     "STARTED", "COMMAND", NULL};
	bool running = false;
	const struct opt opts[] = {
		{"running", 'r', OPT_FLAG, &running, NULL, "only those that run"},
		{0},
	};
	int r = cli_parse(cli, opts, 1, 1);
	struct output_table table;
	auto_json json_t *page = NULL;
	size_t index;
	json_t *exec;

	if (r <= 0)
		return r;
	auto_free char *target = client_target("/sandboxes/%s/execs?limit=1000", cli->argv[0]);

	client_query(&target, "running", running ? "true" : NULL);
	if (client_get(cli, target, &page) < 0)
		return -1;
	const json_t *items = json_object_get(page, "items");

	if (output_json(cli, items))
		return 0;
	output_table_init(&table, titles);
	json_array_foreach (items, index, exec) {
		add_exec_row(&table, exec);
	}
	output_table_print(&table);
	return 0;
}

int cmd_sandbox_signal(struct cli *cli)
{
	const char *exec_id = NULL;
	const struct opt opts[] = {
		{"exec", 'x', OPT_STR, &exec_id, "ID", "which command (the newest that runs)"},
		{0},
	};
	int r = cli_parse(cli, opts, 1, 2);

	if (r <= 0)
		return r;
	const char *name = cli->argc > 1 ? cli->argv[1] : "TERM";
	bool kill = str_eq(name, "KILL") || str_eq(name, "SIGKILL") || str_eq(name, "9");
	auto_free char *exec =
		exec_id != NULL ? mem_strdup(exec_id) : exec_newest(cli, cli->argv[0], true);

	if (exec == NULL)
		return -1;
	auto_free char *target = client_target("/sandboxes/%s/execs/%s", cli->argv[0], exec);
	auto_free char *verb = mem_printf("%s/%s", target, kill ? "kill" : "signal");
	auto_json json_t *body = kill ? NULL : json_pack("{s:s}", "signal", name);

	if (!kill && body == NULL)
		return err_set(&cli->err, ERR_INVALID, "that is no signal");
	return client_json(cli, "POST", verb, body, NULL);
}

/* The output's end is seen a moment before the daemon has noted how the command ended. */
static int get_ended(struct cli *cli, const char *target, json_t **ret)
{
	const struct timespec wait = {.tv_nsec = 20 * 1000000L};

	for (int i = 0; i < 100; i++) {
		auto_json json_t *exec = NULL;

		if (client_get(cli, target, &exec) < 0)
			return -1;
		if (!str_eq(client_str(exec, "state"), "running")) {
			*ret = take_ptr(exec);
			return 0;
		}
		(void)nanosleep(&wait, NULL); /* an early end is harmless */
	}
	return err_set(&cli->err, ERR_TIMEOUT, "the command's output ended, but not the command");
}

/* Follows the output without keeping it: the stream ends with the command. */
static int wait_exec(struct cli *cli, const char *exec_id)
{
	auto_free char *target = client_target("/sandboxes/%s/execs/%s", cli->argv[0], exec_id);
	auto_free char *output = mem_printf("%s/output?follow=true&stream=all", target);
	const struct http_request request = {
		.method = "GET", .target = output, .accept = "application/octet-stream"};
	auto_json json_t *exec = NULL;
	char bytes[4096];
	ssize_t got;

	if (client_send(cli, &request) < 0)
		return -1;
	while ((got = http_read(&cli->http, bytes, sizeof(bytes), &cli->err)) > 0)
		;
	if (got < 0 || get_ended(cli, target, &exec) < 0)
		return -1;
	if (!output_json(cli, exec))
		output_line(client_str(exec, "reason"));
	return 0;
}

int cmd_sandbox_wait(struct cli *cli)
{
	uint64_t timeout_ms = 0;
	const char *exec_id = NULL;
	const struct opt opts[] = {
		{"timeout", 't', OPT_MS, &timeout_ms, "TIME", "give up after this time"},
		{"exec", 'x', OPT_STR, &exec_id, "ID", "wait for this command instead"},
		{0},
	};
	int r = cli_parse(cli, opts, 1, 1);
	auto_json json_t *sandbox = NULL;

	if (r <= 0)
		return r;
	if (exec_id != NULL && timeout_ms > 0)
		return err_set(&cli->err, ERR_INVALID, "--timeout is for sandboxes, not commands");
	if (exec_id != NULL)
		return wait_exec(cli, exec_id);
	auto_free char *target = client_target("/sandboxes/%s/wait", cli->argv[0]);

	if (timeout_ms > 0)
		client_query_u64(&target, "timeoutMs", timeout_ms);
	if (client_get(cli, target, &sandbox) < 0)
		return -1;
	if (!output_json(cli, sandbox))
		output_line(client_str(sandbox, "state"));
	return str_eq(client_str(sandbox, "endedAt"), "") ? err_exit(ERR_TIMEOUT) : 0;
}

/*
 * `cloche doctor`: what this machine enforces, asked of the daemon or tried here, and whether a
 * sandbox really starts. Mechanisms that work one by one may still not work together.
 */
#include <jansson.h>

#include "base/mem.h"
#include "base/str.h"
#include "cli/attach.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/private.h"
#include "cli/term.h"

/* A start takes a fraction of a second. The command's own deadline ends it, not ours. */
enum { TRIAL_COMMAND_MS = 20 * 1000, TRIAL_ANSWER_MS = 60 * 1000 };

static const char trial_name[] = "sandbox";

static void add_check(const struct cli_check *check, void *ctx)
{
	json_t *checks = ctx;

	/* Our own texts: always UTF-8. */
	(void)json_array_append_new(checks, json_pack("{s:s, s:s, s:s, s:s}", "name", check->name,
	                                              "status", check->status, "detail",
	                                              check->detail, "remedy", check->remedy));
}

/* {ok, checks} as the API gives it. 1: from the daemon; 0: by trying ourselves. */
static int examine(struct cli *cli, json_t **ret)
{
	size_t index;
	json_t *check;
	bool ok = true;

	if (client_get(cli, "/api/v1/doctor", ret) == 0)
		return 1;
	if (cli->err.code != ERR_UNAVAILABLE && cli->err.code != ERR_FORBIDDEN)
		return -1;
	cli->err = (struct err){0};
	json_t *checks = json_array();

	if (cli->roles->doctor(cli->state_dir, add_check, checks, &cli->err) < 0) {
		json_decref(checks);
		return -1;
	}
	json_array_foreach (checks, index, check) {
		ok = ok && !str_eq(client_str(check, "status"), "missing");
	}
	*ret = json_pack("{s:b, s:o}", "ok", ok, "checks", checks);
	return 0;
}

/* --- the trial --- */

/* One request: the daemon makes the sandbox and takes it away, also when we die meanwhile. */
static int run_true(struct cli *cli)
{
	auto_json json_t *result = NULL;
	auto_json json_t *body =
		json_pack("{s:{s:{s:s}}, s:{s:[s], s:i}}", "sandbox", "labels", "by", "doctor",
	                  "exec", "argv", "/bin/true", "timeoutMs", TRIAL_COMMAND_MS);

	cli->http.wait_ms = TRIAL_ANSWER_MS;
	int r = client_json(cli, "POST", "/api/v1/run", body, &result);

	cli->http.wait_ms = -1;
	if (r < 0)
		return -1;
	const json_t *code = json_object_get(result, "exitCode");

	if (json_is_integer(code) && json_integer_value(code) == 0)
		return 0;
	if (json_is_integer(code))
		return err_set(&cli->err, ERR_INTERNAL, "run /bin/true: it ended with status %d",
		               (int)json_integer_value(code));
	return err_set(&cli->err, ERR_INTERNAL, "run /bin/true: it was ended: %s",
	               client_str(result, "reason"));
}

/* As `cloche run` does where nobody serves: on a directory that goes again. The one that was named
 * stays as it is. */
static int run_true_privately(struct cli *cli)
{
	struct cli own = {.roles = cli->roles, .interrupt_fd = -1};
	auto_(private_end) struct private_daemon daemon;

	private_init(&daemon);
	http_init(&own.http);
	int r = private_start(&daemon, &own);

	if (r < 0)
		(void)err_wrap(&own.err, "start a daemon");
	else
		r = run_true(&own);
	cli->err = own.err;
	http_close(&own.http);
	free(own.state_dir);
	return r;
}

/* The last row of the report. */
static int add_trial(struct cli *cli, bool has_daemon, json_t *report)
{
	int r = has_daemon ? run_true(cli) : run_true_privately(cli);
	struct cli_check check = {trial_name, "ok", "one was started and ran /bin/true", ""};
	const struct err err = cli->err;

	cli->err = (struct err){0};
	if (r < 0) {
		check.status = "missing";
		check.detail = err.msg;
		check.remedy = "the detail names the step; the log of cloche serve may say more";
		if (json_object_set_new(report, "ok", json_false()) < 0)
			return err_set(&cli->err, ERR_INTERNAL, "out of memory");
	}
	add_check(&check, json_object_get(report, "checks"));
	return 0;
}

static enum term_style style_of(const char *status)
{
	if (str_eq(status, "ok"))
		return TERM_GREEN;
	return str_eq(status, "missing") ? TERM_RED : TERM_YELLOW;
}

static void print_escaped(const char *text)
{
	size_t size = strlen(text) * 4 + 8;
	auto_free char *shown = mem_zalloc(size);

	str_escape(shown, size, text, strlen(text));
	(void)fputs(shown, stdout);
}

static void print_check(const json_t *check, int width)
{
	const char *status = client_str(check, "status");
	const char *remedy = client_str(check, "remedy");

	(void)printf("%s%-8s%s  %-*s  ", term_style(style_of(status)), status,
	             term_style(TERM_PLAIN), width, client_str(check, "name"));
	print_escaped(client_str(check, "detail"));
	(void)putchar('\n');
	if (*remedy == '\0' || str_eq(status, "ok"))
		return;
	(void)printf("%*s-> ", width + 12, "");
	print_escaped(remedy);
	(void)putchar('\n');
}

/* The trial comes last: when it alone fails, what it needs looked right. */
static const char *verdict(bool ok, const json_t *checks)
{
	size_t index;
	json_t *check;
	const char *first = "";

	if (ok)
		return "\nthis machine enforces what Cloche promises";
	json_array_foreach (checks, index, check) {
		if (*first == '\0' && str_eq(client_str(check, "status"), "missing"))
			first = client_str(check, "name");
	}
	return str_eq(first, trial_name)
	               ? "\nevery mechanism is there, but no sandbox works here: see the last line"
	               : "\nsandboxes are refused here unless their profile says degraded = true";
}

int cmd_doctor(struct cli *cli)
{
	int r = cli_parse(cli, NULL, 0, 0);
	auto_json json_t *report = NULL;
	size_t index;
	json_t *check;
	int width = 0;

	if (r <= 0)
		return r;
	r = examine(cli, &report);
	if (r < 0 || add_trial(cli, r > 0, report) < 0)
		return -1;
	bool ok = json_is_true(json_object_get(report, "ok"));

	if (output_json(cli, report))
		return ok ? 0 : 1;
	const json_t *checks = json_object_get(report, "checks");

	json_array_foreach (checks, index, check) {
		width = MAX(width, (int)strlen(client_str(check, "name")));
	}
	json_array_foreach (checks, index, check) {
		print_check(check, width);
	}
	(void)puts(verdict(ok, checks));
	return ok ? 0 : 1;
}

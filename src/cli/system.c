/* `cloche serve, stop, doctor, status, version`: the daemon as a whole. */
#include <jansson.h>

#include "base/mem.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/term.h"

enum { STOP_GRACE_MS = 5 * 1000, STOP_GRACE_MOST_MS = 5 * 60 * 1000 };

int cmd_serve(struct cli *cli)
{
	const char *listen = NULL;
	const struct opt opts[] = {
		{"listen", 0, OPT_STR, &listen, "ADDRESS:PORT",
	         "where the API listens on TCP; none: nowhere ([server] listen)"},
		{0},
	};
	int r = cli_parse(cli, opts, 0, 0);

	return r <= 0 ? r : cli->roles->serve(cli->state_dir, listen);
}

int cmd_stop(struct cli *cli)
{
	struct cli_stop how = {.grace_ms = STOP_GRACE_MS};
	bool stop_all = false;
	const struct opt opts[] = {
		{"stop-all", 0, OPT_FLAG, &stop_all, NULL, "end every sandbox, too (the default)"},
		{"keep", 0, OPT_FLAG, &how.keep, NULL, "let the sandboxes run on"},
		{"grace", 'g', OPT_MS, &how.grace_ms, "TIME", "between SIGTERM and SIGKILL (5s)"},
		{0},
	};
	int r = cli_parse(cli, opts, 0, 0);

	if (r <= 0)
		return r;
	if (how.keep && stop_all)
		return err_set(&cli->err, ERR_INVALID, "--keep and --stop-all exclude each other");
	/* Who means a daemon elsewhere must not end the sandboxes of this machine. */
	if (cli->url != NULL)
		return err_set(&cli->err, ERR_INVALID,
		               "stop works on this machine alone: leave out --url and CLOCHE_URL");
	if (how.grace_ms > STOP_GRACE_MOST_MS)
		return err_set(&cli->err, ERR_INVALID, "--grace is at most 5 minutes");
	return cli->roles->stop(cli->state_dir, &how, &cli->err);
}

/* --- doctor --- */

static void add_check(const struct cli_check *check, void *ctx)
{
	json_t *checks = ctx;

	/* Our own texts: always UTF-8. */
	(void)json_array_append_new(checks, json_pack("{s:s, s:s, s:s, s:s}", "name", check->name,
	                                              "status", check->status, "detail",
	                                              check->detail, "remedy", check->remedy));
}

/* {ok, checks} as the API gives it, from the daemon or by trying ourselves. */
static int examine(struct cli *cli, json_t **ret)
{
	size_t index;
	json_t *check;
	bool ok = true;

	if (client_get(cli, "/api/v1/doctor", ret) == 0)
		return 0;
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

int cmd_doctor(struct cli *cli)
{
	int r = cli_parse(cli, NULL, 0, 0);
	auto_json json_t *report = NULL;
	size_t index;
	json_t *check;
	int width = 0;

	if (r <= 0)
		return r;
	if (examine(cli, &report) < 0)
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
	(void)puts(ok ? "\nthis machine enforces what Cloche promises"
	              : "\nsandboxes are refused here unless their profile says degraded = true");
	return ok ? 0 : 1;
}

/* --- status, version --- */

/* *ret is NULL when no daemon answers. */
static int daemon_version(struct cli *cli, json_t **ret)
{
	*ret = NULL;
	if (client_get(cli, "/api/v1/version", ret) == 0)
		return 0;
	if (cli->err.code != ERR_UNAVAILABLE)
		return -1;
	cli->err = (struct err){0};
	return 0;
}

int cmd_version(struct cli *cli)
{
	int r = cli_parse(cli, NULL, 0, 0);
	json_t *daemon = NULL;

	if (r <= 0)
		return r;
	/* A daemon we may not ask is none to us. */
	if (daemon_version(cli, &daemon) < 0)
		daemon = NULL;
	auto_json json_t *both =
		json_pack("{s:s, s:O?}", "version", CLOCHE_VERSION, "daemon", daemon);

	json_decref(daemon);
	if (output_json(cli, both))
		return 0;
	(void)printf("cloche %s\n", CLOCHE_VERSION);
	if (daemon != NULL)
		(void)printf("daemon %s\n", client_str(json_object_get(both, "daemon"), "version"));
	return 0;
}

int cmd_status(struct cli *cli)
{
	int r = cli_parse(cli, NULL, 0, 0);
	auto_json json_t *daemon = NULL;

	if (r <= 0)
		return r;
	if (client_get(cli, "/api/v1/version", &daemon) < 0)
		return -1;
	if (output_json(cli, daemon))
		return 0;
	char ago[48];

	output_format_ago(ago, sizeof(ago), output_parse_time(client_str(daemon, "startedAt")));
	output_fact("state", "%s", cli->state_dir);
	output_fact("daemon", "%s (pid %llu)", client_str(daemon, "version"),
	            (unsigned long long)client_u64(daemon, "pid"));
	output_fact("started", "%s", ago);
	output_fact("sandboxes", "%llu alive", (unsigned long long)client_u64(daemon, "sandboxes"));
	return 0;
}

/* `cloche serve, stop, status, version`: the daemon as a whole. */
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

/*
 * `cloche run`: a sandbox for one command. Whatever happens after the sandbox was made, it is
 * removed before we return, unless --keep says otherwise.
 */
#include <jansson.h>

#include "base/id.h"
#include "base/mem.h"
#include "cli/attach.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/commands.h"
#include "cli/exec.h"
#include "cli/private.h"
#include "cli/spec.h"

struct run {
	struct cli_spec spec;
	struct exec_options exec;
	bool keep;
	struct private_daemon daemon;
};

static void run_done(struct run *run)
{
	cli_spec_done(&run->spec);
	private_end(&run->daemon);
}

static int find_daemon(struct cli *cli, struct run *run)
{
	if (client_connect(cli) == 0)
		return 0;
	if (cli->err.code != ERR_UNAVAILABLE || cli->url != NULL)
		return -1;
	if (run->keep && cli->state == NULL)
		return err_wrap(&cli->err, "--keep needs a daemon that stays");
	return private_start(&run->daemon, cli);
}

/* Label by which an ephemeral sandbox is found again when its creation was not seen to its end. */
static int mark(json_t *body, const char *mark_id)
{
	json_t *labels = json_object_get(body, "labels");

	if (labels == NULL && json_object_set_new(body, "labels", json_object()) == 0)
		labels = json_object_get(body, "labels");
	return json_object_set_new(labels, "ephemeral", json_string(mark_id));
}

/* Keeps the first error: why the command failed matters more than why cleaning up did. */
static int remove_sandbox(struct cli *cli, const char *id, int status)
{
	auto_free char *target = client_target("/sandboxes/%s?force=true&detach=true", id);
	struct err first = cli->err;

	cli->err = (struct err){0};
	if (client_json(cli, "DELETE", target, NULL, NULL) < 0 && cli->err.code != ERR_NOT_FOUND) {
		if (status < 0)
			cli_note("sandbox %s could not be removed: %s", id, cli->err.msg);
		else
			return err_wrap(&cli->err, "remove sandbox %s", id);
	}
	cli->err = first;
	return status;
}

/* The request was cut off, but the daemon may have taken it. */
static void remove_marked(struct cli *cli, const char *mark_id)
{
	auto_free char *label = mem_printf("ephemeral=%s", mark_id);
	auto_free char *target = client_target("/sandboxes");
	auto_json json_t *page = NULL;
	struct err first = cli->err;
	size_t index;
	json_t *sandbox;

	client_query(&target, "label", label);
	if (client_get(cli, target, &page) == 0)
		json_array_foreach (json_object_get(page, "items"), index, sandbox) {
			(void)!remove_sandbox(cli, client_str(sandbox, "id"), -1);
		}
	cli->err = first;
}

static int create(struct cli *cli, struct run *run, json_t **ret)
{
	auto_json json_t *body = cli_spec_to_json(cli, &run->spec);
	const struct id mark_id = id_new("run");

	if (body == NULL)
		return -1;
	if (!run->keep && mark(body, mark_id.text) < 0)
		return err_set(&cli->err, ERR_INTERNAL, "out of memory");
	if (client_json(cli, "POST", "/api/v1/sandboxes", body, ret) < 0) {
		if (cli_is_interrupted(cli) && !run->keep)
			remove_marked(cli, mark_id.text);
		return -1;
	}
	if (*client_str(*ret, "id") == '\0')
		return err_set(&cli->err, ERR_PROTOCOL, "the daemon's answer has no id");
	return 0;
}

/* The usual way: the daemon makes the sandbox, and removes it when the command ends or we do. */
static int run_by_daemon(struct cli *cli, struct run *run)
{
	auto_json json_t *body = cli_spec_to_json(cli, &run->spec);
	const struct id mark_id = id_new("run");
	char ours[LIMIT_ID_LEN + 1];

	if (body == NULL)
		return -1;
	if (mark(body, mark_id.text) < 0)
		return err_set(&cli->err, ERR_INTERNAL, "out of memory");
	int status = exec_run(cli, body, &run->exec, cli->argv, ours);

	if (status < 0)
		(void)cli_is_interrupted(cli); /* the signal is taken: cleaning up waits again */
	return ours[0] == '\0' ? status : remove_sandbox(cli, ours, status);
}

static int run_command(struct cli *cli, struct run *run)
{
	auto_json json_t *sandbox = NULL;

	if (attach_guard(cli) < 0 || find_daemon(cli, run) < 0)
		return -1;
	if (!run->keep && cli->output == CLI_HUMAN)
		return run_by_daemon(cli, run);
	if (create(cli, run, &sandbox) < 0)
		return -1;
	const char *id = client_str(sandbox, "id");

	if (!run->keep)
		private_owns(&run->daemon, id);
	int status = exec_stay(cli, id, &run->exec, cli->argv);

	if (status < 0)
		(void)cli_is_interrupted(cli); /* the signal is taken: cleaning up waits again */
	if (run->keep) {
		cli_note("sandbox %s is kept", id);
		return status;
	}
	status = remove_sandbox(cli, id, status);
	private_owns(&run->daemon, "");
	return status;
}

int cmd_run(struct cli *cli)
{
	auto_(run_done) struct run run = {0};
	const struct opt opts[] = {
#define SPEC_OPT(name, letter, kind, field, arg, help)                                             \
	{name, letter, kind, &run.spec.field, arg, help},
#include "cli/spec.def"
#undef SPEC_OPT
		EXEC_OPTS(run.exec),
		{"keep", 0, OPT_FLAG, &run.keep, NULL, "do not remove the sandbox afterwards"},
		{"detach-keys", 0, OPT_STR, &run.exec.detach_keys, "KEYS",
	         "leave it running, with --keep (ctrl-p,ctrl-q)"},
		{0},
	};

	private_init(&run.daemon);
	int r = cli_parse_tail(cli, opts, 0, 1);

	if (r <= 0)
		return r;
	if (exec_check(cli, &run.exec) < 0)
		return -1;
	run.exec.can_detach = run.keep;
	return run_command(cli, &run);
}

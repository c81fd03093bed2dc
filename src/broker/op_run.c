/*
 * Who: the broker's loop checks and forwards (op_run); a child of the tasks zygote reads the
 * manifest and starts the program (run_command), root (or root of the broker's user namespace)
 * until runner.c drops everything. Bytes: values of arguments, which are words of a program and
 * nothing else. Gone at the end: the process.
 */
#include "broker/run.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/must.h"
#include "base/str.h"
#include "broker/context.h"
#include "broker/ops.h"
#include "broker/runner.h"
#include "broker/slot.h"
#include "broker/userdb.h"
#include "model/command.h"

enum {
	/* An id that no account, no sandbox and no keeper has. */
	RUN_UID = SLOT_KEEPER_FIRST - 1,
	RUN_GRACE_MS = 30 * 1000,
};

/*
 * Why this is safe: which program runs, as whom and with which words is said by a manifest that
 * root (rootless: the user) wrote and nobody else can; the daemon names it and gives values for
 * the places the manifest leaves open. The program has no capability, no descriptor, no variable
 * of ours, and neither the state directory nor other processes are there for it.
 */
int op_run(struct broker *broker, struct wire_msg *msg, struct err *err)
{
	struct job *job;
	auto_wire_out struct wire_out out = {0};
	size_t at = 0, len = 0;
	const char *text;
	const uint8_t *input = wire_blob(msg, FIELD_BYTES, &len);
	if (!command_is_file(wire_str(msg, FIELD_ENTRY, "")))
		return err_set(err, ERR_INVALID, "malformed name of a manifest");
	if (job_new(broker, msg->type, msg->request, &job, err) < 0)
		return -1;
	wire_begin(&out, msg->type, msg->request);
	wire_put_fd(&out, job->child_sock);
	wire_put_str(&out, FIELD_ENTRY, wire_str(msg, FIELD_ENTRY, ""));
	wire_put_str(&out, FIELD_FINGERPRINT, wire_str(msg, FIELD_FINGERPRINT, ""));
	while ((text = wire_next_str(msg, FIELD_ARGUMENT, &at)))
		wire_put_str(&out, FIELD_ARGUMENT, text);
	if (input)
		wire_put_bytes(&out, FIELD_BYTES, input, len);
	return job_send(job, &broker->tasks, &out, COMMAND_TIMEOUT_MOST_MS + RUN_GRACE_MS,
	                ops_relay, err);
}

/* Who can change what is in the folder chooses what runs. */
static int check_safe(const struct site *site, int fd, const char *what, struct err *err)
{
	struct stat st;
	if (fstat(fd, &st) < 0)
		return err_sys(err, errno, "look at %s", what);
	if (st.st_uid != 0 && st.st_uid != geteuid())
		return err_set(err, ERR_FORBIDDEN,
		               "%s must belong to %s: whoever owns it chooses what runs", what,
		               site->is_rootless ? "you" : "root");
	if (st.st_mode & (S_IWGRP | S_IWOTH))
		return err_set(err, ERR_FORBIDDEN, "%s can be changed by others: chmod go-w", what);
	return 0;
}

static int load(const struct site *site, const struct wire_msg *msg, struct command **ret,
                struct err *err)
{
	const char *file = wire_str(msg, FIELD_ENTRY, "");
	auto_(command_unrefp) struct command *command = NULL;
	auto_close int dir =
		openat(site->state.dir_fd, site->commands, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return err_sys(err, errno, "open the folder of commands");
	auto_close int fd = openat(dir, file, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return err_set(err, ERR_CONFLICT, "the manifest %s is gone: cloche command reload",
		               file);
	if (check_safe(site, dir, "the folder of commands", err) < 0 ||
	    check_safe(site, fd, file, err) < 0 || command_load(dir, file, &command, err) < 0)
		return -1;
	if (!str_eq(command->digest, wire_str(msg, FIELD_FINGERPRINT, "")))
		return err_set(err, ERR_CONFLICT,
		               "the manifest %s has changed: cloche command reload", file);
	if (command->service)
		return err_set(err, ERR_INVALID, "%s names no program", file);
	*ret = take_ptr(command);
	return 0;
}

/* Rootless there is one user, who wrote the manifest; capabilities go all the same. */
static int choose_user(const struct site *site, const struct command *command,
                       struct runner_spec *spec, struct err *err)
{
	struct userdb_account account = {RUN_UID, RUN_UID};
	auto_free char *passwd = NULL;
	size_t len;
	if (site->is_rootless && command->user)
		return err_set(err, ERR_CONFIG, "%s: 'user' needs a daemon of root's",
		               command->file);
	if (site->is_rootless)
		return 0;
	if (command->user && (io_read_file(AT_FDCWD, "/etc/passwd", 4 << 20, &passwd, &len) < 0 ||
	                      !userdb_account_in(passwd, command->user, &account)))
		return err_set(err, ERR_CONFIG, "%s: there is no user '%.60s'", command->file,
		               command->user);
	if (account.uid == 0 || account.uid == site->daemon.uid)
		return err_set(err, ERR_FORBIDDEN,
		               "%s: a program runs neither as root nor as the daemon's user",
		               command->file);
	spec->change_user = true;
	spec->uid = account.uid;
	spec->gid = account.gid;
	return 0;
}

static void put_result(const struct command *command, struct runner_result *result,
                       struct wire_out *answer)
{
	size_t out = MIN(buf_len(&result->output), (size_t)command->output_bytes);
	size_t errors = MIN(buf_len(&result->errors), (size_t)COMMAND_PROGRAM_ERRORS);
	bool is_cut = result->is_cut || out < buf_len(&result->output) ||
	              errors < buf_len(&result->errors);
	wire_put_u64(answer, FIELD_EXIT_CODE, (uint64_t)result->exit_code);
	if (result->signal)
		wire_put_u64(answer, FIELD_SIGNAL, (uint64_t)result->signal);
	if (result->timed_out)
		wire_put_str(answer, FIELD_REASON, "timeout");
	wire_put_bytes(answer, FIELD_BYTES, buf_head(&result->output), out);
	wire_put_bytes(answer, FIELD_ERRORS, buf_head(&result->errors), errors);
	wire_put_u64(answer, FIELD_MORE, is_cut);
}

int run_command(const struct site *site, struct wire_msg *msg, struct wire_out *answer,
                struct err *err)
{
	auto_(command_unrefp) struct command *command = NULL;
	struct strings values = {0}, argv = {0};
	struct runner_spec spec = {.hidden = site->state.path, .splits = true};
	struct runner_result result = {0};
	size_t at = 0;
	const char *text;
	if (load(site, msg, &command, err) < 0)
		return -1;
	must(command);
	while ((text = wire_next_str(msg, FIELD_ARGUMENT, &at)))
		strings_add(&values, text);
	int r = command_argv(command, &values, &argv, err);
	if (r == 0)
		r = choose_user(site, command, &spec, err);
	if (r == 0) {
		spec.argv = argv.items;
		spec.timeout_ms = command->timeout_ms;
		if (command->has_stdin)
			spec.input = wire_blob(msg, FIELD_BYTES, &spec.input_len);
		r = runner_run(&spec, &result, err);
		if (r == 0)
			put_result(command, &result, answer);
		runner_done(&result);
	}
	strings_done(&values);
	strings_done(&argv);
	return r;
}

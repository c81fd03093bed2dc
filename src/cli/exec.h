/*
 * Commands in a sandbox, for the commands of the command line that start or follow one: `run`,
 * `sandbox exec`, `shell`, `attach`.
 */
#pragma once

#include <jansson.h>

#include "base/base.h"
#include "base/opt.h"
#include "cli/attach.h"
#include "cli/cli.h"

struct exec_options {
	const char *cwd, *user;
	struct opt_list env;
	uint64_t timeout_ms;
	bool tty, no_tty;     /* neither: when stdin and stdout are terminals */
	bool input, no_input; /* neither: input is streamed */
	const char *detach_keys;
	bool can_detach;
};

/* Rows every command that starts one has. */
#define EXEC_OPTS(options)                                                                         \
	{"tty", 't', OPT_FLAG, &(options).tty, NULL, "with a terminal"},                           \
		{"no-tty", 'T', OPT_FLAG, &(options).no_tty, NULL, "without a terminal"},          \
		{"interactive", 'i', OPT_FLAG, &(options).input, NULL, "stream input (usual)"},    \
		{"no-input", 'n', OPT_FLAG, &(options).no_input, NULL, "no input"},                \
	{                                                                                          \
		"timeout", 0, OPT_MS, &(options).timeout_ms, "TIME", "kill it after this time"     \
	}

/*
 * Starts argv in the sandbox and stays with it to its end: attached, or with -o json waited for
 * and printed as one object. `sandbox` is its id or name. Returns the exit status to pass on, or
 * <0.
 */
int exec_stay(struct cli *cli, const char *sandbox, const struct exec_options *options,
              char *const *argv) NODISCARD;
/* As exec_stay, in a sandbox made for it from `sandbox` (a SandboxRequest) and removed by the
 * daemon when the command or this process ends. *ret_ours: its id when it is left to the caller to
 * remove, else "". */
int exec_run(struct cli *cli, json_t *sandbox, const struct exec_options *options,
             char *const *argv, char ret_ours[LIMIT_ID_LEN + 1]) NODISCARD;
/* Refuses options that exclude each other; for commands that have EXEC_OPTS. */
int exec_check(struct cli *cli, const struct exec_options *options) NODISCARD;
/* Starts it in the background; *ret is the exec object. */
int exec_background(struct cli *cli, const char *sandbox, const struct exec_options *options,
                    char *const *argv, json_t **ret) NODISCARD;
/* The newest exec of a sandbox, or the newest that runs. The caller frees. NULL with cli->err. */
char *exec_newest(struct cli *cli, const char *sandbox, bool only_running) NODISCARD;
/* "the command was killed: out of memory (limit 64 MiB)" on stderr, when there is a reason. */
void exec_explain(const char *reason, const json_t *limits, uint64_t timeout_ms);

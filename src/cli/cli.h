/*
 * The command line: a table of commands (commands.def) over the REST API on the Unix socket of a
 * state directory. Single-threaded, no locale, no NSS: it must start in about a millisecond.
 *
 * What needs a layer the command line may not include (the broker's roles, tree archives) comes
 * in through struct cli_roles, which main.c fills.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"
#include "base/opt.h"

/* One line of `cloche doctor`. status: "ok", "missing" (required) or "degraded" (does without). */
struct cli_check {
	const char *name;
	const char *status;
	const char *detail;
	const char *remedy; /* "" when there is nothing to do */
};
typedef void (*cli_on_check)(const struct cli_check *check, void *ctx);

struct cli_roles {
	/* The broker in the foreground until it is told to end; returns the exit status. */
	int (*serve)(const char *state_dir);
	/* Ends every sandbox of the state directory, daemon alive or dead; 0, or -1 with err. */
	int (*stop)(const char *state_dir, struct err *err);
	/* Tries what this machine enforces, without a daemon. */
	int (*doctor)(const char *state_dir, cli_on_check on_check, void *ctx, struct err *err);
	/* A tree as tar, in constant memory, on blocking fds. tree_fd is a folder: its content, or
	 * a regular file: one entry called `name`. */
	int (*pack)(int tree_fd, const char *name, int out_fd, struct err *err);
	/* Tar from in_fd into a folder; never leaves it, whatever the archive says. */
	int (*unpack)(int in_fd, int folder_fd, struct err *err);
};

enum cli_output { CLI_HUMAN, CLI_JSON, CLI_JSONL };

struct cli;

struct cli_command {
	const char *words; /* "sandbox create" */
	int (*run)(struct cli *cli, int argc, char **argv);
	const char *args;  /* "[options] ID", for the usage line */
	const char *about;
	const char *example;
	bool passes_status; /* the exit status is the command's; 125 is ours */
};

/* Receives a command's option table instead of running it: help and completion. */
typedef void (*cli_on_options)(const struct cli_command *command, const struct opt *opts,
			       void *ctx);

struct cli {
	const struct cli_roles *roles;
	const struct cli_command *command;
	enum cli_output output;
	const char *output_text;
	const char *state;  /* as given by --state or CLOCHE_STATE; NULL: the default */
	char *state_dir;    /* resolved; owned */
	bool help;
	cli_on_options describe; /* not NULL: cli_parse hands the table over and ends the command */
	void *describe_ctx;
	struct err err; /* why the command failed */
};

/* argv[0] is the program's name. Returns the exit status. */
int cli_main(int argc, char **argv, const struct cli_roles *roles);

/* --- for the commands: each returns the exit status, or <0 with cli->err filled --- */
enum cli_parse_flags {
	CLI_ANYWHERE = 0, /* options may stand between and after the arguments */
	CLI_TAIL = 1,     /* the `least`-th argument starts a foreign command line, kept as it is */
};

struct cli_args {
	char **items;
	int count;
};

/*
 * Parses the command's own options and the global ones. 1: go on; 0: nothing left to do (help
 * was asked for): return 0; <0: refused, cli->err says why. `most` < 0: no limit. With CLI_TAIL
 * the arguments before the tail are least - 1, and `--` before the tail is dropped.
 */
int cli_parse(struct cli *cli, int argc, char **argv, const struct opt *opts, int least, int most,
	      enum cli_parse_flags flags, struct cli_args *ret) NODISCARD;

/* Iterates the table; NULL at the end. */
const struct cli_command *cli_commands(size_t index);
/* Another spelling of a command's words, of which `*ret_words` is the real one. */
const char *cli_aliases(size_t index, const char **ret_words);
/* Help for everything, for the commands below some words ("sandbox"), or for one command. */
void cli_print_help(const char *words, FILE *to);
void cli_print_command_help(const struct cli_command *command, const struct opt *opts, FILE *to);
/* "cloche: text" on stderr, escaped; a JSON object there with -o json. */
void cli_report(const struct cli *cli, const struct err *err);
void cli_note(const char *fmt, ...) PRINTF(1, 2);

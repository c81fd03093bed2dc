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
#include "cli/http.h"

/* One line of `cloche doctor`. status: "ok", "missing" (required) or "degraded" (does without). */
struct cli_check {
	const char *name;
	const char *status;
	const char *detail;
	const char *remedy; /* "" when there is nothing to do */
};
typedef void (*cli_on_check)(const struct cli_check *check, void *ctx);

/* Packs dir_fd/name as `as` ("": a folder's content); write takes the bytes, <0 ends it. */
typedef int (*cli_write)(void *ctx, const void *bytes, size_t len);
typedef int (*cli_pack)(int dir_fd, const char *name, const char *as, cli_write write, void *ctx,
                        struct err *err);
/* Unpacks what read gives (0: the end, <0: broken) into a folder and never leaves it. */
typedef ssize_t (*cli_read)(void *ctx, void *bytes, size_t size);
typedef int (*cli_unpack)(int dir_fd, cli_read read, void *ctx, struct err *err);

struct cli_stop {
	bool keep; /* only the daemon and its broker end */
	uint64_t grace_ms;
};

struct cli_roles {
	/* The broker in the foreground until it is told to end; returns the exit status. listen is
	 * as in config.toml; NULL: what stands there. */
	int (*serve)(const char *state_dir, const char *listen);
	/* Ends every sandbox of the state directory, daemon alive or dead; 0, or -1 with err. */
	int (*stop)(const char *state_dir, const struct cli_stop *how, struct err *err);
	/* Tries what this machine enforces, without a daemon. */
	int (*doctor)(const char *state_dir, cli_on_check on_check, void *ctx, struct err *err);
	/* Tree archives, in constant memory; the functions of src/trees.h. */
	cli_pack pack;
	cli_unpack unpack;
	/* A socket at whose other end cloched speaks (TLS) with that host for us; <0 with err. */
	int (*tunnel)(const char *host, uint16_t port, bool is_tls, struct err *err);
	/* Becomes cloched with these words (NULL-terminated); returns only with err. */
	int (*become_cloched)(const char *const *words, struct err *err);
};

enum cli_output { CLI_HUMAN, CLI_JSON, CLI_JSONL };

struct cli;

struct cli_command {
	const char *words; /* "sandbox create" */
	int (*run)(struct cli *cli);
	const char *args; /* "[options] ID", for the usage line */
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
	const char *state; /* as given by --state or CLOCHE_STATE; NULL: the default */
	char *state_dir;   /* resolved; owned */
	const char *url;   /* as given by --url or CLOCHE_URL; NULL: the state directory's daemon */
	const char *key;   /* CLOCHE_KEY; NULL: the socket knows us */
	struct http http;  /* to its daemon; connected on first use */
	bool help;
	int argc; /* the command's own arguments; after cli_parse only the positional ones */
	char **argv;
	cli_on_options describe; /* not NULL: cli_parse hands the table over and ends the command */
	void *describe_ctx;
	int interrupt_fd; /* see attach_guard; -1: none */
	int interrupted;  /* the signal that ended the command's waiting; 0: none */
	struct err err;   /* why the command failed */
};

/* argv[0] is the program's name. Returns the exit status. */
int cli_main(int argc, char **argv, const struct cli_roles *roles);

/* --- for the commands: each returns the exit status, or <0 with cli->err filled --- */
/*
 * Parses the command's own options and the global ones, anywhere among the arguments, and leaves
 * the positional ones in cli->argv. 1: go on; 0: nothing left to do (help was asked for): return
 * 0; <0: refused, cli->err says why. `most` < 0: no limit.
 */
int cli_parse(struct cli *cli, const struct opt *opts, int least, int most) NODISCARD;
/* Resolves what the global options say so far, for whoever asks the daemon before its own options
 * are known. */
int cli_prepare(struct cli *cli) NODISCARD;
/* As cli_parse for commands that end in a foreign command line: `heads` arguments, then at least
 * `least` words that are kept as they are ("--" before them is dropped). */
int cli_parse_tail(struct cli *cli, const struct opt *opts, int heads, int least) NODISCARD;

/* True when cli->err is an interrupted wait; the signal is then taken and remembered: it becomes
 * the exit status, and what is done next waits again. */
bool cli_is_interrupted(struct cli *cli);

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

/*
 * Dispatch: leading words choose a row of commands.def (the longest that fits, aliases replaced),
 * global options may stand among them, and everything after belongs to the command.
 */
#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdarg.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/must.h"
#include "base/str.h"
#include "cli/attach.h"
#include "cli/commands.h"
#include "cli/domain.h"
#include "cli/place.h"
#include "cli/term.h"

enum { EXIT_OURS = 125, OPTS_MAX = 48 };

static const struct cli_command commands[] = {
#define COMMAND(words, function, passes_status, args, about, example)                              \
	{words, function, args, about, example, passes_status},
#include "cli/commands.def"
#undef COMMAND
};

static const struct {
	const char *words;
	const char *means;
} aliases[] = {
#define ALIAS(words, means) {words, means},
#include "cli/commands.def"
#undef ALIAS
};

const struct cli_command *cli_commands(size_t index)
{
	return index < ARRAY_LEN(commands) ? &commands[index] : NULL;
}

const char *cli_aliases(size_t index, const char **ret_words)
{
	if (index >= ARRAY_LEN(aliases))
		return NULL;
	*ret_words = aliases[index].means;
	return aliases[index].words;
}

void cli_report(const struct cli *cli, const struct err *err)
{
	char text[4 * sizeof(err->msg)];

	term_restore();
	(void)fflush(stdout); /* a failure shows at exit */
	if (cli->output != CLI_HUMAN) {
		json_t *problem = json_pack("{s:s, s:s, s:i}", "code", err_name(err->code),
		                            "detail", err->msg, "status", err_http(err->code));
		int r = problem == NULL ? -1 : json_dumpf(problem, stderr, JSON_COMPACT);

		json_decref(problem);
		(void)fputc('\n', stderr);
		if (r == 0)
			return;
	}
	str_disarm(text, sizeof(text), err->msg, strlen(err->msg));
	(void)fprintf(stderr, "cloche: %s\n", text);
}

void cli_note(const char *fmt, ...)
{
	char text[512], shown[1024];
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, args); /* cut is fine */
	va_end(args);
	str_disarm(shown, sizeof(shown), text, strlen(text));
	(void)fprintf(stderr, "cloche: %s\n", shown);
}

/* --- options --- */

static void fill_global(struct cli *cli, struct opt *opts)
{
	const struct opt global[] = {
		{"output", 'o', OPT_STR, &cli->output_text, "FORM", "human, json or jsonl"},
		{"state", 0, OPT_STR, &cli->state, "DIR", "state directory (CLOCHE_STATE)"},
		{"url", 0, OPT_STR, &cli->url, "URL",
	         "daemon elsewhere, with the key in CLOCHE_KEY (CLOCHE_URL)"},
		{"help", 'h', OPT_FLAG, &cli->help, NULL, "explain"},
		{0},
	};

	memcpy(opts, global, sizeof(global));
}

static int apply_output(struct cli *cli)
{
	static const char *const forms[] = {"human", "json", "jsonl", NULL};

	for (int i = 0; cli->output_text != NULL && forms[i] != NULL; i++) {
		if (str_eq(cli->output_text, forms[i])) {
			cli->output = (enum cli_output)i;
			cli->output_text = NULL;
		}
	}
	if (cli->output_text != NULL)
		return err_set(&cli->err, ERR_INVALID, "output is human, json or jsonl, not '%s'",
		               cli->output_text);
	return 0;
}

static int apply_global(struct cli *cli)
{
	if (apply_output(cli) < 0)
		return -1;
	if (cli->state != NULL && *cli->state == '\0')
		return err_set(&cli->err, ERR_INVALID, "the state directory's name is empty");
	free(cli->state_dir);
	cli->state_dir = place_resolve(cli->state, &cli->err);
	return cli->state_dir == NULL ? -1 : 0;
}

int cli_prepare(struct cli *cli)
{
	return apply_global(cli);
}

static void merge(struct cli *cli, const struct opt *opts, struct opt *all)
{
	size_t count = 0;

	for (; opts != NULL && opts->name != NULL; opts++) {
		must(count + 6 < OPTS_MAX);
		all[count++] = *opts;
	}
	fill_global(cli, &all[count]);
}

/* The vector ends with NULL again, as main's did. 1: run on; 0: help was printed or the table
 * handed over; <0. */
static int finish_parse(struct cli *cli, const struct opt *all, int least, int most)
{
	cli->argv[cli->argc] = NULL;
	if (cli->help) {
		cli_print_command_help(cli->command, all, stdout);
		return 0;
	}
	if (cli->argc < least || (most >= 0 && cli->argc > most))
		return err_set(&cli->err, ERR_INVALID, "usage: cloche %s %s", cli->command->words,
		               cli->command->args);
	return apply_global(cli) < 0 ? -1 : 1;
}

int cli_parse(struct cli *cli, const struct opt *opts, int least, int most)
{
	struct opt all[OPTS_MAX] = {0};

	merge(cli, opts, all);
	if (cli->describe != NULL) {
		cli->describe(cli->command, all, cli->describe_ctx);
		return 0;
	}
	if (opt_parse(all, cli->argc, cli->argv, false, &cli->argc, &cli->err) < 0)
		return -1;
	return finish_parse(cli, all, least, most);
}

int cli_parse_tail(struct cli *cli, const struct opt *opts, int heads, int least)
{
	struct opt all[OPTS_MAX] = {0};

	merge(cli, opts, all);
	if (cli->describe != NULL) {
		cli->describe(cli->command, all, cli->describe_ctx);
		return 0;
	}
	/* Options may stand before and after each head; the first other word starts the tail. */
	for (int head = 0; head <= heads; head++) {
		int at = MIN(head, cli->argc);
		int left = 0;

		if (opt_parse(all, cli->argc - at, cli->argv + at, true, &left, &cli->err) < 0)
			return -1;
		cli->argc = at + left;
	}
	return finish_parse(cli, all, heads + least, -1);
}

/* --- finding the command --- */

static bool starts_with_words(const char *words, const char *path)
{
	size_t len = strlen(path);

	return strncmp(words, path, len) == 0 && (words[len] == '\0' || words[len] == ' ');
}

/* Replaces *path by what it stands for. */
static void resolve_alias(char **path)
{
	for (size_t i = 0; i < ARRAY_LEN(aliases); i++) {
		if (!str_eq(aliases[i].words, *path))
			continue;
		free(*path);
		*path = mem_strdup(aliases[i].means);
	}
}

static bool is_known_prefix(const char *path)
{
	for (size_t i = 0; i < ARRAY_LEN(commands); i++)
		if (starts_with_words(commands[i].words, path))
			return true;
	return false;
}

static const struct cli_command *find_command(const char *path)
{
	for (size_t i = 0; i < ARRAY_LEN(commands); i++)
		if (str_eq(commands[i].words, path))
			return &commands[i];
	return NULL;
}

/* The words of a row up to the one behind `path`: "sandbox files" for path "sandbox". Owned by the
 * caller; NULL when the row is not below the path. */
static char *next_level(const char *words, const char *path)
{
	size_t len = strlen(path);

	if (len > 0 && (!starts_with_words(words, path) || words[len] == '\0'))
		return NULL;
	len += len > 0;
	return mem_strndup(words, len + strcspn(words + len, " "));
}

/* "unknown command 'sandbox lsit' (did you mean 'sandbox list'?)" */
static int unknown_command(struct cli *cli, const char *path, const char *word)
{
	char *candidates[ARRAY_LEN(commands) + ARRAY_LEN(aliases) + 1] = {0};
	auto_free char *asked = *path == '\0' ? mem_strdup(word) : mem_printf("%s %s", path, word);
	size_t count = 0;

	for (size_t i = 0; i < ARRAY_LEN(commands) + ARRAY_LEN(aliases); i++) {
		const char *words = i < ARRAY_LEN(commands)
		                            ? commands[i].words
		                            : aliases[i - ARRAY_LEN(commands)].words;
		char *level = next_level(words, path);

		if (level != NULL)
			candidates[count++] = level;
	}
	const char *nearest = opt_nearest(asked, (const char *const *)candidates);

	if (nearest != NULL)
		err_set(&cli->err, ERR_INVALID, "unknown command '%s' (did you mean '%s'?)", asked,
		        nearest);
	else
		err_set(&cli->err, ERR_INVALID, "unknown command '%s' (see 'cloche help')", asked);
	for (size_t i = 0; i < count; i++)
		free(candidates[i]);
	return -1;
}

/* Leading words and the global options among them. *ret_path is owned by the caller. */
static int parse_words(struct cli *cli, char **ret_path)
{
	struct opt global[8] = {0};
	auto_free char *path = mem_strdup("");
	int at = 0;

	fill_global(cli, global);
	while (at < cli->argc) {
		char *word = cli->argv[at];

		if (word[0] == '-' && word[1] != '\0' && find_command(path) == NULL) {
			int left = 0;

			if (opt_parse(global, cli->argc - at, cli->argv + at, true, &left,
			              &cli->err) < 0)
				return -1;
			cli->argc = at + left;
			continue;
		}
		char *longer = *path == '\0' ? mem_strdup(word) : mem_printf("%s %s", path, word);

		resolve_alias(&longer);
		if (!is_known_prefix(longer)) {
			free(longer);
			break;
		}
		free(path);
		path = longer;
		at++;
	}
	cli->argv += at;
	cli->argc -= at;
	*ret_path = take_ptr(path);
	return apply_output(cli);
}

static int dispatch(struct cli *cli)
{
	auto_free char *path = NULL;
	int status = 0;

	if (parse_words(cli, &path) < 0)
		return -1;
	cli->command = find_command(path);
	if (cli->command != NULL)
		return cli->command->run(cli);
	if (cli->argc > 0 && *path == '\0' && domain_run(cli, &status))
		return status;
	if (cli->argc > 0 && !cli->help)
		return unknown_command(cli, path, cli->argv[0]);
	if (apply_global(cli) < 0)
		return -1;
	cli_print_help(path, cli->help ? stdout : stderr);
	return cli->help ? 0 : err_exit(ERR_INVALID);
}

bool cli_is_interrupted(struct cli *cli)
{
	if (cli->err.sys != ECANCELED)
		return false;
	int signal_number = attach_pending_signal();

	if (signal_number != 0)
		cli->interrupted = signal_number;
	return true;
}

/* What the shell sees when a command ended without a status of its own. */
static int failure_status(struct cli *cli)
{
	if (cli_is_interrupted(cli) || cli->interrupted != 0)
		return 128 + cli->interrupted;
	cli_report(cli, &cli->err);
	bool is_ours = cli->err.code != ERR_NO_PROGRAM && cli->err.code != ERR_NOT_PROGRAM;

	if (is_ours && cli->command != NULL && cli->command->passes_status)
		return EXIT_OURS;
	return err_exit(cli->err.code);
}

/* A closed descriptor 0, 1 or 2 would be given to the next socket, and user bytes to the daemon. */
static void fill_standard_fds(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	while (fd >= 0 && fd <= STDERR_FILENO);
	fd_closep(&fd);
}

int cli_main(int argc, char **argv, const struct cli_roles *roles)
{
	struct cli cli = {
		.roles = roles,
		.argc = MAX(argc - 1, 0),
		.argv = argv + MIN(argc, 1),
		.state = place_env("CLOCHE_STATE"),
		.url = place_env("CLOCHE_URL"),
		.key = place_env("CLOCHE_KEY"),
		.interrupt_fd = -1,
	};

	fill_standard_fds();
	http_init(&cli.http);
	int status = dispatch(&cli);

	term_restore();
	if (status < 0)
		status = failure_status(&cli);
	http_close(&cli.http);
	fd_closep(&cli.interrupt_fd);
	free(cli.state_dir);
	/* Output that could not be written must not look like success. */
	if (fflush(stdout) != 0 && status == 0)
		status = err_exit(ERR_IO);
	return status;
}

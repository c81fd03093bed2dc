/* Help from the command table and each command's own options. */
#include "base/str.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/term.h"

static const char intro[] =
	"Cloche gives an agent a computer in milliseconds and takes it away again.\n"
	"\n"
	"usage: cloche [-o human|json|jsonl] [--state DIR] COMMAND [options]\n";

/* The command is "words" or below it. */
static bool is_below(const struct cli_command *command, const char *words)
{
	size_t len = strlen(words);

	return len == 0 || (str_has_prefix(command->words, words) &&
	                    (command->words[len] == ' ' || command->words[len] == '\0'));
}

void cli_print_help(const char *words, FILE *to)
{
	const struct cli_command *command;
	int width = 0;

	if (*words == '\0')
		(void)fputs(intro, to);
	for (size_t i = 0; (command = cli_commands(i)) != NULL; i++)
		if (is_below(command, words))
			width = MAX(width, (int)strlen(command->words));
	(void)fprintf(to, "%scommands:\n", *words == '\0' ? "\n" : "");
	for (size_t i = 0; (command = cli_commands(i)) != NULL; i++)
		if (is_below(command, words))
			(void)fprintf(to, "  %-*s  %s\n", width, command->words, command->about);
	(void)fprintf(to, "\n'cloche COMMAND --help' explains one, with an example.\n");
}

void cli_print_command_help(const struct cli_command *command, const struct opt *opts, FILE *to)
{
	(void)fprintf(to, "%s\n\nusage: cloche %s %s\n\n", command->about, command->words,
	              command->args);
	(void)fputs("options:\n", to);
	opt_print(opts, to);
	(void)fprintf(to, "\nexample:\n  %s\n", command->example);
}

static void print_one(const struct cli_command *command, const struct opt *opts, void *ctx)
{
	cli_print_command_help(command, opts, ctx);
}

int cmd_help(struct cli *cli)
{
	char words[128] = "";
	const struct cli_command *command;
	size_t matches = 0;
	int r = cli_parse(cli, NULL, 0, 4);

	if (r <= 0)
		return r;
	for (int i = 0; i < cli->argc; i++) {
		size_t len = strlen(words);

		(void)snprintf(words + len, sizeof(words) - len, "%s%s", i > 0 ? " " : "",
		               cli->argv[i]); /* cut: then it is unknown */
	}
	for (size_t i = 0; (command = cli_commands(i)) != NULL; i++) {
		if (str_eq(command->words, words)) {
			struct cli asked = {
				.command = command, .describe = print_one, .describe_ctx = stdout};

			return command->run(&asked);
		}
		matches += is_below(command, words);
	}
	if (matches == 0)
		return err_set(&cli->err, ERR_NOT_FOUND, "there is no command '%s'", words);
	cli_print_help(words, stdout);
	return 0;
}

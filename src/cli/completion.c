/*
 * Completion scripts for three shells, generated from the command table: each command's words,
 * its options, and for arguments called ID the sandboxes of the daemon at hand.
 */
#include "base/str.h"
#include "cli/cli.h"
#include "cli/commands.h"

struct script {
	const char *shell;
	const char *head;
	/* One command with its options. */
	void (*on_command)(const struct cli_command *command, const struct opt *opts);
	const char *tail;
};

static void print_option_words(const struct opt *opts)
{
	for (; opts->name != NULL; opts++) {
		(void)printf(" --%s", opts->name);
		if (opts->letter != 0)
			(void)printf(" -%c", opts->letter);
	}
}

/* bash and zsh share the table "words" -> options in a case statement. */
static void print_case(const struct cli_command *command, const struct opt *opts)
{
	(void)printf("\t\t\"%s\") opts=\"", command->words);
	print_option_words(opts);
	(void)printf("\"; ids=%d ;;\n", strstr(command->args, "ID") != NULL);
}

/* Inside single quotes for fish. */
static void print_quoted(const char *text)
{
	(void)putchar('\'');
	for (; *text != '\0'; text++) {
		if (*text == '\'' || *text == '\\')
			(void)putchar('\\');
		(void)putchar(*text);
	}
	(void)putchar('\'');
}

/* Words on the way to a command, "files" in "sandbox files ls", complete at their level. */
static void print_fish_words(const struct cli_command *command)
{
	const char *start = command->words;

	for (;;) {
		size_t len = strcspn(start, " ");
		int above = start == command->words ? 0 : (int)(start - command->words - 1);
		bool is_last = start[len] == '\0';

		(void)printf("complete -c cloche -n '__cloche_at \"%.*s\"' -a %.*s", above,
		             command->words, (int)len, start);
		if (is_last) {
			(void)fputs(" -d ", stdout);
			print_quoted(command->about);
		}
		(void)putchar('\n');
		if (is_last)
			return;
		start += len + 1;
	}
}

static void print_fish(const struct cli_command *command, const struct opt *opts)
{
	print_fish_words(command);
	for (; opts->name != NULL; opts++) {
		(void)printf("complete -c cloche -n '__cloche_in \"%s\"' -l %s", command->words,
		             opts->name);
		if (opts->letter != 0)
			(void)printf(" -s %c", opts->letter);
		(void)printf("%s -d ", opts->kind == OPT_FLAG ? "" : " -r");
		print_quoted(opts->help);
		(void)putchar('\n');
	}
	if (strstr(command->args, "ID") != NULL)
		(void)printf("complete -c cloche -n '__cloche_in \"%s\"' -a "
		             "'(cloche sandbox list --quiet 2>/dev/null)'\n",
		             command->words);
}

static void print_words(void)
{
	const struct cli_command *command;

	for (size_t i = 0; (command = cli_commands(i)) != NULL; i++)
		(void)printf("%s%s", i > 0 ? "\n" : "", command->words);
}

static const char bash_head[] = "# bash completion for cloche; made by 'cloche completion bash'\n"
				"_cloche_words='";
static const char bash_middle[] =
	"'\n"
	"_cloche()\n"
	"{\n"
	"\tlocal cur=${COMP_WORDS[COMP_CWORD]} path='' opts='' ids=0 word line next=''\n"
	"\tfor word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n"
	"\t\tif [[ $'\\n'$_cloche_words =~ $'\\n'\"${path:+$path }$word\"($'\\n'|' '|$) ]]; then\n"
	"\t\t\tpath=${path:+$path }$word\n"
	"\t\tfi\n"
	"\tdone\n"
	"\tcase $path in\n";
static const char bash_tail[] =
	"\tesac\n"
	"\twhile IFS= read -r line; do\n"
	"\t\tif [[ -z $path ]]; then next+=\" ${line%% *}\"\n"
	"\t\telif [[ $line == \"$path \"* ]]; then\n"
	"\t\t\tline=${line#\"$path \"}; next+=\" ${line%% *}\"\n"
	"\t\tfi\n"
	"\tdone <<<\"$_cloche_words\"\n"
	"\tif [[ $cur == -* ]]; then\n"
	"\t\tCOMPREPLY=($(compgen -W \"$opts --output --state --help\" -- \"$cur\"))\n"
	"\telif [[ -n $next ]]; then\n"
	"\t\tCOMPREPLY=($(compgen -W \"$next\" -- \"$cur\"))\n"
	"\telif [[ $ids == 1 ]]; then\n"
	"\t\tids=$(cloche sandbox list --quiet 2>/dev/null)\n"
	"\t\tCOMPREPLY=($(compgen -W \"$ids\" -- \"$cur\"))\n"
	"\tfi\n"
	"}\n"
	"complete -o default -F _cloche cloche\n";

static const char zsh_head[] = "#compdef cloche\n"
			       "# zsh completion for cloche; made by 'cloche completion zsh'\n"
			       "_cloche_words='";
static const char zsh_middle[] =
	"'\n"
	"_cloche()\n"
	"{\n"
	"\tlocal where='' opts='' ids=0 word line\n"
	"\tlocal -aU following\n"
	"\tlocal -a lines=(\"${(@f)_cloche_words}\")\n"
	"\tfor word in \"${(@)words[2,CURRENT-1]}\"; do\n"
	"\t\tlocal longer=\"${where:+$where }$word\"\n"
	"\t\tif (( ${lines[(I)$longer]} || ${lines[(I)$longer *]} )); then where=$longer; fi\n"
	"\tdone\n"
	"\tcase $where in\n";
static const char zsh_tail[] =
	"\tesac\n"
	"\tfor line in $lines; do\n"
	"\t\tif [[ -z $where ]]; then following+=(${line%% *})\n"
	"\t\telif [[ $line == \"$where \"* ]]; then line=${line#\"$where \"}; "
	"following+=(${line%% *})\n"
	"\t\tfi\n"
	"\tdone\n"
	"\tif [[ $PREFIX == -* ]]; then\n"
	"\t\tcompadd -- ${=opts} --output --state --help\n"
	"\telif (( $#following )); then\n"
	"\t\tcompadd -- $following\n"
	"\telif [[ $ids == 1 ]]; then\n"
	"\t\tcompadd -- ${(f)\"$(cloche sandbox list --quiet 2>/dev/null)\"}; _files\n"
	"\telse\n"
	"\t\t_files\n"
	"\tfi\n"
	"}\n"
	"compdef _cloche cloche\n";

static const char fish_head[] = "# fish completion for cloche; made by 'cloche completion fish'\n"
				"function __cloche_path\n"
				"\tset -l tokens (commandline -opc | string match -v -- '-*')\n"
				"\tstring join ' ' -- $tokens[2..-1]\n"
				"end\n"
				"function __cloche_at\n"
				"\ttest (__cloche_path) = \"$argv[1]\"\n"
				"end\n"
				"function __cloche_in\n"
				"\tstring match -q -- \"$argv[1]*\" (__cloche_path)\n"
				"end\n";

static void on_command(const struct cli_command *command, const struct opt *opts, void *ctx)
{
	const struct script *script = ctx;

	script->on_command(command, opts);
}

static void print_commands(const struct script *script)
{
	const struct cli_command *command;

	for (size_t i = 0; (command = cli_commands(i)) != NULL; i++) {
		struct cli asked = {
			.command = command, .describe = on_command, .describe_ctx = (void *)script};

		(void)command->run(&asked); /* hands its table over and ends */
	}
}

int cmd_completion(struct cli *cli)
{
	static const struct script scripts[] = {
		{"bash", bash_head, print_case, bash_tail},
		{"zsh", zsh_head, print_case, zsh_tail},
		{"fish", fish_head, print_fish, ""},
	};
	int r = cli_parse(cli, NULL, 1, 1);

	if (r <= 0)
		return r;
	for (size_t i = 0; i < ARRAY_LEN(scripts); i++) {
		if (!str_eq(scripts[i].shell, cli->argv[0]))
			continue;
		(void)fputs(scripts[i].head, stdout);
		if (scripts[i].on_command == print_case) {
			print_words();
			(void)fputs(i == 0 ? bash_middle : zsh_middle, stdout);
		}
		print_commands(&scripts[i]);
		(void)fputs(scripts[i].tail, stdout);
		return 0;
	}
	return err_set(&cli->err, ERR_INVALID, "completion is for bash, zsh or fish, not '%s'",
	               cli->argv[0]);
}

/* The command table: dispatch, global options, help, suggestions, completion. */
#include "cli/cli.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/str.h"
#include "harness/test.h"

struct ran {
	int status;
	char *out;
	char *err;
};

static void ran_done(struct ran *ran)
{
	free(ran->out);
	free(ran->err);
}

#define auto_ran auto_(ran_done)

static int serve(const char *state_dir, const char *listen)
{
	(void)printf("serve %s\n", state_dir);
	return 42;
}

static int stop(const char *state_dir, const struct cli_stop *how, struct err *err)
{
	if (how->keep)
		return printf("keep, grace %d\n", (int)how->grace_ms) < 0;
	return err_set(err, ERR_CONFLICT, "cannot stop %s\033[1m", state_dir);
}

static int doctor(const char *state_dir, cli_on_check on_check, void *ctx, struct err *err)
{
	on_check(&(struct cli_check){"seccomp", "ok", "works", ""}, ctx);
	on_check(&(struct cli_check){"cgroup", "missing", "no pids", "delegate one"}, ctx);
	return 0;
}

static char *slurp(int fd)
{
	char *text = mem_zalloc(256 * 1024);
	CHECK(pread(fd, text, 256 * 1024 - 1, 0) >= 0);
	close(fd);
	return text;
}

static int temp(const char *name)
{
	auto_free char *path = mem_printf("%s/%s", test_dir(), name);
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	CHECK(fd >= 0);
	return fd;
}

/* A command line in a process of its own, on an empty state directory. */
static struct ran run(char **argv)
{
	static const struct cli_roles roles = {.serve = serve, .stop = stop, .doctor = doctor};
	int out = temp(".out"), err = temp(".err"), status = 0, argc = 0;
	auto_free char *state = mem_printf("%s/state", test_dir());
	while (argv[argc] != NULL)
		argc++;
	pid_t pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		(void)setenv("CLOCHE_STATE", state, 1);
		(void)dup2(out, 1);
		(void)dup2(err, 2);
		exit(cli_main(argc, argv, &roles));
	}
	CHECK_INT(waitpid(pid, &status, 0), pid);
	return (struct ran){.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1,
	                    .out = slurp(out),
	                    .err = slurp(err)};
}

#define RUN(...) run((char *[]){"cloche", __VA_ARGS__, NULL})

TEST(a_command_runs_with_global_options_anywhere)
{
	auto_ran struct ran before = RUN("--state", "/a", "serve");
	CHECK_INT(before.status, 42);
	CHECK_STR(before.out, "serve /a\n");
	auto_ran struct ran after = RUN("serve", "--state=/b");
	CHECK_STR(after.out, "serve /b\n");
	auto_ran struct ran environment = RUN("serve");
	CHECK_HAS(environment.out, "/state\n");
}

TEST(failures_have_codes_and_clean_text)
{
	auto_ran struct ran human = RUN("stop", "--state", "/a");
	CHECK_INT(human.status, 73);
	CHECK_STR(human.err, "cloche: cannot stop /a\\x1b[1m\n");
	auto_ran struct ran json = RUN("-o", "json", "stop", "--state", "/a");
	CHECK_INT(json.status, 73);
	CHECK_HAS(json.err, "\"code\":\"conflict\"");
	auto_ran struct ran keep = RUN("stop", "--keep", "--grace", "2s");
	CHECK_INT(keep.status, 0);
	CHECK_STR(keep.out, "keep, grace 2000\n");
	auto_ran struct ran both = RUN("stop", "--keep", "--stop-all");
	CHECK_INT(both.status, 64);
	auto_ran struct ran form = RUN("-o", "yaml", "stop");
	CHECK_INT(form.status, 64);
	CHECK_HAS(form.err, "human, json or jsonl");
}

TEST(unknown_words_get_a_suggestion)
{
	auto_ran struct ran verb = RUN("sandbox", "lsit");
	CHECK_INT(verb.status, 64);
	CHECK_HAS(verb.err, "did you mean 'sandbox list'");
	auto_ran struct ran noun = RUN("snadbox", "list");
	CHECK_HAS(noun.err, "did you mean 'sandbox'");
	auto_ran struct ran deep = RUN("sandbox", "files", "cta", "x");
	CHECK_HAS(deep.err, "did you mean 'sandbox files cat'");
	auto_ran struct ran nothing = RUN("frobnicate");
	CHECK_HAS(nothing.err, "cloche help");
	auto_ran struct ran option = RUN("sandbox", "create", "--memroy", "1G");
	CHECK_HAS(option.err, "did you mean '--memory'");
}

TEST(plural_nouns_and_other_words_are_aliases)
{
	static char *const lines[][4] = {{"sandboxes", "ls", "--help", NULL},
	                                 {"sandbox", "delete", "--help", NULL},
	                                 {"images", "remove", "--help", NULL},
	                                 {"profiles", "info", "--help", NULL}};
	static const char *const usages[] = {"cloche sandbox list", "cloche sandbox rm",
	                                     "cloche image rm", "cloche profile show"};
	for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
		char *argv[] = {"cloche", lines[i][0], lines[i][1], lines[i][2], NULL};
		auto_ran struct ran ran = run(argv);
		CHECK_INT(ran.status, 0);
		CHECK_HAS(ran.out, usages[i]);
	}
}

TEST(every_command_explains_itself_with_an_example)
{
	const struct cli_command *command;
	for (size_t i = 0; (command = cli_commands(i)) != NULL; i++) {
		char *argv[8] = {"cloche"};
		auto_free char *words = mem_strdup(command->words);
		int argc = 1;
		for (char *word = words; word != NULL; argc++) {
			argv[argc] = word;
			word = strchr(word, ' ');
			if (word != NULL)
				*word++ = '\0';
		}
		argv[argc] = "--help";
		auto_ran struct ran ran = run(argv);
		auto_free char *usage = mem_printf("usage: cloche %s", command->words);
		CHECK_INT(ran.status, 0);
		CHECK_HAS(ran.out, usage);
		CHECK_HAS(ran.out, "example:\n  ");
		CHECK_HAS(command->example, command->words);
		CHECK_STR(ran.err, "");
	}
}

TEST(aliases_lead_to_commands)
{
	const char *means, *words;
	for (size_t i = 0; (words = cli_aliases(i, &means)) != NULL; i++) {
		const struct cli_command *command;
		bool found = false;
		for (size_t j = 0; (command = cli_commands(j)) != NULL; j++)
			found = found || str_has_prefix(command->words, means);
		CHECK(found);
	}
}

TEST(help_for_a_noun_and_for_nothing)
{
	auto_ran struct ran noun = RUN("image", "--help");
	CHECK_INT(noun.status, 0);
	CHECK_HAS(noun.out, "image import");
	CHECK(strstr(noun.out, "sandbox create") == NULL);
	auto_ran struct ran nothing = run((char *[]){"cloche", NULL});
	CHECK_INT(nothing.status, 64);
	CHECK_HAS(nothing.err, "usage: cloche");
	auto_ran struct ran word = RUN("help", "sandbox", "exec");
	CHECK_HAS(word.out, "--background");
	auto_ran struct ran unknown = RUN("help", "nonsense");
	CHECK_INT(unknown.status, 66);
}

TEST(wrong_counts_of_arguments_show_the_usage)
{
	auto_ran struct ran few = RUN("sandbox", "rename", "one");
	CHECK_INT(few.status, 64);
	CHECK_HAS(few.err, "usage: cloche sandbox rename ID NAME");
	auto_ran struct ran many = RUN("sandbox", "list", "extra");
	CHECK_INT(many.status, 64);
	auto_ran struct ran tail = RUN("run");
	CHECK_INT(tail.status, 125);
	auto_ran struct ran exec = RUN("sandbox", "exec", "--", "id");
	CHECK_INT(exec.status, 125);
}

TEST(without_a_daemon_commands_say_so)
{
	auto_ran struct ran ran = RUN("sandbox", "list");
	CHECK_INT(ran.status, 69);
	CHECK_HAS(ran.err, "no daemon serves");
	auto_ran struct ran exec = RUN("sandbox", "exec", "x", "ls", "-la");
	CHECK_INT(exec.status, 125);
	CHECK_HAS(exec.err, "no daemon serves");
}

TEST(doctor_without_a_daemon_tries_itself)
{
	auto_ran struct ran human = RUN("doctor");
	CHECK_INT(human.status, 1);
	CHECK_HAS(human.out, "missing   cgroup");
	CHECK_HAS(human.out, "-> delegate one");
	/* what would serve is this program, which does not */
	CHECK_HAS(human.out, "missing   sandbox  start a daemon: ");
	auto_ran struct ran json = RUN("doctor", "-o", "jsonl");
	CHECK_INT(json.status, 1);
	CHECK_HAS(json.out, "\"ok\":false");
}

TEST(setup_writes_once)
{
	auto_free char *state = mem_printf("%s/a/b", test_dir());
	auto_free char *key = mem_printf("%s/keys/signing.key", state);
	auto_ran struct ran first = RUN("setup", "--state", state);
	CHECK_INT(first.status, 0);
	CHECK_HAS(first.out, "config.toml");
	CHECK_HAS(first.out, "signing.key");
	char *before = NULL, *after = NULL;
	size_t len = 0;
	struct stat st;
	CHECK_INT(io_read_file(AT_FDCWD, key, 100, &before, &len), 0);
	CHECK_INT(len, 32);
	CHECK_INT(stat(key, &st), 0);
	CHECK_INT(st.st_mode & 07777, 0600);
	auto_ran struct ran second = RUN("setup", "--state", state);
	CHECK_INT(second.status, 0);
	CHECK_HAS(second.out, "nothing changed");
	CHECK_INT(io_read_file(AT_FDCWD, key, 100, &after, &len), 0);
	CHECK_MEM(before, after, 32);
	free(before);
	free(after);
}

TEST(completions_name_every_command)
{
	static char *const shells[] = {"bash", "zsh", "fish"};
	for (size_t i = 0; i < ARRAY_LEN(shells); i++) {
		auto_ran struct ran ran = RUN("completion", shells[i]);
		const struct cli_command *command;
		CHECK_INT(ran.status, 0);
		for (size_t j = 0; (command = cli_commands(j)) != NULL; j++) {
			const char *last = strrchr(command->words, ' ');
			CHECK_HAS(ran.out, last == NULL ? command->words : last + 1);
		}
		CHECK_HAS(ran.out, "background");
	}
	auto_ran struct ran other = RUN("completion", "tcsh");
	CHECK_INT(other.status, 64);
}

TEST(version_needs_no_daemon)
{
	auto_ran struct ran human = RUN("version");
	CHECK_INT(human.status, 0);
	CHECK_HAS(human.out, "cloche " CLOCHE_VERSION);
	auto_ran struct ran json = RUN("-o", "jsonl", "version");
	CHECK_STR(json.out, "{\"version\":\"" CLOCHE_VERSION "\",\"daemon\":null}\n");
}

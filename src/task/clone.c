/*
 * Step `clone`: the repository, shallow, on the task's branch: a new one, or as far as it came. A
 * sandbox that has it already (a run that goes on with files of another, a step that is repeated)
 * keeps its own work. The clone appears whole or not at all.
 */
#include <stdio.h>

#include "base/mem.h"
#include "base/str.h"
#include "model/config.h"
#include "task/git.h"
#include "task/inside.h"
#include "task/job.h"

enum { OUTPUT_MOST = 16 * 1024 };

/* url dir branch depth name email base */
static const char script[] =
	"set -eu\n"
	"url=$1 dir=$2 branch=$3 depth=$4 base=$7 existed=0\n"
	"if ! command -v git >/dev/null 2>&1; then\n"
	"	echo 'this image has no git: choose another image, or install git in it' >&2\n"
	"	exit 127\n"
	"fi\n"
	"if [ -e \"$dir/.git\" ]; then\n"
	"	cd \"$dir\"\n"
	"	git remote set-url origin \"$url\"\n"
	"	if git rev-parse -q --verify \"refs/heads/$branch\" >/dev/null; then\n"
	"		[ \"$(git symbolic-ref -q HEAD || :)\" = \"refs/heads/$branch\" ] ||\n"
	"			git checkout -q \"$branch\" --\n"
	"	else\n"
	"		git checkout -q -b \"$branch\"\n"
	"	fi\n"
	"	[ -n \"$base\" ] || base=$(git config cloche.base || :)\n"
	"else\n"
	"	refs=$(git ls-remote --symref \"$url\" HEAD \"refs/heads/$branch\")\n"
	"	main=$(printf '%s\\n' \"$refs\" |\n"
	"		sed -n 's,^ref: refs/heads/\\(.*\\)\tHEAD$,\\1,p')\n"
	"	[ -n \"$base\" ] || base=$main\n"
	"	case $refs in\n"
	"	*\"\trefs/heads/$branch\"*) existed=1 from=$branch ;;\n"
	"	*) from=$base ;;\n"
	"	esac\n"
	"	mkdir -p \"$(dirname \"$dir\")\"\n"
	"	rm -rf \"$dir.part\"\n"
	"	if [ -e \"$dir\" ] && ! rmdir \"$dir\" 2>/dev/null; then\n"
	"		echo \"fatal: $dir is there already and is no repository\" >&2\n"
	"		exit 1\n"
	"	fi\n"
	"	git clone -q --single-branch ${depth:+--depth \"$depth\"} \\\n"
	"		${from:+--branch \"$from\"} -- \"$url\" \"$dir.part\"\n"
	"	cd \"$dir.part\"\n"
	"	[ $existed = 1 ] || git checkout -q -b \"$branch\" 2>/dev/null ||\n"
	"		git symbolic-ref HEAD \"refs/heads/$branch\"\n"
	"	git config cloche.base \"$base\"\n"
	"	git config cloche.start \"$(git rev-parse -q --verify HEAD || :)\"\n"
	"	git config push.default current\n"
	"	git config push.autoSetupRemote true\n"
	"	cd /\n"
	"	mv \"$dir.part\" \"$dir\"\n"
	"	cd \"$dir\"\n"
	"fi\n"
	"lfs=0\n"
	"git grep -q -F -e filter=lfs HEAD -- ':(glob)**/.gitattributes' 2>/dev/null && lfs=1\n"
	"git config user.name \"$5\"\n"
	"git config user.email \"$6\"\n"
	"printf 'base=%s\\nhead=%s\\nlfs=%s\\n' \"$base\" \\\n"
	"	\"$(git config cloche.start || :)\" \"$lfs\"\n";

static int take(struct job *job, const struct inside_end *end, struct err *err)
{
	auto_free char *base = git_line(end, "base");
	auto_free char *head = git_line(end, "head");
	const char *branch = git_text(job, "branch");
	struct err bad = {0};

	if (base && *base && branch_check(base, &bad) < 0)
		return err_set(err, ERR_INVALID, "clone: the base has a name that is none");
	if (base && str_eq(base, branch) && git_publishes(job))
		return err_set(err, ERR_INVALID,
		               "clone: '%.80s' is the base, and a pull request needs another "
		               "branch: leave 'branch' out, or set 'createPr' to false",
		               branch);
	if (base && *base)
		git_note(job, "base", json_string(base));
	if (head && str_is_name(head) && !git_noted(job, "start"))
		git_note(job, "start", json_string(head));
	return 0;
}

static void on_cloned(struct job *job, const struct inside_end *end)
{
	auto_free char *lfs = git_line(end, "lfs");
	auto_free char *detail =
		mem_printf("%s, branch %s%s", git_text(job, "path"), git_text(job, "branch"),
	                   lfs && str_eq(lfs, "1") ? "; files of Git LFS are pointers" : "");
	struct err err = {0};

	if (!end->exec || end->exec->signal || end->exec->exit_code)
		git_complain(job, "clone", end, &err);
	if (err.code != ERR_OK || take(job, end, &err) < 0)
		job_step_failed(job, &err);
	else
		job_step_done(job, "completed", detail);
}

static int run_script(struct job *job, const struct sandbox *sandbox, struct err *err)
{
	const struct config_git *config = &job->tasks->config.config->git;
	const json_t *author = json_object_get(git_choices(job), "author");
	const char *name = json_string_value(json_object_get(author, "name"));
	const char *email = json_string_value(json_object_get(author, "email"));
	const char *base = git_text(job, "base");
	auto_free char *url =
		mem_printf("http://git.cloche.internal/%s.git", git_text(job, "path"));
	auto_free char *dir = git_cwd(job, sandbox);
	char depth[24] = "";
	const char *words[] = {"/bin/sh",
	                       "-c",
	                       script,
	                       "clone",
	                       url,
	                       dir,
	                       git_text(job, "branch"),
	                       depth,
	                       name ? name : config->author_name,
	                       email ? email : config->author_email,
	                       base ? base : ""};
	struct strings argv = {0}, env = {0};
	struct inside_command command = {
		.argv = &argv, .env = &env, .cwd = "/", .most = OUTPUT_MOST};
	int r;

	if (config->depth > 0)
		(void)snprintf(depth, sizeof(depth), "%llu", (unsigned long long)config->depth);
	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		strings_add(&argv, words[i]);
	git_env(sandbox, &env);
	r = inside_run(job, &command, on_cloned, err);
	strings_done(&argv);
	strings_done(&env);
	return r;
}

void clone_begin(struct job *job)
{
	auto_(sandbox_freep) struct sandbox *sandbox = NULL;
	struct err err = {0};

	if (store_sandbox_get(job_store(job), job->run->sandbox.text, &sandbox, &err) < 0 ||
	    run_script(job, sandbox, &err) < 0)
		job_step_failed(job, &err);
}

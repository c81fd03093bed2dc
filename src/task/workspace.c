#include "task/workspace.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/tar.h"
#include "model/skill.h"
#include "task/git.h"
#include "task/inside.h"
#include "task/job.h"

#define PROGRAM "/run/cloche/cloche"

enum {
	ANSWER_MOST = 5 * 1024 * 1024, /* a little more than inside_skills.c tells */
	LOOK_MS = 30 * 1000,
	FOUND_MOST = 64,
	SHOWN = 200,
};

/* One that was found: a skill, or what is wrong with it. */
struct found {
	char *path; /* in the project, as it came */
	struct skill *skill;
	struct err err;
};

struct finds {
	struct found items[FOUND_MOST];
	size_t count;
};

static void finds_done(struct finds *finds)
{
	for (size_t i = 0; i < finds->count; i++) {
		free(finds->items[i].path);
		skill_free(finds->items[i].skill);
	}
}

bool workspace_is_there(const struct job *job)
{
	return git_choices(job) || json_array_size(json_object_get(job->choices, "inputs")) > 0;
}

/* --- what came out --- */

/* The length of "PLACE/NAME" at the beginning of a path; 0: it is none. */
static size_t skill_part(const char *path)
{
	static const char *const places[] = {".agents/skills/", ".claude/skills/", "skills/"};

	for (size_t i = 0; i < ARRAY_LEN(places); i++) {
		if (str_has_prefix(path, places[i])) {
			size_t len = strlen(places[i]), name = strcspn(path + len, "/");

			return name > 0 ? len + name : 0;
		}
	}
	return 0;
}

static struct found *find(struct finds *finds, const char *path, size_t len)
{
	struct found *found;

	for (size_t i = 0; i < finds->count; i++) {
		found = &finds->items[i];
		if (strlen(found->path) == len && memcmp(found->path, path, len) == 0)
			return found;
	}
	if (finds->count == FOUND_MOST)
		return NULL;
	found = &finds->items[finds->count++];
	*found = (struct found){.path = mem_strndup(path, len), .skill = mem_new(struct skill)};
	found->skill->source = "workspace";
	return found;
}

/* Takes the bytes. What is wrong first is what is told. */
static void take_entry(struct finds *finds, const struct tar_entry *entry, struct buf *content)
{
	char name[SKILL_PATH + 2 * SKILL_NAME + 64], shown[80];
	size_t len = tar_clean_name(entry->name, name, sizeof(name)) < 0 ? 0 : skill_part(name);
	struct found *found = len > 0 ? find(finds, name, len) : NULL;
	size_t size = buf_len(content);
	char *bytes;

	if (!found || found->err.code != ERR_OK || (entry->type == TAR_DIR && name[len] == '\0'))
		return;
	str_escape(shown, sizeof(shown), name + len, strlen(name + len));
	if (entry->type != TAR_FILE) {
		(void)err_set(&found->err, ERR_INVALID, "'%s' is neither a file nor a folder",
		              shown[0] ? shown + 1 : ""); /* always -1 */
		return;
	}
	bytes = buf_take_string(content);
	(void)!skill_add(found->skill, name[len] ? name + len + 1 : "", bytes, size,
	                 entry->mode & 0100, &found->err); /* err says it */
}

/* Bytes from inside: whatever is no archive is the end of it. */
static void read_answer(const struct buf *answer, struct finds *finds)
{
	const uint8_t *at = buf_head(answer), *bytes;
	size_t left = buf_len(answer), len;
	struct tar_reader reader;
	struct buf content;
	int event;

	tar_reader_init(&reader);
	buf_init(&content, ANSWER_MOST);
	while ((event = tar_read(&reader, &at, &left, &bytes, &len)) > TAR_MORE &&
	       event != TAR_END) {
		if (event == TAR_ENTRY)
			buf_reset(&content);
		else if (event == TAR_CONTENT)
			(void)!buf_put(&content, bytes, len); /* a part of the answer fits */
		else if (event == TAR_ENTRY_END)
			take_entry(finds, &reader.entry, &content);
	}
	buf_done(&content);
	tar_reader_done(&reader);
}

/* --- which of them are shown --- */

static bool is_named(const struct job *job, const char *name)
{
	json_t *item;
	size_t i;

	json_array_foreach (json_object_get(job->choices, "skills"), i, item) {
		if (str_eq(json_string_value(item), name))
			return true;
	}
	return false;
}

/* The first of a name counts; what the task names is not the project's to change. */
static void judge(const struct job *job, struct found *found, const struct strings *names)
{
	const char *name = strrchr(found->path, '/') + 1;

	if (found->err.code != ERR_OK)
		return;
	if (found->skill->count == 0)
		(void)err_set(&found->err, ERR_TOO_LARGE,
		              "it is too large or too deep: a skill has at most %d files and "
		              "%d KiB, and four folders below each other",
		              SKILL_FILES, SKILL_BYTES / 1024); /* always -1 */
	else if (skill_check(found->skill, name, &found->err) < 0)
		return;
	else if (is_named(job, name))
		(void)err_set(&found->err, ERR_CONFLICT,
		              "the task names a skill of that name"); /* always -1 */
	else if (names->count >= SKILL_OF_TASK)
		(void)err_set(&found->err, ERR_LIMITED,
		              "a run has at most %d skills of its project",
		              SKILL_OF_TASK); /* always -1 */
}

static json_t *refusal(const struct found *found)
{
	char path[SHOWN];

	str_escape(path, sizeof(path), found->path, strlen(found->path));
	return json_pack("{s:s, s:s}", "skill", path, "problem", found->err.msg);
}

static void choose(const struct job *job, struct finds *finds, struct skill **ret,
                   struct strings *names, json_t *refused)
{
	for (size_t i = 0; i < finds->count; i++) {
		struct found *found = &finds->items[i];

		judge(job, found, names);
		if (found->err.code != ERR_OK) {
			json_array_append_new(refused, refusal(found));
		} else if (!strings_has(names, found->skill->name)) {
			ret[names->count] = found->skill;
			strings_add(names, found->skill->name);
		}
	}
}

static void tell(struct job *job, const struct strings *names, json_t *refused)
{
	json_t *shown = json_array();

	for (size_t i = 0; i < names->count; i++)
		json_array_append_new(shown, json_string(names->items[i]));
	job_note(job, EVENT_TASK_SKILLS,
	         json_pack("{s:s, s:o, s:O}", "run", job->run->id.text, "shown", shown, "refused",
	                   refused));
}

/* --- the way there and back --- */

/* The folder that is this sandbox's own; NULL: it has none. */
static const char *bundle_of(const struct sandbox *sandbox)
{
	for (size_t i = 0; i < sandbox->spec.mount_count; i++) {
		const char *grant = sandbox->spec.mounts[i].grant;

		if (grant && str_has_prefix(grant, SKILL_OWN_BUNDLE))
			return grant;
	}
	return NULL;
}

static void show(struct job *job, struct finds *finds, json_t *refused)
{
	const struct tasks_config *config = &job->tasks->config;
	auto_(sandbox_freep) struct sandbox *sandbox = NULL;
	struct skill *list[SKILL_OF_TASK];
	struct strings names = {0};
	struct err err = {0};

	choose(job, finds, list, &names, refused);
	if (store_sandbox_get(job_store(job), job->run->sandbox.text, &sandbox, &err) < 0 ||
	    config->fill_skills(bundle_of(sandbox), list, names.count, config->ctx, &err) < 0) {
		json_array_append_new(refused,
		                      json_pack("{s:n, s:s}", "skill", "problem", err.msg));
		strings_done(&names);
	}
	if (names.count > 0 || json_array_size(refused) > 0)
		tell(job, &names, refused);
	strings_done(&names);
}

/* The work is worth its run without what it says about itself. */
static void on_looked(struct job *job, const struct inside_end *end)
{
	struct finds *finds = mem_new(struct finds);
	json_t *refused = json_array();
	char text[SHOWN];

	if (!end->exec || end->exec->signal || end->exec->exit_code || end->is_cut) {
		inside_complaint(end, text, sizeof(text));
		json_array_append_new(refused, json_pack("{s:n, s:s}", "skill", "problem", text));
	}
	read_answer(end->out, finds);
	show(job, finds, refused);
	finds_done(finds);
	mem_freep(&finds);
	json_decref(refused);
	job_step_done(job, "completed", NULL);
}

static void look(struct job *job)
{
	auto_(sandbox_freep) struct sandbox *sandbox = NULL;
	auto_free char *cwd = NULL;
	struct strings argv = {0};
	struct inside_command command = {
		.argv = &argv, .cwd = "/", .timeout_ms = LOOK_MS, .most = ANSWER_MOST};
	struct err err = {0};

	if (store_sandbox_get(job_store(job), job->run->sandbox.text, &sandbox, &err) < 0) {
		job_step_failed(job, &err);
		return;
	}
	if (!bundle_of(sandbox)) {
		job_step_done(job, "completed", NULL);
		return;
	}
	cwd = git_cwd(job, sandbox);
	strings_add(&argv, PROGRAM);
	strings_add(&argv, "inside");
	strings_add(&argv, "skills");
	strings_add(&argv, "--");
	strings_add(&argv, cwd);
	if (inside_run(job, &command, on_looked, &err) < 0)
		job_step_failed(job, &err);
	strings_done(&argv);
}

void workspace_begin(struct job *job, const char *status)
{
	if (job_guest(job) || !job->tasks->config.fill_skills || !workspace_is_there(job))
		job_step_done(job, status, NULL);
	else
		job_commit(job, look); /* the row of the sandbox may be on its way */
}

/* Going on with the files of an earlier run: whether they are there, and whose they are. */
#include "api/authz.h"
#include "api/encode.h"
#include "api/tasks.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/str.h"
#include "store/resume.h"
#include "store/task.h"
#include "task/resume.h"

static int find_run(struct call *call, const char *name, struct task **ret_task,
                    struct run **ret_run, struct err *err)
{
	struct store *store = call->api->store;

	if (str_has_prefix(name, TASK_PREFIX "_") ||
	    str_has_prefix(name, TASK_SESSION_PREFIX "_")) {
		if (store_task_get(store, name, ret_task, err) < 0)
			return -1;
		if (!(*ret_task)->run.text[0])
			return err_set(err, ERR_CONFLICT, "'resumeFrom': this task has no run yet");
		return store_run_get(store, (*ret_task)->run.text, ret_run, err);
	}
	if (store_run_get(store, name, ret_run, err) < 0)
		return -1;
	return store_task_get(store, (*ret_run)->task.text, ret_task, err);
}

static int check_record(struct call *call, const struct run *run, const struct resume *resume,
                        struct err *err)
{
	auto_(sandbox_freep) struct sandbox *sandbox = NULL;
	auto_free char *fingerprint = NULL;

	if (resume->used_by.text[0])
		return err_set(err, ERR_CONFLICT,
		               "'resumeFrom': run %s goes on with the files of %s: resume that one",
		               resume->used_by.text, run->id.text);
	if (resume->expires_ms <= io_real_ms())
		return err_set(err, ERR_GONE,
		               "'resumeFrom': the files of run %s are kept no longer ([tasks] "
		               "resume_ttl)",
		               run->id.text);
	if (store_sandbox_get(call->api->store, resume->sandbox.text, &sandbox, err) < 0)
		return err_wrap(err, "'resumeFrom': the files of run %s", run->id.text);
	/* One that stops is waited for. */
	if (sandbox->state != SANDBOX_STOPPED && sandbox->state != SANDBOX_FAILED &&
	    sandbox->state != SANDBOX_STOPPING &&
	    !(sandbox->state == SANDBOX_RUNNING && resume_is_in_memory(sandbox)))
		return err_set(err, ERR_CONFLICT,
		               "'resumeFrom': sandbox %s with the files of run %s is %s",
		               sandbox->id.text, run->id.text, sandbox_state_name(sandbox->state));
	fingerprint = resume_fingerprint(sandbox);
	if (!str_eq(fingerprint, resume->fingerprint))
		return err_set(
			err, ERR_CONFLICT,
			"'resumeFrom': the files of run %s belong to another image or runtime",
			run->id.text);
	return 0;
}

/* Somebody else's run is not there, whatever became of its files. */
static int check_owner(struct call *call, const struct task *task, struct err *err)
{
	struct ownership ownership = task_ownership(call, task);

	if (!call->caller->is_operator && !str_eq(task->team.text, call->caller->team.text))
		return err_set(err, ERR_NOT_FOUND, "'resumeFrom': no such run");
	return authz_change(call, &ownership, "task", task->id.text, err);
}

int task_find_resume(struct call *call, struct task **ret_task, struct resume *ret, struct err *err)
{
	const char *name = json_string_value(json_object_get(call->body, "resumeFrom"));
	auto_(task_freep) struct task *task = NULL;
	auto_(run_freep) struct run *run = NULL;

	if (!name)
		return 0;
	if (find_run(call, name, &task, &run, err) < 0 || check_owner(call, task, err) < 0)
		return -1;
	if (!run_is_over(run->state))
		return err_set(err, ERR_CONFLICT, "'resumeFrom': run %s is %s: stop it first",
		               run->id.text, run_state_name(run->state));
	if (store_resume_get(call->api->store, run->id.text, ret, err) < 0)
		return err->code == ERR_NOT_FOUND
		               ? err_set(err, ERR_CONFLICT,
		                         "'resumeFrom': the files of run %s are not kept: it left "
		                         "none, too many, or had them in memory and lost them; "
		                         "start it without resumeFrom",
		                         run->id.text)
		               : -1;
	if (check_record(call, run, ret, err) < 0)
		return -1;
	*ret_task = take_ptr(task);
	return 0;
}

void task_resume(struct run *run, const struct resume *resume)
{
	if (!resume->run.text[0])
		return;
	run->resume_from = resume->run;
	run->sandbox = resume->sandbox;
	run->keeps = true; /* whatever becomes of it: they are not its own */
}

json_t *task_encode_resume(struct api *api, const struct run *run)
{
	auto_(resume_done) struct resume resume = {0};
	struct err err = {0};
	json_t *object;

	if (!run->keeps || store_resume_get(api->store, run->id.text, &resume, &err) < 0)
		return json_null();
	object = json_object();
	json_object_set_new(object, "runtime", json_string(resume.runtime));
	json_object_set_new(object, "image", json_string(resume.image));
	json_object_set_new(object, "branch", encode_text(resume.branch));
	json_object_set_new(object, "parentRun", encode_text(resume.parent.text));
	json_object_set_new(object, "fingerprint", json_string(resume.fingerprint));
	json_object_set_new(object, "sandbox", json_string(resume.sandbox.text));
	json_object_set_new(object, "bytes", json_integer((json_int_t)resume.bytes));
	json_object_set_new(object, "expiresAt", encode_time(resume.expires_ms));
	json_object_set_new(object, "usedBy", encode_text(resume.used_by.text));
	return object;
}

/* What each change of tasks, runs and artifacts is in statements. */
#include "base/mem.h"
#include "store/pack.h"
#include "store/seal.h"
#include "store/task.h"
#include "store/write.h"

/* Of owner_id in TASK_COLUMNS (sql_task.def). */
enum { TASK_OWNER_AT = 7 };

static struct value value_id(const struct id *id)
{
	return value_text(id->text[0] != '\0' ? id->text : NULL);
}

static void refuse_none(struct op *op, enum err_code code, const char *text)
{
	op->if_none = code;
	op->if_none_text = mem_strdup(text);
}

void store_add_task(struct store_write *write, const struct task *task)
{
	auto_free char *labels = pack_strings(&task->labels);
	auto_free char *choices =
		seal_text(write->store, "what was given", task->id.text, task->choices);
	const char *owner = task->owner.text[0] ? task->owner.text : ACCESS_OPERATOR;
	const char *team = task->team.text[0] ? task->team.text : ACCESS_TEAM;
	struct op *op;

	op = write_add(write, SQL_TASK_ADD, value_text(task->id.text), value_text(task->title),
	               value_text(task->instruction), value_text(task->agent),
	               value_text(task->origin), value_text(choices), value_text(labels),
	               value_text(owner), value_text(team),
	               value_text(visibility_name(task->visibility)), value_int(task->created_ms),
	               value_int(task->run_count), value_id(&task->run), value_text(task->made_by));
	op->owner_at = TASK_OWNER_AT;
}

static struct value value_end(const struct run *run)
{
	return value_text(run->end == RUN_END_NONE ? NULL : run_end_name(run->end));
}

/* Absent until the agent is over. */
static struct value value_exit(const struct run *run, int code)
{
	return run->has_exit ? value_int((uint64_t)(int64_t)code)
	                     : (struct value){.kind = VALUE_NULL};
}

static struct op *add_run(struct store_write *write, const struct run *run)
{
	static const struct value none = {.kind = VALUE_NULL};
	auto_free char *rights = pack_strings(&run->rights);
	auto_free char *meters = pack_meters(&run->meters);
	const char *team = run->team.text[0] ? run->team.text : ACCESS_TEAM;

	return write_add(
		write, SQL_RUN_ADD, value_text(run->id.text), value_text(run->task.text),
		value_text(team), value_int(run->number), value_int(run->priority),
		value_text(run_state_name(run->state)), value_text(run_step_name(run->step)),
		value_end(run), value_text(run->detail), value_id(&run->sandbox),
		value_id(&run->exec), value_id(&run->token), value_id(&run->parent),
		value_text(rights), run->budget == UINT64_MAX ? none : value_int(run->budget),
		value_int(run->timeout_ms), value_int(run->idle_ms), value_int(run->created_ms),
		value_int(run->started_ms), value_int(run->ended_ms),
		value_exit(run, run->exit_code), value_exit(run, run->signal),
		value_int(run->input_tokens), value_int(run->output_tokens), value_text(meters),
		value_int(run->cost), value_text(run->log), value_int(run->has_log_file),
		value_text(run->output), value_int(run->cached_tokens), value_int(run->charged),
		value_id(&run->resume_from), value_int(run->keeps));
}

void store_add_run(struct store_write *write, const struct run *run)
{
	struct op *op = write_add(write, SQL_TASK_NEXT_RUN, value_int(run->number),
	                          value_text(run->id.text), value_text(run->task.text));

	refuse_none(op, ERR_CONFLICT, "another run of this task was started at this moment");
	op = add_run(write, run);
	op->if_foreign = mem_strdup("the task is gone");
	op->if_taken = mem_strdup("another run of this task was started at this moment");
}

void store_put_run(struct store_write *write, const struct run *run,
                   const struct run_progress *steps)
{
	auto_free char *meters = pack_meters(&run->meters);
	auto_free char *packed = steps != NULL ? pack_steps(steps) : NULL;
	struct op *op = write_add(
		write, SQL_RUN_PUT, value_text(run_state_name(run->state)),
		value_text(run_step_name(run->step)), value_end(run), value_text(run->detail),
		value_id(&run->sandbox), value_id(&run->exec), value_id(&run->token),
		value_int(run->started_ms), value_int(run->ended_ms),
		value_exit(run, run->exit_code), value_exit(run, run->signal),
		value_int(run->input_tokens), value_int(run->output_tokens), value_text(meters),
		value_int(run->cost), value_text(run->log), value_int(run->has_log_file),
		value_int(run->cached_tokens), value_int(run->charged), value_int(run->keeps),
		value_text(packed), value_text(run->id.text));

	refuse_none(op, ERR_CONFLICT, "the run is over");
}

void store_put_run_git(struct store_write *write, const char *run, const char *json)
{
	write_add(write, SQL_RUN_GIT_PUT, value_text(run), value_text(json));
}

void store_put_run_agent(struct store_write *write, const char *run, const char *json)
{
	write_add(write, SQL_RUN_AGENT_PUT, value_text(run), value_text(json));
}

void store_set_output(struct store_write *write, const char *run, const char *json)
{
	refuse_none(write_add(write, SQL_RUN_OUTPUT, value_text(json), value_text(run)),
	            ERR_CONFLICT, "the run is over: its output cannot change any more");
}

void store_add_artifact(struct store_write *write, const struct artifact *artifact, uint64_t most)
{
	struct op *op = write_add(write, SQL_ARTIFACT_ADD, value_text(artifact->id.text),
	                          value_text(artifact->task.text), value_id(&artifact->run),
	                          value_text(artifact->name), value_text(artifact->content_type),
	                          value_int(artifact->bytes), value_text(artifact->sha256),
	                          value_int(artifact->created_ms), value_int(most));

	op->if_none = ERR_CONFLICT;
	op->if_none_text =
		mem_printf("a task has at most %llu artifacts", (unsigned long long)most);
	op->if_foreign = mem_strdup("the task is gone");
}

void store_delete_artifact(struct store_write *write, const char *id)
{
	refuse_none(write_add(write, SQL_ARTIFACT_DELETE, value_text(id)), ERR_NOT_FOUND,
	            "no such artifact");
}

/* What happens to a run, as events and as the rows of its journal. */
#include "base/io.h"
#include "base/mem.h"
#include "base/must.h"
#include "task/collect.h"
#include "task/job.h"

/* Takes the data. */
void job_note(struct job *job, enum event_kind kind, json_t *data)
{
	struct event *event;

	job->events = mem_resize(job->events, job->event_count + 1, sizeof(*job->events));
	event = &job->events[job->event_count++];
	*event = (struct event){.kind = kind,
	                        .time_ms = io_real_ms(),
	                        .sandbox = job->task->id,
	                        .data = json_dumps(data, JSON_COMPACT | JSON_REAL_PRECISION(12))};
	must(event->data);
	json_decref(data);
}

/* A step that is over before anybody could be told that it began is told once, with its end. */
static void drop_beginning(struct job *job)
{
	if (job->begun_at == job->event_count && job->begun_at > job->sent_count)
		event_done(&job->events[--job->event_count]);
	job->begun_at = 0;
}

void job_note_step(struct job *job, enum run_step step, const char *status, const char *detail)
{
	bool is_beginning = strcmp(status, "started") == 0;
	auto_free char *clean = detail ? mem_strdup(detail) : NULL;
	struct run_progress *progress = &job->progress[step];
	uint64_t now = io_real_ms();
	json_t *data = json_object();

	collect_clean_text(job->tasks, job->task, &clean);
	spec_set(&progress->status, status);
	spec_set(&progress->detail, clean);
	progress->attempts = MAX(job->attempts, 1u);
	if (progress->started_ms == 0)
		progress->started_ms = now;
	progress->ended_ms = is_beginning ? 0 : now;
	if (!is_beginning)
		drop_beginning(job);
	json_object_set_new(data, "run", json_string(job->run->id.text));
	json_object_set_new(data, "step", json_string(run_step_name(step)));
	json_object_set_new(data, "status", json_string(status));
	if (progress->attempts > 1)
		json_object_set_new(data, "attempt", json_integer((json_int_t)progress->attempts));
	if (clean)
		json_object_set_new(data, "detail", json_string(clean));
	if (progress->ended_ms)
		json_object_set_new(data, "ms",
		                    json_integer((json_int_t)(now - progress->started_ms)));
	job_note(job, EVENT_TASK_STEP, data);
	if (is_beginning)
		job->begun_at = job->event_count;
}

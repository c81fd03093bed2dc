#include "task/output.h"

#include <stdio.h>

#include "base/mem.h"
#include "base/str.h"
#include "model/jsonschema.h"
#include "task/collect.h"
#include "task/inside.h"
#include "task/job.h"
#include "task/redact.h"

#define PROGRAM "/run/cloche/cloche"

enum { READ_MS = 30 * 1000 };

/* --- whether it fits --- */

static void name_errors(const struct jsonschema_report *report, struct err *err)
{
	char text[sizeof(err->msg)];
	size_t used = 0;

	text[0] = '\0';
	for (size_t i = 0; i < report->count && used < sizeof(text); i++) {
		char one[sizeof(text)];

		jsonschema_error_text(&report->errors[i], one, sizeof(one));
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s", i ? "; " : "",
		                         one);
	}
	(void)err_set(err, ERR_INVALID, "the output does not fit its schema: %s",
	              text); /* always -1 */
}

int output_check(const json_t *schema, const char *text, size_t len, struct err *err)
{
	auto_(jsonschema_freep) struct jsonschema *compiled = NULL;
	auto_free struct jsonschema_report *report = mem_new(struct jsonschema_report);
	auto_free char *source = NULL;

	if (!schema)
		return 0;
	source = json_dumps(schema, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(15));
	if (jsonschema_compile(source, strlen(source), NULL, &compiled, err) < 0)
		return err_wrap(err, "outputSchema");
	if (jsonschema_validate(compiled, text, len, report, err) < 0)
		return err_wrap(err, "the output");
	if (report->is_valid)
		return 0;
	name_errors(report, err);
	return -1;
}

/* --- where it comes from --- */

/* Of this run alone: what an earlier one left among the files is not its result. */
char *output_path(const struct job *job)
{
	return mem_printf("/tmp/cloche-output-%s.json", job->run->id.text);
}

static void refuse(struct job *job, const char *why)
{
	job->run->end = RUN_END_BAD_OUTPUT;
	spec_set(&job->run->detail, why);
}

/* Kept as it is shown: without secrets. */
static void take(struct job *job, const char *text, size_t len)
{
	struct redact *redact = collect_redact(job->tasks, job->task);
	auto_free char *whole = mem_strndup(text, len);
	auto_free char *clean = redact_text(redact, whole);
	struct err err = {0};

	redact_free(redact);
	if (output_check(json_object_get(job->choices, "outputSchema"), clean, strlen(clean),
	                 &err) < 0) {
		refuse(job, err.msg);
		return;
	}
	mem_freep(&job->run->output);
	job->run->output = take_ptr(clean);
	job->has_output = true;
}

static void on_read(struct job *job, const struct inside_end *end)
{
	char why[200], text[240];

	if (!end->exec || end->exec->signal || end->exec->exit_code) {
		inside_complaint(end, why, sizeof(why));
		(void)snprintf(text, sizeof(text),
		               "the agent left no output in $" OUTPUT_VARIABLE ": %s", why);
		refuse(job, text);
	} else if (end->is_cut) {
		refuse(job, "the output has more than 1 MiB");
	} else {
		take(job, (const char *)buf_head(end->out), buf_len(end->out));
	}
	job->on_output(job);
}

static int read_file(struct job *job, struct err *err)
{
	auto_free char *path = output_path(job);
	struct strings argv = {0};
	struct inside_command command = {
		.argv = &argv, .timeout_ms = READ_MS, .most = OUTPUT_BYTES};
	static const char *const words[] = {PROGRAM, "inside", "read", "--"};
	int r;

	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		strings_add(&argv, words[i]);
	strings_add(&argv, path);
	r = inside_run(job, &command, on_read, err);
	strings_done(&argv);
	return r;
}

/* A result that was given is in the row already, checked: nobody but its own run gave it. */
static bool was_given(struct job *job)
{
	auto_(run_freep) struct run *row = NULL;
	struct err err = {0};

	return store_run_get(job_store(job), job->run->id.text, &row, &err) == 0 && row->output;
}

void output_collect(struct job *job, void (*on_done)(struct job *job))
{
	struct err err = {0};

	job->on_output = on_done;
	if (!json_object_get(job->choices, "outputSchema") || job->run->end != RUN_END_FINISHED ||
	    was_given(job)) {
		on_done(job);
	} else if (read_file(job, &err) < 0) {
		refuse(job, err.msg);
		on_done(job);
	}
}

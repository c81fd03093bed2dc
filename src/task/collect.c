/* Keeps the output of a run before its sandbox goes. */
#include "task/collect.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "acp/transcript.h"
#include "base/mem.h"
#include "base/str.h"
#include "task/agent.h"
#include "task/job.h"
#include "task/log.h"
#include "task/redact.h"
#include "wire/outlog.h"

/* Every variable of the environment: they are sealed because somebody thought them secret. */
static void add_variables(struct redact *redact, const struct tasks *tasks, const struct task *task,
                          const json_t *wish)
{
	const struct tasks_config *config = &tasks->config;
	struct strings values = {0};
	struct err err = {0};
	struct spec spec;

	if (!config->secrets || config->make_spec(wish, config->config, &spec, &err) < 0)
		return;
	spec_set(&spec.owner, task->owner.text);
	spec_set(&spec.team, task->team.text);
	config->secrets(&spec, &values, config->ctx);
	for (size_t i = 0; i < values.count; i++) {
		char *equals = strchr(values.items[i], '=');

		if (equals)
			redact_add(redact, equals + 1);
		explicit_bzero(values.items[i], strlen(values.items[i]));
	}
	strings_done(&values);
	spec_done(&spec);
}

struct redact *collect_redact(const struct tasks *tasks, const struct task *task)
{
	json_t *choices = json_loads(task->choices, 0, NULL);
	const json_t *wish = json_object_get(choices, "sandbox");
	struct redact *redact = redact_new();
	const char *name;
	json_t *value;

	json_object_foreach (json_object_get(wish, "env"), name, value) {
		if (redact_is_secret_name(name) && json_is_string(value))
			redact_add(redact, json_string_value(value));
	}
	add_variables(redact, tasks, task, wish);
	json_decref(choices);
	return redact;
}

static json_t *cleaned(struct redact *redact, const json_t *text)
{
	auto_free char *clean = redact_text(redact, json_string_value(text));

	return json_string(clean);
}

/* NOLINTNEXTLINE(misc-no-recursion): as deep as a document that was accepted */
void collect_clean(struct redact *redact, json_t *document)
{
	const char *name;
	json_t *item;
	size_t i;

	json_array_foreach (document, i, item) {
		if (json_is_string(item))
			json_array_set_new(document, i, cleaned(redact, item));
		else
			collect_clean(redact, item);
	}
	json_object_foreach (document, name, item) {
		if (json_is_string(item))
			json_object_set_new(document, name, cleaned(redact, item));
		else
			collect_clean(redact, item);
	}
}

void collect_clean_text(const struct tasks *tasks, const struct task *task, char **text)
{
	struct redact *redact;
	char *clean;

	if (!*text)
		return;
	redact = collect_redact(tasks, task);
	clean = redact_text(redact, *text);
	redact_free(redact);
	free(*text);
	*text = clean;
}

bool collect_is_talk(const struct tasks *tasks, const struct task *task)
{
	struct agent agent;

	return agent_find(tasks->config.config, task->agent, &agent) && agent.protocol == AGENT_ACP;
}

/* What the agent said, where it talked to us. */
static int copy_stdout(struct log_writer *writer, struct transcript *transcript,
                       const struct outlog_record *record, struct err *err)
{
	int r;

	if (!transcript)
		return log_writer_put(writer, '1', record->bytes, record->len, err);
	transcript_feed(transcript, record->bytes, record->len);
	r = log_writer_put(writer, '1', buf_head(&transcript->text), buf_len(&transcript->text),
	                   err);
	buf_reset(&transcript->text);
	return r;
}

static int copy_record(struct log_writer *writer, struct transcript *transcript,
                       const struct outlog_record *record, struct err *err)
{
	static const char gap[] = "some output was dropped";

	switch (record->stream) {
	case OUTLOG_STDOUT:
		return copy_stdout(writer, transcript, record, err);
	case OUTLOG_STDERR:
		return log_writer_put(writer, '2', record->bytes, record->len, err);
	case OUTLOG_GAP:
		return log_writer_put(writer, '!', gap, strlen(gap), err);
	case OUTLOG_STDIN:
	case OUTLOG_EXIT:
		break;
	}
	return 0;
}

static int copy(struct outlog_reader *reader, struct log_writer *writer,
                struct transcript *transcript, struct err *err)
{
	struct outlog_record record;
	int r;

	while ((r = outlog_next(reader, &record)) > 0) {
		if (copy_record(writer, transcript, &record, err) < 0)
			return -1;
		if (record.stream == OUTLOG_EXIT)
			break;
	}
	return r < 0 ? err_sys(err, -r, "read the output of %s", writer->run) : 0;
}

static int keep(struct job *job, int dir_fd, struct redact *redact, struct err *err)
{
	struct run *run = job->run;
	struct outlog_reader reader;
	bool is_talk = collect_is_talk(job->tasks, job->task);
	struct transcript transcript;
	struct log_writer writer;
	char *text = NULL;
	int r = outlog_reader_open(&reader, dir_fd, 0);

	if (r < 0)
		return err_sys(err, -r, "read the output of %s", run->id.text);
	log_writer_init(&writer, job->tasks->config.files_fd, run->id.text, redact);
	transcript_init(&transcript);
	r = copy(&reader, &writer, is_talk ? &transcript : NULL, err);
	transcript_done(&transcript);
	if (r == 0)
		r = log_writer_finish(&writer, &text, err);
	if (r == 0) {
		mem_freep(&run->log);
		run->log = text;
		run->has_log_file = text == NULL;
	}
	log_writer_done(&writer);
	outlog_reader_close(&reader);
	return r;
}

int collect_log(struct job *job, struct err *err)
{
	const struct tasks_config *config = &job->tasks->config;
	struct run *run = job->run;
	struct redact *redact;
	char path[96];
	int fd, r;

	/* Both ids were made by us: no slash can be in them. */
	(void)snprintf(path, sizeof(path), "%s/out/%s", run->sandbox.text, run->exec.text);
	fd = openat(config->sandboxes_fd, path, O_DIRECTORY | O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return errno == ENOENT ? 0
		                       : err_sys(err, errno, "open the output of %s", run->id.text);
	redact = collect_redact(job->tasks, job->task);
	r = keep(job, fd, redact, err);
	redact_free(redact);
	return r;
}

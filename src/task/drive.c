#include "task/drive.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>

#include "acp/client.h"
#include "base/buf.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/must.h"
#include "base/str.h"
#include "task/agent.h"
#include "task/collect.h"
#include "task/job.h"
#include "task/redact.h"
#include "task/serve.h"
#include "task/servers.h"
#include "task/told.h"
#include "task/turns.h"
#include "wire/outlog.h"

enum {
	START_MS = 60 * 1000,       /* for an agent to open its session: some take ten seconds */
	FLUSH_MS = 50,              /* events of a busy agent are committed so often */
	LEAVE_MS = 1000,            /* for an agent to end by itself when its input does */
	CANCEL_MS = 5 * 1000,       /* for it to end its turn when it is told */
	EVENTS_AT_ONCE = 256,       /* uncommitted: then its output waits */
	TAKEN_AT_ONCE = 256 * 1024, /* bytes: then it is the turn of the rest of the loop */
	OUTBOX_MOST = 16 * 1024 * 1024,
};

struct drive {
	struct job *job;
	char *cwd;
	json_t *servers; /* of MCP; NULL: none */
	struct acp_client client;
	struct acp_lines lines;
	struct outlog_reader reader;
	bool is_open;    /* the reader is */
	uint64_t offset; /* of the first byte whose line was not taken yet */
	/* What it is sent: bytes given…queued of everything we ever said are in the outbox. */
	struct buf outbox;
	uint64_t queued, given;
	uint64_t saving, durable; /* of a session: bytes in the commit under way, and on disk */
	char *tail;               /* the last line that was queued */
	struct told told;
	bool has_prompted; /* the instruction was given */
	bool is_done;      /* the run has its end: nothing more is said */
	bool is_over;      /* its process is */
	bool is_stopping;  /* the run has its end, the turn is cancelled */
	struct serve *serve;
	struct loop_timer start_timer, flush_timer, more_timer, serve_timer;
};

static struct engine *engine_of(const struct drive *drive)
{
	return drive->job->tasks->config.engine;
}

/* --- to the agent --- */

/* Whether what it is told cannot be put together again, and so goes out after it is on disk. */
static bool is_careful(const struct drive *drive)
{
	return drive->job->turns || serve_is_used(drive->serve);
}

/* How much of the outbox may go. */
static size_t may_give(const struct drive *drive)
{
	size_t len = buf_len(&drive->outbox);

	if (!is_careful(drive))
		return len;
	return drive->durable > drive->given ? (size_t)MIN(len, drive->durable - drive->given) : 0;
}

static void feed(struct drive *drive)
{
	struct engine *engine = engine_of(drive);
	struct exec_watch *watch = &drive->job->watch;

	while (watch->live && may_give(drive) > 0) {
		ssize_t r = engine->ops->input(engine, watch, buf_head(&drive->outbox),
		                               may_give(drive), false);

		if (r <= 0)
			return; /* it takes no more now, or ever: its end is told */
		buf_consume(&drive->outbox, (size_t)r);
		drive->given += (uint64_t)r;
	}
}

static void give_up(struct drive *drive, enum run_end end, const char *why)
{
	auto_free char *clean = told_redacted(&drive->told, why); /* it may be the agent's words */

	if (drive->is_done)
		return;
	drive->is_done = true;
	loop_timer_stop(&drive->start_timer);
	job_end(drive->job, end, clean);
}

/* Takes the line. */
static void queue(struct drive *drive, char *line)
{
	size_t len = strlen(line);
	uint64_t from = drive->queued;
	size_t has = from < drive->given ? (size_t)MIN((uint64_t)len, drive->given - from) : 0;

	drive->queued += len;
	free(drive->tail);
	drive->tail = line;
	if (has < len && buf_put(&drive->outbox, line + has, len - has) < 0) {
		give_up(drive, RUN_END_AGENT_ERROR, "the agent does not read what it is told");
		return;
	}
	/* How a session is opened is always the same, so it can be put together again. */
	if (drive->client.phase < ACP_READY)
		drive->durable = drive->queued;
	else if (is_careful(drive))
		job_commit(drive->job, NULL);
	feed(drive);
}

static void send(struct acp_client *client, char *line, void *ctx)
{
	queue(ctx, line);
}

/* --- its end --- */

static void on_leave_late(struct loop_timer *timer, void *ctx)
{
	struct drive *drive = ctx;

	if (!drive->is_over)
		watch_kill(drive->job);
}

/* It may leave by itself, which is tidier. */
static void let_go(struct drive *drive)
{
	struct job *job = drive->job;
	struct engine *engine = engine_of(drive);

	drive->is_done = true;
	(void)engine->ops->input(engine, &job->watch, "", 0, true); /* else it is killed */
	loop_timer_in(job->tasks->config.loop, &drive->start_timer, LEAVE_MS, on_leave_late, drive);
}

/* The turn is over and so is the run. */
static void finish(struct drive *drive, enum run_end end, const char *detail)
{
	struct job *job = drive->job;
	auto_free char *clean = told_redacted(&drive->told, detail);

	if (drive->is_done || job->run->end != RUN_END_NONE)
		return;
	job->run->end = end;
	spec_set(&job->run->detail, clean);
	log_info("a run ends", LOG_STR("run", job->run->id.text),
	         LOG_STR("reason", run_end_name(end)));
	job_commit(job, NULL);
	let_go(drive);
}

/* --- of a session --- */

static void ask_next(struct drive *drive)
{
	json_t *content;

	if (drive->is_done || drive->is_over || drive->client.phase != ACP_READY)
		return;
	content = turns_next(drive->job->turns);
	if (!content)
		return;
	told_start(&drive->told, drive->client.session, drive->client.agent);
	acp_client_prompt(&drive->client, content);
}

void drive_next(struct job *job)
{
	if (job->drive)
		ask_next(job->drive);
}

static void turn_over(struct drive *drive, const struct acp_stop *stop)
{
	struct err clean = stop->err ? *stop->err : (struct err){0};
	struct acp_stop end = {.reason = stop->reason, .err = &clean};
	auto_free char *why = told_redacted(&drive->told, clean.msg); /* it is the agent's words */

	(void)!str_copy(clean.msg, sizeof(clean.msg), why);
	turns_stopped(drive->job->turns, &end, (const char *)buf_head(&drive->told.answer),
	              buf_len(&drive->told.answer));
	ask_next(drive);
	job_commit(drive->job, NULL);
}

bool drive_leave(struct job *job, enum run_end end, const char *detail)
{
	struct drive *drive = job->drive;

	if (!drive || drive->is_done || drive->is_over || end != RUN_END_FINISHED ||
	    job->run->step != RUN_STEP_WAIT || !job->watch.live)
		return false;
	finish(drive, end, detail);
	return true;
}

bool drive_is_ready(const struct job *job, char *agent, size_t size)
{
	const struct drive *drive = job->drive;

	if (!drive || drive->is_over || drive->client.phase < ACP_READY)
		return false;
	(void)!str_copy(agent, size, drive->client.agent);
	return true;
}

static void stopped(struct acp_client *client, const struct acp_stop *stop, void *ctx)
{
	static const struct {
		const char *reason;
		enum run_end end;
		const char *detail;
	} ends[] = {
		{"end_turn", RUN_END_FINISHED, NULL},
		{"max_tokens", RUN_END_AGENT_ERROR, "the model's answer was cut: too many tokens"},
		{"max_turn_requests", RUN_END_AGENT_ERROR, "the agent used up its requests"},
		{"refusal", RUN_END_REFUSAL, "the model refused"},
		{"cancelled", RUN_END_STOPPED, "the turn was cancelled"},
	};
	struct drive *drive = ctx;

	told_stop(&drive->told, stop);
	if (drive->is_stopping) {
		let_go(drive);
		return;
	}
	if (drive->job->turns) {
		turn_over(drive, stop);
		return;
	}
	if (!stop->reason) {
		finish(drive, RUN_END_AGENT_ERROR, stop->err->msg);
		return;
	}
	for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
		if (str_eq(ends[i].reason, stop->reason))
			finish(drive, ends[i].end, ends[i].detail);
	}
}

static void broken(struct acp_client *client, const struct err *why, void *ctx)
{
	give_up(ctx, RUN_END_AGENT_ERROR, why->msg);
}

/* --- from the agent --- */

static void on_flush(struct loop_timer *timer, void *ctx)
{
	struct drive *drive = ctx;
	struct job *job = drive->job;

	told_flush(&drive->told);
	if (job->event_count > job->sent_count && !job->is_over)
		job_commit(job, NULL);
	drive_output(job);
}

/* There is something that should be on disk soon. */
static void flush_soon(struct drive *drive)
{
	if (drive->flush_timer.on_timer == NULL || drive->flush_timer.heap_at == SIZE_MAX)
		loop_timer_in(drive->job->tasks->config.loop, &drive->flush_timer, FLUSH_MS,
		              on_flush, drive);
}

static void update(struct acp_client *client, const char *kind, const json_t *object,
                   bool is_replay, void *ctx)
{
	struct drive *drive = ctx;

	if (drive->job->turns)
		turns_heard(drive->job->turns);
	if (!is_replay)
		told_update(&drive->told, kind, object);
	flush_soon(drive);
}

static const char *policy_of(const struct job *job)
{
	const char *policy = json_string_value(json_object_get(job->choices, "permissions"));

	return policy ? policy : "allow";
}

static void permit(struct drive *drive, const struct acp_message *message)
{
	bool allows = str_eq(policy_of(drive->job), "allow");
	const char *option = acp_choose(message->params, allows);

	told_permission(&drive->told, message->params, option ? allows : false);
	acp_client_answer(&drive->client, message->id, acp_outcome(option), 0, NULL);
	flush_soon(drive);
}

static void answer(const json_t *id, json_t *result, int code, const char *error, void *ctx)
{
	struct drive *drive = ctx;

	acp_client_answer(&drive->client, id, result, code, error);
}

static void decided(const json_t *params, const json_t *id, bool is_allowed, void *ctx)
{
	struct drive *drive = ctx;
	const char *option = acp_choose(params, is_allowed);

	told_permission(&drive->told, params, option ? is_allowed : false);
	acp_client_answer(&drive->client, id, acp_outcome(option), 0, NULL);
}

static void asked(struct acp_client *client, const struct acp_message *message, void *ctx)
{
	struct drive *drive = ctx;
	bool was_careful = is_careful(drive);

	if (str_eq(message->method, "session/request_permission") &&
	    !str_eq(policy_of(drive->job), "ask"))
		permit(drive, message);
	else if (!serve_ask(drive->serve, message))
		acp_client_answer(client, message->id, NULL, ACP_ERR_METHOD,
		                  "this client does not do that");
	else if (!was_careful)
		drive->durable = drive->queued; /* up to here it can */
	if (serve_is_used(drive->serve))
		job_commit(drive->job, NULL);
}

static void on_serve(struct loop_timer *timer, void *ctx)
{
	struct drive *drive = ctx;

	if (!drive->is_done && !drive->is_over)
		serve_committed(drive->serve);
}

static void ready(struct acp_client *client, void *ctx)
{
	struct drive *drive = ctx;

	loop_timer_stop(&drive->start_timer);
	if (drive->job->turns) {
		ask_next(drive);
		flush_soon(drive);
	}
	if (drive->has_prompted || drive->is_done || drive->job->turns)
		return;
	drive->has_prompted = true;
	told_start(&drive->told, client->session, client->agent);
	acp_client_prompt(client, json_pack("[{s:s, s:s}]", "type", "text", "text",
	                                    drive->job->task->instruction));
	flush_soon(drive);
}

static void on_line(const char *line, size_t len, void *ctx)
{
	struct drive *drive = ctx;

	drive->offset = drive->lines.start; /* where the next one begins */
	if (!drive->is_done)
		acp_client_line(&drive->client, line, len);
}

static int open_log(struct drive *drive)
{
	const struct run *run = drive->job->run;
	char path[96];
	int fd, r;

	/* Both ids were made by us: no slash can be in them. */
	(void)snprintf(path, sizeof(path), "%s/out/%s", run->sandbox.text, run->exec.text);
	fd = openat(drive->job->tasks->config.sandboxes_fd, path,
	            O_DIRECTORY | O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	r = outlog_reader_open(&drive->reader, fd, drive->offset);
	drive->is_open = r == 0;
	return r;
}

/* 1: there was a record; 0: nothing more yet. */
static int take_record(struct drive *drive)
{
	struct outlog_record record;
	int r = outlog_next(&drive->reader, &record);

	if (r < 0)
		give_up(drive, RUN_END_AGENT_ERROR, "what the agent says cannot be read");
	if (r <= 0)
		return r;
	if (record.stream == OUTLOG_GAP)
		give_up(drive, RUN_END_AGENT_ERROR, "some of what the agent said was lost");
	else if (record.stream == OUTLOG_STDOUT && !drive->is_done &&
	         acp_lines_feed(&drive->lines, record.offset, record.bytes, record.len, on_line,
	                        drive) < 0)
		give_up(drive, RUN_END_AGENT_ERROR, "the agent sent a message that is too long");
	if (record.stream == OUTLOG_STDOUT || record.stream == OUTLOG_STDERR)
		engine_of(drive)->ops->ack(engine_of(drive), &drive->job->watch,
		                           record.offset + record.len);
	return 1;
}

static void on_more(struct loop_timer *timer, void *ctx)
{
	struct drive *drive = ctx;

	drive_output(drive->job);
}

void drive_output(struct job *job)
{
	struct drive *drive = job->drive;
	uint64_t until;
	int r;

	if (!drive || job->tasks->is_shut || !job->run->exec.text[0])
		return;
	if (!drive->is_open && ((r = open_log(drive)) < 0 || !drive->is_open)) {
		if (r < 0)
			give_up(drive, RUN_END_AGENT_ERROR, "what the agent says cannot be read");
		return;
	}
	/* Lines that make no event count as well, or an agent that writes fast enough has us. */
	until = drive->reader.offset + TAKEN_AT_ONCE;
	while (job->event_count < EVENTS_AT_ONCE && drive->reader.offset < until &&
	       take_record(drive) > 0)
		;
	if (job->event_count >= EVENTS_AT_ONCE)
		flush_soon(drive);
	else if (drive->reader.offset >= until)
		loop_timer_in(job->tasks->config.loop, &drive->more_timer, 0, on_more, drive);
}

void drive_room(struct job *job)
{
	if (job->drive)
		feed(job->drive);
}

void drive_committed(struct job *job)
{
	struct drive *drive = job->drive;

	if (drive && is_careful(drive)) {
		drive->durable = MAX(drive->durable, drive->saving);
		feed(drive);
		loop_timer_in(job->tasks->config.loop, &drive->serve_timer, 0, on_serve, drive);
	}
	/* From the loop: this is called in the middle of the job's own work. */
	if (drive && !drive->is_over && drive->is_open)
		flush_soon(drive);
}

/* --- the beginning and the end --- */

static void on_start_late(struct loop_timer *timer, void *ctx)
{
	struct drive *drive = ctx;
	char text[120];

	(void)snprintf(text, sizeof(text), "the agent did not open a session in %d s (%s)",
	               START_MS / 1000, acp_phase_name(drive->client.phase));
	give_up(drive, RUN_END_AGENT_ERROR, text);
}

static struct drive *drive_new(struct job *job, const char *cwd)
{
	static const struct acp_client_ops ops = {send, update, asked, ready, stopped, broken};
	static const struct serve_ops serve_ops = {answer, decided};
	const json_t *servers = json_object_get(job->choices, "mcpServers");
	struct drive *drive = mem_new(struct drive);
	struct agent agent = {.packages = ""};
	struct err err = {0}; /* it was looked at when the task was made */

	drive->job = job;
	drive->cwd = mem_strdup(cwd);
	acp_lines_init(&drive->lines);
	buf_init(&drive->outbox, OUTBOX_MOST);
	told_init(&drive->told, job);
	drive->serve = serve_new(job, &serve_ops, drive);
	drive->client = (struct acp_client){.ops = &ops, .ctx = drive, .cwd = drive->cwd};
	if (agent_find(job->tasks->config.config, job->task->agent, &agent))
		drive->client.mode = agent.mode;
	/* Those of the table work where they are, which is quicker. */
	drive->client.has_tools = !agent.packages;
	if (servers && servers_parse(servers, &drive->servers, &err) == 0)
		drive->client.servers = drive->servers;
	loop_timer_in(job->tasks->config.loop, &drive->start_timer, START_MS, on_start_late, drive);
	job->drive = drive;
	return drive;
}

void drive_begin(struct job *job, const char *cwd)
{
	drive_free(job->drive);
	acp_client_start(&drive_new(job, cwd)->client);
}

void drive_free(struct drive *drive)
{
	if (!drive)
		return;
	drive->job->drive = NULL;
	serve_free(drive->serve);
	loop_timer_stop(&drive->serve_timer);
	loop_timer_stop(&drive->start_timer);
	loop_timer_stop(&drive->flush_timer);
	loop_timer_stop(&drive->more_timer);
	if (drive->is_open)
		outlog_reader_close(&drive->reader);
	acp_lines_done(&drive->lines);
	buf_done(&drive->outbox);
	told_done(&drive->told);
	free(drive->tail);
	free(drive->cwd);
	json_decref(drive->servers);
	mem_freep(&drive);
}

void drive_over(struct job *job, const struct exec *exec)
{
	struct drive *drive = job->drive;
	char text[160];

	if (!drive)
		return;
	if (!drive->is_done) { /* with nobody to wait for it, all of it is taken at once */
		if (!drive->is_open)
			(void)!open_log(drive);
		while (drive->is_open && !drive->is_done && take_record(drive) > 0)
			;
	}
	drive->is_over = true;
	loop_timer_stop(&drive->serve_timer);
	told_flush(&drive->told);
	if (job->run->end == RUN_END_FINISHED) {
		job->run->has_exit = true;
		job->run->exit_code = job->run->signal = 0;
	} else if (job->run->end == RUN_END_NONE && exec->signal == 0) {
		(void)snprintf(text, sizeof(text),
		               "the agent ended with status %d before it answered",
		               exec->exit_code);
		job->run->end = RUN_END_AGENT_ERROR;
		spec_set(&job->run->detail, text);
	}
	loop_timer_stop(&drive->start_timer);
	loop_timer_stop(&drive->flush_timer);
	loop_timer_stop(&drive->more_timer);
}

void drive_cancel(struct job *job)
{
	if (!job->drive || job->drive->is_over)
		return;
	serve_cancel(job->drive->serve);
	acp_client_cancel(&job->drive->client);
}

bool drive_stop(struct job *job)
{
	struct drive *drive = job->drive;

	if (!drive || drive->is_done || drive->is_over || job->turns || !job->watch.live ||
	    drive->client.phase != ACP_PROMPTING)
		return false;
	drive->is_stopping = true;
	drive_cancel(job);
	loop_timer_in(job->tasks->config.loop, &drive->start_timer, CANCEL_MS, on_leave_late,
	              drive);
	return true;
}

/* --- what survives --- */

static char *coded(const struct buf *bytes)
{
	size_t size = sodium_base64_encoded_len(buf_len(bytes), sodium_base64_VARIANT_ORIGINAL);
	char *text = mem_zalloc(size);

	return sodium_bin2base64(text, size, buf_head(bytes), buf_len(bytes),
	                         sodium_base64_VARIANT_ORIGINAL);
}

/* What a session needs besides: bytes, because a character may be half given. */
static void save_session(struct drive *drive, json_t *state)
{
	auto_free char *outbox = coded(&drive->outbox);
	auto_free char *answer = coded(&drive->told.answer);

	json_object_set_new(state, "outbox", json_string(outbox));
	json_object_set_new(state, "outboxAt", json_integer((json_int_t)drive->given));
	json_object_set_new(state, "answer", json_string(answer));
	json_object_set_new(state, "agent", json_string(drive->client.agent));
	drive->saving = drive->queued;
}

void drive_save(struct job *job, struct store_write *write)
{
	struct drive *drive = job->drive;
	auto_free char *text = NULL;
	json_t *state;

	if (!drive)
		return;
	state = json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:b, s:b, s:s*}", "phase",
	                  acp_phase_name(drive->client.phase), "session", drive->client.session,
	                  "nextId", (json_int_t)drive->client.next_id, "awaited",
	                  (json_int_t)drive->client.awaited, "offset", (json_int_t)drive->offset,
	                  "queued", (json_int_t)drive->queued, "hasPrompted", drive->has_prompted,
	                  "canLoad", drive->client.can_load, "tail", drive->tail);
	must(state);
	if (is_careful(drive)) {
		save_session(drive, state);
		json_object_set_new(state, "serve", serve_save(drive->serve));
	}
	text = json_dumps(state, JSON_COMPACT);
	json_decref(state);
	store_put_run_agent(write, job->run->id.text, text);
}

static uint64_t number_of(const json_t *state, const char *name)
{
	json_int_t number = json_integer_value(json_object_get(state, name));

	return number > 0 ? (uint64_t)number : 0;
}

/* What we said and it does not have goes out again. */
static void say_again(struct drive *drive)
{
	uint64_t missing = drive->queued > drive->given ? drive->queued - drive->given : 0;
	size_t len = drive->tail ? strlen(drive->tail) : 0;

	if (missing == 0)
		return;
	if (missing > len)
		give_up(drive, RUN_END_AGENT_ERROR,
		        "what the agent was told is lost with the daemon");
	else
		must(buf_put(&drive->outbox, drive->tail + len - missing, missing) == 0);
}

/* Takes the bytes of a text in base64 behind the first `skip`. */
static void decode(const char *text, uint64_t skip, struct buf *to)
{
	size_t len = 0, size = strlen(text);
	auto_free uint8_t *bytes = mem_zalloc(size + 1);

	if (sodium_base642bin(bytes, size + 1, text, size, NULL, &len, NULL,
	                      sodium_base64_VARIANT_ORIGINAL) == 0 &&
	    skip < len)
		must(buf_put(to, bytes + skip, len - (size_t)skip) == 0);
}

static void restore_session(struct drive *drive, const json_t *state)
{
	uint64_t at = number_of(state, "outboxAt");

	decode(acp_text(state, "outbox"), drive->given > at ? drive->given - at : 0,
	       &drive->outbox);
	decode(acp_text(state, "answer"), 0, &drive->told.answer);
	(void)!str_copy(drive->client.agent, sizeof(drive->client.agent), acp_text(state, "agent"));
	drive->durable = drive->queued;
	if (drive->job->turns)
		turns_take_up(drive->job->turns);
}

static void restore(struct drive *drive, const json_t *state)
{
	struct acp_client *client = &drive->client;
	const char *tail = json_string_value(json_object_get(state, "tail"));

	if (!acp_phase_from(acp_text(state, "phase"), &client->phase))
		client->phase = ACP_BROKEN;
	(void)!str_copy(client->session, sizeof(client->session), acp_text(state, "session"));
	client->next_id = number_of(state, "nextId");
	client->awaited = number_of(state, "awaited");
	client->can_load = json_is_true(json_object_get(state, "canLoad"));
	drive->offset = number_of(state, "offset");
	drive->queued = number_of(state, "queued");
	drive->has_prompted = json_is_true(json_object_get(state, "hasPrompted"));
	drive->tail = tail ? mem_strdup(tail) : NULL;
	if (client->phase >= ACP_READY)
		loop_timer_stop(&drive->start_timer);
}

void drive_resume(struct job *job, const char *cwd)
{
	struct engine *engine = job->tasks->config.engine;
	struct drive *drive = drive_new(job, cwd);
	auto_free char *text = NULL;
	struct err err = {0};
	json_t *state = NULL;

	/* One that is over has all it ever had. */
	drive->given = job->watch.live ? engine->ops->fed(engine, job->run->sandbox.text,
	                                                  job->run->exec.text)
	                               : UINT64_MAX;
	if (store_run_agent_get(job_store(job), job->run->id.text, &text, &err) == 0)
		state = json_loads(text, 0, NULL);
	if (state) {
		restore(drive, state);
		serve_restore(drive->serve, json_object_get(state, "serve"));
		if (is_careful(drive))
			restore_session(drive, state);
		else
			say_again(drive);
	} else {
		acp_client_start(&drive->client);
	}
	json_decref(state);
	drive->is_done = drive->is_done || job->run->end != RUN_END_NONE;
	feed(drive);
	drive_output(job);
	loop_timer_in(job->tasks->config.loop, &drive->serve_timer, 0, on_serve, drive);
	if (job->turns)
		ask_next(drive);
}

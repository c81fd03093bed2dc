/*
 * Keeps the output of a run before its sandbox goes. A short one is copied at once; the rest of a
 * long one, and its way to the disk, is for a thread of its own: the loop has others to serve.
 * While the thread runs, everything of the keeping is the thread's but `call`.
 */
#include "task/keep.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "acp/transcript.h"
#include "base/mem.h"
#include "base/must.h"
#include "task/collect.h"
#include "task/job.h"
#include "task/log.h"
#include "task/redact.h"
#include "wire/outlog.h"

/* Read on the loop; what is kept in a row fits in. */
enum { AT_ONCE = 128 * 1024 };

struct keeping {
	struct keeping *next; /* of those with a thread */
	struct job_call *call;
	keep_on_done on_done;
	struct id run;
	struct outlog_reader reader;
	struct log_writer writer;
	struct transcript transcript;
	struct redact *redact;
	bool is_talk;
	bool is_read; /* up to its end */
	char *text;   /* of a short one */
	struct err err;
	/* of the thread */
	pthread_t thread;
	int over_fd;
	struct loop_source over;
};

/* What the agent said, where it talked to us. */
static int copy_talk(struct keeping *keeping, const struct outlog_record *record)
{
	struct buf *text = &keeping->transcript.text;
	int r;

	transcript_feed(&keeping->transcript, record->bytes, record->len);
	r = log_writer_put(&keeping->writer, '1', buf_head(text), buf_len(text), &keeping->err);
	buf_reset(text);
	return r;
}

static int copy_record(struct keeping *keeping, const struct outlog_record *record)
{
	static const char gap[] = "some output was dropped";
	struct log_writer *writer = &keeping->writer;

	switch (record->stream) {
	case OUTLOG_STDOUT:
		return keeping->is_talk ? copy_talk(keeping, record)
		                        : log_writer_put(writer, '1', record->bytes, record->len,
		                                         &keeping->err);
	case OUTLOG_STDERR:
		return log_writer_put(writer, '2', record->bytes, record->len, &keeping->err);
	case OUTLOG_GAP:
		return log_writer_put(writer, '!', gap, strlen(gap), &keeping->err);
	case OUTLOG_STDIN:
	case OUTLOG_EXIT:
		break;
	}
	return 0;
}

/* Until so much was read of it, or all. */
static int copy(struct keeping *keeping, uint64_t most)
{
	struct outlog_record record;
	int r = 1;

	while (!keeping->is_read && keeping->reader.offset < most) {
		r = outlog_next(&keeping->reader, &record);
		if (r < 0)
			return err_sys(&keeping->err, -r, "read the output of %s",
			               keeping->run.text);
		keeping->is_read = r == 0 || record.stream == OUTLOG_EXIT;
		if (r > 0 && copy_record(keeping, &record) < 0)
			return -1;
	}
	return 0;
}

static struct keeping *keeping_new(struct job *job, int dir_fd, keep_on_done on_done)
{
	struct keeping *keeping = mem_new(struct keeping);
	int r = outlog_reader_open(&keeping->reader, dir_fd, 0);

	keeping->over_fd = -1;
	keeping->on_done = on_done;
	keeping->run = job->run->id;
	keeping->is_talk = collect_is_talk(job->tasks, job->task);
	keeping->redact = collect_redact(job->tasks, job->task);
	log_writer_init(&keeping->writer, job->tasks->config.files_fd, keeping->run.text,
	                keeping->redact);
	transcript_init(&keeping->transcript);
	if (r < 0)
		(void)err_sys(&keeping->err, -r, "read the output of %s",
		              keeping->run.text); /* always -1 */
	return keeping;
}

static void keeping_free(struct keeping *keeping)
{
	fd_closep(&keeping->over_fd);
	transcript_done(&keeping->transcript);
	log_writer_done(&keeping->writer);
	outlog_reader_close(&keeping->reader);
	redact_free(keeping->redact);
	mem_freep(&keeping->text);
	mem_freep(&keeping);
}

static void take(struct job *job, struct keeping *keeping)
{
	struct run *run = job->run;

	mem_freep(&run->log);
	run->log = take_ptr(keeping->text);
	run->has_log_file = run->log == NULL;
}

/* --- a long one --- */

static void *run_thread(void *ctx)
{
	struct keeping *keeping = ctx;
	uint64_t one = 1;

	if (copy(keeping, UINT64_MAX) == 0)
		(void)!log_writer_finish(&keeping->writer, &keeping->text,
		                         &keeping->err);   /* the loop looks at err */
	(void)!write(keeping->over_fd, &one, sizeof(one)); /* cannot fail: it was zero */
	return NULL;
}

static void forget(struct tasks *tasks, struct keeping *keeping)
{
	struct keeping **at = &tasks->keepings;

	while (*at != keeping)
		at = &(*at)->next;
	*at = keeping->next;
}

static void on_over(struct loop_source *source, uint32_t events, void *ctx)
{
	struct keeping *keeping = ctx;
	struct job *job = keeping->call->job;
	struct tasks *tasks = job->tasks;
	struct err err;

	loop_remove(&keeping->over);
	must(pthread_join(keeping->thread, NULL) == 0);
	forget(tasks, keeping);
	err = keeping->err;
	job->keeping = NULL;
	job = job_answer(keeping->call);
	if (job && err.code == ERR_OK)
		take(job, keeping);
	else if (!job)
		log_remove(tasks->config.files_fd, keeping->run.text); /* it was given up */
	if (job)
		keeping->on_done(job, &err);
	keeping_free(keeping);
}

/* The thread must take no signal: they belong to the loop. */
static int start_thread(struct keeping *keeping)
{
	sigset_t all, old;
	int r;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	r = pthread_create(&keeping->thread, NULL, run_thread, keeping);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return -r;
}

static int hand_over(struct job *job, struct keeping *keeping)
{
	struct tasks *tasks = job->tasks;
	int r;

	keeping->over_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	r = keeping->over_fd < 0 ? -errno
	                         : loop_add(tasks->config.loop, &keeping->over, keeping->over_fd,
	                                    EPOLLIN, on_over, keeping);
	if (r == 0)
		r = start_thread(keeping);
	if (r < 0) {
		loop_remove(&keeping->over);
		return err_sys(&keeping->err, -r, "keep the output of %s", keeping->run.text);
	}
	keeping->call = job_ask(job);
	keeping->next = tasks->keepings;
	tasks->keepings = keeping;
	job->keeping = keeping;
	return 0;
}

void keep_shut(struct tasks *tasks)
{
	while (tasks->keepings) {
		struct keeping *keeping = tasks->keepings;

		tasks->keepings = keeping->next;
		loop_remove(&keeping->over);
		must(pthread_join(keeping->thread, NULL) == 0);
		mem_freep(&keeping->call);
		keeping_free(keeping);
	}
}

/* --- any --- */

/* True: it is over, one way or the other. */
static bool keep_short(struct job *job, struct keeping *keeping)
{
	if (keeping->err.code != ERR_OK || copy(keeping, AT_ONCE) < 0)
		return true;
	if (!keeping->is_read || keeping->writer.fd >= 0)
		return hand_over(job, keeping) < 0;
	if (log_writer_finish(&keeping->writer, &keeping->text, &keeping->err) == 0)
		take(job, keeping);
	return true;
}

/* An attempt that was too slow for its step and goes on is waited for. */
static void wait_for(struct job *job, keep_on_done on_done)
{
	(void)job_answer(job->keeping->call); /* the job is not over: it stays */
	job->keeping->call = job_ask(job);
	job->keeping->on_done = on_done;
}

void keep_log(struct job *job, keep_on_done on_done)
{
	const struct run *run = job->run;
	struct keeping *keeping;
	struct err err = {0};
	char path[96];
	int fd;

	if (job->keeping) {
		wait_for(job, on_done);
		return;
	}
	/* Both ids were made by us: no slash can be in them. */
	(void)snprintf(path, sizeof(path), "%s/out/%s", run->sandbox.text, run->exec.text);
	fd = openat(job->tasks->config.sandboxes_fd, path,
	            O_DIRECTORY | O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0) {
		if (errno != ENOENT)
			(void)err_sys(&err, errno, "open the output of %s",
			              run->id.text); /* always -1 */
		on_done(job, &err);
		return;
	}
	keeping = keeping_new(job, fd, on_done);
	if (!keep_short(job, keeping))
		return;
	err = keeping->err;
	keeping_free(keeping);
	on_done(job, &err);
}

#include "broker/job.h"

#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/str.h"
#include "broker/context.h"
#include "broker/zygote.h"

int job_new_on(struct broker *broker, enum wire_type type, uint64_t request, int sock,
               struct job **ret, struct err *err)
{
	auto_close int own = sock;
	if (broker->job_count >= JOB_MAX)
		return err_set(err, ERR_LIMITED, "%d operations are under way already", JOB_MAX);
	struct job *job = mem_new(struct job);
	job->broker = broker;
	job->sock = take_fd(&own);
	job->child_sock = -1;
	job->type = type;
	job->request = request;
	job->slot = -1;
	job->next = broker->jobs;
	broker->jobs = job;
	broker->job_count++;
	*ret = job;
	return 0;
}

int job_new(struct broker *broker, enum wire_type type, uint64_t request, struct job **ret,
            struct err *err)
{
	int pair[2];
	int r = wire_pair(pair);
	if (r < 0)
		return err_sys(err, -r, "make a job's socket");
	if (job_new_on(broker, type, request, pair[0], ret, err) < 0) {
		close(pair[1]);
		return -1;
	}
	(*ret)->child_sock = pair[1];
	return 0;
}

void job_free(struct job *job)
{
	struct job **at = &job->broker->jobs;
	while (*at != job)
		at = &(*at)->next;
	*at = job->next;
	job->broker->job_count--;
	loop_remove(&job->source);
	loop_timer_stop(&job->timer);
	fd_closep(&job->sock);
	fd_closep(&job->child_sock);
	mem_freep(&job->cause);
	wish_mounts_done(&job->mounts);
	mem_freep(&job);
}

void job_free_all(struct broker *broker)
{
	while (broker->jobs)
		job_free(broker->jobs);
}

static void finish(struct job *job, struct wire_msg *answer, const struct err *err)
{
	loop_remove(&job->source);
	loop_timer_stop(&job->timer);
	job->on_done(job, answer, err);
	job_free(job);
}

static void on_answer(struct loop_source *source, uint32_t events, void *ctx)
{
	static uint8_t bytes[LIMIT_WIRE_BYTES]; /* a message is dealt with before the next comes */
	struct job *job = ctx;
	struct err err = {0};
	struct wire_msg msg;
	int r = wire_recv(job->sock, bytes, LIMIT_WIRE_BYTES, &msg);
	if (r == -EAGAIN || r == -EINTR)
		return;
	if (r <= 0) {
		err_set(&err, r == 0 ? ERR_INTERNAL : ERR_PROTOCOL, "the process that did it %s",
		        r == 0 ? "died" : "answered nonsense");
		finish(job, NULL, &err);
		return;
	}
	bool is_error = wire_get_err(&msg, &err) < 0;
	finish(job, is_error ? NULL : &msg, &err);
	wire_msg_done(&msg);
}

static void on_timeout(struct loop_timer *timer, void *ctx)
{
	struct err err = {0};
	err_set(&err, ERR_TIMEOUT, "it took too long");
	finish(ctx, NULL, &err);
}

/* From now on it is answered, or late. */
static int await(struct job *job, job_on_done on_done, struct err *err)
{
	job->on_done = on_done;
	int r = io_set_nonblock(job->sock, true);
	if (r == 0)
		r = loop_add(job->broker->loop, &job->source, job->sock, EPOLLIN, on_answer, job);
	return r < 0 ? err_sys(err, -r, "wait for a job") : 0;
}

int job_send(struct job *job, struct zygote *zygote, const struct wire_out *out,
             uint64_t timeout_ms, job_on_done on_done, struct err *err)
{
	if (await(job, on_done, err) < 0 || zygote_send(zygote, out, err) < 0) {
		job_free(job);
		return -1;
	}
	fd_closep(&job->child_sock);
	loop_timer_in(job->broker->loop, &job->timer, timeout_ms, on_timeout, job);
	return 0;
}

int job_ask(struct job *job, const struct wire_out *out, uint64_t timeout_ms, job_on_done on_done,
            struct err *err)
{
	int r = await(job, on_done, err);
	if (r == 0) {
		r = wire_send(job->sock, out);
		if (r < 0)
			err_sys(err, -r, "ask the keeper");
	}
	if (r < 0) {
		job_free(job);
		return -1;
	}
	loop_timer_in(job->broker->loop, &job->timer, timeout_ms, on_timeout, job);
	return 0;
}

size_t job_count_of(const struct broker *broker, enum wire_type type)
{
	size_t count = 0;
	for (const struct job *job = broker->jobs; job; job = job->next)
		count += job->type == type;
	return count;
}

bool job_is_busy(const struct broker *broker, const char *sandbox)
{
	for (const struct job *job = broker->jobs; job; job = job->next)
		if (str_eq(job->sandbox, sandbox))
			return true;
	return false;
}

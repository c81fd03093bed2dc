#include "runtime/gate.h"

#include "base/io.h"
#include "base/mem.h"

struct gate_job {
	struct gate_job *next;
	struct gate *gate;
	uint64_t number;
	struct wire_out out;
	uint64_t timeout_ms;
	uint64_t since_ms; /* when it was asked for */
	peer_on_answer on_answer;
	void *ctx;
};

void gate_init(struct gate *gate, struct peer *peer, size_t most)
{
	*gate = (struct gate){.peer = peer, .most = most};
	gate->last = &gate->first;
}

static struct gate_job *take_first(struct gate *gate)
{
	struct gate_job *job = gate->first;

	if (!job)
		return NULL;
	gate->first = job->next;
	if (!gate->first)
		gate->last = &gate->first;
	return job;
}

static void job_free(struct gate_job *job)
{
	wire_done(&job->out);
	mem_freep(&job);
}

static void refuse_all(struct gate *gate)
{
	struct gate_job *job;
	struct err err = {0};

	(void)err_set(&err, ERR_UNAVAILABLE, "the connection is gone"); /* always -1 */
	while ((job = take_first(gate))) {
		job->on_answer(NULL, &err, job->ctx);
		job_free(job);
	}
}

static void send_next(struct gate *gate);

static void on_answer(struct wire_msg *msg, const struct err *err, void *ctx)
{
	struct gate_job *job = ctx;
	struct gate *gate = job->gate;

	gate->under_way--;
	job->on_answer(msg, err, job->ctx);
	job_free(job);
	send_next(gate);
}

/* It waited as long as it may: what is before it takes too long. */
static void refuse_late(struct gate_job *job)
{
	struct err err = {0};

	(void)err_set(&err, ERR_TIMEOUT, "too much is waiting for the broker"); /* always -1 */
	job->gate->under_way--;
	job->on_answer(NULL, &err, job->ctx);
	job_free(job);
}

static void send_next(struct gate *gate)
{
	if (!peer_is_open(gate->peer)) {
		refuse_all(gate);
		return;
	}
	while (gate->under_way < gate->most) {
		struct gate_job *job = take_first(gate);

		if (!job)
			return;
		gate->under_way++;
		if (io_boot_ms() - job->since_ms > job->timeout_ms)
			refuse_late(job);
		else
			peer_call(gate->peer, job->number, &job->out, job->timeout_ms, on_answer,
			          job);
	}
}

void gate_call(struct gate *gate, uint64_t number, struct wire_out *out, uint64_t timeout_ms,
               peer_on_answer on_answer_, void *ctx)
{
	struct gate_job *job = mem_new(struct gate_job);

	*job = (struct gate_job){.gate = gate,
	                         .number = number,
	                         .out = *out,
	                         .timeout_ms = timeout_ms,
	                         .since_ms = io_boot_ms(),
	                         .on_answer = on_answer_,
	                         .ctx = ctx};
	*out = (struct wire_out){0};
	if (!peer_is_open(gate->peer)) {
		/* The peer refuses it from the loop, as every answer comes. */
		gate->under_way++;
		peer_call(gate->peer, number, &job->out, timeout_ms, on_answer, job);
		return;
	}
	*gate->last = job;
	gate->last = &job->next;
	send_next(gate);
}

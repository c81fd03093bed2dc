#include "gateway/trial.h"

#include "base/loop.h"
#include "base/mem.h"
#include "gateway/upstream.h"

struct trial {
	struct loop_timer timer;
	int status;
	struct err err;
	trial_on_end on_end;
	void *ctx;
};

static void end(struct trial *trial)
{
	static const struct err none = {0};

	/* What comes after the head is of no interest: an end without it is none that failed. */
	trial->on_end(trial->status, trial->status ? &none : &trial->err, trial->ctx);
	loop_timer_stop(&trial->timer);
	mem_freep(&trial);
}

static void on_header(const char *name, const char *value, void *ctx)
{
}

static void on_head(int status, uint64_t length, void *ctx)
{
	struct trial *trial = ctx;

	trial->status = status;
}

static int on_bytes(const void *bytes, size_t len, void *ctx)
{
	return -1;
}

static ssize_t on_body(void *to, size_t max, void *ctx)
{
	return -1;
}

static void on_over(const struct err *err, void *ctx)
{
	struct trial *trial = ctx;

	trial->err = *err;
	end(trial);
}

static void on_failed(struct loop_timer *timer, void *ctx)
{
	end(ctx);
}

static struct trial *trial_new(trial_on_end on_end, void *ctx)
{
	struct trial *trial = mem_new(struct trial);

	trial->on_end = on_end;
	trial->ctx = ctx;
	return trial;
}

void trial_start(struct upstreams *upstreams, const struct upstream_call *call, trial_on_end on_end,
                 void *ctx)
{
	static const struct upstream_ops ops = {
		.on_header = on_header,
		.on_head = on_head,
		.on_bytes = on_bytes,
		.on_body = on_body,
		.on_end = on_over,
	};

	(void)upstream_start(upstreams, call, &ops, trial_new(on_end, ctx)); /* ends by itself */
}

void trial_fail(struct loop *loop, const struct err *err, trial_on_end on_end, void *ctx)
{
	struct trial *trial = trial_new(on_end, ctx);

	trial->err = *err;
	loop_timer_in(loop, &trial->timer, 0, on_failed, trial);
}

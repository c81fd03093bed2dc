#include "init/refusals.h"

#include <sys/epoll.h>
#include <unistd.h>

#include "init/init.h"
#include "init/who.h"
#include "os/seccomp.h"
#include "wire/wire.h"

/* ASKED_MOST: few enough that the keeper's socket never fills. */
enum { ASKED_MOST = 32, TAKEN_MOST = 64, AGAIN_MS = 100 };

static void refuse(struct refusals *refusals, uint64_t id, int refusal)
{
	for (size_t i = 0; i < REFUSALS_LISTENERS; i++) {
		/* One of them knows it, unless the caller was killed meanwhile. */
		if (refusals->listeners[i].fd >= 0)
			(void)!seccomp_refuse(refusals->listeners[i].fd, id, refusal);
	}
}

static int tell(const struct seccomp_told *told)
{
	char name[WHO_NAME];
	who_is(told->pid, name);
	auto_wire_out struct wire_out out;
	wire_begin(&out, WIRE_I_TOLD, 0);
	wire_put_u64(&out, FIELD_ASK, told->id);
	wire_put_u64(&out, FIELD_CALL, (uint64_t)told->call);
	wire_put_bytes(&out, FIELD_ARGS, told->args, sizeof(told->args));
	wire_put_u64(&out, FIELD_PID, (uint64_t)told->pid);
	wire_put_str(&out, FIELD_PROGRAM, name);
	wire_put_u64(&out, FIELD_ERR_SYS, (uint64_t)told->refusal);
	return wire_send(INIT_CONTROL_FD, &out);
}

static void watch(struct refusals *refusals);

static void on_again(struct loop_timer *timer, void *ctx)
{
	struct refusals *refusals = ctx;
	refusals->taken = 0;
	watch(refusals);
}

static void on_call(struct loop_source *source, uint32_t events, void *ctx)
{
	struct refusals_listener *listener = ctx;
	struct refusals *refusals = listener->refusals;
	struct seccomp_told told;
	if (events & EPOLLHUP && !(events & EPOLLIN)) { /* nobody is left who has this filter */
		loop_remove(&listener->source);
		fd_closep(&listener->fd);
		return;
	}
	if (!(events & EPOLLIN) || seccomp_next(listener->fd, &told) < 0)
		return; /* it was killed */
	if (refusals->taken++ == 0)
		loop_timer_in(refusals->loop, &refusals->again, AGAIN_MS, on_again, refusals);
	if (tell(&told) < 0)
		refuse(refusals, told.id, told.refusal); /* no keeper: our end is near */
	else
		refusals->asked++;
	watch(refusals);
}

/* Those that come while nobody looks wait, each in its own call. */
static void watch(struct refusals *refusals)
{
	bool is_wanted = refusals->asked < ASKED_MOST && refusals->taken < TAKEN_MOST;
	for (size_t i = 0; i < REFUSALS_LISTENERS; i++) {
		struct refusals_listener *listener = &refusals->listeners[i];
		bool is_watched = listener->source.loop != NULL;
		if (!is_wanted && is_watched)
			loop_remove(&listener->source);
		else if (is_wanted && !is_watched && listener->fd >= 0 &&
		         loop_add(refusals->loop, &listener->source, listener->fd, EPOLLIN, on_call,
		                  listener) < 0)
			loop_timer_in(refusals->loop, &refusals->again, AGAIN_MS, on_again,
			              refusals); /* memory is short */
	}
}

int refusals_start(struct refusals *refusals, struct loop *loop,
                   const int listeners[REFUSALS_LISTENERS])
{
	*refusals = (struct refusals){.loop = loop};
	int r = 0;
	for (size_t i = 0; i < REFUSALS_LISTENERS; i++) {
		struct refusals_listener *listener = &refusals->listeners[i];
		listener->refusals = refusals;
		listener->fd = listeners[i];
		if (r >= 0 && listener->fd >= 0)
			r = loop_add(loop, &listener->source, listener->fd, EPOLLIN, on_call,
			             listener);
	}
	return r;
}

void refusals_answer(struct refusals *refusals, const struct wire_msg *msg)
{
	refuse(refusals, wire_u64(msg, FIELD_ASK, 0), (int)wire_u64(msg, FIELD_ERR_SYS, 0));
	refusals->asked -= refusals->asked > 0;
	watch(refusals);
}

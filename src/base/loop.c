/*
 * Rounds: arm the timerfd for the earliest timer, epoll_wait, fix "now", call the sources that
 * are ready, then the timers that are due. Removal during a round clears the source from what is
 * still to be called, so a callback never sees an event of something that is gone. Regular files
 * and /dev/null cannot be polled (EPERM): they are ready in every round, as poll(2) says of them.
 */
#include "base/loop.h"

#include <errno.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/must.h"

enum { BATCH = 64 };
static const uint32_t SOURCE_MAGIC = 0x4c6f5372;
static const uint32_t TIMER_MAGIC = 0x4c6f5469;

struct loop {
	int epoll_fd;
	int timer_fd;
	int signal_fd;
	uint64_t now_ms;
	uint64_t armed_ms; /* what timer_fd is set to; UINT64_MAX: disarmed */
	struct epoll_event ready[BATCH];
	size_t ready_at; /* the next one to call */
	size_t ready_count;
	struct loop_source **always; /* not pollable: ready in every round */
	size_t always_count;
	size_t always_at;
	struct loop_timer **heap; /* earliest first */
	size_t heap_count;
	size_t heap_size;
	struct loop_source timer_source;
	struct loop_source signal_source;
	loop_on_signal on_signal;
	void *signal_ctx;
	bool running;
	int status;
};

static void on_timer_fd(struct loop_source *source, uint32_t events, void *ctx)
{
	struct loop *loop = ctx;
	uint64_t times = 0;
	(void)!read(source->fd, &times, sizeof(times)); /* only its wake-up matters */
	loop->armed_ms = UINT64_MAX;
}

int loop_new(struct loop **ret)
{
	auto_loop struct loop *loop = mem_new(struct loop);
	loop->signal_fd = -1;
	loop->timer_fd = -1;
	loop->armed_ms = UINT64_MAX;
	loop->now_ms = io_boot_ms();
	loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (loop->epoll_fd < 0)
		return -errno;
	loop->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
	if (loop->timer_fd < 0)
		return -errno;
	int r = loop_add(loop, &loop->timer_source, loop->timer_fd, EPOLLIN, on_timer_fd, loop);
	if (r < 0)
		return r;
	*ret = take_ptr(loop);
	return 0;
}

void loop_free(struct loop *loop)
{
	if (!loop)
		return;
	/* only descriptors are closed: after a fork the epoll set still belongs to the parent */
	fd_closep(&loop->epoll_fd);
	fd_closep(&loop->timer_fd);
	fd_closep(&loop->signal_fd);
	free(loop->always);
	free(loop->heap);
	free(loop);
}

void loop_freep(struct loop **loop)
{
	loop_free(*loop);
	*loop = NULL;
}

int loop_add(struct loop *loop, struct loop_source *source, int fd, uint32_t events,
             loop_on_io on_io, void *ctx)
{
	must(source->magic == 0 && on_io != NULL);
	struct epoll_event event = {.events = events, .data.ptr = source};
	if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0) {
		if (errno != EPERM)
			return -errno;
		loop->always = mem_resize(loop->always, loop->always_count + 1,
		                          sizeof(struct loop_source *));
		loop->always[loop->always_count++] = source;
	}
	*source = (struct loop_source){
		.magic = SOURCE_MAGIC,
		.fd = fd,
		.events = events,
		.on_io = on_io,
		.ctx = ctx,
		.loop = loop,
	};
	return 0;
}

static size_t find_always(const struct loop *loop, const struct loop_source *source)
{
	size_t i = 0;
	while (i < loop->always_count && loop->always[i] != source)
		i++;
	return i;
}

int loop_change(struct loop_source *source, uint32_t events)
{
	must(source->magic == SOURCE_MAGIC);
	if (source->events == events)
		return 0;
	struct loop *loop = source->loop;
	if (find_always(loop, source) == loop->always_count) {
		struct epoll_event event = {.events = events, .data.ptr = source};
		if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_MOD, source->fd, &event) < 0)
			return -errno;
	}
	source->events = events;
	return 0;
}

void loop_remove(struct loop_source *source)
{
	if (source->magic == 0)
		return;
	must(source->magic == SOURCE_MAGIC);
	struct loop *loop = source->loop;
	size_t at = find_always(loop, source);
	if (at < loop->always_count) {
		memmove(loop->always + at, loop->always + at + 1,
		        (loop->always_count - at - 1) * sizeof(struct loop_source *));
		loop->always_count--;
		if (at < loop->always_at)
			loop->always_at--;
	} else {
		/* fails only if the fd was closed first, and then the kernel may keep a pointer */
		must(epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, source->fd, NULL) == 0);
	}
	for (size_t i = loop->ready_at; i < loop->ready_count; i++) {
		if (loop->ready[i].data.ptr == source)
			loop->ready[i].data.ptr = NULL;
	}
	*source = (struct loop_source){.fd = -1};
}

static void heap_set(struct loop *loop, size_t at, struct loop_timer *timer)
{
	loop->heap[at] = timer;
	timer->heap_at = at;
}

static void heap_up(struct loop *loop, size_t at, struct loop_timer *timer)
{
	while (at > 0 && loop->heap[(at - 1) / 2]->due_ms > timer->due_ms) {
		heap_set(loop, at, loop->heap[(at - 1) / 2]);
		at = (at - 1) / 2;
	}
	heap_set(loop, at, timer);
}

static void heap_down(struct loop *loop, size_t at, struct loop_timer *timer)
{
	for (;;) {
		size_t child = 2 * at + 1;
		if (child >= loop->heap_count)
			break;
		if (child + 1 < loop->heap_count &&
		    loop->heap[child + 1]->due_ms < loop->heap[child]->due_ms)
			child++;
		if (loop->heap[child]->due_ms >= timer->due_ms)
			break;
		heap_set(loop, at, loop->heap[child]);
		at = child;
	}
	heap_set(loop, at, timer);
}

void loop_timer_stop(struct loop_timer *timer)
{
	if (timer->magic == 0 || timer->heap_at == SIZE_MAX)
		return;
	must(timer->magic == TIMER_MAGIC);
	struct loop *loop = timer->loop;
	size_t at = timer->heap_at;
	must(at < loop->heap_count && loop->heap[at] == timer);
	struct loop_timer *last = loop->heap[--loop->heap_count];
	timer->heap_at = SIZE_MAX;
	if (last == timer)
		return;
	if (last->due_ms < timer->due_ms)
		heap_up(loop, at, last);
	else
		heap_down(loop, at, last);
}

void loop_timer_at(struct loop *loop, struct loop_timer *timer, uint64_t due_ms,
                   loop_on_timer on_timer, void *ctx)
{
	loop_timer_stop(timer);
	*timer = (struct loop_timer){
		.magic = TIMER_MAGIC,
		.due_ms = due_ms,
		.on_timer = on_timer,
		.ctx = ctx,
		.loop = loop,
	};
	if (loop->heap_count == loop->heap_size) {
		loop->heap_size = loop->heap_size ? 2 * loop->heap_size : 16;
		loop->heap = mem_resize(loop->heap, loop->heap_size, sizeof(struct loop_timer *));
	}
	heap_up(loop, loop->heap_count++, timer);
}

void loop_timer_in(struct loop *loop, struct loop_timer *timer, uint64_t in_ms,
                   loop_on_timer on_timer, void *ctx)
{
	uint64_t due_ms = 0;
	if (__builtin_add_overflow(io_boot_ms(), in_ms, &due_ms))
		due_ms = UINT64_MAX;
	loop_timer_at(loop, timer, due_ms, on_timer, ctx);
}

static void on_signal_fd(struct loop_source *source, uint32_t events, void *ctx)
{
	struct loop *loop = ctx;
	struct signalfd_siginfo info;
	while (read(source->fd, &info, sizeof(info)) == sizeof(info))
		loop->on_signal((int)info.ssi_signo, loop->signal_ctx);
}

int loop_signals(struct loop *loop, const int *signals, loop_on_signal on_signal, void *ctx)
{
	must(loop->signal_fd < 0);
	sigset_t set;
	must(sigemptyset(&set) == 0);
	for (; *signals; signals++)
		must(sigaddset(&set, *signals) == 0);
	int r = pthread_sigmask(SIG_BLOCK, &set, NULL);
	if (r != 0)
		return -r;
	loop->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (loop->signal_fd < 0)
		return -errno;
	loop->on_signal = on_signal;
	loop->signal_ctx = ctx;
	return loop_add(loop, &loop->signal_source, loop->signal_fd, EPOLLIN, on_signal_fd, loop);
}

uint64_t loop_now_ms(const struct loop *loop)
{
	return loop->now_ms;
}

/* The timerfd and not epoll's timeout: that one stands still while the machine is suspended. */
static int arm_timer_fd(struct loop *loop)
{
	uint64_t due_ms = loop->heap_count ? loop->heap[0]->due_ms : UINT64_MAX;
	if (due_ms == loop->armed_ms)
		return 0;
	/* a zero it_value would disarm; a far one must fit a time_t in nanoseconds */
	uint64_t at_ms = MIN(MAX(due_ms, (uint64_t)1), (uint64_t)INT64_MAX / 1000000);
	struct itimerspec when = {0};
	if (due_ms != UINT64_MAX) {
		when.it_value.tv_sec = (time_t)(at_ms / 1000);
		when.it_value.tv_nsec = (long)(at_ms % 1000) * 1000000;
	}
	if (timerfd_settime(loop->timer_fd, TFD_TIMER_ABSTIME, &when, NULL) < 0)
		return -errno;
	loop->armed_ms = due_ms;
	return 0;
}

static bool has_always_ready(const struct loop *loop)
{
	for (size_t i = 0; i < loop->always_count; i++) {
		if (loop->always[i]->events & (EPOLLIN | EPOLLOUT))
			return true;
	}
	return false;
}

static void call_sources(struct loop *loop)
{
	while (loop->ready_at < loop->ready_count) {
		struct epoll_event event = loop->ready[loop->ready_at++];
		struct loop_source *source = event.data.ptr;
		if (!source)
			continue;
		must(source->magic == SOURCE_MAGIC);
		source->on_io(source, event.events, source->ctx);
	}
	loop->ready_at = loop->ready_count = 0;

	for (loop->always_at = 0; loop->always_at < loop->always_count;) {
		struct loop_source *source = loop->always[loop->always_at++];
		uint32_t events = source->events & (EPOLLIN | EPOLLOUT);
		if (events)
			source->on_io(source, events, source->ctx);
	}
	loop->always_at = 0;
}

static void call_timers(struct loop *loop)
{
	/* a timer that re-arms itself for "now" waits for the next round */
	for (size_t left = loop->heap_count; left > 0 && loop->heap_count > 0; left--) {
		struct loop_timer *timer = loop->heap[0];
		if (timer->due_ms > loop->now_ms)
			break;
		loop_timer_stop(timer);
		timer->on_timer(timer, timer->ctx);
	}
}

int loop_step(struct loop *loop, int max_wait_ms)
{
	int r = arm_timer_fd(loop);
	if (r < 0)
		return r;
	if (has_always_ready(loop))
		max_wait_ms = 0;
	int n = epoll_wait(loop->epoll_fd, loop->ready, BATCH, max_wait_ms);
	if (n < 0 && errno != EINTR)
		return -errno;
	loop->ready_at = 0;
	loop->ready_count = n > 0 ? (size_t)n : 0;
	loop->now_ms = io_boot_ms();
	call_sources(loop);
	call_timers(loop);
	return 0;
}

int loop_run(struct loop *loop)
{
	must(!loop->running);
	loop->running = true;
	while (loop->running) {
		int r = loop_step(loop, -1);
		if (r < 0) {
			loop->running = false;
			return r;
		}
	}
	return loop->status;
}

void loop_stop(struct loop *loop, int status)
{
	loop->running = false;
	loop->status = status;
}

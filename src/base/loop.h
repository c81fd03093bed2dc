/*
 * The event loop of every role: epoll, timers on CLOCK_BOOTTIME, signals by signalfd, children
 * by pidfd. Single-threaded. A source belongs to the object that embeds it (no allocation per
 * source except timers in the heap); it must be removed before its memory goes away. Callbacks
 * return quickly and never re-enter loop_run. Removing any source, also the one being called, is
 * allowed inside a callback. A forked child makes its own loop and only frees this one.
 */
#pragma once

#include <sys/types.h>

#include "base/base.h"

struct loop;
struct loop_source;
struct loop_timer;

/* events is a mask of EPOLLIN, EPOLLOUT, EPOLLHUP, EPOLLERR. */
typedef void (*loop_on_io)(struct loop_source *source, uint32_t events, void *ctx);
typedef void (*loop_on_timer)(struct loop_timer *timer, void *ctx);
typedef void (*loop_on_signal)(int signal, void *ctx);

/* Embedded by value; fields are the loop's business. */
struct loop_source {
	uint32_t magic;
	int fd; /* not owned; -1 when not added */
	uint32_t events;
	loop_on_io on_io;
	void *ctx;
	struct loop *loop;
};

struct loop_timer {
	uint32_t magic;
	uint64_t due_ms; /* CLOCK_BOOTTIME */
	size_t heap_at;  /* SIZE_MAX when not armed */
	loop_on_timer on_timer;
	void *ctx;
	struct loop *loop;
};

int loop_new(struct loop **ret) NODISCARD;
void loop_free(struct loop *loop);
#define auto_loop auto_(loop_freep)
void loop_freep(struct loop **loop);

/* Runs until loop_stop. Returns the status given to loop_stop, or -errno. */
int loop_run(struct loop *loop);
/* One round: waits at most max_wait_ms (-1: until something happens), dispatches. */
int loop_step(struct loop *loop, int max_wait_ms);
void loop_stop(struct loop *loop, int status);

/* The source must be zeroed or removed before. Regular files and /dev/null are ready in every
 * round, as poll(2) has it. */
int loop_add(struct loop *loop, struct loop_source *source, int fd, uint32_t events,
             loop_on_io on_io, void *ctx) NODISCARD;
int loop_change(struct loop_source *source, uint32_t events);
/* Harmless on a source that was never added. Does not close the fd: remove first, then close
 * (the other order aborts, because the kernel could still hold the source's address). */
void loop_remove(struct loop_source *source);

/* Arms or re-arms: on_timer is called once, at or after due. */
void loop_timer_at(struct loop *loop, struct loop_timer *timer, uint64_t due_ms,
                   loop_on_timer on_timer, void *ctx);
void loop_timer_in(struct loop *loop, struct loop_timer *timer, uint64_t in_ms,
                   loop_on_timer on_timer, void *ctx);
void loop_timer_stop(struct loop_timer *timer);

/* Blocks the signals and delivers them to on_signal; once per loop. `signals` ends with 0. They
 * stay blocked across fork and exec: the child unblocks them. */
int loop_signals(struct loop *loop, const int *signals, loop_on_signal on_signal,
                 void *ctx) NODISCARD;
/* CLOCK_BOOTTIME at the start of this round, in ms. */
uint64_t loop_now_ms(const struct loop *loop);

#include "base/loop.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/pidfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "harness/test.h"

struct seen {
	struct loop *loop;
	int count;
	uint32_t events;
	int signal;
	struct loop_source *other; /* removed by the callback */
	struct loop_timer *timer;
	int order[16];
};

static void on_io(struct loop_source *source, uint32_t events, void *ctx)
{
	struct seen *seen = ctx;
	seen->count++;
	seen->events = events;
	if (seen->other)
		loop_remove(seen->other);
}

static void on_read(struct loop_source *source, uint32_t events, void *ctx)
{
	struct seen *seen = ctx;
	char byte = 0;
	ssize_t n = read(source->fd, &byte, 1);
	seen->count++;
	if (n == 0) {
		loop_remove(source);
		loop_stop(seen->loop, 42);
	}
}

static struct loop *new_loop(void)
{
	struct loop *loop = NULL;
	CHECK_INT(loop_new(&loop), 0);
	return loop;
}

static void make_pipe(int fds[2])
{
	CHECK_INT(pipe2(fds, O_CLOEXEC | O_NONBLOCK), 0);
}

static void close_pipe(const int fds[2])
{
	(void)close(fds[0]);
	(void)close(fds[1]);
}

TEST(readable_pipes_call_back)
{
	auto_loop struct loop *loop = new_loop();
	struct seen seen = {0};
	struct loop_source source = {0};
	int fds[2];
	make_pipe(fds);
	CHECK_INT(loop_add(loop, &source, fds[0], EPOLLIN, on_io, &seen), 0);
	CHECK_INT(loop_step(loop, 0), 0);
	CHECK_INT(seen.count, 0);
	CHECK_INT(write(fds[1], "x", 1), 1);
	CHECK_INT(loop_step(loop, -1), 0);
	CHECK_INT(seen.count, 1);
	CHECK(seen.events & EPOLLIN);
	CHECK_INT(loop_change(&source, 0), 0);
	CHECK_INT(loop_step(loop, 0), 0);
	CHECK_INT(seen.count, 1);
	loop_remove(&source);
	loop_remove(&source);
	close_pipe(fds);
}

TEST(run_ends_with_the_status)
{
	auto_loop struct loop *loop = new_loop();
	struct seen seen = {.loop = loop};
	struct loop_source source = {0};
	int fds[2];
	make_pipe(fds);
	CHECK_INT(loop_add(loop, &source, fds[0], EPOLLIN, on_read, &seen), 0);
	CHECK_INT(write(fds[1], "ab", 2), 2);
	(void)close(fds[1]);
	CHECK_INT(loop_run(loop), 42);
	CHECK_INT(seen.count, 3);
	(void)close(fds[0]);
}

TEST(a_removed_source_is_not_called_in_the_same_round)
{
	auto_loop struct loop *loop = new_loop();
	struct loop_source sources[2] = {0};
	struct seen seen[2] = {{.other = &sources[1]}, {.other = &sources[0]}};
	int fds[2][2];
	for (int i = 0; i < 2; i++) {
		make_pipe(fds[i]);
		CHECK_INT(loop_add(loop, &sources[i], fds[i][0], EPOLLIN, on_io, &seen[i]), 0);
		CHECK_INT(write(fds[i][1], "x", 1), 1);
	}
	CHECK_INT(loop_step(loop, 0), 0);
	CHECK_INT(seen[0].count + seen[1].count, 1);
	for (int i = 0; i < 2; i++) {
		loop_remove(&sources[i]);
		close_pipe(fds[i]);
	}
}

TEST(a_source_may_remove_itself)
{
	auto_loop struct loop *loop = new_loop();
	struct loop_source source = {0};
	struct seen seen = {.other = &source};
	int fds[2];
	make_pipe(fds);
	CHECK_INT(write(fds[1], "x", 1), 1);
	CHECK_INT(loop_add(loop, &source, fds[0], EPOLLIN, on_io, &seen), 0);
	CHECK_INT(loop_step(loop, 0), 0);
	CHECK_INT(loop_step(loop, 0), 0);
	CHECK_INT(seen.count, 1);
	CHECK_INT(source.fd, -1);
	close_pipe(fds);
}

TEST(files_and_dev_null_are_always_ready)
{
	auto_loop struct loop *loop = new_loop();
	struct seen seen = {.loop = loop};
	struct loop_source sources[2] = {0};
	test_write_file("f", "abc", 3);
	auto_close int dir_fd = test_dir_fd();
	auto_close int file_fd = openat(dir_fd, "f", O_RDONLY | O_CLOEXEC);
	auto_close int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	CHECK_INT(loop_add(loop, &sources[0], file_fd, EPOLLIN, on_read, &seen), 0);
	CHECK_INT(loop_run(loop), 42);
	CHECK_INT(seen.count, 4);
	CHECK_INT(loop_add(loop, &sources[1], null_fd, EPOLLOUT, on_io, &seen), 0);
	CHECK_INT(loop_step(loop, -1), 0);
	CHECK_INT(seen.count, 5);
	CHECK_INT(seen.events, EPOLLOUT);
	CHECK_INT(loop_change(&sources[1], 0), 0);
	CHECK_INT(loop_step(loop, 0), 0);
	CHECK_INT(seen.count, 5);
	loop_remove(&sources[1]);
}

TEST(always_ready_sources_may_remove_each_other)
{
	auto_loop struct loop *loop = new_loop();
	struct loop_source sources[3] = {0};
	struct seen seen[3] = {{.other = &sources[0]}, {.other = &sources[0]}, {0}};
	int fds[3];
	for (int i = 0; i < 3; i++) {
		fds[i] = open("/dev/null", O_RDWR | O_CLOEXEC);
		CHECK_INT(loop_add(loop, &sources[i], fds[i], EPOLLIN, on_io, &seen[i]), 0);
	}
	CHECK_INT(loop_step(loop, 0), 0);
	CHECK_INT(seen[0].count, 1);
	CHECK_INT(seen[1].count, 1);
	CHECK_INT(seen[2].count, 1);
	CHECK_INT(loop_step(loop, 0), 0);
	CHECK_INT(seen[0].count, 1);
	CHECK_INT(seen[2].count, 2);
	for (int i = 0; i < 3; i++) {
		loop_remove(&sources[i]);
		(void)close(fds[i]);
	}
}

struct timed {
	struct loop_timer timer;
	struct seen *seen;
	int id;
};

static void on_timer(struct loop_timer *timer, void *ctx)
{
	struct timed *timed = ctx;
	timed->seen->order[timed->seen->count++ % 16] = timed->id;
}

static void on_timer_again(struct loop_timer *timer, void *ctx)
{
	struct timed *timed = ctx;
	timed->seen->count++;
	loop_timer_at(timed->seen->loop, timer, 0, on_timer_again, ctx);
}

TEST(timers_fire_in_order_of_their_time)
{
	auto_loop struct loop *loop = new_loop();
	struct seen seen = {0};
	static const uint64_t after_ms[] = {5, 1, 4, 2, 3, 0};
	struct timed timed[ARRAY_LEN(after_ms)] = {0};
	uint64_t start = io_boot_ms();
	for (size_t i = 0; i < ARRAY_LEN(after_ms); i++) {
		timed[i].seen = &seen;
		timed[i].id = (int)after_ms[i];
		loop_timer_at(loop, &timed[i].timer, start + after_ms[i], on_timer, &timed[i]);
	}
	while (seen.count < (int)ARRAY_LEN(after_ms))
		CHECK_INT(loop_step(loop, -1), 0);
	CHECK(io_boot_ms() >= start + 5);
	for (int i = 0; i < (int)ARRAY_LEN(after_ms); i++)
		CHECK_INT(seen.order[i], i);
	CHECK(loop_now_ms(loop) >= start);
}

TEST(stopped_timers_stay_silent)
{
	auto_loop struct loop *loop = new_loop();
	struct seen seen = {0};
	struct timed timed[3] = {
		{.seen = &seen, .id = 0}, {.seen = &seen, .id = 1}, {.seen = &seen, .id = 2}};
	loop_timer_stop(&timed[0].timer);
	for (int i = 0; i < 3; i++)
		loop_timer_in(loop, &timed[i].timer, 1, on_timer, &timed[i]);
	loop_timer_stop(&timed[1].timer);
	loop_timer_stop(&timed[1].timer);
	loop_timer_in(loop, &timed[0].timer, UINT64_MAX, on_timer, &timed[0]);
	while (seen.count < 1)
		CHECK_INT(loop_step(loop, -1), 0);
	CHECK_INT(loop_step(loop, 3), 0);
	CHECK_INT(seen.count, 1);
	CHECK_INT(seen.order[0], 2);
	loop_timer_stop(&timed[0].timer);
}

TEST(a_timer_for_now_does_not_starve_the_round)
{
	auto_loop struct loop *loop = new_loop();
	struct seen seen = {.loop = loop};
	struct timed timed = {.seen = &seen};
	loop_timer_at(loop, &timed.timer, 0, on_timer_again, &timed);
	for (int i = 1; i <= 3; i++) {
		CHECK_INT(loop_step(loop, -1), 0);
		CHECK_INT(seen.count, i);
	}
	loop_timer_stop(&timed.timer);
}

TEST(many_timers_keep_their_order)
{
	enum { COUNT = 500 };
	static struct timed timed[COUNT];
	auto_loop struct loop *loop = new_loop();
	struct seen seen = {0};
	uint32_t seed = 7;
	for (int i = 0; i < COUNT; i++) {
		seed = seed * 1664525u + 1013904223u;
		timed[i] = (struct timed){.seen = &seen, .id = (int)(seed >> 20)};
		loop_timer_at(loop, &timed[i].timer, seed >> 20, on_timer, &timed[i]);
	}
	for (int i = 0; i < COUNT; i += 3)
		loop_timer_stop(&timed[i].timer);
	int last = -1;
	for (int fired = 0; fired < COUNT - (COUNT + 2) / 3; fired++) {
		if (seen.count <= fired)
			CHECK_INT(loop_step(loop, 0), 0);
		CHECK(seen.count > fired);
	}
	/* all were due, so one round called them all, the last sixteen are remembered */
	for (int i = 0; i < 16; i++) {
		int id = seen.order[(seen.count + i) % 16];
		CHECK(id >= last);
		last = id;
	}
}

static void on_signal(int signal, void *ctx)
{
	struct seen *seen = ctx;
	seen->signal = signal;
	seen->count++;
}

TEST(signals_arrive_as_calls)
{
	auto_loop struct loop *loop = new_loop();
	struct seen seen = {0};
	static const int signals[] = {SIGUSR1, SIGTERM, 0};
	CHECK_INT(loop_signals(loop, signals, on_signal, &seen), 0);
	CHECK_INT(raise(SIGTERM), 0);
	CHECK_INT(loop_step(loop, -1), 0);
	CHECK_INT(seen.signal, SIGTERM);
	CHECK_INT(raise(SIGUSR1), 0);
	CHECK_INT(loop_step(loop, -1), 0);
	CHECK_INT(seen.signal, SIGUSR1);
	CHECK_INT(seen.count, 2);
	CHECK_DEATH((void)!loop_signals(loop, signals, on_signal, &seen), "impossible");
}

TEST(children_end_as_events)
{
	auto_loop struct loop *loop = new_loop();
	struct seen seen = {0};
	struct loop_source source = {0};
	pid_t pid = fork();
	CHECK(pid >= 0);
	if (pid == 0)
		_exit(0);
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);
	CHECK(fd >= 0);
	CHECK_INT(loop_add(loop, &source, fd, EPOLLIN, on_io, &seen), 0);
	while (seen.count == 0)
		CHECK_INT(loop_step(loop, -1), 0);
	loop_remove(&source);
	(void)close(fd);
	CHECK_INT(waitpid(pid, NULL, 0), pid);
}

TEST(misuse_aborts)
{
	auto_loop struct loop *loop = new_loop();
	struct seen seen = {0};
	struct loop_source source = {0};
	int fds[2];
	make_pipe(fds);
	CHECK_INT(loop_add(loop, &source, fds[0], EPOLLIN, on_io, &seen), 0);
	CHECK_DEATH((void)!loop_add(loop, &source, fds[0], EPOLLIN, on_io, &seen), "impossible");
	CHECK_DEATH(
		{
			(void)close(fds[0]);
			loop_remove(&source);
		},
		"EPOLL_CTL_DEL");
	struct loop_source stranger = {.magic = 7};
	CHECK_DEATH(loop_remove(&stranger), "impossible");
	loop_remove(&source);
	close_pipe(fds);
}

TEST(bad_descriptors_are_errors)
{
	auto_loop struct loop *loop = new_loop();
	struct seen seen = {0};
	struct loop_source source = {0};
	CHECK_INT(loop_add(loop, &source, -1, EPOLLIN, on_io, &seen), -EBADF);
	loop_remove(&source);
	loop_free(NULL);
}

#include "task/fetch.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/id.h"
#include "base/mem.h"
#include "base/must.h"
#include "task/job.h"

enum { THREADS = 4 };

/* While its thread runs, all of it but `next` is the thread's. */
struct fetch {
	struct fetch *next;
	struct tasks *tasks;
	struct id run;
	log_each each;
	fetch_on_done on_done;
	void *ctx;
	int over_fd;
	struct loop_source over;
	pthread_t thread;
	bool is_running;
	struct err err;
};

static void serve(struct tasks *tasks);

static void *run_thread(void *ctx)
{
	struct fetch *fetch = ctx;
	uint64_t one = 1;

	(void)!log_read(fetch->tasks->config.files_fd, fetch->run.text, NULL, fetch->each,
	                fetch->ctx, &fetch->err);        /* the loop looks at err */
	(void)!write(fetch->over_fd, &one, sizeof(one)); /* cannot fail: it was zero */
	return NULL;
}

/* Frees it. */
static void end(struct fetch *fetch)
{
	struct fetch **at = &fetch->tasks->fetches;

	while (*at != fetch)
		at = &(*at)->next;
	*at = fetch->next;
	loop_remove(&fetch->over);
	if (fetch->is_running)
		must(pthread_join(fetch->thread, NULL) == 0);
	fd_closep(&fetch->over_fd);
	fetch->on_done(&fetch->err, fetch->ctx);
	mem_freep(&fetch);
}

static void on_over(struct loop_source *source, uint32_t events, void *ctx)
{
	struct fetch *fetch = ctx;
	struct tasks *tasks = fetch->tasks;

	end(fetch);
	serve(tasks);
}

/* The thread must take no signal: they belong to the loop. */
static int start_thread(struct fetch *fetch)
{
	sigset_t all, old;
	int r;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	r = pthread_create(&fetch->thread, NULL, run_thread, fetch);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	fetch->is_running = r == 0;
	return -r;
}

static int begin(struct fetch *fetch)
{
	int r;

	fetch->over_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (fetch->over_fd < 0)
		return -errno;
	r = loop_add(fetch->tasks->config.loop, &fetch->over, fetch->over_fd, EPOLLIN, on_over,
	             fetch);
	return r < 0 ? r : start_thread(fetch);
}

/* Those that came first go first. */
static void serve(struct tasks *tasks)
{
	struct fetch *next;
	unsigned count = 0;

	for (struct fetch *at = tasks->fetches; at && count < THREADS; at = next) {
		int r = at->is_running ? 0 : begin(at);

		next = at->next;
		count++;
		if (r < 0) {
			(void)err_sys(&at->err, -r, "read the output of %s",
			              at->run.text); /* always -1 */
			end(at);
			count--;
		}
	}
}

void fetch_log(struct tasks *tasks, const char *run, log_each each, fetch_on_done on_done,
               void *ctx)
{
	struct fetch **at = &tasks->fetches;
	struct fetch *fetch = mem_new(struct fetch);

	*fetch = (struct fetch){
		.tasks = tasks, .each = each, .on_done = on_done, .ctx = ctx, .over_fd = -1};
	(void)snprintf(fetch->run.text, sizeof(fetch->run.text), "%s", run); /* it is an id */
	while (*at)
		at = &(*at)->next;
	*at = fetch;
	if (!tasks->is_shut)
		serve(tasks);
}

void fetch_shut(struct tasks *tasks)
{
	while (tasks->fetches) {
		struct fetch *fetch = tasks->fetches;

		if (!fetch->is_running)
			(void)err_set(&fetch->err, ERR_UNAVAILABLE,
			              "the daemon is ending"); /* always -1 */
		end(fetch);
	}
}

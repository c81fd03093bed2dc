/* What waits for a calm moment: how long, how many, in which order. */
#include "harness/test.h"

#include "base/base.h"
#include "base/io.h"
#include "daemon/calm.h"

struct seen {
	struct calm calm;
	char order[16];
	size_t count;
};

struct work {
	struct calm_job job;
	struct seen *seen;
	char name;
};

static void on_run(struct calm_job *job, void *ctx)
{
	struct work *work = ctx;

	CHECK(!job->is_waiting);
	work->seen->order[work->seen->count++] = work->name;
}

static void put(struct seen *seen, struct work *work, char name)
{
	work->seen = seen;
	work->name = name;
	calm_wait(&seen->calm, &work->job, on_run, work);
}

/* Until so many ran; how long that took. */
static uint64_t run(struct seen *seen, struct loop *loop, size_t count)
{
	uint64_t start = io_boot_ms();

	while (seen->count < count)
		(void)loop_step(loop, 5000);
	return io_boot_ms() - start;
}

TEST(nobody_asked_so_it_goes_at_once_but_from_the_loop)
{
	auto_loop struct loop *loop = NULL;
	struct work a = {0};
	struct seen seen = {0};

	CHECK_INT(loop_new(&loop), 0);
	calm_init(&seen.calm, loop, 4);
	CHECK(calm_is_reached(&seen.calm));
	put(&seen, &a, 'a');
	CHECK_INT(seen.count, 0);
	(void)run(&seen, loop, 1);
	CHECK_INT(seen.calm.count, 0);
	calm_done(&seen.calm);
}

TEST(who_asks_goes_first_and_the_order_stays)
{
	auto_loop struct loop *loop = NULL;
	struct work works[3] = {0};
	struct seen seen = {0};

	CHECK_INT(loop_new(&loop), 0);
	calm_init(&seen.calm, loop, 4);
	calm_disturb(&seen.calm);
	CHECK(!calm_is_reached(&seen.calm));
	for (size_t i = 0; i < ARRAY_LEN(works); i++)
		put(&seen, &works[i], (char)('a' + i));
	put(&seen, &works[0], 'a'); /* waits already */
	CHECK_INT(seen.calm.count, 3);
	CHECK(run(&seen, loop, 3) + 2 >= CALM_MS);
	CHECK_STR(seen.order, "abc");
	calm_done(&seen.calm);
}

/* How long one waits while somebody asks all the time; *ret_gap: the longest time nobody did. */
static uint64_t wait_disturbed(uint64_t *ret_gap)
{
	auto_loop struct loop *loop = NULL;
	struct work a = {0};
	struct seen seen = {0};
	uint64_t start = io_boot_ms();

	CHECK_INT(loop_new(&loop), 0);
	calm_init(&seen.calm, loop, 4);
	calm_disturb(&seen.calm);
	put(&seen, &a, 'a');
	*ret_gap = 0;
	for (uint64_t last = start; seen.count == 0; last = io_boot_ms()) {
		calm_disturb(&seen.calm);
		(void)loop_step(loop, 1);
		*ret_gap = MAX(*ret_gap, io_boot_ms() - last);
	}
	calm_done(&seen.calm);
	return io_boot_ms() - start;
}

TEST_WITHIN(nothing_waits_for_long_however_many_ask, 120)
{
	uint64_t gap = 0;
	uint64_t waited = wait_disturbed(&gap);

	while (gap + 2 >= CALM_MS) /* the machine held us up, and that was a calm moment */
		waited = wait_disturbed(&gap);
	CHECK(waited + 2 >= CALM_MOST_MS);
}

TEST(too_many_push_the_oldest)
{
	auto_loop struct loop *loop = NULL;
	struct work works[6] = {0};
	struct seen seen = {0};

	CHECK_INT(loop_new(&loop), 0);
	calm_init(&seen.calm, loop, 4);
	calm_disturb(&seen.calm);
	for (size_t i = 0; i < ARRAY_LEN(works); i++)
		put(&seen, &works[i], (char)('a' + i));
	while (seen.count < 2) {
		calm_disturb(&seen.calm);
		(void)loop_step(loop, 1);
	}
	calm_disturb(&seen.calm);
	(void)loop_step(loop, 0);
	CHECK_STR(seen.order, "ab");
	CHECK_INT(seen.calm.count, 4);
	CHECK(calm_forget(&seen.calm, &works[2].job));
	CHECK(!calm_forget(&seen.calm, &works[2].job));
	calm_flush(&seen.calm);
	CHECK_STR(seen.order, "abdef");
	calm_done(&seen.calm);
}

TEST(what_is_forgotten_never_runs)
{
	auto_loop struct loop *loop = NULL;
	struct work a = {0};
	struct seen seen = {0};

	CHECK_INT(loop_new(&loop), 0);
	calm_init(&seen.calm, loop, 4);
	put(&seen, &a, 'a');
	calm_done(&seen.calm);
	(void)loop_step(loop, 0);
	CHECK_INT(seen.count, 0);
	CHECK(!a.job.is_waiting);
}

/* What hangs or fails on the way is taken up again until it is over. */
#include "daemon/sweep.h"

#include "daemon/leftover.h"
#include "daemon/lifecycle.h"
#include "stage.h"

static size_t count_words(const char *word)
{
	size_t count = 0;
	const char *at = heard;

	while ((at = strstr(at, word))) {
		char end = at[strlen(word)];

		count += (at == heard || at[-1] == ' ') && (end == ' ' || !end);
		at++;
	}
	return count;
}

TEST(a_removal_the_broker_refuses_is_repeated_until_it_works)
{
	set_up();
	create("one");
	reaps_to_refuse = 3;
	engine->ops->remove(engine, answer_id, ENGINE_REMOVE_FORCE, on_done, NULL);
	UNTIL(answers == 2);
	CHECK_INT(answer_err.code, ERR_IO);
	CHECK_INT(stored_state("one"), SANDBOX_REMOVING);
	UNTIL(stored_state("one") == SANDBOX_NONE);
	CHECK_INT(count_words("reap"), 4);
	CHECK_INT(fleet->metrics.counters[METRICS_REAP_FAILURES], 3);
	UNTIL(!fleet->members);
	tear_down();
}

/* What a daemon that died asked for may still be done: whoever removes need not know. */
TEST(a_removal_waits_for_what_is_under_way)
{
	set_up();
	create("one");
	reaps_to_refuse = 3;
	reap_code = ERR_CONFLICT;
	engine->ops->remove(engine, answer_id, ENGINE_REMOVE_FORCE, on_done, NULL);
	UNTIL(answers == 2);
	CHECK_INT(answer_err.code, ERR_OK);
	CHECK_INT(stored_state("one"), SANDBOX_NONE);
	CHECK_INT(count_words("reap"), 4);
	UNTIL(!fleet->members);
	tear_down();
}

TEST(asking_again_does_not_wait_for_the_next_try)
{
	set_up();
	create("one");
	fleet->retry_ms = 3600 * 1000;
	reaps_to_refuse = 1;
	engine->ops->remove(engine, answer_id, ENGINE_REMOVE_FORCE, on_done, NULL);
	UNTIL(answers == 2);
	engine->ops->remove(engine, answer_id, ENGINE_REMOVE_FORCE, on_done, NULL);
	UNTIL(answers == 3);
	CHECK_INT(answer_err.code, ERR_OK);
	CHECK_INT(stored_state("one"), SANDBOX_NONE);
	tear_down();
}

TEST(what_a_failed_start_leaves_is_taken_down_later)
{
	set_up();
	(void)err_set(&launch_err, ERR_TIMEOUT, "the broker does not answer"); /* always -1 */
	reaps_to_refuse = 2;
	create("one");
	CHECK_INT(answer_err.code, ERR_TIMEOUT);
	CHECK_INT(stored_state("one"), SANDBOX_FAILED);
	UNTIL(leftover_count(fleet) == 0);
	CHECK_INT(count_words("reap"), 3);
	tear_down();
}

TEST(what_an_ended_sandbox_leaves_is_taken_down_later)
{
	set_up();
	create("one");
	reaps_to_refuse = 1000000;
	keeper_dies(keeper_of(answer_id));
	UNTIL(stored_state("one") == SANDBOX_FAILED && count_words("reap-keep") >= 3);
	CHECK_INT(leftover_count(fleet), 1);
	reaps_to_refuse = 0;
	UNTIL(leftover_count(fleet) == 0);
	tear_down();
}

TEST(leftovers_are_forgotten_when_it_starts_again)
{
	set_up();
	create("one");
	fleet->retry_ms = 500;
	reaps_to_refuse = 1;
	keeper_dies(keeper_of(answer_id));
	UNTIL(stored_state("one") == SANDBOX_FAILED);
	engine->ops->start(engine, answer_id, on_sandbox, NULL);
	CHECK_INT(leftover_count(fleet), 0);
	UNTIL(answers == 2);
	for (uint64_t end = io_boot_ms() + fleet->retry_ms; io_boot_ms() < end;)
		CHECK(loop_step(loop, 10) >= 0);
	CHECK_INT(count_words("reap-keep"), 1);
	CHECK_INT(stored_state("one"), SANDBOX_RUNNING);
	tear_down();
}

TEST(a_keeper_that_answers_nothing_is_taken_down_when_overdue)
{
	set_up();
	fleet->deadline_ms = 30;
	sweep_start(fleet);
	create("one");
	keeper_of(answer_id)->is_stuck = true;
	engine->ops->stop(engine, answer_id, 10, on_sandbox, NULL);
	UNTIL(sweep_stuck(fleet) == 1);
	CHECK(sweep_oldest_ms(fleet, SANDBOX_STOPPING) >= 30);
	UNTIL(answers == 2);
	CHECK_INT(answer_state, SANDBOX_STOPPED);
	auto_free char *reason = stored_reason("one");
	CHECK_STR(reason, "stopped");
	CHECK_INT(sweep_stuck(fleet), 0);
	CHECK(fleet->metrics.counters[METRICS_REPEATS] >= 1);
	tear_down();
}

TEST(a_repair_that_works_makes_nobody_wait_longer)
{
	set_up();
	create("one");
	sweep_start(fleet);
	for (int i = 0; i < 5; i++) {
		struct member *member = fleet_find(fleet, answer_id);

		member->has_unknown_execs = true;
		UNTIL(!member->has_unknown_execs);
		fleet_note_end(fleet, true);
		CHECK_INT(fleet->sweep_next_ms, fleet->sweep_ms);
	}
	tear_down();
}

TEST(repairs_in_vain_become_seldom)
{
	uint64_t last = 0;

	set_up();
	create("one");
	sweep_start(fleet);
	for (int i = 0; i < 4; i++) {
		struct member *member = fleet_find(fleet, answer_id);

		last = fleet->sweep_next_ms;
		member->has_unknown_execs = true;
		UNTIL(!member->has_unknown_execs);
		fleet_note_end(fleet, false);
	}
	CHECK(last > fleet->sweep_ms);
	UNTIL(fleet->sweep_next_ms > last);
	fleet_note_end(fleet, true);
	UNTIL(fleet->sweep_next_ms == fleet->sweep_ms);
	tear_down();
}

TEST(a_stop_reaches_a_keeper_that_was_away)
{
	set_up();
	create("one");
	struct member *member = fleet_find(fleet, answer_id);
	member_disconnect(member);
	lifecycle_keeper_gone(member);
	engine->ops->stop(engine, answer_id, 10, on_sandbox, NULL);
	UNTIL(answers == 2);
	CHECK_INT(answer_state, SANDBOX_STOPPED);
	CHECK(strstr(heard, "stop"));
	tear_down();
}

/* As a full disk leaves them: the row says that something is under way, nobody is at it. */
static void put_row(enum sandbox_state state, const char *name, char *id, size_t size)
{
	struct spec spec;
	struct sandbox *row;
	struct store_write *write = store_write_new(store);

	spec_init(&spec);
	spec_set(&spec.name, name);
	row = sandbox_new(&spec, io_real_ms());
	row->state = state;
	row->started_ms = io_real_ms();
	CHECK(str_copy(id, size, row->id.text));
	store_put_sandbox(write, row);
	CHECK_INT(store_write_wait(write, NULL, &(struct err){0}), 0);
	sandbox_free(row);
	spec_done(&spec);
}

TEST(rows_nobody_is_at_are_finished_or_undone)
{
	char id[33];

	set_up();
	put_row(SANDBOX_CREATING, "creating", id, sizeof(id));
	put_row(SANDBOX_STOPPING, "stopping", id, sizeof(id));
	put_row(SANDBOX_REMOVING, "removing", id, sizeof(id));
	put_row(SANDBOX_RUNNING, "running", id, sizeof(id));
	sweep_start(fleet);
	UNTIL(stored_state("creating") == SANDBOX_FAILED);
	UNTIL(stored_state("stopping") == SANDBOX_FAILED);
	UNTIL(stored_state("removing") == SANDBOX_NONE);
	/* Nothing says that this one is not true. */
	CHECK_INT(stored_state("running"), SANDBOX_RUNNING);
	fleet->has_unknown_ends = true;
	UNTIL(stored_state("running") == SANDBOX_FAILED);
	auto_free char *reason = stored_reason("running");
	CHECK_STR(reason, "lost");
	UNTIL(!fleet->members);
	CHECK_INT(sweep_stuck(fleet), 0);
	tear_down();
}

TEST(a_broker_that_hangs_is_seen_as_stuck_and_goes_on_when_it_answers)
{
	set_up();
	fleet->deadline_ms = 20;
	sweep_start(fleet);
	hold_launch = true;
	create("one");
	UNTIL(held_launch);
	UNTIL(sweep_stuck(fleet) == 1);
	keeper_appears(fleet->members->row->id.text);
	send_simple(stage_broker_fd, WIRE_OK, held_launch, NULL);
	UNTIL(answers == 1);
	CHECK_INT(stored_state("one"), SANDBOX_RUNNING);
	CHECK_INT(sweep_stuck(fleet), 0);
	CHECK(fleet->metrics.states[SANDBOX_CREATING].sum_us >= 20 * 1000);
	tear_down();
}

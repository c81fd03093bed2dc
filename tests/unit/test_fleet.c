/* Sandboxes and their execs through the verbs of the engine. */
#include "stage.h"

/* --- sandboxes --- */

TEST(a_sandbox_is_created_stopped_started_and_removed)
{
	set_up();
	create("one");
	CHECK_INT(answer_err.code, ERR_OK);
	CHECK_INT(stored_state("one"), SANDBOX_RUNNING);
	CHECK_STR(heard, "launch");

	engine->ops->stop(engine, answer_id, 100, on_sandbox, NULL);
	UNTIL(answers == 2);
	CHECK_INT(answer_state, SANDBOX_STOPPED);
	CHECK_INT(stored_state("one"), SANDBOX_STOPPED);
	CHECK_STR(heard, "launch stop reap-keep");
	CHECK(!fleet->members);

	engine->ops->start(engine, answer_id, on_sandbox, NULL);
	UNTIL(answers == 3);
	CHECK_INT(stored_state("one"), SANDBOX_RUNNING);

	engine->ops->remove(engine, answer_id, false, on_done, NULL);
	UNTIL(answers == 4);
	CHECK_INT(answer_err.code, ERR_CONFLICT);
	engine->ops->remove(engine, answer_id, true, on_done, NULL);
	UNTIL(answers == 5);
	CHECK_INT(answer_err.code, ERR_OK);
	CHECK_INT(stored_state("one"), SANDBOX_NONE);
	CHECK_STR(heard, "launch stop reap-keep launch reap");
	CHECK_STR(event_words(),
	          "sandbox.created sandbox.running sandbox.stopping sandbox.stopped "
	          "sandbox.created sandbox.running sandbox.removing sandbox.removed");
	CHECK(!fleet->members);
	tear_down();
}

TEST(a_refused_launch_is_undone_and_says_why)
{
	set_up();
	(void)err_set(&launch_err, ERR_MISSING, "no memory cgroup here");
	create("one");
	CHECK_INT(answer_err.code, ERR_MISSING);
	CHECK_STR(answer_err.msg, "no memory cgroup here");
	CHECK_STR(heard, "launch reap");
	CHECK_INT(stored_state("one"), SANDBOX_NONE);
	CHECK_STR(event_words(), "sandbox.created sandbox.failed sandbox.removed");
	launch_err = (struct err){0};
	create("one");
	CHECK_INT(answer_err.code, ERR_OK);
	tear_down();
}

TEST(removal_during_the_launch_waits_for_it)
{
	set_up();
	hold_launch = true;
	create("one");
	UNTIL(held_launch);
	auto_free char *id = mem_strdup(fleet->members->row->id.text);
	engine->ops->remove(engine, id, true, on_done, NULL);
	UNTIL(stored_state(id) == SANDBOX_REMOVING);
	CHECK_STR(heard, "launch");
	keeper_appears(id);
	send_simple(stage_broker_fd, WIRE_OK, held_launch, NULL);
	UNTIL(answers == 2);
	CHECK_STR(heard, "launch reap");
	CHECK_INT(stored_state(id), SANDBOX_NONE);
	tear_down();
}

TEST(a_keeper_that_ends_by_its_deadline_stops_the_sandbox)
{
	set_up();
	create("one");
	keeper_says_gone(keeper_of(answer_id), "ttl");
	UNTIL(stored_state("one") == SANDBOX_STOPPED);
	auto_free char *reason = stored_reason("one");
	CHECK_STR(reason, "ttl");
	CHECK_STR(heard, "launch reap-keep");
	tear_down();
}

TEST(a_keeper_that_vanishes_is_lost)
{
	set_up();
	create("one");
	keeper_dies(keeper_of(answer_id));
	UNTIL(stored_state("one") == SANDBOX_FAILED);
	auto_free char *reason = stored_reason("one");
	CHECK_STR(reason, "lost");
	CHECK_STR(heard, "launch reap-keep");
	tear_down();
}

TEST(a_dropped_connection_is_made_again)
{
	set_up();
	create("one");
	struct stage_keeper *keeper = keeper_of(answer_id);
	loop_remove(&keeper->source);
	fd_closep(&keeper->fd);
	UNTIL(strstr(heard, "execs"));
	CHECK_INT(stored_state("one"), SANDBOX_RUNNING);
	CHECK_STR(heard, "launch execs");
	tear_down();
}

TEST(changes_are_stored_and_a_taken_name_is_refused)
{
	struct strings labels = {0};
	struct sandbox_change change = {
		.name = "renamed", .labels = &labels, .has_ttl = true, .ttl_ms = 60000};

	set_up();
	create("one");
	create("two");
	strings_set(&labels, "a", "b");
	engine->ops->change(engine, answer_id, &change, on_sandbox, NULL);
	UNTIL(answers == 3);
	CHECK_INT(answer_err.code, ERR_OK);
	CHECK_INT(stored_state("renamed"), SANDBOX_RUNNING);
	UNTIL(strstr(heard, "deadline"));
	change.name = "one";
	engine->ops->change(engine, answer_id, &change, on_sandbox, NULL);
	UNTIL(answers == 4);
	CHECK_INT(answer_err.code, ERR_CONFLICT);
	CHECK_INT(stored_state("renamed"), SANDBOX_RUNNING);
	strings_done(&labels);
	tear_down();
}

/* --- execs --- */

TEST(an_exec_is_recorded_from_start_to_end)
{
	struct exec_watch watch = {.ops = &watch_ops, .is_holder = true};

	set_up();
	create("one");
	auto_(exec_freep) struct exec *exec = new_exec();
	auto_(exec_freep) struct exec *row = NULL;
	struct exec_start start = {.exec = exec, .is_attached = true, .watch = &watch};
	engine->ops->exec(engine, &start, on_exec, NULL);
	UNTIL(answers == 2);
	CHECK_INT(answer_err.code, ERR_OK);
	keeper_tells(keeper_of(answer_id), WIRE_K_OUTPUT, exec->id.text);
	UNTIL(outputs == 1);
	engine->ops->ack(engine, &watch, 1000);
	engine->ops->ack(engine, &watch, 200000);
	keeper_tells(keeper_of(answer_id), WIRE_K_EXIT, exec->id.text);
	UNTIL(overs == 1);
	CHECK_INT(over_code, 3);
	CHECK_STR(heard, "launch exec ack");
	CHECK_INT(store_exec_get(store, exec->id.text, &row, &(struct err){0}), 0);
	CHECK_INT(row->exit_code, 3);
	CHECK(row->ended_ms);
	CHECK_STR(event_words(), "sandbox.created sandbox.running exec.started exec.exited");
	tear_down();
}

TEST(an_internal_exec_leaves_no_trace)
{
	struct exec_watch watch = {.ops = &watch_ops, .is_holder = true};

	set_up();
	create("one");
	auto_(exec_freep) struct exec *exec = new_exec();
	struct exec_start start = {
		.exec = exec, .is_attached = true, .is_internal = true, .watch = &watch};
	engine->ops->exec(engine, &start, on_exec, NULL);
	UNTIL(answers == 2);
	keeper_tells(keeper_of(answer_id), WIRE_K_EXIT, exec->id.text);
	UNTIL(overs == 1);
	/* Its reader may still have most of it to read. */
	CHECK(!strstr(heard, "forget"));
	engine->ops->release(engine, answer_id, exec->id.text);
	UNTIL(strstr(heard, "forget"));
	CHECK_STR(event_words(), "sandbox.created sandbox.running");
	tear_down();
}

TEST(an_internal_exec_that_nobody_reads_is_forgotten_at_once)
{
	struct exec_watch watch = {.ops = &watch_ops, .is_holder = true};

	set_up();
	create("one");
	auto_(exec_freep) struct exec *exec = new_exec();
	struct exec_start start = {
		.exec = exec, .is_attached = true, .is_internal = true, .watch = &watch};
	engine->ops->exec(engine, &start, on_exec, NULL);
	UNTIL(answers == 2);
	engine->ops->unwatch(engine, &watch);
	keeper_tells(keeper_of(answer_id), WIRE_K_EXIT, exec->id.text);
	UNTIL(strstr(heard, "forget"));
	CHECK_INT(overs, 0);
	tear_down();
}

TEST(input_is_sent_as_far_as_there_is_room)
{
	struct exec_watch watch = {.ops = &watch_ops}, rival = {.ops = &watch_ops};
	auto_free char *block = mem_zalloc(LIMIT_STDIN_WINDOW_BYTES + 100);
	struct err err = {0};

	set_up();
	create("one");
	auto_(exec_freep) struct exec *exec = new_exec();
	struct exec_start start = {.exec = exec, .has_stdin = true};
	engine->ops->exec(engine, &start, on_exec, NULL);
	UNTIL(answers == 2);
	watch.is_writer = rival.is_writer = true;
	CHECK_INT(engine->ops->watch(engine, answer_id, exec->id.text, &watch, &err), 0);
	CHECK(engine->ops->watch(engine, answer_id, exec->id.text, &rival, &err) < 0);
	CHECK_INT(err.code, ERR_CONFLICT);
	CHECK_INT(engine->ops->input(engine, &watch, block, LIMIT_STDIN_WINDOW_BYTES + 100, true),
	          LIMIT_STDIN_WINDOW_BYTES);
	auto_wire_out struct wire_out out = {0};
	wire_begin(&out, WIRE_K_STDIN_ROOM, 0);
	wire_put_str(&out, FIELD_EXEC, exec->id.text);
	wire_put_u64(&out, FIELD_BYTES_COUNT, 50);
	CHECK_INT(wire_send(keeper_of(answer_id)->fd, &out), 0);
	UNTIL(rooms == 1);
	CHECK_INT(engine->ops->input(engine, &watch, block, 100, true), 50);
	CHECK_INT(engine->ops->input(engine, &watch, block, 0, true), 0);
	CHECK(engine->ops->input(engine, &watch, block, 1, false) < 0);
	engine->ops->unwatch(engine, &watch);
	CHECK_INT(engine->ops->watch(engine, answer_id, exec->id.text, &rival, &err), 0);
	engine->ops->unwatch(engine, &rival);
	tear_down();
}

TEST(execs_end_with_their_sandbox)
{
	struct exec_watch watch = {.ops = &watch_ops};

	set_up();
	create("one");
	auto_(exec_freep) struct exec *exec = new_exec();
	struct exec_start start = {.exec = exec, .watch = &watch};
	engine->ops->exec(engine, &start, on_exec, NULL);
	UNTIL(answers == 2);
	keeper_dies(keeper_of(answer_id));
	UNTIL(stored_state("one") == SANDBOX_FAILED && overs == 1);
	CHECK_STR(exec_reason(exec->id.text), "lost");
	start.watch = NULL;
	engine->ops->exec(engine, &start, on_exec, NULL);
	UNTIL(answers == 3);
	CHECK_INT(answer_err.code, ERR_CONFLICT);
	tear_down();
}

/* What a daemon finds at its start, and what it makes of it. */
#include <fcntl.h>
#include <sys/stat.h>

#include "daemon/reconcile.h"
#include "stage.h"

static int ready;

static void on_ready(const struct err *err, void *ctx)
{
	ready++;
	CHECK_INT(err->code, ERR_OK);
}

static struct sandbox *put_row(const char *name, enum sandbox_state state)
{
	struct spec spec;
	struct sandbox *row;
	struct store_write *write = store_write_new(store);

	spec_init(&spec);
	spec_set(&spec.name, name);
	row = sandbox_new(&spec, io_real_ms());
	row->state = state;
	row->started_ms = state == SANDBOX_CREATING ? 0 : io_real_ms();
	spec_done(&spec);
	store_put_sandbox(write, row);
	CHECK_INT(store_write_wait(write, NULL, &(struct err){0}), 0);
	return row;
}

TEST(half_finished_things_are_undone_or_finished)
{
	set_up();
	auto_(sandbox_freep) struct sandbox *creating = put_row("creating", SANDBOX_CREATING);
	auto_(sandbox_freep) struct sandbox *removing = put_row("removing", SANDBOX_REMOVING);
	auto_(sandbox_freep) struct sandbox *lost = put_row("lost", SANDBOX_RUNNING);
	auto_(sandbox_freep) struct sandbox *stopped = put_row("stopped", SANDBOX_STOPPED);
	strings_add(&alive, "sb_00000000000000000000 1");
	strings_take(&alive, mem_printf("%s 0", stopped->id.text));
	reconcile_run(fleet, on_ready, NULL);
	UNTIL(ready && !fleet->members);
	CHECK_INT(stored_state("creating"), SANDBOX_FAILED);
	CHECK_INT(stored_state("removing"), SANDBOX_NONE);
	CHECK_INT(stored_state("lost"), SANDBOX_FAILED);
	CHECK_INT(stored_state("stopped"), SANDBOX_STOPPED);
	auto_free char *reason = stored_reason("lost");
	CHECK_STR(reason, "lost");
	UNTIL(strlen(heard) >= strlen("reap reap reap reap-keep"));
	tear_down();
}

TEST(the_keepers_last_words_are_believed)
{
	set_up();
	auto_(sandbox_freep) struct sandbox *row = put_row("one", SANDBOX_RUNNING);
	auto_free char *dir = mem_printf("%s/out", row->id.text);
	auto_free char *path = mem_printf("%s/out/exit", row->id.text);
	auto_free char *text = mem_printf("reason=ttl\nended_ms=%llu\ncpu_us=77\n",
	                                  (unsigned long long)io_real_ms());
	CHECK_INT(mkdirat(stage_sandboxes_fd, row->id.text, 0700), 0);
	CHECK_INT(mkdirat(stage_sandboxes_fd, dir, 0700), 0);
	auto_close int fd = openat(stage_sandboxes_fd, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	CHECK_INT(io_write_all(fd, text, strlen(text)), 0);
	reconcile_run(fleet, on_ready, NULL);
	UNTIL(stored_state("one") == SANDBOX_STOPPED);
	auto_(sandbox_freep) struct sandbox *after = NULL;
	CHECK_INT(store_sandbox_get(store, "one", &after, &(struct err){0}), 0);
	CHECK_STR(after->end_reason, "ttl");
	CHECK_INT(after->meters.cpu_us, 77);
	tear_down();
}

TEST(what_lives_is_adopted_with_its_execs)
{
	struct exec_watch watch = {.ops = &watch_ops};
	struct err err = {0};

	set_up();
	create("one");
	auto_(exec_freep) struct exec *known = new_exec();
	auto_(exec_freep) struct exec *vanished = new_exec();
	struct exec_start start = {.exec = known};
	engine->ops->exec(engine, &start, on_exec, NULL);
	UNTIL(answers == 2);
	start.exec = vanished;
	engine->ops->exec(engine, &start, on_exec, NULL);
	UNTIL(answers == 3);
	struct id unknown = id_new("ex");
	exec_infos[0] = known->id.text;
	exec_infos[1] = unknown.text;

	restart_daemon();
	reconcile_run(fleet, on_ready, NULL);
	UNTIL(ready);
	CHECK_INT(stored_state("one"), SANDBOX_RUNNING);
	CHECK_INT(engine->ops->watch(engine, answer_id, known->id.text, &watch, &err), 0);
	UNTIL(exec_reason(unknown.text));
	UNTIL(*exec_reason(vanished->id.text));
	CHECK_STR(exec_reason(vanished->id.text), "lost");
	keeper_tells(keeper_of(answer_id), WIRE_K_EXIT, known->id.text);
	UNTIL(overs == 1);
	CHECK_INT(over_code, 3);
	tear_down();
}

TEST(a_stop_that_was_under_way_is_repeated)
{
	set_up();
	create("one");
	keeper_of(answer_id)->is_mute = true;
	engine->ops->stop(engine, answer_id, 60000, on_sandbox, NULL);
	UNTIL(strstr(heard, "stop"));
	restart_daemon();
	CHECK_INT(stored_state("one"), SANDBOX_STOPPING);
	keeper_of(answer_id)->is_mute = false;
	reconcile_run(fleet, on_ready, NULL);
	UNTIL(stored_state("one") == SANDBOX_STOPPED);
	CHECK_STR(heard, "execs stop reap-keep");
	tear_down();
}

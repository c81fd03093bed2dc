/* States and what follows them; sandboxes and execs as values. */
#include "harness/test.h"

#include "base/mem.h"
#include "model/event.h"
#include "model/exec.h"
#include "model/sandbox.h"

#define NONE SANDBOX_NONE

/* Written out a second time on purpose: the table is the product's promise, this is its proof. */
static const struct {
	enum sandbox_state state;
	int next[SANDBOX_EVENT_COUNT_];
} wanted[] = {
	/*                     started, start_failed, stop, ended, lost, start, remove, force */
	{SANDBOX_CREATING,
         {SANDBOX_RUNNING, SANDBOX_FAILED, NONE, SANDBOX_FAILED, SANDBOX_FAILED, NONE, NONE,
          SANDBOX_REMOVING}},
	{SANDBOX_RUNNING,
         {NONE, NONE, SANDBOX_STOPPING, SANDBOX_STOPPED, SANDBOX_FAILED, NONE, NONE,
          SANDBOX_REMOVING}},
	{SANDBOX_STOPPING,
         {NONE, NONE, SANDBOX_STOPPING, SANDBOX_STOPPED, SANDBOX_FAILED, NONE, NONE,
          SANDBOX_REMOVING}},
	{SANDBOX_STOPPED,
         {NONE, NONE, NONE, NONE, NONE, SANDBOX_CREATING, SANDBOX_REMOVING, SANDBOX_REMOVING}},
	{SANDBOX_FAILED,
         {NONE, NONE, NONE, NONE, NONE, SANDBOX_CREATING, SANDBOX_REMOVING, SANDBOX_REMOVING}},
	{SANDBOX_REMOVING,
         {SANDBOX_REMOVING, SANDBOX_REMOVING, NONE, SANDBOX_REMOVING, SANDBOX_REMOVING, NONE,
          SANDBOX_REMOVING, SANDBOX_REMOVING}},
};

TEST(every_cell_is_as_promised)
{
	CHECK_INT(ARRAY_LEN(wanted), SANDBOX_STATE_COUNT_);
	for (size_t i = 0; i < ARRAY_LEN(wanted); i++) {
		for (int event = 0; event < SANDBOX_EVENT_COUNT_; event++) {
			enum sandbox_state next = SANDBOX_NONE;
			struct err err = {0};
			int r = sandbox_apply(wanted[i].state, (enum sandbox_event)event, &next,
			                      &err);

			CHECK_INT(next, wanted[i].next[event]);
			CHECK_INT(r, wanted[i].next[event] == NONE ? -1 : 0);
			if (r == 0)
				continue;
			CHECK_INT(err.code, ERR_CONFLICT);
			CHECK_HAS(err.msg, sandbox_state_name(wanted[i].state));
			CHECK_HAS(err.msg, sandbox_event_name((enum sandbox_event)event));
		}
	}
}

TEST(refusal_names_state_and_event)
{
	enum sandbox_state next;
	struct err err = {0};

	CHECK_INT(sandbox_apply(SANDBOX_CREATING, SANDBOX_EVENT_STOP, &next, &err), -1);
	CHECK_STR(err.msg, "sandbox is creating: stop is not possible now");
	CHECK_INT(sandbox_apply(SANDBOX_RUNNING, SANDBOX_EVENT_REMOVE, &next, NULL), -1);
}

/* No state without a way out: from each one removal can be reached. */
TEST(every_state_can_end)
{
	for (int state = 0; state < SANDBOX_STATE_COUNT_; state++) {
		enum sandbox_state next;

		CHECK_INT(sandbox_apply((enum sandbox_state)state, SANDBOX_EVENT_REMOVE_FORCE,
		                        &next, NULL),
		          0);
		CHECK_INT(next, SANDBOX_REMOVING);
	}
}

TEST(names_go_both_ways)
{
	for (int state = 0; state < SANDBOX_STATE_COUNT_; state++)
		CHECK_INT(sandbox_state_from(sandbox_state_name((enum sandbox_state)state)), state);
	CHECK_INT(sandbox_state_from("asleep"), SANDBOX_NONE);
	for (int kind = 0; kind < EVENT_COUNT_; kind++)
		CHECK_INT(event_from(event_name((enum event_kind)kind)), kind);
	CHECK_INT(event_from("sandbox.exploded"), EVENT_NONE);
	CHECK_DEATH((void)sandbox_state_name(SANDBOX_NONE), "sandbox.c");
}

TEST(alive_is_what_may_have_processes)
{
	CHECK(sandbox_is_alive(SANDBOX_CREATING));
	CHECK(sandbox_is_alive(SANDBOX_RUNNING));
	CHECK(sandbox_is_alive(SANDBOX_STOPPING));
	CHECK(!sandbox_is_alive(SANDBOX_STOPPED));
	CHECK(!sandbox_is_alive(SANDBOX_FAILED));
	CHECK(!sandbox_is_alive(SANDBOX_REMOVING));
}

TEST(new_sandbox_has_the_spec_and_a_deadline)
{
	auto_(sandbox_freep) struct sandbox *sandbox = NULL;
	auto_(sandbox_freep) struct sandbox *copy = NULL;
	struct spec spec;

	spec_init(&spec);
	spec_set(&spec.name, "web");
	strings_add(&spec.env, "A=1");
	spec_add_mount(&spec, "/src", "gr_01jd3q8k2v9m4x7c5t0z", "/workspace", true);
	spec.ttl_ms = 5000;
	sandbox = sandbox_new(&spec, 100);
	spec_done(&spec);
	CHECK(id_is_valid(sandbox->id.text, "sb"));
	CHECK_INT(sandbox->state, SANDBOX_CREATING);
	CHECK_INT(sandbox->expires_ms, 5100);
	sandbox->detail = mem_strdup("fine");
	strings_add(&sandbox->mechanisms, "cgroup=v1");
	copy = sandbox_copy(sandbox);
	sandbox_freep(&sandbox);
	CHECK_STR(copy->spec.name, "web");
	CHECK_STR(copy->spec.env.items[0], "A=1");
	CHECK_STR(copy->spec.mounts[0].target, "/workspace");
	CHECK_STR(copy->detail, "fine");
	CHECK_STR(strings_value(&copy->mechanisms, "cgroup"), "v1");
}

TEST(meters_are_set_by_name)
{
	struct meters meters = {0};

	meters_set(&meters, "oom_kills", 3);
	meters_set(&meters, "not_a_meter", 9);
	CHECK_INT(meters.oom_kills, 3);
	for (const struct meter *meter = meters_table; meter->name != NULL; meter++)
		CHECK_INT(meters_get(&meters, meter), strcmp(meter->name, "oom_kills") ? 0 : 3);
}

TEST(exec_status_is_what_a_shell_reports)
{
	struct exec exec = {.exit_code = 7, .reason = (char *)"exited"};

	CHECK_INT(exec_status(&exec), 7);
	exec.signal = 9;
	exec.reason = (char *)"oom";
	CHECK_INT(exec_status(&exec), 137);
	exec.reason = (char *)"timeout";
	CHECK_INT(exec_status(&exec), 124);
}

TEST(strings_keep_order_and_keys)
{
	struct strings list = {0};
	struct strings copy = {0};

	CHECK(strings_value(&list, "A") == NULL);
	strings_set(&list, "A", "1");
	strings_set(&list, "AB", "2");
	strings_set(&list, "A", "3");
	strings_add(&list, "no entry");
	CHECK_INT(list.count, 3);
	CHECK_STR(strings_value(&list, "A"), "3");
	CHECK_STR(strings_value(&list, "AB"), "2");
	CHECK(list.items[3] == NULL);
	strings_copy(&copy, &list);
	CHECK(strings_equal(&copy, &list));
	CHECK(strings_unset(&list, "A"));
	CHECK(!strings_unset(&list, "A"));
	CHECK(list.items[2] == NULL);
	CHECK(strings_has(&list, "no entry"));
	CHECK(!strings_equal(&copy, &list));
	for (int i = 0; i < 100; i++)
		strings_add(&list, "x");
	CHECK_INT(list.count, 102);
	CHECK(list.items[102] == NULL);
	strings_done(&list);
	strings_done(&copy);
}

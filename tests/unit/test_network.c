/* The daemon's part of network policies: handed over before running, changed while it runs, kept
 * over a restart; decisions, questions, variables. */
#include "stage.h"

#include <sodium.h>

#include "daemon/network.h"
#include "daemon/reconcile.h"

static void begin(void)
{
	CHECK(sodium_init() >= 0);
	policy_err = (struct err){0};
	set_up();
}

/* With an environment and what it is to allow besides. */
static void create_with(const char *network, const char *allow, const char *mode)
{
	int before = answers;
	struct spec spec;

	spec_init(&spec);
	spec_set(&spec.network, network);
	spec_set(&spec.network_mode, mode);
	if (allow)
		strings_add(&spec.allow, allow);
	engine->ops->create(engine, &spec, on_sandbox, NULL);
	spec_done(&spec);
	UNTIL(answers == before + 1);
}

static void set_allow(const char *domain)
{
	struct strings allow = {0};
	struct network_change change = {.allow = &allow};
	int before = answers;

	if (domain)
		strings_add(&allow, domain);
	engine->ops->set_network(engine, answer_id, &change, on_sandbox, NULL);
	strings_done(&allow);
	UNTIL(answers == before + 1);
}

static struct sandbox *stored(const char *id)
{
	struct sandbox *row = NULL;
	struct err err = {0};

	if (store_sandbox_get(store, id, &row, &err) < 0)
		test_fail(__FILE__, __LINE__, "%s", err.msg);
	return row;
}

static void put_environment(const char *name, const char *domain, const char *variable)
{
	auto_(environment_freep) struct environment *environment = environment_new(name);
	struct environment_change change = {.environment = environment, .is_new = true};
	struct strings variables = {0};
	int before = answers;

	environment->id = id_new("en");
	environment->level = ENVIRONMENT_CUSTOM;
	if (domain)
		strings_add(&environment->domains, domain);
	if (variable)
		strings_add(&variables, variable);
	change.variables = &variables;
	engine->ops->environment_put(engine, &change, on_done, NULL);
	strings_done(&variables);
	UNTIL(answers == before + 1);
	CHECK_INT(answer_err.code, ERR_OK);
}

TEST(without_a_network_nobody_is_told_anything)
{
	begin();
	create("one");
	CHECK_STR(heard, "launch");
	auto_(sandbox_freep) struct sandbox *row = stored(answer_id);
	CHECK(row->network.policy == NULL);
	CHECK_INT(row->network.generation, 0);
	tear_down();
}

TEST(a_policy_is_in_force_before_running)
{
	begin();
	create_with("none", "example.org", NULL);
	CHECK_INT(answer_state, SANDBOX_RUNNING);
	CHECK_STR(heard, "launch egress policy");
	auto_(sandbox_freep) struct sandbox *row = stored(answer_id);
	CHECK_INT(row->network.generation, 1);
	CHECK_STR(row->network.level, "custom");
	CHECK_STR(row->network.fingerprint, keeper_of(answer_id)->fingerprint);
	CHECK_INT(keeper_of(answer_id)->generation, 1);
	tear_down();
}

TEST(a_policy_that_is_refused_undoes_the_start)
{
	begin();
	(void)err_set(&policy_err, ERR_MISSING, "the probe from inside got through");
	create_with("trusted", NULL, NULL);
	CHECK_INT(answer_err.code, ERR_MISSING);
	CHECK_HAS(answer_err.msg, "the probe from inside");
	CHECK_STR(heard, "launch egress policy reap");
	CHECK_STR(event_words(), "sandbox.created sandbox.failed sandbox.removed");
	tear_down();
}

TEST(an_environment_that_is_not_there_makes_nothing)
{
	begin();
	create_with("trustd", NULL, NULL);
	CHECK_INT(answer_err.code, ERR_NOT_FOUND);
	CHECK_HAS(answer_err.msg, "did you mean 'trusted'?");
	CHECK_STR(heard, "");
	CHECK_STR(event_words(), "");
	tear_down();
}

TEST(a_change_is_confirmed_and_told)
{
	begin();
	create("one");
	set_allow("example.org");
	CHECK_INT(answer_err.code, ERR_OK);
	CHECK_STR(heard, "launch egress policy");
	CHECK_INT(keeper_of(answer_id)->generation, 1);
	set_allow(NULL);
	CHECK_INT(answer_err.code, ERR_OK);
	CHECK_INT(keeper_of(answer_id)->generation, 2);
	auto_(sandbox_freep) struct sandbox *row = stored(answer_id);
	CHECK_INT(row->network.generation, 2);
	CHECK_STR(row->network.level, "none");
	CHECK_INT(row->spec.allow.count, 0);
	CHECK_STR(event_words(), "sandbox.created sandbox.running sandbox.policy sandbox.policy");
	tear_down();
}

TEST(a_bad_change_leaves_the_old_one)
{
	begin();
	create_with("none", "example.org", NULL);
	set_allow("bad");
	CHECK_INT(answer_err.code, ERR_INVALID);
	(void)err_set(&policy_err, ERR_PROTOCOL, "no");
	set_allow("other.org");
	CHECK_INT(answer_err.code, ERR_PROTOCOL);
	CHECK_HAS(answer_err.msg, "the old one stays");
	CHECK_STR(heard, "launch egress policy egress policy egress");
	auto_(sandbox_freep) struct sandbox *row = stored(answer_id);
	CHECK_INT(row->network.generation, 1);
	CHECK_STR(row->spec.allow.items[0], "example.org");
	CHECK_STR(row->network.fingerprint, keeper_of(answer_id)->fingerprint);
	policy_err = (struct err){0};
	set_allow("other.org");
	CHECK_INT(answer_err.code, ERR_OK);
	CHECK_INT(keeper_of(answer_id)->generation, 2);
	tear_down();
}

TEST(private_ranges_are_told_to_who_dials)
{
	struct strings cidrs = {0};
	struct network_change change = {.allow_cidrs = &cidrs};

	begin();
	create("one");
	strings_add(&cidrs, "10.1.0.0/16:5432");
	engine->ops->set_network(engine, answer_id, &change, on_sandbox, NULL);
	UNTIL(answers == 2);
	CHECK_STR(heard, "launch 10.1.0.0/16 policy");
	strings_done(&cidrs);
	tear_down();
}

static void on_ready(const struct err *err, void *ctx)
{
	*(bool *)ctx = true;
}

TEST(what_was_stored_and_not_confirmed_is_handed_over_again)
{
	struct strings allow = {0};
	struct network_change change = {.allow = &allow};
	bool ready = false;
	char id[33];

	begin();
	create_with("none", "example.org", NULL);
	CHECK(str_copy(id, sizeof(id), answer_id));
	keeper_of(id)->is_stuck = true;
	strings_add(&allow, "other.org");
	engine->ops->set_network(engine, id, &change, on_sandbox, NULL);
	strings_done(&allow);
	UNTIL(strstr(heard, "policy egress policy"));
	CHECK_INT(keeper_of(id)->generation, 1);
	restart_daemon();
	keeper_of(id)->is_stuck = false;
	reconcile_run(fleet, on_ready, &ready);
	UNTIL(ready && keeper_of(id)->generation == 2);
	auto_(sandbox_freep) struct sandbox *row = stored(id);
	CHECK_STR(row->network.fingerprint, keeper_of(id)->fingerprint);
	CHECK_STR(row->spec.allow.items[0], "other.org");
	tear_down();
}

/* --- decisions --- */

static void decide(struct stage_keeper *keeper, const char *verdict, const char *host)
{
	auto_wire_out struct wire_out out = {0};

	wire_begin(&out, WIRE_K_DECISION, 0);
	wire_put_str(&out, FIELD_VERDICT, verdict);
	wire_put_str(&out, FIELD_PROTO, "tcp");
	wire_put_str(&out, FIELD_HOST, host);
	wire_put_str(&out, FIELD_ADDRESS, "192.0.2.1");
	wire_put_u64(&out, FIELD_PORT, 443);
	wire_put_u64(&out, FIELD_COUNT, 2);
	wire_put_u64(&out, FIELD_SENT, 10);
	CHECK_INT(wire_send(keeper->fd, &out), 0);
}

static size_t count_events(const char *id, const char *kind)
{
	struct event_filter filter = {.sandbox = id, .kind = kind, .limit = 1000};
	struct event_page page = {0};
	struct err err = {0};
	size_t count;

	CHECK_INT(store_event_list(store, &filter, &page, &err), 0);
	count = page.count;
	event_page_done(&page);
	return count;
}

TEST(decisions_become_events_and_are_added_up)
{
	struct host_uses uses = {0};
	struct err err = {0};

	begin();
	create_with("none", "a.example", NULL);
	decide(keeper_of(answer_id), "allow", "a.example");
	decide(keeper_of(answer_id), "closed", "a.example");
	decide(keeper_of(answer_id), "deny", "b\x1b[31m.example");
	UNTIL(count_events(answer_id, "sandbox.network") == 3);
	CHECK_INT(network_read_hosts(store, answer_id, &uses, &err), 0);
	CHECK_INT(uses.count, 2);
	CHECK_STR(uses.items[0].host, "a.example");
	CHECK_INT(uses.items[0].connections, 2);
	CHECK_INT(uses.items[0].sent, 20);
	CHECK(strchr(uses.items[1].host, '\x1b') == NULL);
	CHECK_INT(uses.items[1].denied, 2);
	host_uses_done(&uses);
	tear_down();
}

TEST(a_flood_of_decisions_is_held_back)
{
	begin();
	create_with("none", "a.example", NULL);
	for (int i = 0; i < 600; i++) {
		decide(keeper_of(answer_id), "deny", "x.example");
		if (i % 50 == 0)
			CHECK(loop_step(loop, 0) >= 0);
	}
	UNTIL(count_events(answer_id, "sandbox.network") == 500);
	for (int i = 0; i < 20; i++)
		CHECK(loop_step(loop, 5) >= 0);
	CHECK_INT(count_events(answer_id, "sandbox.network"), 500);
	tear_down();
}

static size_t host_count;

static void on_hosts(const struct host_uses *hosts, const struct err *err, void *ctx)
{
	answers++;
	host_count = hosts ? hosts->count : 0;
	if (hosts && hosts->count > 0)
		CHECK_STR(hosts->items[0].host, "a.example");
}

TEST(a_running_keeper_is_asked_for_its_hosts)
{
	begin();
	create_with("none", "a.example", NULL);
	engine->ops->hosts(engine, answer_id, on_hosts, NULL);
	UNTIL(answers == 2);
	CHECK_INT(host_count, 1);
	tear_down();
}

/* --- questions --- */

static void ask(struct stage_keeper *keeper, uint64_t number, const char *host, uint64_t ms)
{
	auto_wire_out struct wire_out out = {0};

	wire_begin(&out, WIRE_K_ASK, 0);
	wire_put_u64(&out, FIELD_ASK, number);
	wire_put_str(&out, FIELD_PROTO, "tcp");
	wire_put_str(&out, FIELD_HOST, host);
	wire_put_u64(&out, FIELD_PORT, 443);
	wire_put_u64(&out, FIELD_TIMEOUT_MS, ms);
	CHECK_INT(wire_send(keeper->fd, &out), 0);
}

static void answer_first(bool is_allowed, enum approval_reach reach)
{
	struct approval_answer answer = {is_allowed, reach, "ann"};
	const struct approval *approval;
	int before = answers;
	struct id id;

	UNTIL((approval = engine->ops->approval_at(engine, 0)));
	id = approval->id;
	engine->ops->approval_answer(engine, id.text, &answer, on_done, NULL);
	UNTIL(answers == before + 1);
}

TEST(a_question_is_answered_once)
{
	begin();
	create_with("none", NULL, "ask");
	ask(keeper_of(answer_id), 7, "new.example", 60000);
	ask(keeper_of(answer_id), 7, "new.example", 60000); /* the same again */
	answer_first(true, APPROVAL_ONCE);
	CHECK_INT(answer_err.code, ERR_OK);
	CHECK_STR(heard, "launch egress policy allow");
	CHECK(engine->ops->approval_at(engine, 0) == NULL);
	ask(keeper_of(answer_id), 8, "new.example", 60000);
	answer_first(false, APPROVAL_ONCE);
	CHECK_STR(heard, "launch egress policy allow deny");
	CHECK_STR(event_words(), "sandbox.created sandbox.running approval.asked approval.answered "
	                         "approval.asked approval.answered");
	engine->ops->approval_answer(engine, "ap_x", &(struct approval_answer){0}, on_done, NULL);
	UNTIL(answers == 4);
	CHECK_INT(answer_err.code, ERR_NOT_FOUND);
	tear_down();
}

TEST(an_answer_for_the_sandbox_is_a_rule_first)
{
	begin();
	create_with("none", NULL, "ask");
	ask(keeper_of(answer_id), 7, "new.example", 60000);
	answer_first(true, APPROVAL_SANDBOX);
	CHECK_INT(answer_err.code, ERR_OK);
	CHECK_STR(heard, "launch egress policy egress policy allow");
	auto_(sandbox_freep) struct sandbox *row = stored(answer_id);
	CHECK_INT(row->network.approved.count, 1);
	CHECK_STR(row->network.approved.items[0], "new.example:443");
	CHECK_INT(row->network.generation, 2);
	tear_down();
}

TEST(an_answer_for_the_environment_changes_it)
{
	auto_(environment_freep) struct environment *environment = NULL;
	struct err err = {0};

	begin();
	put_environment("work", "old.example", NULL);
	create_with("work", NULL, "ask");
	ask(keeper_of(answer_id), 7, "new.example", 60000);
	answer_first(true, APPROVAL_ENVIRONMENT);
	CHECK_INT(answer_err.code, ERR_OK);
	CHECK_INT(store_environment_get(store, NULL, "work", &environment, &err), 0);
	CHECK_INT(environment->domains.count, 2);
	CHECK_STR(environment->domains.items[1], "new.example:443");
	CHECK_STR(heard, "launch egress policy egress policy allow");
	tear_down();
}

TEST(a_built_in_environment_is_not_changed_by_an_answer)
{
	begin();
	create_with("trusted", NULL, "ask");
	ask(keeper_of(answer_id), 7, "new.example", 60000);
	answer_first(true, APPROVAL_ENVIRONMENT);
	CHECK_INT(answer_err.code, ERR_CONFLICT);
	CHECK(engine->ops->approval_at(engine, 0)); /* it still waits */
	tear_down();
}

TEST(nobody_answers_in_time)
{
	begin();
	create_with("none", NULL, "ask");
	ask(keeper_of(answer_id), 7, "new.example", 50);
	UNTIL(count_events(answer_id, "approval.answered") == 1);
	CHECK(engine->ops->approval_at(engine, 0) == NULL);
	CHECK_STR(heard, "launch egress policy");
	tear_down();
}

/* --- variables --- */

TEST(commands_get_the_variables_of_their_environment)
{
	struct strings env = {0};

	begin();
	put_environment("vars", NULL, "TOKEN=canary");
	create_with("vars", NULL, NULL);
	auto_(exec_freep) struct exec *exec = new_exec();
	struct exec_start start = {.exec = exec, .env = &env};
	strings_add(&env, "OWN=1");
	engine->ops->exec(engine, &start, on_exec, NULL);
	UNTIL(answers == 3);
	CHECK_STR(exec_env, "OWN=1 TOKEN=canary ");
	strings_set(&env, "TOKEN", "own");
	auto_(exec_freep) struct exec *second = new_exec();
	start.exec = second;
	engine->ops->exec(engine, &start, on_exec, NULL);
	UNTIL(answers == 4);
	CHECK_STR(exec_env, "OWN=1 TOKEN=own ");
	auto_(exec_freep) struct exec *third = new_exec();
	start.exec = third;
	start.is_internal = true;
	start.env = NULL;
	engine->ops->exec(engine, &start, on_exec, NULL);
	UNTIL(answers == 5);
	CHECK_STR(exec_env, "");
	strings_done(&env);
	tear_down();
}

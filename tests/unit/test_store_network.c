/* Environments, their variables, and what a sandbox keeps of its policy. */
#include "harness/test.h"

#include <stdio.h>

#include "base/mem.h"
#include "store/store.h"

static struct err err;

#define OK(call)                                                                                   \
	do {                                                                                       \
		if ((call) < 0)                                                                    \
			test_fail(__FILE__, __LINE__, "%s: %s", #call, err.msg);                   \
	} while (0)

static const char *db_path(void)
{
	static char path[4096];

	snprintf(path, sizeof(path), "%s/cloche.db", test_dir());
	return path;
}

static struct store *open_store(void)
{
	struct store_options options = {.path = db_path()};
	struct store *store = NULL;

	OK(store_open(&options, &store, &err));
	return store;
}

static struct environment *make(const char *name)
{
	struct environment *environment = environment_new(name);

	environment->id = id_new("en");
	environment->level = ENVIRONMENT_CUSTOM;
	environment->created_ms = 7;
	return environment;
}

static int put(struct store *store, const struct environment *environment)
{
	struct store_write *write = store_write_new(store);

	store_put_environment(write, environment);
	return store_write_wait(write, NULL, &err);
}

TEST(an_environment_comes_back_as_it_was)
{
	auto_(environment_freep) struct environment *made = make("work");
	auto_(environment_freep) struct environment *got = NULL;
	struct store *store = open_store();
	static const uint64_t ports[] = {8443, 443};

	made->mode = ENVIRONMENT_ASK;
	strings_add(&made->domains, "*.example.org");
	strings_add(&made->denied_domains, "bad.example.org");
	strings_add(&made->cidrs, "10.0.0.0/8");
	strings_add(&made->denied_cidrs, "10.9.0.0/16");
	made->include_default = true;
	OK(environment_set_ports(made, ports, ARRAY_LEN(ports), &err));
	made->egress_bytes = 1234;
	made->egress_rate = 56;
	made->visibility = VISIBILITY_TEAM;
	made->owner = mem_strdup("pr_x");
	OK(put(store, made));
	OK(store_environment_get(store, NULL, "work", &got, &err));
	CHECK_STR(got->id.text, made->id.text);
	CHECK_STR(got->origin, "api");
	CHECK_INT(got->level, made->level);
	CHECK_INT(got->mode, ENVIRONMENT_ASK);
	CHECK(!got->domains_any && !got->ports_any && got->include_default);
	CHECK(strings_equal(&got->domains, &made->domains));
	CHECK(strings_equal(&got->denied_domains, &made->denied_domains));
	CHECK(strings_equal(&got->cidrs, &made->cidrs));
	CHECK(strings_equal(&got->denied_cidrs, &made->denied_cidrs));
	CHECK_INT(got->port_count, 2);
	CHECK_INT(got->ports[1], 8443);
	CHECK_INT(got->egress_bytes, 1234);
	CHECK_INT(got->egress_rate, 56);
	CHECK_INT(got->visibility, VISIBILITY_TEAM);
	CHECK_STR(got->owner, "pr_x");
	CHECK_STR(got->team, ACCESS_TEAM);
	CHECK_INT(got->created_ms, 7);
	store_close(store);
}

TEST(null_is_not_empty)
{
	auto_(environment_freep) struct environment *nothing = make("nothing");
	auto_(environment_freep) struct environment *any = make("any");
	struct environment *got = NULL;
	struct store *store = open_store();

	OK(environment_set_ports(nothing, NULL, 0, &err));
	any->domains_any = true;
	any->ports_any = true;
	any->port_count = 0;
	OK(put(store, nothing));
	OK(put(store, any));
	OK(store_environment_get(store, NULL, "nothing", &got, &err));
	CHECK(!got->domains_any && !got->ports_any);
	CHECK_INT(got->port_count, 0);
	environment_free(got);
	OK(store_environment_get(store, NULL, "any", &got, &err));
	CHECK(got->domains_any && got->ports_any);
	environment_free(got);
	store_close(store);
}

TEST(names_belong_to_one_of_a_team_and_pages_go_by_age)
{
	auto_(environment_freep) struct environment *one = make("b");
	auto_(environment_freep) struct environment *two = make("a");
	auto_(environment_freep) struct environment *twin = make("b");
	struct environment_filter filter = {.team = ACCESS_TEAM, .limit = 1};
	struct environment_page page = {0};
	struct store *store = open_store();

	/* Ids of one millisecond have no order. */
	one->id = (struct id){"en_00000000000000000001"};
	two->id = (struct id){"en_00000000000000000002"};
	OK(put(store, one));
	OK(put(store, two));
	CHECK_INT(put(store, twin), -1);
	CHECK_INT(err.code, ERR_CONFLICT);
	CHECK_HAS(err.msg, "an environment named 'b' exists already");
	twin->team = mem_strdup("tm_other");
	OK(put(store, twin));
	OK(store_environment_list(store, &filter, &page, &err));
	CHECK_INT(page.count, 1);
	CHECK_STR(page.items[0]->name, "b");
	auto_free char *cursor = mem_strdup(page.next_cursor);
	environment_page_done(&page);
	filter = (struct environment_filter){.team = ACCESS_TEAM, .cursor = cursor, .limit = 10};
	OK(store_environment_list(store, &filter, &page, &err));
	CHECK_INT(page.count, 1);
	CHECK_STR(page.items[0]->name, "a");
	CHECK(page.next_cursor == NULL);
	environment_page_done(&page);
	filter = (struct environment_filter){.limit = 10};
	OK(store_environment_list(store, &filter, &page, &err));
	CHECK_INT(page.count, 3);
	environment_page_done(&page);
	store_close(store);
}

TEST(variables_live_and_go_with_their_environment)
{
	auto_(environment_freep) struct environment *made = make("work");
	auto_(environment_freep) struct environment *got = NULL;
	struct store *store = open_store();
	struct strings sealed = {0};
	struct store_write *write = store_write_new(store);

	store_put_environment(write, made);
	store_put_variable(write, made->id.text, "B", "s2");
	store_put_variable(write, made->id.text, "A", "s1");
	store_put_variable(write, made->id.text, "B", "s3");
	OK(store_write_wait(write, NULL, &err));
	OK(store_environment_get(store, NULL, made->id.text, &got, &err));
	CHECK_INT(got->variables.count, 2);
	CHECK_STR(got->variables.items[0], "A");
	OK(store_variables_get(store, made->id.text, &sealed, &err));
	CHECK_STR(sealed.items[1], "B=s3");
	strings_done(&sealed);
	write = store_write_new(store);
	store_delete_variable(write, made->id.text, "C");
	CHECK_INT(store_write_wait(write, NULL, &err), -1);
	CHECK_INT(err.code, ERR_NOT_FOUND);
	write = store_write_new(store);
	store_delete_environment(write, made->id.text);
	OK(store_write_wait(write, NULL, &err));
	OK(store_variables_get(store, made->id.text, &sealed, &err));
	CHECK_INT(sealed.count, 0);
	write = store_write_new(store);
	store_put_variable(write, made->id.text, "A", "s");
	CHECK_INT(store_write_wait(write, NULL, &err), -1);
	CHECK_INT(err.code, ERR_CONFLICT);
	store_close(store);
}

TEST(a_sandbox_keeps_its_policy)
{
	auto_(sandbox_freep) struct sandbox *got = NULL;
	struct store *store = open_store();
	struct store_write *write = store_write_new(store);
	struct sandbox *sandbox;
	struct spec spec;

	spec_init(&spec);
	sandbox = sandbox_new(&spec, 1);
	spec_done(&spec);
	spec_set(&sandbox->spec.network, "work");
	spec_set(&sandbox->spec.network_mode, "record");
	strings_add(&sandbox->spec.allow, "*.example.org");
	strings_add(&sandbox->spec.allow, "b.org");
	strings_add(&sandbox->spec.allow_cidrs, "10.0.0.0/8");
	strings_add(&sandbox->network.approved, "c.org");
	spec_set(&sandbox->network.level, "custom");
	spec_set(&sandbox->network.mode, "record");
	spec_set(&sandbox->network.fingerprint, "abc");
	spec_set(&sandbox->network.policy, "Q0xQ");
	sandbox->network.generation = 3;
	store_put_sandbox(write, sandbox);
	OK(store_write_wait(write, NULL, &err));
	OK(store_sandbox_get(store, sandbox->id.text, &got, &err));
	CHECK_STR(got->spec.network, "work");
	CHECK_STR(got->spec.network_mode, "record");
	CHECK(strings_equal(&got->spec.allow, &sandbox->spec.allow));
	CHECK(strings_equal(&got->spec.allow_cidrs, &sandbox->spec.allow_cidrs));
	CHECK(strings_equal(&got->network.approved, &sandbox->network.approved));
	CHECK_STR(got->network.level, "custom");
	CHECK_STR(got->network.fingerprint, "abc");
	CHECK_STR(got->network.policy, "Q0xQ");
	CHECK_INT(got->network.generation, 3);
	sandbox_free(sandbox);
	store_close(store);
}

TEST(events_of_one_kind)
{
	struct store *store = open_store();
	struct event event = {.sandbox = id_new("sb"), .time_ms = 1};
	struct event_filter filter = {.sandbox = event.sandbox.text, .kind = "sandbox.limit"};
	struct event_page page = {0};

	for (int i = 0; i < 6; i++) {
		struct store_write *write = store_write_new(store);

		event.kind = i % 2 == 0 ? EVENT_SANDBOX_LIMIT : EVENT_SANDBOX_RUNNING;
		store_put_event(write, &event);
		OK(store_write_wait(write, NULL, &err));
	}
	OK(store_event_list(store, &filter, &page, &err));
	CHECK_INT(page.count, 3);
	CHECK_INT(page.items[2].sandbox_seq, 5);
	event_page_done(&page);
	store_close(store);
}

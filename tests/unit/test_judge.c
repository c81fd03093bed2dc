#include "keeper/judge.h"

#include "base/mem.h"
#include "base/str.h"
#include "harness/test.h"

static struct transparent_end at(const char *text, uint16_t port)
{
	struct transparent_end end = {.port = port};
	CHECK(addr_parse(text, &end.addr));
	return end;
}

/* A policy from what people write. */
static void setup(struct judge *judge, const char *network, const char *allow, const char *cidr,
                  const char *deny)
{
	struct environment *environment = environment_copy(environment_builtin(network));
	struct strings domains = {0}, cidrs = {0};
	struct policy_extra extra = {.domains = &domains, .cidrs = &cidrs};
	struct policy policy;
	struct err err = {0};
	if (allow)
		strings_add(&domains, allow);
	if (cidr)
		strings_add(&cidrs, cidr);
	if (deny)
		strings_add(&environment->denied_domains, deny);
	policy_init(&policy);
	CHECK_INT(policy_compile(environment, &extra, &policy, &err), 0);
	judge_init(judge);
	judge_take_policy(judge, &policy);
	environment_free(environment);
	strings_done(&domains);
	strings_done(&cidrs);
}

static void pin(struct judge *judge, const char *name, const char *address)
{
	struct transparent_end end = at(address, 0);
	pins_add(&judge->pins, name, &end.addr, 1000, 0);
}

struct outcome {
	struct judgement judgement;
	enum inspect_kind kind;
	bool is_strict;
};

static struct outcome stream(const struct judge *judge, const char *address, uint16_t port)
{
	struct transparent_end to = at(address, port);
	struct outcome outcome;
	judge_stream(judge, &to, 1, &outcome.judgement, &outcome.kind, &outcome.is_strict);
	return outcome;
}

TEST(without_a_policy_nothing)
{
	struct judge judge;
	judge_init(&judge);
	pin(&judge, "a.test", "93.184.216.34");
	CHECK_INT(stream(&judge, "93.184.216.34", 443).judgement.answer, POLICY_DENY);
	CHECK_STR(stream(&judge, "10.0.0.1", 443).judgement.rule, "this sandbox has no network");
	judge_done(&judge);
}

TEST(names_open_the_addresses_they_led_to)
{
	struct judge judge;
	setup(&judge, "none", "a.test", NULL, NULL);
	CHECK_INT(stream(&judge, "93.184.216.34", 443).judgement.answer, POLICY_DENY);
	pin(&judge, "a.test", "93.184.216.34");
	pin(&judge, "b.test", "93.184.216.35");
	struct outcome outcome = stream(&judge, "93.184.216.34", 443);
	CHECK_INT(outcome.judgement.answer, POLICY_ALLOW);
	CHECK_STR(outcome.judgement.host, "a.test");
	CHECK_INT(outcome.kind, INSPECT_TLS);
	CHECK(outcome.is_strict);
	CHECK_INT(stream(&judge, "93.184.216.34", 80).kind, INSPECT_HTTP);
	CHECK_INT(stream(&judge, "93.184.216.34", 22).kind, INSPECT_NOTHING);
	CHECK_INT(stream(&judge, "93.184.216.34", 8080).judgement.answer, POLICY_DENY);
	CHECK_INT(stream(&judge, "93.184.216.35", 443).judgement.answer, POLICY_DENY);
	judge_done(&judge);
}

static void named(const struct judge *judge, const char *address, const char *name, bool is_strict,
                  struct judgement *ret)
{
	struct transparent_end to = at(address, 443);
	struct inspect inspect = {.kind = INSPECT_TLS};
	CHECK(str_copy(inspect.name, sizeof(inspect.name), name));
	judge_named(judge, &to, &inspect, is_strict, 1, ret);
}

TEST(what_the_client_says_must_agree)
{
	struct judge judge;
	struct judgement judgement;
	setup(&judge, "none", "*.a.test", NULL, NULL);
	pin(&judge, "www.a.test", "93.184.216.34");
	named(&judge, "93.184.216.34", "www.a.test", true, &judgement);
	CHECK_INT(judgement.answer, POLICY_ALLOW);
	/* allowed by name, but it never led here */
	named(&judge, "93.184.216.34", "other.a.test", true, &judgement);
	CHECK_INT(judgement.answer, POLICY_DENY);
	CHECK_HAS(judgement.rule, "other.a.test");
	named(&judge, "93.184.216.34", "", true, &judgement);
	CHECK_INT(judgement.answer, POLICY_DENY);
	named(&judge, "93.184.216.34", "", false, &judgement);
	CHECK_INT(judgement.answer, POLICY_ALLOW);
	judge_done(&judge);
}

TEST(special_addresses_need_a_range)
{
	struct judge judge;
	setup(&judge, "full", NULL, NULL, NULL);
	CHECK_INT(stream(&judge, "93.184.216.34", 1234).judgement.answer, POLICY_ALLOW);
	CHECK_INT(stream(&judge, "169.254.169.254", 80).judgement.answer, POLICY_DENY);
	CHECK_INT(stream(&judge, "64:ff9b::a00:1", 80).judgement.answer, POLICY_DENY);
	pin(&judge, "a.test", "10.0.0.5"); /* by whatever means */
	CHECK_INT(stream(&judge, "10.0.0.5", 80).judgement.answer, POLICY_DENY);
	judge_done(&judge);
	setup(&judge, "full", NULL, "10.0.0.0/24:5432", NULL);
	pin(&judge, "a.test", "10.0.0.5");
	CHECK_INT(stream(&judge, "10.0.0.5", 5432).judgement.answer, POLICY_ALLOW);
	CHECK_INT(stream(&judge, "10.0.0.5", 443).judgement.answer, POLICY_DENY);
	CHECK_INT(stream(&judge, "10.0.1.5", 5432).judgement.answer, POLICY_DENY);
	struct transparent_end inside = at("10.0.0.5", 0), outside = at("10.0.1.5", 0);
	CHECK(judge_address(&judge, &inside.addr) == NULL);
	CHECK_STR(judge_address(&judge, &outside.addr), "private");
	judge_done(&judge);
}

TEST(denied_names_are_looked_for_where_all_others_are_allowed)
{
	struct judge judge;
	struct judgement judgement;
	setup(&judge, "full", NULL, NULL, "bad.test");
	struct outcome outcome = stream(&judge, "93.184.216.34", 443);
	CHECK_INT(outcome.judgement.answer, POLICY_ALLOW);
	CHECK_INT(outcome.kind, INSPECT_TLS);
	CHECK(!outcome.is_strict);
	named(&judge, "93.184.216.34", "bad.test", false, &judgement);
	CHECK_INT(judgement.answer, POLICY_DENY);
	named(&judge, "93.184.216.34", "good.test", false, &judgement);
	CHECK_INT(judgement.answer, POLICY_ALLOW);
	/* pinned before it was denied */
	pin(&judge, "bad.test", "93.184.216.34");
	CHECK_INT(stream(&judge, "93.184.216.34", 9999).judgement.answer, POLICY_DENY);
	judge_done(&judge);
}

TEST(datagrams_leave_where_everything_does)
{
	struct judge judge;
	struct judgement judgement;
	struct transparent_end public = at("93.184.216.34", 443), group = at("224.0.0.251", 5353);
	setup(&judge, "none", "a.test", NULL, NULL);
	pin(&judge, "a.test", "93.184.216.34");
	judge_datagram(&judge, &public, &judgement);
	CHECK_INT(judgement.answer, POLICY_DENY);
	judge_done(&judge);
	setup(&judge, "full", NULL, NULL, NULL);
	judge_datagram(&judge, &public, &judgement);
	CHECK_INT(judgement.answer, POLICY_ALLOW);
	judge_datagram(&judge, &group, &judgement);
	CHECK_INT(judgement.answer, POLICY_DENY);
	judge_done(&judge);
}

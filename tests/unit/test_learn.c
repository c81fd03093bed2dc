#include "base/base.h"
#include "harness/test.h"
#include "model/approval.h"
#include "model/learn.h"
#include "model/policy.h"

static void use(struct host_uses *uses, const char *host, uint16_t port, const char *proto,
                uint64_t connections)
{
	host_uses_enter(uses, host, port, proto)->connections += connections;
}

TEST(the_least_policy_allows_what_was_done_and_no_more)
{
	auto_(environment_freep) struct environment *environment = environment_new("l");
	struct host_uses uses = {0};
	struct policy policy;
	struct addr addr;
	struct err err = {0};
	size_t left;

	use(&uses, "a.example.org", 443, "tcp", 2);
	use(&uses, "a.example.org", 8443, "tcp", 1);
	use(&uses, "a.example.org", 0, "dns", 5);
	use(&uses, "asked.example.org", 0, "dns", 1);
	use(&uses, "denied.example.org", 443, "tcp", 0);
	use(&uses, "192.0.2.7", 22, "tcp", 1);
	use(&uses, "udp.example.org", 443, "udp", 1);
	CHECK_INT(learn_environment(&uses, environment, &left, &err), 0);
	CHECK_INT(left, 1);
	CHECK_INT(policy_compile(environment, NULL, &policy, &err), 0);
	CHECK_INT(policy_name_verdict(&policy, "a.example.org", 443).answer, POLICY_ALLOW);
	CHECK_INT(policy_name_verdict(&policy, "a.example.org", 8443).answer, POLICY_ALLOW);
	CHECK_INT(policy_name_verdict(&policy, "a.example.org", 80).answer, POLICY_DENY);
	CHECK_INT(policy_name_verdict(&policy, "a.example.org", 0).answer, POLICY_ALLOW);
	CHECK_INT(policy_name_verdict(&policy, "asked.example.org", 0).answer, POLICY_ALLOW);
	CHECK_INT(policy_name_verdict(&policy, "asked.example.org", 443).answer, POLICY_DENY);
	CHECK_INT(policy_name_verdict(&policy, "denied.example.org", 443).answer, POLICY_DENY);
	CHECK(addr_parse("192.0.2.7", &addr));
	CHECK_INT(policy_addr_verdict(&policy, &addr, 22).answer, POLICY_ALLOW);
	CHECK_INT(policy_addr_verdict(&policy, &addr, 80).answer, POLICY_DENY);
	policy_done(&policy);
	host_uses_done(&uses);
}

TEST(nothing_and_too_much_are_said)
{
	auto_(environment_freep) struct environment *environment = environment_new("l");
	struct host_uses uses = {0};
	struct err err = {0};
	size_t left;

	CHECK_INT(learn_environment(&uses, environment, &left, &err), -1);
	CHECK_INT(err.code, ERR_CONFLICT);
	for (int i = 0; i <= DOMAIN_LIST; i++) {
		char host[32];

		snprintf(host, sizeof(host), "h%d.example.org", i);
		use(&uses, host, 443, "tcp", 1);
	}
	CHECK_INT(learn_environment(&uses, environment, &left, &err), -1);
	CHECK_INT(err.code, ERR_TOO_LARGE);
	host_uses_done(&uses);
}

TEST(an_approval_becomes_an_entry)
{
	struct approval named = {.host = (char *)"example.org", .port = 443};
	struct approval asked = {.host = (char *)"example.org"};
	struct approval bare = {.address = (char *)"2001:db8::1", .port = 22};
	bool is_cidr;
	auto_free char *one = approval_entry(&named, &is_cidr);

	CHECK_STR(one, "example.org:443");
	CHECK(!is_cidr);
	auto_free char *two = approval_entry(&asked, &is_cidr);
	CHECK_STR(two, "example.org");
	auto_free char *three = approval_entry(&bare, &is_cidr);
	CHECK_STR(three, "2001:db8::1/128:22");
	CHECK(is_cidr);
}

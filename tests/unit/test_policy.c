#include "model/policy.h"

#include <stdio.h>

#include "base/base.h"
#include "base/mem.h"
#include "base/str.h"
#include "harness/test.h"

static struct environment *custom(const char *const *domains)
{
	struct environment *environment = environment_new("t");

	environment->level = ENVIRONMENT_CUSTOM;
	for (size_t i = 0; domains != NULL && domains[i] != NULL; i++)
		strings_add(&environment->domains, domains[i]);
	return environment;
}

static void compile(const struct environment *environment, const struct policy_extra *extra,
                    struct policy *ret)
{
	struct err err = {0};

	if (policy_compile(environment, extra, ret, &err) < 0)
		test_fail(__FILE__, __LINE__, "%s", err.msg);
}

static enum policy_answer ask_name(const struct policy *policy, const char *name, uint16_t port)
{
	return policy_name_verdict(policy, name, port).answer;
}

static struct policy_verdict ask_addr(const struct policy *policy, const char *text, uint16_t port)
{
	struct addr addr;

	CHECK(addr_parse(text, &addr));
	return policy_addr_verdict(policy, &addr, port);
}

/* What is written, parsed and written again is the same, and means the same. */
static void round_trip(const struct policy *policy)
{
	struct err err = {0};
	struct buf first, second;
	struct policy again;

	buf_init(&first, POLICY_BLOB_MAX);
	buf_init(&second, POLICY_BLOB_MAX);
	CHECK_INT(policy_write(policy, &first, &err), 0);
	if (policy_parse(buf_head(&first), buf_len(&first), &again, &err) < 0)
		test_fail(__FILE__, __LINE__, "%s", err.msg);
	CHECK_INT(policy_write(&again, &second, &err), 0);
	CHECK_INT(buf_len(&first), buf_len(&second));
	CHECK_MEM(buf_head(&first), buf_head(&second), buf_len(&first));
	policy_done(&again);
	buf_done(&first);
	buf_done(&second);
}

TEST(nothing_is_allowed_before_a_policy_came)
{
	struct policy policy;

	policy_init(&policy);
	CHECK_INT(ask_name(&policy, "example.org", 443), POLICY_DENY);
	CHECK_INT(ask_name(&policy, "example.org", 0), POLICY_DENY);
	CHECK_INT(ask_addr(&policy, "1.1.1.1", 443).answer, POLICY_DENY);
	round_trip(&policy);
	policy_done(&policy);
}

TEST(none_allows_nothing)
{
	struct policy policy;

	compile(environment_builtin("none"), NULL, &policy);
	CHECK_INT(ask_name(&policy, "example.org", 443), POLICY_DENY);
	CHECK_INT(policy_name_verdict(&policy, "example.org", 443).reason, POLICY_LEVEL_NONE);
	CHECK_INT(ask_addr(&policy, "1.1.1.1", 443).answer, POLICY_DENY);
	round_trip(&policy);
	policy_done(&policy);
}

TEST(full_allows_every_name_and_port)
{
	struct policy policy;
	struct policy_verdict verdict;

	compile(environment_builtin("full"), NULL, &policy);
	CHECK(policy.udp);
	CHECK_INT(ask_name(&policy, "example.org", 443), POLICY_ALLOW);
	CHECK_INT(ask_name(&policy, "example.org", 12345), POLICY_ALLOW);
	verdict = ask_addr(&policy, "1.1.1.1", 9);
	CHECK_INT(verdict.answer, POLICY_ALLOW);
	CHECK_INT(verdict.reason, POLICY_BY_LEVEL);
	CHECK_INT(policy_name_verdict(&policy, "a b", 443).reason, POLICY_BAD_NAME);
	round_trip(&policy);
	policy_done(&policy);
}

TEST(trusted_is_the_list)
{
	struct policy policy;

	compile(environment_builtin("trusted"), NULL, &policy);
	CHECK(policy.rule_count > 50);
	CHECK_INT(ask_name(&policy, "api.github.com", 443), POLICY_ALLOW);
	CHECK_INT(ask_name(&policy, "pypi.org", 443), POLICY_ALLOW);
	CHECK_INT(ask_name(&policy, "deb.debian.org", 80), POLICY_ALLOW);
	CHECK_INT(ask_name(&policy, "example.org", 443), POLICY_DENY);
	CHECK_INT(ask_name(&policy, "github.com", 8080), POLICY_DENY);
	CHECK_INT(policy_name_verdict(&policy, "github.com", 8080).reason, POLICY_PORT);
	round_trip(&policy);
	policy_done(&policy);
}

TEST(every_trusted_entry_has_its_normal_form)
{
	for (size_t i = 0; environment_trusted_at(i) != NULL; i++) {
		const char *entry = environment_trusted_at(i);
		struct domain domain;
		char text[DOMAIN_ENTRY_TEXT];
		struct err err = {0};

		CHECK_INT(domain_parse(entry, &domain, &err), 0);
		domain_format(text, sizeof(text), domain.name, domain.is_wildcard);
		CHECK_STR(text, entry);
		for (size_t j = 0; j < i; j++)
			CHECK(!str_eq(entry, environment_trusted_at(j)));
	}
}

TEST(null_and_empty_differ)
{
	auto_(environment_freep) struct environment *nothing = custom(NULL);
	auto_(environment_freep) struct environment *any = custom(NULL);
	char one[SHA256_TEXT], other[SHA256_TEXT];
	struct policy policy;

	any->domains_any = true;
	compile(nothing, NULL, &policy);
	CHECK_INT(ask_name(&policy, "example.org", 443), POLICY_DENY);
	CHECK_INT(policy_name_verdict(&policy, "example.org", 443).reason, POLICY_NAME);
	policy_fingerprint(&policy, one);
	round_trip(&policy);
	policy_done(&policy);
	compile(any, NULL, &policy);
	CHECK_INT(ask_name(&policy, "example.org", 443), POLICY_ALLOW);
	CHECK_INT(ask_name(&policy, "example.org", 25), POLICY_DENY);
	CHECK(!policy.udp);
	policy_fingerprint(&policy, other);
	CHECK(!str_eq(one, other));
	round_trip(&policy);
	policy_done(&policy);
}

TEST(null_and_empty_ports_differ)
{
	static const char *const domains[] = {"example.org", NULL};
	auto_(environment_freep) struct environment *environment = custom(domains);
	struct policy policy;
	struct err err = {0};

	CHECK_INT(environment_set_ports(environment, NULL, 0, &err), 0);
	compile(environment, NULL, &policy);
	CHECK_INT(ask_name(&policy, "example.org", 443), POLICY_DENY);
	round_trip(&policy);
	policy_done(&policy);
	environment->ports_any = true;
	compile(environment, NULL, &policy);
	CHECK_INT(ask_name(&policy, "example.org", 9999), POLICY_ALLOW);
	round_trip(&policy);
	policy_done(&policy);
}

TEST(denials_win)
{
	static const char *const domains[] = {"*.example.org", "a.secret.example.org", NULL};
	auto_(environment_freep) struct environment *environment = custom(domains);
	struct policy policy;
	struct policy_verdict verdict;
	char text[POLICY_TEXT];

	strings_add(&environment->denied_domains, "*.SECRET.example.org");
	compile(environment, NULL, &policy);
	CHECK_INT(ask_name(&policy, "x.example.org", 443), POLICY_ALLOW);
	CHECK_INT(ask_name(&policy, "secret.example.org", 443), POLICY_DENY);
	verdict = policy_name_verdict(&policy, "A.secret.example.org.", 443);
	CHECK_INT(verdict.answer, POLICY_DENY);
	policy_rule_text(&policy, &verdict, false, text, sizeof(text));
	CHECK_STR(text, "deny *.secret.example.org (environment)");
	round_trip(&policy);
	policy_done(&policy);
}

TEST(a_rule_may_have_a_port_of_its_own)
{
	static const char *const domains[] = {"db.example.org:5432", "*.example.org", NULL};
	auto_(environment_freep) struct environment *environment = custom(domains);
	struct policy policy;
	struct policy_verdict verdict;
	struct addr addr;
	char text[POLICY_TEXT];
	int rule;

	strings_add(&environment->denied_domains, "bad.example.org:80");
	strings_add(&environment->cidrs, "10.0.0.0/8:6379");
	strings_add(&environment->cidrs, "fd00::/8:6379");
	strings_add(&environment->denied_cidrs, "10.9.0.0/16:6379");
	compile(environment, NULL, &policy);
	verdict = policy_name_verdict(&policy, "db.example.org", 5432);
	CHECK_INT(verdict.answer, POLICY_ALLOW);
	policy_rule_text(&policy, &verdict, false, text, sizeof(text));
	CHECK_STR(text, "allow db.example.org:5432 (environment)");
	CHECK_INT(ask_name(&policy, "db.example.org", 443), POLICY_ALLOW); /* by the wildcard */
	CHECK_INT(ask_name(&policy, "x.example.org", 5432), POLICY_DENY);
	CHECK_INT(policy_name_verdict(&policy, "x.example.org", 5432).reason, POLICY_PORT);
	CHECK_INT(ask_name(&policy, "bad.example.org", 80), POLICY_DENY);
	CHECK_INT(ask_name(&policy, "bad.example.org", 443), POLICY_ALLOW);
	CHECK_INT(ask_name(&policy, "bad.example.org", 0), POLICY_ALLOW);
	verdict = ask_addr(&policy, "10.1.1.1", 6379);
	CHECK_INT(verdict.answer, POLICY_ALLOW);
	policy_rule_text(&policy, &verdict, true, text, sizeof(text));
	CHECK_STR(text, "allow 10.0.0.0/8:6379 (environment)");
	CHECK_INT(ask_addr(&policy, "10.1.1.1", 443).reason, POLICY_PORT);
	CHECK_INT(ask_addr(&policy, "10.9.1.1", 6379).answer, POLICY_DENY);
	CHECK_INT(ask_addr(&policy, "fd00::1", 6379).answer, POLICY_ALLOW);
	CHECK(addr_parse("10.9.1.1", &addr));
	CHECK(!policy_addr_denied(&policy, &addr, 443, &rule));
	CHECK(policy_addr_denied(&policy, &addr, 6379, &rule));
	round_trip(&policy);
	policy_done(&policy);
}

TEST(ranges_allow_and_deny)
{
	auto_(environment_freep) struct environment *environment = custom(NULL);
	struct policy policy;
	struct policy_verdict verdict;
	struct addr_cidr grants[8];
	struct addr addr;
	char text[POLICY_TEXT];
	int rule;

	strings_add(&environment->cidrs, "10.0.0.0/8");
	strings_add(&environment->cidrs, "fd12::/16");
	strings_add(&environment->denied_cidrs, "10.9.0.0/16");
	compile(environment, NULL, &policy);
	verdict = ask_addr(&policy, "10.1.2.3", 443);
	CHECK_INT(verdict.answer, POLICY_ALLOW);
	policy_rule_text(&policy, &verdict, true, text, sizeof(text));
	CHECK_STR(text, "allow 10.0.0.0/8 (environment)");
	CHECK_INT(ask_addr(&policy, "10.1.2.3", 25).reason, POLICY_PORT);
	CHECK_INT(ask_addr(&policy, "10.9.0.1", 443).reason, POLICY_RULE_DENY);
	CHECK_INT(ask_addr(&policy, "fd12::1", 443).answer, POLICY_ALLOW);
	CHECK_INT(ask_addr(&policy, "1.1.1.1", 443).reason, POLICY_ADDRESS);
	CHECK(addr_parse("10.9.1.1", &addr));
	CHECK(policy_addr_denied(&policy, &addr, 443, &rule));
	CHECK_INT(rule, 0);
	CHECK_INT(policy_grants(&policy, grants, ARRAY_LEN(grants)), 2);
	CHECK_INT(policy_grants(&policy, grants, 1), 1);
	round_trip(&policy);
	policy_done(&policy);
}

TEST(extras_open_more)
{
	struct strings domains = {0}, cidrs = {0}, approved = {0};
	struct policy_extra extra = {.domains = &domains, .cidrs = &cidrs, .approved = &approved};
	struct policy policy;
	struct policy_verdict verdict;
	char text[POLICY_TEXT];

	strings_add(&domains, "Example.org");
	strings_add(&cidrs, "192.168.7.0/24");
	strings_add(&approved, "approved.org");
	compile(environment_builtin("none"), &extra, &policy);
	CHECK_INT(policy.level, ENVIRONMENT_CUSTOM);
	verdict = policy_name_verdict(&policy, "example.org", 443);
	CHECK_INT(verdict.answer, POLICY_ALLOW);
	policy_rule_text(&policy, &verdict, false, text, sizeof(text));
	CHECK_STR(text, "allow example.org (this sandbox)");
	CHECK_INT(ask_name(&policy, "approved.org", 443), POLICY_ALLOW);
	CHECK_INT(ask_addr(&policy, "192.168.7.1", 443).answer, POLICY_ALLOW);
	round_trip(&policy);
	policy_done(&policy);
	compile(environment_builtin("trusted"), &extra, &policy);
	CHECK_INT(ask_name(&policy, "github.com", 443), POLICY_ALLOW);
	CHECK_INT(ask_name(&policy, "example.org", 443), POLICY_ALLOW);
	round_trip(&policy);
	policy_done(&policy);
	strings_done(&domains);
	strings_done(&cidrs);
	strings_done(&approved);
}

TEST(record_allows_and_counts_but_denials_stay)
{
	auto_(environment_freep) struct environment *environment = custom(NULL);
	struct policy policy;
	struct policy_verdict verdict;

	environment->mode = ENVIRONMENT_RECORD;
	strings_add(&environment->denied_domains, "bad.org");
	compile(environment, NULL, &policy);
	verdict = policy_name_verdict(&policy, "example.org", 8443);
	CHECK_INT(verdict.answer, POLICY_ALLOW);
	CHECK(verdict.is_recorded);
	CHECK_INT(ask_name(&policy, "bad.org", 443), POLICY_DENY);
	CHECK(!policy.udp);
	round_trip(&policy);
	policy_done(&policy);
}

TEST(ask_waits_for_what_no_rule_names)
{
	static const char *const domains[] = {"example.org", NULL};
	auto_(environment_freep) struct environment *environment = custom(domains);
	struct policy policy;

	environment->mode = ENVIRONMENT_ASK;
	compile(environment, NULL, &policy);
	CHECK_INT(ask_name(&policy, "example.org", 443), POLICY_ALLOW);
	CHECK_INT(ask_name(&policy, "other.org", 443), POLICY_ASK_FIRST);
	CHECK_INT(ask_addr(&policy, "1.1.1.1", 443).answer, POLICY_ASK_FIRST);
	round_trip(&policy);
	policy_done(&policy);
}

TEST(a_mode_of_its_own_lifts_none)
{
	const enum environment_mode mode = ENVIRONMENT_RECORD;
	struct policy_extra extra = {.mode = &mode};
	struct policy policy;

	compile(environment_builtin("none"), &extra, &policy);
	CHECK_INT(policy.level, ENVIRONMENT_CUSTOM);
	CHECK(policy_name_verdict(&policy, "example.org", 443).is_recorded);
	round_trip(&policy);
	policy_done(&policy);
}

TEST(the_order_people_write_in_does_not_matter)
{
	static const char *const one[] = {"b.org", "*.a.org", "c.org", "B.org.", NULL};
	static const char *const two[] = {"c.org", "b.org", "*.a.org", NULL};
	auto_(environment_freep) struct environment *left = custom(one);
	auto_(environment_freep) struct environment *right = custom(two);
	char left_print[SHA256_TEXT], right_print[SHA256_TEXT];
	struct policy policy;

	compile(left, NULL, &policy);
	policy_fingerprint(&policy, left_print);
	policy_done(&policy);
	compile(right, NULL, &policy);
	policy_fingerprint(&policy, right_print);
	policy_done(&policy);
	CHECK_STR(left_print, right_print);
	CHECK_INT(strlen(left_print), 64);
}

TEST(a_bad_entry_leaves_nothing)
{
	static const char *const domains[] = {"good.org", "bad", NULL};
	auto_(environment_freep) struct environment *environment = custom(domains);
	struct policy policy;
	struct err err = {0};

	CHECK_INT(policy_compile(environment, NULL, &policy, &err), -1);
	CHECK_HAS(err.msg, "allowedDomains: entry 2: 'bad'");
}

TEST(a_policy_that_fits_no_message_is_refused)
{
	auto_(environment_freep) struct environment *environment = custom(NULL);
	struct strings many[3] = {{0}};
	struct policy_extra extra = {.domains = &many[0], .approved = &many[1]};
	struct policy policy;
	struct err err = {0};

	for (size_t i = 0; i < 400; i++) {
		char label[64], name[256];

		memset(label, 'a', 60);
		snprintf(label + 60, sizeof(label) - 60, "%03zu", i);
		snprintf(name, sizeof(name), "%s.%s.%s.%.55s.org", label, label, label, label);
		strings_add(i < 100   ? &environment->domains
		            : i < 200 ? &environment->denied_domains
		                      : &many[i < 300 ? 0 : 1],
		            name);
	}
	CHECK_INT(policy_compile(environment, &extra, &policy, &err), -1);
	CHECK_INT(err.code, ERR_TOO_LARGE);
	strings_done(&many[0]);
	strings_done(&many[1]);
}

TEST(only_what_we_would_write_is_read)
{
	static const char *const domains[] = {"*.a.org", "b.org", NULL};
	auto_(environment_freep) struct environment *environment = custom(domains);
	struct policy policy, parsed;
	struct err err = {0};
	struct buf blob;
	size_t len;

	strings_add(&environment->cidrs, "10.0.0.0/8");
	compile(environment, NULL, &policy);
	buf_init(&blob, POLICY_BLOB_MAX);
	CHECK_INT(policy_write(&policy, &blob, &err), 0);
	policy_done(&policy);
	len = buf_len(&blob);
	for (size_t cut = 0; cut < len; cut++)
		CHECK_INT(policy_parse(buf_head(&blob), cut, &parsed, &err), -1);
	CHECK_INT(err.code, ERR_PROTOCOL);
	/* Each byte changed: refused, or another policy with the bytes we gave. */
	for (size_t at = 0; at < len; at++) {
		auto_free uint8_t *copy = mem_zalloc(len);
		struct buf again;

		memcpy(copy, buf_head(&blob), len);
		copy[at] ^= 0x80;
		if (policy_parse(copy, len, &parsed, &err) < 0)
			continue;
		buf_init(&again, POLICY_BLOB_MAX);
		CHECK_INT(policy_write(&parsed, &again, &err), 0);
		CHECK_INT(buf_len(&again), len);
		CHECK_MEM(buf_head(&again), copy, len);
		buf_done(&again);
		policy_done(&parsed);
	}
	CHECK_INT(buf_put(&blob, "", 1), 0);
	CHECK_INT(policy_parse(buf_head(&blob), len + 1, &parsed, &err), -1);
	buf_done(&blob);
}

TEST(denials_tell_what_to_do)
{
	struct policy policy;
	struct policy_verdict verdict;
	char text[POLICY_TEXT];

	compile(environment_builtin("none"), NULL, &policy);
	verdict = policy_name_verdict(&policy, "example.org", 443);
	policy_rule_text(&policy, &verdict, false, text, sizeof(text));
	CHECK_STR(text, "this sandbox has no network");
	policy_remedy(&verdict, "example.org", text, sizeof(text));
	CHECK_HAS(text, "--allow example.org");
	CHECK(strchr(text, '%') == NULL);
	policy_remedy(&verdict, "example.org", text, 8);
	CHECK_INT(strlen(text), 7);
	/* An address is no name: what opens it is a range. */
	struct addr addr;
	CHECK(addr_parse("10.0.0.5", &addr));
	verdict = policy_addr_verdict(&policy, &addr, 443);
	policy_rule_text(&policy, &verdict, true, text, sizeof(text));
	CHECK_STR(text, "this sandbox has no network");
	policy_remedy(&verdict, "10.0.0.5/32", text, sizeof(text));
	CHECK_HAS(text, "--allow-cidr 10.0.0.5/32");
	CHECK(strstr(text, "--allow 10") == NULL);
	policy_done(&policy);
}

TEST(members_without_a_meaning_are_refused)
{
	auto_(environment_freep) struct environment *environment = environment_new("t");
	struct err err = {0};

	environment->level = ENVIRONMENT_TRUSTED;
	strings_add(&environment->domains, "example.org");
	CHECK_INT(environment_normalise(environment, &err), -1);
	CHECK_HAS(err.msg, "allowedDomains has no meaning under level trusted");
	environment->level = ENVIRONMENT_CUSTOM;
	CHECK_INT(environment_normalise(environment, &err), 0);
	environment->domains_any = true;
	CHECK_INT(environment_normalise(environment, &err), -1);
	environment->domains_any = false;
	strings_add(&environment->cidrs, "10.0.0.1/8");
	CHECK_INT(environment_normalise(environment, &err), -1);
	CHECK_HAS(err.msg, "allowedCidrs: entry 1: '10.0.0.1/8'");
}

TEST(ports_are_numbers_each_once)
{
	auto_(environment_freep) struct environment *environment = environment_new("t");
	static const uint64_t good[] = {8443, 443, 8443, 22};
	static const uint64_t bad[] = {443, 0, 65536};
	struct err err = {0};

	CHECK_INT(environment_set_ports(environment, good, ARRAY_LEN(good), &err), 0);
	CHECK_INT(environment->port_count, 3);
	CHECK_INT(environment->ports[0], 22);
	CHECK_INT(environment->ports[2], 8443);
	CHECK_INT(environment_set_ports(environment, bad, ARRAY_LEN(bad), &err), -1);
	CHECK_HAS(err.msg, "ports: entry 2-3");
	CHECK_INT(environment->port_count, 3);
}

/* Capabilities: what the words grant, alone and together. */
#include "harness/test.h"

#include "base/mem.h"
#include "model/capability.h"

static struct capabilities defined;
static struct err err;

static int compile(const char *first, const char *second, struct demand *ret)
{
	struct strings words = {0};
	int r;

	err = (struct err){0};
	if (first)
		strings_add(&words, first);
	if (second)
		strings_add(&words, second);
	r = capability_compile(&words, &defined, NULL, ret, &err);
	strings_done(&words);
	return r;
}

TEST(web_search_reaches_the_public_web_and_no_more)
{
	struct demand demand;

	CHECK_INT(compile("web_search", NULL, &demand), 0);
	CHECK(reach_has(&demand.rights.network, "example.org", 443));
	CHECK(reach_has(&demand.rights.network, "example.org", 80));
	CHECK(!reach_has(&demand.rights.network, "example.org", 22));
	CHECK(!reach_has(&demand.rights.network, "10.0.0.1", 443));
	CHECK(!demand.rights.network.udp);
	CHECK(demand.wish.scopes == NULL && demand.wish.tools == NULL);
	demand_done(&demand);
}

TEST(code_execution_and_nothing_reach_nothing)
{
	struct demand demand;

	CHECK_INT(compile("code_execution", NULL, &demand), 0);
	CHECK_INT(demand.rights.network.count, 0);
	CHECK(demand.wish.network != NULL);
	demand_done(&demand);
	CHECK_INT(compile(NULL, NULL, &demand), 0);
	CHECK_INT(demand.rights.network.count, 0);
	CHECK(demand.wish.network != NULL);
	demand_done(&demand);
}

TEST(an_operators_word_grants_what_it_says)
{
	struct capability *deploy = capabilities_enter(&defined, "deploy");
	struct demand demand;

	strings_add(&deploy->network, "10.1.0.0/16:22");
	strings_add(&deploy->scopes, "sandboxes:write");
	strings_add(&deploy->repositories, "git.example.org/app");
	CHECK_INT(capability_check(deploy, NULL, &err), 0);
	CHECK_INT(compile("deploy", "web_search", &demand), 0);
	CHECK(reach_has(&demand.rights.network, "10.1.2.3", 22));
	/* The ports of one word do not spread to the names of the other. */
	CHECK(!reach_has(&demand.rights.network, "10.1.2.3", 443));
	CHECK(!reach_has(&demand.rights.network, "example.org", 22));
	CHECK(reach_has(&demand.rights.network, "example.org", 443));
	CHECK(scopes_has(demand.wish.scopes, SCOPE_SANDBOXES_WRITE));
	CHECK(!scopes_has(demand.wish.scopes, SCOPE_IMAGES_READ));
	CHECK(allowed_has(demand.wish.repositories, "git.example.org/app"));
	CHECK(!allowed_has(demand.wish.repositories, "git.example.org/other"));
	CHECK(demand.wish.tools == NULL);
	demand_done(&demand);
	capabilities_done(&defined);
}

TEST(words_that_are_none_are_refused)
{
	struct demand demand;
	struct capability *bad;

	CHECK(compile("websearch", NULL, &demand) < 0);
	CHECK_INT(err.code, ERR_INVALID);
	CHECK_HAS(err.msg, "did you mean 'web_search'");
	CHECK(capabilities_enter(&defined, "web_search") == NULL);
	bad = capabilities_enter(&defined, "bad");
	strings_add(&bad->network, "10.0.0.0/33");
	CHECK(capability_check(bad, NULL, &err) < 0);
	capabilities_done(&defined);
	bad = capabilities_enter(&defined, "bad");
	strings_add(&bad->scopes, "sandboxes:wirte");
	CHECK(capability_check(bad, NULL, &err) < 0);
	CHECK_HAS(err.msg, "did you mean");
	capabilities_done(&defined);
}

TEST(a_capability_is_measured_against_its_user)
{
	struct rights parent = {.until_ms = RIGHTS_UNLIMITED, .budget = RIGHTS_UNLIMITED};
	struct rights child = {0};
	struct demand demand;

	scopes_preset(false, NULL, &parent.scopes);
	CHECK_INT(reach_add(&parent.network, "*.example.org:443", &err), 0);
	CHECK_INT(compile("web_search", NULL, &demand), 0);
	CHECK(rights_delegate(&parent, &demand.wish, 0, RIGHTS_DEPTH, &child, &err) < 0);
	CHECK_INT(err.code, ERR_FORBIDDEN);
	CHECK_HAS(err.msg, "network '*:80,443'");
	demand_done(&demand);
	CHECK_INT(compile("code_execution", NULL, &demand), 0);
	CHECK_INT(rights_delegate(&parent, &demand.wish, 0, RIGHTS_DEPTH, &child, &err), 0);
	CHECK_INT(child.network.count, 0);
	demand_done(&demand);
	rights_done(&child);
	rights_done(&parent);
}

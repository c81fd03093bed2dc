/* Trust tiers and agent manifests. */
#include "harness/test.h"

#include "base/mem.h"
#include "base/str.h"
#include "model/agent.h"
#include "model/trust.h"

static const char *const native_only[] = {"native", NULL};
static const char *const all[] = {"native", "vm", "oci", "docker", NULL};
static struct err err;

static const char *choose(enum trust trust, const char *wanted, const char *floor,
                          const char *const *have)
{
	struct trust_ask ask = {.trust = trust, .wanted = wanted, .floors = {floor}, .have = have};
	const char *chosen = NULL;

	err = (struct err){0};
	if (trust_choose(&ask, &chosen, &err) < 0)
		return err.msg;
	return chosen;
}

TEST(who_nobody_vouches_for_gets_the_strongest)
{
	static const enum trust low[] = {TRUST_UNSIGNED, TRUST_TAMPERED, TRUST_UNKNOWN};

	for (size_t i = 0; i < ARRAY_LEN(low); i++) {
		CHECK_STR(choose(low[i], "docker", NULL, all), "vm");
		CHECK_STR(choose(low[i], NULL, NULL, native_only), "native");
	}
}

TEST(a_signature_lets_choose_above_the_floor)
{
	CHECK_STR(choose(TRUST_SIGNED, "native", NULL, all), "native");
	CHECK_STR(choose(TRUST_SIGNED, "docker", "native", all), "native");
	CHECK_STR(choose(TRUST_SIGNED, "native", "oci", all), "oci");
	CHECK_STR(choose(TRUST_SIGNED, NULL, "vm", all), "vm");
	CHECK_STR(choose(TRUST_SIGNED, "vm", "native", all), "vm");
}

TEST(a_floor_nothing_reaches_names_the_missing_runtime)
{
	CHECK_HAS(choose(TRUST_SIGNED, "native", "vm", native_only), "'vm'");
	CHECK_INT(err.code, ERR_MISSING);
	CHECK_HAS(choose(TRUST_UNSIGNED, NULL, "oci", native_only), "'oci'");
	CHECK_HAS(choose(TRUST_SIGNED, "vm", NULL, native_only), "no runtime 'vm'");
	CHECK_HAS(choose(TRUST_SIGNED, "wm", NULL, native_only), "did you mean 'vm'");
	CHECK_INT(err.code, ERR_INVALID);
}

TEST(the_higher_of_two_floors_holds)
{
	struct trust_ask ask = {
		.trust = TRUST_SIGNED, .wanted = "native", .floors = {"native", "vm"}, .have = all};
	const char *chosen = NULL;

	CHECK_INT(trust_choose(&ask, &chosen, &err), 0);
	CHECK_STR(chosen, "vm");
}

/* --- manifests --- */

static const char *manifest(const char *text, struct agent *ret)
{
	struct agent own = {0};

	err = (struct err){0};
	if (agent_parse("agent.toml", text, strlen(text), ret ? ret : &own, &err) < 0) {
		CHECK_INT(err.code, ERR_INVALID);
		return err.msg;
	}
	agent_done(&own);
	return "";
}

TEST(a_manifest_is_read_whole)
{
	struct agent agent = {0};

	CHECK_STR(manifest("name = \"reviewer\"\nversion = \"1.2\"\nruntime = \"vm\"\n"
	                   "capabilities = [\"code_execution\", \"web_search\"]\n"
	                   "tools = [\"git\"]\nrepositories = [\"github.com/a/b\"]\n",
	                   &agent),
	          "");
	CHECK_STR(agent.name, "reviewer");
	CHECK_STR(agent.runtime, "vm");
	CHECK_INT(agent.capabilities.count, 2);
	CHECK_STR(agent.repositories.items[0], "github.com/a/b");
	agent_done(&agent);
}

TEST(a_manifest_is_read_strictly)
{
	CHECK_HAS(manifest("version = \"1\"", NULL), "'name' is missing");
	CHECK_HAS(manifest("name = \"a\"\ncapabilites = []", NULL), "did you mean 'capabilities'");
	CHECK_HAS(manifest("name = \"a\"\ncapabilites = []", NULL), "agent.toml:2");
	CHECK_HAS(manifest("name = 3", NULL), "no plain text");
	CHECK_HAS(manifest("name = \"a\"\ntools = \"git\"", NULL), "expected a list");
	CHECK_HAS(manifest("name = \"a\"\ntools = [3]", NULL), "no plain text");
	CHECK_HAS(manifest("name = \"a\"\nruntime = \"nativ\"", NULL), "did you mean 'native'");
	CHECK_HAS(manifest("name = \"a\"\nname = \"b\"", NULL), "agent.toml:2");
	CHECK_HAS(manifest("name = \"a\\u0007\"", NULL), "no plain text");
}

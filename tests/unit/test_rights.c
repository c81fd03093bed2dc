/* Delegation: refusals name what they refuse, and no chain ever gets wider. */
#include "harness/test.h"

#include "base/mem.h"
#include "base/str.h"
#include "model/rights.h"

static struct err err;

static struct allowed some(const char *first, const char *second)
{
	struct allowed list = {0};

	if (first)
		strings_add(&list.items, first);
	if (second)
		strings_add(&list.items, second);
	return list;
}

/* A parent with a bit of everything. */
static void make_parent(struct rights *parent)
{
	struct scopes scopes = {.bits = 1 << SCOPE_SANDBOXES_READ | 1 << SCOPE_LOGS_READ};

	rights_init(parent, &scopes);
	reach_done(&parent->network);
	CHECK_INT(reach_add(&parent->network, "*.example.org:443", &err), 0);
	CHECK_INT(reach_add(&parent->network, "10.0.0.0/8:5432", &err), 0);
	parent->profiles = some("small", "large");
	parent->secrets = some("db", NULL);
	parent->until_ms = 100000;
	parent->budget = 5000000;
}

static const char *delegate(const struct rights *parent, const struct wish *wish)
{
	struct rights child = {0};

	err = (struct err){0};
	if (rights_delegate(parent, wish, 40000, RIGHTS_DEPTH, &child, &err) < 0) {
		CHECK_INT(err.code, ERR_FORBIDDEN);
		return err.msg;
	}
	rights_done(&child);
	return "";
}

TEST(what_is_not_asked_for_is_what_the_parent_has)
{
	struct rights parent, child = {0};
	struct wish nothing = {0};

	make_parent(&parent);
	CHECK_INT(rights_delegate(&parent, &nothing, 40000, RIGHTS_DEPTH, &child, &err), 0);
	CHECK_INT(child.depth, 1);
	CHECK_INT(child.until_ms, parent.until_ms);
	CHECK_INT(child.budget, parent.budget);
	CHECK(reach_has(&child.network, "a.example.org", 443));
	CHECK(allowed_has(&child.profiles, "large") && !allowed_has(&child.profiles, "huge"));
	CHECK(child.tools.any);
	rights_done(&child);
	rights_done(&parent);
}

TEST(each_refusal_names_its_item)
{
	struct scopes keys = {.bits = 1 << SCOPE_IMAGES_READ};
	struct reach far = {0};
	struct allowed huge = some("small", "huge"), any = {.any = true};
	struct rights parent;

	make_parent(&parent);
	CHECK_INT(reach_add(&far, "example.org:443", &err), 0);
	CHECK_INT(reach_add(&far, "evil.test:443", &err), 0);
	CHECK_HAS(delegate(&parent, &(struct wish){.scopes = &keys}), "images:read");
	CHECK_HAS(delegate(&parent, &(struct wish){.network = &far}), "'evil.test:443'");
	CHECK_HAS(delegate(&parent, &(struct wish){.profiles = &huge}), "profiles: 'huge'");
	CHECK_HAS(delegate(&parent, &(struct wish){.secrets = &any}), "secrets: 'everything'");
	CHECK_STR(delegate(&parent, &(struct wish){.tools = &any}), "");
	CHECK_HAS(delegate(&parent, &(struct wish){.has_time = true, .time_ms = 60001}), "60000ms");
	CHECK_STR(delegate(&parent, &(struct wish){.has_time = true, .time_ms = 60000}), "");
	CHECK_HAS(delegate(&parent, &(struct wish){.has_budget = true, .budget = 5000001}),
	          "the $5 the");
	CHECK_STR(delegate(&parent, &(struct wish){.has_budget = true, .budget = 0}), "");
	parent.depth = RIGHTS_DEPTH;
	CHECK_HAS(delegate(&parent, &(struct wish){0}), "depth");
	parent.depth = 0;
	parent.until_ms = 40000;
	CHECK_HAS(delegate(&parent, &(struct wish){0}), "time");
	reach_done(&far);
	allowed_done(&huge);
	rights_done(&parent);
}

TEST(scopes_are_what_both_have)
{
	struct scopes asked = {.bits = 1 << SCOPE_LOGS_READ | 1 << SCOPE_IMAGES_READ};
	struct rights parent, child = {0};

	make_parent(&parent);
	CHECK_INT(rights_delegate(&parent, &(struct wish){.scopes = &asked}, 0, RIGHTS_DEPTH,
	                          &child, &err),
	          0);
	CHECK_INT(child.scopes.bits, 1 << SCOPE_LOGS_READ);
	rights_done(&child);
	rights_done(&parent);
}

TEST(nothing_and_no_limit_are_different)
{
	struct allowed none = {0};
	struct rights parent, child = {0}, grandchild = {0};

	make_parent(&parent);
	CHECK_INT(rights_delegate(&parent, &(struct wish){.tools = &none}, 0, RIGHTS_DEPTH, &child,
	                          &err),
	          0);
	CHECK(!allowed_has(&child.tools, "git"));
	CHECK_INT(rights_delegate(&child, &(struct wish){0}, 0, RIGHTS_DEPTH, &grandchild, &err),
	          0);
	CHECK(!allowed_has(&grandchild.tools, "git"));
	rights_done(&grandchild);
	rights_done(&child);
	rights_done(&parent);
}

TEST(what_a_parent_denies_is_denied_below)
{
	struct reach wide = {0};
	struct rights parent, child = {0};
	struct scopes scopes = {.bits = 1};

	rights_init(&parent, &scopes);
	strings_add(&parent.network.denied, "*.evil.test");
	CHECK_INT(reach_add(&wide, "*:443", &err), 0);
	CHECK_INT(rights_delegate(&parent, &(struct wish){.network = &wide}, 0, RIGHTS_DEPTH,
	                          &child, &err),
	          0);
	CHECK(!reach_has(&child.network, "www.evil.test", 443));
	CHECK(reach_has(&child.network, "example.org", 443));
	reach_done(&wide);
	rights_done(&child);
	rights_done(&parent);
}

TEST(a_token_ends_with_its_run_or_its_parent)
{
	CHECK_INT(rights_token_until(1000, 60000, RIGHTS_UNLIMITED), 1000 + 60000 + 30000);
	CHECK_INT(rights_token_until(1000, 60000, 50000), 50000);
	CHECK_INT(rights_token_until(0, 7 * 3600 * 1000, RIGHTS_UNLIMITED), RIGHTS_LIFE_MS);
	CHECK_INT(rights_token_until(0, RIGHTS_LIFE_MS, RIGHTS_UNLIMITED), RIGHTS_LIFE_MS);
	CHECK_INT(rights_token_until(0, UINT64_MAX, RIGHTS_UNLIMITED), RIGHTS_LIFE_MS);
}

TEST(money_is_never_made)
{
	struct scopes scopes = {.bits = 1};
	struct rights parent;

	rights_init(&parent, &scopes);
	CHECK(rights_reserve(&parent, 1ULL << 60));
	CHECK_INT(parent.budget, RIGHTS_UNLIMITED);
	parent.budget = 100;
	CHECK(!rights_reserve(&parent, 101));
	CHECK(rights_reserve(&parent, 60) && rights_reserve(&parent, 40));
	CHECK(!rights_reserve(&parent, 1));
	rights_return(&parent, 30);
	CHECK_INT(parent.budget, 30);
	rights_return(&parent, UINT64_MAX);
	CHECK(parent.budget != RIGHTS_UNLIMITED);
	rights_done(&parent);
}

TEST(lines_come_back)
{
	struct rights rights, back = {0};
	struct strings lines = {0}, again = {0};

	make_parent(&rights);
	rights.depth = 3;
	strings_add(&rights.network.denied, "x.test");
	rights_list(&rights, &lines);
	CHECK_INT(rights_load(&lines, &back, &err), 0);
	rights_list(&back, &again);
	CHECK(strings_equal(&lines, &again));
	CHECK_INT(back.depth, 3);
	/* A limit that is not understood is not ignored. */
	strings_add(&lines, "colour=red");
	rights_done(&back);
	CHECK(rights_load(&lines, &back, &err) < 0);
	strings_done(&lines);
	strings_done(&again);
	rights_done(&rights);
}

/* --- random chains --- */

static uint64_t seed;

static uint64_t dice(uint64_t sides)
{
	seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return (seed >> 33) % sides;
}

static const char *const hosts[] = {"example.org", "a.example.org", "b.a.example.org", "x.test",
                                    "y.x.test",    "10.0.0.1",      "10.9.9.9",        "192.0.2.7"};
static const uint16_t ports[] = {22, 80, 443, 5432};
static const char *const names[] = {"a", "b", "c", "d"};
static const char *const patterns[] = {
	"*",        "*.example.org", "example.org", "a.example.org", "*.a.example.org",
	"*.x.test", "y.x.test",      "10.0.0.0/8",  "10.0.0.1",      "192.0.2.0/24",
};

static void random_reach(struct reach *ret)
{
	for (uint64_t i = dice(4); i > 0; i--) {
		const char *pattern = patterns[dice(ARRAY_LEN(patterns))];
		char text[64];

		if (dice(3) == 0)
			(void)snprintf(text, sizeof(text), "%s", pattern);
		else
			(void)snprintf(text, sizeof(text), "%s:%u,%u", pattern,
			               ports[dice(ARRAY_LEN(ports))],
			               ports[dice(ARRAY_LEN(ports))]);
		CHECK_INT(reach_add(ret, text, &err), 0);
	}
	ret->udp = dice(8) == 0;
	if (dice(4) == 0)
		strings_add(&ret->denied, hosts[dice(ARRAY_LEN(hosts))]);
}

/* Some of the parent's rules, now and then with fewer ports. */
static void random_part(const struct reach *parent, struct reach *ret)
{
	for (size_t i = 0; i < parent->count; i++) {
		char text[REACH_TEXT];

		if (dice(4) == 0)
			continue;
		reach_format(&parent->rules[i], text, sizeof(text));
		if (parent->rules[i].ports_any && dice(2))
			(void)snprintf(text, sizeof(text), "%s:%u", parent->rules[i].pattern,
			               ports[dice(ARRAY_LEN(ports))]);
		CHECK_INT(reach_add(ret, text, &err), 0);
	}
	ret->udp = parent->udp && dice(2);
}

/* Mostly of what the parent has, so that chains get long. */
static void random_list(const struct allowed *parent, struct allowed *ret)
{
	bool honest = dice(5) > 0;

	ret->any = dice(5) == 0 && (!honest || parent->any);
	for (size_t i = 0; !ret->any && i < ARRAY_LEN(names); i++) {
		if (dice(3) && (!honest || allowed_has(parent, names[i])))
			strings_add(&ret->items, names[i]);
	}
}

static int random_step(const struct rights *parent, struct rights *ret)
{
	struct scopes scopes = {.bits = dice(1ULL << 32) | 1};
	struct reach network = {0};
	struct allowed lists[4] = {{0}};
	struct wish wish = {0};
	int r;

	if (dice(4) == 0)
		random_reach(&network);
	else
		random_part(&parent->network, &network);
	random_list(&parent->profiles, &lists[0]);
	random_list(&parent->secrets, &lists[1]);
	random_list(&parent->repositories, &lists[2]);
	random_list(&parent->tools, &lists[3]);
	wish.scopes = dice(2) ? &scopes : NULL;
	wish.network = dice(2) ? &network : NULL;
	wish.profiles = dice(3) == 0 ? &lists[0] : NULL;
	wish.secrets = dice(3) == 0 ? &lists[1] : NULL;
	wish.repositories = dice(3) == 0 ? &lists[2] : NULL;
	wish.tools = dice(3) == 0 ? &lists[3] : NULL;
	wish.has_time = dice(2) == 0;
	wish.time_ms = dice(1200);
	wish.has_budget = dice(2) == 0;
	wish.budget = dice(700);
	r = rights_delegate(parent, &wish, 1000, RIGHTS_DEPTH, ret, &err);
	reach_done(&network);
	for (size_t i = 0; i < ARRAY_LEN(lists); i++)
		allowed_done(&lists[i]);
	return r;
}

/* By asking for each thing there is, not by the code under test. */
static void check_not_wider(const struct rights *child, const struct rights *parent)
{
	CHECK_INT(child->scopes.bits & ~parent->scopes.bits, 0);
	for (size_t h = 0; h < ARRAY_LEN(hosts); h++) {
		for (size_t p = 0; p < ARRAY_LEN(ports); p++)
			CHECK(!reach_has(&child->network, hosts[h], ports[p]) ||
			      reach_has(&parent->network, hosts[h], ports[p]));
	}
	CHECK(!child->network.udp || parent->network.udp);
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
#define RIGHT(field, text, about)                                                                  \
	CHECK(!allowed_has(&child->field, names[i]) || allowed_has(&parent->field, names[i]));
#include "model/rights.def"
#undef RIGHT
	}
	CHECK(child->until_ms <= parent->until_ms);
	CHECK(child->budget <= parent->budget);
	CHECK_INT(child->depth, parent->depth + 1);
}

/* A chain from a random root down, as far as it goes; the first is compared with all. */
static size_t random_chain(void)
{
	struct rights chain[RIGHTS_DEPTH + 2] = {{{0}}};
	struct scopes scopes = {.bits = dice(1ULL << 32) | 1};
	char extra[REACH_TEXT];
	size_t len = 1;

	rights_init(&chain[0], &scopes);
	if (dice(2)) {
		reach_done(&chain[0].network);
		random_reach(&chain[0].network);
	}
	if (dice(2))
		chain[0].until_ms = 1500 + dice(1500);
	if (dice(2))
		chain[0].budget = 300 + dice(1000);
	while (len < ARRAY_LEN(chain) && random_step(&chain[len - 1], &chain[len]) == 0)
		len++;
	CHECK(len <= RIGHTS_DEPTH + 1);
	for (size_t i = 1; i < len; i++) {
		check_not_wider(&chain[i], &chain[i - 1]);
		CHECK(rights_within(&chain[i], &chain[0], extra, sizeof(extra)));
	}
	for (size_t i = 0; i < ARRAY_LEN(chain); i++)
		rights_done(&chain[i]);
	return len - 1;
}

TEST_WITHIN(no_chain_of_a_hundred_thousand_gets_wider, 240)
{
	size_t links = 0, deepest = 0;

	for (uint64_t i = 0; i < 100000; i++) {
		size_t len;

		seed = i * 2654435761U + 1;
		len = random_chain();
		links += len;
		deepest += len == RIGHTS_DEPTH;
	}
	/* The chains were not all refused at the first link. */
	CHECK(links > 100000);
	CHECK(deepest > 5000);
}

/* What descendants spend together is never more than what the first one had. */
TEST(a_tree_never_spends_more_than_its_root_had)
{
	for (uint64_t round = 0; round < 2000; round++) {
		struct scopes scopes = {.bits = 1};
		struct rights nodes[40] = {{{0}}};
		uint64_t spent = 0, total;
		size_t count = 1;

		seed = round + 7;
		rights_init(&nodes[0], &scopes);
		total = nodes[0].budget = dice(10000);
		for (int step = 0; step < 80 && count < ARRAY_LEN(nodes); step++) {
			struct rights *parent = &nodes[dice(count)];
			struct wish wish = {.has_budget = dice(3) > 0, .budget = dice(3000)};

			if (dice(3) == 0) {
				uint64_t part = dice(500);

				if (rights_reserve(parent, part))
					spent += part;
			} else if (rights_delegate(parent, &wish, 0, 100, &nodes[count], &err) ==
			           0) {
				CHECK(rights_reserve(parent, nodes[count].budget));
				count++;
			}
			CHECK(spent <= total);
		}
		for (size_t i = 0; i < count; i++)
			rights_done(&nodes[i]);
	}
}

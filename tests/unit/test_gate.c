/* What stands before every request: hosts and origins, rates, floods. */
#include "harness/test.h"

#include "api/flood.h"
#include "api/limiter.h"
#include "api/origin.h"
#include "base/mem.h"
#include "base/str.h"

/* --- hosts and origins --- */

TEST(addresses_localhost_and_listed_names_are_ours)
{
	struct strings hosts = {0};
	static const char *const ours[] = {"127.0.0.1",    "127.0.0.1:7070",  "localhost:7070",
	                                   "LOCALHOST",    "[::1]:7070",      "[::1]",
	                                   "192.0.2.9:80", "box.example.org", "Box.Example.org:1"};
	static const char *const foreign[] = {"",
	                                      "evil.test",
	                                      "127.0.0.1.evil.test",
	                                      "localhost.evil.test",
	                                      "box.example.org.evil.test",
	                                      "127.0.0.1:",
	                                      "127.0.0.1:80x",
	                                      "127.0.0.1:80:90",
	                                      "[::1",
	                                      "[::1]x",
	                                      "[]",
	                                      ":80",
	                                      "a@127.0.0.1",
	                                      "127.0.0.1/x"};

	strings_add(&hosts, "box.example.org");
	for (size_t i = 0; i < ARRAY_LEN(ours); i++) {
		if (!origin_host_is_ours(ours[i], &hosts))
			test_fail(__FILE__, __LINE__, "%s", ours[i]);
	}
	for (size_t i = 0; i < ARRAY_LEN(foreign); i++) {
		if (origin_host_is_ours(foreign[i], &hosts))
			test_fail(__FILE__, __LINE__, "%s", foreign[i]);
	}
	strings_done(&hosts);
}

TEST(pages_of_other_places_are_foreign)
{
	struct strings origins = {0};

	strings_add(&origins, "https://ui.example.org");
	CHECK_INT(origin_of(NULL, NULL, "127.0.0.1:1", &origins), ORIGIN_NONE);
	CHECK_INT(origin_of("http://127.0.0.1:1", NULL, "127.0.0.1:1", &origins), ORIGIN_SAME);
	CHECK_INT(origin_of("http://127.0.0.1:2", NULL, "127.0.0.1:1", &origins), ORIGIN_FOREIGN);
	CHECK_INT(origin_of("https://ui.example.org", "cross-site", "127.0.0.1:1", &origins),
	          ORIGIN_ALLOWED);
	CHECK_INT(origin_of("https://ui.example.org.evil.test", NULL, "x", &origins),
	          ORIGIN_FOREIGN);
	CHECK_INT(origin_of("null", NULL, "127.0.0.1:1", &origins), ORIGIN_FOREIGN);
	CHECK_INT(origin_of("", NULL, "127.0.0.1:1", &origins), ORIGIN_FOREIGN);
	CHECK_INT(origin_of("http://evil.test", NULL, NULL, &origins), ORIGIN_FOREIGN);
	CHECK_INT(origin_of(NULL, "cross-site", "127.0.0.1:1", &origins), ORIGIN_FOREIGN);
	CHECK_INT(origin_of(NULL, "same-site", "127.0.0.1:1", &origins), ORIGIN_FOREIGN);
	CHECK_INT(origin_of(NULL, "same-origin", "127.0.0.1:1", &origins), ORIGIN_NONE);
	CHECK_INT(origin_of(NULL, "none", "127.0.0.1:1", &origins), ORIGIN_NONE);
	strings_done(&origins);
}

/* --- rates --- */

TEST(a_burst_then_the_rate)
{
	struct limiter *limiter = limiter_new(10, 3);

	for (int i = 0; i < 3; i++)
		CHECK_INT(limiter_take(limiter, "a", 1000), 0);
	CHECK_INT(limiter_take(limiter, "a", 1000), 100);
	CHECK_INT(limiter_take(limiter, "b", 1000), 0);
	CHECK_INT(limiter_take(limiter, "a", 1099), 1);
	CHECK_INT(limiter_take(limiter, "a", 1100), 0);
	CHECK_INT(limiter_take(limiter, "a", 1100), 100);
	/* However long somebody rests, it is one burst. */
	for (int i = 0; i < 3; i++)
		CHECK_INT(limiter_take(limiter, "a", 999999999), 0);
	CHECK(limiter_take(limiter, "a", 999999999) > 0);
	limiter_free(limiter);
}

TEST(no_rate_is_no_limit_and_many_names_are_no_memory)
{
	struct limiter *limiter = limiter_new(0, 0);
	char name[32];

	for (int i = 0; i < 10000; i++)
		CHECK_INT(limiter_take(limiter, "a", 5), 0);
	limiter_free(limiter);
	limiter = limiter_new(1, 1);
	for (int i = 0; i < 100000; i++) {
		(void)snprintf(name, sizeof(name), "name%d", i);
		CHECK_INT(limiter_take(limiter, name, (uint64_t)i), 0);
	}
	limiter_free(limiter);
}

/* --- floods --- */

static uint64_t summarised, summaries;

static void on_summary(const struct audit_row *row, void *ctx)
{
	summaries++;
	summarised += row->count;
	CHECK_STR(row->action, "x");
}

TEST(a_flood_is_counted_not_lost)
{
	struct flood *flood = flood_new();
	struct audit_row row = {.action = (char *)"x"};
	uint64_t recorded = 0;

	for (int i = 0; i < 1000; i++)
		recorded += flood_admit(flood, "deny a", &row, false, 1000);
	CHECK_INT(recorded, FLOOD_ROWS);
	CHECK(flood_admit(flood, "deny b", &row, false, 1000));
	CHECK(flood_has_counted(flood));
	flood_sweep(flood, 1000 + FLOOD_MS - 1, false, on_summary, NULL);
	CHECK_INT(summaries, 0);
	flood_sweep(flood, 1000 + FLOOD_MS, false, on_summary, NULL);
	CHECK_INT(summaries, 1);
	CHECK_INT(recorded + summarised, 1000);
	CHECK(!flood_has_counted(flood));
	/* After that, the first few count again. */
	CHECK(flood_admit(flood, "deny a", &row, false, 2000 + FLOOD_MS));
	flood_free(flood);
}

TEST(a_quiet_kind_starts_a_new_window)
{
	struct flood *flood = flood_new();
	struct audit_row row = {.action = (char *)"x"};

	for (int window = 0; window < 5; window++) {
		for (int i = 0; i < FLOOD_ROWS; i++)
			CHECK(flood_admit(flood, "a", &row, false, (uint64_t)window * FLOOD_MS));
	}
	CHECK(!flood_has_counted(flood));
	flood_free(flood);
}

/* More kinds than there is room for: nothing is lost, whatever it costs. */
TEST(many_kinds_lose_nothing)
{
	struct flood *flood = flood_new();
	struct audit_row row = {.action = (char *)"x", .object = (char *)"sb_x"};
	uint64_t recorded = 0;
	char name[40];

	summarised = 0;
	for (int i = 0; i < 200000; i++) {
		(void)snprintf(name, sizeof(name), "deny %d", i % 3000);
		recorded += flood_admit(flood, name, &row, false, 5);
	}
	flood_sweep(flood, 5, true, on_summary, NULL);
	CHECK_INT(recorded + summarised, 200000);
	flood_free(flood);
}

/* Nobody from a hundred thousand addresses: few rows, and the right number. */
TEST(many_strangers_are_one_flood)
{
	struct flood *flood = flood_new();
	struct audit_row row = {.action = (char *)"x"};
	uint64_t recorded = 0;
	char name[40];

	summarised = 0;
	for (int i = 0; i < 100000; i++) {
		(void)snprintf(name, sizeof(name), "deny nobody %d", i);
		recorded += flood_admit(flood, name, &row, true, 5);
	}
	CHECK(recorded <= FLOOD_KINDS + FLOOD_ROWS);
	flood_sweep(flood, 5, true, on_summary, NULL);
	CHECK_INT(recorded + summarised, 100000);
	flood_free(flood);
}

/* What a sandbox of no run used: by days, once, whatever is written twice or too late. */
#include "task/tenant.h"

#include <stdio.h>

#include "base/io.h"
#include "base/mem.h"
#include "harness/test.h"
#include "model/config.h"
#include "store/sandbox_use.h"
#include "task/job.h"

enum { DAY_MS = 24 * 3600 * 1000 };

static struct err err;

#define OK(call)                                                                                   \
	do {                                                                                       \
		if ((call) < 0)                                                                    \
			test_fail(__FILE__, __LINE__, "%s: %s", #call, err.msg);                   \
	} while (0)

struct place {
	struct config config;
	struct tasks tasks;
	struct sandbox *sandbox;
};

static void put_sandbox(struct place *place, enum sandbox_state state)
{
	struct store_write *write = store_write_new(place->tasks.config.store);

	place->sandbox->state = state;
	store_put_sandbox(write, place->sandbox);
	OK(store_write_wait(write, NULL, &err));
}

/* A dollar for a second of processor time, and nothing else costs anything. */
static void place_init(struct place *place)
{
	char path[4096];
	struct store_options options = {.path = path};
	struct spec spec;

	snprintf(path, sizeof(path), "%s/cloche.db", test_dir());
	*place = (struct place){0};
	config_init(&place->config);
	place->config.rates = (struct config_rates){.cpu_second = 1000000};
	place->tasks.config.config = &place->config;
	OK(store_open(&options, &place->tasks.config.store, &err));
	spec_init(&spec);
	place->sandbox = sandbox_new(&spec, 7);
	spec_done(&spec);
	put_sandbox(place, SANDBOX_RUNNING);
}

static void place_done(struct place *place)
{
	tenant_done(&place->tasks);
	store_close(place->tasks.config.store);
	sandbox_free(place->sandbox);
	config_done(&place->config);
}

static void take(struct tenant *tenant, uint64_t seconds)
{
	struct meters meters = {.cpu_us = seconds * 1000000,
	                        .net_sent_bytes = seconds,
	                        .net_received_bytes = seconds};

	tenant_take(tenant, &meters);
}

static void put(struct place *place, struct tenant *tenant, bool is_end)
{
	struct store_write *write = store_write_new(place->tasks.config.store);

	(is_end ? tenant_put_end : tenant_put)(tenant, write);
	OK(store_write_wait(write, NULL, &err));
}

/* As if all it knows had been yesterday. */
static void let_a_day_go_by(struct tenant *tenant)
{
	tenant->day_ms -= DAY_MS;
	tenant->first_ms -= DAY_MS;
}

static void check_usage(struct place *place, const char *by, size_t rows, uint64_t dollars)
{
	struct usage_filter filter = {.by = by};
	struct usage_list list = {0};
	uint64_t cost = 0, starts = 0, network = 0;

	OK(store_usage(place->tasks.config.store, &filter, &list, &err));
	CHECK_INT(list.count, rows);
	for (size_t i = 0; i < list.count; i++) {
		cost += list.items[i].cost;
		starts += list.items[i].sandboxes;
		network += list.items[i].network_bytes;
	}
	CHECK_INT(cost, dollars * 1000000);
	CHECK_INT(network, 2 * dollars);
	CHECK_INT(starts, rows > 0);
	usage_list_done(&list);
}

TEST(days_are_counted_apart)
{
	struct place place;
	struct tenant *tenant;
	bool same_month;

	place_init(&place);
	tenant = tenant_new(&place.tasks, place.sandbox);
	same_month = tenant->day_ms - DAY_MS >= budget_since(BUDGET_MONTH, tenant->day_ms);
	take(tenant, 10);
	let_a_day_go_by(tenant);
	take(tenant, 13);
	CHECK_INT(tenant_cost(tenant, BUDGET_TOTAL), 13000000);
	CHECK_INT(tenant_cost(tenant, BUDGET_DAY), 3000000);
	CHECK_INT(tenant_cost(tenant, BUDGET_MONTH), same_month ? 13000000 : 3000000);
	take(tenant, 5); /* a keeper that knows less is not believed */
	CHECK_INT(tenant_cost(tenant, BUDGET_TOTAL), 13000000);
	put(&place, tenant, false);
	check_usage(&place, "day", 2, 13);
	check_usage(&place, "team", 1, 13);
	place_done(&place);
}

TEST(a_daemon_that_comes_later_goes_on_with_it)
{
	struct place place;
	struct tenant *tenant;

	place_init(&place);
	tenant = tenant_new(&place.tasks, place.sandbox);
	take(tenant, 10);
	let_a_day_go_by(tenant);
	take(tenant, 13);
	put(&place, tenant, false);
	take(tenant, 15); /* nobody stores this: it is killed */
	tenant_leave(tenant);
	tenant = tenant_new(&place.tasks, place.sandbox);
	OK(tenant_load(tenant, &err));
	CHECK_INT(tenant_cost(tenant, BUDGET_TOTAL), 13000000);
	CHECK_INT(tenant_cost(tenant, BUDGET_DAY), 3000000);
	take(tenant, 16);
	CHECK_INT(tenant_cost(tenant, BUDGET_DAY), 6000000);
	put(&place, tenant, false);
	check_usage(&place, "day", 2, 16);
	place_done(&place);
}

static void check_end(bool has_rows)
{
	struct place place;
	struct tenant *tenant;

	place_init(&place);
	tenant = tenant_new(&place.tasks, place.sandbox);
	take(tenant, 2);
	if (has_rows)
		put(&place, tenant, false);
	take(tenant, 3);
	put(&place, tenant, true);
	check_usage(&place, "team", 1, 3);
	put_sandbox(&place, SANDBOX_STOPPED);
	put(&place, tenant, true); /* once more, as after a refusal that was none */
	take(tenant, 4);
	put(&place, tenant, false); /* late */
	check_usage(&place, "team", 1, 3);
	place_done(&place);
}

TEST(an_end_counts_once)
{
	check_end(true);
}

TEST(the_end_of_a_short_life_counts_once)
{
	check_end(false);
}

TEST(what_never_ran_costs_nothing)
{
	struct place place;
	struct tenant *tenant;

	place_init(&place);
	put_sandbox(&place, SANDBOX_CREATING);
	tenant = tenant_new(&place.tasks, place.sandbox);
	take(tenant, 2);
	put(&place, tenant, true);
	check_usage(&place, "team", 0, 0);
	place_done(&place);
}

/* What a sandbox made in advance can become. */
#include "daemon/fit.h"

#include "base/mem.h"
#include "harness/test.h"

static struct sandbox *made;
static struct spec wanted;

static void set_up(const char *disk)
{
	spec_init(&wanted);
	wanted.is_ephemeral = true;
	made = sandbox_new(&wanted, 1);
	strings_add(&made->mechanisms, disk);
}

static void tear_down(void)
{
	spec_done(&wanted);
	sandbox_free(made);
}

/* Sets a value, looks, and sets it back. */
static enum fit with(uint64_t *field, uint64_t value)
{
	uint64_t before = *field;
	*field = value;
	enum fit fit = fit_of(made, &wanted);
	*field = before;
	return fit;
}

TEST(what_is_no_part_of_it_is_claimed_at_once)
{
	set_up("disk=loop");
	strings_add(&wanted.env, "A=b");
	strings_add(&wanted.labels, "a=b");
	spec_set(&wanted.cwd, "/tmp");
	spec_set(&wanted.user, "root");
	wanted.ttl_ms = 5000;
	wanted.degraded = true;
	CHECK_INT(fit_of(made, &wanted), FIT_AS_IS);
	CHECK_INT(with(&wanted.limits.nofile, 77), FIT_AS_IS);
	CHECK_INT(with(&wanted.limits.output_rate, 1 << 20), FIT_AS_IS);
	tear_down();
}

TEST(names_limits_and_mounts_are_bound)
{
	set_up("disk=loop");
	CHECK_INT(with(&wanted.limits.memory, 1 << 30), FIT_BOUND);
	CHECK_INT(with(&wanted.limits.cpu_milli, 10), FIT_BOUND);
	CHECK_INT(with(&wanted.limits.pids, 10), FIT_BOUND);
	spec_set(&wanted.name, "called");
	CHECK_INT(fit_of(made, &wanted), FIT_BOUND);
	spec_set(&wanted.name, NULL);
	spec_set(&wanted.hostname, "called");
	CHECK_INT(fit_of(made, &wanted), FIT_BOUND);
	spec_set(&wanted.hostname, made->id.text);
	CHECK_INT(fit_of(made, &wanted), FIT_AS_IS);
	spec_add_mount(&wanted, "/x", "gr_00000000000000000001", "/mnt", true);
	CHECK_INT(fit_of(made, &wanted), FIT_BOUND);
	tear_down();
}

TEST(a_disk_that_must_outlive_a_power_cut_is_bound)
{
	static const struct {
		const char *disk;
		enum fit fit;
	} rows[] = {{"disk=loop", FIT_BOUND},
	            {"disk=sampled", FIT_AS_IS},
	            {"disk=tmpfs", FIT_AS_IS},
	            {"disk=quota", FIT_AS_IS}};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		set_up(rows[i].disk);
		CHECK_INT(fit_of(made, &wanted), FIT_AS_IS);
		wanted.is_ephemeral = false;
		CHECK_INT(fit_of(made, &wanted), rows[i].fit);
		tear_down();
	}
}

TEST(a_disk_changes_where_its_kind_can)
{
	static const struct {
		const char *disk;
		enum fit fit;
	} rows[] = {{"disk=loop", FIT_NOT},
	            {"disk=sampled", FIT_NOT},
	            {"disk=tmpfs", FIT_BOUND},
	            {"disk=quota", FIT_BOUND}};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		set_up(rows[i].disk);
		CHECK_INT(with(&wanted.limits.disk, 1 << 24), rows[i].fit);
		CHECK_INT(with(&wanted.limits.inodes, 100), rows[i].fit);
		tear_down();
	}
}

TEST(what_nobody_can_change_is_made_for_the_request)
{
	char **const fields[] = {&wanted.image, &wanted.disk_backend, &wanted.runtime};

	set_up("disk=quota");
	for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
		auto_free char *before = *fields[i] ? mem_strdup(*fields[i]) : NULL;
		spec_set(fields[i], "another");
		CHECK_INT(fit_of(made, &wanted), FIT_NOT);
		spec_set(fields[i], before);
		CHECK_INT(fit_of(made, &wanted), FIT_AS_IS);
	}
	tear_down();
}

TEST(one_that_lacks_something_serves_only_who_allows_it)
{
	set_up("disk=tmpfs");
	made->is_degraded = true;
	CHECK_INT(fit_of(made, &wanted), FIT_NOT);
	wanted.degraded = true;
	CHECK_INT(fit_of(made, &wanted), FIT_AS_IS);
	CHECK_INT(with(&wanted.limits.pids, 10), FIT_NOT);
	tear_down();
}

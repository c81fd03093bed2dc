#include <unistd.h>

#include "base/str.h"
#include "broker/doctor.h"
#include "harness/test.h"

enum { CHECKS_MAX = 64 };

struct seen {
	struct doctor_check checks[CHECKS_MAX];
	size_t count;
};

static void on_check(const struct doctor_check *check, void *ctx)
{
	struct seen *seen = ctx;
	CHECK(seen->count < CHECKS_MAX);
	seen->checks[seen->count++] = *check;
}

static const struct doctor_check *find(const struct seen *seen, const char *name)
{
	for (size_t i = 0; i < seen->count; i++)
		if (str_eq(seen->checks[i].name, name))
			return &seen->checks[i];
	test_fail(__FILE__, __LINE__, "no check %s", name);
}

static void run(struct seen *seen, const char *pretend)
{
	struct doctor_options options = {.sandboxes_fd = -1,
	                                 .is_rootless = geteuid() != 0,
	                                 .id_count = 1,
	                                 .pretend = pretend};
	*seen = (struct seen){0};
	doctor_run(&options, on_check, seen);
}

TEST(every_check_says_what_it_found)
{
	struct seen seen;
	run(&seen, NULL);
	CHECK(seen.count > 15);
	for (size_t i = 0; i < seen.count; i++) {
		const struct doctor_check *check = &seen.checks[i];
		CHECK(check->detail[0] != '\0');
		CHECK_INT(check->status == DOCTOR_OK, check->remedy[0] == '\0');
		CHECK(!strchr(check->detail, '\t') && !strchr(check->remedy, '\t'));
	}
	/* Works for everybody, everywhere we run at all. */
	CHECK_INT(find(&seen, "no_new_privs")->status, DOCTOR_OK);
	CHECK_INT(find(&seen, "pidfd")->status, DOCTOR_OK);
}

TEST(a_missing_mechanism_is_named_with_its_remedy)
{
	static const char *const names[] = {"user_namespaces", "overlay", "seccomp", "landlock",
	                                    "cgroup_memory"};
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		struct seen seen;
		run(&seen, names[i]);
		const struct doctor_check *check = find(&seen, names[i]);
		CHECK_INT(check->status, DOCTOR_MISSING);
		CHECK(check->remedy[0] != '\0');
	}
}

TEST(what_is_optional_only_degrades)
{
	struct seen seen;
	run(&seen, "time_namespace");
	CHECK_INT(find(&seen, "time_namespace")->status, DOCTOR_DEGRADED);
	CHECK_STR(doctor_status_name(DOCTOR_DEGRADED), "degraded");
}

TEST(a_check_leaves_the_caller_as_it_was)
{
	struct seen seen;
	uid_t uid = geteuid();
	run(&seen, NULL);
	CHECK_INT(geteuid(), uid);
	CHECK_INT(access("/proc/self/status", R_OK), 0); /* nothing was mounted over it here */
}

/* GET /metrics: the format, and that what happens is counted. */
#include "daemon/metrics.h"

#include "model/span.h"
#include "stage.h"

/* The sample's value; -1: there is none. */
static double sample(const char *text, const char *name)
{
	size_t len = strlen(name);

	for (const char *line = text; *line; line += strcspn(line, "\n") + 1) {
		if (strncmp(line, name, len) == 0 && line[len] == ' ')
			return strtod(line + len, NULL);
	}
	return -1;
}

TEST(a_span_sorts_into_buckets)
{
	struct span span = {0};

	span_add(&span, 0);
	span_add(&span, 1000);
	span_add(&span, 1001);
	span_add(&span, 3600ULL * 1000 * 1000);
	CHECK_INT(span.buckets[0], 2);
	CHECK_INT(span.buckets[1], 1);
	CHECK_INT(span.count, 4);
	CHECK_INT(span.sum_us, 2001 + 3600ULL * 1000 * 1000);
}

TEST(every_line_is_a_comment_or_a_sample_with_a_type)
{
	set_up();
	create("one");
	auto_free char *text = metrics_text(fleet);
	char typed[100] = "";

	for (char *line = text, *next; *line; line = next) {
		char name[100], type[20], value[50];

		next = line + strcspn(line, "\n");
		CHECK(*next == '\n');
		*next++ = '\0';
		if (sscanf(line, "# TYPE %99s %19s", name, type) == 2) {
			CHECK(str_eq(type, "gauge") || str_eq(type, "counter") ||
			      str_eq(type, "histogram"));
			CHECK(str_copy(typed, sizeof(typed), name));
		} else if (*line != '#') {
			CHECK(str_has_prefix(line, typed));
			CHECK(sscanf(strrchr(line, ' '), " %49[0-9.e+-]", value) == 1);
		}
	}
	tear_down();
}

TEST(what_happens_is_counted)
{
	set_up();
	create("one");
	(void)err_set(&launch_err, ERR_MISSING, "nothing"); /* always -1 */
	create("two");
	auto_(exec_freep) struct exec *exec = new_exec();
	struct exec_start start = {.exec = exec};
	engine->ops->exec(engine, &start, on_exec, NULL);
	UNTIL(answers == 3);
	auto_free char *text = engine->ops->metrics(engine);
	CHECK_INT(sample(text, "cloche_sandboxes{state=\"running\"}"), 1);
	CHECK_INT(sample(text, "cloche_execs_running"), 1);
	CHECK_INT(sample(text, "cloche_execs_total"), 1);
	CHECK_INT(sample(text, "cloche_launch_seconds_count"), 2);
	CHECK_INT(sample(text, "cloche_launch_failures_total"), 1);
	CHECK_INT(sample(text, "cloche_reap_seconds_count"), 1);
	CHECK_INT(sample(text, "cloche_reap_failures_total"), 0);
	CHECK_INT(sample(text, "cloche_stuck"), 0);
	CHECK_INT(sample(text, "cloche_state_deadline_seconds{state=\"stopping\"}"), 30);
	CHECK_INT(sample(text, "cloche_state_seconds_count{state=\"creating\"}"), 2);
	CHECK_INT(sample(text, "cloche_state_seconds_count{state=\"removing\"}"), 0);
	CHECK_INT(sample(text, "cloche_events_total"), 6);
	CHECK(sample(text, "cloche_store_commit_seconds_count") > 0);
	CHECK(sample(text, "process_resident_memory_bytes") > 100000);
	CHECK(sample(text, "process_open_fds") > 3);
	tear_down();
}

/* Limits: forms, ranges and what a refusal says. */
#include "harness/test.h"

#include <math.h>

#include "model/limits.h"

/* The message of a refused text; "" when it was taken. */
static const char *set(const char *name, const char *text, uint64_t *ret)
{
	static struct err err;
	const struct limit *limit = limits_find(name);
	struct limits limits;

	err = (struct err){0};
	limits_init(&limits);
	CHECK(limit != NULL);
	if (limits_set_text(&limits, limit, text, &err) < 0) {
		CHECK_INT(err.code, ERR_INVALID);
		CHECK_INT(limits_get(&limits, limit), limit->otherwise);
		return err.msg;
	}
	if (ret != NULL)
		*ret = limits_get(&limits, limit);
	return "";
}

TEST(defaults_are_the_documented_ones_and_valid)
{
	struct limits limits;

	limits_init(&limits);
	CHECK_INT(limits.memory, 2ULL << 30);
	CHECK_INT(limits.cpu_milli, 2000);
	CHECK_INT(limits.pids, 512);
	CHECK_INT(limits.disk, 2ULL << 30);
	CHECK_INT(limits.inodes, 200000);
	CHECK_INT(limits.nofile, 4096);
	CHECK_INT(limits.output_rate, 64 << 20);
	CHECK_INT(limits_check(&limits, NULL), 0);
}

TEST(texts_are_read_by_kind)
{
	uint64_t value = 0;

	CHECK_STR(set("memory", "64M", &value), "");
	CHECK_INT(value, 64 << 20);
	CHECK_STR(set("memory", "1.5G", &value), "");
	CHECK_INT(value, 3ULL << 29);
	CHECK_STR(set("cpu", "1.5", &value), "");
	CHECK_INT(value, 1500);
	CHECK_STR(set("cpu", ".25", &value), "");
	CHECK_INT(value, 250);
	CHECK_STR(set("cpu", "2", &value), "");
	CHECK_INT(value, 2000);
	CHECK_STR(set("cpu", "0.0100", &value), "");
	CHECK_INT(value, 10);
	CHECK_STR(set("pids", "100", &value), "");
	CHECK_INT(value, 100);
	CHECK_STR(set("output_rate", "1M/s", &value), "");
	CHECK_INT(value, 1 << 20);
	CHECK_STR(set("output_rate", "1M", &value), "");
	CHECK_INT(value, 1 << 20);
}

TEST(refusals_name_limit_and_range)
{
	CHECK_STR(set("memory", "1K", NULL), "memory 1K is below the least of 4M");
	CHECK_STR(set("memory", "17T", NULL), "memory 17T is above the most of 16T");
	CHECK_STR(set("memory", "max", NULL), "memory max is above the most of 16T");
	CHECK_STR(set("memory", "lots", NULL), "memory 'lots' is not a size such as 64M");
	CHECK_STR(set("memory", "", NULL), "memory '' is not a size such as 64M");
	CHECK_STR(set("memory", "-1", NULL), "memory '-1' is not a size such as 64M");
	CHECK_STR(set("cpu", "0.001", NULL), "cpu 0.001 is below the least of 0.01");
	CHECK_STR(set("cpu", "2000", NULL), "cpu 2000 is above the most of 1024");
	CHECK_STR(set("cpu", "0.0001", NULL), "cpu '0.0001' is not a number of cores such as 1.5");
	CHECK_STR(set("cpu", "1.", NULL), "cpu '1.' is not a number of cores such as 1.5");
	CHECK_STR(set("cpu", ".", NULL), "cpu '.' is not a number of cores such as 1.5");
	CHECK_STR(set("cpu", "1.5.5", NULL), "cpu '1.5.5' is not a number of cores such as 1.5");
	CHECK_STR(set("cpu", "18446744073709551615", NULL),
	          "cpu '18446744073709551615' is not a number of cores such as 1.5");
	CHECK_STR(set("pids", "1", NULL), "pids 1 is below the least of 4");
	CHECK_STR(set("pids", "64M", NULL), "pids '64M' is not a whole number");
	CHECK_STR(set("output_rate", "1K/s", NULL), "output_rate 1K/s is below the least of 4K/s");
	CHECK_STR(set("output_rate", "x/s", NULL),
	          "output_rate 'x/s' is not a size per second such as 64M/s");
}

TEST(foreign_bytes_are_escaped)
{
	CHECK_HAS(set("memory", "\033[31m", NULL), "\\x1b");
}

TEST(numbers_are_whole_unless_they_are_cores)
{
	const struct limit *memory = limits_find("memory"), *cpu = limits_find_json("cpu");
	struct limits limits;
	struct err err = {0};

	limits_init(&limits);
	CHECK_INT(limits_set_number(&limits, memory, 64 << 20, &err), 0);
	CHECK_INT(limits.memory, 64 << 20);
	CHECK_INT(limits_set_number(&limits, cpu, 0.29, &err), 0);
	CHECK_INT(limits.cpu_milli, 290);
	CHECK_INT(limits_set_number(&limits, memory, 8388608.5, &err), -1);
	CHECK_STR(err.msg, "memory '8388608.5' is not a size such as 64M");
	CHECK_INT(limits_set_number(&limits, memory, -5, &err), -1);
	CHECK_STR(err.msg, "memory -5 is below the least of 4M");
	CHECK_INT(limits_set_number(&limits, memory, NAN, &err), -1);
	CHECK_INT(limits_set_number(&limits, memory, INFINITY, &err), -1);
	CHECK_INT(limits_set_number(&limits, memory, 1e300, &err), -1);
	CHECK_INT(limits.memory, 64 << 20);
}

TEST(formats_are_exact_and_read_back)
{
	char text[32];

	for (const struct limit *limit = limits_table; limit->name != NULL; limit++) {
		const uint64_t values[] = {limit->least, limit->otherwise, limit->most,
		                           limit->otherwise + 1};

		for (size_t i = 0; i < ARRAY_LEN(values); i++) {
			uint64_t back = 0;

			limits_format(limit, values[i], text, sizeof(text));
			CHECK_STR(set(limit->name, text, &back), "");
			CHECK_INT(back, values[i]);
		}
	}
	limits_format(limits_find("cpu"), 1500, text, sizeof(text));
	CHECK_STR(text, "1.5");
	limits_format(limits_find("cpu"), 2000, text, sizeof(text));
	CHECK_STR(text, "2");
	limits_format(limits_find("output_rate"), 64 << 20, text, sizeof(text));
	CHECK_STR(text, "64M/s");
	limits_format(limits_find("memory"), 0, text, sizeof(text));
	CHECK_STR(text, "0");
}

TEST(check_finds_a_value_out_of_range)
{
	struct limits limits;
	struct err err = {0};

	limits_init(&limits);
	limits.nofile = 1;
	CHECK_INT(limits_check(&limits, &err), -1);
	CHECK_STR(err.msg, "nofile 1 is below the least of 16");
	CHECK(limits_find("outputRate") == NULL);
	CHECK(limits_find_json("outputRate") == limits_find("output_rate"));
}

/*
 * The unit test harness. Each TEST runs in a forked child of its own process group with a time
 * limit, so crashes, aborts, namespaces and rlimits stay contained. After the body returns, open
 * descriptors must be those it began with and, in a build with AddressSanitizer, nothing may be
 * leaked. main() is provided; a program may be given test names to run only these, or --list.
 *
 *	TEST(number_without_digits_is_refused)
 *	{
 *		uint64_t value = 0;
 *		CHECK_INT(str_to_u64("", &value), -EINVAL);
 *	}
 *
 * A failed check prints where and what, and ends the test. Closing line of the program:
 * "N passed, N failed, N skipped"; exit status 1 if any failed.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct test {
	const char *name;
	void (*run)(void);
	int timeout_s;
};

#define TEST(name) TEST_WITHIN(name, 20)
/* For a test that may take longer than 20 seconds. */
#define TEST_WITHIN(name_, seconds)                                                                \
	static void test_run_##name_(void);                                                        \
	static const struct test test_##name_ = {#name_, test_run_##name_, seconds};               \
	static const struct test *const test_entry_##name_                                         \
		__attribute__((used, section("test_entries"))) = &test_##name_;                    \
	static void test_run_##name_(void)

#define CHECK(cond)                                                                                \
	do {                                                                                       \
		if (!(cond))                                                                       \
			test_fail(__FILE__, __LINE__, "%s", #cond);                                \
	} while (0)

/* Any integers; shown as signed and compared as 128 bits wide, so that signs never mix up. */
#define CHECK_INT(got, wanted)                                                                     \
	test_check_int(__FILE__, __LINE__, #got, (__int128)(got), (__int128)(wanted))
/* NULL is equal to NULL only. */
#define CHECK_STR(got, wanted)      test_check_str(__FILE__, __LINE__, #got, (got), (wanted))
#define CHECK_HAS(got, part)        test_check_has(__FILE__, __LINE__, #got, (got), (part))
#define CHECK_MEM(got, wanted, len) test_check_mem(__FILE__, __LINE__, #got, (got), (wanted), (len))
/* The statement must abort (must() or a sanitizer), with `text` in what it prints to stderr. */
#define CHECK_DEATH(statement, text)                                                               \
	do {                                                                                       \
		if (test_death_begin()) {                                                          \
			statement;                                                                 \
			test_death_survived();                                                     \
		}                                                                                  \
		test_death_end(__FILE__, __LINE__, #statement, (text));                            \
	} while (0)

/* Ends the test as skipped: for what this machine lacks, never for what is not written yet. */
#define SKIP(...) test_skip(__VA_ARGS__)

/* A directory of this test's own, made at the first call, removed afterwards. */
const char *test_dir(void);
/* The same, opened; the caller closes it. */
int test_dir_fd(void);
/* Writes a file below test_dir(). */
void test_write_file(const char *name, const void *bytes, size_t len);

__attribute__((noreturn, format(printf, 3, 4))) void test_fail(const char *file, int line,
                                                               const char *fmt, ...);
__attribute__((noreturn, format(printf, 1, 2))) void test_skip(const char *fmt, ...);
/* Said of the test also when it passes: what it counted. */
__attribute__((format(printf, 1, 2))) void test_note(const char *fmt, ...);
void test_check_int(const char *file, int line, const char *what, __int128 got, __int128 wanted);
void test_check_str(const char *file, int line, const char *what, const char *got,
                    const char *wanted);
void test_check_has(const char *file, int line, const char *what, const char *got,
                    const char *part);
void test_check_mem(const char *file, int line, const char *what, const void *got,
                    const void *wanted, size_t len);
bool test_death_begin(void);
__attribute__((noreturn)) void test_death_survived(void);
void test_death_end(const char *file, int line, const char *what, const char *text);

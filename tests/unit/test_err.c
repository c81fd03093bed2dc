#include "base/err.h"

#include <errno.h>

#include "base/mem.h"
#include "base/must.h"
#include "harness/test.h"

TEST(set_fills_and_returns_minus_one)
{
	struct err err = {0};
	CHECK_INT(err_set(&err, ERR_CONFLICT, "sandbox %s is busy", "x"), -1);
	CHECK_INT(err.code, ERR_CONFLICT);
	CHECK_INT(err.sys, 0);
	CHECK_STR(err.msg, "sandbox x is busy");
}

TEST(system_errors_say_why)
{
	struct err err = {0};
	CHECK_INT(err_sys(&err, ENOENT, "open %s", "f"), -1);
	CHECK_STR(err.msg, "open f: No such file or directory");
	CHECK_INT(err.sys, ENOENT);
	CHECK_INT(err.code, ERR_IO);
}

TEST(a_missing_file_of_ours_is_never_not_found)
{
	struct err err = {0};
	(void)err_sys(&err, ENOENT, "open kernel image");
	CHECK_INT(err_http(err.code), 500);
}

TEST(errno_decides_the_code)
{
	static const struct {
		int sys;
		enum err_code code;
	} rows[] = {{ENOSPC, ERR_NO_SPACE},    {EDQUOT, ERR_NO_SPACE},   {EMFILE, ERR_UNAVAILABLE},
	            {ENOMEM, ERR_UNAVAILABLE}, {ETIMEDOUT, ERR_TIMEOUT}, {EACCES, ERR_IO}};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct err err = {0};
		(void)err_sys(&err, rows[i].sys, "x");
		CHECK_INT(err.code, rows[i].code);
	}
}

TEST(wrap_puts_context_first)
{
	struct err err = {0};
	(void)err_sys(&err, EACCES, "open layer");
	CHECK_INT(err_wrap(&err, "start sandbox %d", 7), -1);
	CHECK_STR(err.msg, "start sandbox 7: open layer: Permission denied");
	CHECK_INT(err.sys, EACCES);
	CHECK_INT(err.code, ERR_IO);
}

TEST(long_messages_are_cut)
{
	struct err err = {0};
	char text[1000];
	memset(text, 'a', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	(void)err_set(&err, ERR_INVALID, "%s", text);
	CHECK_INT(strlen(err.msg), sizeof(err.msg) - 1);
	(void)err_sys(&err, EIO, "%s", text);
	CHECK_INT(strlen(err.msg), sizeof(err.msg) - 1);
	(void)err_wrap(&err, "%s", text);
	CHECK_INT(strlen(err.msg), sizeof(err.msg) - 1);
}

TEST(nobody_has_to_listen)
{
	CHECK_INT(err_set(NULL, ERR_INVALID, "x"), -1);
	CHECK_INT(err_sys(NULL, EIO, "x"), -1);
	CHECK_INT(err_wrap(NULL, "x"), -1);
}

TEST(every_code_has_a_row)
{
	for (int i = 0; i < ERR_COUNT_; i++) {
		CHECK(err_name((enum err_code)i) != NULL);
		CHECK(err_http((enum err_code)i) >= 200);
		CHECK(err_exit((enum err_code)i) >= 0 && err_exit((enum err_code)i) < 128);
	}
	CHECK_INT(err_from_number(ERR_GONE), ERR_GONE);
	CHECK_INT(err_from_number(ERR_COUNT_), ERR_INTERNAL);
	CHECK_INT(err_from_number(UINT64_MAX), ERR_INTERNAL);
}

TEST(must_names_the_place)
{
	CHECK_DEATH(must(1 + 1 == 3), "impossible: !(1 + 1 == 3)");
	CHECK_DEATH(must(0), "test_err.c:");
	must(1 + 1 == 2);
}

TEST(memory_is_zeroed_and_formatted)
{
	auto_free char *zeroed = mem_zalloc(16);
	for (size_t i = 0; i < 16; i++)
		CHECK_INT(zeroed[i], 0);
	auto_free char *text = mem_printf("%d-%s", 5, "x");
	CHECK_STR(text, "5-x");
	auto_free char *part = mem_strndup("abcdef", 3);
	CHECK_STR(part, "abc");
	char *secret = mem_strdup("secret");
	mem_wipe_free(secret, 6);
	mem_wipe_free(NULL, 6);
}

TEST(absurd_sizes_abort)
{
	CHECK_DEATH((void)!mem_resize(NULL, SIZE_MAX / 2, 4), "impossible");
}

TEST(ownership_moves)
{
	char *text = mem_strdup("x");
	auto_free char *taken = take_ptr(text);
	CHECK(text == NULL);
	CHECK_STR(taken, "x");
	int fd = 5;
	CHECK_INT(take_fd(&fd), 5);
	CHECK_INT(fd, -1);
}

TEST(others_stand_beside_the_first)
{
	struct err err = {0}, other = {0}, filled = {0};

	(void)err_set(&other, ERR_INVALID, "ports: entry 2: too large");
	err_also(&err, &other);
	CHECK_INT(err.code, ERR_INVALID);
	CHECK_STR(err.msg, "ports: entry 2: too large");
	(void)err_set(&other, ERR_INVALID, "names: entry 1: no name");
	err_also(&err, &other);
	CHECK_STR(err.msg, "ports: entry 2: too large; names: entry 1: no name");
	/* Without room for its reason it is named, and without room for that it is hinted at. */
	memset(filled.msg, 'x', sizeof(filled.msg) - 20);
	err_also(&filled, &other);
	CHECK_STR(filled.msg + sizeof(filled.msg) - 22, "xx; names: entry 1");
	err_also(&filled, &other);
	CHECK_HAS(filled.msg, "…");
	CHECK(strlen(filled.msg) < sizeof(filled.msg));
	memset(filled.msg, 'x', sizeof(filled.msg) - 1);
	err_also(&filled, &other);
	CHECK_INT(strlen(filled.msg), sizeof(filled.msg) - 1);
}

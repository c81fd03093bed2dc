#include "base/log.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/str.h"
#include "harness/test.h"

/* What the statement writes to stderr. */
static char captured[16384];

static int capture_begin(int *ret_saved)
{
	int fd = memfd_create("log", MFD_CLOEXEC);
	CHECK(fd >= 0);
	*ret_saved = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
	CHECK(*ret_saved >= 0);
	CHECK(dup2(fd, STDERR_FILENO) >= 0);
	return fd;
}

static void capture_end(int fd, int saved)
{
	CHECK(dup2(saved, STDERR_FILENO) >= 0);
	ssize_t n = pread(fd, captured, sizeof(captured) - 1, 0);
	captured[n > 0 ? n : 0] = '\0';
	(void)close(fd);
	(void)close(saved);
}

#define CAPTURE(statement)                                                                         \
	do {                                                                                       \
		int saved_ = -1;                                                                   \
		int fd_ = capture_begin(&saved_);                                                  \
		statement;                                                                         \
		capture_end(fd_, saved_);                                                          \
	} while (0)

TEST(a_line_is_one_json_object)
{
	log_setup("keeper", LOG_LEVEL_INFO);
	CAPTURE(log_info("exec ended", LOG_STR("exec", "ex_1"), LOG_INT("status", -3)));
	CHECK_HAS(captured, "{\"time\":\"");
	CHECK_HAS(captured, "\"level\":\"info\",\"role\":\"keeper\",\"message\":\"exec ended\","
	                    "\"exec\":\"ex_1\",\"status\":-3}\n");
}

TEST(a_line_needs_no_fields)
{
	log_setup("x", LOG_LEVEL_DEBUG);
	CAPTURE(log_debug("started"));
	CHECK_HAS(captured, "\"message\":\"started\"}\n");
}

TEST(lower_levels_are_silent)
{
	log_setup("x", LOG_LEVEL_WARN);
	CAPTURE(log_info("nothing"));
	CHECK_STR(captured, "");
	CAPTURE(log_warn("something"));
	CHECK_HAS(captured, "something");
}

TEST(foreign_bytes_stay_inside_their_string)
{
	log_setup("x", LOG_LEVEL_INFO);
	CAPTURE(log_info("name", LOG_STR("value", "a\"}\n{\"\x1b[2J\\\xff")));
	CHECK_HAS(captured, "\"value\":\"a\\\"}\\n{\\\"\\\\x1b[2J\\\\\\\\xff\"}\n");
	CHECK_INT(strcspn(captured, "\n"), strlen(captured) - 1);
}

TEST(errors_have_their_field)
{
	struct err err = {0};
	(void)err_set(&err, ERR_IO, "disk is gone");
	CAPTURE(log_error("write failed", LOG_ERR(&err)));
	CHECK_HAS(captured, "\"error\":\"disk is gone\"");
}

TEST(too_much_is_left_out_whole)
{
	static char huge[10000];
	memset(huge, '\x01', sizeof(huge) - 1);
	CAPTURE(log_info("big", LOG_STR("a", huge), LOG_STR("b", huge), LOG_STR("c", huge),
	                 LOG_STR("d", huge), LOG_STR("e", huge)));
	CHECK(strlen(captured) < 8192);
	CHECK(str_has_suffix(captured, "\"}\n"));
	CHECK_HAS(captured, "…");
}

TEST(levels_have_names)
{
	enum log_level level = LOG_LEVEL_INFO;
	CHECK(log_parse_level("error", &level));
	CHECK_INT(level, LOG_LEVEL_ERROR);
	CHECK(!log_parse_level("loud", &level));
	CHECK_INT(level, LOG_LEVEL_ERROR);
}

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/str.h"
#include "broker/runner.h"
#include "harness/test.h"
#include "os/proc.h"

enum { SOMEBODY = 4321 };

static int run(char *const *argv, uint64_t timeout_ms, struct runner_result *result,
               struct err *err)
{
	struct runner_spec spec = {.argv = argv,
	                           .timeout_ms = timeout_ms,
	                           .change_user = geteuid() == 0,
	                           .uid = SOMEBODY,
	                           .gid = SOMEBODY};
	*err = (struct err){0};
	return runner_run(&spec, result, err);
}

#define ARGV(...) ((char *const[]){__VA_ARGS__, NULL})

static char *output_of(char *const *argv)
{
	struct runner_result result;
	struct err err;
	CHECK_INT(run(argv, 10000, &result, &err), 0);
	CHECK(!result.timed_out);
	char *text = buf_take_string(&result.output);
	runner_done(&result);
	return text;
}

TEST(output_and_exit_code_are_returned)
{
	struct runner_result result;
	struct err err;
	CHECK_INT(
		run(ARGV("/bin/sh", "-c", "echo out; echo err >&2; exit 7"), 10000, &result, &err),
		0);
	CHECK_INT(result.exit_code, 7);
	CHECK_INT(result.signal, 0);
	auto_free char *text = buf_take_string(&result.output);
	CHECK_STR(text, "out\nerr\n");
	runner_done(&result);
	CHECK_INT(run(ARGV("/bin/sh", "-c", "kill -TERM $$"), 10000, &result, &err), 0);
	CHECK_INT(result.signal, SIGTERM);
	runner_done(&result);
}

TEST(there_is_no_shell_in_between)
{
	auto_free char *text = output_of(ARGV("/bin/echo", "$HOME; rm -rf *", "`id`"));
	CHECK_STR(text, "$HOME; rm -rf * `id`\n");
}

TEST(the_environment_is_not_ours)
{
	CHECK_INT(setenv("SECRET", "hunter2", 1), 0);
	auto_free char *text = output_of(ARGV("/usr/bin/env"));
	CHECK_STR(text, "PATH=/usr/local/bin:/usr/bin:/bin\nLANG=C.UTF-8\n");
}

TEST(it_has_no_rights)
{
	auto_free char *text = output_of(
		ARGV("/bin/sh", "-c", "id -u; grep -E 'CapEff|NoNewPrivs' /proc/self/status"));
	auto_free char *uid = mem_printf("%u\n", geteuid() == 0 ? SOMEBODY : (unsigned)geteuid());
	CHECK(str_has_prefix(text, uid));
	CHECK_HAS(text, "CapEff:\t0000000000000000\n");
	CHECK_HAS(text, "NoNewPrivs:\t1\n");
}

TEST(it_gets_no_descriptor_of_ours)
{
	auto_close int leak =
		open("/etc/passwd", O_RDONLY); /* NOLINT(android-cloexec-open): on purpose */
	CHECK(leak >= 0);
	auto_free char *text = output_of(ARGV("/bin/sh", "-c", "ls -l /proc/$$/fd"));
	CHECK(!strstr(text, "passwd"));
}

TEST(a_timeout_ends_everything_it_started)
{
	struct runner_result result;
	struct err err;
	uint64_t before = io_boot_ms();
	CHECK_INT(run(ARGV("/bin/sh", "-c", "setsid sleep 61 & sleep 61 & echo $!; wait"), 500,
	              &result, &err),
	          0);
	CHECK(result.timed_out);
	CHECK(io_boot_ms() - before < 5000);
	auto_free char *text = buf_take_string(&result.output);
	text[strcspn(text, "\n")] = '\0';
	uint64_t pid, start;
	CHECK_INT(str_to_u64(text, &pid), 0);
	CHECK(proc_start_time((pid_t)pid, &start) < 0);
	runner_done(&result);
}

TEST(what_stays_behind_is_ended)
{
	struct runner_result result;
	struct err err;
	uint64_t pid, start, before = io_boot_ms();
	CHECK_INT(run(ARGV("/bin/sh", "-c", "setsid sleep 62 & echo $!"), 10000, &result, &err), 0);
	CHECK(!result.timed_out);
	CHECK(io_boot_ms() - before < 5000);
	auto_free char *text = buf_take_string(&result.output);
	text[strcspn(text, "\n")] = '\0';
	CHECK_INT(str_to_u64(text, &pid), 0);
	CHECK(proc_start_time((pid_t)pid, &start) < 0);
	runner_done(&result);
}

TEST(too_much_output_is_cut_not_kept)
{
	struct runner_result result;
	struct err err;
	CHECK_INT(run(ARGV("/bin/sh", "-c", "head -c 1000000 /dev/zero; exit 3"), 10000, &result,
	              &err),
	          0);
	CHECK(result.is_cut);
	CHECK_INT(result.exit_code, 3);
	CHECK_INT(buf_len(&result.output), RUNNER_OUTPUT_MAX);
	runner_done(&result);
}

TEST(programs_are_absolute_and_safe)
{
	struct runner_result result;
	struct err err;
	CHECK_INT(run(ARGV("echo"), 1000, &result, &err), -1);
	CHECK_INT(err.code, ERR_INVALID);
	CHECK_INT(run(ARGV("/no/such/program"), 1000, &result, &err), -1);
	CHECK_INT(err.code, ERR_NOT_FOUND);
	CHECK_INT(run(ARGV("/tmp"), 1000, &result, &err), -1);
	auto_free char *path = mem_printf("%s/hook", test_dir());
	test_write_file("hook", "#!/bin/sh\n", 10);
	CHECK_INT(chmod(path, 0777), 0);
	CHECK_INT(run(ARGV(path), 1000, &result, &err), -1);
	CHECK_INT(err.code, ERR_FORBIDDEN);
}

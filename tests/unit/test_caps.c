#include "os/caps.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/test.h"

static void need_root(void)
{
	if (geteuid() != 0)
		SKIP("needs root");
}

TEST(limit_keeps_only_what_was_asked)
{
	need_root();
	CHECK(caps_has(CAP_CHOWN));
	CHECK_INT(caps_limit(CAPS_BIT(CAP_CHOWN) | CAPS_BIT(CAP_KILL)), 0);
	CHECK(caps_has(CAP_CHOWN));
	CHECK(caps_has(CAP_KILL));
	CHECK(!caps_has(CAP_SYS_ADMIN));
	CHECK_INT(prctl(PR_CAPBSET_READ, CAP_SYS_ADMIN, 0, 0, 0), 0);
	CHECK_INT(prctl(PR_CAPBSET_READ, CAP_CHOWN, 0, 0, 0), 1);
	/* what is gone does not come back, and asking is no error */
	CHECK_INT(caps_limit(CAPS_BIT(CAP_CHOWN) | CAPS_BIT(CAP_KILL) | CAPS_BIT(CAP_SYS_ADMIN)),
	          0);
	CHECK(caps_has(CAP_KILL));
	CHECK(!caps_has(CAP_SYS_ADMIN));
}

TEST(clear_leaves_nothing)
{
	CHECK_INT(caps_clear(), 0);
	for (int cap = 0; cap < 41; cap++)
		CHECK(!caps_has(cap));
}

TEST(becoming_somebody_is_for_good)
{
	need_root();
	CHECK_INT(caps_become(12345, 23456, 0), 0);
	CHECK_INT(getuid(), 12345);
	CHECK_INT(getegid(), 23456);
	CHECK_INT(getgroups(0, NULL), 0);
	CHECK(!caps_has(CAP_SETUID));
	CHECK_INT(setuid(0), -1);
}

TEST(capabilities_survive_the_change_when_kept)
{
	need_root();
	CHECK_INT(caps_become(12345, 23456, CAPS_BIT(CAP_DAC_READ_SEARCH)), 0);
	CHECK_INT(geteuid(), 12345);
	CHECK(caps_has(CAP_DAC_READ_SEARCH));
	CHECK(!caps_has(CAP_CHOWN));
	CHECK_INT(caps_clear(), 0);
	CHECK(!caps_has(CAP_DAC_READ_SEARCH));
}

TEST(an_ordinary_user_cannot_become_another)
{
	need_root();
	CHECK_INT(caps_become(12345, 23456, 0), 0);
	CHECK_INT(caps_become(12346, 23456, 0), -EPERM);
}

TEST(switches_hold)
{
	CHECK_INT(caps_no_new_privs(), 0);
	CHECK_INT(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0), 1);
	CHECK_INT(caps_not_dumpable(), 0);
	CHECK_INT(prctl(PR_GET_DUMPABLE, 0, 0, 0, 0), 0);
}

TEST(only_listed_descriptors_stay_open)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		for (int fd = 3; fd < 20; fd++)
			(void)dup2(0, fd);
		const int keep[] = {12, 0, 5, 2, -1, 5};
		if (caps_close_fds_except(keep, 6) < 0)
			_exit(100);
		for (int fd = 0; fd < 30; fd++) {
			bool is_open = fcntl(fd, F_GETFD) >= 0;
			if (is_open != (fd == 0 || fd == 2 || fd == 5 || fd == 12))
				_exit(fd + 1);
		}
		if (caps_close_fds_except(NULL, 0) < 0 || fcntl(0, F_GETFD) >= 0)
			_exit(101);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK_INT(status, 0);
}

#include "os/proc.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/test.h"

TEST(boot_id_has_its_shape)
{
	char id[37] = "";

	CHECK_INT(proc_boot_id(id), 0);
	CHECK_INT(strlen(id), 36);
	CHECK(id[8] == '-' && id[13] == '-');
}

TEST(identity_of_ourselves)
{
	uint64_t start = 0, again = 0;
	pid_t parent = 0;

	CHECK_INT(proc_start_time(getpid(), &start), 0);
	CHECK(start > 0);
	/* a hostile name does not move the fields */
	CHECK(prctl(PR_SET_NAME, ") Z 1 (x) 9", 0, 0, 0) == 0);
	CHECK_INT(proc_start_time(getpid(), &again), 0);
	CHECK_INT(again, start);
	CHECK(proc_is_alive(getpid(), start));
	CHECK(!proc_is_alive(getpid(), start + 1));
	CHECK_INT(proc_parent(getpid(), &parent), 0);
	CHECK_INT(parent, getppid());
}

TEST(a_zombie_is_not_alive)
{
	uint64_t start = 0;
	siginfo_t info;
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	CHECK(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) == 0);
	CHECK_INT(proc_start_time(pid, &start), -ESRCH);
	CHECK(waitpid(pid, NULL, 0) == pid);
	CHECK_INT(proc_start_time(pid, &start), -ESRCH);
	CHECK_INT(proc_pidfd_open(pid), -ESRCH);
}

TEST(the_list_has_us_in_it)
{
	auto_free pid_t *pids = NULL;
	size_t count = 0;
	bool is_found = false;

	CHECK_INT(proc_list(&pids, &count), 0);
	for (size_t i = 0; i < count; i++)
		is_found |= pids[i] == getpid();
	CHECK(is_found);
	auto_close int fd = proc_pidfd_open(getpid());
	CHECK(fd >= 0);
}

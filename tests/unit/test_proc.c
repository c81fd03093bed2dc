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

/* An orphan that comes to somebody who collects them, not to process 1. */
TEST(who_lost_its_parent_before_it_could_ask_is_told)
{
	int go[2], status = 0;
	pid_t orphan = -1;

	CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0);
	CHECK(pipe(go) == 0);
	pid_t parent = fork();
	if (parent == 0) {
		pid_t self = getpid();
		char byte;

		orphan = fork();
		if (orphan != 0)
			_exit(0);
		close(go[1]);
		(void)!read(go[0], &byte, 1); /* until the parent was collected */
		_exit(proc_die_with(self) == -ESRCH ? 42 : 1);
	}
	CHECK_INT(waitpid(parent, &status, 0), parent);
	close(go[0]);
	close(go[1]);
	CHECK(wait(&status) > 0);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 42);
}

TEST(who_asked_dies_with_its_parent)
{
	int said[2], status = 0;
	char byte;

	CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0);
	CHECK(pipe(said) == 0);
	pid_t parent = fork();
	if (parent == 0) {
		pid_t self = getpid();

		if (fork() == 0) {
			if (proc_die_with(self) != 0 || write(said[1], "x", 1) != 1)
				_exit(1);
			for (;;)
				pause();
		}
		for (;;)
			pause();
	}
	CHECK_INT(read(said[0], &byte, 1), 1);
	CHECK_INT(kill(parent, SIGKILL), 0);
	CHECK_INT(waitpid(parent, &status, 0), parent);
	CHECK(wait(&status) > 0);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	close(said[0]);
	close(said[1]);
}

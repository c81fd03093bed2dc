#include "os/ns.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/io.h"
#include "harness/test.h"

static void need_root(void)
{
	if (geteuid() != 0)
		SKIP("needs root");
}

static int finish(pid_t pid)
{
	int status;

	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK(WIFEXITED(status));
	return WEXITSTATUS(status);
}

TEST(a_user_namespace_is_held_by_its_descriptor)
{
	const struct ns_map map[] = {{0, 500000, 1000}, {1000, 700000, 1}};
	int fd = -1;

	need_root();
	int r = ns_user_create(map, 2, map, 1, false, &fd);
	if (r == -EPERM || r == -ENOSPC)
		SKIP("user namespaces are not allowed here");
	CHECK_INT(r, 0);
	/* the helper is gone, and was nobody's child to reap */
	CHECK_INT(waitpid(-1, NULL, WNOHANG | __WALL), -1);
	CHECK_INT(errno, ECHILD);
	pid_t pid = fork();
	if (pid == 0) {
		auto_free char *text = NULL;
		if (ns_enter(fd, CLONE_NEWUSER) < 0 ||
		    io_read_file(AT_FDCWD, "/proc/self/uid_map", 4096, &text, NULL) < 0)
			_exit(1);
		unsigned int first[3] = {0}, second[3] = {0};
		int n = sscanf(text, "%u %u %u %u %u %u", &first[0], &first[1], &first[2],
		               &second[0], &second[1], &second[2]);
		_exit(n == 6 && first[1] == 500000 && second[0] == 1000 && second[1] == 700000 ? 0
		                                                                               : 2);
	}
	CHECK_INT(finish(pid), 0);
	close(fd);
}

TEST(an_ordinary_user_maps_itself)
{
	int fd = -1;

	if (geteuid() == 0 && setresuid(65534, 65534, 65534) < 0)
		SKIP("cannot become an ordinary user");
	/* as in a process that never was anybody else */
	CHECK(prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) == 0);
	const struct ns_map uid = {0, geteuid(), 1};
	const struct ns_map gid = {0, getegid(), 1};
	int r = ns_user_create(&uid, 1, &gid, 1, true, &fd);
	if (r == -EPERM || r == -ENOSPC || r == -EACCES)
		SKIP("unprivileged user namespaces are not allowed here");
	CHECK_INT(r, 0);
	close(fd);
	/* somebody else's id is refused, and no process is left */
	const struct ns_map stolen = {0, 1, 1};
	CHECK_INT(ns_user_create(&stolen, 1, &gid, 1, true, &fd), -EPERM);
	CHECK_INT(waitpid(-1, NULL, WNOHANG | __WALL), -1);
}

TEST(too_many_map_lines_are_refused)
{
	static struct ns_map maps[400];
	int fd = -1;

	need_root();
	for (size_t i = 0; i < 400; i++)
		maps[i] = (struct ns_map){(uint32_t)i * 2, 500000000 + (uint32_t)i * 2, 1};
	int r = ns_user_create(maps, 400, maps, 1, false, &fd);
	CHECK(r < 0);
	CHECK_INT(fd, -1);
}

TEST(clone_gives_a_pidfd_and_namespaces)
{
	int pidfd = -1;

	need_root();
	pid_t pid = ns_clone(CLONE_NEWPID | CLONE_NEWUTS, -1, &pidfd);
	if (pid == 0)
		_exit(getpid() == 1 ? 7 : 1);
	if (pid == -EPERM)
		SKIP("no pid namespace");
	CHECK(pid > 0);
	CHECK(pidfd >= 0);
	CHECK_INT(finish(pid), 7);
	close(pidfd);
}

TEST(open_names_the_namespace_of_a_process)
{
	struct stat one, two;
	auto_close int self = ns_open(0, "net");
	auto_close int same = ns_open(getpid(), "net");

	CHECK(self >= 0 && same >= 0);
	CHECK(fstat(self, &one) == 0 && fstat(same, &two) == 0);
	CHECK_INT(one.st_ino, two.st_ino);
	CHECK_INT(ns_open(getpid(), "nonsense"), -ENOENT);
}

TEST(time_offsets_reach_the_next_child)
{
	struct timespec before, after;

	need_root();
	if (ns_unshare(CLONE_NEWTIME) < 0)
		SKIP("no time namespaces");
	CHECK_INT(ns_time_offsets(0, 100000), 0);
	CHECK(clock_gettime(CLOCK_BOOTTIME, &before) == 0);
	pid_t pid = fork();
	if (pid == 0) {
		(void)clock_gettime(CLOCK_BOOTTIME, &after);
		_exit(after.tv_sec - before.tv_sec >= 100000 ? 0 : 1);
	}
	CHECK_INT(finish(pid), 0);
}

#include "os/landlock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/test.h"
#include "os/caps.h"

static void need_landlock(int abi)
{
	if (landlock_abi() < abi)
		SKIP("Landlock ABI %d is not offered here", abi);
}

static int open_as(int dir, const char *path, int flags)
{
	auto_close int fd = openat(dir, path, flags | O_CLOEXEC, 0600);

	return fd < 0 ? -errno : 0;
}

/* test_dir() with read/, write/, all/, none/, each with a file; restricted accordingly. */
static int restrict_tree(void)
{
	static const char *const names[] = {"read", "write", "all", "none"};
	static const struct landlock_rule rules[] = {
		{"read", LANDLOCK_READ},   {"/write", LANDLOCK_WRITE_FILES},
		{"all", LANDLOCK_ALL},     {"read/file", LANDLOCK_READ},
		{"missing", LANDLOCK_ALL},
	};
	char path[64];
	int dir = test_dir_fd();

	for (size_t i = 0; i < 4; i++) {
		CHECK(mkdirat(dir, names[i], 0777) == 0);
		(void)snprintf(path, sizeof(path), "%s/file", names[i]);
		test_write_file(path, "x", 1);
	}
	CHECK_INT(caps_no_new_privs(), 0);
	CHECK_INT(landlock_restrict(dir, rules, 5, LANDLOCK_NO_TCP), 0);
	return dir;
}

TEST(rules_decide_what_opens)
{
	need_landlock(1);
	pid_t pid = fork();
	if (pid == 0) { /* in a child: the harness cleans up outside the domain */
		auto_close int dir = restrict_tree();
		CHECK_INT(open_as(dir, "read/file", O_RDONLY), 0);
		CHECK_INT(open_as(dir, "read/file", O_WRONLY), -EACCES);
		CHECK_INT(open_as(dir, "read/new", O_WRONLY | O_CREAT), -EACCES);
		CHECK_INT(open_as(dir, "write/file", O_RDWR), 0);
		CHECK_INT(open_as(dir, "write/new", O_WRONLY | O_CREAT), -EACCES);
		CHECK_INT(unlinkat(dir, "write/file", 0), -1);
		CHECK_INT(open_as(dir, "all/new", O_WRONLY | O_CREAT), 0);
		CHECK_INT(mkdirat(dir, "all/dir", 0755), 0);
		CHECK_INT(unlinkat(dir, "all/file", 0), 0);
		CHECK_INT(open_as(dir, "none/file", O_RDONLY), -EACCES);
		CHECK_INT(open_as(AT_FDCWD, "/etc/passwd", O_RDONLY), -EACCES);
		_exit(0);
	}
	int status;
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK_INT(status, 0);
}

TEST(without_no_new_privs_an_ordinary_user_is_refused)
{
	need_landlock(1);
	if (geteuid() == 0)
		CHECK_INT(caps_become(65534, 65534, 0), 0);
	auto_close int root = open("/", O_PATH | O_CLOEXEC);
	CHECK_INT(landlock_restrict(root, NULL, 0, 0), -EPERM);
}

TEST(tcp_is_refused_when_asked)
{
	need_landlock(4);
	struct sockaddr_in address = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	auto_close int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	auto_close int root = open("/", O_PATH | O_CLOEXEC);
	const struct landlock_rule everything = {"/", LANDLOCK_ALL};

	CHECK(fd >= 0 && root >= 0);
	CHECK_INT(caps_no_new_privs(), 0);
	CHECK_INT(landlock_restrict(root, &everything, 1, LANDLOCK_NO_TCP), 0);
	CHECK_INT(bind(fd, (const struct sockaddr *)&address, sizeof(address)), -1);
	CHECK_INT(errno, EACCES);
}

TEST(signals_stay_in_the_domain)
{
	need_landlock(6);
	pid_t outside = getpid();
	pid_t pid = fork();
	if (pid == 0) {
		auto_close int root = open("/", O_PATH | O_CLOEXEC);
		if (caps_no_new_privs() < 0 || landlock_restrict(root, NULL, 0, 0) < 0)
			_exit(1);
		_exit(kill(outside, 0) < 0 && errno == EPERM && kill(getpid(), 0) == 0 ? 0 : 2);
	}
	int status;
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK_INT(status, 0);
}

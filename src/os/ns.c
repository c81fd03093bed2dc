#include "os/ns.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdalign.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "os/proc.h"
#include "os/syscalls.h"

/* A map file takes one write of at most one page, and the kernel 340 lines. */
enum { MAP_TEXT_BYTES = 4096, MAP_PATH_BYTES = 64, HOLDER_STACK_BYTES = 16 * 1024 };

/* clone(2) for kernels or outer sandboxes that hide clone3. The raw argument order of the last two
 * differs between architectures, but both are unused here. */
static pid_t clone_old(uint64_t flags, int exit_signal, int *pidfd)
{
	return (pid_t)syscall(SYS_clone, (unsigned long)flags | (unsigned long)exit_signal, NULL,
	                      pidfd, NULL, NULL);
}

static pid_t clone_any(uint64_t flags, int exit_signal, int cgroup_fd, int *ret_pidfd)
{
	int pidfd = -1;
	struct sys_clone_args args = {
		.flags = flags,
		.exit_signal = (uint64_t)exit_signal,
	};

	if (ret_pidfd) {
		args.flags |= CLONE_PIDFD;
		args.pidfd = (uint64_t)(uintptr_t)&pidfd;
	}
	if (cgroup_fd >= 0) {
		args.flags |= CLONE_INTO_CGROUP;
		args.cgroup = (uint64_t)cgroup_fd;
	}

	pid_t pid = sys_clone3(&args);
	if (pid < 0 && errno == ENOSYS && cgroup_fd < 0)
		pid = clone_old(args.flags, exit_signal, &pidfd);
	if (pid < 0)
		return -errno;
	if (pid > 0 && ret_pidfd)
		*ret_pidfd = pidfd;
	return pid;
}

pid_t ns_clone(uint64_t flags, int cgroup_fd, int *ret_pidfd)
{
	/* The kernel refuses a signal of one's own for a sibling. */
	int exit_signal = flags & CLONE_PARENT ? 0 : SIGCHLD;

	return clone_any(flags, exit_signal, cgroup_fd, ret_pidfd);
}

static int write_map(pid_t pid, const char *file, const struct ns_map *maps, size_t count)
{
	char path[MAP_PATH_BYTES];
	char text[MAP_TEXT_BYTES];
	size_t len = 0;

	for (size_t i = 0; i < count; i++) {
		int n = snprintf(text + len, sizeof(text) - len, "%u %u %u\n", maps[i].inside,
		                 maps[i].outside, maps[i].count);
		if (n < 0 || (size_t)n >= sizeof(text) - len)
			return -E2BIG;
		len += (size_t)n;
	}
	if (len == 0)
		return 0;
	(void)snprintf(path, sizeof(path), "/proc/%d/%s", pid, file); /* cannot be too long */
	return io_write_ctl(AT_FDCWD, path, text);
}

int ns_write_maps(pid_t pid, const struct ns_map *uids, size_t uid_count, const struct ns_map *gids,
                  size_t gid_count, bool deny_setgroups)
{
	char path[MAP_PATH_BYTES];
	int r;

	/* Without privilege the gid map is refused until setgroups is denied (CVE-2014-8989). */
	if (deny_setgroups) {
		(void)snprintf(path, sizeof(path), "/proc/%d/setgroups",
		               pid); /* cannot be too long */
		r = io_write_ctl(AT_FDCWD, path, "deny");
		if (r < 0)
			return r;
	}
	r = write_map(pid, "uid_map", uids, uid_count);
	if (r == 0)
		r = write_map(pid, "gid_map", gids, gid_count);
	/* Everybody in the namespace may write this one while it is empty: it is ours to fill. It
	 * fails where the namespace above has none, and then nobody can fill it later. */
	if (r == 0)
		(void)write_map(pid, "projid_map", uids, uid_count);
	return r;
}

/* In the caller's memory, on a stack of its own: it changes nothing but that. */
static int hold_namespace(void *ctx)
{
	const pid_t *parent = ctx;

	if (proc_die_with(*parent) < 0)
		_exit(1);
	for (;;)
		pause();
}

/* Copying the caller's memory would be most of the price. No exit signal: the caller's loop must
 * not see a child it never started. */
static pid_t clone_holder(uint8_t *stack, size_t size, pid_t *parent)
{
	pid_t pid = clone(hold_namespace, stack + size, CLONE_NEWUSER | CLONE_VM, parent);

	return pid < 0 ? -errno : pid;
}

int ns_user_create(const struct ns_map *uids, size_t uid_count, const struct ns_map *gids,
                   size_t gid_count, bool deny_setgroups, int *ret_fd)
{
	alignas(16) uint8_t stack[HOLDER_STACK_BYTES];
	auto_close int fd = -1;
	pid_t parent = getpid();

	pid_t pid = clone_holder(stack, sizeof(stack), &parent);
	if (pid < 0)
		return pid;
	int r = ns_write_maps(pid, uids, uid_count, gids, gid_count, deny_setgroups);
	if (r == 0)
		r = fd = ns_open(pid, "user");
	(void)kill(pid, SIGKILL); /* our own unreaped child: it exists */
	while (waitpid(pid, NULL, __WALL) < 0 && errno == EINTR)
		;
	if (r < 0)
		return r;
	*ret_fd = take_fd(&fd);
	return 0;
}

int ns_enter(int fd, int type)
{
	return setns(fd, type) < 0 ? -errno : 0;
}

int ns_unshare(int flags)
{
	return unshare(flags) < 0 ? -errno : 0;
}

int ns_open(pid_t pid, const char *name)
{
	char path[MAP_PATH_BYTES];
	int n;

	if (pid == 0)
		n = snprintf(path, sizeof(path), "/proc/self/ns/%s", name);
	else
		n = snprintf(path, sizeof(path), "/proc/%d/ns/%s", pid, name);
	if (n < 0 || (size_t)n >= sizeof(path))
		return -ENAMETOOLONG;

	int fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int ns_time_offsets(int64_t monotonic_s, int64_t boottime_s)
{
	char text[96];

	(void)snprintf(text, sizeof(text), "monotonic %lld 0\nboottime %lld 0\n",
	               (long long)monotonic_s, (long long)boottime_s); /* cannot be too long */
	return io_write_ctl(AT_FDCWD, "/proc/self/timens_offsets", text);
}

bool ns_is_initial_user(void)
{
	auto_free char *text = NULL;
	size_t len;
	unsigned long inside, outside, count;

	if (io_read_file(AT_FDCWD, "/proc/self/uid_map", MAP_TEXT_BYTES, &text, &len) < 0)
		return false;
	return sscanf(text, "%lu %lu %lu", &inside, &outside, &count) == 3 && inside == 0 &&
	       outside == 0 && count == UINT32_MAX;
}

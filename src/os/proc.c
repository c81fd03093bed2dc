#include "os/proc.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/io.h"
#include "os/syscalls.h"

enum { STAT_BYTES = 2048, UUID_LEN = 36 };

int proc_boot_id(char out[37])
{
	static char known[UUID_LEN + 1]; /* as long as we run it does not change */
	auto_free char *text = NULL;
	size_t len;

	if (!known[0]) {
		int r = io_read_file(AT_FDCWD, "/proc/sys/kernel/random/boot_id", 64, &text, &len);
		if (r < 0)
			return r;
		if (len < UUID_LEN)
			return -EBADMSG;
		memcpy(known, text, UUID_LEN);
	}
	memcpy(out, known, sizeof(known));
	return 0;
}

struct stat_fields {
	char state;
	pid_t parent;
	uint64_t start_time;
};

/* Fields 3 (state), 4 (ppid) and 22 (starttime) of proc(5). The name in field 2 is chosen by the
 * process and may hold spaces and brackets: only what follows the last bracket counts. */
static int read_stat(pid_t pid, struct stat_fields *ret)
{
	auto_free char *text = NULL;
	char path[32];
	size_t len;

	(void)snprintf(path, sizeof(path), "/proc/%d/stat", pid); /* cannot be too long */
	int r = io_read_file(AT_FDCWD, path, STAT_BYTES, &text, &len);
	if (r < 0)
		return r == -ENOENT ? -ESRCH : r;

	const char *rest = strrchr(text, ')');
	unsigned long long start;
	int parent;
	if (!rest || sscanf(rest + 1,
	                    " %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d"
	                    " %*d %*d %llu",
	                    &ret->state, &parent, &start) != 3)
		return -EBADMSG;
	ret->parent = parent;
	ret->start_time = start;
	return 0;
}

int proc_start_time(pid_t pid, uint64_t *ret)
{
	struct stat_fields fields;
	int r = read_stat(pid, &fields);

	if (r < 0)
		return r;
	if (fields.state == 'Z' || fields.state == 'X')
		return -ESRCH;
	*ret = fields.start_time;
	return 0;
}

bool proc_is_alive(pid_t pid, uint64_t start_time)
{
	uint64_t now;

	return proc_start_time(pid, &now) == 0 && now == start_time;
}

int proc_parent(pid_t pid, pid_t *ret)
{
	struct stat_fields fields;
	int r = read_stat(pid, &fields);

	if (r < 0)
		return r;
	*ret = fields.parent;
	return 0;
}

static void close_dirp(DIR **dir)
{
	if (*dir)
		(void)closedir(*dir); /* read only: nothing to lose */
}

int proc_list(pid_t **ret_pids, size_t *ret_count)
{
	auto_(close_dirp) DIR *dir = opendir("/proc");
	auto_free pid_t *pids = NULL;
	size_t count = 0, size = 0;

	if (!dir)
		return -errno;
	for (;;) {
		errno = 0;
		const struct dirent *entry = readdir(dir);
		if (!entry && errno)
			return -errno;
		if (!entry)
			break;
		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		if (count == size) {
			size = size ? size * 2 : 64;
			pid_t *more = reallocarray(pids, size, sizeof(*pids));
			if (!more)
				return -ENOMEM;
			pids = more;
		}
		pids[count++] = (pid_t)strtol(entry->d_name, NULL, 10);
	}
	*ret_pids = take_ptr(pids);
	*ret_count = count;
	return 0;
}

int proc_pidfd_open(pid_t pid)
{
	int fd = sys_pidfd_open(pid, 0);

	return fd < 0 ? -errno : fd;
}

int proc_die_with(pid_t parent)
{
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
		return -errno;
	return getppid() == parent ? 0 : -ESRCH;
}

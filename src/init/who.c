#include "init/who.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "os/proc.h"

/* A sandbox may have thousands of sockets and descriptors: it is not served for ever. Counted is
 * the time this process works: on a busy machine a program has its name, too. */
enum { TABLE_MOST = 1024 * 1024, PATIENCE_US = 20 * 1000 };

static uint64_t worked_us(void)
{
	struct timespec now;
	(void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now); /* cannot fail for oneself */
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* "sl local remote state … inode": the tables of /proc/net. 0: not in this one. */
static unsigned long inode_in(const char *table, uint16_t port, uint16_t remote)
{
	auto_free char *text = NULL;
	size_t len;
	unsigned long found = 0;
	if (io_read_file(AT_FDCWD, table, TABLE_MOST, &text, &len) < 0)
		return 0;
	for (char *line = strchr(text, '\n'); line; line = strchr(line + 1, '\n')) {
		unsigned local_port, remote_port;
		unsigned long inode;
		if (sscanf(line,
		           " %*u: %*[0-9A-Fa-f]:%x %*[0-9A-Fa-f]:%x %*x %*s %*s %*s %*s %*s %lu",
		           &local_port, &remote_port, &inode) != 3 ||
		    local_port != port || inode == 0)
			continue;
		if (remote_port == remote)
			return inode;
		if (remote_port == 0)
			found = inode; /* not connected: the next best */
	}
	return found;
}

/* Whose files are whose is judged by the file system ids: with those of the process its descriptors
 * can be seen, without a right that init could do anything else with. */
static DIR *open_fds(pid_t pid)
{
	char path[32];
	struct stat st;
	(void)snprintf(path, sizeof(path), "/proc/%d", (int)pid);
	if (stat(path, &st) < 0)
		return NULL;
	(void)setfsgid(st.st_gid);
	(void)setfsuid(st.st_uid);
	(void)snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	return opendir(path);
}

static bool has_socket(pid_t pid, const char *wanted, uint64_t until_us)
{
	char target[64];
	DIR *dir = open_fds(pid);
	struct dirent *entry;
	bool is_found = false;
	if (!dir)
		return false;
	while (!is_found && worked_us() < until_us &&
	       (entry = readdir(dir)) != NULL) { /* NOLINT(concurrency-mt-unsafe): one thread */
		ssize_t n = readlinkat(dirfd(dir), entry->d_name, target, sizeof(target) - 1);
		target[n > 0 ? n : 0] = '\0';
		is_found = strcmp(target, wanted) == 0;
	}
	(void)closedir(dir);
	return is_found;
}

void who_is(pid_t pid, char ret_name[WHO_NAME])
{
	char path[32];
	auto_free char *text = NULL;
	size_t len = 0;
	(void)snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
	ret_name[0] = '\0';
	if (io_read_file(AT_FDCWD, path, 2 * WHO_NAME, &text, &len) < 0)
		return;
	text[strcspn(text, "\n")] = '\0';
	(void)snprintf(ret_name, WHO_NAME, "%s", text);
}

bool who_has(bool is_tcp, uint16_t port, uint16_t remote, pid_t *ret_pid, char ret_name[WHO_NAME])
{
	static const char *const tables[][2] = {{"/proc/net/udp", "/proc/net/udp6"},
	                                        {"/proc/net/tcp", "/proc/net/tcp6"}};
	uint64_t until_us = worked_us() + PATIENCE_US;
	unsigned long inode = inode_in(tables[is_tcp][0], port, remote);
	if (inode == 0)
		inode = inode_in(tables[is_tcp][1], port, remote);
	auto_free pid_t *pids = NULL;
	size_t count = 0;
	char wanted[48];
	if (inode == 0 || proc_list(&pids, &count) < 0)
		return false;
	(void)snprintf(wanted, sizeof(wanted), "socket:[%lu]", inode);
	size_t at = count;
	bool is_found = false;
	/* The youngest first: who just connected has likely just started. */
	while (!is_found && at > 0 && worked_us() < until_us)
		is_found = has_socket(pids[--at], wanted, until_us);
	(void)setfsuid(getuid());
	(void)setfsgid(getgid());
	if (!is_found)
		return false;
	*ret_pid = pids[at];
	who_is(pids[at], ret_name);
	return true;
}

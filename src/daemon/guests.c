#include "daemon/guests.h"

#include <stdio.h>
#include <sys/stat.h>

/* SO_PEERCRED shows pid 0 for a process that our namespace cannot see; one in a child namespace
 * has a pid here and another namespace. */
static bool shares_pid_namespace(pid_t pid)
{
	struct stat own, other;
	char path[64];

	if (pid <= 0)
		return false;
	(void)snprintf(path, sizeof(path), "/proc/%d/ns/pid", (int)pid); /* fits */
	return stat("/proc/self/ns/pid", &own) == 0 && stat(path, &other) == 0 &&
	       own.st_dev == other.st_dev && own.st_ino == other.st_ino;
}

bool guests_allow(const struct guests *guests, uid_t uid, pid_t pid)
{
	if (uid == 0 && guests->own != 0)
		return true;
	return (uid == guests->owner || uid == guests->own) && shares_pid_namespace(pid);
}

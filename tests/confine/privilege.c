/*
 * E02 and the state a workload starts in: descriptors, environment, identities, capabilities,
 * limits and what a process may change about itself.
 */
#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "probe.h"

extern char **environ;

static struct verdict only_standard_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	if (!dir)
		return broken("no /proc/self/fd");
	struct verdict verdict = held(0, "0, 1 and 2 only");
	for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
		int fd = (int)strtol(entry->d_name, NULL, 10);
		if (entry->d_name[0] == '.' || fd <= 2 || fd == dirfd(dir))
			continue;
		char path[64], target[64] = "";
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		if (readlink(path, target, sizeof(target) - 1) < 0)
			target[0] = '\0';
		verdict = broken("fd %d is %s", fd, target);
	}
	closedir(dir);
	return verdict;
}

/* A socket to one of the processes outside could be reconnected or carry descriptors. */
static struct verdict standard_fds_are_plain(void)
{
	for (int fd = 0; fd <= 2; fd++) {
		struct stat info;
		if (fstat(fd, &info) < 0)
			continue;
		if (!S_ISFIFO(info.st_mode) && !S_ISCHR(info.st_mode) && !S_ISREG(info.st_mode))
			return broken("fd %d has type %o", fd, info.st_mode & S_IFMT);
	}
	return held(0, "pipes, terminals or files");
}

static struct verdict environment_is_clean(void)
{
	static const char *const foreign[] = {
		"SSH_AUTH_SOCK", "AWS_",  "GITHUB_TOKEN", "CLOCHE_STATE",  "XDG_RUNTIME_DIR",
		"DBUS_",         "SUDO_", "LD_",          "NOTIFY_SOCKET", "CANARY"};
	for (char **entry = environ; *entry; entry++)
		for (size_t i = 0; i < ATTEMPT_COUNT(foreign); i++)
			if (strncmp(*entry, foreign[i], strlen(foreign[i])) == 0)
				return broken("%.60s", *entry);
	return held(0, "nothing of the host's");
}

/* The line "Name:\tvalue" of /proc/self/status. */
static bool status_field(const char *name, char *out, size_t size)
{
	FILE *file = fopen("/proc/self/status", "re");
	if (!file)
		return false;
	char line[256];
	bool found = false;
	size_t len = strlen(name);
	while (!found && fgets(line, sizeof(line), file)) {
		if (strncmp(line, name, len) != 0 || line[len] != ':')
			continue;
		char *value = line + len + 1 + strspn(line + len + 1, " \t");
		value[strcspn(value, "\n")] = '\0';
		snprintf(out, size, "%s", value);
		found = true;
	}
	fclose(file);
	return found;
}

static struct verdict no_capabilities(void)
{
	static const char *const sets[] = {"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"};
	for (size_t i = 0; i < ATTEMPT_COUNT(sets); i++) {
		char value[64] = "";
		if (!status_field(sets[i], value, sizeof(value)))
			return broken("no %s", sets[i]);
		if (strtoull(value, NULL, 16) != 0)
			return broken("%s is %s", sets[i], value);
	}
	return held(0, "all five sets empty");
}

static struct verdict filters_are_on(void)
{
	char privs[8] = "", seccomp[8] = "";
	status_field("NoNewPrivs", privs, sizeof(privs));
	status_field("Seccomp", seccomp, sizeof(seccomp));
	if (strcmp(privs, "1") != 0 || strcmp(seccomp, "2") != 0)
		return broken("NoNewPrivs %s, Seccomp %s", privs, seccomp);
	return held(0, "no new privileges, filter on");
}

static struct verdict raise_capability(void)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct sets[2] = {{.effective = ~0U, .permitted = ~0U}};
	return REFUSED(syscall(SYS_capset, &head, sets), EPERM, ENOSYS);
}

static struct verdict raise_ambient(void)
{
	return REFUSED(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_SYS_ADMIN, 0, 0), EPERM,
	               EINVAL);
}

static struct verdict undo_no_new_privs(void)
{
	return REFUSED(prctl(PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0), EINVAL, EPERM);
}

/* Whoever we are: another identity than the one we have, 0 included, must be out of reach. */
static struct verdict change_identity(void)
{
	uid_t wanted = getuid() == 0 ? 1000 : 0;
	if (setresuid(wanted, wanted, wanted) == 0 && wanted == 0)
		return broken("became root");
	gid_t group = 0;
	if (getuid() != 0 && setgroups(1, &group) == 0)
		return broken("setgroups works");
	return held(EPERM, "stays uid %u", getuid());
}

static struct verdict raise_open_files(void)
{
	struct rlimit limit;
	getrlimit(RLIMIT_NOFILE, &limit);
	struct rlimit higher = {.rlim_cur = limit.rlim_max + 1, .rlim_max = limit.rlim_max + 1};
	return REFUSED(setrlimit(RLIMIT_NOFILE, &higher), EPERM);
}

static struct verdict limit_somebody_else(void)
{
	struct rlimit limit = {.rlim_cur = 1, .rlim_max = 1};
	return REFUSED(prlimit(1, RLIMIT_NOFILE, &limit, NULL), EPERM, EACCES);
}

static struct verdict real_time(void)
{
	struct sched_param param = {.sched_priority = 1};
	return REFUSED(sched_setscheduler(0, SCHED_FIFO, &param), EPERM, ENOSYS);
}

static struct verdict deadline_scheduling(void)
{
	struct {
		uint32_t size, policy;
		uint64_t flags;
		int32_t nice;
		uint32_t priority;
		uint64_t runtime, deadline, period;
	} attr = {.size = sizeof(attr),
	          .policy = 6,
	          .runtime = 10000000,
	          .deadline = 20000000,
	          .period = 20000000};
	return REFUSED(syscall(SYS_sched_setattr, 0, &attr, 0), EPERM, ENOSYS, EBUSY);
}

static struct verdict negative_nice(void)
{
	errno = 0;
	return REFUSED(setpriority(PRIO_PROCESS, 0, -10), EACCES, EPERM);
}

static struct verdict push_into_terminal(void)
{
	char byte = 'x';
	return REFUSED(ioctl(0, TIOCSTI, &byte), EPERM, EIO, ENOTTY, EBADF, EACCES);
}

/* A handler or mask left over from the starter would be a trace of it, and breaks programs. */
static struct verdict signals_are_default(void)
{
	char blocked[64] = "", ignored[64] = "";
	status_field("SigBlk", blocked, sizeof(blocked));
	status_field("SigIgn", ignored, sizeof(ignored));
	if (strtoull(blocked, NULL, 16) != 0 || strtoull(ignored, NULL, 16) != 0)
		return broken("blocked %s, ignored %s", blocked, ignored);
	return held(0, "none blocked, none ignored");
}

static const struct attempt attempts[] = {
	{"E02", "descriptors", only_standard_fds, 0, NULL},
	{"E02", "kinds of descriptors", standard_fds_are_plain, 0, NULL},
	{"E02", "environment", environment_is_clean, 0, NULL},
	{"E02", "signals", signals_are_default, 0, NULL},
	{"E09", "capability sets", no_capabilities, 0, NULL},
	{"E09", "filters", filters_are_on, 0, NULL},
	{"E09", "raise a capability", raise_capability, 0, NULL},
	{"E09", "raise an ambient one", raise_ambient, 0, NULL},
	{"E09", "undo no_new_privs", undo_no_new_privs, 0, NULL},
	{"E09", "change identity", change_identity, 0, NULL},
	{"E09", "raise open files", raise_open_files, 0, NULL},
	{"E11", "limit somebody else", limit_somebody_else, 0, NULL},
	{"R03", "real-time priority", real_time, 0, NULL},
	{"R03", "deadline scheduling", deadline_scheduling, 0, NULL},
	{"R03", "negative nice", negative_nice, 0, NULL},
	{"E11", "push bytes into the terminal", push_into_terminal, 0, NULL},
};

const struct topic topic_privilege = {"privilege", attempts, ATTEMPT_COUNT(attempts)};

/*
 * Who runs this: a keeper and the child that becomes init, both still root of the user namespace
 * cloche serves in. Bytes looked at: none from inside. What must be gone at the end: for init,
 * every capability but the four it needs inside its own namespace, every fd but two, the
 * environment; for the keeper, all capabilities, the host's network and files, and every system
 * call it does not need.
 */
#include "keeper/isolate.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "os/caps.h"
#include "os/mount.h"
#include "os/ns.h"
#include "os/proc.h"
#include "os/seccomp.h"
#include "os/syscalls.h"

enum { AGENT_ID = 1000, OWN_NICE = -15, HIGH_FD = 64 };

/* All a keeper may map: far above what it needs, far below what hurts. */
#if defined(__SANITIZE_ADDRESS__)
static const uint64_t keeper_bytes = RLIM_INFINITY; /* its shadow is terabytes */
#else
static const uint64_t keeper_bytes = UINT64_C(256) << 20;
#endif

/* Never above the hard limit we have: raising it needs CAP_SYS_RESOURCE, which root may lack. */
static int set_rlimit(int which, uint64_t value)
{
	struct rlimit now;
	if (getrlimit(which, &now) < 0)
		return -errno;
	rlim_t want = now.rlim_max == RLIM_INFINITY ? value : MIN((rlim_t)value, now.rlim_max);
	struct rlimit limit = {.rlim_cur = want, .rlim_max = want};
	return setrlimit(which, &limit) < 0 ? -errno : 0;
}

/* 1 is the one value at which the kernel does not start the host's crash handler either (core(5));
 * the filter keeps it. Raising it from 0 needs CAP_SYS_RESOURCE, so where that lacks 0 has to do.
 */
static int forbid_core_dumps(void)
{
	struct rlimit one = {.rlim_cur = 1, .rlim_max = 1};
	return setrlimit(RLIMIT_CORE, &one) == 0 ? 0 : set_rlimit(RLIMIT_CORE, 0);
}

static int set_rlimits(const struct slot *slot)
{
	int r = forbid_core_dumps();
	/* Whoever started cloche may have rights to these; a sandbox has none. */
	if (r >= 0)
		r = set_rlimit(RLIMIT_RTPRIO, 0);
	if (r >= 0)
		r = set_rlimit(RLIMIT_NICE, 0);
	if (r >= 0)
		r = set_rlimit(RLIMIT_NPROC, slot->nproc);
	/* Of a parked one this is not known yet: each of its commands gets it when it starts. */
	return r < 0 || slot->is_parked ? r : set_rlimit(RLIMIT_NOFILE, slot->nofile);
}

/* The fds init expects, at fixed numbers, and besides them only the program, until it is executed.
 */
static int place_fds(const int *fds, int *program)
{
	int high[ISOLATE_FDS_ + 1];
	/* Out of the way first, so that no dup2 below overwrites one that is still needed. */
	for (int i = 0; i <= ISOLATE_FDS_; i++) {
		int fd = i == ISOLATE_FDS_ ? *program : fds[MAX(i, (int)ISOLATE_FD_NULL)];
		high[i] = fcntl(fd, F_DUPFD_CLOEXEC, HIGH_FD);
		if (high[i] < 0)
			return -errno;
	}
	for (int i = 0; i < ISOLATE_FDS_; i++) {
		if (dup2(high[i], i) < 0)
			return -errno;
	}
	*program = high[ISOLATE_FDS_];
	const int keep[] = {0,
	                    1,
	                    ISOLATE_FD_NULL,
	                    ISOLATE_FD_CONTROL,
	                    ISOLATE_FD_SPAWN,
	                    ISOLATE_FD_USERNS,
	                    *program};
	return caps_close_fds_except(keep, ARRAY_LEN(keep));
}

int isolate_exec_init(const int fds[ISOLATE_FDS_], int program_fd, struct err *err)
{
	static char *const argv[] = {(char *)"cloche", (char *)"init", NULL};
	static char *const environment[] = {NULL};
	/* Init and the spawner must get a turn among however many that spin inside; commands start
	 * at the ordinary priority again. Where this is refused, starting a command is slow under
	 * load. */
	(void)setpriority(PRIO_PROCESS, 0, OWN_NICE);
	(void)umask(022);
	(void)setsid(); /* fails only if we lead a session already, which is as good */
	int r = place_fds(fds, &program_fd);
	if (r < 0)
		return err_sys(err, -r, "place the descriptors of init");
	/* If the keeper dies, so does everything inside: nobody would be left to keep the limits.
	 */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
		return err_sys(err, errno, "tie init to its keeper");
	(void)sys_execve_fd(program_fd, argv, environment);
	return err_sys(err, errno, "execute the program inside");
}

/* The user namespace last: until here the child was root of the parent namespace, so the sandbox
 * owns neither its mounts, nor its network, nor its pid namespace. */
static int enter_user_namespace(const struct slot *slot)
{
	int r = ns_enter(ISOLATE_FD_USERNS, CLONE_NEWUSER);
	if (r < 0)
		return r;
	bool has_range = slot->range_count > AGENT_ID;
	uid_t id = has_range ? 0 : AGENT_ID;
	if (has_range) {
		/* For the commands init starts: their ids, their empty bounding set, signals to
		 * them. */
		uint64_t keep = CAPS_BIT(CAP_SETUID) | CAPS_BIT(CAP_SETGID) | CAPS_BIT(CAP_KILL) |
		                CAPS_BIT(CAP_SETPCAP);
		r = caps_become(id, id, keep);
		return r < 0 ? r : caps_limit(keep);
	}
	/* One id only: setgroups is denied in such a namespace, and nothing needs changing. */
	if (setresgid(id, id, id) < 0 || setresuid(id, id, id) < 0)
		return -errno;
	return caps_limit(0);
}

int isolate_init(const struct slot *slot, int keep_fd, struct err *err)
{
	const int keep[] = {0, 1, 2, ISOLATE_FD_CONTROL, ISOLATE_FD_SPAWN, keep_fd};
	int r = set_rlimits(slot);
	if (r < 0)
		return err_sys(err, -r, "set resource limits");
	r = enter_user_namespace(slot);
	if (r < 0)
		return err_sys(err, -r, "enter the user namespace");
	r = caps_no_new_privs();
	if (r >= 0)
		r = caps_close_fds_except(keep, ARRAY_LEN(keep));
	return r < 0 ? err_sys(err, -r, "drop privileges") : 0;
}

/* An empty read-only tmpfs as root, in a mount namespace of one's own. */
static int empty_root(void)
{
	auto_close int root = -1;
	int r = mount_make_private();
	auto_close int tmpfs = -1;
	if (r >= 0)
		r = mount_new("tmpfs", "cloche", "size=0,nr_inodes=1,mode=555",
		              MOUNT_RO | MOUNT_NOSUID | MOUNT_NODEV | MOUNT_NOEXEC, &tmpfs);
	/* /sys exists everywhere and nobody can remove it: a safe place to attach to. */
	auto_close int place = open("/sys", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (r >= 0)
		r = mount_attach_fd(tmpfs, place);
	if (r < 0)
		return r;
	root = open("/sys", O_PATH | O_DIRECTORY | O_CLOEXEC);
	return root < 0 ? -errno : mount_pivot(root);
}

/* Namespaces without anything in them, of the zygote and inherited by fork. Keepers mount nothing,
 * have no name and use no System V object (their filter knows none of these calls), so they can
 * share them: to enter one costs nothing, to make one is a good part of a keeper. */
static struct {
	int type;
	const char *name;
	int fd;
} nowhere[] = {{CLONE_NEWNS, "mnt", -1}, {CLONE_NEWIPC, "ipc", -1}, {CLONE_NEWUTS, "uts", -1}};

/* Stays until it is killed: by then the namespaces are opened. */
static NORETURN void hold_nowhere(pid_t parent, int pipe)
{
	char failed = empty_root() < 0;
	if (proc_die_with(parent) < 0 || write(pipe, &failed, 1) != 1)
		_exit(1);
	for (;;)
		(void)pause();
}

void isolate_warm(void)
{
	int fds[2];
	char failed = 1;
	pid_t parent = getpid();
	if (pipe2(fds, O_CLOEXEC) < 0)
		return;
	pid_t pid = ns_clone(CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS, -1, NULL);
	if (pid == 0)
		hold_nowhere(parent, fds[1]);
	(void)close(fds[1]);
	/* Where it fails each keeper makes its own. */
	bool is_there = pid > 0 && read(fds[0], &failed, 1) == 1 && failed == 0;
	(void)close(fds[0]);
	for (size_t i = 0; is_there && i < ARRAY_LEN(nowhere); i++)
		nowhere[i].fd = MAX(ns_open(pid, nowhere[i].name), -1);
	if (pid > 0 && kill(pid, SIGKILL) == 0)
		(void)waitpid(pid, NULL, 0);
}

/* Into those of the types, or into new ones. */
static int go_nowhere(int types)
{
	int made = 0, r = 0;
	for (size_t i = 0; r >= 0 && i < ARRAY_LEN(nowhere); i++) {
		if (!(types & nowhere[i].type))
			continue;
		if (nowhere[i].fd >= 0)
			r = ns_enter(nowhere[i].fd, nowhere[i].type);
		else
			made |= nowhere[i].type;
		fd_closep(&nowhere[i].fd);
	}
	if (r >= 0 && made != 0)
		r = ns_unshare(made);
	return r >= 0 && made & CLONE_NEWNS ? empty_root() : r;
}

int isolate_leave_ipc(void)
{
	return go_nowhere(CLONE_NEWIPC);
}

int isolate_prepare(const struct landlock_rule *rules, size_t count, int *ret_ruleset,
                    struct err *err)
{
	*ret_ruleset = -1;
	int r = caps_drop_bounding();
	/* Without Landlock launch has refused it, or the profile accepts that. */
	if (r >= 0 && landlock_abi() > 0)
		r = landlock_make(-1, rules, count, LANDLOCK_MAY_SIGNAL, ret_ruleset);
	return r < 0 ? err_sys(err, -r, "prepare the keeper's walls") : 0;
}

int isolate_keeper(const struct slot *slot, int ruleset, struct err *err)
{
	/* A keeper that is taken over finds no file at all, and can reach none of the sandbox's. */
	int r = go_nowhere(CLONE_NEWNS | CLONE_NEWUTS);
	if (r < 0)
		return err_sys(err, -r, "empty the keeper's root");
	r = set_rlimit(RLIMIT_AS, keeper_bytes);
	if (r >= 0)
		r = caps_no_new_privs();
	if (r >= 0 && ruleset >= 0)
		r = landlock_enter(ruleset);
	if (r >= 0)
		r = caps_keep(CAPS_BIT(CAP_SETUID) | CAPS_BIT(CAP_SETGID));
	if (r >= 0)
		r = caps_become(slot->keeper_uid, slot->keeper_uid, 0);
	if (r >= 0)
		r = caps_clear();
	if (r >= 0)
		r = caps_not_dumpable();
	if (r >= 0)
		r = seccomp_install(SECCOMP_KEEPER);
	return r < 0 ? err_sys(err, -r, "drop the keeper's privileges") : 0;
}

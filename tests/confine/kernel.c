/*
 * E08, E09, E13: system calls that make mounts, namespaces or kernel objects. Arguments are valid
 * ones, so that a refusal can only come from the walls and not from the kernel's argument checks.
 */
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/fs.h>
#include <linux/io_uring.h>
#include <linux/keyctl.h>
#include <linux/mount.h>
#include <linux/perf_event.h>
#include <linux/reboot.h>
#include <linux/seccomp.h>
#include <linux/userfaultfd.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/fanotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/quota.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timex.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "probe.h"

#ifndef SYS_mount_setattr
#define SYS_mount_setattr 442
#endif
#ifndef SYS_quotactl_fd
#define SYS_quotactl_fd 443
#endif
#ifndef SYS_memfd_secret
#define SYS_memfd_secret 447
#endif

/* One attempt per line: a function around a single call that must be refused by the filter. */
#define CALL(name, ...)                                                                            \
	static struct verdict name(void)                                                           \
	{                                                                                          \
		return REFUSED(syscall(__VA_ARGS__), EPERM, ENOSYS);                               \
	}

CALL(mount_tmpfs, SYS_mount, "none", "/tmp", "tmpfs", 0UL, "")
CALL(mount_proc, SYS_mount, "none", "/proc", "proc", 0UL, "")
CALL(mount_bind, SYS_mount, "/", "/tmp", NULL, 4096UL /* MS_BIND */, NULL)
CALL(mount_remount, SYS_mount, NULL, "/usr", NULL, 32UL | 4096UL /* MS_REMOUNT | MS_BIND */, NULL)
CALL(mount_cgroup, SYS_mount, "none", "/tmp", "cgroup", 0UL, "memory")
CALL(unmount_proc, SYS_umount2, "/proc", 2L /* MNT_DETACH */)
CALL(unmount_dev, SYS_umount2, "/dev/pts", 2L)
CALL(pivot, SYS_pivot_root, "/tmp", "/tmp")
CALL(tree_clone, SYS_open_tree, AT_FDCWD, "/", OPEN_TREE_CLONE)
CALL(tree_move, SYS_move_mount, AT_FDCWD, "/tmp", AT_FDCWD, "/proc", 0L)
CALL(fs_open, SYS_fsopen, "tmpfs", 0L)
CALL(fs_pick, SYS_fspick, AT_FDCWD, "/", 0L)
CALL(fs_mount, SYS_fsmount, 0L, 0L, 0L)
CALL(fs_config, SYS_fsconfig, 0L, 6L, NULL, NULL, 0L)
CALL(change_root, SYS_chroot, "/tmp")

static struct verdict set_mount_flags(void)
{
	struct mount_attr attr = {.attr_clr = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID};
	return REFUSED(syscall(SYS_mount_setattr, AT_FDCWD, "/usr", 0, &attr, sizeof(attr)), EPERM,
	               ENOSYS);
}

#define UNSHARE(name, flags)                                                                       \
	static struct verdict name(void)                                                           \
	{                                                                                          \
		return REFUSED(unshare(flags), EPERM, ENOSYS);                                     \
	}

UNSHARE(new_user, CLONE_NEWUSER)
UNSHARE(new_user_and_mount, CLONE_NEWUSER | CLONE_NEWNS)
UNSHARE(new_mount, CLONE_NEWNS)
UNSHARE(new_pid, CLONE_NEWPID)
UNSHARE(new_net, CLONE_NEWNET)
UNSHARE(new_ipc, CLONE_NEWIPC)
UNSHARE(new_uts, CLONE_NEWUTS)
UNSHARE(new_cgroup, CLONE_NEWCGROUP)

static struct verdict clone_user(void)
{
	long pid = syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);
	if (pid == 0)
		_exit(0);
	return REFUSED(pid, EPERM, ENOSYS);
}

/* The high half of clone's flags word is ignored by the kernel; a filter must not be fooled. */
static struct verdict clone_user_high_bits(void)
{
	long pid = syscall(SYS_clone, (1UL << 40) | CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);
	if (pid == 0)
		_exit(0);
	return REFUSED(pid, EPERM, ENOSYS);
}

/* clone3 keeps its flags in memory, where a filter cannot look: it must not exist at all. */
static struct verdict clone3_refused(void)
{
	struct clone_args {
		uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls;
	} args = {.flags = CLONE_NEWUSER, .exit_signal = SIGCHLD};
	long pid = syscall(SYS_clone3, &args, sizeof(args));
	if (pid == 0)
		_exit(0);
	return REFUSED(pid, ENOSYS);
}

static struct verdict enter_own_namespaces(void)
{
	static const char *const names[] = {"user", "mnt", "pid", "net", "ipc", "uts"};
	for (size_t i = 0; i < ATTEMPT_COUNT(names); i++) {
		char path[64];
		snprintf(path, sizeof(path), "/proc/self/ns/%s", names[i]);
		int fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			continue;
		struct verdict verdict = REFUSED(setns(fd, 0), EPERM, ENOSYS);
		close(fd);
		if (!verdict.held)
			return broken("setns to own %s: %s", names[i], verdict.detail);
	}
	return held(EPERM, "refused");
}

static struct verdict parent_namespace(void)
{
	enum { NS_GET_USERNS_ = 0xb701, NS_GET_PARENT_ = 0xb702 };
	int fd = open("/proc/self/ns/user", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return held(errno, "does not open");
	int parent = ioctl(fd, NS_GET_PARENT_);
	return REFUSED(parent, EPERM, ENOTTY, EACCES, ENOSYS);
}

static struct verdict load_bpf(void)
{
	union bpf_attr attr = {
		.map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 4, .max_entries = 1};
	return REFUSED(syscall(SYS_bpf, BPF_MAP_CREATE, &attr, sizeof(attr)), EPERM, ENOSYS);
}

static struct verdict perf_open(void)
{
	struct perf_event_attr attr = {.type = PERF_TYPE_SOFTWARE,
	                               .size = sizeof(attr),
	                               .config = PERF_COUNT_SW_TASK_CLOCK,
	                               .exclude_kernel = 1};
	return REFUSED(syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0), EPERM, ENOSYS);
}

static struct verdict uring_setup(void)
{
	struct io_uring_params params = {0};
	return REFUSED(syscall(SYS_io_uring_setup, 4, &params), EPERM, ENOSYS);
}

CALL(uring_enter, SYS_io_uring_enter, 0, 1, 0, 0, NULL, 0)
CALL(uring_register, SYS_io_uring_register, 0, 0, NULL, 0)
CALL(fault_fd, SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY)

/* Both are pools of the whole machine. */
static struct verdict asynchronous(void)
{
	unsigned long context = 0;
	return REFUSED(syscall(SYS_io_setup, 1024, &context), ENOSYS, EPERM);
}

static struct verdict huge_pages(void)
{
	void *page = mmap(NULL, 2 << 20, PROT_READ | PROT_WRITE,
	                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | MAP_NORESERVE, -1, 0);
	return REFUSED(page == MAP_FAILED ? -1 : 0, ENOMEM, EPERM);
}

static struct verdict huge_file(void)
{
	return REFUSED(syscall(SYS_memfd_create, "huge", 4U /* MFD_HUGETLB */), ENOMEM, EPERM);
}

CALL(key_add, SYS_add_key, "user", "probe", "x", 1L, KEY_SPEC_SESSION_KEYRING)
CALL(key_request, SYS_request_key, "user", "probe", NULL, KEY_SPEC_SESSION_KEYRING)
CALL(key_control, SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION_KEYRING, 1)
CALL(module_init, SYS_init_module, "", 0L, "")
CALL(module_file, SYS_finit_module, 0, "", 0)
CALL(module_delete, SYS_delete_module, "probe", O_NONBLOCK)
CALL(kexec, SYS_kexec_load, 0L, 0L, NULL, 0L)
CALL(kexec_file, SYS_kexec_file_load, 0, 0, 0L, "", 0L)
CALL(swap_on, SYS_swapon, "/tmp/swap", 0)
CALL(swap_off, SYS_swapoff, "/tmp/swap")
CALL(accounting, SYS_acct, NULL)
CALL(quota, SYS_quotactl, QCMD(Q_SYNC, USRQUOTA), NULL, 0, NULL)
CALL(quota_fd, SYS_quotactl_fd, 0, QCMD(Q_GETINFO, USRQUOTA), 0, NULL)
CALL(kernel_log, SYS_syslog, 10 /* SYSLOG_ACTION_SIZE_BUFFER */, NULL, 0)
CALL(host_name, SYS_sethostname, "probe", 5L)
CALL(domain_name, SYS_setdomainname, "probe", 5L)
CALL(hang_up, SYS_vhangup)
CALL(notify_files, SYS_fanotify_init, FAN_CLASS_NOTIF, O_RDONLY)

/* LINUX_REBOOT_CMD_CAD_OFF changes nothing but would show that the call is open. */
CALL(reboot_machine, SYS_reboot, LINUX_REBOOT_MAGIC1, LINUX_REBOOT_MAGIC2, LINUX_REBOOT_CMD_CAD_OFF,
     NULL)

#ifdef SYS_iopl
CALL(io_level, SYS_iopl, 3)
CALL(io_ports, SYS_ioperm, 0x80L, 1L, 1)
CALL(local_table, SYS_modify_ldt, 0x11, NULL, 0L)
#endif

static struct verdict set_clock(void)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	return REFUSED(clock_settime(CLOCK_REALTIME, &now), EPERM, ENOSYS);
}

static struct verdict set_day(void)
{
	struct timeval now;
	gettimeofday(&now, NULL);
	return REFUSED(settimeofday(&now, NULL), EPERM, ENOSYS);
}

static struct verdict adjust_clock(void)
{
	struct timex adjust = {.modes = ADJ_FREQUENCY};
	return REFUSED(adjtimex(&adjust), EPERM, ENOSYS);
}

static const struct attempt attempts[] = {
	{"E08", "mount tmpfs", mount_tmpfs, 0, NULL},
	{"E08", "mount proc", mount_proc, 0, NULL},
	{"E08", "mount bind", mount_bind, 0, NULL},
	{"E08", "mount remount", mount_remount, 0, NULL},
	{"E08", "mount cgroup", mount_cgroup, 0, NULL},
	{"E08", "umount2 /proc", unmount_proc, 0, NULL},
	{"E08", "umount2 /dev/pts", unmount_dev, 0, NULL},
	{"E08", "pivot_root", pivot, 0, NULL},
	{"E08", "open_tree", tree_clone, 0, NULL},
	{"E08", "move_mount", tree_move, 0, NULL},
	{"E08", "fsopen", fs_open, 0, NULL},
	{"E08", "fspick", fs_pick, 0, NULL},
	{"E08", "fsmount", fs_mount, 0, NULL},
	{"E08", "fsconfig", fs_config, 0, NULL},
	{"E08", "chroot", change_root, 0, NULL},
	{"E08", "mount_setattr", set_mount_flags, 0, NULL},
	{"E09", "unshare user", new_user, 0, NULL},
	{"E09", "unshare user and mount", new_user_and_mount, 0, NULL},
	{"E09", "unshare mount", new_mount, 0, NULL},
	{"E09", "unshare pid", new_pid, 0, NULL},
	{"E09", "unshare net", new_net, 0, NULL},
	{"E09", "unshare ipc", new_ipc, 0, NULL},
	{"E09", "unshare uts", new_uts, 0, NULL},
	{"E09", "unshare cgroup", new_cgroup, 0, NULL},
	{"E09", "clone with a user namespace", clone_user, 0, NULL},
	{"E09", "clone with high flag bits", clone_user_high_bits, 0, NULL},
	{"E09", "clone3", clone3_refused, 0, NULL},
	{"E09", "setns", enter_own_namespaces, 0, NULL},
	{"E09", "parent user namespace", parent_namespace, 0, NULL},
	{"E13", "bpf", load_bpf, 0, NULL},
	{"E13", "perf_event_open", perf_open, 0, NULL},
	{"E13", "io_uring_setup", uring_setup, 0, NULL},
	{"E13", "io_uring_enter", uring_enter, 0, NULL},
	{"E13", "io_uring_register", uring_register, 0, NULL},
	{"E13", "io_setup", asynchronous, 0, NULL},
	{"E13", "huge pages", huge_pages, 0, NULL},
	{"E13", "huge pages as a file", huge_file, 0, NULL},
	{"E13", "userfaultfd", fault_fd, 0, NULL},
	{"E13", "add_key", key_add, 0, NULL},
	{"E13", "request_key", key_request, 0, NULL},
	{"E13", "keyctl", key_control, 0, NULL},
	{"E13", "init_module", module_init, 0, NULL},
	{"E13", "finit_module", module_file, 0, NULL},
	{"E13", "delete_module", module_delete, 0, NULL},
	{"E13", "kexec_load", kexec, 0, NULL},
	{"E13", "kexec_file_load", kexec_file, 0, NULL},
	{"E13", "swapon", swap_on, 0, NULL},
	{"E13", "swapoff", swap_off, 0, NULL},
	{"E13", "acct", accounting, 0, NULL},
	{"E13", "quotactl", quota, 0, NULL},
	{"E13", "quotactl_fd", quota_fd, 0, NULL},
	{"E13", "syslog", kernel_log, 0, NULL},
	{"E13", "sethostname", host_name, 0, NULL},
	{"E13", "setdomainname", domain_name, 0, NULL},
	{"E13", "vhangup", hang_up, 0, NULL},
	{"E13", "fanotify_init", notify_files, 0, NULL},
	{"E13", "reboot", reboot_machine, 0, NULL},
#ifdef SYS_iopl
	{"E13", "iopl", io_level, 0, NULL},
	{"E13", "ioperm", io_ports, 0, NULL},
	{"E13", "modify_ldt", local_table, 0, NULL},
#endif
	{"E13", "clock_settime", set_clock, 0, NULL},
	{"E13", "settimeofday", set_day, 0, NULL},
	{"E13", "adjtimex", adjust_clock, 0, NULL},
};

const struct topic topic_kernel = {"kernel", attempts, ATTEMPT_COUNT(attempts)};

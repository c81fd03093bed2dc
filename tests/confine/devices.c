/* E17, E18: devices, and the files of /proc and /sys that command the kernel. */
#include <dirent.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "probe.h"

static struct verdict make_device(mode_t kind, unsigned major, unsigned minor)
{
	int made = mknod("/tmp/device", kind | 0600, makedev(major, minor));
	struct verdict verdict = REFUSED(made, EPERM, EACCES);
	unlink("/tmp/device");
	return verdict;
}

static struct verdict make_block(void)
{
	return make_device(S_IFBLK, 8, 0);
}

static struct verdict make_mem(void)
{
	return make_device(S_IFCHR, 1, 1);
}

/* Even the harmless ones: a device node of our own would be a way round a nodev that is missing. */
static struct verdict make_null(void)
{
	return make_device(S_IFCHR, 1, 3);
}

/* An overlay whiteout is a 0/0 character device: forging one would hide files of a layer. */
static struct verdict make_whiteout(void)
{
	int made = mknod("/tmp/device", S_IFCHR | 0600, makedev(0, 0));
	if (made < 0)
		return REFUSED(made, EPERM, EACCES);
	/* The kernel allows 0/0 to everybody since 5.8; it opens nothing. */
	int fd = open("/tmp/device", O_RDONLY | O_CLOEXEC);
	struct verdict verdict = REFUSED(fd, ENXIO, EACCES, EPERM, ENODEV, ENOENT);
	unlink("/tmp/device");
	return verdict;
}

static struct verdict dangerous_nodes(void)
{
	static const char *const nodes[] = {
		"/dev/mem",         "/dev/kmem",      "/dev/port",
		"/dev/kmsg",        "/dev/kvm",       "/dev/vda",
		"/dev/sda",         "/dev/nvme0n1",   "/dev/loop-control",
		"/dev/loop0",       "/dev/fuse",      "/dev/net/tun",
		"/dev/vhost-vsock", "/dev/vhost-net", "/dev/userfaultfd",
		"/dev/autofs",      "/dev/cuse",      "/dev/mapper/control",
		"/dev/uinput",      "/dev/tty1",      "/dev/vsock",
		"/dev/snapshot",    "/dev/cpu/0/msr", "/dev/hpet",
		"/dev/rtc0",
	};
	for (size_t i = 0; i < ATTEMPT_COUNT(nodes); i++) {
		struct verdict verdict = cannot_open(nodes[i], O_RDONLY);
		if (!verdict.held)
			return broken("%s opens", nodes[i]);
	}
	return held(0, "%zu nodes absent", ATTEMPT_COUNT(nodes));
}

static bool is_expected_device(const char *name)
{
	static const char *const expected[] = {
		".",   "..",  "null",   "zero", "full",  "random", "urandom", "tty",     "ptmx",
		"pts", "shm", "mqueue", "fd",   "stdin", "stdout", "stderr",  "console", "core",
	};
	for (size_t i = 0; i < ATTEMPT_COUNT(expected); i++)
		if (strcmp(expected[i], name) == 0)
			return true;
	return false;
}

static struct verdict only_expected_nodes(void)
{
	DIR *dir = opendir("/dev");
	if (!dir)
		return broken("no /dev");
	struct verdict verdict = held(0, "only the documented nodes");
	for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir))
		if (!is_expected_device(entry->d_name))
			verdict = broken("unexpected /dev/%s", entry->d_name);
	closedir(dir);
	return verdict;
}

/* What covers a masked file: writing there does nothing. */
static bool is_null(const char *path)
{
	struct stat st;
	return stat(path, &st) == 0 && S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3);
}

static struct verdict not_writable(const char *pattern)
{
	glob_t found = {0};
	struct verdict verdict = held(ENOENT, "absent");
	if (glob(pattern, 0, NULL, &found) == 0)
		for (size_t i = 0; i < found.gl_pathc && verdict.held; i++) {
			verdict = cannot_open(found.gl_pathv[i], O_WRONLY);
			if (!verdict.held)
				verdict =
					is_null(found.gl_pathv[i])
						? held(0, "covered")
						: broken("%s opens for writing", found.gl_pathv[i]);
		}
	globfree(&found);
	return verdict;
}

static struct verdict control_files(void)
{
	static const char *const patterns[] = {
		"/proc/sys/kernel/core_pattern",
		"/proc/sys/kernel/modprobe",
		"/proc/sys/kernel/hotplug",
		"/proc/sys/kernel/panic",
		"/proc/sys/kernel/hostname",
		"/proc/sys/kernel/ns_last_pid",
		"/proc/sys/kernel/keys/maxkeys",
		"/proc/sys/vm/*",
		"/proc/sys/fs/*",
		"/proc/sys/fs/binfmt_misc/register",
		"/proc/sys/net/*/*",
		"/proc/sys/net/ipv4/conf/*/*",
		"/proc/sys/user/*",
		"/proc/sysrq-trigger",
		"/proc/irq/*/smp_affinity",
		"/proc/bus/pci/*/*",
		"/proc/scsi/scsi",
		"/proc/acpi/*",
		"/proc/mtrr",
		"/proc/dynamic_debug/control",
		"/sys/kernel/uevent_helper",
		"/sys/kernel/mm/*/*",
		"/sys/kernel/debug/*",
		"/sys/kernel/security/*",
		"/sys/kernel/tracing/*",
		"/sys/fs/cgroup/*",
		"/sys/fs/cgroup/*/*",
		"/sys/fs/cgroup/*/release_agent",
		"/sys/power/state",
		"/sys/module/*/parameters/*",
		"/sys/devices/system/cpu/*/online",
		"/sys/bus/*/drivers_probe",
		"/sys/class/net/*/*",
	};
	for (size_t i = 0; i < ATTEMPT_COUNT(patterns); i++) {
		struct verdict verdict = not_writable(patterns[i]);
		if (!verdict.held)
			return verdict;
	}
	return held(0, "%zu patterns, nothing writable", ATTEMPT_COUNT(patterns));
}

/* What tells about the host or its kernel memory: it must not open, or be empty. */
static struct verdict is_masked(const char *path)
{
	char bytes[64];
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return held(errno, "does not open");
	ssize_t len = read(fd, bytes, sizeof(bytes));
	int err = errno;
	close(fd);
	if (len > 0)
		return broken("%s has content", path);
	return held(len < 0 ? err : 0, "no content");
}

static struct verdict masked_files(void)
{
	static const char *const paths[] = {
		"/proc/kcore",         "/proc/kmsg",
		"/proc/keys",          "/proc/key-users",
		"/proc/timer_list",    "/proc/interrupts",
		"/proc/sched_debug",   "/proc/latency_stats",
		"/proc/timer_stats",   "/proc/kpageflags",
		"/proc/kpagecount",    "/proc/kpagecgroup",
		"/proc/vmallocinfo",   "/proc/slabinfo",
		"/proc/pagetypeinfo",  "/proc/kallsyms",
		"/proc/sysrq-trigger", "/sys/firmware/acpi/tables/DSDT",
		"/sys/kernel/notes",   "/sys/kernel/vmcoreinfo",
	};
	for (size_t i = 0; i < ATTEMPT_COUNT(paths); i++) {
		struct verdict verdict = is_masked(paths[i]);
		if (!verdict.held)
			return verdict;
	}
	return held(0, "%zu files without content", ATTEMPT_COUNT(paths));
}

static struct verdict own_maps(void)
{
	static const char *const files[] = {"/proc/self/uid_map", "/proc/self/gid_map",
	                                    "/proc/self/setgroups", "/proc/self/projid_map"};
	for (size_t i = 0; i < ATTEMPT_COUNT(files); i++) {
		int fd = open(files[i], O_WRONLY | O_CLOEXEC);
		if (fd < 0)
			continue;
		const char *text = i == 2 ? "allow" : "0 0 1\n";
		ssize_t len = write(fd, text, strlen(text));
		close(fd);
		if (len > 0)
			return broken("%s was rewritten", files[i]);
	}
	return held(EPERM, "maps are fixed");
}

static struct verdict oom_protection(void)
{
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return held(errno, "does not open");
	ssize_t len = write(fd, "-1000", 5);
	struct verdict verdict = REFUSED(len, EACCES, EPERM);
	close(fd);
	return verdict;
}

/* Drivers of old modems, loaded for whoever asks. */
static struct verdict line_discipline(void)
{
	int fd = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC), kind = 0;
	if (fd < 0)
		return broken("no terminal: %s", strerror(errno));
	struct verdict verdict = REFUSED(ioctl(fd, TIOCSETD, &kind), EPERM);
	close(fd);
	return verdict;
}

static const struct attempt attempts[] = {
	{"E17", "make a block device", make_block, 0, NULL},
	{"E17", "line discipline", line_discipline, 0, NULL},
	{"E17", "make /dev/mem", make_mem, 0, NULL},
	{"E17", "make /dev/null", make_null, 0, NULL},
	{"E17", "make a whiteout", make_whiteout, 0, NULL},
	{"E17", "dangerous nodes", dangerous_nodes, 0, NULL},
	{"E17", "only expected nodes", only_expected_nodes, 0, NULL},
	{"E18", "control files", control_files, 0, NULL},
	{"E18", "masked files", masked_files, 0, NULL},
	{"E18", "own id maps", own_maps, 0, NULL},
	{"E18", "protect oneself from the oom killer", oom_protection, 0, NULL},
};

const struct topic topic_devices = {"devices", attempts, ATTEMPT_COUNT(attempts)};

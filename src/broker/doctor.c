/*
 * Who: a task of the broker, or the command line as root or as root of a user namespace.
 * Capabilities: whatever a sandbox's start would use: a check that has more would lie. Bytes: none.
 * Gone at the end: every child with its namespaces and mounts, the one cgroup that is tried.
 */
#include "broker/doctor.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/io.h"
#include "base/str.h"
#include "broker/slot.h"
#include "os/anyip.h"
#include "os/caps.h"
#include "os/cgroup.h"
#include "os/disk.h"
#include "os/landlock.h"
#include "os/mount.h"
#include "os/nft.h"
#include "os/ns.h"
#include "os/path.h"
#include "os/proc.h"
#include "os/seccomp.h"
#include "os/syscalls.h"
#include "os/transparent.h"

enum { DOCTOR_TIMEOUT_MS = 20 * 1000 };

/* What a probe hands back over a pipe. */
struct finding {
	int result;   /* 0 or -errno */
	bool is_weak; /* works, but less than it could */
	char detail[160];
};

struct probe {
	const struct doctor_options *options;
	struct finding *finding;
};

static void say(const struct probe *probe, const char *text)
{
	(void)!str_copy(probe->finding->detail, sizeof(probe->finding->detail), text); /* fits */
}

static int probe_userns(const struct probe *probe)
{
	const struct doctor_options *options = probe->options;
	struct ns_map map = {0, options->is_rootless ? 0 : SLOT_WORKER_BASE,
	                     options->is_rootless ? 1 : SLOT_RANGE_COUNT};
	auto_close int fd = -1;
	return ns_user_create(&map, 1, &map, 1, options->is_rootless, &fd);
}

static int probe_range(const struct probe *probe)
{
	if (!probe->options->is_rootless) {
		say(probe, "65536 ids for every sandbox");
		return 0;
	}
	(void)snprintf(probe->finding->detail, sizeof(probe->finding->detail),
	               "%u ids, shared by the sandboxes of this user", probe->options->id_count);
	return probe->options->id_count > 1000 ? 0 : -ERANGE;
}

static int probe_mountns(const struct probe *probe)
{
	int r = ns_unshare(CLONE_NEWNS);
	return r < 0 ? r : mount_make_private();
}

/* A tmpfs at /proc of a mount namespace of the child's own: a place to try things in. */
static int enter_scratch(int *ret_fd)
{
	int r = ns_unshare(CLONE_NEWNS);
	auto_close int tmpfs = -1;
	auto_close int proc = -1;
	if (r == 0)
		r = mount_make_private();
	if (r == 0)
		r = mount_new("tmpfs", "cloche", "size=1m,mode=755", MOUNT_NOSUID | MOUNT_NODEV,
		              &tmpfs);
	if (r == 0)
		proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (r == 0)
		r = proc < 0 ? -errno : mount_attach_fd(tmpfs, proc);
	if (r < 0)
		return r;
	*ret_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return *ret_fd < 0 || fchdir(*ret_fd) < 0 ? -errno : 0;
}

static int probe_overlay(const struct probe *probe)
{
	auto_close int scratch = -1;
	auto_close int overlay = -1;
	int r = enter_scratch(&scratch);
	if (r < 0)
		return r;
	if (mkdir("lower", 0755) < 0 || mkdir("upper", 0755) < 0 || mkdir("work", 0755) < 0 ||
	    mkdir("root", 0755) < 0 || mkdir("lower/gone", 0755) < 0)
		return -errno;
	r = mount_new("overlay", "cloche", "userxattr,lowerdir=lower,upperdir=upper,workdir=work",
	              MOUNT_NOSUID | MOUNT_NODEV, &overlay);
	if (r == 0)
		r = mount_attach(overlay, scratch, "root");
	/* A removal needs a whiteout in the upper: that is what fails first where it is half
	 * allowed. */
	if (r == 0 && (rmdir("root/gone") < 0 || mkdir("root/new", 0755) < 0))
		r = -errno;
	return r;
}

static int probe_idmap(const struct probe *probe)
{
	if (probe->options->is_rootless) {
		say(probe, "not needed as an ordinary user");
		return 0;
	}
	struct ns_map map = {0, SLOT_WORKER_BASE, SLOT_RANGE_COUNT};
	auto_close int userns = -1;
	auto_close int tree = -1;
	auto_close int scratch = -1;
	int r = ns_user_create(&map, 1, &map, 1, false, &userns);
	int dir = probe->options->sandboxes_fd;
	if (r == 0 && dir < 0)
		r = enter_scratch(&scratch);
	if (r == 0)
		r = mount_clone(dir < 0 ? scratch : dir, "", MOUNT_NOSUID | MOUNT_NODEV, &tree);
	return r < 0 ? r : mount_set_idmap(tree, userns);
}

static int probe_netns(const struct probe *probe)
{
	return ns_unshare(CLONE_NEWNET);
}

/* What a gateway stands on, with addresses that are nobody's. */
static int probe_egress(const struct probe *probe)
{
	struct anyip own;
	struct nft_tproxy tproxies[2] = {{.port = 1}, {.port = 1}};
	bool has_v6 = false;
	int r = ns_unshare(CLONE_NEWNET);
	if (!addr_parse("192.0.0.2", &own.v4) || !addr_parse("fd00:c10c:e::2", &own.v6))
		return -EINVAL;
	if (r >= 0)
		r = anyip_set_up(&own, &has_v6);
	tproxies[0].own = tproxies[0].gateway = own.v4;
	tproxies[1].own = tproxies[1].gateway = own.v6;
	if (r >= 0)
		r = nft_tproxy_load(tproxies, has_v6 ? 2 : 1);
	if (r >= 0)
		r = transparent_listen(&(struct transparent_end){own.v4, 1}, 1);
	auto_close int listener = r;
	if (listener >= 0)
		say(probe, has_v6 ? "tproxy, IPv4 and IPv6" : "tproxy, IPv4 alone");
	return MIN(r, 0);
}

static int probe_ipcns(const struct probe *probe)
{
	return ns_unshare(CLONE_NEWIPC);
}

static int probe_utsns(const struct probe *probe)
{
	return ns_unshare(CLONE_NEWUTS);
}

static int probe_cgroupns(const struct probe *probe)
{
	return ns_unshare(CLONE_NEWCGROUP);
}

static int probe_timens(const struct probe *probe)
{
	return ns_unshare(CLONE_NEWTIME);
}

static int wait_status(pid_t pid)
{
	int status;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return WIFEXITED(status) ? -WEXITSTATUS(status) : -EFAULT;
}

static int probe_pidns(const struct probe *probe)
{
	pid_t pid = ns_clone(CLONE_NEWPID, -1, NULL);
	if (pid == 0)
		_exit(getpid() == 1 ? 0 : EPERM);
	return pid < 0 ? (int)pid : wait_status(pid);
}

static int mount_proc(void)
{
	int r = mount_make_private();
	auto_close int proc = -1;
	if (r == 0)
		r = mount_new("proc", "proc", "", MOUNT_NOSUID | MOUNT_NODEV | MOUNT_NOEXEC, &proc);
	return r;
}

static int probe_proc(const struct probe *probe)
{
	pid_t pid = ns_clone(CLONE_NEWPID | CLONE_NEWNS, -1, NULL);
	if (pid == 0)
		_exit(-mount_proc());
	return pid < 0 ? (int)pid : wait_status(pid);
}

static int probe_nnp(const struct probe *probe)
{
	int r = caps_no_new_privs();
	if (r < 0)
		return r;
	return prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 ? 0 : -EPERM;
}

/* The filter sandboxes get, and something it must refuse even to us. */
static int probe_seccomp(const struct probe *probe)
{
	auto_close int listener = -1;
	int r = caps_no_new_privs();
	if (r == 0)
		r = seccomp_listen(&listener);
	if (r == -EBUSY)
		r = seccomp_install(SECCOMP_QUIET);
	if (r < 0)
		return r;
	if (unshare(CLONE_NEWUSER) == 0 || (errno != EPERM && errno != ENOSYS))
		return -ENOTSUP;
	(void)snprintf(probe->finding->detail, sizeof(probe->finding->detail), "%zu instructions%s",
	               seccomp_length(SECCOMP_WORKLOAD),
	               listener < 0 ? ", refused sockets are not told" : "");
	return 0;
}

static int probe_landlock(const struct probe *probe)
{
	int abi = landlock_abi();
	if (abi <= 0)
		return abi < 0 ? abi : -EOPNOTSUPP;
	auto_close int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	int r = caps_no_new_privs();
	if (r == 0)
		r = landlock_restrict(root, NULL, 0, LANDLOCK_NO_TCP);
	if (r < 0)
		return r;
	auto_close int passwd = open("/etc/passwd", O_RDONLY | O_CLOEXEC);
	if (passwd >= 0 || errno != EACCES)
		return -ENOTSUP;
	(void)snprintf(probe->finding->detail, sizeof(probe->finding->detail), "ABI %d", abi);
	return 0;
}

static int probe_pidfd(const struct probe *probe)
{
	auto_close int fd = proc_pidfd_open(getpid());
	if (fd < 0)
		return fd;
	return sys_pidfd_send_signal(fd, 0) < 0 ? -errno : 0;
}

/* A group with a limit, made and removed: that the controller is listed is not enough. */
static int try_controller(const struct probe *probe, enum cgroup_controller controller)
{
	struct cgroup_layout layout;
	struct cgroup cgroup;
	struct cgroup_limits limits = {64 << 20, 1000, 64};
	char name[32];
	int r = cgroup_detect(&layout);
	if (r < 0)
		return r;
	if (layout.version == 0 || !layout.has[controller]) {
		say(probe, layout.version == 0 ? "no group can be made here"
		                               : "the controller is not here");
		return -ENOENT;
	}
	(void)snprintf(name, sizeof(name), "doctor-%d", (int)getpid());
	cgroup_init(&cgroup);
	r = cgroup_create(&layout, name, &limits, (uid_t)-1, &cgroup);
	cgroup_done(&cgroup);
	int removed = cgroup_remove(&layout, name);
	r = r < 0 ? r : removed;
	if (r == 0)
		(void)snprintf(probe->finding->detail, sizeof(probe->finding->detail), "cgroup v%d",
		               layout.version);
	return r;
}

static int probe_cg_memory(const struct probe *probe)
{
	return try_controller(probe, CGROUP_MEMORY);
}

static int probe_cg_cpu(const struct probe *probe)
{
	return try_controller(probe, CGROUP_CPU);
}

static int probe_cg_pids(const struct probe *probe)
{
	return try_controller(probe, CGROUP_PIDS);
}

static int probe_cg_freezer(const struct probe *probe)
{
	return try_controller(probe, CGROUP_FREEZER);
}

/* Without them overlay cannot mark a folder as hiding the one of the image below it (EIO). tmpfs
 * has them since Linux 6.6. */
static bool has_user_xattrs(void)
{
	auto_close int fs = -1;
	if (mount_new("tmpfs", "cloche", "size=64k", MOUNT_NOSUID | MOUNT_NODEV, &fs) < 0)
		return false;
	auto_close int dir = openat(fs, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return dir >= 0 && fsetxattr(dir, "user.cloche", "y", 1, 0) == 0;
}

static int probe_disk(const struct probe *probe)
{
	static const enum disk_backend others[] = {DISK_QUOTA, DISK_TMPFS, DISK_LOOP};
	auto_close int scratch = -1;
	int dir = probe->options->sandboxes_fd;
	/* As whoever serves: an ordinary user may mount in a namespace of its own only. */
	int r = dir < 0 ? enter_scratch(&scratch) : ns_unshare(CLONE_NEWNS);
	if (r < 0)
		return r;
	dir = dir < 0 ? scratch : dir;
	enum disk_backend chosen = disk_choose(dir);
	probe->finding->is_weak = chosen == DISK_SAMPLED;
	char *at = probe->finding->detail;
	char *end = at + sizeof(probe->finding->detail);
	at += snprintf(at, (size_t)(end - at), "%s in force; works here:", disk_name(chosen));
	for (size_t i = 0; i < ARRAY_LEN(others); i++)
		if (disk_probe(others[i], dir) == 0)
			at += snprintf(at, (size_t)(end - at), " %s", disk_name(others[i]));
	if (!has_user_xattrs())
		(void)snprintf(at, (size_t)(end - at),
		               "; on tmpfs folders of an image stay (Linux before 6.6)");
	return disk_probe(chosen, dir);
}

/* Of the image `host`: others have their own. */
static int probe_git(const struct probe *probe)
{
	if (access("/usr/bin/git", X_OK) < 0)
		return -errno;
	say(probe, "for repositories of tasks");
	return 0;
}

static const struct check {
	const char *name;
	int (*probe)(const struct probe *probe);
	enum doctor_status on_failure;
	const char *remedy;
} checks[] = {
#define CHECK(name, probe, status, remedy) {name, probe, DOCTOR_##status, remedy},
#include "broker/doctor.def"
#undef CHECK
};

static NORETURN void run_probe(const struct check *check, const struct doctor_options *options,
                               int out)
{
	struct finding finding = {0};
	struct probe probe = {options, &finding};
	signal(SIGALRM, SIG_DFL);
	(void)alarm(DOCTOR_TIMEOUT_MS / 1000); /* a probe that hangs has failed */
	finding.result = check->probe(&probe);
	_exit(io_write_all(out, &finding, sizeof(finding)) < 0);
}

static struct finding try_check(const struct check *check, const struct doctor_options *options)
{
	struct finding finding = {0};
	int pipe_fds[2];
	if (options->pretend && str_eq(options->pretend, check->name)) {
		finding.result = -ENOSYS;
		return finding;
	}
	if (pipe2(pipe_fds, O_CLOEXEC) < 0) {
		finding.result = -errno;
		return finding;
	}
	pid_t pid = fork();
	if (pid == 0)
		run_probe(check, options, pipe_fds[1]);
	close(pipe_fds[1]);
	if (pid < 0 ||
	    io_read_full(pipe_fds[0], &finding, sizeof(finding)) != (ssize_t)sizeof(finding))
		finding.result = -EIO;
	close(pipe_fds[0]);
	if (pid > 0)
		(void)wait_status(pid); /* what counts came over the pipe */
	finding.detail[sizeof(finding.detail) - 1] = '\0';
	return finding;
}

void doctor_run(const struct doctor_options *options, doctor_on_check on_check, void *ctx)
{
	for (size_t i = 0; i < ARRAY_LEN(checks); i++) {
		struct finding finding = try_check(&checks[i], options);
		struct doctor_check check = {.name = checks[i].name, .remedy = ""};
		if (finding.result < 0)
			check.status = checks[i].on_failure;
		else if (finding.is_weak)
			check.status = DOCTOR_DEGRADED;
		if (check.status != DOCTOR_OK)
			check.remedy = checks[i].remedy;
		if (finding.result < 0)
			(void)snprintf(check.detail, sizeof(check.detail), "%.150s",
			               finding.detail[0] ? finding.detail
			                                 : strerror(-finding.result));
		else
			(void)snprintf(check.detail, sizeof(check.detail), "%.150s",
			               finding.detail[0] ? finding.detail : "works");
		on_check(&check, ctx);
	}
}

const char *doctor_status_name(enum doctor_status status)
{
	static const char *const names[] = {"ok", "missing", "degraded"};
	return names[status];
}

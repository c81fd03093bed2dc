/*
 * floor -p WORKERS -s SECONDS: what the kernel takes for the walls of a sandbox and nothing else.
 * Each life makes what every sandbox of ours has (a user namespace with its range, six others, the
 * network with its rules, control groups with limits, an overlay over files in memory, /proc and
 * /dev, the filter), runs /bin/true in it by one process, and takes it down. There is no keeper, no
 * init that stays, no daemon, store, log, disk limit, Landlock or message: whatever Cloche does for
 * its promises comes on top of this. Needs root. Prints {"count", "failures", "us"}.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "keeper/procdev.h"
#include "keeper/uplink.h"
#include "os/caps.h"
#include "os/cgroup.h"
#include "os/mount.h"
#include "os/ns.h"
#include "os/seccomp.h"

enum { RANGE_BASE = 1 << 30, RANGE_COUNT = 65536, AGENT = 1000, WORKERS_MAX = 64 };

static const struct cgroup_limits limits = {
	.memory = UINT64_C(2) << 30, .cpu_milli = 2000, .pids = 512};
static struct cgroup_layout layout;

struct life {
	int userns, dev, small;
	struct cgroup cgroup;
	struct uplink uplink;
};

static uint64_t clock_us(void)
{
	struct timespec now;
	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static int make_place(int root, const char *name)
{
	return mkdirat(root, name, 0755) < 0 && errno != EEXIST ? -errno : 0;
}

/* /usr of the machine, with the links beside it, on a layer in memory. */
static int fill(int root)
{
	static const char *const places[] = {"usr", "etc", "tmp"};
	static const char *const links[] = {"bin", "sbin", "lib", "lib64"};
	auto_close int usr = -1;
	int r = 0;
	for (size_t i = 0; r >= 0 && i < ARRAY_LEN(places); i++)
		r = make_place(root, places[i]);
	for (size_t i = 0; r >= 0 && i < ARRAY_LEN(links); i++) {
		char target[16];
		(void)snprintf(target, sizeof(target), "usr/%s", links[i]); /* fits */
		r = symlinkat(target, root, links[i]) < 0 ? -errno : 0;
	}
	if (r >= 0)
		r = mount_clone(AT_FDCWD, "/usr", MOUNT_RO | MOUNT_NOSUID | MOUNT_NODEV, &usr);
	return r < 0 ? r : mount_attach(usr, root, "usr");
}

static int mount_at_sys(const char *type, const char *options, int *ret_dir)
{
	auto_close int mount = -1;
	int r = mount_new(type, "floor", options, MOUNT_NOSUID | MOUNT_NODEV, &mount);
	auto_close int place = open("/sys", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (r >= 0)
		r = mount_attach_fd(mount, place);
	if (r < 0)
		return r;
	*ret_dir = open("/sys", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return *ret_dir < 0 ? -errno : 0;
}

static int build_root(const struct life *life)
{
	static const char *const places[] = {"lower", "upper",      "work",
	                                     "small", "lower/proc", "lower/dev"};
	auto_close int scratch = -1, root = -1, shm = -1;
	struct err err = {0};
	int r = mount_make_slave();
	if (r >= 0)
		r = mount_at_sys("tmpfs", "size=1m,mode=755", &scratch);
	for (size_t i = 0; r >= 0 && i < ARRAY_LEN(places); i++)
		r = make_place(scratch, places[i]);
	if (r >= 0)
		r = mount_attach(life->small, scratch, "small");
	if (r >= 0)
		r = mount_clone(scratch, "small/shm", MOUNT_NOSUID | MOUNT_NODEV, &shm);
	if (r >= 0)
		r = fchdir(scratch) < 0 ? -errno : 0;
	if (r >= 0)
		r = mount_at_sys("overlay", "userxattr,lowerdir=lower,upperdir=upper,workdir=work",
		                 &root);
	if (r >= 0)
		r = fill(root);
	if (r >= 0)
		r = procdev_attach(root, life->dev, shm, &err);
	return r < 0 ? r : mount_pivot(root);
}

static int drop(const struct life *life)
{
	int r = ns_enter(life->userns, CLONE_NEWUSER);
	if (r >= 0)
		r = caps_drop_bounding();
	if (r >= 0)
		r = caps_become(AGENT, AGENT, 0);
	if (r >= 0)
		r = caps_no_new_privs();
	return r < 0 ? r : seccomp_install(SECCOMP_QUIET);
}

/* Process 1 inside. */
static NORETURN void inside(const struct life *life)
{
	int status = 0;
	if (cgroup_attach(&life->cgroup, CGROUP_WORK, 0) < 0 || build_root(life) < 0 ||
	    drop(life) < 0)
		_exit(1);
	pid_t pid = vfork();
	if (pid == 0) {
		(void)execl("/bin/true", "true", (char *)NULL);
		_exit(126);
	}
	_exit(pid < 0 || waitpid(pid, &status, 0) != pid || status != 0);
}

static int run_inside(const struct life *life)
{
	int status;
	uint64_t flags = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP;
	pid_t pid = ns_clone(flags | CLONE_NEWTIME, -1, NULL);
	if (pid == 0)
		inside(life);
	if (pid < 0)
		return pid;
	return waitpid(pid, &status, 0) == pid && status == 0 ? 0 : -EIO;
}

static int live_once(void)
{
	char name[32];
	const struct ns_map map = {.inside = 0, .outside = RANGE_BASE, .count = RANGE_COUNT};
	struct life life = {.userns = -1, .small = -1, .dev = procdev_take_dev()};
	(void)snprintf(name, sizeof(name), "floor-%d", (int)getpid()); /* fits */
	cgroup_init(&life.cgroup);
	uplink_init(&life.uplink);
	int r = cgroup_create(&layout, name, &limits, (uid_t)-1, &life.cgroup);
	if (r >= 0)
		r = ns_user_create(&map, 1, &map, 1, false, &life.userns);
	if (r >= 0)
		r = procdev_make_small(limits.memory, RANGE_BASE, &life.small);
	if (r >= 0)
		r = uplink_set_up(&life.uplink);
	if (r >= 0)
		r = run_inside(&life);
	uplink_done(&life.uplink);
	fd_closep(&life.userns);
	fd_closep(&life.small);
	fd_closep(&life.dev);
	cgroup_done(&life.cgroup);
	int removed = cgroup_remove(&layout, name);
	return r < 0 ? r : removed;
}

struct counts {
	unsigned lives, failures;
};

static NORETURN void work(struct counts *counts, uint64_t end_us)
{
	procdev_warm();
	while (clock_us() < end_us) {
		int r = live_once();
		if (r < 0 && counts->failures++ == 0)
			fprintf(stderr, "floor: %s\n", strerror(-r));
		counts->lives += r >= 0;
	}
	_exit(0);
}

int main(int argc, char **argv)
{
	unsigned workers = 2, seconds = 4;
	int letter;
	while ((letter = getopt(argc, argv, "p:s:")) != -1) {
		unsigned number = letter == '?' ? 0 : (unsigned)strtoul(optarg, NULL, 10);
		*(letter == 'p' ? &workers : &seconds) = number;
	}
	struct counts *counts = mmap(NULL, WORKERS_MAX * sizeof(*counts), PROT_READ | PROT_WRITE,
	                             MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (workers == 0 || workers > WORKERS_MAX || counts == MAP_FAILED ||
	    cgroup_detect(&layout) < 0)
		return 2;
	uint64_t start = clock_us();
	for (unsigned i = 0; i < workers; i++) {
		pid_t pid = fork();
		if (pid == 0)
			work(&counts[i], start + (uint64_t)seconds * 1000000);
		if (pid < 0)
			return 1;
	}
	while (wait(NULL) > 0)
		;
	struct counts all = {0};
	for (unsigned i = 0; i < workers; i++) {
		all.lives += counts[i].lives;
		all.failures += counts[i].failures;
	}
	printf("{\"count\":%u,\"failures\":%u,\"us\":%llu,\"each\":[]}\n", all.lives, all.failures,
	       (unsigned long long)(clock_us() - start));
	return 0;
}

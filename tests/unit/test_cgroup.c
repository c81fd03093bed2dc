/* Both writers and the detection against fake trees; then the real thing where there is one. */
#include "os/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "base/str.h"
#include "harness/test.h"
#include "os/caps.h"
#include "os/ns.h"

#define CG "/sys/fs/cgroup"

/* --- a fake tree below test_dir() --- */

static void make_dirs(const char *path)
{
	char whole[512];

	(void)snprintf(whole, sizeof(whole), "%s%s", test_dir(), path);
	for (char *at = whole + strlen(test_dir()); at; *at = '/') {
		at = strchr(at + 1, '/');
		if (at)
			*at = '\0';
		CHECK(mkdir(whole, 0755) == 0 || errno == EEXIST);
		if (!at)
			break;
	}
}

static void write_fake(const char *dir, const char *file, const char *text)
{
	char path[512];

	(void)snprintf(path, sizeof(path), "%s/%s", dir + 1, file);
	test_write_file(path, text, strlen(text));
}

static void check_fake(const char *dir, const char *file, const char *wanted)
{
	char path[512];
	auto_free char *text = NULL;

	(void)snprintf(path, sizeof(path), "%s%s/%s", test_dir(), dir, file);
	CHECK_INT(io_read_file(AT_FDCWD, path, 4096, &text, NULL), 0);
	CHECK_STR(text, wanted);
}

static void check_base(const struct cgroup_layout *layout, int controller, const char *wanted)
{
	char path[512];

	(void)snprintf(path, sizeof(path), "%s%s", test_dir(), wanted);
	CHECK(layout->has[controller]);
	CHECK_STR(layout->base[controller], path);
}

/* A v2 group as the kernel shows it. */
static void make_v2_group(const char *dir, const char *controllers, const char *procs)
{
	make_dirs(dir);
	write_fake(dir, "cgroup.controllers", controllers);
	write_fake(dir, "cgroup.procs", procs);
	write_fake(dir, "cgroup.subtree_control", "");
}

/* --- detection --- */

static const char v1_mountinfo[] =
	"24 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n"
	"30 24 0:24 / " CG " rw,relatime - tmpfs tmpfs rw,mode=755\n"
	"31 30 0:25 / " CG "/cpu rw,relatime - cgroup cgroup rw,cpu\n"
	"32 30 0:26 / " CG "/cpuacct rw,relatime - cgroup cgroup rw,cpuacct\n"
	"33 30 0:28 / " CG "/memory rw,relatime - cgroup cgroup rw,memory\n"
	"34 30 0:30 / " CG "/freezer rw,relatime - cgroup cgroup rw,freezer\n"
	"35 30 0:32 / " CG "/pids rw,relatime - cgroup cgroup rw,pids\n"
	"36 30 0:33 / " CG "/systemd rw,relatime - cgroup cgroup rw,name=systemd\n"
	"37 30 0:34 / " CG "/unified rw,relatime - cgroup2 cgroup2 rw\n";

static const char v1_self[] = "9:name=systemd:/\n8:pids:/\n6:freezer:/\n"
			      "4:memory:/process_api/831b\n2:cpuacct:/\n1:cpu:/\n0::/\n";

static const char *const v1_groups[] = {
	CG "/cpu", CG "/cpuacct", CG "/memory", CG "/freezer", CG "/pids",
};

static void make_v1_tree(void)
{
	for (size_t i = 0; i < ARRAY_LEN(v1_groups); i++)
		make_dirs(v1_groups[i]);
	make_dirs(CG "/memory/process_api/831b");
	make_v2_group(CG "/unified", "hugetlb\n", "1\n");
}

TEST(v1_uses_the_root_of_each_hierarchy)
{
	struct cgroup_layout layout;

	make_v1_tree();
	CHECK_INT(cgroup_detect_from(v1_mountinfo, v1_self, test_dir(), &layout), 0);
	CHECK_INT(layout.version, 1);
	check_base(&layout, CGROUP_MEMORY, CG "/memory");
	check_base(&layout, CGROUP_CPU, CG "/cpu");
	check_base(&layout, CGROUP_CPUACCT, CG "/cpuacct");
	check_base(&layout, CGROUP_PIDS, CG "/pids");
	check_base(&layout, CGROUP_FREEZER, CG "/freezer");
}

TEST(v1_uses_the_own_group_where_the_root_is_foreign)
{
	char path[512];
	struct cgroup_layout layout;

	if (geteuid() != 0)
		SKIP("needs root to own the tree");
	make_v1_tree();
	(void)snprintf(path, sizeof(path), "%s" CG "/memory/process_api/831b", test_dir());
	CHECK(chmod(path, 0777) == 0);
	CHECK(chmod(test_dir(), 0755) == 0);
	CHECK_INT(caps_become(65534, 65534, 0), 0);
	CHECK_INT(cgroup_detect_from(v1_mountinfo, v1_self, test_dir(), &layout), 0);
	CHECK_INT(layout.version, 1);
	check_base(&layout, CGROUP_MEMORY, CG "/memory/process_api/831b");
	CHECK(!layout.has[CGROUP_CPU]);
	CHECK_STR(layout.base[CGROUP_CPU], "");
}

TEST(hybrid_is_v1_and_shared_mounts_share_a_path)
{
	struct cgroup_layout layout;

	make_dirs(CG "/cpu,cpuacct");
	make_dirs(CG "/memory and more");
	make_dirs(CG "/pids");
	make_v2_group(CG "/unified/user.slice", "", "");
	CHECK_INT(cgroup_detect_from(
			  "1 0 0:1 / " CG "/unified rw shared:5 - cgroup2 cgroup2 rw,nsdelegate\n"
			  "2 0 0:2 / " CG
			  "/cpu,cpuacct rw shared:6 - cgroup cgroup rw,cpu,cpuacct\n"
			  "3 0 0:3 / " CG "/memory\\040and\\040more rw - cgroup cgroup rw,memory\n"
			  "4 0 0:4 / " CG
			  "/pids rw master:1 propagate_from:2 - cgroup cgroup rw,pids\n",
			  "5:cpu,cpuacct:/\n4:memory:/\n3:pids:/\n0::/user.slice\n", test_dir(),
			  &layout),
	          0);
	CHECK_INT(layout.version, 1);
	check_base(&layout, CGROUP_CPU, CG "/cpu,cpuacct");
	check_base(&layout, CGROUP_CPUACCT, CG "/cpu,cpuacct");
	check_base(&layout, CGROUP_MEMORY, CG "/memory and more");
	CHECK(!layout.has[CGROUP_FREEZER]);
}

static const char v2_mountinfo[] =
	"25 1 0:23 / /sys rw - sysfs sysfs rw\n"
	"30 25 0:26 / " CG " rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";

static void make_v2_tree(const char *service_procs)
{
	make_v2_group(CG, "cpuset cpu io memory hugetlb pids\n", "1\n");
	make_v2_group(CG "/system.slice/cloche.service", "cpu memory pids\n", service_procs);
	write_fake(CG "/system.slice/cloche.service", "cgroup.type", "domain\n");
}

TEST(v2_uses_the_delegated_group)
{
	struct cgroup_layout layout;
	char self[32];

	(void)snprintf(self, sizeof(self), "%d\n", getpid());
	make_v2_tree(self);
	CHECK_INT(cgroup_detect_from(v2_mountinfo, "0::/system.slice/cloche.service\n", test_dir(),
	                             &layout),
	          0);
	CHECK_INT(layout.version, 2);
	check_base(&layout, 0, CG "/system.slice/cloche.service");
	CHECK(layout.has[CGROUP_MEMORY] && layout.has[CGROUP_CPU] && layout.has[CGROUP_PIDS]);
	CHECK(layout.has[CGROUP_FREEZER] && layout.has[CGROUP_CPUACCT]);
	/* from the leaf the broker moved itself to */
	CHECK_INT(cgroup_detect_from(v2_mountinfo,
	                             "0::/system.slice/cloche.service/cloche/broker\n", test_dir(),
	                             &layout),
	          0);
	check_base(&layout, 0, CG "/system.slice/cloche.service");
}

TEST(v2_leaves_a_group_with_others_in_it_alone)
{
	struct cgroup_layout layout;

	make_v2_tree("1\n2\n");
	CHECK_INT(cgroup_detect_from(v2_mountinfo, "0::/system.slice/cloche.service\n", test_dir(),
	                             &layout),
	          0);
	CHECK_INT(layout.version, 2);
	check_base(&layout, 0, CG);
}

TEST(v2_in_a_container_starts_at_what_is_mounted)
{
	struct cgroup_layout layout;

	make_v2_group(CG, "cpu memory pids\n", "1\n");
	CHECK_INT(cgroup_detect_from("30 25 0:26 /docker/abc " CG " rw - cgroup2 cgroup rw\n",
	                             "0::/docker/abc\n", test_dir(), &layout),
	          0);
	CHECK_INT(layout.version, 2);
	check_base(&layout, 0, CG);
}

TEST(without_usable_groups_the_version_is_none)
{
	struct cgroup_layout layout;

	CHECK_INT(cgroup_detect_from("", "", test_dir(), &layout), 0);
	CHECK_INT(layout.version, 0);
	CHECK_INT(
		cgroup_detect_from("nonsense\n1 2 3\n - cgroup2\n", "::\n:\n", test_dir(), &layout),
		0);
	CHECK_INT(layout.version, 0);
	/* mounted, but without a controller we need */
	make_v2_group(CG, "hugetlb\n", "1\n");
	CHECK_INT(cgroup_detect_from(v2_mountinfo, "0::/\n", test_dir(), &layout), 0);
	CHECK_INT(layout.version, 0);
	/* in the mount table, but not there */
	CHECK_INT(cgroup_detect_from(v1_mountinfo, v1_self, test_dir(), &layout), 0);
	CHECK_INT(layout.version, 0);
	/* nothing is made, nothing fails */
	const struct cgroup_limits limits = {1 << 20, 1000, 10};
	struct cgroup cgroup;
	CHECK_INT(cgroup_create(&layout, "box", &limits, (uid_t)-1, &cgroup), 0);
	CHECK_INT(cgroup_attach(&cgroup, CGROUP_WORK, 0), 0);
	CHECK_INT(cgroup_remove(&layout, "box"), 0);
	CHECK_INT(cgroup_freeze(&cgroup, CGROUP_WORK, true, 10), -EOPNOTSUPP);
	cgroup_done(&cgroup);
}

/* --- writers --- */

static const struct cgroup_limits limits_of_box = {64 << 20, 1500, 20};

static void make_parts(const char *group, const char *const *files, size_t count)
{
	static const char *const parts[] = {"", "/own", "/work"};
	char dir[256];

	for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
		(void)snprintf(dir, sizeof(dir), "%s/cloche/box%s", group, parts[i]);
		make_dirs(dir);
		write_fake(dir, "cgroup.procs", "");
		for (size_t j = 0; j < count; j++)
			write_fake(dir, files[j], "");
	}
}

static void make_v1_box(struct cgroup_layout *layout)
{
	static const char *const memory[] = {"memory.limit_in_bytes", "memory.memsw.limit_in_bytes",
	                                     "memory.swappiness", "memory.kmem.tcp.limit_in_bytes"};
	static const char *const cpu[] = {"cpu.cfs_quota_us", "cpu.cfs_period_us"};
	static const char *const pids[] = {"pids.max"};
	static const char *const freezer[] = {"freezer.state"};

	make_v1_tree();
	make_parts(CG "/memory", memory, ARRAY_LEN(memory));
	make_parts(CG "/cpu", cpu, ARRAY_LEN(cpu));
	make_parts(CG "/pids", pids, ARRAY_LEN(pids));
	make_parts(CG "/freezer", freezer, ARRAY_LEN(freezer));
	make_parts(CG "/cpuacct", NULL, 0);
	CHECK_INT(cgroup_detect_from(v1_mountinfo, v1_self, test_dir(), layout), 0);
}

TEST(v1_limits_are_written_where_they_count)
{
	struct cgroup_layout layout;
	struct cgroup cgroup;

	make_v1_box(&layout);
	CHECK_INT(cgroup_create(&layout, "box", &limits_of_box, (uid_t)-1, &cgroup), 0);
	check_fake(CG "/memory/cloche/box", "memory.limit_in_bytes", "67108864");
	check_fake(CG "/memory/cloche/box", "memory.memsw.limit_in_bytes", "67108864");
	check_fake(CG "/memory/cloche/box", "memory.kmem.tcp.limit_in_bytes", "16777216");
	check_fake(CG "/cpu/cloche/box", "cpu.cfs_quota_us", "150000");
	check_fake(CG "/cpu/cloche/box", "cpu.cfs_period_us", "100000");
	check_fake(CG "/pids/cloche/box", "pids.max", "20");
	CHECK_INT(cgroup_clone_fd(&cgroup, CGROUP_WORK), -1);
	cgroup_done(&cgroup);
}

TEST(v1_only_the_roll_has_our_own)
{
	struct cgroup_layout layout;
	struct cgroup cgroup;

	make_v1_box(&layout);
	CHECK_INT(cgroup_create(&layout, "box", &limits_of_box, (uid_t)-1, &cgroup), 0);
	CHECK_INT(cgroup_attach(&cgroup, CGROUP_OWN, 4711), 0);
	CHECK_INT(cgroup_attach(&cgroup, CGROUP_WORK, 4712), 0);
	for (size_t i = 0; i < ARRAY_LEN(v1_groups); i++) {
		bool is_roll = strcmp(v1_groups[i], CG "/freezer") == 0;
		char dir[256];
		(void)snprintf(dir, sizeof(dir), "%s/cloche/box", v1_groups[i]);
		check_fake(dir, "cgroup.procs", is_roll ? "4711" : "4712");
	}
	check_fake(CG "/freezer/cloche/box/work", "cgroup.procs", "4712");
	cgroup_done(&cgroup);
}

TEST(v1_the_zygote_enters_the_folder)
{
	struct cgroup_layout layout;

	make_v1_box(&layout);
	for (size_t i = 0; i < ARRAY_LEN(v1_groups); i++) {
		char dir[256];
		(void)snprintf(dir, sizeof(dir), "%s/cloche", v1_groups[i]);
		write_fake(dir, "cgroup.procs", "");
	}
	CHECK_INT(cgroup_enter_folder(&layout), 0);
	for (size_t i = 0; i < ARRAY_LEN(v1_groups); i++) {
		char dir[256];
		(void)snprintf(dir, sizeof(dir), "%s/cloche", v1_groups[i]);
		check_fake(dir, "cgroup.procs", "0");
	}
}

static void clear_v1_limits(void)
{
	write_fake(CG "/memory/cloche/box", "memory.limit_in_bytes", "");
	write_fake(CG "/cpu/cloche/box", "cpu.cfs_quota_us", "");
	write_fake(CG "/pids/cloche/box", "pids.max", "");
}

TEST(v1_a_limit_of_zero_is_left_alone)
{
	const struct cgroup_limits pids = {0, 0, 33}, memory = {1 << 20, 0, 0};
	struct cgroup_layout layout;
	struct cgroup cgroup;

	make_v1_box(&layout);
	CHECK_INT(cgroup_open_part(&layout, "../box", CGROUP_WORK, &cgroup), -EINVAL);
	CHECK_INT(cgroup_open_part(&layout, "box", CGROUP_WORK, &cgroup), 0);
	CHECK_INT(cgroup.dir[CGROUP_PIDS][CGROUP_TOP], -1);
	clear_v1_limits();
	CHECK_INT(cgroup_set_limits(&cgroup, &pids), 0);
	check_fake(CG "/pids/cloche/box", "pids.max", "33");
	check_fake(CG "/memory/cloche/box", "memory.limit_in_bytes", "");
	check_fake(CG "/cpu/cloche/box", "cpu.cfs_quota_us", "");
	clear_v1_limits();
	CHECK_INT(cgroup_set_limits(&cgroup, &memory), 0);
	check_fake(CG "/memory/cloche/box", "memory.limit_in_bytes", "1048576");
	check_fake(CG "/pids/cloche/box", "pids.max", "");
	cgroup_done(&cgroup);
}

TEST(v1_meters_are_read_from_work)
{
	struct cgroup_layout layout;
	struct cgroup cgroup;
	struct cgroup_usage usage;

	make_v1_box(&layout);
	write_fake(CG "/memory/cloche/box", "memory.usage_in_bytes", "1000\n");
	write_fake(CG "/memory/cloche/box", "memory.max_usage_in_bytes", "2000\n");
	write_fake(CG "/memory/cloche/box", "memory.oom_control",
	           "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n");
	write_fake(CG "/cpuacct/cloche/box", "cpuacct.usage", "5000000\n");
	write_fake(CG "/pids/cloche/box", "pids.current", "7\n");
	write_fake(CG "/pids/cloche/box", "pids.events", "max 9\n");
	CHECK_INT(cgroup_open(&layout, "box", &cgroup), 0);
	CHECK_INT(cgroup_read(&cgroup, &usage), 0);
	CHECK_INT(usage.memory, 1000);
	CHECK_INT(usage.memory_peak, 2000);
	CHECK_INT(usage.oom_kills, 3);
	CHECK_INT(usage.cpu_us, 5000);
	CHECK_INT(usage.pids, 7);
	CHECK_INT(usage.pids_denied, 9);
	cgroup_done(&cgroup);
}

TEST(v1_freezing_waits_for_the_state)
{
	struct cgroup_layout layout;
	struct cgroup cgroup;

	make_v1_box(&layout);
	CHECK_INT(cgroup_open(&layout, "box", &cgroup), 0);
	CHECK_INT(cgroup_freeze(&cgroup, CGROUP_WORK, true, 1000), 0);
	check_fake(CG "/freezer/cloche/box/work", "freezer.state", "FROZEN");
	CHECK_INT(cgroup_freeze(&cgroup, CGROUP_WORK, false, 1000), 0);
	check_fake(CG "/freezer/cloche/box/work", "freezer.state", "THAWED");
	cgroup_done(&cgroup);
}

TEST(v1_killing_signals_everything_named)
{
	struct cgroup_layout layout;
	char procs[64];
	int status;
	pid_t pid = fork();

	if (pid == 0)
		for (;;)
			pause();
	make_v1_box(&layout);
	(void)snprintf(procs, sizeof(procs), "0\n%d\n", pid);
	write_fake(CG "/pids/cloche/box", "cgroup.procs", procs);
	/* a fake group never gets empty */
	CHECK_INT(cgroup_kill(&layout, "box", 20), -ETIMEDOUT);
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	check_fake(CG "/pids/cloche/box", "pids.max", "0");
	check_fake(CG "/freezer/cloche/box", "freezer.state", "THAWED");
}

static void make_v2_box(struct cgroup_layout *layout)
{
	static const char *const files[] = {
		"cgroup.subtree_control", "memory.max", "memory.swap.max",
		"memory.oom.group",       "cpu.max",    "pids.max",
		"cgroup.freeze",          "cgroup.kill"};
	char self[32];

	(void)snprintf(self, sizeof(self), "%d\n", getpid());
	make_v2_tree(self);
	make_parts(CG "/system.slice/cloche.service", files, ARRAY_LEN(files));
	make_v2_group(CG "/system.slice/cloche.service/cloche", "memory pids cpu\n", "");
	make_v2_group(CG "/system.slice/cloche.service/cloche/broker", "memory pids cpu\n", "");
	CHECK_INT(cgroup_detect_from(v2_mountinfo, "0::/system.slice/cloche.service\n", test_dir(),
	                             layout),
	          0);
	CHECK_INT(layout->version, 2);
}

#define BOX CG "/system.slice/cloche.service/cloche/box"

TEST(v2_limits_are_written_where_they_count)
{
	const struct cgroup_limits none = {UINT64_MAX, UINT64_MAX, UINT64_MAX};
	struct cgroup_layout layout;
	struct cgroup cgroup;

	make_v2_box(&layout);
	CHECK_INT(cgroup_create(&layout, "box", &limits_of_box, (uid_t)-1, &cgroup), 0);
	check_fake(BOX "/work", "memory.max", "67108864");
	check_fake(BOX "/work", "memory.swap.max", "0");
	check_fake(BOX "/work", "memory.oom.group", "0");
	check_fake(BOX "/work", "cpu.max", "150000 100000");
	check_fake(BOX "/work", "pids.max", "20");
	check_fake(BOX "/own", "pids.max", "64");
	check_fake(BOX "/work", "cgroup.subtree_control", "");
	/* one write a controller; the fake keeps the last */
	check_fake(BOX, "cgroup.subtree_control", "+cpusry");
	CHECK(cgroup_clone_fd(&cgroup, CGROUP_WORK) >= 0);
	write_fake(BOX "/work", "memory.max", "");
	write_fake(BOX "/work", "cpu.max", "");
	write_fake(BOX "/work", "pids.max", "");
	CHECK_INT(cgroup_set_limits(&cgroup, &none), 0);
	check_fake(BOX "/work", "memory.max", "max");
	check_fake(BOX "/work", "cpu.max", "max 100000");
	check_fake(BOX "/work", "pids.max", "max");
	CHECK_INT(cgroup_attach(&cgroup, CGROUP_WORK, 0), 0);
	check_fake(BOX "/work", "cgroup.procs", "0");
	cgroup_done(&cgroup);
}

TEST(v2_a_limit_of_zero_is_left_alone)
{
	const struct cgroup_limits cpu = {0, 500, 0};
	struct cgroup_layout layout;
	struct cgroup cgroup;

	make_v2_box(&layout);
	write_fake(BOX "/work", "memory.max", "");
	write_fake(BOX "/work", "pids.max", "");
	CHECK_INT(cgroup_open_part(&layout, "box", CGROUP_WORK, &cgroup), 0);
	CHECK_INT(cgroup_set_limits(&cgroup, &cpu), 0);
	check_fake(BOX "/work", "cpu.max", "50000 100000");
	check_fake(BOX "/work", "memory.max", "");
	check_fake(BOX "/work", "pids.max", "");
	cgroup_done(&cgroup);
}

TEST(v2_meters_are_read_from_work)
{
	struct cgroup_layout layout;
	struct cgroup cgroup;
	struct cgroup_usage usage;

	make_v2_box(&layout);
	write_fake(BOX "/work", "memory.current", "1000\n");
	write_fake(BOX "/work", "memory.events", "low 0\nhigh 0\nmax 5\noom 2\noom_kill 4\n");
	write_fake(BOX "/work", "cpu.stat", "usage_usec 1234\nuser_usec 1000\n");
	write_fake(BOX "/work", "pids.current", "7\n");
	write_fake(BOX "/work", "pids.events", "max 9\n");
	CHECK_INT(cgroup_open(&layout, "box", &cgroup), 0);
	CHECK_INT(cgroup_read(&cgroup, &usage), 0);
	CHECK_INT(usage.memory, 1000);
	CHECK_INT(usage.memory_peak, 1000); /* a kernel without memory.peak */
	CHECK_INT(usage.oom_kills, 4);
	CHECK_INT(usage.cpu_us, 1234);
	CHECK_INT(usage.pids, 7);
	CHECK_INT(usage.pids_denied, 9);
	write_fake(BOX "/work", "memory.peak", "3000\n");
	CHECK_INT(cgroup_read(&cgroup, &usage), 0);
	CHECK_INT(usage.memory_peak, 3000);
	cgroup_done(&cgroup);
}

TEST(v2_freezing_waits_for_the_event)
{
	struct cgroup_layout layout;
	struct cgroup cgroup;

	make_v2_box(&layout);
	write_fake(BOX "/work", "cgroup.events", "populated 1\nfrozen 0\n");
	CHECK_INT(cgroup_open(&layout, "box", &cgroup), 0);
	CHECK_INT(cgroup_freeze(&cgroup, CGROUP_WORK, true, 10), -ETIMEDOUT);
	check_fake(BOX "/work", "cgroup.freeze", "1");
	write_fake(BOX "/work", "cgroup.events", "populated 1\nfrozen 1\n");
	CHECK_INT(cgroup_freeze(&cgroup, CGROUP_WORK, true, 10), 0);
	CHECK_INT(cgroup_freeze(&cgroup, CGROUP_WORK, false, 10), 0);
	check_fake(BOX "/work", "cgroup.freeze", "0");
	cgroup_done(&cgroup);
}

TEST(v2_killing_is_one_write)
{
	struct cgroup_layout layout;

	make_v2_box(&layout);
	CHECK_INT(cgroup_kill(&layout, "box", 10), 0); /* empty: nothing to do */
	check_fake(BOX, "cgroup.kill", "");
	write_fake(BOX "/work", "cgroup.procs", "1\n");
	CHECK_INT(cgroup_kill(&layout, "box", 10), -ETIMEDOUT);
	check_fake(BOX, "cgroup.kill", "1");
}

TEST(v2_the_broker_moves_to_its_leaf)
{
	struct cgroup_layout layout;

	make_v2_box(&layout);
	CHECK_INT(cgroup_enter_leaf(&layout), 0);
	char self[32];
	(void)snprintf(self, sizeof(self), "%d", getpid());
	check_fake(CG "/system.slice/cloche.service/cloche/broker", "cgroup.procs", self);
	check_fake(CG "/system.slice/cloche.service", "cgroup.subtree_control", "+cpusry");
	check_fake(CG "/system.slice/cloche.service/cloche", "cgroup.subtree_control", "+cpusry");
}

static void count_boxes(const char *name, void *ctx)
{
	CHECK_STR(name, "box");
	++*(int *)ctx;
}

TEST(each_names_sandboxes_only)
{
	struct cgroup_layout layout;
	int count = 0;

	make_v2_box(&layout);
	CHECK_INT(cgroup_each(&layout, count_boxes, &count), 0);
	CHECK_INT(count, 1);
}

TEST(the_keeper_gets_the_freezer_only)
{
	struct cgroup_layout layout;
	struct cgroup cgroup;
	struct stat st;

	if (geteuid() != 0)
		SKIP("needs root to give files away");
	make_v2_box(&layout);
	CHECK_INT(cgroup_create(&layout, "box", &limits_of_box, 4242, &cgroup), 0);
	CHECK(fstatat(cgroup.dir[0][CGROUP_WORK], "cgroup.freeze", &st, 0) == 0);
	CHECK_INT(st.st_uid, 4242);
	CHECK(fstatat(cgroup.dir[0][CGROUP_WORK], "cgroup.procs", &st, 0) == 0);
	CHECK_INT(st.st_uid, 0);
	CHECK(fstatat(cgroup.dir[0][CGROUP_WORK], "memory.max", &st, 0) == 0);
	CHECK_INT(st.st_uid, 0);
	cgroup_done(&cgroup);
}

TEST(names_that_are_no_folder_are_refused)
{
	static const char *const names[] = {"", ".", "..", "a/b", "broker", "../x"};
	struct cgroup_layout layout;
	struct cgroup cgroup;

	make_v2_box(&layout);
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		CHECK_INT(cgroup_create(&layout, names[i], &limits_of_box, 0, &cgroup), -EINVAL);
		CHECK_INT(cgroup_remove(&layout, names[i]), -EINVAL);
		CHECK_INT(cgroup_kill(&layout, names[i], 1), -EINVAL);
	}
}

/* --- this machine --- */

static void crowd(const struct cgroup *cgroup)
{
	if (cgroup_attach(cgroup, CGROUP_WORK, 0) < 0)
		_exit(1);
	for (int i = 0; i < 30; i++) {
		if (fork() == 0)
			break;
	}
	for (;;)
		pause();
}

TEST(this_machine_limits_freezes_and_kills)
{
	struct cgroup_layout layout;
	struct cgroup cgroup;
	struct cgroup_usage usage = {0};
	char name[32];

	CHECK_INT(cgroup_detect(&layout), 0);
	if (layout.version == 0 || !layout.has[CGROUP_PIDS])
		SKIP("no pids controller at hand");
	(void)snprintf(name, sizeof(name), "unit-%d", getpid());
	int r = cgroup_enter_leaf(&layout); /* hands the controllers on */
	if (r == 0)
		r = cgroup_create(&layout, name, &limits_of_box, 65534, &cgroup);
	if (r == -EPERM || r == -EACCES || r == -EROFS)
		SKIP("control groups are not ours to make");
	CHECK_INT(r, 0);
	pid_t pid = fork();
	if (pid == 0)
		crowd(&cgroup);
	for (int i = 0; i < 2000 && usage.pids_denied == 0; i++) {
		CHECK_INT(cgroup_read(&cgroup, &usage), 0);
		usleep(1000);
	}
	CHECK_INT(usage.pids, 20);
	CHECK(usage.memory > 0);
	CHECK_INT(cgroup_remove(&layout, name), -EBUSY);
	CHECK_INT(cgroup_freeze(&cgroup, CGROUP_WORK, true, 2000), 0);
	CHECK_INT(cgroup_freeze(&cgroup, CGROUP_WORK, false, 2000), 0);
	CHECK_INT(cgroup_freeze(&cgroup, CGROUP_WORK, true, 2000), 0);
	CHECK_INT(cgroup_kill(&layout, name, 5000), 0);
	CHECK(waitpid(pid, NULL, 0) == pid);
	cgroup_done(&cgroup);
	CHECK_INT(cgroup_remove(&layout, name), 0);
	CHECK_INT(cgroup_remove(&layout, name), 0);
}

/* A child that waits, with this uid. */
static pid_t waiter(uid_t uid)
{
	pid_t pid = fork();

	if (pid == 0) {
		if (setresuid(uid, uid, uid) < 0)
			_exit(1);
		for (;;)
			pause();
	}
	for (int i = 0; i < 2000; i++) {
		char path[32];
		struct stat st;
		(void)snprintf(path, sizeof(path), "/proc/%d/task", pid);
		if (stat(path, &st) == 0 && st.st_uid == uid)
			break;
		usleep(1000);
	}
	return pid;
}

static void reap(pid_t pid)
{
	CHECK_INT(kill(pid, SIGKILL), 0);
	CHECK(waitpid(pid, NULL, 0) == pid);
}

/* Moves its own process in, and no other process of the machine. */
static void try_door(const struct cgroup_layout *layout, uid_t owner)
{
	struct cgroup cgroup;
	struct cgroup_door door;
	char name[32];

	(void)snprintf(name, sizeof(name), "unit-door-%d", getpid());
	int r = cgroup_create(layout, name, &limits_of_box, 65534, &cgroup);
	if (r == -EPERM || r == -EACCES || r == -EROFS)
		SKIP("control groups are not ours to make");
	CHECK_INT(r, 0);
	CHECK_INT(cgroup_open_door(&cgroup, CGROUP_WORK, owner, &door), 0);
	CHECK_INT(geteuid(), 0);
	pid_t own = waiter(owner), foreign = waiter(0);
	CHECK_INT(cgroup_attach(&cgroup, CGROUP_OWN, own), 0);
	CHECK_INT(cgroup_attach_by(&door, foreign), -EACCES);
	CHECK_INT(cgroup_attach_by(&door, own), 0);
	reap(own);
	reap(foreign);
	cgroup_close_door(&door);
	cgroup_done(&cgroup);
	CHECK_INT(cgroup_remove(layout, name), 0);
}

TEST(a_door_lets_only_its_owner_in)
{
	struct cgroup_layout layout;

	if (geteuid() != 0)
		SKIP("needs root to open as somebody else");
	CHECK_INT(cgroup_detect(&layout), 0);
	if (layout.version == 0)
		SKIP("no control groups here");
	try_door(&layout, 0x40000000 + 60999);
}

/* Freezing and killing need no controller, so a v2 tree that a hybrid machine mounts will do. */
static bool find_v2(struct cgroup_layout *layout)
{
	static const char *const places[] = {CG "/unified", CG};

	*layout = (struct cgroup_layout){.version = 2};
	for (size_t i = 0; i < ARRAY_LEN(places); i++) {
		char path[64];
		(void)snprintf(path, sizeof(path), "%s/cgroup.controllers", places[i]);
		if (access(path, F_OK) == 0 && access(places[i], W_OK) == 0)
			return str_copy(layout->base[0], sizeof(layout->base[0]), places[i]);
	}
	return false;
}

TEST(this_machine_freezes_and_kills_on_v2)
{
	struct cgroup_layout layout;
	struct cgroup cgroup;
	struct cgroup_usage usage;
	char name[32];

	if (!find_v2(&layout))
		SKIP("no v2 tree that is ours to change");
	(void)snprintf(name, sizeof(name), "unit-%d", getpid());
	int r = cgroup_create(&layout, name, &limits_of_box, 65534, &cgroup);
	if (r == -EPERM || r == -EACCES || r == -EROFS)
		SKIP("control groups are not ours to make");
	CHECK_INT(r, 0);
	int pidfd = -1;
	pid_t pid = ns_clone(0, cgroup_clone_fd(&cgroup, CGROUP_WORK), &pidfd);
	if (pid == 0) {
		for (;;)
			pause();
	}
	CHECK(pid > 0);
	CHECK_INT(cgroup_read(&cgroup, &usage), 0);
	CHECK_INT(cgroup_remove(&layout, name), -EBUSY);
	CHECK_INT(cgroup_freeze(&cgroup, CGROUP_WORK, true, 2000), 0);
	CHECK_INT(cgroup_kill(&layout, name, 5000), 0);
	int status;
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	close(pidfd);
	cgroup_done(&cgroup);
	CHECK_INT(cgroup_remove(&layout, name), 0);
}

TEST(a_door_of_v2_lets_only_its_own_tree_in)
{
	struct cgroup_layout layout;

	if (geteuid() != 0)
		SKIP("needs root to open as somebody else");
	if (!find_v2(&layout))
		SKIP("no v2 tree that is ours to change");
	try_door(&layout, 0x40000000 + 60999);
}

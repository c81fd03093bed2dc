/*
 * Who runs this: the keeper, root of the namespace cloche serves in. Bytes looked at: the SLOT
 * message and what our own init says before any foreign program runs. Gone at the end: every
 * privilege (the last step), all fds of layers and grants.
 *
 * The cgroup dance: on v1 moving a process into a group waits for a grace period of the kernel, but
 * a child is born in its parent's group for nothing. So the keeper goes into `own` and gives birth
 * to init there, and only init's spawner, to which all commands are born, is moved: into `work`.
 *
 * Every sandbox is made in two halves, of which only the second knows its image, and init has done
 * its exec in the first. A blank one waits in between, with all its privileges and without having
 * seen a byte of anybody's; the others go on at once. So one that waited ends as exactly what one
 * is that did not.
 */
#include "keeper/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "keeper/denials.h"
#include "keeper/guest.h"
#include "keeper/isolate.h"
#include "keeper/procdev.h"
#include "os/caps.h"
#include "os/landlock.h"
#include "os/ns.h"
#include "os/path.h"
#include "os/proc.h"
#include "os/seccomp.h"
#include "wire/wire.h"

/* INIT_ID: what init and the spawner are inside, where there is a range. */
enum {
	READY_TIMEOUT_MS = 20000,
	SPAWN_QUEUE_BYTES = 4 * 1024 * 1024,
	AGENT_ID = 1000,
	INIT_ID = 60999,
	SLOT_REQUEST = 1,
};

static void note(struct launch *launch, const char *fmt, ...) PRINTF(2, 3);

static void note(struct launch *launch, const char *fmt, ...)
{
	if (launch->mechanism_count == LAUNCH_MECHANISMS)
		return;
	char *to = launch->mechanisms[launch->mechanism_count++];
	va_list va;
	va_start(va, fmt);
	(void)vsnprintf(to, sizeof(launch->mechanisms[0]), fmt, va);
	va_end(va);
}

/* A mechanism this machine lacks: refused by name, or shown when the profile allows it. */
static int missing(struct launch *launch, const char *name, const char *remedy, struct err *err)
{
	note(launch, "degraded=%s", name);
	if (launch->slot->degraded)
		return 0;
	return err_set(
		err, ERR_MISSING,
		"%s is not available here: %s; or allow a weaker sandbox with degraded = true",
		name, remedy);
}

static int record_process(struct launch *launch, const char *name, pid_t pid, struct err *err)
{
	char boot[37], text[128];
	uint64_t start;
	int r = proc_boot_id(boot);
	if (r >= 0)
		r = proc_start_time(pid, &start);
	if (r < 0)
		return err_sys(err, -r, "read the identity of %s", name);
	int n = snprintf(text, sizeof(text), "pid=%d\nstart=%llu\nboot=%s\n", (int)pid,
	                 (unsigned long long)start, boot);
	/* The boot id makes it worthless after a power cut. */
	r = io_swap_file(launch->slot->sandbox_dir, name, text, (size_t)n, 0644);
	return r < 0 ? err_sys(err, -r, "record the identity of %s", name) : 0;
}

static int step_identity(struct launch *launch, struct err *err)
{
	return record_process(launch, "keeper", getpid(), err);
}

static int check_controllers(struct launch *launch, struct err *err)
{
	static const struct {
		enum cgroup_controller controller;
		const char *name;
	} needed[] = {{CGROUP_MEMORY, "cgroup memory controller"},
	              {CGROUP_CPU, "cgroup cpu controller"},
	              {CGROUP_PIDS, "cgroup pids controller"}};
	static const char remedy[] =
		"run as root, or give this user a delegated cgroup (systemd: Delegate=yes)";
	for (size_t i = 0; i < ARRAY_LEN(needed); i++) {
		if (launch->layout.version != 0 && launch->layout.has[needed[i].controller])
			continue;
		if (missing(launch, needed[i].name, remedy, err) < 0)
			return -1;
	}
	return 0;
}

static int step_cgroup(struct launch *launch, struct err *err)
{
	note(launch, "cgroup=v%d", launch->layout.version);
	if (check_controllers(launch, err) < 0)
		return -1;
	if (launch->layout.version == 0 || !launch->layout.has[CGROUP_PIDS])
		launch->slot->nproc = launch->slot->limits.pids;
	if (launch->layout.version == 0)
		return 0;
	int r = cgroup_create(&launch->layout, launch->slot->id, &launch->slot->limits,
	                      launch->slot->keeper_uid, &launch->cgroup);
	if (r >= 0)
		r = cgroup_attach(&launch->cgroup, CGROUP_OWN, 0);
	return r < 0 ? err_sys(err, -r, "make the cgroup") : 0;
}

static int step_landlock(struct launch *launch, struct err *err)
{
	int abi = landlock_abi();
	if (abi > 0) {
		note(launch, "landlock=%d", abi);
		return 0;
	}
	return missing(launch, "Landlock",
	               "boot a kernel with CONFIG_SECURITY_LANDLOCK and lsm=landlock", err);
}

static int step_output(struct launch *launch, struct err *err)
{
	struct slot *slot = launch->slot;
	launch->out_dir = path_dir(slot->sandbox_dir, "out", 0750);
	if (launch->out_dir < 0)
		return err_sys(err, -launch->out_dir, "make the output directory");
	/* The group bit makes new files the daemon's to read and nobody else's. */
	if (fchown(launch->out_dir, slot->keeper_uid, slot->daemon_gid) < 0 ||
	    fchmod(launch->out_dir, 02750) < 0)
		return err_sys(err, errno, "own the output directory");
	return 0;
}

static int step_socket(struct launch *launch, struct err *err)
{
	char name[LIMIT_ID_LEN + 8];
	(void)snprintf(name, sizeof(name), "%s.sock", launch->slot->id);
	launch->listener = wire_listen(launch->slot->run_dir, name, 0660);
	if (launch->listener < 0)
		return err_sys(err, -launch->listener, "listen on run/%s", name);
	if (fchownat(launch->slot->run_dir, name, (uid_t)-1, launch->slot->daemon_gid,
	             AT_SYMLINK_NOFOLLOW) < 0)
		return err_sys(err, errno, "own run/%s", name);
	return 0;
}

/* What is counted per user (inotify instances, pending signals, timers) counts for the owner of a
 * user namespace as well as for the users in it. Were that root, one sandbox could use up what the
 * host's own services need; so it is the keeper's id, which no other sandbox has. */
static int make_userns(struct launch *launch, const struct ns_map *map, bool is_single)
{
	if (!launch->is_real_root)
		return ns_user_create(map, 1, map, 1, is_single, &launch->userns);
	if (seteuid(launch->slot->keeper_uid) < 0)
		return -errno;
	int r = caps_raise_permitted(0); /* the change of id lowered them */
	if (r >= 0)
		r = ns_user_create(map, 1, map, 1, is_single, &launch->userns);
	return seteuid(0) < 0 ? -errno : r;
}

static int step_userns(struct launch *launch, struct err *err)
{
	const struct slot *slot = launch->slot;
	bool has_range = slot->range_count > AGENT_ID;
	struct ns_map map = {.inside = has_range ? 0 : AGENT_ID,
	                     .outside = slot->range_base,
	                     .count = has_range ? slot->range_count : 1};
	int r = make_userns(launch, &map, !has_range);
	/* Nothing that was promised is missing, but a wall others have: say so. */
	if (!launch->is_real_root)
		note(launch, "shared=%s", has_range ? "uid range" : "uid");
	note(launch, "uids=%u", has_range ? slot->range_count : 1);
	return r < 0 ? err_sys(err, -r, "make the user namespace") : 0;
}

static int step_disk(struct launch *launch, struct err *err)
{
	struct disk_spec *disk = &launch->slot->disk;
	if (disk->backend == DISK_AUTO)
		disk->backend = disk_choose(launch->slot->sandbox_dir);
	note(launch, "disk=%s", disk_name(disk->backend));
	disk->bytes = slot_disk_bytes(disk->backend, disk->bytes, launch->slot->limits.memory);
	if (disk->backend == DISK_LOOP) {
		/* Made by mke2fs once per size; afterwards a file to copy. */
		disk->loop_template_fd = disk_loop_template(launch->slot->templates, disk->bytes,
		                                            disk->inodes, rootfs_fill_disk);
		if (disk->loop_template_fd < 0)
			return err_sys(err, -disk->loop_template_fd, "make an empty disk image");
	}
	if (disk->backend == DISK_SAMPLED)
		return missing(launch, "disk limit", "choose disk_backend tmpfs, quota or loop",
		               err);
	return 0;
}

static int step_files(struct launch *launch, struct err *err)
{
	launch->rootfs = (struct rootfs){.slot = launch->slot,
	                                 .userns_fd = launch->userns,
	                                 .can_idmap = launch->is_real_root,
	                                 .scratch_fd = -1,
	                                 .small_fd = -1};
	return rootfs_prepare(&launch->rootfs, err);
}

static int step_sockets(struct launch *launch, struct err *err)
{
	int r = wire_pair(launch->control);
	if (r >= 0)
		r = wire_pair(launch->spawn);
	if (r >= 0)
		r = wire_know_sender(launch->spawn[0]);
	/* The spawner shares the workload's processor time: waiting for it to read would hand our
	 * own to whoever spins inside. Room for many requests instead, and a refusal beyond it. */
	int room = SPAWN_QUEUE_BYTES;
	if (r >= 0)
		r = io_set_nonblock(launch->spawn[0], true);
	if (r >= 0 &&
	    setsockopt(launch->spawn[0], SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof(room)) < 0)
		room = 0; /* the default has room for some */
	return r < 0 ? err_sys(err, -r, "make the sockets to init") : 0;
}

/* The child is born into it; the last step takes the keeper out again. */
static int step_network(struct launch *launch, struct err *err)
{
	int *small = &launch->rootfs.small_fd;
	int r = procdev_make_small(launch->slot->limits.memory, launch->slot->range_base, small);
	if (r < 0)
		return err_sys(err, -r, "make the file system in memory");
	r = denials_make(*small, &launch->uplink.denials);
	if (r < 0)
		return err_sys(err, -r, "make the file of denials");
	r = guest_make(*small, &launch->guest);
	if (r < 0)
		return err_sys(err, -r, "make the socket of the API inside");
	r = uplink_set_up(&launch->uplink);
	/* Without it policies are refused by name, and nothing leaves. */
	note(launch, "egress=%s", uplink_name(&launch->uplink));
	return r < 0 ? err_sys(err, -r, "make the network namespace") : 0;
}

/* The child: everything from here to exec. Reports a failure over the control socket. */
static int become_init(struct launch *launch, struct err *err)
{
	if (rootfs_ground(&launch->rootfs, err) < 0)
		return -1;
	int null = openat(launch->rootfs.scratch_fd, "dev/null", O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (null < 0)
		return err_sys(err, errno, "open /dev/null");
	const int fds[ISOLATE_FDS_] = {[ISOLATE_FD_NULL] = null,
	                               [ISOLATE_FD_CONTROL] = launch->control[1],
	                               [ISOLATE_FD_SPAWN] = launch->spawn[1],
	                               [ISOLATE_FD_USERNS] = launch->userns};
	return isolate_exec_init(fds, launch->slot->program, err);
}

static NORETURN void child(struct launch *launch)
{
	struct err err = {0};
	(void)become_init(launch, &err); /* comes back only with an error */
	struct wire_out out;
	wire_begin(&out, WIRE_ERROR, 0);
	wire_put_err(&out, &err);
	/* After the fds were placed, ours is 3; before that the original. One of the two works. */
	if (wire_send(launch->control[1], &out) < 0)
		(void)!wire_send(3, &out);
	_exit(1);
}

static int step_clone(struct launch *launch, struct err *err)
{
	uint64_t flags = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP;
	launch->init_pid = ns_clone(flags | CLONE_NEWTIME, -1, &launch->init_pidfd);
	bool has_time = launch->init_pid != -EINVAL && launch->init_pid != -EPERM;
	if (!has_time)
		launch->init_pid = ns_clone(flags, -1, &launch->init_pidfd);
	if (launch->init_pid == 0)
		child(launch);
	if (launch->init_pid < 0)
		return err_sys(err, -launch->init_pid, "make the namespaces");
	note(launch, "timens=%s", has_time ? "yes" : "no");
	fd_closep(&launch->control[1]);
	fd_closep(&launch->spawn[1]);
	return 0;
}

static int wait_message(const struct launch *launch, int sock, struct wire_msg *ret,
                        struct err *err)
{
	struct pollfd p = {.fd = sock, .events = POLLIN};
	int n;
	do {
		n = poll(&p, 1, READY_TIMEOUT_MS);
	} while (n < 0 && errno == EINTR);
	if (n <= 0)
		return err_set(err, ERR_TIMEOUT, "init did not answer within %d s",
		               READY_TIMEOUT_MS / 1000);
	n = wire_recv(sock, launch->bytes, LIMIT_WIRE_BYTES, ret);
	if (n <= 0)
		return err_set(err, ERR_INTERNAL, "init ended before it was ready");
	if (wire_get_err(ret, err) < 0) {
		wire_msg_done(ret);
		return -1;
	}
	return 0;
}

/* Executed, and its spawner forked, which says so itself: the kernel adds its number. */
static int step_waits(struct launch *launch, struct err *err)
{
	struct wire_msg msg;
	if (wait_message(launch, launch->control[0], &msg, err) < 0)
		return -1;
	wire_msg_done(&msg);
	if (wait_message(launch, launch->spawn[0], &msg, err) < 0)
		return -1;
	launch->spawner_pid = msg.sender;
	bool is_known = msg.type == WIRE_S_AGAIN && msg.sender > 0;
	wire_msg_done(&msg);
	return is_known ? 0 : err_set(err, ERR_PROTOCOL, "the spawner did not say who it is");
}

static int step_move(struct launch *launch, struct err *err)
{
	if (launch->layout.version == 0)
		return 0;
	uid_t owner = launch->is_real_root ? launch->slot->range_base + INIT_ID : geteuid();
	int r = cgroup_open_door(&launch->cgroup, CGROUP_WORK, owner, &launch->work_door);
	if (r >= 0)
		r = cgroup_attach(&launch->cgroup, CGROUP_WORK, launch->spawner_pid);
	return r < 0 ? err_sys(err, -r, "place the spawner in its cgroup") : 0;
}

static void put_rights(const struct slot *slot, struct wire_out *out)
{
	wire_put_u64(out, FIELD_RANGE_COUNT, slot->range_count);
	wire_put_u64(out, FIELD_NOFILE, slot->nofile);
	wire_put_u64(out, FIELD_NPROC, slot->nproc);
	wire_put_u64(out, FIELD_PARKED, slot->is_parked || slot->is_blank);
}

/* What is in force inside, when init serves. */
static int hear_ready(struct launch *launch, struct err *err)
{
	struct wire_msg msg;
	if (wait_message(launch, launch->control[0], &msg, err) < 0)
		return -1;
	size_t at = 0;
	const char *mechanism;
	while ((mechanism = wire_next_str(&msg, FIELD_MECHANISM, &at)) != NULL)
		note(launch, "%s", mechanism);
	wire_msg_done(&msg);
	return 0;
}

/* Inside nobody needs a right from here on: the root is built by us. But a program that has the
 * only id there is must be executed in that root first, and where processes are counted per user
 * that limit is among the rights, and a blank one does not know it. */
static int step_drop(struct launch *launch, struct err *err)
{
	const struct slot *slot = launch->slot;
	if (slot->nproc != UINT64_MAX || slot->range_count <= AGENT_ID)
		return 0;
	auto_wire_out struct wire_out out;
	wire_begin(&out, WIRE_I_DROP, 0);
	put_rights(slot, &out);
	int r = wire_send(launch->control[0], &out);
	if (r < 0)
		return err_sys(err, -r, "tell init to drop rights");
	launch->has_dropped = true;
	return hear_ready(launch, err);
}

/* Nothing here needs the sandbox's network, nor anybody's objects. */
static int step_leave(struct launch *launch, struct err *err)
{
	int r = uplink_leave();
	if (r >= 0)
		r = isolate_leave_ipc();
	return r < 0 ? err_sys(err, -r, "leave the network") : 0;
}

/* What needs no image and would keep others waiting later. */
static int step_walls(struct launch *launch, struct err *err)
{
	struct landlock_rule rules[2 + CGROUP_CONTROLLERS_] = {
		{".", LANDLOCK_ALL, launch->out_dir},
		{".", LANDLOCK_READ, launch->rootfs.disk_fd},
	};
	size_t count = 2;
	for (size_t i = 0; i < CGROUP_CONTROLLERS_; i++) {
		int dir = launch->cgroup.dir[i][CGROUP_WORK];
		if (dir >= 0)
			rules[count++] = (struct landlock_rule){".", LANDLOCK_WRITE_FILES, dir};
	}
	return isolate_prepare(rules, count, &launch->ruleset, err);
}

/* --- the second half --- */

bool launch_await(struct launch *launch, struct err *err)
{
	struct slot *slot = launch->slot;
	struct wire_msg msg;
	struct pollfd fds[] = {{.fd = slot->result, .events = POLLIN},
	                       {.fd = launch->init_pidfd, .events = POLLIN}};
	while (poll(fds, ARRAY_LEN(fds), -1) < 0 && errno == EINTR)
		;
	if (fds[1].revents || wire_recv(slot->result, launch->bytes, LIMIT_WIRE_BYTES, &msg) <= 0)
		return false;
	launch->made = slot->disk;
	launch->made_limits = slot->limits;
	launch->is_changed = true;
	if (slot_parse_rest(&msg, slot, err) < 0)
		(void)err_wrap(err, "start the sandbox (slot)"); /* launch_finish says it */
	wire_msg_done(&msg);
	return true;
}

/* What stays as it was is 0: most want the usual, and to set a limit again takes its time. */
static struct cgroup_limits other_limits(const struct launch *launch)
{
	const struct cgroup_limits *made = &launch->made_limits, *wanted = &launch->slot->limits;
	return (struct cgroup_limits){
		.memory = wanted->memory == made->memory ? 0 : wanted->memory,
		.cpu_milli = wanted->cpu_milli == made->cpu_milli ? 0 : wanted->cpu_milli,
		.pids = wanted->pids == made->pids ? 0 : wanted->pids};
}

/* A blank one was made for the usual limits, and what is missing here was said already. */
static int step_limits(struct launch *launch, struct err *err)
{
	struct slot *slot = launch->slot;
	if (!launch->is_changed)
		return 0;
	struct disk_spec wanted = slot->disk;
	slot->disk = launch->made;
	if (launch->layout.version == 0 || !launch->layout.has[CGROUP_PIDS])
		slot->nproc = slot->limits.pids;
	struct cgroup_limits other = other_limits(launch);
	int r = launch->layout.version == 0 ? 0 : cgroup_set_limits(&launch->cgroup, &other);
	if (r < 0)
		return err_sys(err, -r, "set the limits of the cgroup");
	wanted.bytes = slot_disk_bytes(slot->disk.backend, wanted.bytes, slot->limits.memory);
	if (wanted.backend != slot->disk.backend)
		return err_set(err, ERR_CONFLICT, "its disk is of another kind");
	if (wanted.is_lasting)
		r = disk_make_lasting(&slot->disk, launch->rootfs.disk_fd);
	if (r < 0)
		return err_sys(err, -r, "make the disk last");
	if (wanted.bytes == slot->disk.bytes && wanted.inodes == slot->disk.inodes)
		return 0;
	slot->disk.bytes = wanted.bytes;
	slot->disk.inodes = wanted.inodes;
	r = disk_resize(&slot->disk, launch->rootfs.disk_fd);
	return r < 0 ? err_sys(err, -r, "set the limit of the disk (%s)",
	                       disk_name(slot->disk.backend))
	             : 0;
}

static int step_sources(struct launch *launch, struct err *err)
{
	return rootfs_take(&launch->rootfs, err);
}

/* At its end "/" is the sandbox's, for us as for init and the spawner. */
static int step_build(struct launch *launch, struct err *err)
{
	const struct slot *slot = launch->slot;
	uint64_t memory =
		launch->is_changed && other_limits(launch).memory ? slot->limits.memory : 0;
	/* A parked one is entered once more, by whoever binds it. */
	if (slot->is_parked && record_process(launch, "init", launch->init_pid, err) < 0)
		return -1;
	int r = ns_enter(launch->init_pidfd, CLONE_NEWNS | CLONE_NEWUTS);
	if (r < 0)
		return err_sys(err, -r, "enter its namespaces");
	if (rootfs_build(&launch->rootfs, memory, err) < 0)
		return -1;
	if (sethostname(slot->hostname, strlen(slot->hostname)) < 0)
		return err_sys(err, errno, "set the hostname");
	return 0;
}

static int step_tell(struct launch *launch, struct err *err)
{
	auto_wire_out struct wire_out out;
	wire_begin(&out, WIRE_I_SLOT, launch->has_dropped ? SLOT_REQUEST : 0);
	put_rights(launch->slot, &out);
	int r = wire_send(launch->control[0], &out);
	return r < 0 ? err_sys(err, -r, "tell init that it has a root") : 0;
}

/* While the walls inside are closed. */
static int step_isolate(struct launch *launch, struct err *err)
{
	slot_close_sources(launch->slot);
	fd_closep(&launch->slot->run_dir);
	fd_closep(&launch->slot->sandbox_dir);
	fd_closep(&launch->userns);
	fd_closep(&launch->rootfs.dev_fd);
	fd_closep(&launch->rootfs.small_fd);
	fd_closep(&launch->rootfs.scratch_fd);
	int r = isolate_keeper(launch->slot, launch->ruleset, err);
	fd_closep(&launch->ruleset);
	return r;
}

static int step_ready(struct launch *launch, struct err *err)
{
	return hear_ready(launch, err);
}

struct step {
	const char *name;
	int (*run)(struct launch *launch, struct err *err);
};

static const struct step ground[] = {
	{"identity", step_identity}, {"cgroup", step_cgroup}, {"landlock", step_landlock},
	{"output", step_output},     {"socket", step_socket}, {"userns", step_userns},
	{"disk", step_disk},         {"files", step_files},   {"sockets", step_sockets},
	{"network", step_network},   {"clone", step_clone},   {"init", step_waits},
	{"cgroups", step_move},      {"drop", step_drop},     {"leave", step_leave},
	{"walls", step_walls},
};

static const struct step rest[] = {
	{"limits", step_limits}, {"sources", step_sources}, {"build", step_build},
	{"tell", step_tell},     {"isolate", step_isolate},
};

static const struct step last[] = {{"ready", step_ready}};

void launch_init(struct launch *launch, struct slot *slot, const struct cgroup_layout *layout,
                 uint8_t *bytes)
{
	*launch = (struct launch){
		.slot = slot,
		.bytes = bytes,
		.layout = *layout,
		.userns = -1,
		.out_dir = -1,
		.listener = -1,
		.control = {-1, -1},
		.spawn = {-1, -1},
		.guest = -1,
		.ruleset = -1,
		.rootfs = {.disk_fd = -1, .dev_fd = -1, .small_fd = -1, .scratch_fd = -1},
		.init_pidfd = -1};
	cgroup_init(&launch->cgroup);
	uplink_init(&launch->uplink);
	for (size_t i = 0; i < ARRAY_LEN(launch->work_door.procs); i++)
		launch->work_door.procs[i] = -1;
}

void launch_done(struct launch *launch)
{
	int *fds[] = {&launch->userns,        &launch->out_dir,         &launch->listener,
	              &launch->control[0],    &launch->control[1],      &launch->spawn[0],
	              &launch->spawn[1],      &launch->rootfs.disk_fd,  &launch->init_pidfd,
	              &launch->rootfs.dev_fd, &launch->rootfs.small_fd, &launch->rootfs.scratch_fd,
	              &launch->guest,         &launch->ruleset};
	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		fd_closep(fds[i]);
	uplink_done(&launch->uplink);
	cgroup_done(&launch->cgroup);
	cgroup_close_door(&launch->work_door);
}

static int run_steps(struct launch *launch, const struct step *steps, size_t count, struct err *err)
{
	for (size_t i = 0; i < count; i++) {
		if (steps[i].run(launch, err) < 0)
			return err_wrap(err, "start the sandbox (%s)", steps[i].name);
	}
	return 0;
}

int launch_ground(struct launch *launch, struct err *err)
{
	launch->is_real_root = ns_is_initial_user();
	return run_steps(launch, ground, ARRAY_LEN(ground), err);
}

int launch_finish(struct launch *launch, struct err *err)
{
	return err->code != ERR_OK ? -1 : run_steps(launch, rest, ARRAY_LEN(rest), err);
}

int launch_ready(struct launch *launch, struct err *err)
{
	return run_steps(launch, last, ARRAY_LEN(last), err);
}

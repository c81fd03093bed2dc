/*
 * Who runs this: a child of the launch zygote, root of the user namespace cloche serves in, with
 * its capabilities to the end. Bytes looked at: the BIND message, written by the broker, and the
 * answers of a keeper that has not yet read a byte from inside. Nothing of the tenant has run in
 * the sandbox, and the keeper lets nothing run until we are done; still every name is resolved
 * beneath its root, as root of the sandbox, as when it is built. Gone at the end: the process.
 *
 * There is no undoing: a sandbox that was bound in part is never claimed. The keeper sees our
 * connection close and ends it.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/mem.h"
#include "keeper/inside_files.h"
#include "keeper/keeper.h"
#include "keeper/procdev.h"
#include "keeper/state.h"
#include "os/ns.h"
#include "os/path.h"
#include "os/proc.h"

/* LIFE_S is below what the broker waits for us. */
enum { KEEPER_MS = 5000, LIFE_S = 8 };

struct binding {
	struct slot slot; /* what changes: see slot_parse_bind */
	pid_t init_pid;
	uint64_t init_start;
	int pidfd;             /* of init */
	int keeper;            /* connection */
	int disk_fd;           /* of a mount of its own: tmpfs, loop */
	struct disk_spec disk; /* as it is */
	uint8_t *bytes;
};

/* The pidfd first: after it the number cannot be reused for another process unseen. */
static int step_init(struct binding *binding, struct err *err)
{
	binding->pidfd = proc_pidfd_open(binding->init_pid);
	if (binding->pidfd < 0 || !proc_is_alive(binding->init_pid, binding->init_start))
		return err_set(err, ERR_GONE, "its init is gone");
	return 0;
}

static int ask_keeper(struct binding *binding, struct wire_out *out, struct wire_msg *ret,
                      struct err *err)
{
	return wire_call(binding->keeper, out, binding->bytes, KEEPER_MS, ret, err);
}

static int step_hold(struct binding *binding, struct err *err)
{
	auto_free char *name = mem_printf("%s.sock", binding->slot.id);
	struct wire_msg msg;
	binding->keeper = wire_connect(binding->slot.run_dir, name);
	if (binding->keeper < 0)
		return err_sys(err, -binding->keeper, "connect to run/%s", name);
	auto_wire_out struct wire_out out;
	wire_begin(&out, WIRE_K_BIND, 1);
	if (ask_keeper(binding, &out, &msg, err) < 0)
		return -1;
	bool is_known = disk_parse(wire_str(&msg, FIELD_DISK_BACKEND, ""), &binding->disk.backend);
	binding->disk.bytes = wire_u64(&msg, FIELD_DISK, 0);
	binding->disk.inodes = wire_u64(&msg, FIELD_INODES, 0);
	if (msg.fd_count > 0)
		binding->disk_fd = wire_take_fd(&msg, 0);
	wire_msg_done(&msg);
	return is_known ? 0 : err_set(err, ERR_PROTOCOL, "the keeper knows no disk");
}

static int step_sources(struct binding *binding, struct err *err)
{
	if (binding->slot.mount_count == 0)
		return 0;
	return rootfs_take_mounts(&binding->slot, ns_is_initial_user(), err);
}

static int step_limits(struct binding *binding, struct err *err)
{
	const struct cgroup_limits *limits = &binding->slot.limits;
	auto_(cgroup_done) struct cgroup cgroup;
	cgroup_init(&cgroup);
	if (!limits->memory && !limits->cpu_milli && !limits->pids)
		return 0;
	const struct cgroup_layout *layout = keeper_layout();
	if (layout->version == 0)
		return err_set(err, ERR_UNSUPPORTED, "without cgroups limits cannot be changed");
	int r = cgroup_open_part(layout, binding->slot.id, CGROUP_WORK, &cgroup);
	if (r >= 0)
		r = cgroup_set_limits(&cgroup, limits);
	return r < 0 ? err_sys(err, -r, "set the limits of the cgroup") : 0;
}

/* Memory comes with the disk: what a disk in memory may hold depends on both. */
static int step_disk(struct binding *binding, struct err *err)
{
	struct disk_spec *wanted = &binding->slot.disk;
	if (wanted->bytes == 0 || wanted->inodes == 0)
		return 0;
	wanted->backend = binding->disk.backend;
	wanted->bytes =
		slot_disk_bytes(wanted->backend, wanted->bytes, binding->slot.limits.memory);
	if (wanted->bytes == binding->disk.bytes && wanted->inodes == binding->disk.inodes)
		return 0;
	if (wanted->backend == DISK_QUOTA)
		binding->disk_fd = path_open_plain(binding->slot.sandbox_dir, "disk",
		                                   O_RDONLY | O_DIRECTORY, 0);
	int r = disk_resize(wanted, binding->disk_fd);
	if (r < 0)
		return err_sys(err, -r, "set the limit of the disk (%s)",
		               disk_name(wanted->backend));
	binding->disk = *wanted;
	return 0;
}

static int step_last(struct binding *binding, struct err *err)
{
	if (!binding->slot.disk.is_lasting)
		return 0;
	int r = disk_make_lasting(&binding->disk, binding->disk_fd);
	return r < 0 ? err_sys(err, -r, "make the disk last") : 0;
}

/* From here on "/" is the sandbox's. */
static int step_enter(struct binding *binding, struct err *err)
{
	int r = ns_enter(binding->pidfd, CLONE_NEWNS | CLONE_NEWUTS);
	return r < 0 ? err_sys(err, -r, "enter its namespaces") : 0;
}

static int bind_inside(struct binding *binding, int root, struct err *err)
{
	const struct slot *slot = &binding->slot;
	struct inside_files_owner owner = {.base = slot->range_base, .count = slot->range_count};
	int r = rootfs_become_inside_root(slot);
	if (r < 0)
		return err_sys(err, -r, "become root of the sandbox");
	if (slot->hostname[0]) {
		r = inside_files_hostname(root, slot->hostname, &owner);
		if (r >= 0 && sethostname(slot->hostname, strlen(slot->hostname)) < 0)
			r = -errno;
	}
	if (r < 0)
		return err_sys(err, -r, "set the hostname");
	if (slot->limits.memory)
		r = procdev_resize_shm(root, slot->limits.memory);
	if (r < 0)
		return err_sys(err, -r, "set the size of /dev/shm");
	return rootfs_attach_mounts(slot, root, err);
}

static int step_inside(struct binding *binding, struct err *err)
{
	auto_close int root = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return root < 0 ? err_sys(err, errno, "open its root") : bind_inside(binding, root, err);
}

static int step_release(struct binding *binding, struct err *err)
{
	struct wire_msg msg;
	auto_wire_out struct wire_out out;
	wire_begin(&out, WIRE_K_BOUND, 2);
	wire_put_u64(&out, FIELD_DISK, binding->disk.bytes);
	wire_put_u64(&out, FIELD_INODES, binding->disk.inodes);
	wire_put_u64(&out, FIELD_MORE, binding->slot.mount_count > 0);
	if (ask_keeper(binding, &out, &msg, err) < 0)
		return -1;
	wire_msg_done(&msg);
	return 0;
}

static const struct {
	const char *name;
	int (*run)(struct binding *binding, struct err *err);
} steps[] = {
	{"init", step_init},     {"hold", step_hold},     {"sources", step_sources},
	{"limits", step_limits}, {"disk", step_disk},     {"last", step_last},
	{"enter", step_enter},   {"inside", step_inside}, {"release", step_release},
};

static int run_steps(struct binding *binding, struct err *err)
{
	for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
		if (steps[i].run(binding, err) < 0)
			return err_wrap(err, "bind the sandbox (%s)", steps[i].name);
	}
	return 0;
}

int keeper_bind(struct wire_msg *msg)
{
	struct binding binding = {.pidfd = -1, .keeper = -1, .disk_fd = -1};
	struct err err = {0};
	(void)prctl(PR_SET_NAME, "cloche-bind", 0, 0, 0); /* only what ps shows */
	(void)signal(SIGALRM, SIG_DFL);
	(void)alarm(LIFE_S); /* whatever hangs: our death says so */
	binding.init_pid = (pid_t)wire_u64(msg, FIELD_PID, 0);
	binding.init_start = wire_u64(msg, FIELD_START_TIME, 0);
	binding.bytes = mem_zalloc(LIMIT_WIRE_BYTES);
	int r = slot_parse_bind(msg, &binding.slot, &err);
	if (r >= 0)
		r = run_steps(&binding, &err);
	auto_wire_out struct wire_out out;
	wire_begin(&out, r < 0 ? WIRE_ERROR : WIRE_OK, 0);
	if (r < 0)
		wire_put_err(&out, &err);
	/* Everything else goes with the process. */
	return wire_send(binding.slot.result, &out) < 0 || r < 0;
}

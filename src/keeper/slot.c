#include "keeper/slot.h"

#include <errno.h>
#include <stdlib.h>

#include "base/id.h"
#include "base/mem.h"
#include "base/str.h"
#include "keeper/keeper.h"

static void take_mounts(struct wire_msg *msg, size_t first, size_t count, struct slot *slot)
{
	free(slot->mounts); /* of a first half: empty */
	slot->mounts = mem_zalloc((count + 1) * sizeof(*slot->mounts));
	for (size_t i = 0; i < count; i++)
		slot->mounts[slot->mount_count++].fd = wire_take_fd(msg, first + i);
}

/* Layers and then mounts, from this fd on. */
static int take_layers(struct wire_msg *msg, size_t first, struct slot *slot, struct err *err)
{
	size_t layers = wire_count(msg, FIELD_LAYER);
	size_t mounts = wire_count(msg, FIELD_MOUNT);
	bool is_right = slot->is_blank ? layers + mounts == 0 : layers > 0;
	/* They come once: a blank one has none, and its second half finds none. */
	if (!is_right || slot->layer_count > 0 || slot->mount_count > 0 || layers > LIMIT_LAYERS ||
	    mounts > LIMIT_MOUNTS || msg->fd_count != first + layers + mounts)
		return err_set(err, ERR_PROTOCOL, "slot: %zu layers and %zu mounts with %zu fds",
		               layers, mounts, msg->fd_count);
	for (size_t i = 0; i < layers; i++)
		slot->layers[slot->layer_count++] = wire_take_fd(msg, first + i);
	take_mounts(msg, first + layers, mounts, slot);
	size_t at = 0;
	const char *lowest = wire_next_str(msg, FIELD_LAYER, &at);
	slot->is_host_image = lowest && str_eq(lowest, "host");
	return 0;
}

static int take_sources(struct wire_msg *msg, struct slot *slot, struct err *err)
{
	if (take_layers(msg, KEEPER_FD_LAYERS, slot, err) < 0)
		return -1;
	slot->result = wire_take_fd(msg, KEEPER_FD_RESULT);
	slot->sandbox_dir = wire_take_fd(msg, KEEPER_FD_SANDBOX);
	slot->run_dir = wire_take_fd(msg, KEEPER_FD_RUN);
	slot->program = wire_take_fd(msg, KEEPER_FD_PROGRAM);
	slot->templates = wire_take_fd(msg, KEEPER_FD_TEMPLATES);
	slot->dialer = wire_take_fd(msg, KEEPER_FD_DIALER);
	return 0;
}

/* MOUNT is "grant TAB target TAB ro|rw"; the fd stands for the grant here. */
static int parse_mount(const char *text, struct slot_mount *mount, struct err *err)
{
	const char *target = strchr(text, '\t');
	const char *mode = target ? strchr(target + 1, '\t') : NULL;
	if (!mode || mode - target - 1 > LIMIT_PATH_LEN || target[1] != '/')
		return err_set(err, ERR_PROTOCOL, "slot: malformed mount");
	memcpy(mount->target, target + 1, (size_t)(mode - target - 1));
	mount->read_only = !str_eq(mode + 1, "rw");
	return 0;
}

static uid_t source_uid_at(const struct wire_msg *msg, size_t index)
{
	/* Repeated numbers have no getter of their own: the texts are few. */
	size_t at = 0;
	const char *text = NULL;
	for (size_t i = 0; i <= index; i++)
		text = wire_next_str(msg, FIELD_SOURCE_UID, &at);
	uint64_t uid;
	return text && str_to_u64(text, &uid) == 0 && uid < UINT32_MAX ? (uid_t)uid : (uid_t)-1;
}

static int parse_mounts(const struct wire_msg *msg, struct slot *slot, struct err *err)
{
	size_t at = 0;
	for (size_t i = 0; i < slot->mount_count; i++) {
		const char *text = wire_next_str(msg, FIELD_MOUNT, &at);
		if (!text || parse_mount(text, &slot->mounts[i], err) < 0)
			return err_set(err, ERR_PROTOCOL, "slot: malformed mount");
		slot->mounts[i].source_uid = source_uid_at(msg, i);
	}
	return 0;
}

void slot_take_once(struct slot *slot, const struct wire_msg *msg)
{
	slot->is_once = wire_u64(msg, FIELD_ONCE, 0) != 0;
	slot->marks_files = wire_u64(msg, FIELD_ONCE, 0) != 2;
}

static void parse_limits(const struct wire_msg *msg, struct slot *slot)
{
	slot->limits = (struct cgroup_limits){
		.memory = wire_u64(msg, FIELD_MEMORY, UINT64_MAX),
		.cpu_milli = wire_u64(msg, FIELD_CPU_MILLI, UINT64_MAX),
		.pids = wire_u64(msg, FIELD_PIDS, 512),
	};
	slot->disk = (struct disk_spec){
		.backend = DISK_AUTO,
		.bytes = wire_u64(msg, FIELD_DISK, UINT64_C(1) << 30),
		.inodes = wire_u64(msg, FIELD_INODES, 200000),
		.project = slot->keeper_uid,
		.loop_template_fd = -1,
		.is_lasting = wire_u64(msg, FIELD_LASTING, 0) != 0,
	};
	slot->nofile = wire_u64(msg, FIELD_NOFILE, 4096);
	slot->nproc = wire_u64(msg, FIELD_NPROC, UINT64_MAX);
	slot->output_rate = wire_u64(msg, FIELD_OUTPUT_RATE, UINT64_MAX);
	slot->deadline_ms = wire_u64(msg, FIELD_DEADLINE_MS, 0);
	slot_take_once(slot, msg);
}

static int parse_identity(const struct wire_msg *msg, struct slot *slot, struct err *err)
{
	const char *id = wire_str(msg, FIELD_SANDBOX, "");
	if (!id_is_valid(id, "sb") || !str_copy(slot->id, sizeof(slot->id), id))
		return err_set(err, ERR_PROTOCOL, "slot: malformed sandbox id");
	slot->range_base = (uint32_t)wire_u64(msg, FIELD_RANGE_BASE, 0);
	slot->range_count = (uint32_t)wire_u64(msg, FIELD_RANGE_COUNT, 1);
	slot->keeper_uid = (uid_t)wire_u64(msg, FIELD_KEEPER_UID, 0);
	return 0;
}

static int parse_hostname(const struct wire_msg *msg, const char *otherwise, struct slot *slot,
                          struct err *err)
{
	if (!str_copy(slot->hostname, sizeof(slot->hostname),
	              wire_str(msg, FIELD_HOSTNAME, otherwise)))
		return err_set(err, ERR_PROTOCOL, "slot: the hostname is too long");
	return 0;
}

void slot_init(struct slot *slot)
{
	*slot = (struct slot){.result = -1,
	                      .sandbox_dir = -1,
	                      .run_dir = -1,
	                      .program = -1,
	                      .templates = -1,
	                      .dialer = -1};
	slot->disk.loop_template_fd = -1;
}

static int parse_wishes(const struct wire_msg *msg, struct slot *slot, struct err *err)
{
	if (parse_identity(msg, slot, err) < 0 || parse_hostname(msg, "cloche", slot, err) < 0)
		return -1;
	slot->degraded = wire_u64(msg, FIELD_DEGRADED, 0) != 0;
	slot->is_parked = wire_u64(msg, FIELD_PARKED, 0) == 1;
	parse_limits(msg, slot);
	if (!disk_parse(wire_str(msg, FIELD_DISK_BACKEND, "auto"), &slot->disk.backend))
		return err_set(err, ERR_INVALID, "unknown disk backend '%s'",
		               wire_str(msg, FIELD_DISK_BACKEND, ""));
	return parse_mounts(msg, slot, err);
}

int slot_parse(struct wire_msg *msg, struct slot *ret, struct err *err)
{
	slot_init(ret);
	ret->is_blank = wire_u64(msg, FIELD_PARKED, 0) == 2;
	if (take_sources(msg, ret, err) < 0)
		return -1;
	ret->daemon_uid = (uid_t)wire_u64(msg, FIELD_DAEMON_UID, 0);
	ret->daemon_gid = (gid_t)wire_u64(msg, FIELD_DAEMON_GID, 0);
	return parse_wishes(msg, ret, err);
}

int slot_parse_rest(struct wire_msg *msg, struct slot *slot, struct err *err)
{
	slot->is_blank = false;
	return take_layers(msg, 0, slot, err) < 0 ? -1 : parse_wishes(msg, slot, err);
}

int slot_parse_bind(struct wire_msg *msg, struct slot *ret, struct err *err)
{
	size_t mounts = wire_count(msg, FIELD_MOUNT);
	slot_init(ret);
	if (mounts > LIMIT_MOUNTS || msg->fd_count != KEEPER_FD_BIND_MOUNTS + mounts)
		return err_set(err, ERR_PROTOCOL, "bind: %zu mounts with %zu fds", mounts,
		               msg->fd_count);
	ret->result = wire_take_fd(msg, KEEPER_FD_RESULT);
	ret->sandbox_dir = wire_take_fd(msg, KEEPER_FD_SANDBOX);
	ret->run_dir = wire_take_fd(msg, KEEPER_FD_RUN);
	take_mounts(msg, KEEPER_FD_BIND_MOUNTS, mounts, ret);
	if (parse_identity(msg, ret, err) < 0 || parse_hostname(msg, "", ret, err) < 0)
		return -1;
	ret->limits = (struct cgroup_limits){.memory = wire_u64(msg, FIELD_MEMORY, 0),
	                                     .cpu_milli = wire_u64(msg, FIELD_CPU_MILLI, 0),
	                                     .pids = wire_u64(msg, FIELD_PIDS, 0)};
	ret->disk.bytes = wire_u64(msg, FIELD_DISK, 0);
	ret->disk.inodes = wire_u64(msg, FIELD_INODES, 0);
	ret->disk.project = ret->keeper_uid;
	ret->disk.is_lasting = wire_u64(msg, FIELD_LASTING, 0) != 0;
	return parse_mounts(msg, ret, err);
}

uint64_t slot_disk_bytes(enum disk_backend backend, uint64_t bytes, uint64_t memory)
{
	/* Files in memory belong to no process that could be killed for them: were they all of it,
	 * not even rm could run. */
	return backend == DISK_TMPFS ? MIN(bytes, memory / 2) : bytes;
}

void slot_close_sources(struct slot *slot)
{
	for (size_t i = 0; i < slot->layer_count; i++)
		fd_closep(&slot->layers[i]);
	slot->layer_count = 0;
	for (size_t i = 0; i < slot->mount_count; i++)
		fd_closep(&slot->mounts[i].fd);
	slot->mount_count = 0;
	mem_freep(&slot->mounts);
	fd_closep(&slot->program);
	fd_closep(&slot->templates);
	fd_closep(&slot->disk.loop_template_fd);
}

void slot_done(struct slot *slot)
{
	slot_close_sources(slot);
	fd_closep(&slot->result);
	fd_closep(&slot->sandbox_dir);
	fd_closep(&slot->run_dir);
	fd_closep(&slot->dialer);
}

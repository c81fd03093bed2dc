/*
 * A parked sandbox and how it becomes somebody's, in two phases. First, if something of it must
 * change that takes rights, a root process of the launch zygote says K_BIND, does it, and says
 * K_BOUND; between the two there is no claim, and its end is the sandbox's. Then K_CLAIM, from the
 * daemon. Nothing runs inside before that: so nothing half bound ever runs anything.
 */
#include <errno.h>

#include "base/io.h"
#include "keeper/state.h"

static int check_parked(const struct keeper *keeper, struct err *err)
{
	if (!keeper->slot.is_parked)
		return err_set(err, ERR_CONFLICT, "the sandbox is somebody's already");
	if (keeper->end_reason)
		return err_set(err, ERR_CONFLICT, "the sandbox is ending (%s)", keeper->end_reason);
	if (keeper->binder)
		return err_set(err, ERR_CONFLICT, "the sandbox is being bound");
	return 0;
}

int claim_bind(struct keeper *keeper, struct conn *conn, const struct wire_msg *msg,
               struct err *err)
{
	const struct disk_spec *disk = &keeper->slot.disk;
	if (!conn->is_root)
		return err_set(err, ERR_FORBIDDEN, "only root binds a sandbox");
	if (check_parked(keeper, err) < 0)
		return -1;
	if (keeper->is_bound)
		return err_set(err, ERR_CONFLICT, "the sandbox was bound already");
	auto_wire_out struct wire_out out;
	wire_begin(&out, WIRE_OK, msg->request);
	wire_put_str(&out, FIELD_DISK_BACKEND, disk_name(disk->backend));
	wire_put_u64(&out, FIELD_DISK, disk->bytes);
	wire_put_u64(&out, FIELD_INODES, disk->inodes);
	if (disk->backend == DISK_TMPFS || disk->backend == DISK_LOOP)
		wire_put_fd(&out, keeper->launch.rootfs.disk_fd);
	int r = wire_send(conn->sock, &out); /* its first answer: there is room */
	if (r < 0)
		return err_sys(err, -r, "answer who binds the sandbox");
	keeper->binder = conn;
	return 0;
}

int claim_bound(struct keeper *keeper, struct conn *conn, const struct wire_msg *msg,
                struct err *err)
{
	struct disk_spec *disk = &keeper->slot.disk;
	if (keeper->binder != conn)
		return err_set(err, ERR_CONFLICT, "the sandbox is not being bound by you");
	if (wire_u64(msg, FIELD_MORE, 0)) {
		auto_wire_out struct wire_out out;
		wire_begin(&out, WIRE_S_MOUNTED, 0);
		int r = wire_send(keeper->launch.spawn[0], &out);
		if (r < 0)
			return err_sys(err, -r, "tell the spawner of the mounts");
	}
	disk->bytes = wire_u64(msg, FIELD_DISK, disk->bytes);
	disk->inodes = wire_u64(msg, FIELD_INODES, disk->inodes);
	keeper->binder = NULL;
	keeper->is_bound = true;
	return 0;
}

int claim_take(struct keeper *keeper, const struct wire_msg *msg, struct err *err)
{
	struct slot *slot = &keeper->slot;
	if (check_parked(keeper, err) < 0)
		return -1;
	slot->is_parked = false;
	slot->output_rate = wire_u64(msg, FIELD_OUTPUT_RATE, slot->output_rate);
	slot->nofile = wire_u64(msg, FIELD_NOFILE, slot->nofile);
	slot_take_once(slot, msg);
	keeper_set_deadline(keeper, wire_u64(msg, FIELD_DEADLINE_MS, 0));
	keeper->started_boot_ms = io_boot_ms();
	return 0;
}

/* After the answer, and before the first command. What the sandbox used while it waited is not its
 * owner's to pay. Where one command is all that runs it comes at once, and says so itself. */
void claim_taken(struct keeper *keeper)
{
	auto_wire_out struct wire_out out;
	wire_begin(&out, WIRE_S_CLAIMED, 0);
	if (!keeper->slot.is_once)
		(void)!wire_send(keeper->launch.spawn[0], &out); /* it would do without */
	meter_restart(&keeper->meter, &keeper->slot.disk, keeper->launch.rootfs.disk_fd,
	              keeper->slot.marks_files);
}

void claim_conn_gone(struct keeper *keeper, const struct conn *conn)
{
	if (keeper->binder != conn)
		return;
	keeper->binder = NULL;
	keeper_end(keeper, "unclaimed", 0);
}

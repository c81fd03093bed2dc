/*
 * Who runs this: init, before it drops every privilege but its own four. Bytes looked at: the
 * keeper's I_SLOT, before any foreign program runs. Gone at the end: the host's root, and every fd
 * of a layer, a grant or the disk, which go with the slot.
 */
#include "keeper/birth.h"

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "keeper/isolate.h"
#include "keeper/rootfs.h"
#include "keeper/slot.h"

static int enter(struct slot *slot, bool is_changed, struct err *err)
{
	struct rootfs rootfs = {.slot = slot,
	                        .userns_fd = ISOLATE_FD_USERNS,
	                        .disk_fd = ISOLATE_FD_DISK,
	                        .dev_fd = -1,
	                        .scratch_fd = ISOLATE_FD_SCRATCH,
	                        .guest_fd = ISOLATE_FD_GUEST,
	                        .denials_fd = ISOLATE_FD_DENIALS};
	if (rootfs_enter(&rootfs, is_changed ? slot->limits.memory : 0, err) < 0)
		return -1;
	if (sethostname(slot->hostname, strlen(slot->hostname)) < 0)
		return err_sys(err, errno, "set the hostname");
	return 0;
}

int birth_build(struct wire_msg *msg, struct slot *ret, struct err *err)
{
	bool is_changed = wire_u64(msg, FIELD_MORE, 0) != 0;
	slot_init(ret);
	if (slot_parse_rest(msg, ret, err) < 0)
		return -1;
	ret->program = ISOLATE_FD_PROGRAM;
	return enter(ret, is_changed, err);
}

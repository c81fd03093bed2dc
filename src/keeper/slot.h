/*
 * What a keeper is asked to build: the SLOT message as a struct. Comes from the broker, which has
 * checked it; lengths and counts are checked again here because a mistake would be made as root.
 */
#pragma once

#include <sys/types.h>

#include "base/base.h"
#include "base/err.h"
#include "base/limits.h"
#include "os/cgroup.h"
#include "os/disk.h"
#include "wire/wire.h"

struct slot_mount {
	int fd; /* owned */
	char target[LIMIT_PATH_LEN + 1];
	bool read_only;
	uid_t source_uid; /* whose files become the agent's; (uid_t)-1: nobody's */
};

struct slot {
	char id[LIMIT_ID_LEN + 1];
	char hostname[LIMIT_NAME_LEN + 1];
	uint32_t range_base, range_count;
	uid_t keeper_uid, daemon_uid;
	gid_t daemon_gid;
	bool degraded;
	bool is_parked; /* waits for K_CLAIM before its first command */
	bool is_blank;  /* waits for slot_parse_rest before it has an image */
	bool is_host_image;
	struct cgroup_limits limits;
	struct disk_spec disk;
	uint64_t nofile;
	uint64_t nproc; /* processes of one user; the next best where no cgroup counts them */
	uint64_t output_rate;
	uint64_t deadline_ms; /* CLOCK_BOOTTIME, 0 = none */
	bool is_once; /* for one command, and removed after it; of a parked one its claim says it */
	bool marks_files; /* somebody may ask whether they changed */
	int result, sandbox_dir, run_dir, program, templates, dialer; /* owned */
	int layers[LIMIT_LAYERS];                                     /* owned, lowest first */
	size_t layer_count;
	struct slot_mount *mounts;
	size_t mount_count;
};

void slot_init(struct slot *slot); /* all fds -1 */
/* Takes the fds out of msg. On failure slot_done is still to be called. */
int slot_parse(struct wire_msg *msg, struct slot *ret, struct err *err) NODISCARD;
/* FIELD_ONCE of a launch or claim. */
void slot_take_once(struct slot *slot, const struct wire_msg *msg);
void slot_done(struct slot *slot);
/* What a blank one is still to be told: all but what slot_parse took as fds, and layers and mounts.
 */
int slot_parse_rest(struct wire_msg *msg, struct slot *slot, struct err *err) NODISCARD;
/* As slot_parse, from a BIND message: limits are 0 and the hostname is empty where nothing changes.
 */
int slot_parse_bind(struct wire_msg *msg, struct slot *ret, struct err *err) NODISCARD;
/* How large a disk of so many bytes is beside so much memory. */
uint64_t slot_disk_bytes(enum disk_backend backend, uint64_t bytes, uint64_t memory);
/* Closes what the keeper no longer needs once the sandbox stands: layers, mounts, program. */
void slot_close_sources(struct slot *slot);

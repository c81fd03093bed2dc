/*
 * What a sandbox used, read from its cgroups and its disk, and which limits acted. Counters never
 * go back; byte-seconds of memory and disk are integrated between samples.
 */
#pragma once

#include "base/base.h"
#include "os/cgroup.h"
#include "os/disk.h"
#include "wire/wire.h"

struct meter {
	struct cgroup_usage usage;
	struct disk_usage disk;
	struct disk_usage disk_before; /* as it was when it was given to somebody */
	bool has_disk_before;
	uint64_t mark, mark_before; /* inside_files_mark; only looked at while as much is there */
	uint64_t sampled_ms;        /* CLOCK_BOOTTIME; 0: never */
	uint64_t memory_byte_ms, disk_byte_ms;
};

/* cgroup may have version 0, disk_fd may be -1: those parts stay zero. */
void meter_sample(struct meter *meter, const struct cgroup *cgroup, const struct disk_spec *disk,
                  int disk_fd);
/* From here on somebody else pays, and what is on the disk now was there before they came. No file
 * is read for it. marks_files: meter_files_same will be asked; else nobody looks. */
void meter_restart(struct meter *meter, const struct disk_spec *disk, int disk_fd,
                   bool marks_files);
/* Whether nothing came, went or was changed since then; false when that is not known. */
bool meter_files_same(const struct meter *meter);
void meter_put(const struct meter *meter, struct wire_out *out);

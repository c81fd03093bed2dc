#include "keeper/meter.h"

#include "base/io.h"
#include "keeper/inside_files.h"

/* What lies between two samples, as a straight line. */
static void integrate(const struct meter *meter, uint64_t now_ms, uint64_t before, uint64_t after,
                      uint64_t *byte_ms)
{
	if (meter->sampled_ms != 0)
		*byte_ms += (before / 2 + after / 2) * (now_ms - meter->sampled_ms);
}

/* As many bytes and inodes as there were. */
static bool is_as_much(const struct meter *meter)
{
	return meter->has_disk_before && meter->disk.bytes == meter->disk_before.bytes &&
	       meter->disk.inodes == meter->disk_before.inodes;
}

void meter_sample(struct meter *meter, const struct cgroup *cgroup, const struct disk_spec *disk,
                  int disk_fd)
{
	uint64_t now_ms = io_boot_ms();
	struct cgroup_usage usage;
	if (cgroup->version != 0 && cgroup_read(cgroup, &usage) >= 0) {
		uint64_t before = meter->usage.memory;
		uint64_t peak = MAX(usage.memory_peak, usage.memory);
		peak = MAX(peak, meter->usage.memory_peak);
		meter->usage = usage;
		meter->usage.memory_peak = peak;
		integrate(meter, now_ms, before, usage.memory, &meter->memory_byte_ms);
	}
	struct disk_usage used;
	if (disk_fd >= 0 && disk_usage(disk, disk_fd, &used) >= 0) {
		integrate(meter, now_ms, meter->disk.bytes, used.bytes, &meter->disk_byte_ms);
		meter->disk = used;
		if (is_as_much(meter))
			meter->mark = inside_files_mark(disk_fd);
	}
	meter->sampled_ms = now_ms;
}

void meter_restart(struct meter *meter, const struct disk_spec *disk, int disk_fd, bool marks_files)
{
	meter->memory_byte_ms = 0;
	meter->disk_byte_ms = 0;
	meter->sampled_ms = io_boot_ms();
	meter->has_disk_before =
		marks_files && disk_fd >= 0 && disk_usage(disk, disk_fd, &meter->disk_before) >= 0;
	if (meter->has_disk_before)
		meter->mark = meter->mark_before = inside_files_mark(disk_fd);
}

bool meter_files_same(const struct meter *meter)
{
	return is_as_much(meter) && meter->mark == meter->mark_before;
}

void meter_put(const struct meter *meter, struct wire_out *out)
{
	wire_put_u64(out, FIELD_METER_CPU_US, meter->usage.cpu_us);
	wire_put_u64(out, FIELD_METER_MEMORY, meter->usage.memory);
	wire_put_u64(out, FIELD_METER_MEMORY_PEAK, meter->usage.memory_peak);
	wire_put_u64(out, FIELD_METER_MEMORY_BYTE_S, meter->memory_byte_ms / 1000);
	wire_put_u64(out, FIELD_METER_DISK_BYTE_S, meter->disk_byte_ms / 1000);
	wire_put_u64(out, FIELD_METER_PIDS, meter->usage.pids);
	wire_put_u64(out, FIELD_METER_DISK, meter->disk.bytes);
	wire_put_u64(out, FIELD_METER_INODES, meter->disk.inodes);
	wire_put_u64(out, FIELD_METER_FILES_SAME, meter_files_same(meter));
	wire_put_u64(out, FIELD_METER_OOM_KILLS, meter->usage.oom_kills);
	wire_put_u64(out, FIELD_METER_PIDS_DENIED, meter->usage.pids_denied);
}

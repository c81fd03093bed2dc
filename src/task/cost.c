#include "task/cost.h"

#define GIB (1024.0 * 1024 * 1024)

uint64_t cost_of(const struct config_rates *rates, const struct meters *meters)
{
	double sum = (double)rates->sandbox_second * (double)meters->uptime_ms / 1e3 +
	             (double)rates->cpu_second * (double)meters->cpu_us / 1e6 +
	             (double)rates->memory_gib_second * (double)meters->memory_byte_seconds / GIB +
	             (double)rates->disk_gib_hour * (double)meters->disk_byte_seconds / GIB / 3600 +
	             (double)rates->network_gib *
	                     (double)(meters->net_sent_bytes + meters->net_received_bytes) / GIB;

	return (uint64_t)(sum + 0.5);
}

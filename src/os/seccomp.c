#include "os/seccomp.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <unistd.h>

#include "os/seccomp_filters.h"
#include "os/syscalls.h"

static const struct {
	const struct sock_filter *code;
	unsigned short length;
} filters[] = {
	[SECCOMP_WORKLOAD] = {filter_workload, ARRAY_LEN(filter_workload)},
	[SECCOMP_KEEPER] = {filter_keeper, ARRAY_LEN(filter_keeper)},
	[SECCOMP_WORKER] = {filter_worker, ARRAY_LEN(filter_worker)},
};

int seccomp_install(enum seccomp_filter filter)
{
	struct sock_fprog program = {
		.len = filters[filter].length,
		.filter = (struct sock_filter *)filters[filter].code, /* the kernel only reads */
	};

	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0 ? -errno : 0;
}

size_t seccomp_length(enum seccomp_filter filter)
{
	return filters[filter].length;
}

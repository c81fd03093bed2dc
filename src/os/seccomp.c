#include "os/seccomp.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "os/seccomp_filters.h"
#include "os/syscalls.h"

enum { NOTIF_MOST = 512 };

static const struct {
	const struct sock_filter *code;
	unsigned short length;
} filters[] = {
	[SECCOMP_WORKLOAD] = {filter_workload, ARRAY_LEN(filter_workload)},
	[SECCOMP_QUIET] = {filter_workload_quiet, ARRAY_LEN(filter_workload_quiet)},
	[SECCOMP_KEEPER] = {filter_keeper, ARRAY_LEN(filter_keeper)},
	[SECCOMP_WORKER] = {filter_worker, ARRAY_LEN(filter_worker)},
};

static int load(enum seccomp_filter filter, unsigned flags)
{
	struct sock_fprog program = {
		.len = filters[filter].length,
		.filter = (struct sock_filter *)filters[filter].code, /* the kernel only reads */
	};
	long r = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
	return r < 0 ? -errno : (int)r;
}

int seccomp_install(enum seccomp_filter filter)
{
	return load(filter, 0);
}

int seccomp_listen(int *ret_listener)
{
	int r = load(SECCOMP_WORKLOAD, SECCOMP_FILTER_FLAG_NEW_LISTENER);
	if (r < 0)
		return r;
	*ret_listener = r; /* close-on-exec, by the kernel */
	return 0;
}

/* What a filter of ours returns for this call: the few instructions that tools/gen-seccomp uses. So
 * the refusal of a call stands in one place, the table. */
static uint32_t run(enum seccomp_filter filter, const struct seccomp_data *data)
{
	uint32_t value = 0;
	for (size_t at = 0; at < filters[filter].length; at++) {
		const struct sock_filter *op = &filters[filter].code[at];
		bool is_hit = false;
		switch (op->code) {
		case BPF_LD | BPF_W | BPF_ABS:
			memcpy(&value, (const uint8_t *)data + op->k, sizeof(value));
			continue;
		case BPF_ALU | BPF_AND | BPF_K:
			value &= op->k;
			continue;
		case BPF_JMP | BPF_JEQ | BPF_K:
			is_hit = value == op->k;
			break;
		case BPF_JMP | BPF_JGE | BPF_K:
			is_hit = value >= op->k;
			break;
		case BPF_JMP | BPF_JSET | BPF_K:
			is_hit = (value & op->k) != 0;
			break;
		default: /* BPF_RET */
			return op->k;
		}
		at += is_hit ? op->jt : op->jf;
	}
	return SECCOMP_RET_KILL_PROCESS;
}

static int refusal_of(const struct seccomp_data *data)
{
	uint32_t action = run(SECCOMP_QUIET, data);
	bool is_errno = (action & SECCOMP_RET_ACTION_FULL) == SECCOMP_RET_ERRNO;
	/* Anything else would be a bug of ours, and is refused all the same. */
	return is_errno && (action & SECCOMP_RET_DATA) ? (int)(action & SECCOMP_RET_DATA) : EPERM;
}

/* A later kernel may write more than we know, and wants all of it to be zero before. */
int seccomp_next(int listener, struct seccomp_told *ret)
{
	union {
		struct seccomp_notif notif;
		uint8_t room[NOTIF_MOST];
	} got = {0};
	if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &got) < 0)
		return -errno;
	*ret = (struct seccomp_told){.id = got.notif.id,
	                             .pid = (pid_t)got.notif.pid,
	                             .call = got.notif.data.nr,
	                             .refusal = refusal_of(&got.notif.data)};
	for (size_t i = 0; i < SECCOMP_ARGS; i++)
		ret->args[i] = got.notif.data.args[i];
	return 0;
}

int seccomp_refuse(int listener, uint64_t id, int refusal)
{
	union {
		struct seccomp_notif_resp answer;
		uint8_t room[NOTIF_MOST];
	} out = {.answer = {.id = id, .error = refusal > 0 ? -refusal : -EPERM}};
	return ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &out) < 0 ? -errno : 0;
}

size_t seccomp_length(enum seccomp_filter filter)
{
	return filters[filter].length;
}

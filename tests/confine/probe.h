/*
 * The frame of the confinement probes: a static program that is copied into a sandbox and there
 * tries what a hostile workload would try. A topic (one .c file) is a table of attempts; each
 * attempt runs in a forked child, because the right answer may be that it is killed, and says
 * whether the wall held. The program exits 0 only when every attempt of the topic failed as
 * required. Whether the host was touched is not for a probe to say: the driver
 * (tests/integration/confine.test.mjs) looks at its canaries whatever the exit status is.
 *
 * Needs libc only; knows nothing of the program under test.
 */
#pragma once

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct verdict {
	bool held;
	int err;          /* errno of the refused call, 0 when there was none */
	char detail[120]; /* what was seen */
};

enum attempt_flags {
	KILLED_IS_HELD = 1 << 0, /* SIGSYS or SIGSEGV is a refusal too */
	OOM_IS_HELD = 1 << 1,    /* SIGKILL from the memory limit is the wanted end */
	NEEDS_ARG = 1 << 2,      /* only with the argument named in `arg` */
};

struct attempt {
	const char *id; /* case of the attack catalogue */
	const char *name;
	struct verdict (*run)(void);
	unsigned flags;
	const char *arg;
};

struct topic {
	const char *name;
	const struct attempt *attempts;
	size_t count;
};

#define ATTEMPT_COUNT(table) (sizeof(table) / sizeof((table)[0]))

extern const struct topic topic_abi;
extern const struct topic topic_bombs;
extern const struct topic topic_devices;
extern const struct topic topic_disk;
extern const struct topic topic_egress;
extern const struct topic topic_files;
extern const struct topic topic_flood;
extern const struct topic topic_kernel;
extern const struct topic topic_privilege;
extern const struct topic topic_processes;
extern const struct topic topic_sockets;
extern const struct topic topic_volume;
extern const struct topic topic_web;

/* The value of NAME=value on the command line, or NULL. */
const char *probe_arg(const char *name);
/* The same as a number, `otherwise` when absent. */
uint64_t probe_number(const char *name, uint64_t otherwise);

struct verdict held(int err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
struct verdict broken(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Held when result is negative and errno one of the list (which ends with 0). A refusal for another
 * reason counts as broken: EFAULT or EINVAL would mean that the wall was passed and only our
 * arguments were bad. */
struct verdict refused_as(long result, const int *errnos);
#define REFUSED(call, ...) refused_as((call), (const int[]){__VA_ARGS__, 0})

/* The file must not be there or not be open to us in this mode. */
struct verdict cannot_open(const char *path, int flags);
/* Calls fn for each process the probe sees in /proc except itself; stops when fn returns false. */
void each_other_process(bool (*fn)(int pid, void *ctx), void *ctx);

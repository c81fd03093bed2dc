#include "worker/jail.h"

#include <errno.h>
#include <linux/capability.h>
#include <signal.h>
#include <sys/resource.h>

#include "os/caps.h"
#include "os/landlock.h"
#include "os/seccomp.h"

/* Address sanitizer reserves terabytes. */
#if defined(__SANITIZE_ADDRESS__)
static const rlim_t memory_bytes = RLIM_INFINITY;
#else
static const rlim_t memory_bytes = (rlim_t)1 << 30;
#endif

enum { OPEN_FILES = 256 };

/* Owners, modes and attributes of files of the namespace's ids, and nothing else. */
static const uint64_t kept_caps = CAPS_BIT(CAP_CHOWN) | CAPS_BIT(CAP_DAC_OVERRIDE) |
                                  CAPS_BIT(CAP_FOWNER) | CAPS_BIT(CAP_FSETID);

static int limit_resources(const struct jail *jail, struct err *err)
{
	const struct {
		int what;
		rlim_t most;
	} limits[] = {
		{RLIMIT_AS, memory_bytes},   {RLIMIT_FSIZE, (rlim_t)jail->file_bytes},
		{RLIMIT_NOFILE, OPEN_FILES}, {RLIMIT_CORE, 0},
		{RLIMIT_MEMLOCK, 0},         {RLIMIT_MSGQUEUE, 0},
	};

	/* A write past the limit shall fail, not kill. */
	if (signal(SIGXFSZ, SIG_IGN) == SIG_ERR)
		return err_sys(err, errno, "ignore SIGXFSZ");
	for (size_t i = 0; i < ARRAY_LEN(limits); i++) {
		struct rlimit limit;
		if (getrlimit(limits[i].what, &limit) < 0)
			return err_sys(err, errno, "read a resource limit");
		limit.rlim_max = MIN(limit.rlim_max, limits[i].most);
		limit.rlim_cur = limit.rlim_max;
		if (setrlimit(limits[i].what, &limit) < 0)
			return err_sys(err, errno, "set a resource limit");
	}
	return 0;
}

static int limit_paths(const struct jail *jail, struct err *err)
{
	const struct landlock_rule rules[] = {
		{.path = ".", .access = jail->is_read_only ? LANDLOCK_READ : LANDLOCK_ALL},
		{.path = "etc", .access = LANDLOCK_READ, .from_fd = jail->host_fd},
		{.path = "usr", .access = LANDLOCK_READ, .from_fd = jail->host_fd},
		{.path = "nix/store", .access = LANDLOCK_READ, .from_fd = jail->host_fd},
	};
	size_t count = jail->host_fd >= 0 ? ARRAY_LEN(rules) : 1;
	int r = landlock_restrict(jail->dir_fd, rules, count, LANDLOCK_NO_TCP);

	if (r == -ENOSYS || r == -EOPNOTSUPP) {
		if (jail->is_degraded)
			return 0;
		return err_set(err, ERR_MISSING, "this kernel has no Landlock");
	}
	return r < 0 ? err_sys(err, -r, "restrict paths with Landlock") : 0;
}

/* Order: what needs capabilities or system calls that the next step takes away comes first. */
int jail_enter(const struct jail *jail, struct err *err)
{
	int r = caps_no_new_privs();

	if (r < 0)
		return err_sys(err, -r, "set no_new_privs");
	if (limit_resources(jail, err) < 0 || limit_paths(jail, err) < 0)
		return -1;
	r = caps_limit(kept_caps);
	if (r < 0)
		return err_sys(err, -r, "drop capabilities");
	r = seccomp_install(SECCOMP_WORKER);
	return r < 0 ? err_sys(err, -r, "install the system call filter") : 0;
}

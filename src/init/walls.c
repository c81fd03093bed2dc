#include "init/walls.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/fsuid.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"
#include "os/caps.h"
#include "os/landlock.h"
#include "os/seccomp.h"

enum { LANDLOCK_RULES = 64 };

static const struct landlock_rule fixed_rules[] = {
	{"/", LANDLOCK_READ},
	{"/proc", LANDLOCK_WRITE_FILES}, /* oom_score_adj, comm and the like of one's own */
	{"/dev", LANDLOCK_WRITE_FILES},
	{"/dev/shm", LANDLOCK_ALL},
	{"/dev/pts", LANDLOCK_WRITE_FILES},
};

/* Places that the mounts make read-only already; Landlock says it a second time. */
static const char *const never_writable[] = {"proc", "sys", "dev"};

static bool is_writable_place(const char *name)
{
	if (str_eq(name, ".") || str_eq(name, ".."))
		return false;
	for (size_t i = 0; i < ARRAY_LEN(never_writable); i++) {
		if (str_eq(name, never_writable[i]))
			return false;
	}
	/* The system's own trees of the host image are another mount, and read-only. */
	struct statvfs fs;
	return statvfs(name, &fs) == 0 && !(fs.f_flag & ST_RDONLY);
}

/* Landlock only adds rights, so "everything but" is spelled as a rule for each top-level directory.
 */
static size_t collect_rules(struct landlock_rule *rules)
{
	memcpy(rules, fixed_rules, sizeof(fixed_rules));
	size_t count = ARRAY_LEN(fixed_rules);
	DIR *dir = opendir("/");
	if (!dir)
		return count;
	struct dirent *entry;
	while ((entry = readdir(dir)) != NULL) { /* NOLINT(concurrency-mt-unsafe): one thread */
		if (count == LANDLOCK_RULES || entry->d_type != DT_DIR ||
		    !is_writable_place(entry->d_name))
			continue;
		rules[count++] =
			(struct landlock_rule){mem_printf("/%s", entry->d_name), LANDLOCK_ALL};
	}
	(void)closedir(dir);
	return count;
}

static int make_ruleset(int *ret_fd)
{
	struct landlock_rule rules[LANDLOCK_RULES];
	auto_close int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root < 0)
		return -errno;
	size_t count = collect_rules(rules);
	int r = landlock_make(root, rules, count, 0, ret_fd);
	for (size_t i = ARRAY_LEN(fixed_rules); i < count; i++)
		free((void *)(uintptr_t)rules[i].path);
	return r;
}

void walls_forget(struct walls *walls)
{
	fd_closep(&walls->ruleset);
}

int walls_close(struct walls *walls)
{
	int r = 0;
	if (walls->is_up || landlock_abi() <= 0)
		return 0; /* without Landlock: launch has refused it, or the profile accepts it */
	if (walls->ruleset < 0) {
		/* The image's root may be a directory that only root may list. */
		int before = setfsuid(0);
		r = make_ruleset(&walls->ruleset);
		(void)setfsuid((uid_t)before);
	}
	if (r >= 0)
		r = landlock_enter(walls->ruleset);
	fd_closep(&walls->ruleset);
	walls->is_up = r >= 0;
	return r;
}

int walls_put_up(struct walls *walls, bool waits, struct err *err)
{
	*walls = (struct walls){.ruleset = -1};
	int r = chdir("/") < 0 ? -errno : 0;
	if (r >= 0 && landlock_abi() > 0)
		r = make_ruleset(&walls->ruleset);
	if (r >= 0 && !waits)
		r = walls_close(walls);
	if (r < 0)
		return err_sys(err, -r, "put up Landlock");
	r = caps_not_dumpable();
	if (r >= 0)
		r = seccomp_install(SECCOMP_WORKLOAD);
	return r < 0 ? err_sys(err, -r, "load the system call filter") : 0;
}

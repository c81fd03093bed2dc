#include "init/walls.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/str.h"
#include "os/caps.h"
#include "os/landlock.h"
#include "os/seccomp.h"
#include "wire/wire.h"

enum { LANDLOCK_RULES = 64 };

static const struct {
	const char *path;
	enum landlock_access access;
} fixed_rules[] = {
	{"/", LANDLOCK_READ},
	{"/proc", LANDLOCK_WRITE_FILES}, /* oom_score_adj, comm and the like of one's own */
	{"/dev", LANDLOCK_WRITE_FILES},
	{"/dev/shm", LANDLOCK_ALL},
	{"/dev/pts", LANDLOCK_WRITE_FILES},
};

/* Places that the mounts make read-only already; Landlock says it a second time. */
static const char *const never_writable[] = {"proc", "sys", "dev"};

static bool may_be_writable(const char *name)
{
	if (str_eq(name, ".") || str_eq(name, ".."))
		return false;
	for (size_t i = 0; i < ARRAY_LEN(never_writable); i++) {
		if (str_eq(name, never_writable[i]))
			return false;
	}
	return true;
}

/* The system's own trees of the host image are another mount, and read-only. */
static bool is_writable(int fd)
{
	struct statvfs fs;
	return fstatvfs(fd, &fs) == 0 && !(fs.f_flag & ST_RDONLY);
}

/* By plain names: the filter knows no openat2, and it is up when the rules are made again. */
static int add_rule(struct landlock_rule *rules, size_t *count, const char *path,
                    enum landlock_access access)
{
	auto_close int fd = openat(AT_FDCWD, path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	if (access == LANDLOCK_ALL && !is_writable(fd))
		return 0;
	rules[(*count)++] = (struct landlock_rule){.access = access, .from_fd = take_fd(&fd)};
	return 0;
}

/* Landlock only adds rights, so "everything but" is spelled as a rule for each top-level directory.
 */
static int collect_rules(struct landlock_rule *rules, size_t *count)
{
	int r = 0;
	for (size_t i = 0; r >= 0 && i < ARRAY_LEN(fixed_rules); i++)
		r = add_rule(rules, count, fixed_rules[i].path, fixed_rules[i].access);
	DIR *dir = r < 0 ? NULL : opendir(".");
	if (!dir)
		return r < 0 ? r : -errno;
	struct dirent *entry;
	while (r >= 0 && *count < LANDLOCK_RULES &&
	       (entry = readdir(dir)) != NULL) { /* NOLINT(concurrency-mt-unsafe): one thread */
		if (entry->d_type == DT_DIR && may_be_writable(entry->d_name))
			r = add_rule(rules, count, entry->d_name, LANDLOCK_ALL);
	}
	(void)closedir(dir);
	return r;
}

/* The working directory is "/". */
static int make_ruleset(int *ret_fd)
{
	struct landlock_rule rules[LANDLOCK_RULES];
	size_t count = 0;
	int r = collect_rules(rules, &count);
	if (r >= 0)
		r = landlock_make(-1, rules, count, 0, ret_fd);
	for (size_t i = 0; i < count; i++)
		(void)close(rules[i].from_fd);
	return r;
}

/* The image's root may be a directory that only root may list. */
static int make_as_root(int *ret_fd)
{
	int before = setfsuid(0);
	int r = make_ruleset(ret_fd);
	(void)setfsuid((uid_t)before);
	return r;
}

int walls_remember_root(struct walls *walls)
{
	struct stat root;
	if (stat("/", &root) < 0)
		return -errno;
	walls->before_device = root.st_dev;
	walls->before_inode = root.st_ino;
	walls->has_before = true;
	return 0;
}

/* The switch of the root takes along who is there when it happens. We see to it that all are; but
 * what depends on it is everything, so it is looked at. */
static int check_root(const struct walls *walls)
{
	struct stat root;
	if (!walls->has_before)
		return 0;
	if (stat("/", &root) < 0)
		return -errno;
	bool is_same = root.st_dev == walls->before_device && root.st_ino == walls->before_inode;
	return is_same ? -EXDEV : 0;
}

int walls_hand_listener(struct walls *walls, int sock)
{
	auto_wire_out struct wire_out out;
	wire_begin(&out, WIRE_S_LISTENER, 0);
	if (walls->listener >= 0)
		wire_put_fd(&out, walls->listener);
	int r = wire_send(sock, &out);
	fd_closep(&walls->listener);
	return r;
}

int walls_close(struct walls *walls)
{
	auto_close int ruleset = -1;
	if (walls->is_up)
		return 0;
	int r = check_root(walls);
	if (r < 0)
		return r;
	if (landlock_abi() <= 0) {
		walls->is_up = true; /* launch has refused it, or the profile accepts it */
		return 0;
	}
	r = make_as_root(&ruleset);
	if (r >= 0)
		r = landlock_enter(ruleset);
	walls->is_up = r >= 0;
	return r;
}

int walls_put_up(struct walls *walls, struct err *err)
{
	*walls = (struct walls){.listener = -1};
	int r = chdir("/") < 0 ? -errno : caps_not_dumpable();
	if (r >= 0)
		r = seccomp_listen(&walls->listener);
	/* Whoever cloche runs in listens to some of our calls: the same are refused, untold. */
	if (r == -EBUSY)
		r = seccomp_install(SECCOMP_QUIET);
	return r < 0 ? err_sys(err, -r, "load the system call filter") : 0;
}

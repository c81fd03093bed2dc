/*
 * Who: the broker (root, or root of its user namespace) before it starts anything; `cloche stop`.
 * Capabilities: CHOWN, FOWNER and SYS_ADMIN for the private mount. Bytes: environment variables
 * and the pid in the lock file. Gone at the end: nothing; the fds stay with the broker.
 */
#include "broker/state.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/str.h"
#include "os/mount.h"
#include "os/ns.h"
#include "os/path.h"

enum owner { OWNER_BROKER, OWNER_DAEMON };

/* `shared` is for folders cloched's group may search; alone, all of them are 0700. `is_spread`:
 * what is in one folder below has nothing to do with its neighbours. */
static const struct folder {
	const char *name;
	enum owner owner;
	mode_t shared;
	bool is_spread;
} folders[] = {
	{"keys", OWNER_DAEMON, 0700, false},    {"store", OWNER_DAEMON, 0700, false},
	{"tmp", OWNER_DAEMON, 0700, false},     {"run", OWNER_BROKER, 0710, false},
	{"layers", OWNER_BROKER, 0700, true},   {"sandboxes", OWNER_BROKER, 0710, true},
	{"program", OWNER_BROKER, 0700, false},
};

void state_init(struct state *state)
{
	*state = (struct state){NULL, -1, -1, -1, -1, -1};
}

void state_done(struct state *state)
{
	mem_freep(&state->path);
	fd_closep(&state->dir_fd);
	fd_closep(&state->run_fd);
	fd_closep(&state->layers_fd);
	fd_closep(&state->sandboxes_fd);
	fd_closep(&state->lock_fd);
}

static const char *env_or_null(const char *name)
{
	const char *value = getenv(name);
	return value && *value ? value : NULL;
}

char *state_path(const char *option)
{
	const char *given = option ? option : env_or_null("CLOCHE_STATE");
	if (given)
		return mem_strdup(given);
	if (geteuid() == 0)
		return mem_strdup("/var/lib/cloche");
	const char *xdg = env_or_null("XDG_STATE_HOME");
	if (xdg && xdg[0] == '/')
		return mem_printf("%s/cloche", xdg);
	const char *home = env_or_null("HOME");
	return mem_printf("%s/.local/state/cloche", home ? home : "/");
}

/* mkdir -p of an operator's own path: the one place where a path from outside is walked. */
static int make_path(const char *path)
{
	auto_free char *copy = mem_strdup(path);
	for (char *at = copy + 1;; at++) {
		if (*at != '/' && *at != '\0')
			continue;
		char keep = *at;
		*at = '\0';
		if (mkdir(copy, 0755) < 0 && errno != EEXIST)
			return -errno;
		if (keep == '\0')
			return 0;
		*at = keep;
	}
}

static int check_owner(int fd, const char *path, struct err *err)
{
	struct stat st;
	if (fstat(fd, &st) < 0)
		return err_sys(err, errno, "look at state directory %s", path);
	if (st.st_uid != geteuid())
		return err_set(err, ERR_FORBIDDEN,
		               "state directory %s belongs to uid %u, not to uid %u who serves it",
		               path, (unsigned)st.st_uid, (unsigned)geteuid());
	if (st.st_mode & S_IWOTH)
		return err_set(err, ERR_FORBIDDEN,
		               "state directory %s can be written by everybody: chmod o-w it first",
		               path);
	return 0;
}

int state_open(struct state *state, const char *path, bool make, struct err *err)
{
	if (strlen(path) > LIMIT_PATH_LEN - 64)
		return err_set(err, ERR_INVALID, "the path of the state directory is too long");
	int r = make ? make_path(path) : 0;
	if (r < 0)
		return err_sys(err, -r, "make state directory %s", path);
	auto_free char *real = realpath(path, NULL);
	if (!real && errno == ENOENT)
		return err_set(err, ERR_NOT_FOUND, "there is no state directory %s", path);
	if (!real)
		return err_sys(err, errno, "find state directory %s", path);
	if (str_eq(real, "/"))
		return err_set(err, ERR_INVALID, "the root directory cannot be a state directory");
	auto_close int fd = open(real, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return err_sys(err, errno, "open state directory %s", real);
	if (check_owner(fd, real, err) < 0)
		return -1;
	state->path = take_ptr(real);
	state->dir_fd = take_fd(&fd);
	return 0;
}

int state_lock(struct state *state, struct err *err)
{
	auto_close int fd = path_open_plain(state->dir_fd, "lock", O_RDWR | O_CREAT, 0600);
	if (fd < 0)
		return err_sys(err, -fd, "open %s/lock", state->path);
	if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno != EWOULDBLOCK)
			return err_sys(err, errno, "lock %s/lock", state->path);
		char holder[24] = "";
		ssize_t len = pread(fd, holder, sizeof(holder) - 1, 0);
		holder[len > 0 ? len : 0] = '\0';
		holder[strspn(holder, "0123456789")] = '\0';
		return err_set(err, ERR_CONFLICT,
		               "another cloche serves this state directory (pid %s)",
		               *holder ? holder : "unknown");
	}
	auto_free char *text = mem_printf("%d\n", (int)getpid());
	if (ftruncate(fd, 0) < 0 || pwrite(fd, text, strlen(text), 0) < 0)
		return err_sys(err, errno, "write %s/lock", state->path);
	state->lock_fd = take_fd(&fd);
	return 0;
}

static int set_owner(int fd, uid_t uid, gid_t gid, mode_t mode)
{
	struct stat st;
	if (fstat(fd, &st) < 0)
		return -errno;
	if ((st.st_uid != uid || st.st_gid != gid) && fchown(fd, uid, gid) < 0)
		return -errno;
	if ((st.st_mode & 07777) != mode && fchmod(fd, mode) < 0)
		return -errno;
	return 0;
}

static int prepare_folder(struct state *state, const struct folder *folder,
                          const struct state_owner *owner, struct err *err)
{
	auto_close int fd = path_dir(state->dir_fd, folder->name, 0700);
	if (fd < 0)
		return err_sys(err, -fd, "make %s/%s", state->path, folder->name);
	/* Contents may never belong to the daemon's user where the broker relies on them. */
	uid_t uid = folder->owner == OWNER_DAEMON ? owner->uid : geteuid();
	bool is_shared = !owner->is_alone && (folder->shared & 0070);
	gid_t gid = folder->owner == OWNER_DAEMON || is_shared ? owner->gid : getegid();
	int r = set_owner(fd, uid, gid, owner->is_alone ? 0700 : folder->shared);
	if (r < 0)
		return err_sys(err, -r, "give %s/%s its owner", state->path, folder->name);
	if (folder->is_spread)
		path_spread(fd);
	return 0;
}

int state_prepare(struct state *state, const struct state_owner *owner, struct err *err)
{
	mode_t mode = owner->is_alone ? 0700 : 0710;
	int r = set_owner(state->dir_fd, geteuid(), owner->is_alone ? getegid() : owner->gid, mode);
	if (r < 0)
		return err_sys(err, -r, "give %s its owner", state->path);
	for (size_t i = 0; i < ARRAY_LEN(folders); i++)
		if (prepare_folder(state, &folders[i], owner, err) < 0)
			return -1;
	return state_open_dirs(state, err);
}

static int reopen(int dir_fd, const char *name, int *fd)
{
	int opened = path_open_plain(dir_fd, name, O_RDONLY | O_DIRECTORY, 0);
	if (opened < 0)
		return opened;
	fd_closep(fd);
	*fd = opened;
	return 0;
}

int state_open_dirs(struct state *state, struct err *err)
{
	int r = reopen(state->dir_fd, "run", &state->run_fd);
	if (r == 0)
		r = reopen(state->dir_fd, "layers", &state->layers_fd);
	if (r == 0)
		r = reopen(state->dir_fd, "sandboxes", &state->sandboxes_fd);
	if (r == -ENOENT)
		return err_set(err, ERR_NOT_FOUND, "nothing was ever served from %s", state->path);
	if (r < 0)
		return err_sys(err, -r, "open the folders of %s", state->path);
	return 0;
}

int state_confine(struct state *state, struct err *err)
{
	int r = ns_unshare(CLONE_NEWNS);
	if (r < 0)
		return err_set(err, ERR_MISSING, "no mount namespace: %s (needs CAP_SYS_ADMIN)",
		               strerror(-r));
	/* Slave, not private: a folder on a disk mounted later can still be granted. */
	if (mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) < 0)
		return err_sys(err, errno, "keep our mounts to ourselves");
	/* The fd we have belongs to the old namespace, in which nothing can be cloned any more. */
	auto_close int here = open(state->path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (here < 0)
		return err_sys(err, errno, "reopen state directory %s", state->path);
	auto_close int mount_fd = -1;
	r = mount_clone(here, "", MOUNT_NOSUID | MOUNT_NODEV | MOUNT_RECURSIVE, &mount_fd);
	if (r == 0)
		r = mount_attach_fd(mount_fd, here);
	if (r < 0)
		return err_sys(err, -r, "mount %s nosuid,nodev", state->path);
	fd_closep(&state->dir_fd);
	state->dir_fd = open(state->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (state->dir_fd < 0)
		return err_sys(err, errno, "reopen state directory %s", state->path);
	return 0;
}

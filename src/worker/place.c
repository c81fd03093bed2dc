#include "worker/place.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "os/path.h"

bool place_is_whiteout(const struct stat *st)
{
	return S_ISCHR(st->st_mode) && st->st_rdev == makedev(0, 0);
}

int place_set_opaque(int parent_fd, const char *name)
{
	auto_close int fd = path_open_plain(parent_fd, name, O_RDONLY | O_DIRECTORY, 0);

	if (fd < 0)
		return fd;
	return fsetxattr(fd, "user.overlay.opaque", "y", 1, 0) < 0 ? -errno : 0;
}

int place_whiteout(int parent_fd, const char *name)
{
	struct stat st;

	if (fstatat(parent_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
		return S_ISDIR(st.st_mode) ? place_set_opaque(parent_fd, name) : 0;
	if (errno != ENOENT)
		return -errno;
	return mknodat(parent_fd, name, S_IFCHR, makedev(0, 0)) < 0 ? -errno : 0;
}

/* A whiteout where a directory is needed meant "what is below is gone"; the directory says the same
 * by being opaque. The result is O_PATH. */
static int enter_dir(int parent_fd, const char *name, uint64_t *made)
{
	struct stat st;
	bool was_whiteout =
		fstatat(parent_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && place_is_whiteout(&st);

	if (was_whiteout && unlinkat(parent_fd, name, 0) < 0)
		return -errno;
	if (mkdirat(parent_fd, name, 0755) == 0)
		(*made)++;
	else if (errno != EEXIST)
		return -errno;
	int r = was_whiteout ? place_set_opaque(parent_fd, name) : 0;
	return r < 0 ? r : path_open_plain(parent_fd, name, O_PATH | O_DIRECTORY, 0);
}

static int make_path(int root_fd, char *path, uint64_t *made)
{
	int at = path_open_plain(root_fd, ".", O_PATH | O_DIRECTORY, 0);

	for (char *name = path, *end; name && at >= 0; name = end ? end + 1 : NULL) {
		auto_close int parent = at;

		end = strchr(name, '/');
		if (end)
			*end = '\0';
		at = enter_dir(parent, name, made);
	}
	return at;
}

int place_open_parent(int root_fd, const struct name *name, uint64_t *made)
{
	char path[sizeof(name->path)];
	size_t len = name->base;

	if (len == 0)
		return path_open_plain(root_fd, ".", O_PATH | O_DIRECTORY, 0);
	memcpy(path, name->path, --len);
	path[len] = '\0';
	int fd = path_open_plain(root_fd, path, O_PATH | O_DIRECTORY, 0);
	/* ENOTDIR may be a whiteout that has to give way. */
	return fd == -ENOENT || fd == -ENOTDIR ? make_path(root_fd, path, made) : fd;
}

static int remove_dir(int parent_fd, const char *name)
{
	auto_close int fd = path_open_plain(parent_fd, name, O_RDONLY | O_DIRECTORY, 0);

	if (fd < 0)
		return fd;
	int r = path_remove_below(fd);
	if (r < 0)
		return r;
	return unlinkat(parent_fd, name, AT_REMOVEDIR) < 0 ? -errno : 0;
}

int place_clear(int parent_fd, const char *name, bool for_dir, struct stat *ret_was)
{
	if (fstatat(parent_fd, name, ret_was, AT_SYMLINK_NOFOLLOW) < 0) {
		*ret_was = (struct stat){0};
		return errno == ENOENT ? 0 : -errno;
	}
	if (S_ISDIR(ret_was->st_mode))
		return for_dir ? 0 : remove_dir(parent_fd, name);
	return unlinkat(parent_fd, name, 0) < 0 ? -errno : 0;
}

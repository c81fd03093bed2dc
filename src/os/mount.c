#include "os/mount.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/path.h"
#include "os/syscalls.h"

/* fsconfig(2) refuses longer strings with EINVAL. */
enum { FSCONFIG_STRING_MAX = 255 };

#ifndef FSOPEN_CLOEXEC
#define FSOPEN_CLOEXEC 0x00000001
#endif
#ifndef FSMOUNT_CLOEXEC
#define FSMOUNT_CLOEXEC 0x00000001
#endif
#ifndef FSPICK_CLOEXEC
#define FSPICK_CLOEXEC    0x00000001
#define FSPICK_EMPTY_PATH 0x00000008
#endif

static unsigned int attributes(enum mount_flags flags)
{
	unsigned int attr = 0;

	if (flags & MOUNT_RO)
		attr |= MOUNT_ATTR_RDONLY;
	if (flags & MOUNT_NOSUID)
		attr |= MOUNT_ATTR_NOSUID;
	if (flags & MOUNT_NODEV)
		attr |= MOUNT_ATTR_NODEV;
	if (flags & MOUNT_NOEXEC)
		attr |= MOUNT_ATTR_NOEXEC;
	return attr;
}

int mount_make_private(void)
{
	return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ? -errno : 0;
}

int mount_make_slave(void)
{
	return mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) < 0 ? -errno : 0;
}

static int set_string(int fs_fd, const char *key, const char *value)
{
	return sys_fsconfig(fs_fd, FSCONFIG_SET_STRING, key, value, 0) < 0 ? -errno : 0;
}

/* A lowerdir list longer than one fsconfig string goes in layer by layer (Linux 6.7). Older kernels
 * answer EINVAL: there the caller keeps the list short by naming layers relative to its cwd. */
static int set_lower_layers(int fs_fd, char *layers)
{
	int r = 0;

	while (r == 0 && layers)
		r = set_string(fs_fd, "lowerdir+", strsep(&layers, ":"));
	return r;
}

static int set_option(int fs_fd, char *option)
{
	char *value = strchr(option, '=');

	if (!value)
		return sys_fsconfig(fs_fd, FSCONFIG_SET_FLAG, option, NULL, 0) < 0 ? -errno : 0;
	*value++ = '\0';
	if (strcmp(option, "lowerdir") == 0 && strlen(value) > FSCONFIG_STRING_MAX)
		return set_lower_layers(fs_fd, value);
	return set_string(fs_fd, option, value);
}

static int set_options(int fs_fd, const char *options)
{
	auto_free char *copy = strdup(options);
	int r = 0;

	if (!copy)
		return -ENOMEM;
	for (char *rest = copy; r == 0 && rest;) {
		char *option = strsep(&rest, ",");
		if (*option)
			r = set_option(fs_fd, option);
	}
	return r;
}

int mount_new(const char *type, const char *source, const char *options, enum mount_flags flags,
              int *ret_fd)
{
	auto_close int fs_fd = sys_fsopen(type, FSOPEN_CLOEXEC);
	int r = 0;

	if (fs_fd < 0)
		return -errno;
	if (source)
		r = set_string(fs_fd, "source", source);
	if (r == 0 && options)
		r = set_options(fs_fd, options);
	if (r < 0)
		return r;
	if (sys_fsconfig(fs_fd, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return -errno;

	int fd = sys_fsmount(fs_fd, FSMOUNT_CLOEXEC, attributes(flags));
	if (fd < 0)
		return -errno;
	*ret_fd = fd;
	return 0;
}

int mount_reconfigure(int fd, const char *options)
{
	auto_close int fs_fd = sys_fspick(fd, "", FSPICK_CLOEXEC | FSPICK_EMPTY_PATH);

	if (fs_fd < 0)
		return -errno;
	int r = set_options(fs_fd, options);
	if (r < 0)
		return r;
	return sys_fsconfig(fs_fd, FSCONFIG_CMD_RECONFIGURE, NULL, NULL, 0) < 0 ? -errno : 0;
}

int mount_clone(int dir_fd, const char *path, enum mount_flags flags, int *ret_fd)
{
	unsigned int how = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW;

	if (*path == '\0')
		how |= AT_EMPTY_PATH;
	if (flags & MOUNT_RECURSIVE)
		how |= AT_RECURSIVE;

	auto_close int fd = sys_open_tree(dir_fd, path, how);
	if (fd < 0)
		return -errno;
	int r = mount_set_flags(fd, flags);
	if (r < 0)
		return r;
	*ret_fd = take_fd(&fd);
	return 0;
}

static int set_attributes(int mount_fd, struct mount_attr *attr, bool is_recursive)
{
	unsigned int how = AT_EMPTY_PATH;

	if (is_recursive)
		how |= AT_RECURSIVE;
	return sys_mount_setattr(mount_fd, "", how, attr) < 0 ? -errno : 0;
}

int mount_set_flags(int mount_fd, enum mount_flags flags)
{
	struct mount_attr attr = {.attr_set = attributes(flags)};

	if (!attr.attr_set)
		return 0;
	return set_attributes(mount_fd, &attr, flags & MOUNT_RECURSIVE);
}

int mount_set_idmap(int mount_fd, int userns_fd)
{
	struct mount_attr attr = {
		.attr_set = MOUNT_ATTR_IDMAP,
		.userns_fd = (uint64_t)userns_fd,
	};

	return set_attributes(mount_fd, &attr, false);
}

int mount_attach(int mount_fd, int dir_fd, const char *path)
{
	struct stat st;
	auto_close int target = path_open_in_root(dir_fd, path, O_PATH | O_NOFOLLOW, 0);

	if (target < 0)
		return target;
	if (fstat(target, &st) < 0)
		return -errno;
	if (S_ISLNK(st.st_mode))
		return -ELOOP;
	return mount_attach_fd(mount_fd, target);
}

int mount_attach_fd(int mount_fd, int target_fd)
{
	unsigned int how = MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH;

	return sys_move_mount(mount_fd, "", target_fd, "", how) < 0 ? -errno : 0;
}

int mount_pivot(int new_root_fd)
{
	auto_close int old_root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (old_root < 0)
		return -errno;
	if (fchdir(new_root_fd) < 0 || sys_pivot_root(".", ".") < 0)
		return -errno;
	/* The old root now lies on top of the new one. It must not take the host's mounts along
	 * when it goes, should anything in it still be shared. */
	if (fchdir(old_root) < 0 || mount(NULL, ".", NULL, MS_REC | MS_SLAVE, NULL) < 0 ||
	    umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
		return -errno;
	return 0;
}

int mount_detach(const char *path)
{
	return umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW) < 0 ? -errno : 0;
}

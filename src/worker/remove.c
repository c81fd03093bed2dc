#include "worker/remove.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "os/path.h"
#include "worker/tree.h"

/* Owners can take their own directories' permissions away; without CAP_DAC_OVERRIDE these have to
 * come back before anything in them can be removed. */
static int unlock(const struct tree_entry *entry, void *ctx)
{
	if (!S_ISDIR(entry->st.st_mode) || (entry->st.st_mode & S_IRWXU) == S_IRWXU)
		return 0;
	return fchmodat(entry->dir_fd, entry->name, S_IRWXU, 0) < 0 ? -errno : 0;
}

int remove_below(int dir_fd, struct err *err)
{
	int r = path_remove_below(dir_fd);

	if (r == -EACCES || r == -EPERM) {
		auto_close int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		r = fd < 0 || fchmod(fd, S_IRWXU) < 0 ? -errno : tree_walk(dir_fd, unlock, NULL);
		if (r == 0)
			r = path_remove_below(dir_fd);
	}
	return r < 0 ? err_sys(err, -r, "remove the tree") : 0;
}

/* Project quotas of ext4 and XFS. Apart from disk.c because <linux/fs.h> and <sys/mount.h> clash.
 */
#include <errno.h>
#include <linux/fs.h>
#include <linux/quota.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/disk_internal.h"

#ifndef SYS_quotactl_fd
#define SYS_quotactl_fd 443
#endif
#ifndef PRJQUOTA
#define PRJQUOTA 2
#endif

int disk_quota_mark(int dir_fd, const struct disk_spec *spec)
{
	struct if_dqblk limits = {
		.dqb_bhardlimit = (spec->bytes + 1023) / 1024,
		.dqb_bsoftlimit = (spec->bytes + 1023) / 1024,
		.dqb_ihardlimit = spec->inodes,
		.dqb_isoftlimit = spec->inodes,
		.dqb_valid = QIF_LIMITS,
	};
	struct fsxattr attr;

	/* The limit first: with the mark alone nothing is limited. */
	if (syscall(SYS_quotactl_fd, dir_fd, QCMD((unsigned int)Q_SETQUOTA, PRJQUOTA),
	            spec->project, &limits) < 0)
		return -errno;
	if (ioctl(dir_fd, FS_IOC_FSGETXATTR, &attr) < 0)
		return -errno;
	attr.fsx_projid = spec->project;
	attr.fsx_xflags |= FS_XFLAG_PROJINHERIT;
	return ioctl(dir_fd, FS_IOC_FSSETXATTR, &attr) < 0 ? -errno : 0;
}

#include "os/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "os/caps.h"
#include "os/disk_internal.h"
#include "os/mount.h"
#include "os/ns.h"
#include "os/path.h"

/* What a probe may use: small enough to be overrun at once, large enough for an ext4 image. */
enum { PROBE_BYTES = 8 << 20, PROBE_INODES = 64, PROBE_CHUNK = 1 << 20 };
/* Less than this left is as good as nothing: ext4 keeps some for itself. */
enum { FULL_BYTES = 64 * 1024 };

static const char probe_name[] = ".disk-probe";
/* Beyond every slot's number. */
static const uint32_t probe_project = 0x7ffffffe;

static const char *const backend_names[] = {
	[DISK_AUTO] = "auto",   [DISK_QUOTA] = "quota",     [DISK_LOOP] = "loop",
	[DISK_TMPFS] = "tmpfs", [DISK_SAMPLED] = "sampled",
};

const char *disk_name(enum disk_backend backend)
{
	return backend_names[backend];
}

bool disk_parse(const char *name, enum disk_backend *ret)
{
	for (size_t i = 0; i < ARRAY_LEN(backend_names); i++) {
		if (strcmp(name, backend_names[i]) == 0) {
			*ret = (enum disk_backend)i;
			return true;
		}
	}
	return false;
}

static int make_tmpfs(const struct disk_spec *spec, int *ret_fd)
{
	char options[96];

	(void)snprintf(options, sizeof(options), "size=%llu,nr_inodes=%llu,mode=0700",
	               (unsigned long long)spec->bytes,
	               (unsigned long long)spec->inodes); /* cannot be too long */
	return mount_new("tmpfs", "cloche", options, MOUNT_NOSUID | MOUNT_NODEV, ret_fd);
}

static int make_folder(const struct disk_spec *spec, int sandbox_dir_fd, int *ret_fd)
{
	auto_close int fd = path_dir(sandbox_dir_fd, DISK_FOLDER, 0700);
	int r = fd;

	if (fd >= 0 && spec->backend == DISK_QUOTA)
		r = disk_quota_mark(fd, spec);
	if (r < 0)
		return r;
	*ret_fd = take_fd(&fd);
	return 0;
}

int disk_prepare(const struct disk_spec *spec, int sandbox_dir_fd, int *ret_fd, bool *ret_is_mount)
{
	int r = -EINVAL;

	if (spec->backend == DISK_TMPFS)
		r = make_tmpfs(spec, ret_fd);
	else if (spec->backend == DISK_LOOP)
		r = disk_loop_mount(spec, sandbox_dir_fd, ret_fd);
	else if (spec->backend == DISK_QUOTA || spec->backend == DISK_SAMPLED)
		r = make_folder(spec, sandbox_dir_fd, ret_fd);
	if (r == 0)
		*ret_is_mount = spec->backend == DISK_TMPFS || spec->backend == DISK_LOOP;
	return r;
}

int disk_resize(const struct disk_spec *spec, int fd)
{
	char options[64];
	struct statfs fs;

	if (spec->backend == DISK_QUOTA)
		return disk_quota_mark(fd, spec);
	if (spec->backend == DISK_SAMPLED)
		return 0;
	if (spec->backend != DISK_TMPFS)
		return -EOPNOTSUPP;
	if (fstatfs(fd, &fs) < 0)
		return -errno;
	if (fs.f_type != TMPFS_MAGIC)
		return -EINVAL;
	(void)snprintf(options, sizeof(options), "size=%llu,nr_inodes=%llu",
	               (unsigned long long)spec->bytes,
	               (unsigned long long)spec->inodes); /* cannot be too long */
	return mount_reconfigure(fd, options);
}

int disk_make_lasting(const struct disk_spec *spec, int fd)
{
	return spec->backend == DISK_LOOP ? mount_reconfigure(fd, "barrier") : 0;
}

int disk_usage(const struct disk_spec *spec, int fd, struct disk_usage *ret)
{
	struct statfs fs;

	if (spec->backend == DISK_SAMPLED)
		return -EOPNOTSUPP;
	/* A directory with a project quota answers with the quota's numbers. */
	if (fstatfs(fd, &fs) < 0)
		return -errno;
	uint64_t block = (uint64_t)fs.f_bsize;
	*ret = (struct disk_usage){
		.bytes = (fs.f_blocks - fs.f_bfree) * block,
		.inodes = fs.f_files - fs.f_ffree,
		.is_full = fs.f_bavail * block < FULL_BYTES || fs.f_ffree == 0,
	};
	return 0;
}

/* Overruns both limits and reports which of them held: 0, or -ENOTSUP when one did not. Runs in a
 * process without CAP_SYS_RESOURCE, which no quota stops. */
static int overrun(int dir_fd)
{
	static char chunk[PROBE_CHUNK];
	char name[32];
	size_t written = 0;
	auto_close int fd = openat(dir_fd, "bytes", O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	if (fd < 0)
		return -errno;
	memset(chunk, 1, sizeof(chunk)); /* no block of zeros that could become a hole */
	while (written <= PROBE_BYTES) {
		ssize_t n = write(fd, chunk, sizeof(chunk));
		if (n < 0 && (errno == ENOSPC || errno == EDQUOT))
			break;
		if (n < 0)
			return -errno;
		written += (size_t)n;
	}
	if (written > PROBE_BYTES || ftruncate(fd, 0) < 0)
		return -ENOTSUP;
	/* ext4 rounds the number of inodes up, to a block of them a group. */
	for (int i = 0; i < PROBE_INODES * 64; i++) {
		(void)snprintf(name, sizeof(name), "inode-%d", i); /* fits */
		if (mkdirat(dir_fd, name, 0700) == 0)
			continue;
		return errno == ENOSPC || errno == EDQUOT ? 0 : -errno;
	}
	return -ENOTSUP;
}

static int overrun_in_child(int dir_fd)
{
	int status;
	pid_t pid = ns_clone(0, -1, NULL);

	if (pid < 0)
		return pid;
	if (pid == 0) {
		int r = caps_limit(~CAPS_BIT(CAP_SYS_RESOURCE));
		_exit(r < 0 ? -r : -overrun(dir_fd));
	}
	while (waitpid(pid, &status, 0) < 0) {
		if (errno != EINTR)
			return -errno;
	}
	return WIFEXITED(status) ? -WEXITSTATUS(status) : -EIO;
}

static int try_backend(enum disk_backend backend, int probe_fd)
{
	struct disk_spec spec = {
		.backend = backend,
		.bytes = PROBE_BYTES,
		.inodes = PROBE_INODES,
		.project = probe_project,
		.loop_template_fd = -1,
	};
	auto_close int template = -1;
	auto_close int fd = -1;
	bool is_mount;

	if (backend == DISK_LOOP) {
		template = disk_loop_template(probe_fd, spec.bytes, spec.inodes, NULL);
		if (template <0)
			return template;
		spec.loop_template_fd = template;
	}
	int r = disk_prepare(&spec, probe_fd, &fd, &is_mount);
	return r < 0 ? r : overrun_in_child(fd);
}

int disk_probe(enum disk_backend backend, int dir_fd)
{
	if (backend == DISK_AUTO)
		return -EINVAL;
	if (backend == DISK_SAMPLED)
		return 0;
	auto_close int probe_fd = path_dir(dir_fd, probe_name, 0700);
	if (probe_fd < 0)
		return probe_fd;
	int r = try_backend(backend, probe_fd);
	int removed = path_remove_below(probe_fd);
	if (removed == 0 && unlinkat(dir_fd, probe_name, AT_REMOVEDIR) < 0)
		removed = -errno;
	return r < 0 ? r : removed;
}

enum disk_backend disk_choose(int dir_fd)
{
	static const enum disk_backend lasting[] = {DISK_QUOTA, DISK_LOOP};

	for (size_t i = 0; i < ARRAY_LEN(lasting); i++) {
		if (disk_probe(lasting[i], dir_fd) == 0)
			return lasting[i];
	}
	return DISK_TMPFS;
}

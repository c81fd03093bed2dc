/*
 * Who: the broker at start. Capabilities: SYS_ADMIN for the tmpfs. Bytes: its own executable. Gone
 * at the end: write access to the sealed copy.
 */
#include "broker/site.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/str.h"
#include "broker/slot.h"
#include "os/mount.h"
#include "os/path.h"

void site_init(struct site *site)
{
	*site = (struct site){
		.program_fd = -1, .templates_fd = -1, .cloched_fd = -1, .shared_count = 1};
	state_init(&site->state);
}

void site_done(struct site *site)
{
	strings_done(&site->resolvers);
	mem_freep(&site->commands);
	state_done(&site->state);
	fd_closep(&site->program_fd);
	fd_closep(&site->templates_fd);
	fd_closep(&site->cloched_fd);
}

uint32_t site_worker_base(const struct site *site)
{
	return site->is_rootless ? site->shared_base : SLOT_WORKER_BASE;
}

uint32_t site_worker_count(const struct site *site)
{
	return site->is_rootless ? site->shared_count : SLOT_RANGE_COUNT;
}

uint32_t site_stored_id(const struct site *site, uint32_t id)
{
	if (!site->is_rootless)
		return id;
	return id < site->shared_count ? site->shared_base + id : site->shared_base;
}

int site_find_cloched(void)
{
	static const char *const places[] = {"/usr/libexec/cloche/cloched",
	                                     "/usr/local/bin/cloched", "/usr/bin/cloched"};
	auto_free char *self = mem_zalloc(LIMIT_PATH_LEN + 1);
	ssize_t len = readlink("/proc/self/exe", self, LIMIT_PATH_LEN);
	char *slash = len > 0 ? strrchr(self, '/') : NULL;
	if (slash) {
		*slash = '\0';
		auto_free char *beside = mem_printf("%s/cloched", self);
		int fd = open(beside, O_PATH | O_CLOEXEC);
		if (fd >= 0)
			return fd;
	}
	for (size_t i = 0; i < ARRAY_LEN(places); i++) {
		int fd = open(places[i], O_PATH | O_CLOEXEC);
		if (fd >= 0)
			return fd;
	}
	return -ENOENT;
}

/* FNV-1a: the name only has to differ between versions; nobody but us writes there. */
static int copy_hashed(int from, int to, uint64_t *ret_hash)
{
	enum { CHUNK = 64 * 1024 };
	auto_free uint8_t *chunk = mem_zalloc(CHUNK);
	uint64_t hash = UINT64_C(0xcbf29ce484222325);
	for (;;) {
		ssize_t len = io_read_full(from, chunk, CHUNK);
		if (len <= 0) {
			*ret_hash = hash;
			return (int)len;
		}
		for (ssize_t i = 0; i < len; i++)
			hash = (hash ^ chunk[i]) * UINT64_C(0x100000001b3);
		int r = io_write_all(to, chunk, (size_t)len);
		if (r < 0)
			return r;
	}
}

static int fill_program(int dir_fd, char *name, size_t size)
{
	auto_close int self = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	if (self < 0)
		return -errno;
	auto_close int copy = openat(dir_fd, "new", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0555);
	if (copy < 0)
		return -errno;
	uint64_t hash;
	int r = copy_hashed(self, copy, &hash);
	if (r < 0)
		return r;
	/* Executable but not readable: the kernel then gives /proc/PID of what runs it to the owner
	 * of the file, host root, and not to root of the sandbox's user namespace. */
	if (fchmod(copy, 0111) < 0)
		return -errno;
	(void)snprintf(name, size, "cloche-%016llx", (unsigned long long)hash);
	return renameat(dir_fd, "new", dir_fd, name) < 0 ? -errno : 0;
}

int site_seal_program(struct site *site, struct err *err)
{
	auto_close int mount_fd = -1;
	char name[32];
	/* Room for a debug build; the pages are only used for what is copied. */
	int r = mount_new("tmpfs", "cloche", "size=64m,nr_inodes=8,mode=755",
	                  MOUNT_NOSUID | MOUNT_NODEV, &mount_fd);
	if (r == 0)
		r = mount_attach(mount_fd, site->state.dir_fd, "program");
	if (r == 0)
		r = fill_program(mount_fd, name, sizeof(name));
	if (r == 0)
		r = mount_set_flags(mount_fd, MOUNT_RO | MOUNT_NOSUID | MOUNT_NODEV);
	if (r < 0)
		return err_sys(err, -r, "seal a copy of the program");
	site->program_fd = openat(mount_fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (site->program_fd < 0)
		return err_sys(err, errno, "open the sealed copy of the program");
	return 0;
}

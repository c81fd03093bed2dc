/*
 * Archives of images, unpacked for real into a directory in memory with small caps. Besides not
 * crashing: a refused archive leaves nothing, an accepted one nothing outside its directory.
 */
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/must.h"
#include "os/path.h"
#include "worker/unpack.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static struct layer_limits limits = {
	.bytes = 1 << 20, .entries = 200, .file_bytes = 1 << 20, .ratio = 100, .ids = 65536};

/* Without root: root of a namespace with one id, enough to give files to it. */
static void become_root(void)
{
	char map[64];

	if (geteuid() == 0)
		return;
	(void)snprintf(map, sizeof(map), "0 %u 1", geteuid());
	limits.ids = 1;
	if (unshare(CLONE_NEWUSER) == 0)
		(void)!io_write_ctl(AT_FDCWD, "/proc/self/uid_map",
		                    map); /* else: less is reached */
}

/* Of its own for each input: replays and parallel runs do not meet, and the end cannot be missed.
 */
static int make_dir(char *path)
{
	static bool is_root = false;

	if (!is_root)
		become_root();
	is_root = true;
	must(mkdtemp(path) != NULL);
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	must(fd >= 0);
	must(mkdirat(fd, "in", 0700) == 0);
	return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	struct err err = {0};
	auto_unpack struct unpack_result result = {0};
	auto_close int archive = memfd_create("archive", MFD_CLOEXEC);
	char path[] = "/dev/shm/cloche-fuzz-XXXXXX";
	auto_close int dir = make_dir(path);
	auto_close int in = openat(dir, "in", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	must(archive >= 0 && in >= 0 && io_write_all(archive, bytes, len) == 0);
	int r = unpack_image(archive, in, BUNDLE_AUTO, &limits, &result, &err);
	must(r == 0 || err.msg[0]);
	if (r == 0)
		must(path_remove_below(in) == 0);
	/* Empty again, and still alone in its directory. */
	must(unlinkat(dir, "in", AT_REMOVEDIR) == 0);
	must(rmdir(path) == 0);
	return 0;
}

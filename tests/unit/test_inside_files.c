#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/test.h"
#include "keeper/inside_files.h"
#include "os/mount.h"
#include "os/path.h"
#include "own_ns.h"

/* CVE-2021-30465: whoever shares a folder with a sandbox that is being made changes it meanwhile.
 * What a whole start does in milliseconds is done here by the same code, and nothing else. */
enum { ROUNDS = 10000 };

static char top[256];

/* The attacker: in its own folder, a real directory becomes a link out and back, as fast as it
 * can; each of the ways a name can change. */
static void swap_for_ever(int volume)
{
	static const char *const links[] = {"../../outside", "/", "../../../../../../../..",
	                                    "../outside", "."};

	for (size_t i = 0;; i++) {
		const char *link = links[i % ARRAY_LEN(links)];

		(void)mkdirat(volume, "a", 0755);
		(void)!symlinkat(link, volume, "b");
		(void)syscall(SYS_renameat2, volume, "a", volume, "b", 2 /* RENAME_EXCHANGE */);
		(void)syscall(SYS_renameat2, volume, "a", volume, "b", 2);
		(void)unlinkat(volume, "b", 0);
		(void)unlinkat(volume, "a/deep/er", AT_REMOVEDIR);
		(void)unlinkat(volume, "a/deep", AT_REMOVEDIR);
		(void)unlinkat(volume, "a", AT_REMOVEDIR);
		(void)!symlinkat(link, volume, "a");
		(void)unlinkat(volume, "a", 0);
	}
}

static int make_scene(void)
{
	CHECK_INT(mount_make_private(), 0);
	auto_close int tmpfs = -1;
	CHECK_INT(mount_new("tmpfs", "scene", "mode=755", 0, &tmpfs), 0);
	(void)snprintf(top, sizeof(top), "%s", test_dir());
	auto_close int place = open(top, O_PATH | O_DIRECTORY | O_CLOEXEC);
	CHECK_INT(mount_attach_fd(tmpfs, place), 0);
	int dir = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	static const char *const names[] = {"outside", "outside/deep", "outside/deep/er",
	                                    "source",  "root",         "root/volume"};
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		CHECK_INT(mkdirat(dir, names[i], 0777), 0);
	return dir;
}

/* Where a mount that was attached is now. A link may lead elsewhere inside, which is the sandbox's
 * own business. */
static bool is_inside(int mount_fd)
{
	char link[64], at[512] = "", inside[300];
	(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", mount_fd);
	(void)snprintf(inside, sizeof(inside), "%s/root", top);
	CHECK(readlink(link, at, sizeof(at) - 1) > 0);
	CHECK_HAS(at, inside); /* shows where it is instead */
	return strncmp(at, inside, strlen(inside)) == 0;
}

/* One start's worth: 1 when it was mounted, 0 when that was refused. */
static int mount_once(int scene, int root, const char *path)
{
	char link[64];
	auto_close int mount = -1;
	auto_close int target = -1;
	CHECK_INT(mount_clone(scene, "source", MOUNT_NOSUID, &mount), 0);
	if (inside_files_target(root, path, mount, &target) < 0)
		return 0;
	if (mount_attach_fd(mount, target) < 0)
		return 0;
	CHECK(is_inside(mount));
	(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", mount);
	CHECK_INT(umount2(link, MNT_DETACH), 0);
	return 1;
}

TEST_WITHIN(a_mount_lands_inside_or_nowhere, 120)
{
	if (!own_ns(CLONE_NEWNS))
		SKIP("no mount namespace here");
	auto_close int scene = make_scene();
	auto_close int root = path_open_plain(scene, "root", O_RDONLY | O_DIRECTORY, 0);
	auto_close int volume = path_open_plain(root, "volume", O_RDONLY | O_DIRECTORY, 0);
	int landed = 0;
	pid_t swapper = fork();

	if (swapper == 0)
		swap_for_ever(volume);
	for (int i = 0; i < ROUNDS; i++)
		landed += mount_once(scene, root, i % 2 ? "/volume/a/deep/er" : "/volume/a");
	CHECK_INT(kill(swapper, SIGKILL), 0);
	CHECK_INT(waitpid(swapper, NULL, 0), swapper);
	/* The race was on: both ends of it were met. */
	CHECK(landed > ROUNDS / 1000);
	CHECK(landed < ROUNDS);
}

/*
 * E01, E04, E28: files of the host. Arguments: path=CANARY (a file of the host, absolute),
 * state=DIR (the state directory).
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "probe.h"

static struct verdict canary_by_path(void)
{
	return cannot_open(probe_arg("path"), O_RDONLY);
}

static struct verdict canary_under(const char *root)
{
	char path[4096];
	snprintf(path, sizeof(path), "%s%s", root, probe_arg("path"));
	return cannot_open(path, O_RDONLY);
}

static struct verdict canary_by_pid1_root(void)
{
	return canary_under("/proc/1/root");
}

static struct verdict canary_by_dotdot(void)
{
	return canary_under("/proc/self/root/../../../../../../../..");
}

static struct verdict canary_by_pid1_cwd(void)
{
	return canary_under("/proc/1/cwd/../../../../../../../..");
}

struct link_search {
	char found[100];
};

static bool look_through_links(int pid, void *ctx)
{
	struct link_search *search = ctx;
	static const char *const links[] = {"root", "cwd"};
	for (size_t i = 0; i < ATTEMPT_COUNT(links); i++) {
		char path[4096];
		snprintf(path, sizeof(path), "/proc/%d/%s/../../../../../..%s", pid, links[i],
		         probe_arg("path"));
		int fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			continue;
		close(fd);
		snprintf(search->found, sizeof(search->found), "/proc/%d/%s leads out", pid,
		         links[i]);
		return false;
	}
	return true;
}

static struct verdict canary_by_every_process(void)
{
	struct link_search search = {.found = ""};
	each_other_process(look_through_links, &search);
	return search.found[0] ? broken("%s", search.found) : held(0, "no link leads out");
}

/* The descriptors of every process in sight, as roots of a walk upwards. */
static bool look_through_fds(int pid, void *ctx)
{
	struct link_search *search = ctx;
	for (int fd = 0; fd < 256; fd++) {
		char path[4096];
		snprintf(path, sizeof(path), "/proc/%d/fd/%d/../../../../../..%s", pid, fd,
		         probe_arg("path"));
		int opened = open(path, O_RDONLY | O_CLOEXEC);
		if (opened < 0)
			continue;
		close(opened);
		snprintf(search->found, sizeof(search->found), "/proc/%d/fd/%d leads out", pid, fd);
		return false;
	}
	return true;
}

static struct verdict canary_by_every_descriptor(void)
{
	struct link_search search = {.found = ""};
	each_other_process(look_through_fds, &search);
	return search.found[0] ? broken("%s", search.found) : held(0, "no descriptor leads out");
}

static struct verdict chroot_and_climb(void)
{
	mkdir("/tmp/jail", 0755);
	if (chroot("/tmp/jail") < 0)
		return REFUSED(-1, EPERM, ENOSYS);
	for (int i = 0; i < 64; i++)
		if (chdir("..") < 0)
			break;
	if (chroot(".") == 0 && access(probe_arg("path"), F_OK) == 0)
		return broken("climbed out of chroot");
	return broken("chroot works");
}

/* The "shocker" attack: the handle of inode 2 is the root of most file systems. */
static struct verdict open_by_handle(void)
{
	struct {
		struct file_handle head;
		unsigned char bytes[8];
	} handle = {.head = {.handle_bytes = 8, .handle_type = 1}, .bytes = {2}};
	int fd = open("/", O_RDONLY | O_CLOEXEC);
	return REFUSED(open_by_handle_at(fd, &handle.head, O_RDONLY), EPERM, ENOSYS);
}

static struct verdict state_directory(void)
{
	return cannot_open(probe_arg("state"), O_RDONLY | O_DIRECTORY);
}

static struct verdict shadow(void)
{
	return cannot_open("/etc/shadow", O_RDONLY);
}

#define ON_IMAGE(name, call)                                                                       \
	static struct verdict name(void)                                                           \
	{                                                                                          \
		return REFUSED((call), EROFS, EACCES, EPERM, EXDEV, ETXTBSY, EOPNOTSUPP);          \
	}

ON_IMAGE(image_write, open("/usr/bin/env", O_WRONLY | O_CLOEXEC))
ON_IMAGE(image_create, open("/usr/bin/cloche-probe", O_WRONLY | O_CREAT | O_CLOEXEC, 0755))
ON_IMAGE(image_truncate, truncate("/usr/bin/env", 0))
ON_IMAGE(image_unlink, unlink("/usr/bin/env"))
ON_IMAGE(image_rename, rename("/usr/bin/env", "/usr/bin/env.old"))
ON_IMAGE(image_link, link("/usr/bin/env", "/usr/bin/env.link"))
ON_IMAGE(image_chmod, chmod("/usr/bin/env", 04777))
ON_IMAGE(image_chown, chown("/usr/bin/env", getuid(), getgid()))
ON_IMAGE(image_times, utimes("/usr/bin/env", NULL))
ON_IMAGE(image_xattr, setxattr("/usr/bin/env", "user.probe", "x", 1, 0))

/* Of a running image of somebody else: a new open for writing through every link we can see. */
static bool try_executable(int pid, void *ctx)
{
	struct link_search *search = ctx;
	char path[64], target[200] = "";
	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	ssize_t len = readlink(path, target, sizeof(target) - 1);
	if (len < 0 || !strstr(target, "cloche"))
		return true;
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return true;
	close(fd);
	snprintf(search->found, sizeof(search->found), "%s is writable", path);
	return false;
}

/* CVE-2019-5736: the driver keeps starting programs in here meanwhile, one of them by way of
 * "#!/proc/self/exe", so that the starter itself is what we find. */
static struct verdict starter_overwrite(void)
{
	struct link_search search = {.found = ""};
	time_t end = time(NULL) + (time_t)probe_number("seconds", 1);
	do {
		each_other_process(try_executable, &search);
	} while (!search.found[0] && time(NULL) < end);
	return search.found[0] ? broken("%s", search.found) : held(0, "never writable");
}

static struct verdict inside_program(void)
{
	DIR *dir = opendir("/run/cloche");
	if (!dir)
		return held(errno, "not visible");
	struct verdict verdict = held(0, "nothing writable in /run/cloche");
	for (struct dirent *entry = readdir(dir); entry && verdict.held; entry = readdir(dir)) {
		char path[512];
		snprintf(path, sizeof(path), "/run/cloche/%s", entry->d_name);
		if (entry->d_type == DT_REG) /* also where a socket lies on top: ENXIO */
			verdict = REFUSED(open(path, O_WRONLY | O_CLOEXEC), EROFS, EACCES, EPERM,
			                  ETXTBSY, ENXIO);
	}
	closedir(dir);
	return verdict;
}

static const struct attempt attempts[] = {
	{"E01", "canary by its path", canary_by_path, NEEDS_ARG, "path"},
	{"E01", "canary by /proc/1/root", canary_by_pid1_root, NEEDS_ARG, "path"},
	{"E01", "canary by /proc/1/cwd", canary_by_pid1_cwd, NEEDS_ARG, "path"},
	{"E01", "canary by .. of our root", canary_by_dotdot, NEEDS_ARG, "path"},
	{"E01", "canary by any process", canary_by_every_process, NEEDS_ARG, "path"},
	{"E01", "canary by any descriptor", canary_by_every_descriptor, NEEDS_ARG, "path"},
	{"E01", "chroot and climb", chroot_and_climb, NEEDS_ARG, "path"},
	{"E01", "open by handle", open_by_handle, 0, NULL},
	{"E01", "state directory", state_directory, NEEDS_ARG, "state"},
	{"E01", "shadow", shadow, 0, NULL},
	{"E01", "image: write", image_write, NEEDS_ARG, "hostimage"},
	{"E01", "image: create", image_create, NEEDS_ARG, "hostimage"},
	{"E01", "image: truncate", image_truncate, NEEDS_ARG, "hostimage"},
	{"E01", "image: unlink", image_unlink, NEEDS_ARG, "hostimage"},
	{"E01", "image: rename", image_rename, NEEDS_ARG, "hostimage"},
	{"E01", "image: link", image_link, NEEDS_ARG, "hostimage"},
	{"E01", "image: chmod", image_chmod, NEEDS_ARG, "hostimage"},
	{"E01", "image: chown", image_chown, NEEDS_ARG, "hostimage"},
	{"E01", "image: times", image_times, NEEDS_ARG, "hostimage"},
	{"E01", "image: xattr", image_xattr, NEEDS_ARG, "hostimage"},
	{"E04", "starter overwritten", starter_overwrite, 0, NULL},
	{"E04", "program inside overwritten", inside_program, 0, NULL},
};

const struct topic topic_files = {"files", attempts, ATTEMPT_COUNT(attempts)};

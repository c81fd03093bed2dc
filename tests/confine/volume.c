/*
 * E02, E23, E24: a folder of the host that was granted. Arguments: volume=DIR (writable grant),
 * which the driver filled with: suid (this program, set-uid root), filecap (this program with file
 * capabilities), owned (a file of another user, not writable to the granting one),
 * link (a symbolic link to a host file outside), readonly=DIR (a grant without writing).
 *
 * `probe volume report=1` is the other side: what the set-uid copies run.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "probe.h"

static char path[4096];

static const char *in_volume(const char *name)
{
	snprintf(path, sizeof(path), "%s/%s", probe_arg("volume"), name);
	return path;
}

static uint64_t effective_capabilities(void)
{
	char line[256];
	unsigned long long caps = 0;
	FILE *file = fopen("/proc/self/status", "re");
	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "CapEff: %llx", &caps) == 1)
			break;
	if (file)
		fclose(file);
	return caps;
}

/* Runs as the privileged copy: fails when it has more than the one that started it. */
static struct verdict report(void)
{
	if (geteuid() != getuid() || getegid() != getgid())
		return broken("euid %u egid %u", geteuid(), getegid());
	if (effective_capabilities())
		return broken("capabilities %llx", (unsigned long long)effective_capabilities());
	return held(0, "uid %u, no capability", getuid());
}

/* E02 once more: a program that is started with privilege must not find more open than others. */
static struct verdict report_descriptors(void)
{
	for (int fd = 3; fd < 1024; fd++) {
		if (fcntl(fd, F_GETFD) >= 0)
			return broken("descriptor %d is open", fd);
	}
	return held(0, "0, 1 and 2 only");
}

static struct verdict run_copy(const char *name)
{
	pid_t pid = fork();
	if (pid == 0) {
		execl(in_volume(name), "probe", "volume", "report=1", (char *)NULL);
		_exit(100 + (errno == EACCES || errno == EPERM));
	}
	int status = 0;
	waitpid(pid, &status, 0);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return held(0, "ran without privilege");
	if (WIFEXITED(status) && WEXITSTATUS(status) == 101)
		return held(EACCES, "does not run");
	return broken("status %x", (unsigned)status);
}

static struct verdict run_suid(void)
{
	return run_copy("suid");
}

static struct verdict run_filecap(void)
{
	return run_copy("filecap");
}

static struct verdict mount_flags(void)
{
	struct statvfs info;
	if (statvfs(probe_arg("volume"), &info) < 0)
		return broken("statvfs: %s", strerror(errno));
	if (!(info.f_flag & ST_NOSUID) || !(info.f_flag & ST_NODEV))
		return broken("flags %lx", info.f_flag);
	return held(0, "nosuid, nodev");
}

static struct verdict write_foreign(void)
{
	return REFUSED(open(in_volume("owned"), O_WRONLY | O_CLOEXEC), EACCES, EPERM, EROFS);
}

static struct verdict take_foreign(void)
{
	return REFUSED(chown(in_volume("owned"), getuid(), getgid()), EPERM, EACCES, EINVAL,
	               EOVERFLOW, EROFS);
}

static struct verdict open_up_foreign(void)
{
	return REFUSED(chmod(in_volume("owned"), 0666), EPERM, EACCES, EOVERFLOW, EROFS);
}

/* A set-uid program for the host, made inside: the file must not get root as its owner. */
static struct verdict plant_root_suid(void)
{
	const char *name = in_volume("planted");
	int fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
	if (fd < 0)
		return held(errno, "cannot create");
	close(fd);
	if (chown(name, 0, 0) < 0 && getuid() != 0)
		return held(errno, "owner stays");
	/* The host's view decides; the driver checks that nobody but the grantor owns it. */
	chmod(name, 04755);
	return held(0, "left for the driver");
}

static struct verdict follow_link_out(void)
{
	return cannot_open(in_volume("link"), O_RDONLY);
}

static struct verdict climb_out(void)
{
	return cannot_open(in_volume("../../../../../../../../etc/shadow"), O_RDONLY);
}

static struct verdict write_readonly(void)
{
	snprintf(path, sizeof(path), "%s/new", probe_arg("readonly"));
	return REFUSED(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644), EROFS, EACCES, EPERM);
}

static struct verdict make_device_on_volume(void)
{
	return REFUSED(mknod(in_volume("null"), S_IFCHR | 0666, 0x103), EPERM, EACCES, EROFS);
}

static const struct attempt attempts[] = {
	{"E23", "what a privileged copy has", report, NEEDS_ARG, "report"},
	{"E02", "descriptors of a privileged copy", report_descriptors, NEEDS_ARG, "report"},
	{"E23", "set-uid root", run_suid, NEEDS_ARG, "volume"},
	{"E23", "file capability", run_filecap, NEEDS_ARG, "volume"},
	{"E23", "mount flags", mount_flags, NEEDS_ARG, "volume"},
	{"E23", "plant a set-uid file", plant_root_suid, NEEDS_ARG, "volume"},
	{"E24", "write a foreign file", write_foreign, NEEDS_ARG, "volume"},
	{"E24", "take a foreign file", take_foreign, NEEDS_ARG, "volume"},
	{"E24", "open up a foreign file", open_up_foreign, NEEDS_ARG, "volume"},
	{"E01", "link out of the volume", follow_link_out, NEEDS_ARG, "volume"},
	{"E01", "climb out of the volume", climb_out, NEEDS_ARG, "volume"},
	{"E17", "device on the volume", make_device_on_volume, NEEDS_ARG, "volume"},
	{"E24", "write a read-only volume", write_readonly, NEEDS_ARG, "readonly"},
};

const struct topic topic_volume = {"volume", attempts, ATTEMPT_COUNT(attempts)};

/*
 * R01-R04: taking more than the limits give. Arguments: pids=N, memory=BYTES, disk=BYTES,
 * inodes=N: the limits of the sandbox, nofile=N. An attempt has broken the wall when it gets twice
 * as much. That the machine around stays well is the driver's to measure.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "probe.h"

enum { STEP = 1 << 20 };

static char step_bytes[STEP];

static struct verdict fork_bomb(void)
{
	uint64_t limit = probe_number("pids", 0), made = 0;
	pid_t parent = getpid();
	int err = 0;
	setpgid(0, 0); /* the signal at the end is for us and ours */
	for (; made < limit * 2; made++) {
		pid_t pid = fork();
		if (pid < 0) {
			err = errno;
			break;
		}
		if (pid == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			if (getppid() != parent)
				_exit(0);
			pause();
		}
	}
	signal(SIGTERM, SIG_IGN);
	kill(0, SIGTERM);
	while (wait(NULL) > 0)
		;
	if (made >= limit)
		return broken("%llu processes", (unsigned long long)made);
	return held(err, "after %llu processes", (unsigned long long)made);
}

/* Grows in steps by `grow` until it says no; broken when twice the limit was had. */
static struct verdict hog(const char *limit_name, bool (*grow)(void))
{
	uint64_t limit = probe_number(limit_name, 0), had = 0;
	while (had < limit * 2) {
		if (!grow())
			return held(errno, "after %llu MiB", (unsigned long long)had / STEP);
		had += STEP;
	}
	return broken("%llu MiB", (unsigned long long)had / STEP);
}

static bool grow_anonymous(void)
{
	char *more = mmap(NULL, STEP, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (more == MAP_FAILED)
		return false;
	memset(more, 1, STEP);
	return true;
}

static bool grow_shared(void)
{
	int id = shmget(IPC_PRIVATE, STEP, IPC_CREAT | 0600);
	if (id < 0)
		return false;
	char *more = shmat(id, NULL, 0);
	shmctl(id, IPC_RMID, NULL);
	if (more == (char *)-1)
		return false;
	memset(more, 1, STEP);
	return true;
}

static bool append_to(int *fd, const char *name)
{
	if (*fd < 0)
		*fd = open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	return *fd >= 0 && write(*fd, step_bytes, STEP) == STEP;
}

static bool grow_memory_file(void)
{
	static int fd = -1;
	if (fd < 0)
		fd = memfd_create("bomb", MFD_CLOEXEC);
	return fd >= 0 && write(fd, step_bytes, STEP) == STEP;
}

static bool grow_shm_folder(void)
{
	static int fd = -1;
	bool grown = append_to(&fd, "/dev/shm/bomb");
	unlink("/dev/shm/bomb");
	return grown;
}

static bool grow_tmp(void)
{
	static int fd = -1;
	bool grown = append_to(&fd, "/tmp/bomb");
	unlink("/tmp/bomb");
	return grown;
}

static bool grow_pipes(void)
{
	int ends[2];
	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
		return false;
	fcntl(ends[1], F_SETPIPE_SZ, STEP);
	for (int written = 0; written < STEP;) {
		ssize_t len = write(ends[1], step_bytes, STEP - (size_t)written);
		if (len <= 0)
			return errno == EAGAIN;
		written += (int)len;
	}
	return true;
}

static bool grow_sockets(void)
{
	for (int had = 0; had < STEP;) {
		int ends[2], size = 212992;
		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0)
			return false;
		setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
		ssize_t len, total = 0;
		while ((len = write(ends[0], step_bytes, 65536)) > 0)
			total += len;
		if (total == 0)
			return false;
		had += (int)total;
	}
	return true;
}

/* A listener on loopback, and a connection to it that nobody reads from, filled both ways. */
static bool grow_tcp(void)
{
	static int listener = -1;
	static struct sockaddr_in address = {.sin_family = AF_INET};
	socklen_t size = sizeof(address);
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (listener < 0) {
		listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (bind(listener, (struct sockaddr *)&address, size) < 0 ||
		    listen(listener, 16) < 0 ||
		    getsockname(listener, (struct sockaddr *)&address, &size) < 0)
			return false;
	}
	for (int had = 0; had < STEP;) {
		int ends[2] = {socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), -1};
		if (ends[0] < 0 || connect(ends[0], (struct sockaddr *)&address, size) < 0)
			return false;
		ends[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		if (ends[1] < 0)
			return false;
		ssize_t len, total = 0;
		for (int i = 0; i < 2; i++) {
			while ((len = send(ends[i], step_bytes, 65536, MSG_DONTWAIT)) > 0)
				total += len;
		}
		if (total < STEP / 16) /* only what every socket has anyway */
			return false;
		had += (int)total;
	}
	return true;
}

static bool grow_locked(void)
{
	char *more = mmap(NULL, STEP, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return more != MAP_FAILED && mlock(more, STEP) == 0;
}

static bool grow_disk(void)
{
	static int fd = -1;
	return append_to(&fd, "bomb");
}

static struct verdict memory_anonymous(void)
{
	return hog("memory", grow_anonymous);
}

static struct verdict memory_shared(void)
{
	return hog("memory", grow_shared);
}

static struct verdict memory_memfd(void)
{
	return hog("memory", grow_memory_file);
}

static struct verdict memory_shm(void)
{
	return hog("memory", grow_shm_folder);
}

static struct verdict memory_tmp(void)
{
	return hog("memory", grow_tmp);
}

static struct verdict memory_pipes(void)
{
	return hog("memory", grow_pipes);
}

static struct verdict memory_sockets(void)
{
	return hog("memory", grow_sockets);
}

static struct verdict memory_tcp(void)
{
	return hog("memory", grow_tcp);
}

/* Terminals are counted for the whole machine. */
static struct verdict terminals(void)
{
	int made = 0;
	while (made < 1000 && open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC) >= 0)
		made++;
	return made < 1000 ? held(errno, "after %d", made) : broken("%d terminals", made);
}

static struct verdict memory_locked(void)
{
	return hog("memory", grow_locked);
}

static struct verdict disk_data(void)
{
	struct verdict verdict = hog("disk", grow_disk);
	unlink("bomb");
	return verdict;
}

/* Space reserved without writing, and files that claim a size they do not have. */
static struct verdict disk_reserved(void)
{
	uint64_t limit = probe_number("disk", 0);
	int fd = open("bomb", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	int result = fallocate(fd, 0, 0, (off_t)(limit * 2));
	struct verdict verdict = REFUSED(result, ENOSPC, EDQUOT, EFBIG, EOPNOTSUPP, ENOMEM);
	close(fd);
	unlink("bomb");
	return verdict;
}

/* Holes that are filled elsewhere: what a file takes, not what it says, is what counts. */
static struct verdict disk_punched(void)
{
	enum { BLOCK = 1 << 20 };
	static char block[BLOCK];
	uint64_t limit = probe_number("disk", 0), written = 0;
	struct stat st = {0};
	int fd = open("bomb", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	memset(block, 1, sizeof(block));
	if (ftruncate(fd, (off_t)1 << 40) < 0 && errno != EFBIG)
		return broken("a sparse file: %s", strerror(errno));
	for (off_t at = 0; written < limit * 4; at += 3 * BLOCK) {
		ssize_t n = pwrite(fd, block, sizeof(block), at);
		if (n < 0)
			break;
		written += (uint64_t)n;
		/* every second one is given back */
		if (at % (2 * BLOCK))
			(void)fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, BLOCK);
	}
	int err = errno;
	fstat(fd, &st);
	close(fd);
	unlink("bomb");
	return (uint64_t)st.st_blocks * 512 > limit
	               ? broken("%llu bytes in use", (unsigned long long)st.st_blocks * 512)
	               : held(err, "%llu bytes in use", (unsigned long long)st.st_blocks * 512);
}

static struct verdict disk_inodes(void)
{
	uint64_t limit = probe_number("inodes", 0), made = 0;
	char name[64];
	int err = 0;
	mkdir("many", 0700);
	for (; made < limit * 2; made++) {
		snprintf(name, sizeof(name), "many/%llu", (unsigned long long)made);
		int fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
		if (fd < 0) {
			err = errno;
			break;
		}
		close(fd);
	}
	for (uint64_t i = 0; i < made; i++) {
		snprintf(name, sizeof(name), "many/%llu", (unsigned long long)i);
		unlink(name);
	}
	rmdir("many");
	return made > limit ? broken("%llu files", (unsigned long long)made)
	                    : held(err, "after %llu files", (unsigned long long)made);
}

/* A tree too deep for any path string: what lists or removes it later must cope. It stays. */
static struct verdict disk_deep(void)
{
	uint64_t depth = 0, wanted = probe_number("depth", 3000);
	while (depth < wanted && mkdir("deep", 0700) == 0 && chdir("deep") == 0)
		depth++;
	return held(0, "%llu levels, left for the driver", (unsigned long long)depth);
}

static struct verdict open_files(void)
{
	uint64_t limit = probe_number("nofile", 0), made = 0;
	while (made < limit * 2 && open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0)
		made++;
	return made > limit ? broken("%llu files open", (unsigned long long)made)
	                    : held(errno, "after %llu", (unsigned long long)made);
}

static const struct attempt attempts[] = {
	{"R01", "fork bomb", fork_bomb, NEEDS_ARG, "pids"},
	{"R02", "anonymous memory", memory_anonymous, NEEDS_ARG | OOM_IS_HELD, "memory"},
	{"R02", "System V shared memory", memory_shared, NEEDS_ARG | OOM_IS_HELD, "memory"},
	{"R02", "memfd", memory_memfd, NEEDS_ARG | OOM_IS_HELD, "memory"},
	{"R02", "/dev/shm", memory_shm, NEEDS_ARG | OOM_IS_HELD, "memory"},
	{"R02", "/tmp", memory_tmp, NEEDS_ARG | OOM_IS_HELD, "memory"},
	{"R02", "pipe buffers", memory_pipes, NEEDS_ARG | OOM_IS_HELD, "memory"},
	{"R02", "socket buffers", memory_sockets, NEEDS_ARG | OOM_IS_HELD, "memory"},
	{"R02", "TCP buffers", memory_tcp, NEEDS_ARG | OOM_IS_HELD, "memory"},
	{"R02", "locked memory", memory_locked, NEEDS_ARG | OOM_IS_HELD, "memory"},
	{"R04", "disk: data", disk_data, NEEDS_ARG | OOM_IS_HELD, "disk"},
	{"R04", "disk: reserved", disk_reserved, NEEDS_ARG | OOM_IS_HELD, "disk"},
	{"R04", "disk: holes", disk_punched, NEEDS_ARG | OOM_IS_HELD, "disk"},
	{"R04", "disk: inodes", disk_inodes, NEEDS_ARG, "inodes"},
	{"R04", "disk: deep folders", disk_deep, NEEDS_ARG, "depth"},
	{"R04", "open files", open_files, NEEDS_ARG, "nofile"},
	{"R04", "terminals", terminals, NEEDS_ARG, "nofile"},
};

const struct topic topic_bombs = {"bombs", attempts, ATTEMPT_COUNT(attempts)};

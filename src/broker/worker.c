/*
 * Who: a task child, root (or root of the broker's user namespace). Capabilities: SYS_ADMIN for
 * namespaces and mounts, SETUID/SETGID to change into the range. Bytes: the worker's answers,
 * through wire_parse only. Gone before cloched is executed: the host's root, network and processes,
 * every descriptor but the wire, every capability but CHOWN, DAC_OVERRIDE, FOWNER, FSETID inside
 * the range.
 *
 * Order in the child, and why: mounts first (they need the parent namespace's rights), then pivot,
 * then the user namespace (so that it owns neither mounts nor network), then ids and capabilities,
 * then no_new_privs, then exec. Landlock and seccomp follow in the worker, one wall for each
 * request.
 */
#include "broker/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "os/caps.h"
#include "os/mount.h"
#include "os/ns.h"

enum { WORKER_WIRE_FD = 3, WORKER_REMOVE_MS = 10 * 60 * 1000 };

/* What the child needs, made while we are still in the broker's mount namespace. */
struct jail {
	const struct site *site;
	int userns;
	int program;
	int tree;
	int sock;
};

static void jail_done(struct jail *jail)
{
	fd_closep(&jail->userns);
	fd_closep(&jail->program);
	fd_closep(&jail->tree);
	fd_closep(&jail->sock);
}

static int make_userns(const struct site *site, int *ret_fd)
{
	struct ns_map map = {0, site_worker_base(site), site_worker_count(site)};
	return ns_user_create(&map, 1, &map, 1, map.count == 1, ret_fd);
}

static int jail_prepare(struct jail *jail, int tree_fd, struct err *err)
{
	int r = make_userns(jail->site, &jail->userns);
	if (r < 0)
		return err_sys(err, -r, "make a worker's user namespace");
	r = mount_clone(jail->site->cloched_fd, "", MOUNT_RO | MOUNT_NOSUID | MOUNT_NODEV,
	                &jail->program);
	if (r < 0)
		return err_sys(err, -r, "bind cloched for a worker");
	r = mount_clone(tree_fd, "", MOUNT_NOSUID | MOUNT_NODEV | MOUNT_NOEXEC, &jail->tree);
	if (r == 0 && !jail->site->is_rootless)
		r = mount_set_idmap(jail->tree, jail->userns);
	return r < 0 ? err_sys(err, -r, "bind a tree for a worker") : 0;
}

/* /usr and the names beside it through which programs find their libraries. */
static int bind_host(int root)
{
	static const char *const names[] = {"usr", "lib", "lib64", "lib32", "libx32"};
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		char path[16], target[64];
		struct stat st;
		(void)snprintf(path, sizeof(path), "/%s", names[i]);
		if (lstat(path, &st) < 0)
			continue;
		if (S_ISLNK(st.st_mode)) {
			ssize_t len = readlink(path, target, sizeof(target) - 1);
			if (len < 0)
				return -errno;
			target[len] = '\0';
			if (symlinkat(target, root, names[i]) < 0)
				return -errno;
			continue;
		}
		auto_close int tree = -1;
		int r = mount_clone(AT_FDCWD, path,
		                    MOUNT_RO | MOUNT_NOSUID | MOUNT_NODEV | MOUNT_RECURSIVE, &tree);
		if (r == 0 && mkdirat(root, names[i], 0755) < 0)
			r = -errno;
		if (r == 0)
			r = mount_attach(tree, root, names[i]);
		if (r < 0)
			return r;
	}
	return 0;
}

static int attach_own(struct jail *jail, int root)
{
	int file = openat(root, "cloched", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0555);
	if (file < 0)
		return -errno;
	close(file);
	int r = mount_attach(jail->program, root, "cloched");
	if (r == 0 && mkdirat(root, "tree", 0700) < 0)
		r = -errno;
	return r < 0 ? r : mount_attach(jail->tree, root, "tree");
}

static int enter_root(struct jail *jail)
{
	int r = mount_make_private();
	auto_close int root = -1;
	if (r == 0)
		r = mount_new("tmpfs", "cloche", "size=64k,nr_inodes=64,mode=755",
		              MOUNT_NOSUID | MOUNT_NODEV, &root);
	/* /proc always exists, nobody can remove it, and nothing we bind lies below it. */
	auto_close int place = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (r == 0)
		r = place < 0 ? -errno : mount_attach_fd(root, place);
	if (r == 0)
		r = bind_host(root);
	if (r == 0)
		r = attach_own(jail, root);
	if (r == 0)
		r = mount_set_flags(root, MOUNT_RO | MOUNT_NOSUID | MOUNT_NODEV);
	return r < 0 ? r : mount_pivot(root);
}

static int drop_privileges(struct jail *jail)
{
	uint64_t keep = CAPS_BIT(CAP_CHOWN) | CAPS_BIT(CAP_DAC_OVERRIDE) | CAPS_BIT(CAP_FOWNER) |
	                CAPS_BIT(CAP_FSETID);
	int r = ns_enter(jail->userns, CLONE_NEWUSER);
	if (r == 0)
		r = caps_become(0, 0, keep | CAPS_BIT(CAP_SETPCAP));
	if (r == 0)
		r = caps_limit(keep);
	return r < 0 ? r : caps_no_new_privs();
}

/* 0 /dev/null, 1 and 2 our stderr, 3 the wire. */
static int place_fds(int null, int sock)
{
	int high_null = fcntl(null, F_DUPFD_CLOEXEC, 10);
	int high_sock = fcntl(sock, F_DUPFD_CLOEXEC, 10);
	if (high_null < 0 || high_sock < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0 ||
	    dup2(high_null, STDIN_FILENO) < 0 || dup2(high_sock, WORKER_WIRE_FD) < 0)
		return -errno;
	static const int keep[] = {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO, WORKER_WIRE_FD};
	return caps_close_fds_except(keep, ARRAY_LEN(keep));
}

static int become_worker(struct jail *jail)
{
	static char *const argv[] = {(char *)"cloched", (char *)"worker", NULL};
	static char *const env[] = {(char *)"LANG=C.UTF-8", NULL};
	const struct rlimit no_core = {0, 0};
	auto_close int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null < 0)
		return -errno;
	int r = enter_root(jail);
	if (r == 0 && sethostname("worker", 6) < 0)
		r = -errno;
	if (r == 0)
		r = drop_privileges(jail);
	if (r == 0)
		r = place_fds(null, jail->sock);
	if (r < 0)
		return r;
	/* Dropping ids clears it, so it is set last. */
	if (setrlimit(RLIMIT_CORE, &no_core) < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
		return -errno;
	(void)umask(0);
	(void)execve("/cloched", argv, env);
	return -errno;
}

static NORETURN void child(struct jail *jail)
{
	struct err err = {0};
	int sock = jail->sock;
	err_sys(&err, -become_worker(jail), "start a worker");
	struct wire_out out;
	wire_begin(&out, WIRE_ERROR, 1); /* the first call's number: it is answered with this */
	wire_put_err(&out, &err);
	/* Before the fds were placed the socket has its old number, afterwards 3. */
	if (wire_send(sock, &out) < 0)
		(void)!wire_send(WORKER_WIRE_FD, &out);
	_exit(1);
}

void worker_init(struct worker *worker)
{
	*worker = (struct worker){.pidfd = -1, .sock = -1, .tree = -1};
}

int worker_start(struct worker *worker, const struct site *site, int tree_fd, struct err *err)
{
	auto_(jail_done) struct jail jail = {
		.site = site, .userns = -1, .program = -1, .tree = -1, .sock = -1};
	worker_init(worker);
	if (jail_prepare(&jail, tree_fd, err) < 0)
		return -1;
	int pair[2];
	int r = wire_pair(pair);
	if (r < 0)
		return err_sys(err, -r, "make a worker's socket");
	worker->sock = pair[0];
	jail.sock = pair[1];
	pid_t pid =
		ns_clone(CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS,
	                 -1, &worker->pidfd);
	if (pid == 0)
		child(&jail);
	if (pid < 0) {
		worker_stop(worker);
		return err_sys(err, (int)-pid, "make a worker's namespaces");
	}
	worker->pid = pid;
	/* A mount's own fd is like O_PATH: good to open through, not to sync or to list. */
	worker->tree = openat(jail.tree, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (worker->tree < 0) {
		err_sys(err, errno, "open a tree for a worker");
		worker_stop(worker);
		return -1;
	}
	return 0;
}

int worker_call(struct worker *worker, const struct wire_out *out, int timeout_ms, uint8_t *bytes,
                struct wire_msg *ret, struct err *err)
{
	if (wire_call(worker->sock, out, bytes, timeout_ms, ret, err) == 0)
		return 0;
	/* One that could not start has said why before it went, maybe before we asked. */
	struct err why = {0};
	if (io_set_nonblock(worker->sock, true) == 0 &&
	    wire_recv(worker->sock, bytes, LIMIT_WIRE_BYTES, ret) > 0) {
		if (wire_get_err(ret, &why) < 0)
			*err = why;
		wire_msg_done(ret);
	}
	return err_wrap(err, "worker");
}

void worker_stop(struct worker *worker)
{
	if (worker->pid > 0) {
		fd_closep(&worker->sock);
		/* It is pid 1 of its namespace: nothing it forked stays. ESRCH: it ended before. */
		(void)kill(worker->pid, SIGKILL);
		while (waitpid(worker->pid, NULL, 0) < 0 && errno == EINTR)
			;
		worker->pid = 0;
	}
	fd_closep(&worker->sock);
	fd_closep(&worker->pidfd);
	fd_closep(&worker->tree);
}

int worker_remove(const struct site *site, int tree_fd, struct err *err)
{
	struct worker worker;
	int r = worker_start(&worker, site, tree_fd, err);
	if (r == 0) {
		auto_free uint8_t *bytes = mem_zalloc(LIMIT_WIRE_BYTES);
		auto_wire_out struct wire_out out;
		struct wire_msg answer;
		wire_begin(&out, WIRE_W_REMOVE, 1);
		wire_put_fd(&out, worker.tree);
		r = worker_call(&worker, &out, WORKER_REMOVE_MS, bytes, &answer, err);
		if (r == 0)
			wire_msg_done(&answer);
	}
	worker_stop(&worker);
	return r;
}

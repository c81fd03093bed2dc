/*
 * Who runs this: pid 1 inside; first with every privilege of whoever made its namespaces, then with
 * CAP_SETUID, CAP_SETGID, CAP_SETPCAP and CAP_KILL of its own user namespace only. Bytes looked at:
 * its keeper's messages, /proc of its own pid namespace. The walls the workload inherits (walls.h)
 * are put up once, before the first command: an exec costs nothing for them, and no command can
 * ever run without them.
 *
 * The spawner is forked before the root is there, and the keeper moves it to the `work` cgroup
 * then: that takes milliseconds, and init may wait long for what it shall become. Both then drop
 * their privileges side by side, and init serves. The keeper builds the root from outside, and its
 * switch takes both along: the kernel gives every process that stands in the old one the new one.
 */
#include "init/init.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/str.h"
#include "init/port.h"
#include "init/probe.h"
#include "init/refusals.h"
#include "init/spawn.h"
#include "init/walls.h"
#include "init/who.h"
#include "os/caps.h"
#include "os/proc.h"
#include "os/seccomp.h"
#include "wire/wire.h"

struct init {
	struct loop *loop;
	struct loop_source control;
	pid_t spawner;
	int spawner_listener; /* of its filter, until refusals have it; -1: none */
	struct walls walls;
	struct refusals refusals;
	int birth;  /* to the spawner, which waits for the root; -1: it has one */
	int handed; /* goes with the answer, and is closed then; -1: none */
	int gate;   /* a byte lets a new spawner go on; -1: none waits */
	uint8_t *bytes;
};

enum { KILL_ROUNDS = 200, SIGNALS = 64 };

/* Where the program is inside, and the third argument of one that was executed again there. */
#define INIT_PROGRAM "/run/cloche/cloche"
#define INIT_SERVES  "serves"
#define INIT_SPAWNER "spawner"

/* A spawner is born in init's cgroup: it must not start anything before the keeper moved it. */
static int ask_to_be_moved(void)
{
	auto_wire_out struct wire_out again;
	wire_begin(&again, WIRE_S_AGAIN, 0);
	return wire_send(INIT_SPAWN_FD, &again);
}

static NORETURN void wait_at_gate(struct walls *walls, int gate)
{
	char byte;
	sigset_t none;
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	if (ask_to_be_moved() < 0 || io_read_full(gate, &byte, 1) != 1)
		_exit(1);
	static const int keep[] = {0, 1, 2, INIT_SPAWN_FD};
	if (caps_close_fds_except(keep, ARRAY_LEN(keep)) < 0)
		_exit(1);
	spawn_loop(INIT_SPAWN_FD, walls, false, -1);
}

/* The kernel killed the spawner (memory was short): make another. False: nothing can be started any
 * more. */
static bool replace_spawner(struct init *init)
{
	int gate[2];
	fd_closep(&init->gate);
	if (pipe2(gate, O_CLOEXEC) < 0)
		return false;
	init->spawner = fork();
	if (init->spawner == 0) {
		(void)close(gate[1]);
		wait_at_gate(&init->walls, gate[0]);
	}
	(void)close(gate[0]);
	init->gate = gate[1];
	return init->spawner > 0;
}

/* Where there is a range, init leaves root to the workload's root and takes an id nobody else has.
 */
static int take_own_id(struct err *err)
{
	if (getuid() != 0)
		return 0;
	uint64_t keep = CAPS_BIT(CAP_SETUID) | CAPS_BIT(CAP_SETGID) | CAPS_BIT(CAP_KILL) |
	                CAPS_BIT(CAP_SETPCAP);
	int r = caps_become(INIT_UID, INIT_UID, keep);
	if (r >= 0)
		r = caps_not_dumpable(); /* a change of id turns it on again */
	return r < 0 ? err_sys(err, -r, "take init's own id") : 0;
}

/* --- birth --- */

static void answer(struct init *init, const struct wire_msg *msg);

/* Where there is one id only, commands have the id of whoever serves cloche, to whom /proc gives
 * what belongs to a program that was executed outside. So it is executed once more, inside. Returns
 * only on failure. */
static int execute_again(const char *role, const struct init_rights *rights, int sock,
                         const struct init *init)
{
	char fd[16], spawner[16];
	(void)snprintf(fd, sizeof(fd), "%d", sock);
	(void)snprintf(spawner, sizeof(spawner), "%d", init ? (int)init->spawner : 0);
	char *const argv[] = {(char *)"cloche",
	                      (char *)"init",
	                      (char *)role,
	                      fd,
	                      spawner,
	                      rights->waits ? (char *)"waits" : NULL,
	                      NULL};
	static char *const environment[] = {NULL};
	if (fcntl(sock, F_SETFD, 0) < 0 || chdir("/") < 0)
		return -errno;
	(void)execve(INIT_PROGRAM, argv, environment);
	return -errno;
}

/* The filter and an id of its own; privileges are gone already. */
static int settle(struct walls *walls, struct err *err)
{
	if (walls_put_up(walls, err) < 0 || take_own_id(err) < 0)
		return -1;
	/* Every change of id forgets it; if the keeper died meanwhile, its socket says so. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
		return err_sys(err, errno, "tie init to its keeper");
	return 0;
}

/* Where the root comes later, the one that is left is remembered. */
static int settle_with(const struct init_rights *rights, struct walls *walls, struct err *err)
{
	if (settle(walls, err) < 0)
		return -1;
	int r = rights->has_root ? 0 : walls_remember_root(walls);
	return r < 0 ? err_sys(err, -r, "look at the root") : 0;
}

/* One that cannot close the walls ends, and another tries. */
static NORETURN void become_spawner(struct walls *walls, bool is_parked)
{
	/* Once more: where it was while the root was switched may be the old one. */
	if (chdir("/") < 0 || walls_close(walls) < 0)
		_exit(1);
	spawn_loop(INIT_SPAWN_FD, walls, is_parked, -1);
}

/* After the root is there: see execute_again. */
static NORETURN void drop_late(init_drop drop, const struct init_rights *rights, int sock)
{
	struct err err = {0};
	if (drop(rights, sock, &err) == 0)
		(void)execute_again(INIT_SPAWNER, rights, sock, NULL); /* the end says it */
	_exit(1);
}

static int take_listener(struct init *init, int sock, struct err *err)
{
	struct wire_msg msg;
	if (wire_recv(sock, init->bytes, LIMIT_WIRE_BYTES, &msg) <= 0)
		return err_set(err, ERR_INTERNAL, "the spawner ended before it was ready");
	init->spawner_listener = wire_take_fd(&msg, 0);
	wire_msg_done(&msg);
	return 0;
}

/* Drops its privileges as soon as it may, which is mostly before there is a root. */
static NORETURN void wait_for_birth(init_drop drop, int sock)
{
	struct init_rights rights;
	struct walls walls = {.listener = -1};
	struct err err = {0};
	char is_parked;
	(void)close(INIT_CONTROL_FD);
	if (ask_to_be_moved() < 0 || io_read_full(sock, &rights, sizeof(rights)) != sizeof(rights))
		_exit(0); /* init is gone */
	/* Where it was moved to is the top of what commands see. */
	if (unshare(CLONE_NEWCGROUP) < 0)
		(void)err_sys(&err, errno, "make the cgroup namespace");
	bool is_late = !rights.has_range;
	if (!is_late && err.code == ERR_OK && drop(&rights, sock, &err) == 0)
		walls.is_bounded =
			settle_with(&rights, &walls, &err) == 0 && caps_drop_bounding() == 0;
	if (io_write_all(sock, &err, sizeof(err)) < 0 || err.code != ERR_OK)
		_exit(1);
	/* The first shim hands the listener on: when init has it, nobody here forks any more until
	 * there is a root. Whoever was just being born would not be taken along to it. */
	if (!is_late)
		spawn_loop(INIT_SPAWN_FD, &walls, false, sock);
	if (io_read_full(sock, &is_parked, 1) == 1)
		drop_late(drop, &rights, sock);
	_exit(1);
}

static int start_spawner(struct init *init, init_drop drop)
{
	int pair[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	init->spawner = fork();
	if (init->spawner == 0) {
		(void)close(pair[0]);
		wait_for_birth(drop, pair[1]);
	}
	int r = init->spawner < 0 ? -errno : 0;
	(void)close(pair[1]);
	init->birth = pair[0];
	return r; /* the socket stays open here too: a later spawner serves what is queued in it */
}

/* Whether it could drop its privileges. */
static int hear_spawner(const struct init *init, struct err *err)
{
	struct err theirs;
	if (io_read_full(init->birth, &theirs, sizeof(theirs)) != sizeof(theirs))
		return err_set(err, ERR_INTERNAL, "the spawner ended before it was ready");
	if (theirs.code == ERR_OK)
		return 0;
	*err = theirs;
	return -1;
}

/* The root is there. */
static int let_spawner_go(const struct init *init, char is_parked, struct err *err)
{
	if (io_write_all(init->birth, &is_parked, 1) < 0)
		return err_set(err, ERR_INTERNAL, "the spawner ended before it was ready");
	return 0;
}

/* Of both. What follows needs the root. */
static int drop_both(struct init *init, init_drop drop, const struct init_rights *rights,
                     struct err *err)
{
	if (drop(rights, init->birth, err) < 0 || settle_with(rights, &init->walls, err) < 0 ||
	    hear_spawner(init, err) < 0)
		return -1;
	return take_listener(init, init->birth, err);
}

/* The other order: see execute_again. Returns only on failure. */
static int drop_after_root(struct init *init, init_drop drop, const struct init_rights *rights,
                           struct err *err)
{
	if (hear_spawner(init, err) < 0 || let_spawner_go(init, rights->waits, err) < 0 ||
	    drop(rights, init->birth, err) < 0)
		return -1;
	return err_sys(err, -execute_again(INIT_SERVES, rights, init->birth, init),
	               "execute the program again");
}

static struct init_rights read_rights(const struct wire_msg *msg)
{
	uint32_t count = (uint32_t)wire_u64(msg, FIELD_RANGE_COUNT, 1);
	return (struct init_rights){.range_count = count,
	                            .nofile = wire_u64(msg, FIELD_NOFILE, 0),
	                            .nproc = wire_u64(msg, FIELD_NPROC, 0),
	                            .has_range = count > INIT_AGENT,
	                            .waits = wire_u64(msg, FIELD_PARKED, 0) != 0,
	                            .has_root = msg->type == WIRE_I_SLOT};
}

/* Until I_DROP or I_SLOT, which may take long. */
static void wait_for_rights(struct init *init, struct init_rights *ret)
{
	struct wire_msg msg;
	for (;;) {
		if (wire_recv(INIT_CONTROL_FD, init->bytes, LIMIT_WIRE_BYTES, &msg) <= 0)
			_exit(0); /* nobody wants us any more */
		*ret = read_rights(&msg);
		bool is_it = ret->has_root || msg.type == WIRE_I_DROP;
		if (!is_it)
			answer(init, &msg);
		wire_msg_done(&msg);
		if (is_it)
			return;
	}
}

static int give_root(struct init *init, char is_parked, struct err *err)
{
	int r = let_spawner_go(init, is_parked, err);
	fd_closep(&init->birth);
	return r;
}

static int be_born(struct init *init, init_drop drop, struct err *err)
{
	struct init_rights rights;
	int r = start_spawner(init, drop);
	if (r < 0)
		return err_sys(err, -r, "fork the spawner");
	auto_wire_out struct wire_out waiting;
	wire_begin(&waiting, WIRE_I_READY, 0);
	if (wire_send(INIT_CONTROL_FD, &waiting) < 0)
		_exit(0);
	wait_for_rights(init, &rights);
	r = io_write_all(init->birth, &rights, sizeof(rights));
	if (r < 0)
		return err_sys(err, -r, "start the spawner");
	if (!rights.has_range)
		return drop_after_root(init, drop, &rights, err);
	if (drop_both(init, drop, &rights, err) < 0)
		return -1;
	return rights.has_root ? give_root(init, rights.waits, err) : 0;
}

/* After execute_again: what follows the drop. */
static int be_born_again(struct init *init, char **argv, bool waits, struct err *err)
{
	uint64_t sock, spawner;
	if (str_to_u64(argv[3], &sock) < 0 || str_to_u64(argv[4], &spawner) < 0 || sock > INT_MAX)
		return err_set(err, ERR_PROTOCOL, "init: malformed arguments");
	auto_close int fd = (int)sock;
	(void)!caps_not_dumpable(); /* walls_put_up says if it fails */
	if (settle(&init->walls, err) < 0)
		return -1;
	if (!str_eq(argv[2], INIT_SPAWNER)) {
		init->spawner = (pid_t)spawner;
		return take_listener(init, fd, err);
	}
	if (walls_hand_listener(&init->walls, fd) < 0)
		_exit(1);
	fd_closep(&fd);
	become_spawner(&init->walls, waits);
}

/* --- requests of the keeper --- */

/* The processes of the sandbox, by pid. Each is decided once, from its parent's decision: a fork
 * bomb may be as large as the limit, and as deep. */
struct process {
	pid_t pid, parent;
	enum { UNDECIDED, STAYS, GOES } fate;
};

struct tree {
	struct process *list;
	size_t count;
};

static void tree_done(struct tree *tree)
{
	free(tree->list);
}

static int by_pid(const void *a, const void *b)
{
	pid_t one = ((const struct process *)a)->pid, other = ((const struct process *)b)->pid;
	return (one > other) - (one < other);
}

static int tree_read(struct tree *tree)
{
	auto_free pid_t *pids = NULL;
	*tree = (struct tree){0};
	int r = proc_list(&pids, &tree->count);
	if (r < 0)
		return r;
	tree->list = mem_zalloc((tree->count + 1) * sizeof(*tree->list));
	for (size_t i = 0; i < tree->count; i++) {
		struct process *process = &tree->list[i];
		process->pid = pids[i];
		if (proc_parent(pids[i], &process->parent) < 0)
			process->parent = -1;
	}
	qsort(tree->list, tree->count, sizeof(*tree->list), by_pid);
	return 0;
}

static struct process *tree_find(const struct tree *tree, pid_t pid)
{
	struct process wanted = {.pid = pid};
	return bsearch(&wanted, tree->list, tree->count, sizeof(*tree->list), by_pid);
}

/* Up to the first that is decided, then the same for all on the way. */
static void decide(const struct tree *tree, struct process *first)
{
	struct process *at = first;
	/* A number used twice while we read could make a circle: no way is longer than all of them.
	 */
	for (size_t steps = 0; at && at->fate == UNDECIDED && steps < tree->count; steps++)
		at = tree_find(tree, at->parent);
	int fate = at && at->fate == GOES ? GOES : STAYS;
	for (at = first; at && at->fate == UNDECIDED; at = tree_find(tree, at->parent))
		at->fate = fate;
}

static int tree_kill(const struct tree *tree)
{
	int killed = 0;
	for (size_t i = 0; i < tree->count; i++)
		decide(tree, &tree->list[i]);
	for (size_t i = 0; i < tree->count; i++) {
		if (tree->list[i].fate == GOES && kill(tree->list[i].pid, SIGKILL) == 0)
			killed++;
	}
	return killed;
}

/* Everything below a shim; the shim too when it does not do its work any more. */
static void mark_exec(const struct init *init, const struct wire_msg *msg, const struct tree *tree)
{
	pid_t shim = (pid_t)wire_u64(msg, FIELD_PID, 0);
	bool is_shim_too = wire_u64(msg, FIELD_KEEP, 1) == 0;
	for (size_t i = 0; shim > 1 && i < tree->count; i++) {
		if (tree->list[i].parent == shim)
			tree->list[i].fate = GOES;
		else if (tree->list[i].pid == shim)
			tree->list[i].fate = is_shim_too ? GOES : STAYS;
	}
}

/* What came to us because its shim was killed: all our children but the spawner and the shims of a
 * spawner that is gone, which the keeper names. */
static void mark_strays(const struct init *init, const struct wire_msg *msg,
                        const struct tree *tree)
{
	for (size_t i = 0; i < tree->count; i++) {
		if (tree->list[i].parent == getpid())
			tree->list[i].fate = tree->list[i].pid == init->spawner ? STAYS : GOES;
	}
	size_t at = 0;
	const char *text;
	uint64_t pid;
	while ((text = wire_next_str(msg, FIELD_ENTRY, &at)) != NULL) {
		struct process *shim =
			str_to_u64(text, &pid) == 0 ? tree_find(tree, (pid_t)pid) : NULL;
		if (shim)
			shim->fate = STAYS;
	}
}

/* The keeper has frozen the work group where it can, so one round is enough; without a freezer a
 * fork bomb is chased, but not for ever. */
static void kill_marked(const struct init *init, const struct wire_msg *msg, struct wire_out *out,
                        void (*mark)(const struct init *, const struct wire_msg *,
                                     const struct tree *))
{
	int total = 0;
	for (int round = 0; round < KILL_ROUNDS; round++) {
		struct tree tree;
		if (tree_read(&tree) < 0)
			break;
		mark(init, msg, &tree);
		int killed = tree_kill(&tree);
		tree_done(&tree);
		total = MAX(total, killed);
		if (killed == 0 || wire_u64(msg, FIELD_MORE, 0) == 0)
			break;
	}
	wire_put_u64(out, FIELD_BYTES_COUNT, (uint64_t)total);
}

static void on_kill_tree(struct init *init, const struct wire_msg *msg, struct wire_out *out)
{
	kill_marked(init, msg, out, mark_exec);
}

static void on_kill_strays(struct init *init, const struct wire_msg *msg, struct wire_out *out)
{
	kill_marked(init, msg, out, mark_strays);
}

static void on_signal_group(struct init *init, const struct wire_msg *msg, struct wire_out *out)
{
	pid_t pid = (pid_t)wire_u64(msg, FIELD_PID, 0);
	int number = (int)wire_u64(msg, FIELD_SIGNAL, 0);
	if (pid <= 1)
		return;
	if (kill(-pid, number) < 0 && kill(pid, number) < 0) {
		struct err err = {0};
		(void)err_sys(&err, errno, "signal the command");
		wire_put_err(out, &err);
	}
}

/* Everything but init, the spawner and the shims, which share init's id. */
static void on_signal_all(struct init *init, const struct wire_msg *msg, struct wire_out *out)
{
	struct tree tree;
	int number = (int)wire_u64(msg, FIELD_SIGNAL, SIGTERM);
	uint64_t count = 0;
	if (tree_read(&tree) < 0)
		return;
	for (size_t i = 0; i < tree.count; i++) {
		const struct process *process = &tree.list[i];
		bool is_ours = process->pid == 1 || process->pid == init->spawner ||
		               process->parent == init->spawner;
		if (!is_ours && kill(process->pid, number) == 0)
			count++;
	}
	tree_done(&tree);
	wire_put_u64(out, FIELD_BYTES_COUNT, count);
}

static void on_spawn_on(struct init *init, const struct wire_msg *msg, struct wire_out *out)
{
	if (init->gate >= 0)
		(void)!write(init->gate, "", 1); /* it died meanwhile: its successor asks again */
	fd_closep(&init->gate);
}

/* Its end brings about the next one. */
static void on_spawn_dead(struct init *init, const struct wire_msg *msg, struct wire_out *out)
{
	if (init->spawner > 0)
		(void)kill(init->spawner, SIGKILL);
}

static void on_who(struct init *init, const struct wire_msg *msg, struct wire_out *out)
{
	char name[WHO_NAME];
	pid_t pid;
	if (!who_has(str_eq(wire_str(msg, FIELD_PROTO, ""), "tcp"),
	             (uint16_t)wire_u64(msg, FIELD_PORT, 0),
	             (uint16_t)wire_u64(msg, FIELD_NUMBER, 0), &pid, name))
		return;
	wire_put_str(out, FIELD_PROGRAM, name);
	wire_put_u64(out, FIELD_PID, (uint64_t)pid);
}

static void on_probe(struct init *init, const struct wire_msg *msg, struct wire_out *out)
{
	struct err err = {0};
	if (probe_run(wire_str(msg, FIELD_ADDRESS, ""), (uint16_t)wire_u64(msg, FIELD_PORT, 0),
	              wire_str(msg, FIELD_HOST, ""), wire_str(msg, FIELD_ENTRY, ""), &err) < 0)
		wire_put_err(out, &err);
}

static void on_port(struct init *init, const struct wire_msg *msg, struct wire_out *out)
{
	struct err err = {0};
	if (port_connect((uint16_t)wire_u64(msg, FIELD_PORT, 0), &init->handed, &err) < 0)
		wire_put_err(out, &err);
	else
		wire_put_fd(out, init->handed);
}

static void on_slot(struct init *init, const struct wire_msg *msg, struct wire_out *out)
{
	struct err err = {0};
	if (give_root(init, wire_u64(msg, FIELD_PARKED, 0) != 0, &err) < 0)
		wire_put_err(out, &err);
}

static void on_refuse(struct init *init, const struct wire_msg *msg, struct wire_out *out)
{
	refusals_answer(&init->refusals, msg);
}

static const struct {
	enum wire_type type;
	void (*run)(struct init *init, const struct wire_msg *msg, struct wire_out *out);
} requests[] = {
	{WIRE_I_KILL_TREE, on_kill_tree},
	{WIRE_I_KILL_STRAYS, on_kill_strays},
	{WIRE_I_SIGNAL, on_signal_group},
	{WIRE_I_SIGNAL_ALL, on_signal_all},
	{WIRE_I_SPAWN_ON, on_spawn_on},
	{WIRE_I_SPAWN_DEAD, on_spawn_dead},
	{WIRE_I_WHO, on_who},
	{WIRE_I_PROBE, on_probe},
	{WIRE_I_PORT, on_port},
	{WIRE_I_REFUSE, on_refuse},
	{WIRE_I_SLOT, on_slot},
};

static void answer(struct init *init, const struct wire_msg *msg)
{
	auto_wire_out struct wire_out out;
	wire_begin(&out, WIRE_OK, msg->request);
	for (size_t i = 0; i < ARRAY_LEN(requests); i++) {
		if (requests[i].type == msg->type)
			requests[i].run(init, msg, &out);
	}
	if (msg->request != 0)
		(void)!wire_send(INIT_CONTROL_FD,
		                 &out); /* a keeper that is gone shows as end of file */
	fd_closep(&init->handed);
}

static void on_control(struct loop_source *source, uint32_t events, void *ctx)
{
	struct init *init = ctx;
	struct wire_msg msg;
	int r = wire_recv(source->fd, init->bytes, LIMIT_WIRE_BYTES, &msg);
	if (r <= 0) {
		loop_stop(init->loop, 0);
		return;
	}
	answer(init, &msg);
	wire_msg_done(&msg);
}

/* False: without a spawner nothing can be started any more. */
static bool collect(struct init *init)
{
	bool has_spawner = true;
	pid_t pid;
	while ((pid = waitpid(-1, NULL, WNOHANG)) > 0) {
		/* Not before there is a root: see wait_for_birth. */
		if (pid == init->spawner)
			has_spawner = init->birth < 0 && replace_spawner(init);
	}
	return has_spawner;
}

static void on_signal(int number, void *ctx)
{
	struct init *init = ctx;
	if (number == SIGCHLD && !collect(init))
		loop_stop(init->loop, 1); /* so that the keeper says so */
}

static int run_loop(struct init *init)
{
	static const int signals[] = {SIGCHLD, SIGTERM, SIGINT, SIGHUP, 0};
	int r = loop_new(&init->loop);
	if (r >= 0)
		r = loop_signals(init->loop, signals, on_signal, init);
	if (r >= 0)
		r = loop_add(init->loop, &init->control, INIT_CONTROL_FD, EPOLLIN, on_control,
		             init);
	const int listeners[] = {init->walls.listener, init->spawner_listener};
	if (r >= 0)
		r = refusals_start(&init->refusals, init->loop, listeners);
	if (r < 0 || !collect(init)) /* of who ended before nobody is told */
		return 1;
	auto_wire_out struct wire_out ready;
	wire_begin(&ready, WIRE_I_READY, 0);
	char text[32];
	(void)snprintf(text, sizeof(text), "seccomp=%zu", seccomp_length(SECCOMP_WORKLOAD));
	wire_put_str(&ready, FIELD_MECHANISM, text);
	if (init->walls.listener < 0 || init->spawner_listener < 0)
		wire_put_str(&ready, FIELD_MECHANISM, "refusals=untold");
	if (wire_send(INIT_CONTROL_FD, &ready) < 0)
		return 1;
	mem_settle();
	return loop_run(init->loop) == 0 ? 0 : 1;
}

/* Dispositions are inherited all the way from whoever started the broker, also of the two signals
 * libc keeps for itself and hides: commands shall start with none ignored. */
static void reset_signals(void)
{
	static const uint64_t by_default[4]; /* struct kernel_sigaction: handler SIG_DFL */
	for (int number = 1; number <= SIGNALS; number++)
		(void)syscall(SYS_rt_sigaction, number, by_default, NULL, sizeof(uint64_t));
}

int init_main(int argc, char **argv, init_drop drop)
{
	struct err err = {0};
	struct init init = {.gate = -1,
	                    .birth = -1,
	                    .handed = -1,
	                    .spawner_listener = -1,
	                    .walls = {.listener = -1},
	                    .bytes = mem_zalloc(LIMIT_WIRE_BYTES)};
	(void)prctl(PR_SET_NAME, "cloche-init", 0, 0, 0); /* only what ps shows */
	bool is_again = argc > 4;
	if (getpid() != 1 && !is_again)
		return 125;
	reset_signals();
	if ((is_again ? be_born_again(&init, argv, argc > 5, &err) : be_born(&init, drop, &err)) <
	    0) {
		auto_wire_out struct wire_out out;
		wire_begin(&out, WIRE_ERROR, 0);
		wire_put_err(&out, &err);
		(void)!wire_send(INIT_CONTROL_FD, &out); /* the exit status says it too */
		return 1;
	}
	/* Nothing is freed: the end of pid 1 is the end of everything it has. */
	return run_loop(&init);
}

/*
 * Who: a task child or `cloche stop`, root (or root of its user namespace). Capabilities: KILL,
 * CHOWN, DAC_OVERRIDE, SYS_ADMIN (to start a worker). Bytes: files root wrote, answers of keepers
 * and workers through wire_parse. Gone at the end: the keeper, the cgroup, the socket, and without
 * keep_files everything below sandboxes/<id>.
 *
 * Order: processes before files, files before `meta`, `meta` before the directory. Whatever is left
 * after a crash still says what it belongs to.
 */
#include "broker/reap.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/str.h"
#include "broker/box.h"
#include "broker/worker.h"
#include "os/cgroup.h"
#include "os/path.h"
#include "os/proc.h"
#include "os/syscalls.h"

enum {
	REAP_KILL_MS = 5000,
	REAP_INIT_MS = 1000,
	REAP_PATIENCE_MS = 250, /* freezing what dies anyway interrupts every processor */
	REAP_REMOVE_TRIES = 2000,
	REAP_REMOVE_PAUSE_MS = 1,
	REAP_STOP_EXTRA_MS = 2000, /* for a keeper to write its record after the grace */
	REAP_ALL_MS = 3 * 60 * 1000,
};

static bool wait_pidfd(int pidfd, int timeout_ms)
{
	struct pollfd p = {.fd = pidfd, .events = POLLIN};
	int r;
	do {
		r = poll(&p, 1, timeout_ms);
	} while (r < 0 && errno == EINTR);
	return r > 0;
}

/* The keeper or init, as a pidfd that is surely it; -ESRCH when it is gone. */
static int open_process(int box_fd, const char *name)
{
	struct box_process process;
	char boot[37];
	if (box_read_process(box_fd, name, &process) < 0 || proc_boot_id(boot) < 0 ||
	    !str_eq(boot, process.boot))
		return -ESRCH;
	auto_close int pidfd = proc_pidfd_open(process.pid);
	if (pidfd < 0)
		return -ESRCH;
	/* Looked at after the pidfd exists: the number cannot have been reused in between. */
	if (!proc_is_alive(process.pid, process.start_time))
		return -ESRCH;
	return take_fd(&pidfd);
}

/* Init ends with its keeper, and only after everything inside: where it is known, waiting for it is
 * cheaper than to look again and again whether the groups are empty. */
static int kill_keeper(int box_fd)
{
	auto_close int pidfd = open_process(box_fd, "keeper");
	auto_close int init = open_process(box_fd, "init");
	if (pidfd >= 0 && sys_pidfd_send_signal(pidfd, SIGKILL) < 0 && errno != ESRCH)
		return -errno;
	if (pidfd >= 0 && !wait_pidfd(pidfd, REAP_KILL_MS))
		return -ETIMEDOUT;
	if (init >= 0)
		(void)wait_pidfd(init, REAP_INIT_MS); /* else it is looked for in its group */
	return 0;
}

/* The processes are gone; what they had on the disk image and said is charged to the group. */
static int remove_charged(int box_fd)
{
	if (box_fd < 0)
		return 0;
	if (unlinkat(box_fd, "disk.img", 0) < 0 && errno != ENOENT)
		return -errno;
	auto_close int out = path_open_plain(box_fd, "out", O_RDONLY | O_DIRECTORY, 0);
	return out < 0 ? 0 : path_remove_below(out);
}

static int remove_cgroup(const struct site *site, const char *id, int box_fd, bool keep_files)
{
	if (site->cgroups.version == 0)
		return 0;
	int r = -EBUSY;
	bool is_patient = true;
	uint64_t until_ms = io_boot_ms() + REAP_PATIENCE_MS;
	/* With its keeper a sandbox dies by itself, which takes a moment; only one that does not,
	 * because it is frozen, is looked at process by process. */
	for (int i = 0; r == -EBUSY && i < REAP_REMOVE_TRIES; i++) {
		int killed = 0;
		if (is_patient && io_boot_ms() >= until_ms) {
			is_patient = false;
			killed = cgroup_kill(&site->cgroups, id, REAP_KILL_MS);
		}
		r = killed < 0 ? killed : cgroup_vacate(&site->cgroups, id);
		if (r == 0 && !keep_files)
			r = remove_charged(box_fd);
		if (r == 0)
			r = cgroup_remove_memory(&site->cgroups, id);
		if (r == -EBUSY)
			(void)poll(NULL, 0, REAP_REMOVE_PAUSE_MS); /* not a loop: waiting is fine */
	}
	return r;
}

/* box_fd < 0: somebody deleted its directory. */
static int reap_processes(const struct site *site, const char *id, int box_fd, bool keep_files,
                          struct err *err)
{
	int r = box_fd < 0 ? 0 : kill_keeper(box_fd);
	if (r < 0)
		return err_sys(err, -r, "end the keeper of %s", id);
	r = remove_cgroup(site, id, box_fd, keep_files);
	if (r < 0)
		return err_sys(err, -r, "end what runs in the cgroup of %s", id);
	auto_free char *sock = mem_printf("%s.sock", id);
	if (unlinkat(site->state.run_fd, sock, 0) < 0 && errno != ENOENT)
		return err_sys(err, errno, "remove run/%s", sock);
	return 0;
}

/* What the disk holds has names and owners a sandbox chose: only a worker walks it. */
static int remove_disk(const struct site *site, int box_fd, struct err *err)
{
	if (unlinkat(box_fd, "disk", AT_REMOVEDIR) == 0)
		return 0;
	auto_close int disk = path_open_plain(box_fd, "disk", O_RDONLY | O_DIRECTORY, 0);
	if (disk == -ENOENT)
		return 0;
	if (disk < 0)
		return err_sys(err, -disk, "open the disk");
	/* The directory itself is ours, and the worker must be able to enter it. */
	uint32_t owner = site_stored_id(site, 0);
	if (fchown(disk, owner, owner) < 0)
		return err_sys(err, errno, "hand over the disk");
	if (worker_remove(site, disk, err) < 0)
		return -1;
	return unlinkat(box_fd, "disk", AT_REMOVEDIR) < 0 ? err_sys(err, errno, "remove the disk")
	                                                  : 0;
}

static int remove_box(const struct site *site, const char *id, int box_fd, struct err *err)
{
	if (remove_disk(site, box_fd, err) < 0)
		return err_wrap(err, "remove the files of %s", id);
	/* `meta` is among what goes here, and that is why the disk went before. */
	int r = path_remove_below(box_fd);
	if (r < 0)
		return err_sys(err, -r, "remove the files of %s", id);
	if (unlinkat(site->state.sandboxes_fd, id, AT_REMOVEDIR) < 0 && errno != ENOENT)
		return err_sys(err, errno, "remove the directory of %s", id);
	return 0;
}

/* Nobody mounts it any more. What ran on it may have been made to be removed, and synced nothing.
 */
static int sync_image(int box_fd)
{
	auto_close int image = path_open_plain(box_fd, "disk.img", O_RDONLY, 0);
	if (image < 0)
		return image == -ENOENT ? 0 : image;
	return fsync(image) < 0 ? -errno : 0;
}

static int keep_box(const char *id, int box_fd, struct err *err)
{
	struct box_meta meta;
	int r = sync_image(box_fd);
	if (r < 0)
		return err_sys(err, -r, "sync the disk of %s", id);
	r = box_read_meta(box_fd, &meta);
	if (r == 0) {
		meta.slot = -1;
		r = box_write_meta(box_fd, &meta);
	}
	if (r < 0 && r != -ENOENT && r != -EINVAL)
		return err_sys(err, -r, "write meta of %s", id);
	if (unlinkat(box_fd, "keeper", 0) < 0 && errno != ENOENT)
		return err_sys(err, errno, "forget the keeper of %s", id);
	return 0;
}

int reap_run(const struct site *site, const char *id, bool keep_files, struct err *err)
{
	auto_close int box = box_open(site->state.sandboxes_fd, id);
	if (box < 0 && box != -ENOENT)
		return err_sys(err, -box, "open the directory of %s", id);
	if (reap_processes(site, id, box, keep_files, err) < 0)
		return -1;
	if (box < 0)
		return 0;
	return keep_files ? keep_box(id, box, err) : remove_box(site, id, box, err);
}

/* --- ending all of them --- */

struct stopping {
	char id[LIMIT_ID_LEN + 1];
	int pidfd; /* -1: not alive */
};

struct stop_list {
	const struct site *site;
	struct stopping *items;
	size_t count;
};

static int collect(const char *id, void *ctx)
{
	struct stop_list *list = ctx;
	auto_close int box = box_open(list->site->state.sandboxes_fd, id);
	if (box < 0)
		return 0;
	list->items = mem_resize(list->items, list->count + 1, sizeof(*list->items));
	struct stopping *item = &list->items[list->count];
	if (!str_copy(item->id, sizeof(item->id), id))
		return 0;
	item->pidfd = open_process(box, "keeper");
	list->count++;
	return 0;
}

/* A keeper that cannot be asked is killed a little later: nothing to report here. */
static void ask_to_stop(const struct site *site, const char *id, uint64_t grace_ms)
{
	auto_free char *name = mem_printf("%s.sock", id);
	auto_close int sock = wire_connect(site->state.run_fd, name);
	if (sock < 0)
		return;
	auto_wire_out struct wire_out out;
	wire_begin(&out, WIRE_K_STOP, 1);
	wire_put_u64(&out, FIELD_GRACE_MS, grace_ms);
	(void)!wire_send(sock, &out);
}

static void wait_until(const struct stop_list *list, uint64_t deadline_ms)
{
	for (size_t i = 0; i < list->count; i++) {
		uint64_t now = io_boot_ms();
		if (list->items[i].pidfd >= 0)
			(void)wait_pidfd(list->items[i].pidfd,
			                 now < deadline_ms ? (int)(deadline_ms - now) : 0);
	}
}

/* All at once, so that they die side by side and not one after the other. */
static void kill_rest(const struct stop_list *list)
{
	for (size_t i = 0; i < list->count; i++) {
		/* ESRCH: it ended by itself. Whoever cannot be killed is reported by the reap. */
		if (list->items[i].pidfd >= 0)
			(void)sys_pidfd_send_signal(list->items[i].pidfd, SIGKILL);
	}
}

uint64_t reap_stop_all_ms(uint64_t grace_ms)
{
	return grace_ms + REAP_STOP_EXTRA_MS + REAP_ALL_MS;
}

int reap_stop_all(const struct site *site, uint64_t grace_ms, size_t *ret_count, struct err *err)
{
	struct stop_list list = {.site = site};
	int r = box_each(site->state.sandboxes_fd, collect, &list);
	if (r < 0)
		return err_sys(err, -r, "list the sandboxes");
	*ret_count = 0;
	uint64_t deadline_ms = io_boot_ms() + reap_stop_all_ms(grace_ms);
	for (size_t i = 0; i < list.count; i++) {
		if (list.items[i].pidfd < 0)
			continue;
		ask_to_stop(site, list.items[i].id, grace_ms);
		++*ret_count;
	}
	wait_until(&list, io_boot_ms() + grace_ms + REAP_STOP_EXTRA_MS);
	kill_rest(&list);
	for (size_t i = 0; i < list.count; i++) {
		struct err one = {0};
		int ended = io_boot_ms() < deadline_ms
		                    ? reap_run(site, list.items[i].id, true, &one)
		                    : err_set(&one, ERR_TIMEOUT, "not everything ended in time");
		if (ended < 0 && r == 0) {
			r = -1;
			*err = one;
		}
		if (list.items[i].pidfd >= 0)
			close(list.items[i].pidfd);
	}
	mem_freep(&list.items);
	return r;
}

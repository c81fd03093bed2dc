/*
 * `watch`: inotify turned into change records. With --recursive each folder below has a watch of
 * its own; a table sorted by watch descriptor (the kernel hands them out in rising order) maps it
 * to the folder's path. A folder that appears is watched first and listed afterwards, and what is
 * found in it is told as created: an entry may be told twice, but is never missed. When the table
 * is full, or the kernel lost events, an overflow record says so.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/must.h"
#include "base/str.h"
#include "init/inside_verbs.h"

enum {
	WATCHES_MAX = 8192,
	EVENT_BYTES = 64 * 1024,
	OUT_BYTES = 1024 * 1024,
	FLUSH_BYTES = 64 * 1024,
	EVENTS = IN_CREATE | IN_CLOSE_WRITE | IN_MODIFY | IN_ATTRIB | IN_DELETE | IN_MOVED_FROM |
	         IN_MOVED_TO | IN_DELETE_SELF | IN_MOVE_SELF,
};

struct watch {
	int wd;
	char *path; /* relative to the root of the watch; "" is the root */
};

struct watcher {
	int fd;
	const char *root;
	bool recursive;
	bool ended;
	struct watch *watches;
	size_t count, size;
	struct buf out;
	struct err *err; /* of the first failed write */
	bool failed;
};

static void watcher_done(struct watcher *watcher)
{
	for (size_t i = 0; i < watcher->count; i++)
		free(watcher->watches[i].path);
	free(watcher->watches);
	buf_done(&watcher->out);
	fd_closep(&watcher->fd);
}

static void tell(struct watcher *watcher, enum record_change_kind kind, bool is_dir,
                 const char *name)
{
	const struct record_change record = {.kind = kind, .is_dir = is_dir, .name = name};

	if (watcher->failed)
		return;
	if (buf_len(&watcher->out) > FLUSH_BYTES && inside_flush(&watcher->out, watcher->err) < 0)
		watcher->failed = true;
	/* One record is at most three bytes per byte of a path: it fits after the flush. */
	else
		must(record_put_change(&watcher->out, &record) == 0);
}

static char *join(const char *folder, const char *name)
{
	if (*folder == '\0')
		return mem_strdup(name);
	return *name == '\0' ? mem_strdup(folder) : mem_printf("%s/%s", folder, name);
}

static size_t find_slot(const struct watcher *watcher, int wd)
{
	size_t low = 0, high = watcher->count;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (watcher->watches[middle].wd < wd)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static struct watch *find(const struct watcher *watcher, int wd)
{
	size_t at = find_slot(watcher, wd);

	if (at == watcher->count || watcher->watches[at].wd != wd)
		return NULL;
	return &watcher->watches[at];
}

static void forget(struct watcher *watcher, size_t at)
{
	free(watcher->watches[at].path);
	watcher->count--;
	memmove(&watcher->watches[at], &watcher->watches[at + 1],
	        (watcher->count - at) * sizeof(watcher->watches[0]));
}

/* Takes path. */
static void remember(struct watcher *watcher, int wd, char *path)
{
	size_t at = find_slot(watcher, wd);

	if (at < watcher->count && watcher->watches[at].wd == wd) {
		free(watcher->watches[at].path);
		watcher->watches[at].path = path;
		return;
	}
	if (watcher->count == watcher->size) {
		watcher->size = watcher->size == 0 ? 16 : watcher->size * 2;
		watcher->watches =
			mem_resize(watcher->watches, watcher->size, sizeof(watcher->watches[0]));
	}
	memmove(&watcher->watches[at + 1], &watcher->watches[at],
	        (watcher->count - at) * sizeof(watcher->watches[0]));
	watcher->watches[at] = (struct watch){.wd = wd, .path = path};
	watcher->count++;
}

/* Watches one path relative to the root. -errno; -ENOSPC when there are too many. */
static int add(struct watcher *watcher, const char *path, uint32_t flags)
{
	auto_free char *full = join(watcher->root, path);

	if (watcher->count >= WATCHES_MAX)
		return -ENOSPC;
	int wd = inotify_add_watch(watcher->fd, full, EVENTS | flags);

	if (wd < 0)
		return -errno;
	remember(watcher, wd, mem_strdup(path));
	return 0;
}

/* Folders still to be listed. */
struct pending {
	char **paths;
	size_t count, size;
};

/* Takes path. */
static void push(struct pending *pending, char *path)
{
	if (pending->count == pending->size) {
		pending->size = pending->size == 0 ? 16 : pending->size * 2;
		pending->paths =
			mem_resize(pending->paths, pending->size, sizeof(pending->paths[0]));
	}
	pending->paths[pending->count++] = path;
}

static void list_folder(struct watcher *watcher, struct pending *pending, const char *path,
                        bool is_new)
{
	auto_free char *full = join(watcher->root, path);
	int follow = *path == '\0' ? 0 : O_NOFOLLOW; /* only the root was named by the caller */
	auto_close int fd = open(full, O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC | follow);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;

	if (dir == NULL)
		return; /* gone again, or not readable: nothing to tell */
	take_fd(&fd);
	while ((entry = readdir(dir)) != NULL) { /* NOLINT(concurrency-mt-unsafe): one thread */
		auto_free char *name = join(path, entry->d_name);

		if (str_eq(entry->d_name, ".") || str_eq(entry->d_name, ".."))
			continue;
		if (is_new)
			tell(watcher, RECORD_CHANGE_CREATED, entry->d_type == DT_DIR, name);
		if (entry->d_type == DT_DIR && pending->count < WATCHES_MAX)
			push(pending, take_ptr(name));
	}
	closedir(dir);
}

/* Watches the folder and every one below it; is_new: their entries are news. */
static void add_tree(struct watcher *watcher, const char *path, bool is_new)
{
	struct pending pending = {0};

	push(&pending, mem_strdup(path));
	while (pending.count > 0) {
		auto_free char *next = pending.paths[--pending.count];
		int r = *next == '\0' ? 0 : add(watcher, next, IN_ONLYDIR | IN_DONT_FOLLOW);

		if (r == -ENOSPC)
			tell(watcher, RECORD_CHANGE_OVERFLOW, true, next);
		else if (r >= 0)
			list_folder(watcher, &pending, next, is_new);
	}
	free(pending.paths);
}

/* The folder was moved away: what happens in it is no longer ours. */
static void drop_tree(struct watcher *watcher, const char *path)
{
	size_t len = strlen(path);

	for (size_t i = watcher->count; i-- > 0;) {
		const struct watch *watch = &watcher->watches[i];

		if (strncmp(watch->path, path, len) != 0 ||
		    (watch->path[len] != '\0' && watch->path[len] != '/'))
			continue;
		/* Fails only if the kernel has dropped it already. */
		(void)inotify_rm_watch(watcher->fd, watch->wd);
		forget(watcher, i);
	}
}

static const struct {
	uint32_t mask;
	enum record_change_kind kind;
} kinds[] = {
	{IN_CREATE, RECORD_CHANGE_CREATED},       {IN_MODIFY, RECORD_CHANGE_MODIFIED},
	{IN_CLOSE_WRITE, RECORD_CHANGE_MODIFIED}, {IN_ATTRIB, RECORD_CHANGE_ATTRIBUTES},
	{IN_DELETE, RECORD_CHANGE_REMOVED},       {IN_MOVED_FROM, RECORD_CHANGE_MOVED_FROM},
	{IN_MOVED_TO, RECORD_CHANGE_MOVED_TO},
};

static void follow_folder(struct watcher *watcher, uint32_t mask, const char *path)
{
	if (!watcher->recursive || (mask & IN_ISDIR) == 0)
		return;
	if (mask & IN_MOVED_FROM)
		drop_tree(watcher, path);
	else if (mask & (IN_CREATE | IN_MOVED_TO))
		add_tree(watcher, path, (mask & IN_CREATE) != 0);
}

static void on_event(struct watcher *watcher, const struct inotify_event *event)
{
	const struct watch *watch = find(watcher, event->wd);

	if (event->mask & IN_Q_OVERFLOW)
		tell(watcher, RECORD_CHANGE_OVERFLOW, true, "");
	if (watch == NULL)
		return;
	if (event->mask & IN_IGNORED) {
		forget(watcher, (size_t)(watch - watcher->watches));
		return;
	}
	if (event->mask & (IN_DELETE_SELF | IN_MOVE_SELF)) {
		watcher->ended |= *watch->path == '\0';
		return;
	}
	/* A change of a watched folder below is also told by the folder above it. */
	if (event->len == 0 && *watch->path != '\0')
		return;
	auto_free char *name = join(watch->path, event->len > 0 ? event->name : "");

	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		if (event->mask & kinds[i].mask)
			tell(watcher, kinds[i].kind, (event->mask & IN_ISDIR) != 0, name);
	follow_folder(watcher, event->mask, name);
}

static int read_events(struct watcher *watcher, struct err *err)
{
	static _Alignas(struct inotify_event) uint8_t bytes[EVENT_BYTES];
	ssize_t len = read(watcher->fd, bytes, sizeof(bytes));

	if (len < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : err_sys(err, errno, "watch");
	for (ssize_t at = 0; at < len;) {
		const struct inotify_event *event = (const struct inotify_event *)(bytes + at);

		on_event(watcher, event);
		at += (ssize_t)(sizeof(*event) + event->len);
	}
	return 0;
}

static int serve(struct watcher *watcher, struct err *err)
{
	struct pollfd fds[2] = {{.fd = watcher->fd, .events = POLLIN}, {.fd = STDOUT_FILENO}};

	while (!watcher->ended) {
		if (buf_len(&watcher->out) > 0 && inside_flush(&watcher->out, err) < 0)
			return -1;
		if (poll(fds, ARRAY_LEN(fds), -1) < 0 && errno != EINTR)
			return err_sys(err, errno, "watch");
		if (fds[1].revents & (POLLERR | POLLHUP))
			return 0; /* nobody reads any more */
		if ((fds[0].revents & POLLIN) && read_events(watcher, err) < 0)
			return -1;
		if (watcher->failed)
			return -1;
	}
	tell(watcher, RECORD_CHANGE_ENDED, true, "");
	return inside_flush(&watcher->out, err);
}

int inside_watch(const struct inside_args *args, struct err *err)
{
	auto_(watcher_done) struct watcher watcher = {
		.fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK),
		.root = args->path,
		.recursive = args->recursive,
		.err = err,
	};
	struct stat st;

	buf_init(&watcher.out, OUT_BYTES);
	if (watcher.fd < 0)
		return inside_err(err, errno, "start watching");
	int r = stat(args->path, &st) < 0 ? -errno : add(&watcher, "", 0);

	if (r == -ENOSPC)
		return err_set(err, ERR_LIMITED, "too many watches in use");
	if (r < 0)
		return inside_err(err, -r, "%s", args->path);
	if (watcher.recursive && S_ISDIR(st.st_mode))
		add_tree(&watcher, "", false);
	tell(&watcher, RECORD_CHANGE_READY, S_ISDIR(st.st_mode), "");
	return serve(&watcher, err);
}

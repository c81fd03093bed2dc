/*
 * Group commit. The writer thread takes everything that waits, applies it in one transaction and
 * commits. A refused write takes only itself back: then the group begins anew with each write in a
 * savepoint, which is dearer and seldom needed. While it waits for the disk the next group gathers:
 * an idle store commits at once, a busy one commits many writes with one fsync. No timer is
 * involved unless many write in turns (keep_pace). What nobody waits for lies in the queue until
 * somebody waits for something else, or says that it is time (store_hurry). A group is closed after
 * GROUP_MS of work so that its first write does not wait for a long queue behind it.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/must.h"
#include "base/str.h"
#include "store/audit.h"
#include "store/later.h"
#include "store/migrate.h"
#include "store/number.h"
#include "store/store_impl.h"
#include "store/write.h"

enum {
	GROUP_MS = 2,
	/* With this much company, in writers on their way and in writes of late, a group waits for
	 * those that are about to come: what a commit costs is shared by more. */
	COMPANY = 8,
	COMPANY_WRITES = 8,
	COMPANY_US = 50 * 1000,
	PACE_US = 8 * 1000, /* from one commit to the next, then */
	/* Where very many wait it is longer: nobody of them is served at once anyway, and what the
	 * commits take is taken from all. */
	PACE_EACH_US = 250,
	PACE_MOST_US = 25 * 1000,
};

static void list_init(struct write_list *list)
{
	list->first = NULL;
	list->last = &list->first;
}

static void list_add(struct write_list *list, struct store_write *write)
{
	write->next = NULL;
	*list->last = write;
	list->last = &write->next;
}

static struct store_write *list_take_first(struct write_list *list)
{
	struct store_write *write = list->first;

	must(write != NULL);
	list->first = write->next;
	if (list->first == NULL)
		list->last = &list->first;
	return write;
}

/* Moves all of from behind what is in to. */
static void list_move(struct write_list *to, struct write_list *from)
{
	if (from->first == NULL)
		return;
	*to->last = from->first;
	to->last = from->last;
	list_init(from);
}

static void fail_all(struct write_list *list, const struct err *err)
{
	for (struct store_write *write = list->first; write != NULL; write = write->next) {
		write->result.ok = false;
		write->result.err = *err;
	}
}

/* Compiled once: there are some for every write. */
static int say(struct store *store, enum sql sql, struct err *err)
{
	sqlite3_stmt *statement;

	if (db_begin(&store->writer, sql, NULL, 0, &statement, err) < 0)
		return -1;
	return db_step(&store->writer, statement, err);
}

enum group_end {
	GROUP_FAILED = -1,
	GROUP_DONE = 0,
	GROUP_REFUSED = 1, /* a write was half done when it was refused */
};

/* One write inside the group's transaction, in a savepoint when is_careful. */
static enum group_end apply_in_group(struct store *store, struct store_write *write,
                                     bool is_careful, struct err *err)
{
	struct db *db = &store->writer;

	write->result = (struct store_result){.ok = true};
	if (is_careful && say(store, SQL_ONE_BEGIN, err) < 0)
		return GROUP_FAILED;
	if (write_apply(write, db, err) == 0)
		return is_careful && say(store, SQL_ONE_DONE, err) < 0 ? GROUP_FAILED : GROUP_DONE;
	if (!write_is_refusal(err))
		return GROUP_FAILED;
	if (!is_careful)
		return GROUP_REFUSED;
	write->result = (struct store_result){.ok = false, .err = *err};
	numbers_forget(store->numbers);
	return db_exec(db, "ROLLBACK TO one; RELEASE one", err) < 0 ? GROUP_FAILED : GROUP_DONE;
}

/* Takes writes from waiting to group until they are all applied or the time is over. */
static enum group_end fill_group(struct store *store, struct write_list *waiting,
                                 struct write_list *group, bool is_careful, struct err *err)
{
	uint64_t end = io_boot_ms() + GROUP_MS;

	if (say(store, SQL_GROUP_BEGIN, err) < 0) {
		list_add(group, list_take_first(waiting));
		return GROUP_FAILED;
	}
	do {
		struct store_write *write = list_take_first(waiting);
		enum group_end r;

		list_add(group, write);
		r = apply_in_group(store, write, is_careful, err);
		if (r != GROUP_DONE)
			return r;
	} while (waiting->first != NULL && io_boot_ms() < end);
	return say(store, SQL_GROUP_COMMIT, err) < 0 ? GROUP_FAILED : GROUP_DONE;
}

static void roll_back(struct store *store)
{
	db_rollback(&store->writer);
	numbers_forget(store->numbers);
}

/* Moves writes from waiting to group, committed or failed. True when they are on disk. */
static bool run_group(struct store *store, struct write_list *waiting, struct write_list *group)
{
	struct err err = {0};
	enum group_end r = fill_group(store, waiting, group, false, &err);

	if (r == GROUP_REFUSED) {
		roll_back(store);
		list_move(group, waiting);
		list_move(waiting, group);
		r = fill_group(store, waiting, group, true, &err);
	}
	if (r == GROUP_DONE)
		return true;
	roll_back(store);
	fail_all(group, &err);
	return false;
}

/* How much the writer has to do, in its own memory. */
struct pace {
	uint64_t began_us;       /* the last group */
	uint64_t since_us;       /* writes are counted */
	unsigned writes, before; /* since then, and as long before that */
};

/* How many writes that were. */
static unsigned publish(struct store *store, struct write_list *group, bool committed, uint64_t us)
{
	uint64_t one = 1;
	unsigned count = 0;

	pthread_mutex_lock(&store->lock);
	store->stats.commits += committed;
	span_add(&store->stats.commit, us);
	for (struct store_write *write = group->first; write != NULL; write = write->next) {
		write->is_done = true;
		count++;
		store->stats.events += write->result.ok ? write->event_count : 0;
	}
	store->stats.writes += count;
	list_move(&store->done, group);
	pthread_cond_broadcast(&store->done_wake);
	pthread_mutex_unlock(&store->lock);
	/* It can only fail when the counter is about to overflow, and then it is readable. */
	(void)!write(store->event_fd, &one, sizeof(one));
	return count;
}

/* Waits for writes; false when there are none and none will come. */
static bool gather(struct store *store, struct write_list *waiting)
{
	pthread_mutex_lock(&store->lock);
	while (!store->is_wanted && waiting->first == NULL && !store->closing)
		pthread_cond_wait(&store->wake, &store->lock);
	store->is_wanted = false;
	list_move(waiting, &store->queue);
	pthread_mutex_unlock(&store->lock);
	return waiting->first != NULL;
}

/* Whether as many wrote of late as make it worth while to wait for the next. */
static bool is_busy(struct pace *pace, uint64_t now_us)
{
	if (now_us - pace->since_us >= COMPANY_US) {
		pace->before = now_us - pace->since_us < 2 * COMPANY_US ? pace->writes : 0;
		pace->writes = 0;
		pace->since_us = now_us;
	}
	return MAX(pace->before, pace->writes) >= COMPANY_WRITES;
}

/* Lets the next group grow. This is the writer's own thread: nobody else stands still. */
static void keep_pace(struct store *store, struct pace *pace)
{
	uint64_t company = atomic_load(&store->company);
	uint64_t pace_us =
		MIN(MAX((uint64_t)PACE_US, company * PACE_EACH_US), (uint64_t)PACE_MOST_US);
	uint64_t now_us = io_boot_us();
	uint64_t due_us = pace->began_us + pace_us;
	struct timespec left;

	if (!is_busy(pace, now_us) || now_us >= due_us || company < COMPANY)
		return;
	left = (struct timespec){.tv_nsec = (long)(due_us - now_us) * 1000};
	(void)nanosleep(&left, NULL); /* a signal would only make it shorter */
}

static void *run_writer(void *ctx)
{
	struct store *store = ctx;
	struct write_list waiting, group;
	struct pace pace = {0};

	list_init(&waiting);
	list_init(&group);
	while (gather(store, &waiting)) {
		bool committed;

		pace.began_us = io_boot_us();
		committed = run_group(store, &waiting, &group);
		pace.writes += publish(store, &group, committed, io_boot_us() - pace.began_us);
		if (waiting.first == NULL)
			keep_pace(store, &pace);
	}
	return NULL;
}

/* The thread must take no signal: they belong to the loop. */
static int start_writer(struct store *store, struct err *err)
{
	sigset_t all, old;
	int r;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	r = pthread_create(&store->thread, NULL, run_writer, store);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (r != 0)
		return err_sys(err, r, "start the store's writer thread");
	store->has_thread = true;
	return 0;
}

/* SQLite would create the file with the umask's mode; ours is for the daemon alone. */
static int create_file(const char *path, struct err *err)
{
	auto_close int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

	return fd >= 0 ? 0 : err_sys(err, errno, "open the store %s", path);
}

static int check_integrity(struct db *db, struct err *err)
{
	auto_free char *answer = NULL;
	sqlite3_stmt *statement = NULL;
	char shown[80];
	int r;

	if (db_prepare(db, "PRAGMA quick_check(1)", NULL, 0, &statement, err) < 0)
		return -1;
	r = db_step(db, statement, err);
	if (r > 0)
		answer = db_column_text(statement, 0);
	sqlite3_finalize(statement);
	if (r < 0)
		return -1;
	if (answer != NULL && str_eq(answer, "ok"))
		return 0;
	if (answer == NULL)
		return err_set(err, ERR_IO, "the store %s did not answer its check", db->path);
	str_escape(shown, sizeof(shown), answer, strlen(answer));
	return err_set(err, ERR_IO,
	               "the store %s is damaged (%s): put back a copy of it, or move it away to "
	               "begin with an empty one",
	               db->path, shown);
}

static int open_all(struct store *store, const char *vfs, struct err *err)
{
	if (create_file(store->path, err) < 0 ||
	    db_open(&store->writer, store->path, vfs, DB_WRITER, err) < 0 ||
	    check_integrity(&store->writer, err) < 0 || migrate(&store->writer, err) < 0 ||
	    db_open(&store->reader, store->path, vfs, DB_READER, err) < 0)
		return -1;
	store->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (store->event_fd < 0)
		return err_sys(err, errno, "eventfd");
	return start_writer(store, err);
}

int store_open(const struct store_options *options, struct store **ret, struct err *err)
{
	struct store *store = mem_new(struct store);

	store->path = mem_strdup(options->path);
	store->numbers = numbers_new();
	store->event_fd = -1;
	store->audit_last = &store->audit_first;
	if (options->audit_key != NULL)
		memcpy(store->audit_key, options->audit_key, sizeof(store->audit_key));
	store->has_sealing_key = options->sealing_key != NULL;
	if (store->has_sealing_key)
		memcpy(store->sealing_key, options->sealing_key, sizeof(store->sealing_key));
	pthread_mutex_init(&store->lock, NULL);
	pthread_cond_init(&store->wake, NULL);
	pthread_cond_init(&store->done_wake, NULL);
	list_init(&store->queue);
	list_init(&store->done);
	if (open_all(store, options->vfs, err) < 0) {
		store_close(store);
		return -1;
	}
	*ret = store;
	return 0;
}

static void stop_writer(struct store *store)
{
	pthread_mutex_lock(&store->lock);
	store->closing = true;
	pthread_cond_signal(&store->wake);
	pthread_mutex_unlock(&store->lock);
	pthread_join(store->thread, NULL);
}

void store_close(struct store *store)
{
	if (store == NULL)
		return;
	if (store->has_thread) {
		store_audit_flush(store, io_boot_ms(), 0);
		stop_writer(store);
		store_dispatch(store);
	}
	/* The reader first: whoever closes last empties the log into the database. */
	db_close(&store->reader);
	db_close(&store->writer);
	fd_closep(&store->event_fd);
	pthread_mutex_destroy(&store->lock);
	pthread_cond_destroy(&store->wake);
	pthread_cond_destroy(&store->done_wake);
	numbers_free(store->numbers);
	free(store->path);
	free(store);
}

void store_closep(struct store **store)
{
	store_close(*store);
	*store = NULL;
}

int store_event_fd(const struct store *store)
{
	return store->event_fd;
}

void store_set_company(struct store *store, size_t count)
{
	atomic_store(&store->company, (unsigned)MIN(count, (size_t)UINT_MAX));
}

void store_listen(struct store *store, store_on_event on_event, void *ctx)
{
	store->on_event = on_event;
	store->on_event_ctx = ctx;
}

void store_get_stats(struct store *store, struct store_stats *ret)
{
	pthread_mutex_lock(&store->lock);
	*ret = store->stats;
	pthread_mutex_unlock(&store->lock);
}

/* With the lock held. */
static void enqueue(struct store *store, struct store_write *write)
{
	if (store->closing) {
		err_set(&write->result.err, ERR_UNAVAILABLE, "the store is closing");
		write->is_done = true;
		list_add(&store->done, write);
	} else {
		list_add(&store->queue, write);
	}
}

/* With the lock held. */
static void want(struct store *store)
{
	store->is_wanted = store->queue.first != NULL;
	if (store->is_wanted)
		pthread_cond_signal(&store->wake);
}

static void submit(struct store_write *write, bool is_wanted)
{
	struct store *store = write->store;
	struct store_write *audit = audit_write_waiting(store);

	pthread_mutex_lock(&store->lock);
	if (audit != NULL)
		enqueue(store, audit);
	enqueue(store, write);
	if (is_wanted)
		want(store);
	pthread_mutex_unlock(&store->lock);
}

void store_write_submit(struct store_write *write, store_on_done on_done, void *ctx)
{
	write->on_done = on_done;
	write->ctx = ctx;
	submit(write, true);
}

void store_write_submit_later(struct store_write *write, store_on_done on_done, void *ctx)
{
	write->on_done = on_done;
	write->ctx = ctx;
	submit(write, false);
}

void store_hurry(struct store *store)
{
	pthread_mutex_lock(&store->lock);
	want(store);
	pthread_mutex_unlock(&store->lock);
}

int store_write_wait(struct store_write *write, struct store_result *ret, struct err *err)
{
	struct store *store = write->store;
	struct store_result result;

	store_write_submit(write, NULL, NULL);
	pthread_mutex_lock(&store->lock);
	while (!write->is_done)
		pthread_cond_wait(&store->done_wake, &store->lock);
	result = write->result;
	pthread_mutex_unlock(&store->lock);
	if (ret != NULL)
		*ret = result;
	return result.ok ? 0 : err_set(err, result.err.code, "%s", result.err.msg);
}

static void deliver(struct store *store, struct store_write *write)
{
	for (size_t i = 0; write->result.ok && i < write->event_count; i++) {
		if (store->on_event != NULL)
			store->on_event(write->events[i], store->on_event_ctx);
	}
	if (write->on_done != NULL)
		write->on_done(&write->result, write->ctx);
	store_write_free(write);
}

void store_dispatch(struct store *store)
{
	struct write_list done;
	uint64_t count;

	/* Read before the list is taken: what comes after makes the fd readable again. */
	(void)!read(store->event_fd, &count, sizeof(count));
	do {
		list_init(&done);
		pthread_mutex_lock(&store->lock);
		list_move(&done, &store->done);
		pthread_mutex_unlock(&store->lock);
		while (done.first != NULL)
			deliver(store, list_take_first(&done));
	} while (store->closing && store->done.first != NULL);
}

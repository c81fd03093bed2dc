/* What the store does when the disk, its file or its process fails. */
#include "harness/test.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "store/db.h"
#include "store/migrate.h"
#include "store/store.h"
#include "store/task.h"
#include "unit/store_vfs.h"

static struct err err;

static const char *db_path(void)
{
	static char path[4096];

	snprintf(path, sizeof(path), "%s/cloche.db", test_dir());
	return path;
}

static int try_open(const char *vfs, struct store **ret)
{
	struct store_options options = {.path = db_path(), .vfs = vfs};

	err = (struct err){0};
	return store_open(&options, ret, &err);
}

static struct store *open_store(const char *vfs)
{
	struct store *store = NULL;

	if (try_open(vfs, &store) < 0)
		test_fail(__FILE__, __LINE__, "open: %s", err.msg);
	return store;
}

/* SQL behind the store's back, to make what another version would have left. */
static void run_sql(const char *text)
{
	sqlite3 *db;

	CHECK_INT(sqlite3_open(db_path(), &db), SQLITE_OK);
	CHECK_INT(sqlite3_exec(db, text, NULL, NULL, NULL), SQLITE_OK);
	CHECK_INT(sqlite3_close(db), SQLITE_OK);
}

/* A sandbox and its event in one write; the result of the write. */
static int put_new(struct store *store)
{
	struct store_write *write = store_write_new(store);
	struct sandbox *sandbox;
	struct event event = {.kind = EVENT_SANDBOX_CREATED};
	struct spec spec;

	spec_init(&spec);
	strings_add(&spec.labels, "a=b");
	sandbox = sandbox_new(&spec, 1);
	spec_done(&spec);
	event.sandbox = sandbox->id;
	store_put_sandbox(write, sandbox);
	store_put_event(write, &event);
	sandbox_free(sandbox);
	return store_write_wait(write, NULL, &err);
}

/* Numbers without gaps, and exactly one sandbox for each "created". */
static uint64_t check_consistent(struct store *store)
{
	struct event_filter filter = {.limit = 1000};
	struct store_counts counts;
	struct event_page page;
	bool more;

	do {
		CHECK_INT(store_event_list(store, &filter, &page, &err), 0);
		for (size_t i = 0; i < page.count; i++) {
			struct sandbox *sandbox = NULL;

			CHECK_INT(page.items[i].seq, ++filter.after);
			CHECK_INT(page.items[i].sandbox_seq, 1);
			CHECK_INT(store_sandbox_get(store, page.items[i].sandbox.text, &sandbox,
			                            &err),
			          0);
			CHECK_INT(sandbox->spec.labels.count, 1);
			sandbox_free(sandbox);
		}
		more = page.more;
		event_page_done(&page);
	} while (more);
	CHECK_INT(store_count(store, &counts, &err), 0);
	CHECK_INT(counts.sandboxes[SANDBOX_CREATING], filter.after);
	return filter.after;
}

TEST(a_newer_store_is_refused_and_left_alone)
{
	struct store *store = open_store(NULL);

	store_close(store);
	run_sql("INSERT INTO schema_versions VALUES (999, '0999_future', 1, '7.3.1')");
	CHECK_INT(try_open(NULL, &store), -1);
	CHECK_INT(err.code, ERR_UNSUPPORTED);
	CHECK_HAS(err.msg,
	          "was written by cloche 7.3.1 (schema 999); this is cloche " CLOCHE_VERSION);
	CHECK_HAS(err.msg, "start the newer version");
	run_sql("DELETE FROM schema_versions WHERE version = 999");
	store_close(open_store(NULL));
}

TEST(opening_twice_migrates_once)
{
	struct store *store = open_store(NULL);

	CHECK_INT(put_new(store), 0);
	store_close(store);
	store = open_store(NULL);
	CHECK_INT(check_consistent(store), 1);
	store_close(store);
}

/* Numbers beside the row, given in any order on disk, and a row for every step. */
static const char *const of_version_20 =
	"INSERT INTO events (seq, sandbox_id, sandbox_seq, time_ms, kind, data, owner_id, team_id, "
	"visibility) VALUES "
	"(3, 'sb_1', 2, 7, 'sandbox.removed', NULL, 'pr_1', 'tm_1', 'team'), "
	"(1, NULL, 0, 5, 'daemon.started', '{\"a\":1}', NULL, NULL, NULL), "
	"(2, 'sb_1', 1, 6, 'sandbox.created', '{}', 'pr_1', 'tm_1', 'team');"
	"INSERT INTO tasks (id, title, instruction, agent, choices, labels_list, owner_id, "
	"team_id, visibility, created_ms, run_count) VALUES "
	"('tk_1', 't', 'true', 'shell', '{}', '', 'pr_1', 'tm_1', 'team', 1, 1);"
	"INSERT INTO runs (id, task_id, team_id, number, priority, state, step, rights_list, "
	"timeout_ms, idle_ms, created_ms, started_ms, ended_ms, input_tokens, output_tokens, "
	"meters_list, cost, has_log_file) VALUES "
	"('rn_1', 'tk_1', 'tm_1', 1, 0, 'running', 'provision', '', 1, 1, 1, 1, 0, 0, 0, '', 0, "
	"0);"
	"INSERT INTO run_steps VALUES "
	"('rn_1', 1, 'provision', 'failed', 'no ' || char(10) || 'c:\\new', 3, 5, 9), "
	"('rn_1', 0, 'token', 'completed', NULL, 1, 4, 5);";

static void make_old_store(void)
{
	struct db db = {0};

	test_write_file("cloche.db", "", 0);
	CHECK_INT(db_open(&db, db_path(), NULL, DB_WRITER, &err), 0);
	CHECK_INT(migrate_to(&db, 20, &err), 0);
	CHECK_INT(db_exec(&db, of_version_20, &err), 0);
	db_close(&db);
}

static void check_events(struct store *store)
{
	struct event removed = {.kind = EVENT_SANDBOX_REMOVED, .sandbox = {"sb_1"}};
	struct store_write *write = store_write_new(store);
	struct event_page page;

	store_put_event(write, &removed);
	CHECK_INT(store_write_wait(write, NULL, &err), 0);
	CHECK_INT(store_event_list(store, &(struct event_filter){.limit = 10}, &page, &err), 0);
	CHECK_INT(page.count, 4);
	for (size_t i = 0; i < page.count; i++) {
		CHECK_INT(page.items[i].seq, i + 1);
		CHECK_INT(page.items[i].sandbox_seq, i);
		CHECK_STR(page.items[i].owner.text, i == 0 ? "" : "pr_1");
		CHECK_INT(page.items[i].visibility, i == 0 ? VISIBILITY_PRIVATE : VISIBILITY_TEAM);
	}
	CHECK_STR(page.items[0].data, "{\"a\":1}");
	CHECK_INT(page.items[1].time_ms, 6);
	event_page_done(&page);
}

TEST(a_store_of_an_earlier_version_keeps_its_events_and_journals)
{
	struct progress_list steps = {0};
	struct store *store;

	make_old_store();
	store = open_store(NULL);
	check_events(store);
	CHECK_INT(store_run_steps(store, "rn_1", &steps, &err), 0);
	CHECK_INT(steps.count, 2);
	CHECK_INT(steps.items[0].step, RUN_STEP_TOKEN);
	CHECK_STR(steps.items[0].status, "completed");
	CHECK(steps.items[0].detail == NULL);
	CHECK_INT(steps.items[1].step, RUN_STEP_PROVISION);
	CHECK_STR(steps.items[1].detail, "no \nc:\\new");
	CHECK_INT(steps.items[1].attempts, 3);
	CHECK_INT(steps.items[1].started_ms, 5);
	CHECK_INT(steps.items[1].ended_ms, 9);
	progress_list_done(&steps);
	store_close(store);
}

TEST(a_file_that_is_no_database_is_named)
{
	char text[8192];
	struct store *store = NULL;

	memset(text, 'x', sizeof(text));
	test_write_file("cloche.db", text, sizeof(text));
	CHECK_INT(try_open(NULL, &store), -1);
	CHECK_INT(err.code, ERR_IO);
	CHECK_HAS(err.msg, "cloche.db is damaged (file is not a database): put back a copy of it");
}

TEST(a_damaged_page_is_found_at_start)
{
	struct store *store = open_store(NULL);
	char junk[4096];
	int fd;

	for (int i = 0; i < 50; i++)
		CHECK_INT(put_new(store), 0);
	store_close(store);
	memset(junk, 0x5a, sizeof(junk));
	fd = open(db_path(), O_RDWR | O_CLOEXEC);
	CHECK(fd >= 0);
	for (off_t page = 2; page < 12; page++)
		CHECK_INT(pwrite(fd, junk, sizeof(junk), page * 4096), sizeof(junk));
	CHECK_INT(close(fd), 0);
	CHECK_INT(try_open(NULL, &store), -1);
	CHECK_INT(err.code, ERR_IO);
	CHECK_HAS(err.msg, "is damaged (");
	CHECK_HAS(err.msg, "or move it away to begin with an empty one");
}

TEST(a_missing_folder_is_named)
{
	struct store_options options = {.path = "/nonexistent/store/cloche.db"};
	struct store *store = NULL;

	CHECK_INT(store_open(&options, &store, &err), -1);
	CHECK_INT(err.code, ERR_IO);
	CHECK_HAS(err.msg, "/nonexistent/store/cloche.db: No such file");
}

TEST(the_file_is_for_the_daemon_alone)
{
	struct store *store = open_store(NULL);
	auto_close int dir = test_dir_fd();
	static const char *const names[] = {"cloche.db", "cloche.db-wal", "cloche.db-shm"};

	CHECK_INT(put_new(store), 0);
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		struct stat stat;

		CHECK_INT(fstatat(dir, names[i], &stat, AT_SYMLINK_NOFOLLOW), 0);
		CHECK_INT(stat.st_mode & 0777, 0600);
	}
	store_close(store);
}

/* Makes the n-th change of a file fail, n = 1, 2, 3 …, until a write gets through untouched. */
static void fail_each_step(int rc, bool stays, enum err_code code)
{
	struct store *store = open_store(store_vfs_setup());
	uint64_t there = 0;
	int n;

	for (n = 1;; n++) {
		int r;

		store_vfs_fail(n, rc, stays);
		r = put_new(store);
		if (!store_vfs_has_failed()) {
			CHECK_INT(r, 0);
			break;
		}
		/* A failure after the commit (a checkpoint's) is no failure of the write. */
		if (r < 0)
			CHECK_INT(err.code, code);
		store_vfs_heal();
		there += r == 0;
		CHECK_INT(check_consistent(store), there);
		CHECK_INT(put_new(store), 0);
		there++;
		CHECK_INT(check_consistent(store), there);
	}
	CHECK(n > 3);
	store_vfs_heal();
	store_close(store);
	store = open_store(NULL);
	CHECK_INT(check_consistent(store), there + 1);
	store_close(store);
}

TEST(every_failed_write_is_clean_and_passes)
{
	fail_each_step(SQLITE_IOERR_WRITE, false, ERR_IO);
}

TEST(a_full_disk_is_named_and_passes)
{
	fail_each_step(SQLITE_FULL, true, ERR_NO_SPACE);
}

TEST_WITHIN(every_failed_step_of_opening_is_clean_and_passes, 120)
{
	const char *vfs = store_vfs_setup();
	struct store *store = NULL;
	int n;

	for (n = 1;; n++) {
		unlink(db_path());
		store_vfs_fail(n, SQLITE_IOERR_FSYNC, false);
		if (try_open(vfs, &store) == 0) {
			bool untouched = !store_vfs_has_failed();

			store_vfs_heal();
			CHECK_INT(put_new(store), 0);
			store_close(store);
			if (untouched)
				break;
			continue;
		}
		CHECK_INT(err.code, ERR_IO);
		store_vfs_heal();
		store = open_store(vfs);
		CHECK_INT(put_new(store), 0);
		CHECK_INT(check_consistent(store), 1);
		store_close(store);
	}
	CHECK(n > 5);
}

/* --- kill -9 --- */

struct writer {
	struct store *store;
	int ack_fd;
	size_t under_way;
};

static void on_done(const struct store_result *result, void *ctx)
{
	struct writer *writer = ctx;

	writer->under_way--;
	if (result->ok && write(writer->ack_fd, &result->seq, sizeof(result->seq)) < 0)
		_exit(1);
}

/* Writes as fast as it can, tells the other process of each acknowledgement, never ends. */
static void write_forever(int ack_fd)
{
	struct writer writer = {.store = open_store(NULL), .ack_fd = ack_fd};
	struct spec spec;

	spec_init(&spec);
	strings_add(&spec.labels, "a=b");
	for (;;) {
		struct pollfd poll_fd = {.fd = store_event_fd(writer.store), .events = POLLIN};

		while (writer.under_way < 8) {
			struct sandbox *sandbox = sandbox_new(&spec, 1);
			struct event event = {.kind = EVENT_SANDBOX_CREATED,
			                      .sandbox = sandbox->id};

			store_sandbox_put(writer.store, sandbox, &event, on_done, &writer);
			sandbox_free(sandbox);
			writer.under_way++;
		}
		poll(&poll_fd, 1, -1);
		store_dispatch(writer.store);
	}
}

/* Reads acknowledgements until `count` came or the writer is gone; the newest. */
static uint64_t read_acks(int fd, int count, uint64_t newest)
{
	uint64_t seq;

	for (int i = 0; i < count && read(fd, &seq, sizeof(seq)) == sizeof(seq); i++)
		newest = seq;
	return newest;
}

TEST_WITHIN(what_was_acknowledged_survives_kill_9, 60)
{
	unsigned seed = (unsigned)io_real_ns();

	printf("seed %u\n", seed);
	for (int round = 0; round < 12; round++) {
		uint64_t newest;
		struct store *store;
		int fds[2];
		pid_t pid;

		CHECK_INT(pipe2(fds, O_CLOEXEC), 0);
		(void)test_dir(); /* made by the parent, or each child would have its own */
		pid = fork();
		if (pid == 0)
			write_forever(fds[1]);
		close(fds[1]);
		newest = read_acks(fds[0], rand_r(&seed) % 200 + 1, 0);
		usleep((useconds_t)(rand_r(&seed) % 3000));
		CHECK_INT(kill(pid, SIGKILL), 0);
		CHECK_INT(waitpid(pid, NULL, 0), pid);
		newest = read_acks(fds[0], 1 << 20, newest);
		close(fds[0]);
		CHECK(newest > 0);
		store = open_store(NULL);
		CHECK(check_consistent(store) >= newest);
		store_close(store);
	}
}

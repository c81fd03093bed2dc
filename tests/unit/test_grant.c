#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/str.h"
#include "broker/grant.h"
#include "harness/test.h"

struct fixture {
	int dir;
	struct state state;
	struct grants grants;
};

static void setup(struct fixture *f)
{
	struct err err = {0};
	struct state_owner owner = {geteuid(), getegid(), true};
	*f = (struct fixture){.dir = test_dir_fd()};
	state_init(&f->state);
	CHECK_INT(mkdirat(f->dir, "home", 0755), 0);
	CHECK_INT(mkdirat(f->dir, "home/work", 0755), 0);
	test_write_file("home/file", "x", 1);
	auto_free char *path = mem_printf("%s/home/state", test_dir());
	CHECK_INT(state_open(&f->state, path, true, &err), 0);
	CHECK_INT(state_prepare(&f->state, &owner, &err), 0);
}

static void teardown(struct fixture *f)
{
	grants_done(&f->grants);
	state_done(&f->state);
	fd_closep(&f->dir);
}

/* ERR_OK: granted. */
static enum err_code try_grant(struct fixture *f, int fd, struct id *ret_id)
{
	struct err err = {0};
	CHECK(fd >= 0);
	int r = grants_add(&f->grants, &f->state, fd, false, ret_id, &err);
	CHECK_INT(r < 0, err.code != ERR_OK);
	close(fd);
	return err.code;
}

static int open_path(struct fixture *f, const char *path)
{
	return openat(f->dir, path, O_PATH | O_CLOEXEC);
}

TEST(folders_and_files_are_granted)
{
	struct fixture f;
	struct id id;
	setup(&f);
	CHECK_INT(try_grant(&f, open_path(&f, "home/work"), &id), ERR_OK);
	CHECK(id_is_valid(id.text, "gr"));
	CHECK_INT(try_grant(&f, open_path(&f, "home/file"), &id), ERR_OK);
	CHECK_INT(f.grants.count, 2);
	CHECK_INT(f.grants.items[0].owner, geteuid());
	teardown(&f);
}

TEST(the_state_directory_is_out_of_reach)
{
	struct fixture f;
	struct id id;
	setup(&f);
	CHECK_INT(try_grant(&f, open_path(&f, "home/state"), &id), ERR_FORBIDDEN);
	CHECK_INT(try_grant(&f, open_path(&f, "home/state/sandboxes"), &id), ERR_FORBIDDEN);
	CHECK_INT(try_grant(&f, open_path(&f, "home/state/store"), &id), ERR_FORBIDDEN);
	CHECK_INT(try_grant(&f, open_path(&f, "home"), &id), ERR_FORBIDDEN);
	CHECK_INT(try_grant(&f, open("/", O_PATH | O_CLOEXEC), &id), ERR_FORBIDDEN);
	test_write_file("home/state/config.toml", "", 0);
	CHECK_INT(try_grant(&f, open_path(&f, "home/state/config.toml"), &id), ERR_FORBIDDEN);
	/* Also through a link that was followed when it was opened. */
	CHECK_INT(symlinkat("state/store", f.dir, "home/link"), 0);
	CHECK_INT(try_grant(&f, open_path(&f, "home/link"), &id), ERR_FORBIDDEN);
	CHECK_INT(f.grants.count, 0);
	teardown(&f);
}

TEST(what_is_not_a_plain_file_is_refused)
{
	struct fixture f;
	struct id id;
	setup(&f);
	CHECK_INT(try_grant(&f, open("/dev/null", O_PATH | O_CLOEXEC), &id), ERR_FORBIDDEN);
	CHECK_INT(try_grant(&f, open("/proc", O_PATH | O_CLOEXEC), &id), ERR_FORBIDDEN);
	CHECK_INT(try_grant(&f, open("/proc/self", O_PATH | O_CLOEXEC), &id), ERR_FORBIDDEN);
	CHECK_INT(try_grant(&f, open("/proc/self/maps", O_PATH | O_CLOEXEC), &id), ERR_FORBIDDEN);
	CHECK_INT(try_grant(&f, open("/sys", O_PATH | O_CLOEXEC), &id), ERR_FORBIDDEN);
	CHECK_INT(mkfifoat(f.dir, "fifo", 0600), 0);
	CHECK_INT(try_grant(&f, open_path(&f, "fifo"), &id), ERR_FORBIDDEN);
	int pair[2];
	CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	close(pair[1]);
	CHECK_INT(try_grant(&f, pair[0], &id), ERR_INVALID); /* no path at all */
	teardown(&f);
}

TEST(a_path_that_leads_elsewhere_is_refused)
{
	struct fixture f;
	struct id id;
	setup(&f);
	int fd = open_path(&f, "home/work");
	CHECK_INT(unlinkat(f.dir, "home/work", AT_REMOVEDIR), 0);
	CHECK(try_grant(&f, fd, &id) != ERR_OK); /* deleted */
	CHECK_INT(mkdirat(f.dir, "a b (deleted)", 0700), 0);
	CHECK(try_grant(&f, open_path(&f, "a b (deleted)"), &id) !=
	      ERR_OK); /* cannot be told from it */
	CHECK_INT(mkdirat(f.dir, "line\nbreak", 0700), 0);
	CHECK_INT(try_grant(&f, open_path(&f, "line\nbreak"), &id), ERR_INVALID);
	teardown(&f);
}

TEST(a_grant_is_used_once)
{
	struct fixture f;
	struct id id;
	struct grant grant;
	struct err err = {0};
	setup(&f);
	CHECK_INT(try_grant(&f, open_path(&f, "home/work"), &id), ERR_OK);
	CHECK_INT(grants_use(&f.grants, &f.state, &(struct grant_use){id.text, false, -1}, &grant,
	                     &err),
	          0);
	CHECK(grant.fd >= 0);
	grant_done(&grant);
	CHECK_INT(grants_use(&f.grants, &f.state, &(struct grant_use){id.text, false, -1}, &grant,
	                     &err),
	          -1);
	CHECK_INT(err.code, ERR_NOT_FOUND);
	teardown(&f);
}

TEST(a_grant_expires)
{
	struct fixture f;
	struct id id;
	setup(&f);
	CHECK_INT(try_grant(&f, open_path(&f, "home/work"), &id), ERR_OK);
	grants_expire(&f.grants, io_boot_ms() + GRANT_LIFE_MS - 1000);
	CHECK_INT(f.grants.count, 1);
	grants_expire(&f.grants, io_boot_ms() + GRANT_LIFE_MS + 1);
	CHECK_INT(f.grants.count, 0);
	teardown(&f);
}

TEST(only_so_many_wait)
{
	struct fixture f;
	struct id id;
	setup(&f);
	for (int i = 0; i < GRANT_MAX; i++)
		CHECK_INT(try_grant(&f, open_path(&f, "home/work"), &id), ERR_OK);
	CHECK_INT(try_grant(&f, open_path(&f, "home/work"), &id), ERR_LIMITED);
	teardown(&f);
}

TEST(a_recorded_grant_is_checked_again)
{
	struct fixture f;
	struct id id;
	struct grant grant;
	struct err err = {0};
	setup(&f);
	CHECK_INT(mkdirat(f.dir, "box", 0700), 0);
	auto_close int box = openat(f.dir, "box", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK_INT(try_grant(&f, open_path(&f, "home/work"), &id), ERR_OK);
	CHECK_INT(grants_use(&f.grants, &f.state, &(struct grant_use){id.text, true, box}, &grant,
	                     &err),
	          0);
	CHECK_INT(grants_record(box, &grant, 1, &err), 0);
	grant_done(&grant);
	CHECK_INT(grants_use(&f.grants, &f.state, &(struct grant_use){id.text, true, box}, &grant,
	                     &err),
	          0);
	CHECK_HAS(grant.path, "/home/work");
	grant_done(&grant);
	/* Replaced by a link since: not followed. */
	CHECK_INT(unlinkat(f.dir, "home/work", AT_REMOVEDIR), 0);
	CHECK_INT(symlinkat("state", f.dir, "home/work"), 0);
	CHECK_INT(grants_use(&f.grants, &f.state, &(struct grant_use){id.text, true, box}, &grant,
	                     &err),
	          -1);
	CHECK_INT(grants_use(&f.grants, &f.state,
	                     &(struct grant_use){"gr_00000000000000000009", true, box}, &grant,
	                     &err),
	          -1);
	CHECK_INT(err.code, ERR_NOT_FOUND);
	teardown(&f);
}

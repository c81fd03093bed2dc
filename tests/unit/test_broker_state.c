#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "broker/box.h"
#include "broker/state.h"
#include "broker/userdb.h"
#include "harness/test.h"
#include "unit/fail_readdir.h"

static char *below(const char *name)
{
	return mem_printf("%s/%s", test_dir(), name);
}

TEST(a_missing_state_directory_is_made)
{
	struct state state;
	struct err err = {0};
	auto_free char *path = below("a/b/state");
	state_init(&state);
	CHECK_INT(state_open(&state, path, false, &err), -1);
	CHECK_INT(err.code, ERR_NOT_FOUND);
	CHECK_INT(state_open(&state, path, true, &err), 0);
	CHECK_INT(state_open_dirs(&state, &err), -1);
	CHECK_INT(err.code, ERR_NOT_FOUND);
	state_done(&state);
}

TEST(preparing_twice_changes_nothing)
{
	struct state state;
	struct err err = {0};
	struct state_owner owner = {geteuid(), getegid(), true};
	auto_free char *path = below("state");
	struct stat before, after;
	state_init(&state);
	CHECK_INT(state_open(&state, path, true, &err), 0);
	CHECK_INT(state_prepare(&state, &owner, &err), 0);
	CHECK_INT(fstatat(state.dir_fd, "sandboxes", &before, 0), 0);
	CHECK_INT(before.st_mode & 07777, 0700);
	CHECK_INT(state_prepare(&state, &owner, &err), 0);
	CHECK_INT(fstatat(state.dir_fd, "sandboxes", &after, 0), 0);
	CHECK_INT(before.st_ctim.tv_nsec, after.st_ctim.tv_nsec);
	state_done(&state);
}

TEST(the_daemon_gets_its_folders_and_no_others)
{
	if (geteuid() != 0)
		SKIP("needs root to give folders away");
	struct state state;
	struct err err = {0};
	struct state_owner owner = {4321, 4321, false};
	static const struct {
		const char *name;
		uid_t uid;
		mode_t mode;
	} wanted[] = {{".", 0, 0710},        {"keys", 4321, 0700}, {"store", 4321, 0700},
	              {"tmp", 4321, 0700},   {"run", 0, 0710},     {"layers", 0, 0700},
	              {"sandboxes", 0, 0710}};
	auto_free char *path = below("state");
	state_init(&state);
	CHECK_INT(state_open(&state, path, true, &err), 0);
	CHECK_INT(state_prepare(&state, &owner, &err), 0);
	for (size_t i = 0; i < ARRAY_LEN(wanted); i++) {
		struct stat st;
		CHECK_INT(fstatat(state.dir_fd, wanted[i].name, &st, 0), 0);
		CHECK_INT(st.st_uid, wanted[i].uid);
		CHECK_INT(st.st_mode & 07777, wanted[i].mode);
	}
	state_done(&state);
}

TEST(a_directory_others_can_write_is_refused)
{
	struct state state;
	struct err err = {0};
	auto_free char *path = below("open");
	state_init(&state);
	CHECK_INT(mkdir(path, 0700), 0);
	CHECK_INT(chmod(path, 0777), 0);
	CHECK_INT(state_open(&state, path, true, &err), -1);
	CHECK_INT(err.code, ERR_FORBIDDEN);
	CHECK_INT(chmod(path, 0755), 0);
	if (geteuid() == 0) {
		CHECK_INT(chown(path, 4321, 4321), 0);
		CHECK_INT(state_open(&state, path, true, &err), -1);
		CHECK_HAS(err.msg, "belongs to uid 4321");
	}
	CHECK_INT(state_open(&state, "/", true, &err), -1);
	state_done(&state);
}

TEST(the_second_one_learns_who_serves)
{
	struct state first, second;
	struct err err = {0};
	auto_free char *path = below("state");
	auto_free char *pid = mem_printf("(pid %d)", (int)getpid());
	state_init(&first);
	state_init(&second);
	CHECK_INT(state_open(&first, path, true, &err), 0);
	CHECK_INT(state_open(&second, path, true, &err), 0);
	CHECK_INT(state_lock(&first, &err), 0);
	CHECK_INT(state_lock(&second, &err), -1);
	CHECK_INT(err.code, ERR_CONFLICT);
	CHECK_HAS(err.msg, pid);
	state_done(&first);
	CHECK_INT(state_lock(&second, &err), 0);
	state_done(&second);
}

static const char passwd[] = "root:x:0:0:root:/root:/bin/bash\n"
			     "broken\n"
			     "cloche:x:998:997::/:/usr/sbin/nologin\n"
			     "odd:x:notanumber:1::/:\n";

/* The second is shorter, and stands in the same file: nothing is made, renamed or left over. */
TEST(meta_is_written_over_in_place)
{
	struct box_meta first = {.slot = 7,
	                         .range_base = 100000,
	                         .range_count = 65536,
	                         .keeper_uid = 4000,
	                         .created_ms = 1234567890123,
	                         .layers = {"ly_one", "ly_two"},
	                         .layer_count = 2};
	struct box_meta second = {
		.slot = -1, .range_base = 1, .layers = {"ly_3"}, .layer_count = 1};
	struct box_meta found;
	struct stat before, after;
	auto_close int dir = test_dir_fd();
	CHECK_INT(box_write_meta(dir, &first), 0);
	CHECK_INT(fstatat(dir, "meta", &before, 0), 0);
	CHECK_INT(box_write_meta(dir, &second), 0);
	CHECK_INT(fstatat(dir, "meta", &after, 0), 0);
	CHECK_INT(before.st_ino, after.st_ino);
	CHECK_INT(box_read_meta(dir, &found), 0);
	CHECK_INT(found.slot, -1);
	CHECK_INT(found.range_base, 1);
	CHECK_INT(found.layer_count, 1);
	CHECK_STR(found.layers[0], "ly_3");
	CHECK_INT(box_write_meta(dir, &first), 0);
	CHECK_INT(box_read_meta(dir, &found), 0);
	CHECK_INT(found.slot, 7);
	CHECK_INT(found.layer_count, 2);
	CHECK_STR(found.layers[1], "ly_two");
	CHECK_INT(faccessat(dir, "meta.new", F_OK, 0), -1);
}

TEST(accounts_are_found_by_name)
{
	struct userdb_account account;
	CHECK(userdb_account_in(passwd, "cloche", &account));
	CHECK_INT(account.uid, 998);
	CHECK_INT(account.gid, 997);
	CHECK(!userdb_account_in(passwd, "cloch", &account));
	CHECK(!userdb_account_in(passwd, "odd", &account));
	CHECK(!userdb_account_in("", "cloche", &account));
}

TEST(the_daemon_is_never_root)
{
	struct userdb_account account;
	struct err err = {0};
	CHECK_INT(userdb_for_daemon("root", true, &account, &err), -1);
	CHECK_HAS(err.msg, "never runs as root");
	CHECK_INT(userdb_for_daemon("no such user here", true, &account, &err), -1);
	CHECK_INT(err.code, ERR_CONFIG);
	CHECK_INT(userdb_for_daemon("no such user here", false, &account, &err), 0);
	CHECK_INT(account.uid, 0x3ffe0000);
}

TEST(subordinate_ids_are_found_by_name_or_number)
{
	uint32_t first, count;
	const char *text = "other:1:2\nme:100000:65536\n1001:300000:1000\nbad:x:y\nempty:1:0\n";
	CHECK(userdb_subids_in(text, "me", 1000, &first, &count));
	CHECK_INT(first, 100000);
	CHECK_INT(count, 65536);
	CHECK(userdb_subids_in(text, NULL, 1001, &first, &count));
	CHECK_INT(first, 300000);
	CHECK(!userdb_subids_in(text, "bad", 7, &first, &count));
	CHECK(!userdb_subids_in(text, "empty", 7, &first, &count));
	CHECK(!userdb_subids_in(text, "m", 100, &first, &count));
}

static int count_box(const char *id, void *ctx)
{
	++*(int *)ctx;
	return 0;
}

TEST(sandboxes_that_cannot_be_listed_are_not_none)
{
	auto_close int dir_fd = test_dir_fd();
	int count = 0;
	CHECK_INT(mkdirat(dir_fd, "sb_00000000000000000001", 0700), 0);
	readdir_error = EIO;
	CHECK_INT(box_each(dir_fd, count_box, &count), -EIO);
	readdir_error = 0;
	errno = EIO; /* of something before */
	CHECK_INT(box_each(dir_fd, count_box, &count), 0);
	CHECK_INT(count, 1);
}

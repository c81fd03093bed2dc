#include "init/account.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/test.h"

static const char passwd[] = "root:x:0:0:root:/root:/bin/bash\n"
			     "dev:x:1001:1002:Dev:/home/dev:/bin/zsh\n"
			     "half:x:3\n"
			     "big:x:99999999:1:x:/:/bin/sh\n"
			     "init:x:60999:1:x:/:/bin/sh\n"
			     "last:x:7:8::/home/last:/bin/sh";
static const char group[] = "root:x:0:\nteam:x:50:dev\n";

/* Runs `check` in a child whose root holds these files as /etc/passwd and /etc/group. */
static void in_root(const char *users, const char *groups, void (*check)(void))
{
	char path[256];
	int status;
	if (geteuid() != 0)
		SKIP("needs root to change the root directory");
	(void)snprintf(path, sizeof(path), "%s/etc", test_dir());
	CHECK_INT(mkdir(path, 0755), 0);
	test_write_file("etc/passwd", users, strlen(users));
	test_write_file("etc/group", groups, strlen(groups));
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		CHECK_INT(chroot(test_dir()), 0);
		check();
		_exit(0);
	}
	CHECK_INT(waitpid(child, &status, 0), child);
	CHECK_INT(status, 0);
}

static void check_names(void)
{
	struct account account;
	struct err err = {0};
	CHECK_INT(account_find("dev", &account, &err), 0);
	CHECK_INT(account.uid, 1001);
	CHECK_INT(account.gid, 1002);
	CHECK_STR(account.home, "/home/dev");
	CHECK_STR(account.shell, "/bin/zsh");
	CHECK_INT(account_find("1001", &account, &err), 0);
	CHECK_STR(account.name, "dev");
	CHECK_INT(account_find("dev:team", &account, &err), 0);
	CHECK_INT(account.gid, 50);
	CHECK_INT(account_find("last", &account, &err), 0);
	CHECK_STR(account.shell, "/bin/sh");
	/* The agent exists even where the image does not know it. */
	CHECK_INT(account_find("agent", &account, &err), 0);
	CHECK_INT(account.uid, 1000);
	CHECK_STR(account.home, "/home/agent");
	CHECK_INT(account_find("4242:17", &account, &err), 0);
	CHECK_INT(account.uid, 4242);
	CHECK_INT(account.gid, 17);
}

static void check_refusals(void)
{
	struct account account;
	struct err err = {0};
	static const char *const bad[] = {"nobody-here", "half",     "big", "-1",
	                                  "70000",       "dev:none", "",    "1000:1000:1000",
	                                  "60999",       "init"};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		err = (struct err){0};
		CHECK(account_find(bad[i], &account, &err) < 0);
		CHECK_INT(err.code, ERR_INVALID);
	}
	CHECK(account_find("nobody-here", &account, &err) < 0);
	CHECK_HAS(err.msg, "nobody-here");
}

TEST(users_by_name_and_number)
{
	in_root(passwd, group, check_names);
}

TEST(what_is_not_there_is_named)
{
	in_root(passwd, group, check_refusals);
}

static void check_empty(void)
{
	struct account account;
	struct err err = {0};
	CHECK_INT(account_find("root", &account, &err), 0);
	CHECK_INT(account_find("1000", &account, &err), 0);
	CHECK(account_find("dev", &account, &err) < 0);
}

TEST(an_image_without_accounts_still_has_root_and_agent)
{
	in_root("", "", check_empty);
}

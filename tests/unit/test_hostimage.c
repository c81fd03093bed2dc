#include "worker/hostimage.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/str.h"
#include "harness/test.h"
#include "os/path.h"
#include "unit/made.h"
#include "worker/tree.h"

/* A small machine of our own below the test's directory, and the image made from it. */
struct fixture {
	int top_fd;
	int host_fd;
	int image_fd;
	uint32_t ids;
	struct err err;
};

static int new_dir(int dir_fd, const char *name, mode_t mode)
{
	int fd = path_dir(dir_fd, name, 0700);

	CHECK(fd >= 0);
	CHECK_INT(fchmod(fd, mode), 0);
	return fd;
}

static void put(const struct fixture *fixture, const char *path, mode_t mode, const char *text)
{
	int fd = openat(fixture->host_fd, path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);

	CHECK(fd >= 0);
	CHECK_INT(io_write_all(fd, text, strlen(text)), 0);
	CHECK_INT(fchmod(fd, mode), 0);
	(void)close(fd);
}

static void set_up(struct fixture *fixture)
{
	static const char *const dirs[] = {"usr",
	                                   "usr/bin",
	                                   "usr/lib",
	                                   "etc",
	                                   "etc/ssl",
	                                   "etc/ssl/certs",
	                                   "etc/ssl/private",
	                                   "etc/alternatives",
	                                   "etc/ssl/certs/java",
	                                   "etc/python3.11",
	                                   "lib64"};

	*fixture = (struct fixture){.ids = made_root()};
	(void)umask(0);
	fixture->top_fd = test_dir_fd();
	fixture->host_fd = new_dir(fixture->top_fd, "host", 0755);
	fixture->image_fd = new_dir(fixture->top_fd, "image", 0700);
	for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
		int fd = new_dir(fixture->host_fd, dirs[i], 0755);
		(void)close(fd);
	}
	put(fixture, "usr/bin/bash", 0755, "");
	put(fixture, "usr/lib/os-release", 0644, "ID=test\n");
	put(fixture, "etc/shadow", 0600, "root:secret\n");
	put(fixture, "etc/passwd", 0644, "root:x:0:0::/root:/bin/sh\nalice:x:1234::\n");
	put(fixture, "etc/machine-id", 0444, "0123456789abcdef0123456789abcdef\n");
	put(fixture, "etc/services", 04775, "http 80/tcp\n");
	put(fixture, "etc/protocols", 0640, "not for everyone\n");
	put(fixture, "etc/timezone", 0644, "UTC\n");
	put(fixture, "etc/ssl/certs/ca.pem", 0644, "CERT\n");
	put(fixture, "etc/ssl/certs/hidden.pem", 0600, "KEY\n");
	put(fixture, "etc/ssl/certs/java/cacerts", 0644, "JKS\n");
	put(fixture, "etc/ssl/private/key.pem", 0644, "KEY\n");
	put(fixture, "etc/python3.11/sitecustomize.py", 0644, "pass\n");
	CHECK_INT(symlinkat("usr/bin", fixture->host_fd, "bin"), 0);
	CHECK_INT(symlinkat("../usr/lib/os-release", fixture->host_fd, "etc/os-release"), 0);
	CHECK_INT(symlinkat("timezone", fixture->host_fd, "etc/rpc"), 0);
	CHECK_INT(symlinkat("shadow", fixture->host_fd, "etc/mime.types"), 0);
	CHECK_INT(symlinkat("/usr/bin/vim", fixture->host_fd, "etc/alternatives/editor"), 0);
	CHECK_INT(mkfifoat(fixture->host_fd, "etc/alternatives/pipe", 0666), 0);
}

static void tear_down(struct fixture *fixture)
{
	fd_closep(&fixture->top_fd);
	fd_closep(&fixture->host_fd);
	fd_closep(&fixture->image_fd);
}

static void build(struct fixture *fixture)
{
	if (hostimage_build(fixture->image_fd, fixture->host_fd, fixture->ids, &fixture->err) < 0)
		test_fail(__FILE__, __LINE__, "%s", fixture->err.msg);
}

static struct stat stat_of(const struct fixture *fixture, const char *path)
{
	struct stat st;

	if (fstatat(fixture->image_fd, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
		test_fail(__FILE__, __LINE__, "no %s", path);
	return st;
}

static void check_text(const struct fixture *fixture, const char *path, const char *wanted)
{
	char *text = made_read(fixture->image_fd, path);

	CHECK_STR(text, wanted);
	free(text);
}

static void check_link(const struct fixture *fixture, const char *path, const char *wanted)
{
	char target[128] = "";

	CHECK(readlinkat(fixture->image_fd, path, target, sizeof(target) - 1) > 0);
	CHECK_STR(target, wanted);
}

TEST(a_home_and_a_place_to_work)
{
	struct fixture fixture;

	set_up(&fixture);
	build(&fixture);
	uid_t agent = fixture.ids > 1000 ? 1000 : 0;
	CHECK_INT(stat_of(&fixture, ".").st_mode, S_IFDIR | 0755);
	CHECK_INT(stat_of(&fixture, "home/agent").st_mode, S_IFDIR | 0755);
	CHECK_INT(stat_of(&fixture, "home/agent").st_uid, agent);
	CHECK_INT(stat_of(&fixture, "home/agent/.bashrc").st_uid, agent);
	CHECK_INT(stat_of(&fixture, "workspace").st_gid, agent);
	CHECK_INT(stat_of(&fixture, "root").st_mode, S_IFDIR | 0700);
	CHECK_INT(stat_of(&fixture, "tmp").st_mode, S_IFDIR | 01777);
	CHECK_INT(stat_of(&fixture, "var/tmp").st_mode, S_IFDIR | 01777);
	CHECK_INT(stat_of(&fixture, "etc/passwd").st_uid, 0);
	check_link(&fixture, "var/run", "/run");
	tear_down(&fixture);
}

TEST(accounts_are_ours_not_the_machines)
{
	struct fixture fixture;

	set_up(&fixture);
	build(&fixture);
	char *passwd = made_read(fixture.image_fd, "etc/passwd");
	CHECK_HAS(passwd, "root:x:0:0:root:/root:/bin/bash\n");
	CHECK_HAS(passwd, "agent:x:1000:1000:agent:/home/agent:/bin/bash\n");
	CHECK(strstr(passwd, "alice") == NULL);
	free(passwd);
	CHECK(!made_exists(fixture.image_fd, "etc/shadow"));
	CHECK(!made_exists(fixture.image_fd, "etc/gshadow"));
	CHECK(!made_exists(fixture.image_fd, "etc/sudoers"));
	CHECK(!made_exists(fixture.image_fd, "etc/ssh"));
	char *id = made_read(fixture.image_fd, "etc/machine-id");
	CHECK_INT(strlen(id), 33);
	CHECK(!str_eq(id, "0123456789abcdef0123456789abcdef\n"));
	free(id);
	tear_down(&fixture);
}

TEST(a_machine_without_bash_gets_sh)
{
	struct fixture fixture;

	set_up(&fixture);
	CHECK_INT(unlinkat(fixture.host_fd, "usr/bin/bash", 0), 0);
	build(&fixture);
	char *passwd = made_read(fixture.image_fd, "etc/passwd");
	CHECK_HAS(passwd, "agent:x:1000:1000:agent:/home/agent:/bin/sh\n");
	free(passwd);
	tear_down(&fixture);
}

TEST(only_what_anyone_may_read_is_copied)
{
	struct fixture fixture;

	set_up(&fixture);
	build(&fixture);
	check_text(&fixture, "etc/services", "http 80/tcp\n");
	CHECK_INT(stat_of(&fixture, "etc/services").st_mode, S_IFREG | 0755);
	check_text(&fixture, "etc/ssl/certs/ca.pem", "CERT\n");
	check_text(&fixture, "etc/ssl/certs/java/cacerts", "JKS\n");
	check_text(&fixture, "etc/python3.11/sitecustomize.py", "pass\n");
	CHECK(!made_exists(fixture.image_fd, "etc/protocols"));
	CHECK(!made_exists(fixture.image_fd, "etc/ssl/certs/hidden.pem"));
	CHECK(!made_exists(fixture.image_fd, "etc/ssl/private"));
	CHECK(!made_exists(fixture.image_fd, "etc/alternatives/pipe"));
	tear_down(&fixture);
}

/* Into /usr they stay links; elsewhere what they lead to is taken, by the same rules. */
TEST(links)
{
	struct fixture fixture;

	set_up(&fixture);
	build(&fixture);
	check_link(&fixture, "bin", "usr/bin");
	CHECK_INT(stat_of(&fixture, "lib64").st_mode, S_IFDIR | 0755);
	CHECK(!made_exists(fixture.image_fd, "sbin"));
	CHECK(!made_exists(fixture.image_fd, "usr/bin"));
	check_link(&fixture, "etc/os-release", "../usr/lib/os-release");
	check_link(&fixture, "etc/alternatives/editor", "/usr/bin/vim");
	check_text(&fixture, "etc/rpc", "UTC\n");
	CHECK(!made_exists(fixture.image_fd, "etc/mime.types"));
	tear_down(&fixture);
}

static void fingerprint(struct fixture *fixture, struct digest_text *ret)
{
	CHECK_INT(hostimage_fingerprint(fixture->host_fd, ret, &fixture->err), 0);
}

TEST(fingerprint_changes_with_the_sources_only)
{
	struct fixture fixture;
	struct digest_text first, again;

	set_up(&fixture);
	fingerprint(&fixture, &first);
	CHECK_INT(strlen(first.text), 64);
	put(&fixture, "etc/shadow", 0600, "root:changed\n");
	put(&fixture, "etc/new-thing", 0644, "not taken\n");
	put(&fixture, "etc/ssl/certs/new-key", 0600, "not taken\n");
	fingerprint(&fixture, &again);
	CHECK_STR(again.text, first.text);
	put(&fixture, "etc/ssl/certs/new.pem", 0644, "CERT\n");
	fingerprint(&fixture, &again);
	CHECK(!str_eq(again.text, first.text));
	first = again;
	put(&fixture, "etc/timezone", 0644, "CET-1\n");
	fingerprint(&fixture, &again);
	CHECK(!str_eq(again.text, first.text));
	tear_down(&fixture);
}

/* Building twice gives the same; the second time into another directory. */
static int count_entry(const struct tree_entry *entry, void *ctx)
{
	++*(size_t *)ctx;
	return 0;
}

TEST(building_again_gives_the_same)
{
	struct fixture fixture;
	size_t counts[2] = {0};

	set_up(&fixture);
	for (int i = 0; i < 2; i++) {
		build(&fixture);
		CHECK_INT(tree_walk(fixture.image_fd, count_entry, &counts[i]), 0);
		fd_closep(&fixture.image_fd);
		fixture.image_fd = new_dir(fixture.top_fd, "second", 0700);
	}
	CHECK_INT(counts[0], counts[1]);
	CHECK(counts[0] > 60);
	tear_down(&fixture);
}

/* The machine the test runs on, whatever it is. */
static int check_real(const struct tree_entry *entry, void *ctx)
{
	if (S_ISREG(entry->st.st_mode) || S_ISDIR(entry->st.st_mode))
		CHECK((entry->st.st_mode & (S_ISUID | S_ISGID)) == 0);
	if (S_ISREG(entry->st.st_mode))
		CHECK_INT(entry->st.st_mode & 022, 0);
	CHECK(!strstr(entry->name, "shadow"));
	CHECK(!strstr(entry->name, "sudoers"));
	CHECK(!str_has_prefix(entry->name, "ssh_host_"));
	return 0;
}

TEST(the_real_machine)
{
	struct fixture fixture = {.ids = made_root()};
	struct digest_text print;

	fixture.host_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	fixture.image_fd = test_dir_fd();
	fixture.top_fd = -1;
	fingerprint(&fixture, &print);
	build(&fixture);
	CHECK_INT(tree_walk(fixture.image_fd, check_real, NULL), 0);
	CHECK(made_exists(fixture.image_fd, "usr"));
	CHECK(made_exists(fixture.image_fd, "bin"));
	tear_down(&fixture);
}

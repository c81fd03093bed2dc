/* The file verbs as a process of their own, on hostile trees. */
#include "init/inside.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/str.h"
#include "harness/test.h"
#include "wire/record.h"

struct ran {
	int status;
	char *out;
	size_t out_len;
	char *err;
};

static void ran_done(struct ran *ran)
{
	free(ran->out);
	free(ran->err);
}

#define auto_ran auto_(ran_done)

static char *at(const char *name)
{
	return mem_printf("%s/%s", test_dir(), name);
}

static int open_at(const char *name, int flags)
{
	auto_free char *path = at(name);
	int fd = open(path, flags | O_CLOEXEC, 0600);
	CHECK(fd >= 0);
	return fd;
}

static pid_t start(char **argv, int in, int out, int err)
{
	int argc = 0;
	while (argv[argc] != NULL)
		argc++;
	pid_t pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		(void)dup2(in, 0);
		(void)dup2(out, 1);
		(void)dup2(err, 2);
		(void)close_range(3, ~0U, 0); /* as an exec would have */
		_exit(inside_main(argc, argv));
	}
	return pid;
}

static char *slurp(const char *name, size_t *ret_len)
{
	auto_free char *path = at(name);
	char *text = NULL;
	size_t len = 0;
	CHECK_INT(io_read_file(AT_FDCWD, path, 64 << 20, &text, &len), 0);
	if (ret_len != NULL)
		*ret_len = len;
	return text;
}

/* Runs a verb to its end with `input` on stdin. */
static struct ran run(const char *input, size_t len, char **argv)
{
	struct ran ran = {0};
	int status = 0;
	test_write_file(".in", input, len);
	auto_close int in = open_at(".in", O_RDONLY);
	auto_close int out = open_at(".out", O_RDWR | O_CREAT | O_TRUNC);
	auto_close int err = open_at(".err", O_RDWR | O_CREAT | O_TRUNC);
	pid_t pid = start(argv, in, out, err);
	CHECK_INT(waitpid(pid, &status, 0), pid);
	ran.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	ran.out = slurp(".out", &ran.out_len);
	ran.err = slurp(".err", NULL);
	return ran;
}

#define RUN(...)             run("", 0, (char *[]){__VA_ARGS__, NULL})
#define RUN_WITH(input, ...) run(input, strlen(input), (char *[]){__VA_ARGS__, NULL})

static void check_fails(struct ran ran, const char *code)
{
	auto_free char *start_of_line = mem_printf("%s\t", code);
	CHECK_INT(ran.status, 1);
	if (!str_has_prefix(ran.err, start_of_line))
		test_fail(__FILE__, __LINE__, "wanted %s, got %s", code, ran.err);
	CHECK(str_has_suffix(ran.err, "\n"));
	ran_done(&ran);
}

static void check_ok(struct ran ran)
{
	if (ran.status != 0)
		test_fail(__FILE__, __LINE__, "status %d: %s", ran.status, ran.err);
	CHECK_STR(ran.err, "");
	ran_done(&ran);
}

TEST(read_gives_the_bytes)
{
	auto_free char *path = at("file");
	test_write_file("file", "hello\0world", 11);
	auto_ran struct ran all = RUN("read", "--", path);
	CHECK_INT(all.status, 0);
	CHECK_INT(all.out_len, 11);
	CHECK_MEM(all.out, "hello\0world", 11);
	auto_ran struct ran part = RUN("read", "--offset", "6", "--length", "3", "--", path);
	CHECK_INT(part.out_len, 3);
	CHECK_MEM(part.out, "wor", 3);
}

TEST(read_refuses_what_is_no_file)
{
	auto_free char *fifo = at("fifo");
	CHECK_INT(mkfifo(fifo, 0600), 0);
	check_fails(RUN("read", "--", fifo), "invalid");
	check_fails(RUN("read", "--", (char *)test_dir()), "invalid");
	check_fails(RUN("read", "--", "/dev/zero"), "invalid");
	auto_free char *missing = at("missing");
	check_fails(RUN("read", "--", missing), "not_found");
	auto_free char *through = at("fifo/below");
	check_fails(RUN("read", "--", through), "invalid");
}

TEST(write_replaces_in_one_step)
{
	auto_free char *path = at("file");
	struct stat st;
	test_write_file("file", "old", 3);
	CHECK_INT(chmod(path, 0640), 0);
	int before = open(path, O_RDONLY | O_CLOEXEC);
	check_ok(RUN_WITH("new content", "write", "--", path));
	auto_free char *now = slurp("file", NULL);
	CHECK_STR(now, "new content");
	CHECK_INT(stat(path, &st), 0);
	CHECK_INT(st.st_mode & 07777, 0640);
	char old[8] = "";
	CHECK_INT(read(before, old, sizeof(old)), 3);
	CHECK_STR(old, "old");
	close(before);
}

TEST(write_makes_new_files_and_parents)
{
	auto_free char *path = at("a/b/c");
	struct stat st;
	check_fails(RUN_WITH("x", "write", "--", path), "not_found");
	check_ok(RUN_WITH("x", "write", "--parents", "--mode", "0751", "--", path));
	CHECK_INT(stat(path, &st), 0);
	CHECK_INT(st.st_mode & 07777, 0751);
	auto_free char *plain = at("plain");
	check_ok(RUN("write", "--", plain));
	CHECK_INT(stat(plain, &st), 0);
	CHECK_INT(st.st_mode & 07777, 0644);
	CHECK_INT(st.st_size, 0);
}

TEST(write_replaces_a_link_instead_of_following_it)
{
	auto_free char *link = at("link");
	struct stat st;
	test_write_file("victim", "safe", 4);
	CHECK_INT(symlink("victim", link), 0);
	check_ok(RUN_WITH("evil", "write", "--", link));
	CHECK_INT(lstat(link, &st), 0);
	CHECK(S_ISREG(st.st_mode));
	auto_free char *victim = slurp("victim", NULL);
	CHECK_STR(victim, "safe");
}

TEST(write_of_half_changes_nothing)
{
	auto_free char *path = at("file");
	test_write_file("file", "old", 3);
	check_fails(RUN_WITH("half", "write", "--size", "10", "--", path), "invalid");
	check_fails(RUN_WITH("too much", "write", "--size", "3", "--", path), "invalid");
	auto_free char *now = slurp("file", NULL);
	CHECK_STR(now, "old");
	check_ok(RUN_WITH("exact", "write", "--size", "5", "--", path));
	auto_free char *exact = slurp("file", NULL);
	CHECK_STR(exact, "exact");
}

TEST(write_that_is_killed_leaves_nothing)
{
	auto_free char *folder = at("folder");
	auto_free char *path = at("folder/file");
	int pipe_fds[2];
	CHECK_INT(mkdir(folder, 0755), 0);
	CHECK_INT(pipe2(pipe_fds, O_CLOEXEC), 0);
	char *argv[] = {"write", "--", path, NULL};
	auto_close int out = open_at(".out", O_RDWR | O_CREAT);
	pid_t pid = start(argv, pipe_fds[0], out, out);
	CHECK_INT(write(pipe_fds[1], "half", 4), 4);
	/* The pipe is empty once the child has taken the bytes. */
	for (int left = 1; left > 0; usleep(1000)) {
		struct pollfd pollfd = {.fd = pipe_fds[0], .events = POLLIN};
		left = poll(&pollfd, 1, 0);
	}
	CHECK_INT(kill(pid, SIGKILL), 0);
	CHECK_INT(waitpid(pid, NULL, 0), pid);
	close(pipe_fds[0]);
	close(pipe_fds[1]);
	CHECK_INT(rmdir(folder), 0);
}

TEST(write_refuses_folders_and_nameless_paths)
{
	auto_free char *slash = at("file/");
	check_fails(RUN_WITH("x", "write", "--", (char *)test_dir()), "invalid");
	check_fails(RUN_WITH("x", "write", "--", slash), "invalid");
	check_fails(RUN_WITH("x", "write", "--", "/"), "invalid");
	check_fails(RUN_WITH("x", "write", "--mode", "9", "--", "/x"), "invalid");
	check_fails(RUN_WITH("x", "write", "--", ""), "invalid");
}

/* Finds the record of `name` in the output of list. */
static bool find_record(const struct ran *ran, const char *name, struct record_stat *ret,
                        char **ret_line)
{
	for (char *line = ran->out; *line != '\0';) {
		size_t len = strcspn(line, "\n");
		char *copy = mem_strndup(line, len);
		CHECK_INT(line[len], '\n');
		CHECK_INT(record_parse_stat(copy, ret), 0);
		if (str_eq(ret->name, name)) {
			*ret_line = copy;
			return true;
		}
		free(copy);
		line += len + 1;
	}
	return false;
}

TEST(list_tells_hostile_names_and_kinds)
{
	static const char *const names[] = {"new\nline", "tab\there", "\xff\xfe",
	                                    "-rf",       "%41",       "..."};
	auto_free char *folder = at("folder");
	CHECK_INT(mkdir(folder, 0755), 0);
	auto_close int fd = open_at("folder", O_RDONLY | O_DIRECTORY);
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		close(openat(fd, names[i], O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	CHECK_INT(symlinkat("/no/where\n", fd, "dangling"), 0);
	CHECK_INT(mkfifoat(fd, "fifo", 0600), 0);
	CHECK_INT(mkdirat(fd, "sub", 01777), 0);
	CHECK_INT(fchmodat(fd, "sub", 01777, 0), 0);
	auto_ran struct ran ran = RUN("list", "--", folder);
	CHECK_INT(ran.status, 0);
	struct record_stat record;
	char *line = NULL;
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		CHECK(find_record(&ran, names[i], &record, &line));
		CHECK_INT(record.type, RECORD_FILE);
		free(line);
	}
	CHECK(find_record(&ran, "dangling", &record, &line));
	CHECK_INT(record.type, RECORD_SYMLINK);
	CHECK_STR(record.target, "/no/where\n");
	free(line);
	CHECK(find_record(&ran, "fifo", &record, &line));
	CHECK_INT(record.type, RECORD_FIFO);
	free(line);
	CHECK(find_record(&ran, "sub", &record, &line));
	CHECK_INT(record.type, RECORD_DIR);
	CHECK_INT(record.mode, 01777);
	free(line);
	CHECK(!find_record(&ran, ".", &record, &line));
	CHECK(!find_record(&ran, "..", &record, &line));
}

TEST(list_of_many_entries_is_whole)
{
	auto_free char *folder = at("folder");
	CHECK_INT(mkdir(folder, 0755), 0);
	auto_close int fd = open_at("folder", O_RDONLY | O_DIRECTORY);
	for (int i = 0; i < 3000; i++) {
		auto_free char *name = mem_printf("entry-with-a-rather-long-name-%d", i);
		close(openat(fd, name, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	}
	auto_ran struct ran ran = RUN("list", "--", folder);
	CHECK_INT(ran.status, 0);
	int lines = 0;
	for (const char *at_line = ran.out; *at_line != '\0'; at_line++)
		lines += *at_line == '\n';
	CHECK_INT(lines, 3000);
}

TEST(list_of_a_file_is_refused)
{
	auto_free char *file = at("file");
	test_write_file("file", "", 0);
	check_fails(RUN("list", "--", file), "invalid");
}

TEST(stat_does_not_follow_and_handles_sparse)
{
	auto_free char *path = at("huge");
	auto_free char *link = at("link");
	test_write_file("huge", "", 0);
	CHECK_INT(truncate(path, (off_t)1 << 40), 0);
	CHECK_INT(symlink("huge", link), 0);
	auto_ran struct ran file = RUN("stat", "--", path);
	struct record_stat record;
	file.out[strcspn(file.out, "\n")] = '\0';
	CHECK_INT(record_parse_stat(file.out, &record), 0);
	CHECK(record.size == UINT64_C(1) << 40);
	CHECK_STR(record.name, path);
	auto_ran struct ran itself = RUN("stat", "--", link);
	itself.out[strcspn(itself.out, "\n")] = '\0';
	CHECK_INT(record_parse_stat(itself.out, &record), 0);
	CHECK_INT(record.type, RECORD_SYMLINK);
	auto_ran struct ran part =
		RUN("read", "--offset", "1099511627775", "--length", "100", "--", path);
	CHECK_INT(part.out_len, 1);
}

TEST(mkdir_with_and_without_parents)
{
	auto_free char *deep = at("x/y/z");
	check_fails(RUN("mkdir", "--", deep), "not_found");
	check_ok(RUN("mkdir", "--parents", "--mode", "700", "--", deep));
	check_ok(RUN("mkdir", "--parents", "--", deep));
	check_fails(RUN("mkdir", "--", deep), "conflict");
	struct stat st;
	CHECK_INT(stat(deep, &st), 0);
	CHECK_INT(st.st_mode & 07777, 0700);
}

TEST(rename_moves_and_replaces)
{
	auto_free char *from = at("from");
	auto_free char *to = at("to");
	test_write_file("from", "1", 1);
	test_write_file("to", "2", 1);
	check_ok(RUN("rename", "--", from, to));
	auto_free char *now = slurp("to", NULL);
	CHECK_STR(now, "1");
	check_fails(RUN("rename", "--", from, to), "not_found");
	check_fails(RUN("rename", "--", from), "invalid");
}

TEST(remove_is_careful)
{
	auto_free char *tree = at("tree");
	auto_free char *below = at("tree/a/b");
	auto_free char *link = at("tree/a/out");
	auto_free char *slash = at("tree/");
	check_ok(RUN("mkdir", "--parents", "--", below));
	test_write_file("outside", "keep", 4);
	CHECK_INT(symlink(test_dir(), link), 0);
	check_fails(RUN("remove", "--", tree), "conflict");
	check_fails(RUN("remove", "--recursive", "--", "/"), "invalid");
	check_fails(RUN("remove", "--recursive", "--", "//"), "invalid");
	check_fails(RUN("remove", "--recursive", "--", "."), "invalid");
	check_fails(RUN("remove", "--recursive", "--", "/tmp/.."), "invalid");
	check_ok(RUN("remove", "--recursive", "--", slash));
	struct stat st;
	CHECK_INT(lstat(tree, &st), -1);
	auto_free char *kept = slurp("outside", NULL);
	CHECK_STR(kept, "keep");
	check_fails(RUN("remove", "--", tree), "not_found");
}

TEST(remove_takes_a_link_not_its_target)
{
	auto_free char *folder = at("folder");
	auto_free char *link = at("link");
	struct stat st;
	CHECK_INT(mkdir(folder, 0755), 0);
	CHECK_INT(symlink("folder", link), 0);
	check_ok(RUN("remove", "--recursive", "--", link));
	CHECK_INT(lstat(link, &st), -1);
	CHECK_INT(lstat(folder, &st), 0);
}

TEST(remove_of_a_deep_tree)
{
	auto_close int fd = test_dir_fd();
	for (int i = 0; i < 600; i++) {
		CHECK_INT(mkdirat(fd, "deep", 0755), 0);
		int next = openat(fd, "deep", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		CHECK(next >= 0);
		close(fd);
		fd = next;
	}
	auto_free char *path = at("deep");
	check_ok(RUN("remove", "--recursive", "--", path));
	struct stat st;
	CHECK_INT(lstat(path, &st), -1);
}

TEST(pack_and_unpack_a_tree)
{
	auto_free char *from = at("from");
	auto_free char *to = at("to");
	auto_free char *file = at("from/sub/file");
	auto_free char *link = at("from/link");
	check_ok(RUN_WITH("content", "write", "--parents", "--", file));
	CHECK_INT(symlink("sub/file", link), 0);
	auto_ran struct ran packed = RUN("pack", "--", from);
	CHECK_INT(packed.status, 0);
	CHECK(packed.out_len >= 1024);
	char *argv[] = {"unpack", "--parents", "--", to, NULL};
	check_ok(run(packed.out, packed.out_len, argv));
	auto_free char *copy = slurp("to/sub/file", NULL);
	CHECK_STR(copy, "content");
	char target[64] = "";
	auto_free char *copied_link = at("to/link");
	CHECK(readlink(copied_link, target, sizeof(target) - 1) > 0);
	CHECK_STR(target, "sub/file");
	check_fails(run(packed.out, packed.out_len / 2, argv), "invalid");
	check_fails(RUN_WITH("this is no archive at all", "unpack", "--", to), "invalid");
}

TEST(pack_of_one_file)
{
	auto_free char *file = at("file");
	test_write_file("file", "one", 3);
	auto_ran struct ran packed = RUN("pack", "--", file);
	CHECK_INT(packed.status, 0);
	auto_free char *to = at("to");
	char *argv[] = {"unpack", "--parents", "--", to, NULL};
	check_ok(run(packed.out, packed.out_len, argv));
	auto_free char *copy = slurp("to/file", NULL);
	CHECK_STR(copy, "one");
}

TEST(pack_never_waits_for_a_fifo)
{
	auto_free char *folder = at("folder");
	auto_free char *fifo = at("folder/fifo");
	CHECK_INT(mkdir(folder, 0755), 0);
	CHECK_INT(mkfifo(fifo, 0600), 0);
	auto_ran struct ran packed = RUN("pack", "--", folder);
	CHECK_INT(packed.status, 0);
}

TEST(unknown_verbs_and_options_are_refused)
{
	check_fails(RUN("format"), "invalid");
	check_fails(run("", 0, (char *[]){NULL}), "invalid");
	check_fails(RUN("read", "--follow", "--", "/x"), "invalid");
	check_fails(RUN("read"), "invalid");
	check_fails(RUN("read", "--", "/a", "/b"), "invalid");
}

TEST(errors_are_one_clean_line)
{
	auto_free char *path = at("no\nsuch\tfile\033[2J");
	auto_ran struct ran ran = RUN("read", "--", path);
	CHECK_INT(ran.status, 1);
	CHECK(str_has_prefix(ran.err, "not_found\t"));
	CHECK_INT(strcspn(ran.err, "\n"), strlen(ran.err) - 1);
	CHECK(strchr(ran.err, '\033') == NULL);
}

/* --- watch --- */

struct watching {
	pid_t pid;
	int fd;
	char bytes[64 * 1024];
	size_t len;
};

/* Reads until `line` has come. */
static void expect(struct watching *watching, const char *line)
{
	for (;;) {
		watching->bytes[watching->len] = '\0';
		char *found = strstr(watching->bytes, line);
		if (found != NULL) {
			size_t used = (size_t)(found - watching->bytes) + strlen(line);
			memmove(watching->bytes, watching->bytes + used, watching->len - used);
			watching->len -= used;
			return;
		}
		struct pollfd pollfd = {.fd = watching->fd, .events = POLLIN};
		if (poll(&pollfd, 1, 5000) <= 0)
			test_fail(__FILE__, __LINE__, "no '%s' in '%s'", line, watching->bytes);
		ssize_t got = read(watching->fd, watching->bytes + watching->len,
		                   sizeof(watching->bytes) - 1 - watching->len);
		if (got <= 0)
			test_fail(__FILE__, __LINE__, "ended before '%s'", line);
		watching->len += (size_t)got;
	}
}

static void watch(struct watching *watching, char **argv)
{
	int fds[2];
	CHECK_INT(pipe2(fds, O_CLOEXEC), 0);
	auto_close int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	watching->pid = start(argv, null_fd, fds[1], null_fd);
	close(fds[1]);
	watching->fd = fds[0];
	watching->len = 0;
}

static int watch_end(struct watching *watching, bool close_first)
{
	int status = 0;
	if (close_first)
		close(watching->fd);
	CHECK_INT(waitpid(watching->pid, &status, 0), watching->pid);
	if (!close_first)
		close(watching->fd);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST(watch_tells_changes)
{
	static struct watching watching;
	auto_free char *folder = at("folder");
	auto_free char *file = at("folder/a b");
	auto_free char *moved = at("folder/c");
	CHECK_INT(mkdir(folder, 0755), 0);
	char *argv[] = {"watch", "--", folder, NULL};
	watch(&watching, argv);
	expect(&watching, "ready\tdir\t\n");
	test_write_file("folder/a b", "x", 1);
	expect(&watching, "created\tother\ta%20b\n");
	expect(&watching, "modified\tother\ta%20b\n");
	CHECK_INT(rename(file, moved), 0);
	expect(&watching, "moved_from\tother\ta%20b\n");
	expect(&watching, "moved_to\tother\tc\n");
	CHECK_INT(unlink(moved), 0);
	expect(&watching, "removed\tother\tc\n");
	CHECK_INT(rmdir(folder), 0);
	expect(&watching, "ended\tdir\t\n");
	CHECK_INT(watch_end(&watching, false), 0);
}

TEST(watch_follows_new_folders)
{
	static struct watching watching;
	auto_free char *folder = at("folder");
	auto_free char *sub = at("folder/sub");
	auto_free char *away = at("away");
	CHECK_INT(mkdir(folder, 0755), 0);
	char *argv[] = {"watch", "--recursive", "--", folder, NULL};
	watch(&watching, argv);
	expect(&watching, "ready\tdir\t\n");
	CHECK_INT(mkdir(sub, 0755), 0);
	test_write_file("folder/sub/early", "x", 1);
	expect(&watching, "created\tdir\tsub\n");
	expect(&watching, "created\tother\tsub/early\n");
	CHECK_INT(rename(sub, away), 0);
	expect(&watching, "moved_from\tdir\tsub\n");
	test_write_file("away/unseen", "x", 1);
	CHECK_INT(rename(away, sub), 0);
	expect(&watching, "moved_to\tdir\tsub\n");
	test_write_file("folder/sub/late", "x", 1);
	expect(&watching, "created\tother\tsub/late\n");
	CHECK(strstr(watching.bytes, "unseen") == NULL);
	/* It ends by itself when nobody reads: it sees that, or has one more word ("modified") to
	 * say. */
	int end = watch_end(&watching, true);
	CHECK(end == 0 || end == 128 + SIGPIPE);
}

TEST(watch_of_what_is_not_there)
{
	auto_free char *path = at("missing");
	check_fails(RUN("watch", "--", path), "not_found");
}

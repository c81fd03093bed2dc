#include "worker/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <archive.h>

#include "base/mem.h"
#include "base/str.h"
#include "harness/test.h"
#include "os/landlock.h"
#include "os/path.h"
#include "unit/made.h"
#include "wire/wire.h"
#include "worker/digest.h"
#include "worker/jail.h"

enum { TIMEOUT_MS = 15000 };

/* The role in a process of its own, as the broker starts it. */
struct fixture {
	int sock;
	pid_t pid;
	int dir_fd;
	uint32_t ids;
	uint8_t *bytes;
	struct wire_msg msg;
	struct err err;
};

static void set_up(struct fixture *fixture)
{
	int pair[2];
	char *argv[] = {"worker", NULL};

	*fixture = (struct fixture){.ids = made_root()};
	if (landlock_abi() < 0)
		SKIP("this kernel has no Landlock");
	fixture->bytes = mem_zalloc(LIMIT_WIRE_BYTES);
	fixture->dir_fd = test_dir_fd();
	CHECK_INT(wire_pair(pair), 0);
	fixture->pid = fork();
	if (fixture->pid == 0) {
		int worker_end = fcntl(pair[1], F_DUPFD_CLOEXEC, 100);
		(void)close_range(3, 99, 0);
		(void)dup2(worker_end, WORKER_SOCKET_FD);
		(void)close(worker_end);
		_exit(worker_main(1, argv));
	}
	fixture->sock = pair[0];
	(void)close(pair[1]);
}

/* The role ends by itself, without a complaint, when its socket does. */
static void tear_down(struct fixture *fixture)
{
	int status;

	fd_closep(&fixture->sock);
	CHECK_INT(waitpid(fixture->pid, &status, 0), fixture->pid);
	CHECK_INT(status, 0);
	fd_closep(&fixture->dir_fd);
	free(fixture->bytes);
}

/* The answer's type, or -1 with err when it is an error. */
static int call(struct fixture *fixture, struct wire_out *out)
{
	fixture->err = (struct err){0};
	int r = wire_call(fixture->sock, out, fixture->bytes, TIMEOUT_MS, &fixture->msg,
	                  &fixture->err);
	wire_done(out);
	if (r < 0)
		return r;
	return wire_get_err(&fixture->msg, &fixture->err) < 0 ? -1 : (int)fixture->msg.type;
}

static void begin_unpack(struct fixture *fixture, struct wire_out *out, int archive_fd, int dir_fd)
{
	wire_begin(out, WIRE_W_UNPACK, 7);
	wire_put_fd(out, archive_fd);
	wire_put_fd(out, dir_fd);
	wire_put_u64(out, FIELD_RANGE_COUNT, fixture->ids);
}

static int sub_dir(const struct fixture *fixture, const char *name)
{
	int fd = path_dir(fixture->dir_fd, name, 0700);

	CHECK(fd >= 0);
	return fd;
}

static int archive_of(const struct made *entries, size_t count)
{
	struct buf bytes = {0};

	made_tar(&bytes, ARCHIVE_FILTER_ZSTD, entries, count);
	int fd = made_fd(&bytes);
	buf_done(&bytes);
	return fd;
}

TEST(says_hello)
{
	struct fixture fixture;
	struct wire_out out = {0};

	set_up(&fixture);
	wire_begin(&out, WIRE_HELLO, 1);
	CHECK_INT(call(&fixture, &out), WIRE_HELLO);
	CHECK_STR(wire_str(&fixture.msg, FIELD_ROLE, ""), "worker");
	tear_down(&fixture);
}

/* Everything the entry rules need works behind the walls, and the tree can be measured and removed
 * by requests that follow. */
TEST(unpacks_measures_and_removes_in_jail)
{
	struct fixture fixture;
	struct wire_out out = {0};
	const struct made entries[] = {
		{.name = "d/", .mode = S_IFDIR | 02755, .mtime = 10},
		{.name = "d/f",
	         .data = "hello",
	         .mode = 04755,
	         .uid = 1000,
	         .xattr = "user.a",
	         .value = "b"},
		{.name = "hard/g", .hard = "d/f"},
		{.name = "l", .mode = S_IFLNK | 0777, .link = "/etc"},
		{.name = "p", .mode = S_IFIFO | 0644},
		{.name = ".wh.w"},
		{.name = "o/.wh..wh..opq"},
		{.name = "hole", .data = "x", .size = 1 << 20, .mode = 0600},
	};
	int archive = archive_of(entries, ARRAY_LEN(entries));

	set_up(&fixture);
	int dir = sub_dir(&fixture, "image");
	begin_unpack(&fixture, &out, archive, dir);
	if (call(&fixture, &out) < 0)
		test_fail(__FILE__, __LINE__, "%s", fixture.err.msg);
	CHECK_STR(wire_str(&fixture.msg, FIELD_LAYER, ""), "l0");
	CHECK_INT(wire_count(&fixture.msg, FIELD_LAYER), 1);
	CHECK_STR(wire_str(&fixture.msg, FIELD_FORMAT, ""), "tar");
	CHECK_INT(wire_u64(&fixture.msg, FIELD_BYTES_COUNT, 0), 6);
	CHECK_HAS(wire_str(&fixture.msg, FIELD_DETAIL, ""), "set-id bits cleared: 1");
	size_t len;
	CHECK_MEM(wire_blob(&fixture.msg, FIELD_CONFIG_JSON, &len), "{}", 2);
	CHECK(made_exists(dir, "l0/hard/g"));

	wire_begin(&out, WIRE_W_USAGE, 8);
	wire_put_fd(&out, dir);
	CHECK_INT(call(&fixture, &out), WIRE_OK);
	CHECK_INT(wire_u64(&fixture.msg, FIELD_ENTRIES, 0), 9);

	wire_begin(&out, WIRE_W_REMOVE, 9);
	wire_put_fd(&out, dir);
	CHECK_INT(call(&fixture, &out), WIRE_OK);
	CHECK(!made_exists(dir, "l0"));
	(void)close(dir);
	(void)close(archive);
	tear_down(&fixture);
}

TEST(a_refused_archive_is_an_answer_and_the_next_request_works)
{
	struct fixture fixture;
	struct wire_out out = {0};
	const struct made bad[] = {{.name = "good"}, {.name = "../bad"}};
	const struct made good = {.name = "good"};
	int bad_fd = archive_of(bad, 2);
	int good_fd = archive_of(&good, 1);

	set_up(&fixture);
	int dir = sub_dir(&fixture, "image");
	begin_unpack(&fixture, &out, bad_fd, dir);
	CHECK_INT(call(&fixture, &out), -1);
	CHECK_INT(fixture.err.code, ERR_INVALID);
	CHECK_HAS(fixture.err.msg, "\"../bad\"");
	CHECK(!made_exists(dir, "l0"));
	begin_unpack(&fixture, &out, good_fd, dir);
	wire_put_str(&out, FIELD_FORMAT, "tar");
	CHECK_INT(call(&fixture, &out), WIRE_OK);
	(void)close(dir);
	(void)close(bad_fd);
	(void)close(good_fd);
	tear_down(&fixture);
}

TEST(caps_come_from_the_request)
{
	static const struct {
		enum wire_field field;
		const char *text;
	} cases[] = {
		{FIELD_DISK, "limit of bytes"},
		{FIELD_INODES, "limit of entries"},
		{FIELD_FILE_BYTES, "larger than a file may be"},
	};
	const struct made two[] = {{.name = "one", .data = "1234567890", .mode = 0600},
	                           {.name = "two", .data = "1234567890", .mode = 0600}};
	struct fixture fixture;
	int archive = archive_of(two, 2);

	set_up(&fixture);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct wire_out out = {0};
		begin_unpack(&fixture, &out, archive, fixture.dir_fd);
		wire_put_str(&out, FIELD_FORMAT, "tar");
		wire_put_u64(&out, cases[i].field, 1);
		CHECK_INT(call(&fixture, &out), -1);
		CHECK_INT(fixture.err.code, ERR_TOO_LARGE);
		CHECK_HAS(fixture.err.msg, cases[i].text);
	}
	(void)close(archive);
	tear_down(&fixture);
}

/* A child that dies in the middle, here because the broker went away, leaves nothing half made. */
TEST(what_a_killed_request_had_built_is_swept)
{
	struct fixture fixture;
	struct wire_out out = {0};
	struct buf bytes = {0};
	size_t len = 100 << 20;
	char *zeros = calloc(1, len);

	made_file(&bytes, "large", zeros, len);
	made_end(&bytes);
	free(zeros);
	int archive = made_fd(&bytes);
	buf_done(&bytes);
	set_up(&fixture);
	int dir = dup(fixture.dir_fd);
	begin_unpack(&fixture, &out, archive, dir);
	CHECK_INT(wire_send(fixture.sock, &out), 0);
	wire_done(&out);
	for (int i = 0; i < 1000 && !made_exists(dir, "l0/large"); i++)
		CHECK_INT(usleep(1000), 0);
	tear_down(&fixture);
	CHECK(!made_exists(dir, "l0"));
	(void)close(dir);
	(void)close(archive);
}

TEST(requests_that_make_no_sense_are_refused)
{
	struct fixture fixture;
	struct wire_out out = {0};

	set_up(&fixture);
	wire_begin(&out, WIRE_OP_LAUNCH, 1);
	CHECK_INT(call(&fixture, &out), -1);
	CHECK_INT(fixture.err.code, ERR_PROTOCOL);
	wire_begin(&out, WIRE_W_UNPACK, 2);
	wire_put_fd(&out, fixture.dir_fd);
	CHECK_INT(call(&fixture, &out), -1);
	CHECK_INT(fixture.err.code, ERR_PROTOCOL);
	begin_unpack(&fixture, &out, fixture.dir_fd, fixture.dir_fd);
	CHECK_INT(call(&fixture, &out), -1);
	CHECK_HAS(fixture.err.msg, "not a regular file");
	begin_unpack(&fixture, &out, fixture.dir_fd, fixture.dir_fd);
	wire_put_str(&out, FIELD_FORMAT, "zip\n");
	CHECK_INT(call(&fixture, &out), -1);
	CHECK_HAS(fixture.err.msg, "unknown archive format");
	tear_down(&fixture);
}

TEST(builds_the_host_image_once)
{
	struct fixture fixture;
	struct wire_out out = {0};
	struct digest_text print = {.text = ""};
	int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);

	set_up(&fixture);
	for (int i = 0; i < 2; i++) {
		wire_begin(&out, WIRE_W_HOST_IMAGE, 3);
		wire_put_fd(&out, fixture.dir_fd);
		wire_put_fd(&out, root);
		wire_put_u64(&out, FIELD_RANGE_COUNT, fixture.ids);
		wire_put_str(&out, FIELD_FINGERPRINT, print.text);
		if (call(&fixture, &out) < 0)
			test_fail(__FILE__, __LINE__, "%s", fixture.err.msg);
		CHECK_INT(wire_u64(&fixture.msg, FIELD_KEEP, 0), i);
		CHECK(str_copy(print.text, sizeof(print.text),
		               wire_str(&fixture.msg, FIELD_FINGERPRINT, "")));
		CHECK(made_exists(fixture.dir_fd, "etc/passwd"));
	}
	(void)close(root);
	tear_down(&fixture);
}

/* --- the walls, seen from inside --- */

static int in_jail(const struct jail *jail, int (*attempt)(const struct jail *jail))
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		struct err err = {0};
		_exit(jail_enter(jail, &err) < 0 ? 200 : attempt(jail));
	}
	CHECK_INT(waitpid(pid, &status, 0), pid);
	CHECK(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static int try_open_outside(const struct jail *jail)
{
	return open("/etc/passwd", O_RDONLY | O_CLOEXEC) < 0 ? errno : 0;
}

static int try_create_inside(const struct jail *jail)
{
	return openat(jail->dir_fd, "x", O_CREAT | O_WRONLY | O_CLOEXEC, 0600) < 0 ? errno : 0;
}

static int try_fork(const struct jail *jail)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	return pid < 0 ? errno : 0;
}

static int try_socket(const struct jail *jail)
{
	return socket(AF_INET, SOCK_STREAM, 0) < 0 ? errno : 0;
}

static int try_device(const struct jail *jail)
{
	return mknodat(jail->dir_fd, "null", S_IFCHR | 0666, 0x103) < 0 ? errno : 0;
}

static int try_long_file(const struct jail *jail)
{
	int fd = openat(jail->dir_fd, "long", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);

	return fd < 0 || pwrite(fd, "x", 1, 4096) < 0 ? errno : 0;
}

TEST(the_jail_holds)
{
	struct jail jail = {.host_fd = -1, .file_bytes = 4096};

	(void)made_root();
	if (landlock_abi() < 0)
		SKIP("this kernel has no Landlock");
	jail.dir_fd = test_dir_fd();
	CHECK_INT(in_jail(&jail, try_open_outside), EACCES);
	CHECK_INT(in_jail(&jail, try_create_inside), 0);
	CHECK_INT(in_jail(&jail, try_device), EPERM);
	CHECK_INT(in_jail(&jail, try_long_file), EFBIG);
	CHECK(in_jail(&jail, try_fork) != 0);
	CHECK(in_jail(&jail, try_socket) != 0);
	jail.is_read_only = true;
	CHECK_INT(in_jail(&jail, try_create_inside), EACCES);
	(void)close(jail.dir_fd);
}

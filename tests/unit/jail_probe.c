/*
 * Stands for `cloched worker` in test_broker_worker: answers each message with what it can see and
 * do where the broker put it, one word=value a line.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/str.h"
#include "wire/wire.h"

static void say(struct buf *buf, const char *name, long value)
{
	if (buf_printf(buf, "%s=%ld\n", name, value) < 0)
		_exit(2);
}

static void say_root(struct buf *buf)
{
	DIR *dir = opendir("/");
	for (struct dirent *entry; dir && (entry = readdir(dir));)
		if (entry->d_name[0] != '.' && buf_printf(buf, "root/%s\n", entry->d_name) < 0)
			_exit(2);
	if (dir)
		closedir(dir);
}

/* The errno of trying, 0 when it worked. */
static int try_open(const char *path, int flags)
{
	int fd = open(path, flags | O_CLOEXEC, 0600);
	if (fd < 0)
		return errno;
	close(fd);
	return 0;
}

static int try_make(int tree_fd, const char *name, uid_t owner)
{
	int fd = openat(tree_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return errno;
	int r = fchown(fd, owner, owner) < 0 ? errno : 0;
	close(fd);
	return r;
}

static int count_fds(void)
{
	int count = 0;
	for (int fd = 0; fd < 256; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

static void look(struct buf *buf, struct wire_msg *msg)
{
	say(buf, "fds", count_fds() - (int)msg->fd_count);
	say(buf, "uid", getuid());
	say(buf, "pid", getpid());
	say(buf, "own", try_make(msg->fds[0], "own", 0));
	say(buf, "agents", try_make(msg->fds[0], "agents", 1000));
	say(buf, "strange", try_make(msg->fds[0], "strange", 70000));
	say(buf, "passwd", try_open("/etc/passwd", O_RDONLY));
	say(buf, "proc", try_open("/proc/self/status", O_RDONLY));
	say(buf, "write_root", try_open("/new", O_WRONLY | O_CREAT));
	say(buf, "write_usr", try_open("/usr/new", O_WRONLY | O_CREAT));
	say(buf, "mount", chroot("/tree") < 0 ? errno : 0);
	say(buf, "env", getenv("HOME") != NULL);
	auto_close int sock = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr addr = {.sa_family = AF_UNSPEC};
	say(buf, "socket", sock < 0 || connect(sock, &addr, sizeof(addr)) < 0 ? errno : 0);
	say_root(buf);
}

int main(void)
{
	uint8_t *bytes = mem_zalloc(LIMIT_WIRE_BYTES);
	struct wire_msg msg;
	while (wire_recv(3, bytes, LIMIT_WIRE_BYTES, &msg) > 0) {
		auto_wire_out struct wire_out out;
		struct buf buf;
		buf_init(&buf, 65536);
		look(&buf, &msg);
		wire_begin(&out, WIRE_OK, msg.request);
		wire_put_bytes(&out, FIELD_BYTES, buf_head(&buf), buf_len(&buf));
		buf_done(&buf);
		wire_msg_done(&msg);
		if (wire_send(3, &out) < 0)
			return 1;
	}
	return 0;
}

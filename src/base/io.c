#include "base/io.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/must.h"

/* A descriptor shared with another process (a terminal, say) can turn non-blocking behind our
 * back, so "blocking" calls wait here. */
static int wait_ready(int fd, short events)
{
	struct pollfd poll_fd = {.fd = fd, .events = events};
	if (poll(&poll_fd, 1, -1) < 0 && errno != EINTR)
		return -errno;
	return 0;
}

static ssize_t write_quietly(int fd, const void *bytes, size_t len)
{
	ssize_t n = send(fd, bytes, len, MSG_NOSIGNAL);
	if (n < 0 && errno == ENOTSOCK)
		n = write(fd, bytes, len);
	return n < 0 ? -errno : n;
}

int io_write_all(int fd, const void *bytes, size_t len)
{
	const uint8_t *at = bytes;
	while (len > 0) {
		ssize_t n = write_quietly(fd, at, len);
		if (n == -EINTR)
			continue;
		if (n == -EAGAIN) {
			int r = wait_ready(fd, POLLOUT);
			if (r < 0)
				return r;
			continue;
		}
		if (n < 0)
			return (int)n;
		at += n;
		len -= (size_t)n;
	}
	return 0;
}

ssize_t io_read_full(int fd, void *bytes, size_t len)
{
	size_t done = 0;
	while (done < len) {
		ssize_t n = read(fd, (uint8_t *)bytes + done, len - done);
		if (n == 0)
			break;
		if (n > 0) {
			done += (size_t)n;
			continue;
		}
		if (errno == EAGAIN) {
			int r = wait_ready(fd, POLLIN);
			if (r < 0)
				return r;
		} else if (errno != EINTR) {
			return -errno;
		}
	}
	return (ssize_t)done;
}

static int read_rest(int fd, size_t max, char **ret, size_t *ret_len)
{
	auto_free char *text = NULL;
	size_t len = 0;
	/* Most are a line: a small piece of memory is one that is there. */
	for (size_t size = 512;; size *= 8) {
		size = MIN(size, max + 1);
		text = mem_resize(text, size + 1, 1);
		ssize_t n = io_read_full(fd, text + len, size - len);
		if (n < 0)
			return (int)n;
		len += (size_t)n;
		if (len > max)
			return -EFBIG;
		if (len < size)
			break;
	}
	text[len] = '\0';
	*ret = take_ptr(text);
	if (ret_len)
		*ret_len = len;
	return 0;
}

int io_read_file(int dir_fd, const char *path, size_t max, char **ret, size_t *ret_len)
{
	/* non-blocking, so that a fifo put in our way cannot hold us */
	auto_close int fd =
		openat(dir_fd, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK);
	if (fd < 0)
		return -errno;
	struct stat st;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (S_ISDIR(st.st_mode))
		return -EISDIR;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	return read_rest(fd, max, ret, ret_len);
}

struct content {
	const void *bytes;
	size_t len;
	mode_t mode;
	bool is_lasting; /* wait until the disk has it */
};

static int write_temp(int dir_fd, const char *temp, const struct content *content)
{
	auto_close int fd =
		openat(dir_fd, temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	int r = io_write_all(fd, content->bytes, content->len);
	if (r == 0 && fchmod(fd, content->mode) < 0)
		r = -errno;
	if (r == 0 && content->is_lasting && fsync(fd) < 0)
		r = -errno;
	if (r < 0)
		(void)unlinkat(dir_fd, temp, 0); /* the first error is the one to tell */
	return r;
}

static int replace(int dir_fd, const char *name, const struct content *content)
{
	if (name[0] == '\0' || strchr(name, '/'))
		return -EINVAL;
	auto_close int real_dir_fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (real_dir_fd < 0)
		return -errno;
	uint64_t random = 0;
	must(getrandom(&random, sizeof(random), 0) == sizeof(random));
	char temp[256];
	(void)snprintf(temp, sizeof(temp), ".%.200s.%016llx", name, (unsigned long long)random);
	int r = write_temp(real_dir_fd, temp, content);
	if (r < 0)
		return r;
	if (renameat(real_dir_fd, temp, real_dir_fd, name) < 0) {
		r = -errno;
		(void)unlinkat(real_dir_fd, temp, 0); /* the first error is the one to tell */
		return r;
	}
	return content->is_lasting && fsync(real_dir_fd) < 0 ? -errno : 0;
}

int io_replace_file(int dir_fd, const char *name, const void *bytes, size_t len, mode_t mode)
{
	return replace(dir_fd, name, &(struct content){bytes, len, mode, true});
}

int io_swap_file(int dir_fd, const char *name, const void *bytes, size_t len, mode_t mode)
{
	return replace(dir_fd, name, &(struct content){bytes, len, mode, false});
}

int io_write_ctl(int dir_fd, const char *path, const char *text)
{
	auto_close int fd = openat(dir_fd, path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY);
	if (fd < 0)
		return -errno;
	size_t len = strlen(text);
	ssize_t n = write(fd, text, len);
	if (n < 0)
		return -errno;
	return (size_t)n == len ? 0 : -EIO;
}

static int change_flag(int fd, int get, int set, int flag, bool on)
{
	int flags = fcntl(fd, get);
	if (flags < 0)
		return -errno;
	int wanted = on ? flags | flag : flags & ~flag;
	if (wanted != flags && fcntl(fd, set, wanted) < 0)
		return -errno;
	return 0;
}

int io_set_nonblock(int fd, bool on)
{
	return change_flag(fd, F_GETFL, F_SETFL, O_NONBLOCK, on);
}

int io_set_cloexec(int fd, bool on)
{
	return change_flag(fd, F_GETFD, F_SETFD, FD_CLOEXEC, on);
}

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec now;
	must(clock_gettime(clock, &now) == 0);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t io_boot_ms(void)
{
	return clock_ns(CLOCK_BOOTTIME) / 1000000u;
}

uint64_t io_boot_us(void)
{
	return clock_ns(CLOCK_BOOTTIME) / 1000u;
}

uint64_t io_real_ms(void)
{
	return clock_ns(CLOCK_REALTIME) / 1000000u;
}

uint64_t io_real_ns(void)
{
	return clock_ns(CLOCK_REALTIME);
}

void io_format_time(char *out, size_t size, uint64_t real_ms)
{
	/* beyond year 9999 the text would not keep its shape */
	static const uint64_t last_ms = UINT64_C(253402300799999);
	real_ms = MIN(real_ms, last_ms);
	time_t seconds = (time_t)(real_ms / 1000);
	struct tm tm;
	must(gmtime_r(&seconds, &tm) != NULL);
	(void)snprintf(out, size, "%04d-%02d-%02dT%02d:%02d:%02d.%03uZ", tm.tm_year + 1900,
	               tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec,
	               (unsigned)(real_ms % 1000));
}

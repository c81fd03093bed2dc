/*
 * Who: broker, its zygotes and tasks, `cloche stop`. Capabilities: CHOWN. Bytes: only files that
 * root wrote in a directory nobody else can write. Gone at the end: nothing is held open.
 */
#include "broker/box.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/id.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/str.h"
#include "os/path.h"
#include "os/proc.h"

enum { BOX_FILE_MAX = 16 * 1024 };

int box_make(int sandboxes_fd, const char *id, gid_t daemon_gid, int *ret_fd, bool *ret_is_new,
             struct err *err)
{
	bool is_new = mkdirat(sandboxes_fd, id, 0700) == 0;
	if (!is_new && errno != EEXIST)
		return err_sys(err, errno, "make the directory of sandbox %s", id);
	auto_close int fd = box_open(sandboxes_fd, id);
	if (fd < 0)
		return err_sys(err, -fd, "open the directory of sandbox %s", id);
	if (is_new && (fchown(fd, (uid_t)-1, daemon_gid) < 0 || fchmod(fd, 0710) < 0)) {
		err_sys(err, errno, "give the directory of sandbox %s its group", id);
		/* It is empty and ours; if it stays, the next start takes it away. */
		(void)unlinkat(sandboxes_fd, id, AT_REMOVEDIR);
		return -1;
	}
	*ret_is_new = is_new;
	*ret_fd = take_fd(&fd);
	return 0;
}

int box_open(int sandboxes_fd, const char *id)
{
	return path_open_plain(sandboxes_fd, id, O_RDONLY | O_DIRECTORY, 0);
}

int box_write(int box_fd, const char *name, const char *text)
{
	auto_free char *temp = mem_printf("%s.new", name);
	auto_close int fd =
		openat(box_fd, temp, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	int r = io_write_all(fd, text, strlen(text));
	if (r == 0 && renameat(box_fd, temp, box_fd, name) < 0)
		r = -errno;
	if (r < 0)
		(void)unlinkat(box_fd, temp, 0); /* best effort: the next write truncates it */
	return r;
}

/* Over what is there: a rename that replaces a file makes ext4 write it to the disk first. One
 * write of a part of a page comes whole or not at all, whoever is killed; blank lines mean nothing.
 */
static int overwrite(int fd, struct buf *text)
{
	struct stat st;
	if (fstat(fd, &st) < 0)
		return -errno;
	while ((off_t)buf_len(text) < st.st_size) {
		int r = buf_put(text, "\n", 1);
		if (r < 0)
			return r;
	}
	ssize_t n = pwrite(fd, buf_head(text), buf_len(text), 0);
	if (n < 0)
		return -errno;
	return (size_t)n == buf_len(text) ? 0 : -EIO;
}

int box_write_meta(int box_fd, const struct box_meta *meta)
{
	struct buf buf;
	buf_init(&buf, BOX_FILE_MAX);
	int r = buf_printf(
		&buf, "slot=%d\nrange_base=%u\nrange_count=%u\nkeeper_uid=%u\ncreated_ms=%llu\n",
		meta->slot, meta->range_base, meta->range_count, meta->keeper_uid,
		(unsigned long long)meta->created_ms);
	for (size_t i = 0; r == 0 && i < meta->layer_count; i++)
		r = buf_printf(&buf, "layer=%s\n", meta->layers[i]);
	auto_close int old = openat(box_fd, "meta", O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
	if (r == 0 && old >= 0) {
		r = overwrite(old, &buf);
	} else if (r == 0) {
		auto_free char *text = buf_take_string(&buf);
		r = box_write(box_fd, "meta", text);
	}
	buf_done(&buf);
	return r;
}

/* "key=number" at the start of a line of text. */
static bool get_number(const char *text, const char *key, uint64_t most, uint64_t *ret)
{
	size_t key_len = strlen(key);
	for (const char *line = text; *line;) {
		size_t len = strcspn(line, "\n");
		char digits[24];
		if (len > key_len && strncmp(line, key, key_len) == 0 && line[key_len] == '=' &&
		    len - key_len - 1 < sizeof(digits)) {
			memcpy(digits, line + key_len + 1, len - key_len - 1);
			digits[len - key_len - 1] = '\0';
			return str_to_u64(digits, ret) == 0 && *ret <= most;
		}
		line += len + (line[len] == '\n');
	}
	return false;
}

static int read_layers(const char *text, struct box_meta *meta)
{
	for (const char *line = text; *line;) {
		size_t len = strcspn(line, "\n");
		if (strncmp(line, "layer=", 6) == 0) {
			if (meta->layer_count == ARRAY_LEN(meta->layers) || len - 6 > LIMIT_ID_LEN)
				return -EINVAL;
			char *to = meta->layers[meta->layer_count++];
			memcpy(to, line + 6, len - 6);
			to[len - 6] = '\0';
		}
		line += len + (line[len] == '\n');
	}
	return 0;
}

int box_read_meta(int box_fd, struct box_meta *ret)
{
	auto_free char *text = NULL;
	size_t len;
	int r = io_read_file(box_fd, "meta", BOX_FILE_MAX, &text, &len);
	if (r < 0)
		return r;
	uint64_t slot, base, count, keeper, created;
	*ret = (struct box_meta){.slot = -1};
	if (!get_number(text, "range_base", UINT32_MAX, &base) ||
	    !get_number(text, "range_count", UINT32_MAX, &count) ||
	    !get_number(text, "keeper_uid", UINT32_MAX, &keeper) ||
	    !get_number(text, "created_ms", UINT64_MAX, &created))
		return -EINVAL;
	/* "slot=-1" is no number for get_number: that is how "none" reads. */
	if (get_number(text, "slot", LIMIT_SLOTS - 1, &slot))
		ret->slot = (int)slot;
	ret->range_base = (uint32_t)base;
	ret->range_count = (uint32_t)count;
	ret->keeper_uid = (uint32_t)keeper;
	ret->created_ms = created;
	return read_layers(text, ret);
}

int box_read_process(int box_fd, const char *name, struct box_process *ret)
{
	auto_free char *text = NULL;
	size_t len;
	int r = io_read_file(box_fd, name, BOX_FILE_MAX, &text, &len);
	if (r < 0)
		return r;
	uint64_t pid;
	const char *boot = strstr(text, "boot=");
	if (!get_number(text, "pid", INT32_MAX, &pid) || pid < 2 ||
	    !get_number(text, "start", UINT64_MAX, &ret->start_time) || !boot ||
	    strcspn(boot + 5, "\n") != 36)
		return -EINVAL;
	ret->pid = (pid_t)pid;
	memcpy(ret->boot, boot + 5, 36);
	ret->boot[36] = '\0';
	return 0;
}

bool box_is_alive(int box_fd)
{
	struct box_process keeper;
	char boot[37];
	return box_read_process(box_fd, "keeper", &keeper) == 0 && proc_boot_id(boot) == 0 &&
	       str_eq(keeper.boot, boot) && proc_is_alive(keeper.pid, keeper.start_time);
}

int box_each(int sandboxes_fd, int (*fn)(const char *id, void *ctx), void *ctx)
{
	int copy = openat(sandboxes_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (copy < 0)
		return -errno;
	DIR *dir = fdopendir(copy);
	if (!dir) {
		int r = -errno;
		close(copy);
		return r;
	}
	int r = 0;
	/* An error is not the end: one that is missing here is taken for gone. */
	while (r == 0) {
		errno = 0;
		const struct dirent *entry = readdir(dir);
		if (!entry) {
			r = -errno;
			break;
		}
		if (id_is_valid(entry->d_name, "sb"))
			r = fn(entry->d_name, ctx);
	}
	closedir(dir);
	return r;
}

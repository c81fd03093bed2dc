/*
 * `skills`: the folders with a SKILL.md of a project, as one tar: their files below the path that
 * they have in it. Bounded, whatever the project is: one that is too large for a skill comes as a
 * folder without files, so that whoever reads this can say so. Names that are hidden are no part of
 * a skill; links in one are told as links and not followed.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/tar.h"
#include "init/inside_verbs.h"

enum {
	NAMES_MOST = 256, /* entries of one place that are looked at */
	FILES_MOST = 64,
	DEPTH_MOST = 4,
	BYTES_MOST = 1024 * 1024,     /* of one skill, as tar */
	ANSWER_MOST = 4 * BYTES_MOST, /* of all */
	PATH_MOST = 1024,
};

static const char *const places[] = {".agents/skills", ".claude/skills", "skills"};

struct walk {
	struct buf out; /* of the skill at hand */
	size_t files;
};

static int add_folder(struct walk *walk, int dir_fd, const char *path, int depth);

static int put_head(struct walk *walk, enum tar_type type, const char *path, mode_t mode,
                    size_t size)
{
	struct tar_entry entry = {.type = type,
	                          .name = path,
	                          .target = type == TAR_SYMLINK ? "elsewhere" : NULL,
	                          .size = size,
	                          .mode = mode & 0777};

	return tar_put_entry(&walk->out, &entry);
}

/* What it has now is what it is, however it changes meanwhile. */
static int add_file(struct walk *walk, int fd, const char *path, mode_t mode)
{
	auto_free char *bytes = mem_zalloc(BYTES_MOST);
	size_t len = 0;
	ssize_t got = 1;

	while (got > 0 && len < BYTES_MOST) {
		got = read(fd, bytes + len, BYTES_MOST - len);
		if (got < 0)
			return -errno;
		len += (size_t)got;
	}
	if (len == BYTES_MOST || ++walk->files > FILES_MOST)
		return -EFBIG;
	int r = put_head(walk, TAR_FILE, path, mode, len);

	if (r == 0)
		r = buf_put(&walk->out, bytes, len);
	return r < 0 ? r : tar_put_padding(&walk->out, len);
}

/* NOLINTNEXTLINE(misc-no-recursion): depth is counted */
static int add_entry(struct walk *walk, int dir_fd, const char *above, const char *name, int depth)
{
	char path[PATH_MOST];
	struct stat st;

	if ((size_t)snprintf(path, sizeof(path), "%s/%s", above, name) >= sizeof(path))
		return -ENAMETOOLONG;
	auto_close int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0 && errno != ELOOP && errno != ENXIO)
		return -errno;
	if (fd < 0 || fstat(fd, &st) < 0)
		return put_head(walk, TAR_SYMLINK, path, 0777, 0);
	if (S_ISDIR(st.st_mode))
		return add_folder(walk, fd, path, depth + 1);
	if (S_ISREG(st.st_mode))
		return add_file(walk, fd, path, st.st_mode);
	return put_head(walk, TAR_SYMLINK, path, 0777, 0);
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* In an order that is always the same. The caller frees the names. */
static int list(int dir_fd, char *names[NAMES_MOST], size_t *ret_count)
{
	int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;
	size_t count = 0;

	if (!dir) {
		int sys = errno;

		fd_closep(&fd);
		return -sys;
	}
	/* NOLINTNEXTLINE(concurrency-mt-unsafe): a stream of our own */
	while (count < NAMES_MOST && (entry = readdir(dir))) {
		if (entry->d_name[0] != '.')
			names[count++] = mem_strdup(entry->d_name);
	}
	closedir(dir);
	if (count > 1)
		qsort(names, count, sizeof(*names), compare_names);
	*ret_count = count;
	return 0;
}

static void free_names(char *names[NAMES_MOST], size_t count)
{
	for (size_t i = 0; i < count; i++)
		free(names[i]);
}

/* NOLINTNEXTLINE(misc-no-recursion): depth is counted */
static int add_folder(struct walk *walk, int dir_fd, const char *path, int depth)
{
	char *names[NAMES_MOST];
	size_t count = 0;
	int r = depth < DEPTH_MOST ? list(dir_fd, names, &count) : -EFBIG;

	for (size_t i = 0; i < count && r == 0; i++)
		r = add_entry(walk, dir_fd, path, names[i], depth);
	free_names(names, count);
	return r;
}

/* Nothing that is wrong with one skill is a reason not to tell the others. */
static int tell(int dir_fd, const char *path, size_t *told, struct err *err)
{
	struct walk walk = {0};

	buf_init(&walk.out, BYTES_MOST);
	if (add_folder(&walk, dir_fd, path, 0) < 0 || *told + buf_len(&walk.out) > ANSWER_MOST) {
		buf_reset(&walk.out);
		(void)!put_head(&walk, TAR_DIR, path, 0755, 0); /* it fits */
	}
	*told += buf_len(&walk.out);
	int r = inside_flush(&walk.out, err);

	buf_done(&walk.out);
	return r;
}

static int tell_place(int top_fd, const char *place, size_t *told, struct err *err)
{
	auto_close int place_fd = openat(top_fd, place, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char *names[NAMES_MOST];
	size_t count = 0;
	int r = 0;

	if (place_fd < 0 || list(place_fd, names, &count) < 0)
		return 0;
	for (size_t i = 0; i < count && r == 0; i++) {
		auto_free char *path = mem_printf("%s/%s", place, names[i]);
		auto_close int fd = openat(place_fd, names[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		struct stat st;

		if (fd >= 0 && fstatat(fd, "SKILL.md", &st, AT_SYMLINK_NOFOLLOW) == 0)
			r = tell(fd, path, told, err);
	}
	free_names(names, count);
	return r;
}

int inside_skills(const struct inside_args *args, struct err *err)
{
	auto_close int top_fd = open(args->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct buf end;
	size_t told = 0;
	int r = 0;

	if (top_fd < 0)
		return inside_err(err, errno, "%s", args->path);
	for (size_t i = 0; i < ARRAY_LEN(places) && r == 0; i++)
		r = tell_place(top_fd, places[i], &told, err);
	if (r < 0)
		return -1;
	buf_init(&end, 4 * TAR_BLOCK);
	if (tar_put_end(&end) < 0)
		return err_set(err, ERR_INTERNAL, "no room for the end");
	r = inside_flush(&end, err);
	buf_done(&end);
	return r;
}

/*
 * The table is run twice with the same eyes: once to hash what the machine has (fingerprint), once
 * to copy it (build). Sources are opened below the host's root as if it were "/", must be readable
 * by anyone, and never keep more than mode 0755.
 */
#include "worker/hostimage.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/str.h"
#include "os/path.h"
#include "worker/name.h"
#include "worker/place.h"
#include "worker/tree.h"

enum {
	FILE_BYTES = 16 * 1024 * 1024,
	ALL_BYTES = 128 * 1024 * 1024,
	ENTRIES = 50000,
	AGENT_ID = 1000,
	COPY_BYTES = 64 * 1024,
	KEPT_MODE = 0755,
};

enum owner { ROOT, AGENT };
enum row_kind { ROW_TOP, ROW_DIR, ROW_TEXT, ROW_LINK, ROW_FILE, ROW_TREE, ROW_TREES };

struct row {
	enum row_kind kind;
	const char *path;
	mode_t mode;
	enum owner owner;
	const char *text; /* TEXT: content; LINK: target; TREES: prefix */
};

static const struct row rows[] = {
#define HOST_TOP(path)                     {ROW_TOP, path, 0755, ROOT, NULL},
#define HOST_DIR(path, mode, owner)        {ROW_DIR, path, mode, owner, NULL},
#define HOST_TEXT(path, mode, owner, text) {ROW_TEXT, path, mode, owner, text},
#define HOST_LINK(path, target)            {ROW_LINK, path, 0777, ROOT, target},
#define HOST_FILE(path)                    {ROW_FILE, path, 0, ROOT, NULL},
#define HOST_TREE(path)                    {ROW_TREE, path, 0, ROOT, NULL},
#define HOST_TREES(path, prefix)           {ROW_TREES, path, 0, ROOT, prefix},
#include "worker/hostimage.def"
};

/* Something to be made: from the table, or from the machine as it is. */
struct part {
	struct name name;
	mode_t mode; /* with type */
	enum owner owner;
	const char *text; /* content of our own, or target of a link; NULL: a directory or a copy */
	const struct stat *source; /* of a copy or link found on the machine; else NULL */
};

struct builder {
	int host_fd;
	uint64_t ids;
	const char *shell;
	int (*on_part)(struct builder *builder, const struct part *part, struct err *err);
	struct err *err; /* for what a walk in progress reports */
	uint64_t entries;
	uint64_t bytes;
	int dir_fd;         /* build */
	digest_state state; /* fingerprint */
};

/* --- looking at the machine --- */

static int emit(struct builder *builder, const struct row *row, mode_t mode, const char *path,
                const struct part *from, struct err *err)
{
	struct part part = *from;

	part.mode = mode;
	part.owner = row->owner;
	if (name_clean(&part.name, path))
		return 0; /* nobody can name such a file by a table row */
	if (++builder->entries > ENTRIES)
		return err_set(err, ERR_TOO_LARGE, "the host's %s has too many entries", row->path);
	return builder->on_part(builder, &part, err);
}

static bool is_readable(const struct stat *st)
{
	mode_t needed = S_ISDIR(st->st_mode) ? S_IROTH | S_IXOTH : S_IROTH;

	return (st->st_mode & needed) == needed;
}

/* Whether a link found at path leads into what will be bound from the machine. */
static bool leads_to_usr(const char *path, const char *target)
{
	size_t depth = 0;

	if (*target == '/')
		return str_has_prefix(target, "/usr/");
	for (const char *at = path; (at = strchr(at, '/')); at++)
		depth++;
	while (str_has_prefix(target, "../") && depth > 0) {
		target += strlen("../");
		depth--;
	}
	return depth == 0 && str_has_prefix(target, "usr/");
}

static int read_link(int dir_fd, const char *name, char *target, size_t size)
{
	ssize_t n = readlinkat(dir_fd, name, target, size - 1);

	if (n < 0)
		return -errno;
	target[n] = '\0';
	return (size_t)n == size - 1 ? -ENAMETOOLONG : 0;
}

static int host_stat(const struct builder *builder, const char *path, bool follow, struct stat *ret)
{
	auto_close int fd =
		path_open_in_root(builder->host_fd, path, O_PATH | (follow ? 0 : O_NOFOLLOW), 0);

	if (fd < 0)
		return fd;
	return fstat(fd, ret) < 0 ? -errno : 0;
}

static int host_link(const struct builder *builder, const char *path, char *target, size_t size)
{
	auto_close int fd = path_open_in_root(builder->host_fd, path, O_PATH | O_NOFOLLOW, 0);

	return fd < 0 ? fd : read_link(fd, "", target, size);
}

static int look_at_top(struct builder *builder, const struct row *row, struct err *err)
{
	char target[LIMIT_PATH_LEN + 1];
	struct stat st;
	struct part part = {.source = &st};

	if (host_stat(builder, row->path, false, &st) < 0)
		return 0;
	if (S_ISDIR(st.st_mode)) {
		part.source = NULL; /* only its being there counts, not its time */
		return emit(builder, row, S_IFDIR | row->mode, row->path, &part, err);
	}
	if (!S_ISLNK(st.st_mode) || host_link(builder, row->path, target, sizeof(target)) < 0)
		return 0;
	part.text = target;
	return emit(builder, row, S_IFLNK | 0777, row->path, &part, err);
}

static int look_at_file(struct builder *builder, const struct row *row, const char *path,
                        struct err *err)
{
	char target[LIMIT_PATH_LEN + 1];
	struct stat st;
	struct part part = {.source = &st};

	if (host_stat(builder, path, false, &st) < 0)
		return 0;
	if (S_ISLNK(st.st_mode)) {
		if (host_link(builder, path, target, sizeof(target)) < 0)
			return 0;
		part.text = target;
		if (leads_to_usr(path, target))
			return emit(builder, row, S_IFLNK | 0777, path, &part, err);
		part.text = NULL;
		if (host_stat(builder, path, true, &st) < 0)
			return 0;
	}
	if (!S_ISREG(st.st_mode) || !is_readable(&st))
		return 0;
	return emit(builder, row, st.st_mode, path, &part, err);
}

/* A walk below one directory of the machine; path grows and shrinks with the depth. */
struct tree_look {
	struct builder *builder;
	const struct row *row;
	char path[LIMIT_PATH_LEN + 1];
	size_t ends[NAME_DEPTH + 1]; /* length of path at each depth */
};

static int on_tree_entry(const struct tree_entry *entry, void *ctx)
{
	struct tree_look *look = ctx;
	struct part part = {.source = &entry->st};
	char target[LIMIT_PATH_LEN + 1];
	size_t end = entry->depth <= NAME_DEPTH ? look->ends[entry->depth - 1] : sizeof(look->path);
	size_t len = strlen(entry->name);

	if (end + 1 + len >= sizeof(look->path))
		return 1;
	look->path[end] = '/';
	memcpy(look->path + end + 1, entry->name, len + 1);
	if (entry->depth < NAME_DEPTH)
		look->ends[entry->depth] = end + 1 + len;
	mode_t type = entry->st.st_mode & S_IFMT;
	if (type == S_IFLNK) {
		if (read_link(entry->dir_fd, entry->name, target, sizeof(target)) < 0)
			return 0;
		part.text = target;
	} else if ((type != S_IFREG && type != S_IFDIR) || !is_readable(&entry->st)) {
		return 1;
	}
	int r = emit(look->builder, look->row, entry->st.st_mode, look->path, &part,
	             look->builder->err);
	return r < 0 ? -ECANCELED : 0;
}

static int look_at_tree(struct builder *builder, const struct row *row, const char *path,
                        struct err *err)
{
	struct tree_look look = {.builder = builder, .row = row};
	struct stat st;
	struct part part = {.source = &st};
	auto_close int fd = path_open_in_root(builder->host_fd, path, O_RDONLY | O_DIRECTORY, 0);

	if (fd == -ENOTDIR)
		return look_at_file(builder, row, path, err);
	if (fd < 0 || fstat(fd, &st) < 0 || !is_readable(&st))
		return 0;
	if (!str_copy(look.path, sizeof(look.path), path))
		return 0;
	look.ends[0] = strlen(path);
	if (emit(builder, row, st.st_mode, path, &part, err) < 0)
		return -1;
	int r = tree_walk(fd, on_tree_entry, &look);
	if (r == -ECANCELED)
		return -1; /* err says why */
	return r < 0 ? err_sys(err, -r, "read the host's %s", path) : 0;
}

/* The names in a directory that begin with the row's prefix. */
struct names_look {
	const struct row *row;
	char **paths;
	size_t count;
};

static int on_name(const struct tree_entry *entry, void *ctx)
{
	struct names_look *look = ctx;

	if (str_has_prefix(entry->name, look->row->text)) {
		look->paths = mem_resize(look->paths, look->count + 1, sizeof(char *));
		look->paths[look->count++] = mem_printf("%s/%s", look->row->path, entry->name);
	}
	return 1;
}

static int look_at_trees(struct builder *builder, const struct row *row, struct err *err)
{
	struct names_look look = {.row = row};
	auto_close int fd =
		path_open_in_root(builder->host_fd, row->path, O_RDONLY | O_DIRECTORY, 0);
	int r = fd < 0 ? 0 : tree_walk(fd, on_name, &look);

	if (r < 0)
		r = err_sys(err, -r, "read the host's %s", row->path);
	for (size_t i = 0; i < look.count; i++) {
		if (r == 0)
			r = look_at_tree(builder, row, look.paths[i], err);
		free(look.paths[i]);
	}
	free(look.paths);
	return r;
}

static char *expand(const struct builder *builder, const char *text)
{
	static const char mark[] = "@SHELL@";
	char *expanded = mem_strdup("");

	for (const char *at; (at = strstr(text, mark)); text = at + strlen(mark)) {
		char *longer =
			mem_printf("%s%.*s%s", expanded, (int)(at - text), text, builder->shell);
		free(expanded);
		expanded = longer;
	}
	char *whole = mem_printf("%s%s", expanded, text);
	free(expanded);
	return whole;
}

static int look_at_text(struct builder *builder, const struct row *row, struct err *err)
{
	auto_free char *text = expand(builder, row->text);
	struct part part = {.text = text};

	return emit(builder, row, S_IFREG | row->mode, row->path, &part, err);
}

static int look_at_row(struct builder *builder, const struct row *row, struct err *err)
{
	struct part part = {.text = row->text};

	switch (row->kind) {
	case ROW_TOP:
		return look_at_top(builder, row, err);
	case ROW_DIR:
		return emit(builder, row, S_IFDIR | row->mode, row->path, &part, err);
	case ROW_TEXT:
		return look_at_text(builder, row, err);
	case ROW_LINK:
		return emit(builder, row, S_IFLNK | row->mode, row->path, &part, err);
	case ROW_FILE:
		return look_at_file(builder, row, row->path, err);
	case ROW_TREE:
		return look_at_tree(builder, row, row->path, err);
	case ROW_TREES:
		return look_at_trees(builder, row, err);
	}
	return 0;
}

static int look_at_all(struct builder *builder, struct err *err)
{
	struct stat st;

	builder->err = err;
	builder->shell = host_stat(builder, "usr/bin/bash", true, &st) < 0 &&
	                                 host_stat(builder, "bin/bash", true, &st) < 0
	                         ? "/bin/sh"
	                         : "/bin/bash";
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		if (look_at_row(builder, &rows[i], err) < 0)
			return -1;
	}
	return 0;
}

/* --- fingerprint --- */

static void hash_text(struct builder *builder, const char *text)
{
	digest_add(&builder->state, text, strlen(text) + 1);
}

/* A directory's time changes with every file that comes and goes, also those not taken. */
static int hash_part(struct builder *builder, const struct part *part, struct err *err)
{
	bool has_content = part->source && S_ISREG(part->mode);
	const int64_t facts[] = {
		part->mode,
		part->owner,
		has_content ? part->source->st_size : 0,
		has_content ? part->source->st_mtim.tv_sec : 0,
		has_content ? part->source->st_mtim.tv_nsec : 0,
	};

	hash_text(builder, part->name.path);
	digest_add(&builder->state, facts, sizeof(facts));
	hash_text(builder, part->text ? part->text : "");
	return 0;
}

int hostimage_fingerprint(int host_root_fd, struct digest_text *ret, struct err *err)
{
	struct builder builder = {.host_fd = host_root_fd, .on_part = hash_part};

	digest_begin(&builder.state);
	hash_text(&builder, CLOCHE_VERSION);
	if (look_at_all(&builder, err) < 0)
		return -1;
	struct digest digest = digest_end(&builder.state);
	*ret = digest_show(&digest);
	return 0;
}

/* --- build --- */

static int part_failed(const struct part *part, int sys, struct err *err)
{
	return err_sys(err, sys, "host image: %s", name_show(part->name.path).text);
}

static int copy_bytes(struct builder *builder, const struct part *part, int from, int to,
                      struct err *err)
{
	auto_free uint8_t *bytes = mem_zalloc(COPY_BYTES);
	uint64_t copied = 0;
	ssize_t n;

	while ((n = io_read_full(from, bytes, COPY_BYTES)) > 0) {
		copied += (uint64_t)n;
		builder->bytes += (uint64_t)n;
		if (copied > FILE_BYTES || builder->bytes > ALL_BYTES)
			return err_set(err, ERR_TOO_LARGE, "the host's /%s is too large",
			               name_show(part->name.path).text);
		int r = io_write_all(to, bytes, (size_t)n);
		if (r < 0)
			return part_failed(part, -r, err);
	}
	return n < 0 ? part_failed(part, (int)-n, err) : 0;
}

/* Looks again at what was opened: the name may lead elsewhere by now. */
static int copy_file(struct builder *builder, const struct part *part, int to, struct err *err)
{
	struct stat st;
	auto_close int from = path_open_in_root(builder->host_fd, part->name.path,
	                                        O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);

	if (from < 0)
		return part_failed(part, -from, err);
	if (fstat(from, &st) < 0)
		return part_failed(part, errno, err);
	if (!S_ISREG(st.st_mode) || !is_readable(&st))
		return part_failed(part, EACCES, err);
	if (copy_bytes(builder, part, from, to, err) < 0)
		return -1;
	const struct timespec times[] = {st.st_mtim, st.st_mtim};
	return futimens(to, times) < 0 ? part_failed(part, errno, err) : 0;
}

static int build_file(struct builder *builder, const struct part *part, int parent_fd,
                      const char *base, struct err *err)
{
	auto_close int fd =
		openat(parent_fd, base, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (fd < 0)
		return errno == EEXIST ? 0 : part_failed(part, errno, err);
	if (part->text) {
		int r = io_write_all(fd, part->text, strlen(part->text));
		if (r < 0)
			return part_failed(part, -r, err);
	} else if (copy_file(builder, part, fd, err) < 0) {
		return -1;
	}
	return fchmod(fd, part->mode & KEPT_MODE) < 0 ? part_failed(part, errno, err) : 0;
}

static int build_dir(const struct part *part, int parent_fd, const char *base, struct err *err)
{
	/* Only our own rows may be sticky. */
	mode_t mode = part->source ? part->mode & KEPT_MODE : part->mode & 01777;

	if (mkdirat(parent_fd, base, 0700) < 0)
		return errno == EEXIST ? 0 : part_failed(part, errno, err);
	return fchmodat(parent_fd, base, mode, 0) < 0 ? part_failed(part, errno, err) : 0;
}

static int build_part(struct builder *builder, const struct part *part, struct err *err)
{
	uint64_t made = 0;
	auto_close int parent = place_open_parent(builder->dir_fd, &part->name, &made);
	const char *base = part->name.path + part->name.base;
	int r = 0;

	if (parent < 0)
		return part_failed(part, -parent, err);
	if (S_ISDIR(part->mode))
		r = build_dir(part, parent, base, err);
	else if (S_ISREG(part->mode))
		r = build_file(builder, part, parent, base, err);
	else if (symlinkat(part->text, parent, base) < 0 && errno != EEXIST)
		r = part_failed(part, errno, err);
	if (r < 0)
		return -1;
	uid_t id = part->owner == AGENT && builder->ids > AGENT_ID ? AGENT_ID : 0;
	if (fchownat(parent, base, id, id, AT_SYMLINK_NOFOLLOW) < 0)
		return part_failed(part, errno, err);
	return 0;
}

static int set_root(int dir_fd, struct err *err)
{
	auto_close int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0 || fchmod(fd, 0755) < 0 || syncfs(fd) < 0)
		return err_sys(err, errno, "write the host image to disk");
	return 0;
}

int hostimage_build(int dir_fd, int host_root_fd, uint64_t ids, struct err *err)
{
	struct builder builder = {
		.host_fd = host_root_fd,
		.on_part = build_part,
		.ids = ids,
		.dir_fd = dir_fd,
	};
	int r = look_at_all(&builder, err);

	if (r == 0)
		r = set_root(dir_fd, err);
	if (r < 0 && path_remove_below(dir_fd) < 0)
		(void)err_wrap(err, "some of it is left");
	return r;
}

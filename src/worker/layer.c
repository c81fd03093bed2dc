/*
 * How an entry is made: its name is cleaned (name.c), its parent opened without passing any link,
 * whatever stands in its place removed, then the node is created exclusively in the parent's fd.
 * Directories get their mode and time at the end, when nothing is made in them any more.
 */
#include "worker/layer.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/str.h"
#include "os/path.h"
#include "worker/name.h"
#include "worker/place.h"

enum {
	CANONICAL_IDS = 65536,
	DIRS_BYTES = 128 * 1024 * 1024, /* names of directories remembered for the end */
	MODE_BITS = 07777,
	SET_ID_BITS = S_ISUID | S_ISGID,
};

static const char whiteout_prefix[] = ".wh.";
static const char whiteout_meta_prefix[] = ".wh..wh.";
static const char whiteout_opaque[] = ".wh..wh..opq";

struct layer {
	struct reader *reader;
	int dir_fd;
	const struct layer_limits *limits;
	struct layer_counts *counts;
	struct buf dirs; /* struct dir_record and a path, one after the other */
};

/* The entry being made. */
struct item {
	struct archive_entry *entry;
	const char *raw; /* its name as the archive has it */
	struct name name;
	int parent_fd;
	const char *base;
	mode_t mode;
	uid_t uid;
	gid_t gid;
	struct timespec times[2];
};

struct dir_record {
	mode_t mode;
	struct timespec times[2];
	size_t len; /* of the path behind it, with NUL */
};

static int refuse(const struct item *item, enum err_code code, const char *why, struct err *err)
{
	return err_set(err, code, "entry \"%s\" %s", name_show(item->raw).text, why);
}

static int failed(const struct item *item, int sys, struct err *err)
{
	return err_sys(err, sys, "entry \"%s\"", name_show(item->raw).text);
}

static int count_entry(struct layer *layer, const struct item *item, struct err *err)
{
	if (layer->counts->entries >= layer->limits->entries)
		return refuse(item, ERR_TOO_LARGE, "is one more than the limit of entries", err);
	layer->counts->entries++;
	return 0;
}

/* --- owners, modes, times --- */

static int read_owner(struct layer *layer, struct item *item, struct err *err)
{
	int64_t uid = archive_entry_uid(item->entry);
	int64_t gid = archive_entry_gid(item->entry);

	if (uid < 0 || uid >= CANONICAL_IDS || gid < 0 || gid >= CANONICAL_IDS)
		return refuse(item, ERR_INVALID, "has an owner above 65535", err);
	if (uid >= layer->limits->ids || gid >= layer->limits->ids)
		layer->counts->owners++;
	item->uid = uid < layer->limits->ids ? (uid_t)uid : 0;
	item->gid = gid < layer->limits->ids ? (gid_t)gid : 0;
	return 0;
}

static void read_mode(struct layer *layer, struct item *item)
{
	item->mode = archive_entry_perm(item->entry) & MODE_BITS;
	/* On a directory set-group-id only says which group new files get. */
	mode_t kept = archive_entry_filetype(item->entry) == AE_IFDIR ? S_ISGID : 0;
	if (item->mode & SET_ID_BITS & ~kept)
		layer->counts->set_ids++;
	item->mode &= ~(SET_ID_BITS & ~kept);
}

static void read_times(struct item *item)
{
	struct timespec time = {.tv_nsec = UTIME_OMIT};

	if (archive_entry_mtime_is_set(item->entry)) {
		long ns = archive_entry_mtime_nsec(item->entry);
		time.tv_sec = archive_entry_mtime(item->entry);
		time.tv_nsec = ns >= 0 && ns < 1000000000 ? ns : 0;
	}
	item->times[0] = item->times[1] = time;
}

/* --- extended attributes --- */

/* Names overlayfs gives a meaning to: kept, they would hide or redirect what lies below. */
static bool forges_overlay(const char *name)
{
	return str_has_prefix(name, "user.overlay.") || str_has_prefix(name, "trusted.overlay.");
}

/* fd < 0: a node that cannot have any (link, pipe); the names are judged all the same. */
static int copy_xattrs(struct layer *layer, const struct item *item, int fd, struct err *err)
{
	const char *name;
	const void *value;
	size_t size;

	(void)archive_entry_xattr_reset(item->entry); /* its answer is only how many */
	while (archive_entry_xattr_next(item->entry, &name, &value, &size) == ARCHIVE_OK) {
		if (!name)
			continue;
		if (forges_overlay(name))
			return refuse(item, ERR_INVALID, "carries an overlay attribute", err);
		if (fd < 0 || !str_has_prefix(name, "user.")) {
			layer->counts->xattrs++;
			continue;
		}
		if (fsetxattr(fd, name, value, size, 0) < 0)
			return failed(item, errno, err);
	}
	return 0;
}

/* --- places --- */

static int open_parent(struct layer *layer, struct item *item, struct err *err)
{
	/* Directories the archive did not mention cost inodes too. */
	int fd = place_open_parent(layer->dir_fd, &item->name, &layer->counts->entries);

	if (fd == -ELOOP)
		return refuse(item, ERR_INVALID, "would be reached through a symbolic link", err);
	if (fd == -ENOTDIR)
		return refuse(item, ERR_INVALID, "lies below something that is not a directory",
		              err);
	if (fd < 0)
		return failed(item, -fd, err);
	item->parent_fd = fd;
	return 0;
}

static int clear_place(const struct item *item, struct err *err)
{
	struct stat was;
	int r = place_clear(item->parent_fd, item->base, false, &was);

	return r < 0 ? failed(item, -r, err) : 0;
}

/* --- the kinds of entries --- */

static int write_data(struct layer *layer, const struct item *item, int fd, uint64_t size,
                      struct err *err)
{
	const uint8_t *bytes;
	const void *block;
	uint64_t offset;
	size_t len;
	int r;

	while ((r = reader_block(layer->reader, &block, &len, &offset, err)) > 0) {
		if (offset > size || len > size - offset)
			return refuse(item, ERR_INVALID, "has more data than its size", err);
		if (len > layer->limits->bytes - layer->counts->bytes)
			return refuse(item, ERR_TOO_LARGE, "does not fit below the limit of bytes",
			              err);
		layer->counts->bytes += len;
		for (bytes = block; len > 0;) {
			ssize_t n = pwrite(fd, bytes, len, (off_t)offset);
			if (n < 0)
				return failed(item, errno, err);
			bytes += n;
			offset += (uint64_t)n;
			len -= (size_t)n;
		}
	}
	if (r < 0)
		return err_wrap(err, "entry \"%s\"", name_show(item->raw).text);
	/* The tail of a sparse file may be a hole. */
	return ftruncate(fd, (off_t)size) < 0 ? failed(item, errno, err) : 0;
}

/* Attributes first: once the file has another owner, writing them would need a capability. */
static int finish_file(struct layer *layer, const struct item *item, int fd, struct err *err)
{
	if (copy_xattrs(layer, item, fd, err) < 0)
		return -1;
	if (fchown(fd, item->uid, item->gid) < 0 || fchmod(fd, item->mode) < 0 ||
	    futimens(fd, item->times) < 0)
		return failed(item, errno, err);
	return 0;
}

static int make_file(struct layer *layer, struct item *item, struct err *err)
{
	int64_t size = archive_entry_size(item->entry);

	if (clear_place(item, err) < 0)
		return -1;
	auto_close int fd = openat(item->parent_fd, item->base,
	                           O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return failed(item, errno, err);
	if (write_data(layer, item, fd, (uint64_t)size, err) < 0)
		return -1;
	return finish_file(layer, item, fd, err);
}

static int remember_dir(struct layer *layer, const struct item *item, struct err *err)
{
	const char *path = item->name.depth > 0 ? item->name.path : ".";
	struct dir_record record = {
		.mode = item->mode,
		.times = {item->times[0], item->times[1]},
		.len = strlen(path) + 1,
	};

	if (buf_put(&layer->dirs, &record, sizeof(record)) < 0 ||
	    buf_put(&layer->dirs, path, record.len) < 0)
		return refuse(item, ERR_TOO_LARGE, "is one of too many directories", err);
	return 0;
}

static int make_dir(struct layer *layer, struct item *item, struct err *err)
{
	struct stat was;
	bool is_root = item->name.depth == 0;
	const char *base = is_root ? "." : item->base;
	int r = place_clear(item->parent_fd, base, true, &was);

	if (r < 0)
		return failed(item, -r, err);
	if (!S_ISDIR(was.st_mode) && mkdirat(item->parent_fd, base, 0700) < 0)
		return failed(item, errno, err);
	r = place_is_whiteout(&was) ? place_set_opaque(item->parent_fd, base) : 0;
	if (r < 0)
		return failed(item, -r, err);
	auto_close int fd = path_open_plain(item->parent_fd, base, O_RDONLY | O_DIRECTORY, 0);
	if (fd < 0)
		return failed(item, -fd, err);
	if (copy_xattrs(layer, item, fd, err) < 0)
		return -1;
	if (fchown(fd, item->uid, item->gid) < 0)
		return failed(item, errno, err);
	return remember_dir(layer, item, err);
}

static int finish_node(struct layer *layer, const struct item *item, struct err *err)
{
	if (copy_xattrs(layer, item, -1, err) < 0)
		return -1;
	if (fchownat(item->parent_fd, item->base, item->uid, item->gid, AT_SYMLINK_NOFOLLOW) < 0 ||
	    utimensat(item->parent_fd, item->base, item->times, AT_SYMLINK_NOFOLLOW) < 0)
		return failed(item, errno, err);
	return 0;
}

static int make_symlink(struct layer *layer, struct item *item, struct err *err)
{
	const char *target = archive_entry_symlink(item->entry);

	if (!target || !*target || strlen(target) > LIMIT_PATH_LEN)
		return refuse(item, ERR_INVALID, "is a symbolic link without a usable target", err);
	if (clear_place(item, err) < 0)
		return -1;
	if (symlinkat(target, item->parent_fd, item->base) < 0)
		return failed(item, errno, err);
	return finish_node(layer, item, err);
}

static int make_fifo(struct layer *layer, struct item *item, struct err *err)
{

	if (clear_place(item, err) < 0)
		return -1;
	if (mknodat(item->parent_fd, item->base, S_IFIFO | 0600, 0) < 0 ||
	    fchmodat(item->parent_fd, item->base, item->mode, 0) < 0)
		return failed(item, errno, err);
	return finish_node(layer, item, err);
}

/* Device nodes never come from an archive: a sandbox has its own /dev. */
static int skip_device(struct layer *layer, struct item *item, struct err *err)
{
	layer->counts->devices++;
	return copy_xattrs(layer, item, -1, err);
}

/* Opens what a hard link names: a regular file of this very layer. *ret_fd is its directory. */
static int open_target(struct layer *layer, const struct item *item, struct name *target,
                       int *ret_fd, struct err *err)
{
	struct stat st;
	const char *wrong = name_clean(target, archive_entry_hardlink(item->entry));

	if (wrong)
		return err_set(err, ERR_INVALID, "entry \"%s\" is a hard link whose target %s",
		               name_show(item->raw).text, wrong);
	if (target->depth == 0)
		return refuse(item, ERR_INVALID, "is a hard link to a directory", err);
	auto_close int fd = path_open_plain(layer->dir_fd, target->path, O_PATH | O_NOFOLLOW, 0);
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return refuse(item, ERR_INVALID,
		              "is a hard link to something that is no regular file before it in "
		              "the layer",
		              err);
	char base = target->path[target->base];
	target->path[target->base] = '\0';
	int dir = path_open_plain(layer->dir_fd, target->base > 0 ? target->path : ".",
	                          O_PATH | O_DIRECTORY, 0);
	target->path[target->base] = base;
	if (dir < 0)
		return failed(item, -dir, err);
	*ret_fd = dir;
	return 0;
}

static int make_hardlink(struct layer *layer, struct item *item, struct err *err)
{
	auto_close int dir = -1;
	struct name target;

	if (open_target(layer, item, &target, &dir, err) < 0)
		return -1;
	if (str_eq(target.path, item->name.path))
		return refuse(item, ERR_INVALID, "is a hard link to itself", err);
	if (clear_place(item, err) < 0)
		return -1;
	if (linkat(dir, target.path + target.base, item->parent_fd, item->base, 0) < 0)
		return failed(item, errno, err);
	return 0;
}

/* --- whiteouts --- */

static int make_whiteout(const struct item *item, struct err *err)
{
	const char *hidden = item->base + strlen(whiteout_prefix);
	int r;

	if (str_eq(item->base, whiteout_opaque)) {
		/* overlayfs does not look at the attribute on the root of a layer. */
		if (item->name.depth == 1)
			return refuse(item, ERR_UNSUPPORTED, "would hide the whole root below",
			              err);
		r = place_set_opaque(item->parent_fd, ".");
	} else if (str_has_prefix(item->base, whiteout_meta_prefix)) {
		r = 0; /* bookkeeping of aufs */
	} else if (!*hidden || str_eq(hidden, ".") || str_eq(hidden, "..")) {
		return refuse(item, ERR_INVALID, "is a whiteout of no name", err);
	} else {
		r = place_whiteout(item->parent_fd, hidden);
	}
	return r < 0 ? failed(item, -r, err) : 0;
}

/* --- one entry, then all --- */

static const struct {
	unsigned type;
	int (*make)(struct layer *layer, struct item *item, struct err *err);
} kinds[] = {
	{AE_IFREG, make_file},    {AE_IFDIR, make_dir},    {AE_IFLNK, make_symlink},
	{AE_IFIFO, make_fifo},    {AE_IFCHR, skip_device}, {AE_IFBLK, skip_device},
	{AE_IFSOCK, skip_device},
};

static int make_node(struct layer *layer, struct item *item, struct err *err)
{
	if (archive_entry_hardlink(item->entry))
		return make_hardlink(layer, item, err);
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		if (kinds[i].type == archive_entry_filetype(item->entry))
			return kinds[i].make(layer, item, err);
	}
	return refuse(item, ERR_INVALID, "is of an unknown kind", err);
}

/* Also for entries whose data is skipped: skipping means decompressing. */
static int check_size(const struct layer *layer, const struct item *item, struct err *err)
{
	int64_t size = archive_entry_size(item->entry);

	if (size < 0)
		return refuse(item, ERR_INVALID, "has a negative size", err);
	if ((uint64_t)size > layer->limits->file_bytes)
		return refuse(item, ERR_TOO_LARGE, "is larger than a file may be", err);
	return 0;
}

static int make_entry(struct layer *layer, struct item *item, struct err *err)
{
	const char *wrong = name_clean(&item->name, item->raw);

	if (wrong)
		return refuse(item, ERR_INVALID, wrong, err);
	if (count_entry(layer, item, err) < 0 || check_size(layer, item, err) < 0 ||
	    read_owner(layer, item, err) < 0)
		return -1;
	read_mode(layer, item);
	read_times(item);
	if (item->name.depth == 0 && archive_entry_filetype(item->entry) != AE_IFDIR)
		return refuse(item, ERR_INVALID, "would replace the root", err);
	if (open_parent(layer, item, err) < 0)
		return -1;
	item->base = item->name.path + item->name.base;
	if (str_has_prefix(item->base, whiteout_prefix))
		return make_whiteout(item, err);
	return make_node(layer, item, err);
}

/* A directory that a later entry replaced is no longer there to be finished. */
static int finish_dir(const struct layer *layer, const struct dir_record *record, const char *path,
                      struct err *err)
{
	auto_close int fd = path_open_plain(layer->dir_fd, path, O_RDONLY | O_DIRECTORY, 0);

	if (fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP)
		return 0;
	if (fd < 0)
		return err_sys(err, -fd, "entry \"%s\"", name_show(path).text);
	if (fchmod(fd, record->mode) < 0 || futimens(fd, record->times) < 0)
		return err_sys(err, errno, "entry \"%s\"", name_show(path).text);
	return 0;
}

static int finish_dirs(struct layer *layer, struct err *err)
{
	struct dir_record record;

	while (buf_len(&layer->dirs) > 0) {
		memcpy(&record, buf_head(&layer->dirs), sizeof(record));
		const char *path = (const char *)buf_head(&layer->dirs) + sizeof(record);
		if (finish_dir(layer, &record, path, err) < 0)
			return -1;
		buf_consume(&layer->dirs, sizeof(record) + record.len);
	}
	return 0;
}

static int unpack_all(struct layer *layer, struct err *err)
{
	struct archive_entry *entry;
	int r;

	while ((r = reader_next(layer->reader, &entry, err)) > 0) {
		struct item item = {.entry = entry, .parent_fd = -1};

		item.raw = archive_entry_pathname(entry);
		r = make_entry(layer, &item, err);
		fd_closep(&item.parent_fd);
		if (r < 0)
			return -1;
	}
	return r < 0 ? -1 : finish_dirs(layer, err);
}

int layer_unpack(struct reader *reader, int dir_fd, const struct layer_limits *limits,
                 struct layer_counts *counts, struct err *err)
{
	struct layer layer = {
		.reader = reader, .dir_fd = dir_fd, .limits = limits, .counts = counts};

	buf_init(&layer.dirs, DIRS_BYTES);
	int r = unpack_all(&layer, err);
	buf_done(&layer.dirs);
	return r;
}

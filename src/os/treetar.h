/*
 * Trees to tar and back. Packing follows no symlink. Unpacking takes hostile archives: nothing is
 * made outside the directory it was given, no link is ever walked through, no device, setuid or
 * setgid bit comes out, hard links lead only to files of the same archive. Owners are not kept:
 * everything belongs to the caller. Used inside a sandbox by `cloche inside pack|unpack` and on
 * the host by `cloche sandbox cp`. Blocking; constant memory but for one record per directory
 * and per file with several names. -errno.
 */
#pragma once

#include <sys/types.h>

#include "base/base.h"

/* Takes archive bytes in order; 0, or -errno, which ends the packing. */
typedef int (*treetar_write)(void *ctx, const void *bytes, size_t len);

struct treetar_pack {
	int dir_fd;
	const char *name; /* what to pack, below dir_fd; "." is dir_fd itself */
	const char *as;   /* its name in the archive; "": a folder's content without the folder */
	treetar_write write;
	void *ctx;
	/* filled in */
	uint64_t entries;
	uint64_t skipped; /* sockets, fifos, devices; files that vanished meanwhile */
	char where[256];  /* the entry at fault, cut; raw bytes */
};

/* A file that shrinks while it is read is filled up with zeros. -ELOOP: nested too deeply. */
int treetar_pack(struct treetar_pack *pack) NODISCARD;

struct treetar_options {
	uint64_t max_bytes;   /* of all contents together: -EFBIG */
	uint64_t max_entries; /* -E2BIG */
	const char *top;      /* not NULL: the first part of every name is replaced by it */
};

struct treetar_unpack;

/* dir_fd is borrowed until treetar_unpack_free. */
int treetar_unpack_new(int dir_fd, const struct treetar_options *options,
                       struct treetar_unpack **ret) NODISCARD;
/* The next piece of the archive. Files appear under their name when they are complete. -EINVAL:
 * an absolute name or ".."; -ELOOP, -ENOTDIR: a name leads through a link or a file; -EPERM: a
 * device or fifo, or a hard link to something else than a file of this archive; -ENOTSUP: an
 * unknown kind; -EBADMSG: not a tar. After a failure only _where and _free are allowed. */
int treetar_unpack_feed(struct treetar_unpack *unpack, const void *bytes, size_t len) NODISCARD;
/* The end of the input: applies modes and times of directories. -EBADMSG when it was cut. */
int treetar_unpack_finish(struct treetar_unpack *unpack) NODISCARD;
/* The name of the entry at hand, raw bytes; "" before the first. */
const char *treetar_unpack_where(const struct treetar_unpack *unpack);
uint64_t treetar_unpack_entries(const struct treetar_unpack *unpack);
void treetar_unpack_free(struct treetar_unpack *unpack);
void treetar_unpack_freep(struct treetar_unpack **unpack);

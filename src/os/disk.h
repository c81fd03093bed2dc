/*
 * Disk limits (decision 10): one interface over project quota, loop images, tmpfs and sampling.
 * A backend yields an unattached mount (tmpfs, loop) or a directory `disk` (quota, sampled); the
 * caller puts upper/ and work/ on it. -errno; never logs.
 */
#pragma once

#include "base/base.h"

enum disk_backend { DISK_AUTO, DISK_QUOTA, DISK_LOOP, DISK_TMPFS, DISK_SAMPLED };

const char *disk_name(enum disk_backend backend);
bool disk_parse(const char *name, enum disk_backend *ret);
/* Tries each backend for real in dir_fd (the sandboxes directory); the first that works of quota,
 * loop (whose files outlive a stop) and tmpfs. Sampled is never chosen by itself. Takes tens of
 * milliseconds. */
enum disk_backend disk_choose(int dir_fd);
/* Whether the backend works here, proven by trying; -errno says why not. */
int disk_probe(enum disk_backend backend, int dir_fd) NODISCARD;

struct disk_spec {
	enum disk_backend backend;
	uint64_t bytes;
	uint64_t inodes;
	uint32_t project;     /* quota: project id to use (unique per slot) */
	int loop_template_fd; /* loop: from disk_loop_template; others ignore it */
	bool is_lasting;      /* loop: what is synced on it is on the host's disk; others always */
};

/* A block of nothing but this byte in what `fill` makes is room that is taken, not content: it may
 * read as zeros. */
enum { DISK_VOID_BYTE = 0x5a };

/* The ext4 image that loop disks of this size start from, kept in dir_fd and made by mke2fs the
 * first time (some 50 ms and the only program ever run: at the broker's start, never on a request).
 * `fill` makes what every disk starts with in an empty directory, from which it is copied; NULL:
 * nothing. Returns it opened. -ENOENT: no mke2fs on this machine. */
int disk_loop_template(int dir_fd, uint64_t bytes, uint64_t inodes, int (*fill)(int fd)) NODISCARD;

/* Readies sandbox_dir (a directory of ours) and returns a directory fd on which upper/ and work/
 * are to be made: its new directory `disk` (quota, sampled) or the root of a new unattached mount
 * (tmpfs, loop; *ret_is_mount = true: attach it). What lies beside it in sandbox_dir does not
 * count. A second call finds the old files again, except on tmpfs. */
int disk_prepare(const struct disk_spec *spec, int sandbox_dir_fd, int *ret_fd,
                 bool *ret_is_mount) NODISCARD;
/* Changes bytes and inodes of what disk_prepare gave (fd: the same, or a directory of a quota). At
 * once, whatever is on it. -EOPNOTSUPP: a loop image has the size it was made with. */
int disk_resize(const struct disk_spec *spec, int fd) NODISCARD;
/* As if it had been made with is_lasting. Of one that is not, the host's disk sees what the kernel
 * has no room for, or what is synced of the image after the last mount is gone. */
int disk_make_lasting(const struct disk_spec *spec, int fd) NODISCARD;
/* Bytes and inodes used and whether either is exhausted. fd is what disk_prepare gave, or a
 * directory on it. One fstatfs, which needs no rights. -EOPNOTSUPP: `sampled`, whose files must
 * be counted by somebody who may enter its directories. */
struct disk_usage {
	uint64_t bytes;
	uint64_t inodes;
	bool is_full;
};
int disk_usage(const struct disk_spec *spec, int fd, struct disk_usage *ret) NODISCARD;

/*
 * Disk limits (decision 10): one interface over project quota, loop images, tmpfs and sampling.
 * A backend yields an unattached mount (tmpfs, loop) or marks a directory (quota); the caller puts
 * upper/ and work/ on it. -errno; never logs.
 */
#pragma once

#include "base/base.h"

enum disk_backend { DISK_AUTO, DISK_QUOTA, DISK_LOOP, DISK_TMPFS, DISK_SAMPLED };

const char *disk_name(enum disk_backend backend);
bool disk_parse(const char *name, enum disk_backend *ret);
/* Tries each backend for real in dir_fd (the sandboxes directory); the first that works of quota,
 * tmpfs. Sampled is never chosen by itself. */
enum disk_backend disk_choose(int dir_fd);
/* Whether the backend works here, proven by trying; -errno says why not. */
int disk_probe(enum disk_backend backend, int dir_fd) NODISCARD;

struct disk_spec {
	enum disk_backend backend;
	uint64_t bytes;
	uint64_t inodes;
	uint32_t project; /* quota: project id to use (unique per slot) */
};

/* Readies sandbox_dir (a directory of ours) and returns a directory fd on which upper/ and work/ are to
 * be made: the directory itself (quota, sampled) or the root of a new unattached mount (tmpfs, loop;
 * *ret_is_mount = true: attach it). */
int disk_prepare(const struct disk_spec *spec, int sandbox_dir_fd, int *ret_fd,
		 bool *ret_is_mount) NODISCARD;
/* Bytes and inodes used and whether either is exhausted, from fstatfs or the quota. */
struct disk_usage {
	uint64_t bytes;
	uint64_t inodes;
	bool is_full;
};
int disk_usage(const struct disk_spec *spec, int fd, struct disk_usage *ret) NODISCARD;

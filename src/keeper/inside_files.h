/*
 * Directories and files every sandbox has, whatever its image: made in the upper before the first
 * instruction, beneath the root by fd, never through a link of the image. Same process as rootfs.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"

struct inside_files_owner {
	uint32_t base;  /* host id of root inside */
	uint32_t count; /* 1: only one id exists, and it is the agent's */
};

int inside_files_prepare(int root_fd, const char *hostname, const struct inside_files_owner *owner,
                         struct err *err) NODISCARD;
/* All of it there is to make where the host image, which has the rest, lies below a disk nobody has
 * used: in the folder that will be /etc, not yet part of an overlay, which takes longer for each.
 * As root of the sandbox towards files. -errno. */
int inside_files_first(int etc_fd, const char *hostname) NODISCARD;
/* The files of /etc that say the hostname; -errno. */
int inside_files_hostname(int root_fd, const char *hostname,
                          const struct inside_files_owner *owner) NODISCARD;
/* A number that changes when any of these is changed, replaced or removed later on. disk_fd: what
 * holds upper/. Needs no rights but to walk there; no file is opened. */
uint64_t inside_files_mark(int disk_fd);
/* The place a mount goes: made as a directory or an empty file, after what source_fd is. */
int inside_files_target(int root_fd, const char *path, int source_fd, int *ret_fd) NODISCARD;

/*
 * The directory of one sandbox, sandboxes/<id>/, as the broker sees it: `meta` (which id range it
 * has), `keeper` (who keeps it: pid, start time, boot id), `init` (the same of a parked one's),
 * `grants` (host folders it was given). All are written by root and read back after a crash: they
 * are the broker's whole memory.
 *
 * None is synced to disk. A crash of ours loses nothing the kernel holds, and after a crash of the
 * machine no keeper lives and no range is in use, so there is nothing in them to save.
 */
#pragma once

#include <sys/types.h>

#include "base/base.h"
#include "base/err.h"
#include "base/limits.h"

struct box_meta {
	int slot; /* -1: none, it is not running */
	uint32_t range_base;
	uint32_t range_count;
	uint32_t keeper_uid;
	uint64_t created_ms;
	char layers[LIMIT_LAYERS][LIMIT_ID_LEN + 1];
	size_t layer_count;
};

struct box_process {
	pid_t pid;
	uint64_t start_time;
	char boot[37];
};

/* Makes sandboxes/<id> (0710, group of cloched; 0700 when alone) or opens the one there is;
 * *ret_is_new says which. */
int box_make(int sandboxes_fd, const char *id, gid_t daemon_gid, int *ret_fd, bool *ret_is_new,
             struct err *err) NODISCARD;
/* The directory, or -errno. */
int box_open(int sandboxes_fd, const char *id) NODISCARD;

int box_write_meta(int box_fd, const struct box_meta *meta) NODISCARD;
/* -ENOENT when there is none, -EINVAL when it is damaged. */
int box_read_meta(int box_fd, struct box_meta *ret) NODISCARD;

/* `keeper` is the first thing a keeper writes; `init` one that is parked: whom to enter to bind it.
 */
int box_read_process(int box_fd, const char *name, struct box_process *ret) NODISCARD;
/* The recorded keeper runs, in this boot. */
bool box_is_alive(int box_fd);

/* Replaces a file of the box without syncing it. */
int box_write(int box_fd, const char *name, const char *text) NODISCARD;
/* Calls fn for every directory whose name is a sandbox id, in no order; stops when fn returns
 * non-zero and returns that. */
int box_each(int sandboxes_fd, int (*fn)(const char *id, void *ctx), void *ctx) NODISCARD;

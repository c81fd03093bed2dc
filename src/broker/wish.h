/*
 * What cloched, half trusted, wishes for a sandbox: limits, hostname, mounts. Checked here, for
 * OP_LAUNCH and OP_BIND alike, and written on into the message a zygote gets; nothing is copied
 * unseen. Runs on the broker's loop.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"
#include "broker/grant.h"
#include "wire/wire.h"

struct broker;

enum { WISH_LIMITS = 7 };

struct wish_mount {
	struct grant grant;
	char text[LIMIT_ID_LEN + LIMIT_PATH_LEN + 8]; /* as in MOUNT, rewritten */
};

struct wish_mounts {
	struct wish_mount *items;
	size_t count;
};

struct wish_limits {
	uint64_t values[WISH_LIMITS];
	bool is_given[WISH_LIMITS];
};

/* ERR_INVALID for one out of range. What is not given has the usual value. */
int wish_limits(const struct wire_msg *msg, struct wish_limits *ret, struct err *err) NODISCARD;
/* All of them, or those that were given. */
void wish_put_limits(const struct wish_limits *limits, bool all, struct wire_out *out);
/* ERR_INVALID. */
int wish_check_hostname(const char *name, struct err *err) NODISCARD;

/* Takes the grants out of the broker's list, or reopens what the box's `grants` file knows. On
 * failure too wish_mounts_done is to be called. */
int wish_mounts_open(struct broker *broker, const struct wire_msg *msg, int box_fd,
                     struct wish_mounts *ret, struct err *err) NODISCARD;
/* Writes them down in the sandbox's directory. */
int wish_mounts_record(const struct wish_mounts *mounts, int box_fd, struct err *err) NODISCARD;
void wish_mounts_put(const struct wish_mounts *mounts, struct wire_out *out);
void wish_mounts_put_fds(const struct wish_mounts *mounts, struct wire_out *out);
/* They were not used after all: the list has them again. */
void wish_mounts_give_back(struct wish_mounts *mounts, struct grants *grants);
void wish_mounts_done(struct wish_mounts *mounts);

/*
 * The little netlink we need, without libraries: messages are appended to a batch that goes to the
 * kernel in one call and is answered before that call returns. Usable between clone and exec: no
 * allocation. -errno.
 */
#pragma once

#include "base/base.h"

enum { NETLINK_BATCH_BYTES = 4096 };

struct netlink_batch {
	_Alignas(4) uint8_t bytes[NETLINK_BATCH_BYTES];
	size_t len;
	size_t message; /* where the message under construction begins */
	uint32_t count;
	uint32_t answers; /* how many messages asked for an answer */
	bool overflow;
};

/* Begins a message: its type, NLM_F_* beside NLM_F_REQUEST, and the fixed part that follows. */
void netlink_begin(struct netlink_batch *batch, uint16_t type, uint16_t flags, const void *fixed,
                   size_t len);
void netlink_put(struct netlink_batch *batch, uint16_t attribute, const void *bytes, size_t len);
void netlink_put_str(struct netlink_batch *batch, uint16_t attribute, const char *text);
void netlink_put_be32(struct netlink_batch *batch, uint16_t attribute, uint32_t value);
/* Opens an attribute that holds others; netlink_unnest closes it. */
size_t netlink_nest(struct netlink_batch *batch, uint16_t attribute);
void netlink_unnest(struct netlink_batch *batch, size_t nest);
/* One send to the kernel on this netlink socket. The first error any message met. */
int netlink_say(int fd, const struct netlink_batch *batch) NODISCARD;
/* The same on a new socket of this protocol. */
int netlink_send(const struct netlink_batch *batch, int protocol) NODISCARD;

/* Brings lo up in this network namespace. */
int netlink_loopback_up(void) NODISCARD;

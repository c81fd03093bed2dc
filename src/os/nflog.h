/*
 * Packets that os/nft.h drops and has told: the kernel sends their heads to a socket that is opened
 * where they were to leave, and that stays there like those of os/transparent.h. -errno.
 */
#pragma once

#include "base/base.h"
#include "os/transparent.h"

/* A non-blocking socket that is told of every packet logged to this group in this network
 * namespace, at once. Needs rights there; reading needs none. Fails where the kernel has no
 * nfnetlink_log. */
int nflog_open(uint16_t group) NODISCARD;
/* Both ends of the next UDP packet. -EAGAIN: there is none; -EBADMSG: this was something else, ask
 * again. */
int nflog_next(int fd, struct transparent_end *ret_from, struct transparent_end *ret_to) NODISCARD;

/*
 * Sockets that stand for any address: listeners which tproxy (os/nft.h) hands every connection and
 * datagram to, and raw sockets that answer with any source. They are made in the sandbox's network
 * namespace while we still have rights there, and used by the keeper, which lives elsewhere: a
 * socket stays in the namespace it was made in. IPv4 and IPv6 have a socket each. -errno.
 */
#pragma once

#include <sys/types.h>

#include "base/addr.h"
#include "base/base.h"

/* On every packet these sockets send: os/nft.h lets them pass to whatever address they answer. */
enum { TRANSPARENT_MARK = 0xc10c };

struct transparent_end {
	struct addr addr;
	uint16_t port;
};

/* A non-blocking TCP listener at this address. */
int transparent_listen(const struct transparent_end *at, int backlog) NODISCARD;
/* A non-blocking UDP socket at this address that is told the destination of each datagram. */
int transparent_datagrams(const struct transparent_end *at) NODISCARD;
/* What transparent_send_* send with. */
int transparent_raw(bool is_v6) NODISCARD;

/* Where an accepted connection was going to, and where it comes from. */
int transparent_local(int fd, struct transparent_end *ret) NODISCARD;
int transparent_peer(int fd, struct transparent_end *ret) NODISCARD;
/* One datagram and both its ends. Its length, or -EAGAIN. */
ssize_t transparent_receive(int fd, void *bytes, size_t size, struct transparent_end *ret_from,
                            struct transparent_end *ret_to) NODISCARD;
/* A UDP datagram with any source. -EMSGSIZE when it does not fit one packet of lo. */
int transparent_send_udp(int raw, const struct transparent_end *from,
                         const struct transparent_end *to, const void *bytes, size_t len) NODISCARD;
/* The ICMP message that answers a datagram `from` sent `to`: administratively prohibited. Who sent
 * it on a connected socket gets an error at once instead of silence. */
int transparent_refuse_udp(int raw, const struct transparent_end *from,
                           const struct transparent_end *to) NODISCARD;

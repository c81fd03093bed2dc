/*
 * The one packet filter we load: in a namespace made by os/anyip.h, every packet to another than
 * lo's own addresses is handed to the transparent sockets of os/transparent.h, and what those do
 * not take is dropped; datagrams to groups are refused where they are sent. Written as nf_tables
 * messages by hand: no program and no library, because it is part of starting a sandbox and must
 * cost a fraction of a millisecond. -errno.
 */
#pragma once

#include "base/addr.h"
#include "base/base.h"

struct nft_tproxy {
	struct addr own;     /* lo's address: a destination like 127.0.0.1 */
	struct addr gateway; /* where the transparent sockets are bound … */
	uint16_t port;       /* … and at which port */
	uint16_t log_group;  /* whom to tell of multicast and broadcast (os/nflog.h); 0: nobody */
};

/* Loads a table for the family of each `own` into this network namespace, all or nothing.
 * -EPROTONOSUPPORT, -EOPNOTSUPP or -ENOENT where the kernel lacks nf_tables or its tproxy. */
int nft_tproxy_load(const struct nft_tproxy *tproxies, size_t count) NODISCARD;

/*
 * A network namespace in which every address is a local one (AnyIP): `lo` is up, has one address
 * of each family beside 127.0.0.1 and ::1, and everything is routed to it. Together with os/nft.h
 * any connection to anywhere arrives at a socket of our own. -errno.
 */
#pragma once

#include "base/addr.h"
#include "base/base.h"

struct anyip {
	struct addr v4, v6; /* the source of what leaves: lo's own addresses */
};

/* Makes this namespace so. ret_has_v6 is false where the kernel has no IPv6 (or it is off). */
int anyip_set_up(const struct anyip *anyip, bool *ret_has_v6) NODISCARD;

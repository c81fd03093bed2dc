/*
 * Addresses nobody inside may reach whatever the policy says: the machine itself, its neighbours,
 * the cloud's metadata services, and everything that is no ordinary public address; also when one
 * is dressed up as another (IPv4 in IPv6, 6to4, NAT64). Only a CIDR that was granted by name opens
 * one. Pure functions; used by the dialer, which is the last to look before a connection is made.
 */
#pragma once

#include "base/addr.h"
#include "base/base.h"

/* NULL: may be dialled. Otherwise the name of the rule: "loopback", "metadata", "private", … */
const char *never_reason(const struct addr *ip, const struct addr_cidr *granted, size_t count);

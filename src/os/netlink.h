/* The little rtnetlink we need, without libraries: bring lo up in this network namespace. -errno.
 */
#pragma once

#include "base/base.h"

int netlink_loopback_up(void) NODISCARD;

/*
 * The only way out of a sandbox's network namespace: sockets of ours in it that every connection
 * and datagram to anywhere arrives at. Made by the keeper before it drops its rights; used by
 * gateway.c and resolver.c afterwards. The namespace itself has no uplink at all, so when nobody
 * serves these sockets, nothing leaves.
 */
#pragma once

#include "base/addr.h"
#include "base/base.h"
#include "os/transparent.h"

/* Names lo has inside. The first is the sandbox's own address, at which its processes also reach
 * each other; the second is the gateway's, where resolv.conf points. */
#define UPLINK_OWN_V4     "192.0.0.2" /* RFC 6333 keeps both for one link that leads nowhere else */
#define UPLINK_GATEWAY_V4 "192.0.0.1"
#define UPLINK_OWN_V6     "fd00:c10c:e::2"
#define UPLINK_GATEWAY_V6 "fd00:c10c:e::1"

enum uplink_family { UPLINK_V4, UPLINK_V6, UPLINK_FAMILIES_ };

struct uplink {
	bool is_up;
	int tcp[UPLINK_FAMILIES_]; /* listeners; -1: the kernel has no such family */
	int udp[UPLINK_FAMILIES_];
	int denials;               /* see denials.h */
	int raw[UPLINK_FAMILIES_]; /* to answer datagrams with any source */
	int groups; /* tells of datagrams to groups, which were refused (os/nflog.h); -1: untold */
};

void uplink_init(struct uplink *uplink);
void uplink_done(struct uplink *uplink);
/* In the zygote: an empty network namespace for all keepers to live in, once their sandbox stands.
 */
void uplink_warm(void);
/* Puts the caller into a new network namespace; what is born from here on lives in it. Where the
 * kernel has no nf_tables or tproxy, is_up stays false and it has a loopback interface alone. */
int uplink_set_up(struct uplink *uplink) NODISCARD;
/* Leaves it for an empty one. The sockets stay where they were made. */
int uplink_leave(void) NODISCARD;
/* For the status of the sandbox: how it is done, and what is missing of it. */
const char *uplink_name(const struct uplink *uplink);
/* The other end's family. */
enum uplink_family uplink_family(const struct addr *addr);
/* The sandbox's own address: the source of whatever did not choose another. */
bool uplink_is_own(const struct addr *addr);
/* The gateway's own address. */
bool uplink_is_gateway(const struct addr *addr);

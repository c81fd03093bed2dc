/*
 * Who runs this: the keeper while it has all capabilities of the namespace cloche serves in. Bytes
 * looked at: none from inside. Gone at the end: the sandbox's network namespace, but for the
 * sockets.
 */
#include "keeper/uplink.h"

#include <sched.h>

#include "base/must.h"
#include "os/anyip.h"
#include "os/netlink.h"
#include "os/nflog.h"
#include "os/nft.h"
#include "os/ns.h"

/* PORT: where the listeners are bound. No program of a sandbox wants it for all its addresses. */
enum { PORT = 1, BACKLOG = 512, LOG_GROUP = 1 };

static int empty_net = -1; /* of the zygote, inherited by fork */

static struct addr parse(const char *text)
{
	struct addr addr;
	bool is_valid = addr_parse(text, &addr);
	must(is_valid); /* our own constants */
	return addr;
}

void uplink_init(struct uplink *uplink)
{
	*uplink = (struct uplink){
		.tcp = {-1, -1}, .udp = {-1, -1}, .raw = {-1, -1}, .groups = -1, .denials = -1};
}

static void close_sockets(struct uplink *uplink)
{
	for (size_t i = 0; i < UPLINK_FAMILIES_; i++) {
		fd_closep(&uplink->tcp[i]);
		fd_closep(&uplink->udp[i]);
		fd_closep(&uplink->raw[i]);
	}
	fd_closep(&uplink->groups);
	uplink->is_up = false;
}

void uplink_done(struct uplink *uplink)
{
	close_sockets(uplink);
	fd_closep(&uplink->denials);
}

void uplink_warm(void)
{
	/* Making one costs half a millisecond, entering one nothing. Keepers make no sockets and
	 * can share it. Where it fails each keeper makes its own. */
	if (ns_unshare(CLONE_NEWNET) >= 0)
		empty_net = ns_open(0, "net");
}

int uplink_leave(void)
{
	return empty_net >= 0 ? ns_enter(empty_net, CLONE_NEWNET) : ns_unshare(CLONE_NEWNET);
}

static int open_sockets(struct uplink *uplink, enum uplink_family family, const struct addr *at)
{
	struct transparent_end end = {*at, PORT};
	uplink->tcp[family] = transparent_listen(&end, BACKLOG);
	uplink->udp[family] = transparent_datagrams(&end);
	uplink->raw[family] = transparent_raw(family == UPLINK_V6);
	int fds[] = {uplink->tcp[family], uplink->udp[family], uplink->raw[family]};
	for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
		if (fds[i] < 0)
			return fds[i];
	}
	return 0;
}

static int build(struct uplink *uplink)
{
	const struct anyip own = {parse(UPLINK_OWN_V4), parse(UPLINK_OWN_V6)};
	bool has_v6 = false;
	int r = ns_unshare(CLONE_NEWNET);
	if (r >= 0)
		r = anyip_set_up(&own, &has_v6);
	/* Without it they are refused all the same, and nobody hears of it. */
	uplink->groups = r < 0 ? -1 : nflog_open(LOG_GROUP);
	uint16_t log_group = uplink->groups < 0 ? 0 : LOG_GROUP;
	const struct nft_tproxy tproxies[] = {{own.v4, parse(UPLINK_GATEWAY_V4), PORT, log_group},
	                                      {own.v6, parse(UPLINK_GATEWAY_V6), PORT, log_group}};
	size_t families = has_v6 ? UPLINK_FAMILIES_ : 1;
	if (r >= 0)
		r = nft_tproxy_load(tproxies, families);
	for (size_t i = 0; r >= 0 && i < families; i++)
		r = open_sockets(uplink, (enum uplink_family)i, &tproxies[i].gateway);
	return r;
}

int uplink_set_up(struct uplink *uplink)
{
	int r = build(uplink);
	if (r >= 0) {
		uplink->is_up = true;
		return 0;
	}
	close_sockets(uplink);
	r = ns_unshare(CLONE_NEWNET);
	return r < 0 ? r : netlink_loopback_up();
}

const char *uplink_name(const struct uplink *uplink)
{
	if (!uplink->is_up)
		return "absent";
	return uplink->groups < 0 ? "tproxy, groups untold" : "tproxy";
}

enum uplink_family uplink_family(const struct addr *addr)
{
	return addr_is_v4(addr) ? UPLINK_V4 : UPLINK_V6;
}

bool uplink_is_own(const struct addr *addr)
{
	struct addr own = parse(addr_is_v4(addr) ? UPLINK_OWN_V4 : UPLINK_OWN_V6);
	return memcmp(&own, addr, sizeof(own)) == 0;
}

bool uplink_is_gateway(const struct addr *addr)
{
	struct addr gateway = parse(addr_is_v4(addr) ? UPLINK_GATEWAY_V4 : UPLINK_GATEWAY_V6);
	return memcmp(&gateway, addr, sizeof(gateway)) == 0;
}

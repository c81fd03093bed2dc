#include "os/anyip.h"

#include <errno.h>
#include <linux/if_addr.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/socket.h>

#include "os/netlink.h"

enum { LOOPBACK_INDEX = 1, V4_AT = 12 };

static const uint8_t *address_of(const struct addr *addr, size_t *ret_len)
{
	bool is_v4 = addr_is_v4(addr);
	*ret_len = is_v4 ? 4 : sizeof(addr->bytes);
	return is_v4 ? addr->bytes + V4_AT : addr->bytes;
}

static void put_up(struct netlink_batch *batch)
{
	struct ifinfomsg info = {
		.ifi_family = AF_UNSPEC,
		.ifi_index = LOOPBACK_INDEX,
		.ifi_flags = IFF_UP,
		.ifi_change = IFF_UP,
	};
	netlink_begin(batch, RTM_NEWLINK, NLM_F_ACK, &info, sizeof(info));
}

/* The address, then the default route of type local that prefers it as source. Without one, the
 * source would be the destination itself: the handshake succeeds and the answers go astray. */
static void put_family(struct netlink_batch *batch, const struct addr *addr)
{
	size_t len;
	const uint8_t *bytes = address_of(addr, &len);
	uint8_t family = len == 4 ? AF_INET : AF_INET6;
	uint32_t index = LOOPBACK_INDEX;
	struct ifaddrmsg address = {
		.ifa_family = family,
		.ifa_prefixlen = (uint8_t)(len * 8),
		.ifa_flags = IFA_F_PERMANENT | (family == AF_INET6 ? IFA_F_NODAD : 0),
		.ifa_scope = RT_SCOPE_UNIVERSE,
		.ifa_index = LOOPBACK_INDEX,
	};
	netlink_begin(batch, RTM_NEWADDR, NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE, &address,
	              sizeof(address));
	netlink_put(batch, IFA_LOCAL, bytes, len);
	netlink_put(batch, IFA_ADDRESS, bytes, len);
	struct rtmsg route = {
		.rtm_family = family,
		.rtm_table = RT_TABLE_LOCAL,
		.rtm_protocol = RTPROT_STATIC,
		.rtm_scope = family == AF_INET ? RT_SCOPE_HOST : RT_SCOPE_UNIVERSE,
		.rtm_type = RTN_LOCAL,
	};
	netlink_begin(batch, RTM_NEWROUTE, NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE, &route,
	              sizeof(route));
	netlink_put(batch, RTA_OIF, &index, sizeof(index));
	netlink_put(batch, RTA_PREFSRC, bytes, len);
}

int anyip_set_up(const struct anyip *anyip, bool *ret_has_v6)
{
	struct netlink_batch batch = {0};
	put_up(&batch);
	put_family(&batch, &anyip->v4);
	int r = netlink_send(&batch, NETLINK_ROUTE);
	if (r < 0)
		return r;
	batch = (struct netlink_batch){0};
	put_family(&batch, &anyip->v6);
	r = netlink_send(&batch, NETLINK_ROUTE);
	*ret_has_v6 = r >= 0;
	/* No IPv6 in the kernel, or switched off for new namespaces: then nothing leaves by it. */
	return r == -EAFNOSUPPORT || r == -EOPNOTSUPP || r == -EACCES || r == -EPERM ? 0 : r;
}

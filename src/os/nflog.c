#include "os/nflog.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_log.h>
#include <linux/netlink.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <netinet/udp.h>
#include <string.h>
#include <sys/socket.h>

#include "os/netlink.h"

/* HEAD_MOST: an IP header with every option, and what follows it. */
enum { HEAD_MOST = 128, MESSAGE_MOST = 4096 };

int nflog_open(uint16_t group)
{
	struct netlink_batch batch = {0};
	const struct nfulnl_msg_config_cmd bind = {.command = NFULNL_CFG_CMD_BIND};
	const struct nfulnl_msg_config_mode mode = {.copy_range = htonl(HEAD_MOST),
	                                            .copy_mode = NFULNL_COPY_PACKET};
	struct nfgenmsg head = {.nfgen_family = AF_UNSPEC, .res_id = htons(group)};
	auto_close int fd =
		socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_NETFILTER);
	if (fd < 0)
		return -errno;
	netlink_begin(&batch, (uint16_t)(NFNL_SUBSYS_ULOG << 8 | NFULNL_MSG_CONFIG), NLM_F_ACK,
	              &head, sizeof(head));
	netlink_put(&batch, NFULA_CFG_CMD, &bind, sizeof(bind));
	netlink_put(&batch, NFULA_CFG_MODE, &mode, sizeof(mode));
	netlink_put_be32(&batch, NFULA_CFG_QTHRESH, 1); /* else it gathers them for a second */
	int r = netlink_say(fd, &batch);
	return r < 0 ? r : take_fd(&fd);
}

static int read_ports(const uint8_t *bytes, size_t len, struct transparent_end *from,
                      struct transparent_end *to)
{
	struct udphdr udp;
	if (len < sizeof(udp))
		return -EBADMSG;
	memcpy(&udp, bytes, sizeof(udp));
	from->port = ntohs(udp.source);
	to->port = ntohs(udp.dest);
	return 0;
}

static int read_packet(const uint8_t *bytes, size_t len, struct transparent_end *from,
                       struct transparent_end *to)
{
	struct iphdr v4;
	struct ip6_hdr v6;
	if (len >= sizeof(v4) && bytes[0] >> 4 == 4) {
		memcpy(&v4, bytes, sizeof(v4));
		size_t at = (size_t)v4.ihl * 4;
		if (v4.protocol != IPPROTO_UDP || at < sizeof(v4) || at > len)
			return -EBADMSG;
		from->addr = addr_from_v4((const uint8_t *)&v4.saddr);
		to->addr = addr_from_v4((const uint8_t *)&v4.daddr);
		return read_ports(bytes + at, len - at, from, to);
	}
	if (len < sizeof(v6) || bytes[0] >> 4 != 6)
		return -EBADMSG;
	memcpy(&v6, bytes, sizeof(v6));
	if (v6.ip6_nxt != IPPROTO_UDP)
		return -EBADMSG;
	memcpy(from->addr.bytes, &v6.ip6_src, sizeof(from->addr.bytes));
	memcpy(to->addr.bytes, &v6.ip6_dst, sizeof(to->addr.bytes));
	return read_ports(bytes + sizeof(v6), len - sizeof(v6), from, to);
}

/* The packet in one message of the kernel. */
static int read_message(const uint8_t *bytes, size_t left, struct transparent_end *from,
                        struct transparent_end *to)
{
	struct nlmsghdr head;
	const size_t fixed = NLMSG_HDRLEN + NLMSG_ALIGN(sizeof(struct nfgenmsg));
	if (left < fixed)
		return -EBADMSG;
	memcpy(&head, bytes, sizeof(head));
	if (head.nlmsg_type != (NFNL_SUBSYS_ULOG << 8 | NFULNL_MSG_PACKET) ||
	    head.nlmsg_len < fixed || head.nlmsg_len > left)
		return -EBADMSG;
	left = head.nlmsg_len - fixed;
	bytes += fixed;
	while (left >= NLA_HDRLEN) {
		struct nlattr attribute;
		memcpy(&attribute, bytes, sizeof(attribute));
		size_t len = attribute.nla_len;
		if (len < NLA_HDRLEN || len > left)
			break;
		if ((attribute.nla_type & NLA_TYPE_MASK) == NFULA_PAYLOAD)
			return read_packet(bytes + NLA_HDRLEN, len - NLA_HDRLEN, from, to);
		size_t step = MIN((size_t)NLA_ALIGN(len), left);
		bytes += step;
		left -= step;
	}
	return -EBADMSG;
}

int nflog_next(int fd, struct transparent_end *ret_from, struct transparent_end *ret_to)
{
	uint8_t bytes[MESSAGE_MOST];
	struct transparent_end from = {0}, to = {0};
	ssize_t len = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);
	if (len < 0) /* ENOBUFS: more came than fit, and what fits is still to be read */
		return errno == ENOBUFS || errno == EINTR ? -EBADMSG : -errno;
	int r = read_message(bytes, (size_t)len, &from, &to);
	if (r < 0)
		return r;
	*ret_from = from;
	*ret_to = to;
	return 0;
}

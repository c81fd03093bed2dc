#include "os/transparent.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/in6.h>
#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <netinet/ip_icmp.h>
#include <netinet/udp.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#ifndef IPV6_HDRINCL
#define IPV6_HDRINCL 36
#endif

enum { V4_AT = 12, HOPS = 64, DATAGRAM_MOST = 65535 - 8 - 20, V4_BITS = 4 };

struct socket_address {
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	};
	socklen_t len;
};

static struct socket_address to_socket(const struct transparent_end *end, bool is_v6)
{
	struct socket_address out = {0};
	if (is_v6) {
		out.v6.sin6_family = AF_INET6;
		out.v6.sin6_port = htons(end->port);
		memcpy(&out.v6.sin6_addr, end->addr.bytes, sizeof(out.v6.sin6_addr));
		out.len = sizeof(out.v6);
	} else {
		out.v4.sin_family = AF_INET;
		out.v4.sin_port = htons(end->port);
		memcpy(&out.v4.sin_addr, end->addr.bytes + V4_AT, sizeof(out.v4.sin_addr));
		out.len = sizeof(out.v4);
	}
	return out;
}

static int from_socket(const struct socket_address *address, struct transparent_end *ret)
{
	if (address->any.sa_family == AF_INET) {
		ret->addr = addr_from_v4((const uint8_t *)&address->v4.sin_addr);
		ret->port = ntohs(address->v4.sin_port);
		return 0;
	}
	if (address->any.sa_family != AF_INET6)
		return -EAFNOSUPPORT;
	memcpy(ret->addr.bytes, &address->v6.sin6_addr, sizeof(ret->addr.bytes));
	ret->port = ntohs(address->v6.sin6_port);
	return 0;
}

static int set_on(int fd, int level, int option)
{
	int on = 1;
	return setsockopt(fd, level, option, &on, sizeof(on)) < 0 ? -errno : 0;
}

/* Accepted connections have it from their listener. */
static int set_mark(int fd)
{
	const uint32_t mark = TRANSPARENT_MARK;
	return setsockopt(fd, SOL_SOCKET, SO_MARK, &mark, sizeof(mark)) < 0 ? -errno : 0;
}

/* A bound socket; family options set. */
static int make_bound(const struct transparent_end *at, int type, int *ret_fd)
{
	bool is_v6 = !addr_is_v4(&at->addr);
	auto_close int fd =
		socket(is_v6 ? AF_INET6 : AF_INET, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	int r = set_mark(fd);
	if (r >= 0 && is_v6)
		r = set_on(fd, SOL_IPV6, IPV6_V6ONLY);
	if (r >= 0)
		r = is_v6 ? set_on(fd, SOL_IPV6, IPV6_TRANSPARENT)
		          : set_on(fd, SOL_IP, IP_TRANSPARENT);
	if (r >= 0 && type == SOCK_DGRAM)
		r = is_v6 ? set_on(fd, SOL_IPV6, IPV6_RECVORIGDSTADDR)
		          : set_on(fd, SOL_IP, IP_RECVORIGDSTADDR);
	struct socket_address address = to_socket(at, is_v6);
	if (r >= 0 && bind(fd, &address.any, address.len) < 0)
		r = -errno;
	if (r >= 0)
		*ret_fd = take_fd(&fd);
	return r;
}

int transparent_listen(const struct transparent_end *at, int backlog)
{
	auto_close int fd = -1;
	int r = make_bound(at, SOCK_STREAM, &fd);
	if (r >= 0 && listen(fd, backlog) < 0)
		r = -errno;
	return r < 0 ? r : take_fd(&fd);
}

int transparent_datagrams(const struct transparent_end *at)
{
	int fd = -1;
	int r = make_bound(at, SOCK_DGRAM, &fd);
	return r < 0 ? r : fd;
}

int transparent_raw(bool is_v6)
{
	auto_close int fd = socket(is_v6 ? AF_INET6 : AF_INET,
	                           SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_RAW);
	if (fd < 0)
		return -errno;
	int r = is_v6 ? set_on(fd, SOL_IPV6, IPV6_HDRINCL) : set_on(fd, SOL_IP, IP_HDRINCL);
	if (r >= 0)
		r = set_mark(fd);
	return r < 0 ? r : take_fd(&fd);
}

int transparent_local(int fd, struct transparent_end *ret)
{
	struct socket_address address = {.len = sizeof(address.v6)};
	if (getsockname(fd, &address.any, &address.len) < 0)
		return -errno;
	return from_socket(&address, ret);
}

int transparent_peer(int fd, struct transparent_end *ret)
{
	struct socket_address address = {.len = sizeof(address.v6)};
	if (getpeername(fd, &address.any, &address.len) < 0)
		return -errno;
	return from_socket(&address, ret);
}

static bool is_destination(const struct cmsghdr *head)
{
	return (head->cmsg_level == SOL_IP && head->cmsg_type == IP_ORIGDSTADDR) ||
	       (head->cmsg_level == SOL_IPV6 && head->cmsg_type == IPV6_ORIGDSTADDR);
}

ssize_t transparent_receive(int fd, void *bytes, size_t size, struct transparent_end *ret_from,
                            struct transparent_end *ret_to)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(struct sockaddr_in6))];
	struct socket_address from = {0}, to = {0};
	struct iovec part = {.iov_base = bytes, .iov_len = size};
	struct msghdr head = {.msg_name = &from.any,
	                      .msg_namelen = sizeof(from.v6),
	                      .msg_iov = &part,
	                      .msg_iovlen = 1,
	                      .msg_control = control,
	                      .msg_controllen = sizeof(control)};
	ssize_t len = recvmsg(fd, &head, MSG_DONTWAIT);
	if (len < 0)
		return -errno;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&head); c; c = CMSG_NXTHDR(&head, c)) {
		if (is_destination(c))
			memcpy(&to.v6, CMSG_DATA(c), MIN(c->cmsg_len - CMSG_LEN(0), sizeof(to.v6)));
	}
	int r = from_socket(&from, ret_from);
	if (r >= 0)
		r = from_socket(&to, ret_to);
	return r < 0 ? r : len;
}

/* --- packets --- */

static uint32_t sum_words(uint32_t sum, const void *bytes, size_t len)
{
	const uint8_t *at = bytes;
	for (; len >= 2; at += 2, len -= 2)
		sum += (uint32_t)at[0] << 8 | at[1];
	return len ? sum + ((uint32_t)at[0] << 8) : sum;
}

static uint16_t fold(uint32_t sum)
{
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return htons((uint16_t)~sum);
}

/* Over both addresses, length and protocol, as TCP, UDP and ICMPv6 want it (RFC 8200, 8.1). */
static uint32_t pseudo_sum(const struct transparent_end *from, const struct transparent_end *to,
                           size_t len, uint8_t protocol)
{
	bool is_v4 = addr_is_v4(&to->addr);
	size_t at = is_v4 ? V4_AT : 0;
	uint32_t sum = (uint32_t)len + protocol;
	sum = sum_words(sum, from->addr.bytes + at, sizeof(from->addr.bytes) - at);
	return sum_words(sum, to->addr.bytes + at, sizeof(to->addr.bytes) - at);
}

/* The IP header of a packet with len bytes behind it; returns how long it is. */
static size_t ip_header(uint8_t out[sizeof(struct ip6_hdr)], const struct transparent_end *from,
                        const struct transparent_end *to, uint8_t protocol, size_t len)
{
	if (addr_is_v4(&to->addr)) {
		struct iphdr head = {.version = V4_BITS,
		                     .ihl = sizeof(head) / 4,
		                     .tot_len = htons((uint16_t)(sizeof(head) + len)),
		                     .ttl = HOPS,
		                     .protocol = protocol};
		memcpy(&head.saddr, from->addr.bytes + V4_AT, sizeof(head.saddr));
		memcpy(&head.daddr, to->addr.bytes + V4_AT, sizeof(head.daddr));
		memcpy(out, &head, sizeof(head));
		uint16_t check = fold(sum_words(0, out, sizeof(head)));
		memcpy(out + offsetof(struct iphdr, check), &check, sizeof(check));
		return sizeof(head);
	}
	struct ip6_hdr head = {.ip6_flow = htonl(UINT32_C(6) << 28),
	                       .ip6_plen = htons((uint16_t)len),
	                       .ip6_nxt = protocol,
	                       .ip6_hlim = HOPS};
	memcpy(&head.ip6_src, from->addr.bytes, sizeof(head.ip6_src));
	memcpy(&head.ip6_dst, to->addr.bytes, sizeof(head.ip6_dst));
	memcpy(out, &head, sizeof(head));
	return sizeof(head);
}

static int send_packet(int raw, const struct transparent_end *to, struct iovec *parts, size_t count)
{
	struct transparent_end where = {.addr = to->addr}; /* raw sockets know no port */
	struct socket_address address = to_socket(&where, !addr_is_v4(&to->addr));
	struct msghdr head = {.msg_name = &address.any,
	                      .msg_namelen = address.len,
	                      .msg_iov = parts,
	                      .msg_iovlen = count};
	return sendmsg(raw, &head, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -errno : 0;
}

int transparent_send_udp(int raw, const struct transparent_end *from,
                         const struct transparent_end *to, const void *bytes, size_t len)
{
	uint8_t ip[sizeof(struct ip6_hdr)];
	if (len > DATAGRAM_MOST)
		return -EMSGSIZE;
	struct udphdr udp = {.source = htons(from->port),
	                     .dest = htons(to->port),
	                     .len = htons((uint16_t)(sizeof(udp) + len))};
	uint32_t sum = pseudo_sum(from, to, sizeof(udp) + len, IPPROTO_UDP);
	sum = sum_words(sum, &udp, sizeof(udp));
	udp.check = fold(sum_words(sum, bytes, len));
	if (udp.check == 0)
		udp.check = 0xffff; /* zero would mean: none */
	struct iovec parts[] = {
		{ip, ip_header(ip, from, to, IPPROTO_UDP, sizeof(udp) + len)},
		{&udp, sizeof(udp)},
		{(void *)(uintptr_t)bytes, len},
	};
	return send_packet(raw, to, parts, ARRAY_LEN(parts));
}

int transparent_refuse_udp(int raw, const struct transparent_end *from,
                           const struct transparent_end *to)
{
	uint8_t ip[sizeof(struct ip6_hdr)] = {0}, refused[sizeof(struct ip6_hdr)] = {0};
	bool is_v4 = addr_is_v4(&to->addr);
	struct udphdr udp = {
		.source = htons(from->port), .dest = htons(to->port), .len = htons(sizeof(udp))};
	size_t refused_len = ip_header(refused, from, to, IPPROTO_UDP, sizeof(udp));
	/* The same eight bytes in both families but for the numbers: type, code, sum, four unused.
	 */
	uint8_t icmp[8] = {is_v4 ? ICMP_DEST_UNREACH : ICMP6_DST_UNREACH,
	                   is_v4 ? ICMP_PKT_FILTERED : ICMP6_DST_UNREACH_ADMIN};
	uint8_t protocol = is_v4 ? IPPROTO_ICMP : IPPROTO_ICMPV6;
	size_t len = sizeof(icmp) + refused_len + sizeof(udp);
	uint32_t sum = is_v4 ? 0 : pseudo_sum(to, from, len, protocol);
	sum = sum_words(sum, icmp, sizeof(icmp));
	sum = sum_words(sum, refused, refused_len);
	uint16_t check = fold(sum_words(sum, &udp, sizeof(udp)));
	memcpy(icmp + 2, &check, sizeof(check));
	struct iovec parts[] = {
		{ip, ip_header(ip, to, from, protocol, len)},
		{icmp, sizeof(icmp)},
		{refused, refused_len},
		{&udp, sizeof(udp)},
	};
	return send_packet(raw, from, parts, ARRAY_LEN(parts));
}

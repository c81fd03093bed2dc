#include "os/netlink.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* The first interface of every network namespace (LOOPBACK_IFINDEX in the kernel). */
enum { LOOPBACK_INDEX = 1, ANSWER_BYTES = 8192 };

/* len bytes at the end, rounded up to what netlink aligns to; NULL when full. */
static uint8_t *append(struct netlink_batch *batch, size_t len)
{
	size_t room = NLMSG_ALIGN(len);
	if (batch->overflow || room > sizeof(batch->bytes) - batch->len) {
		batch->overflow = true;
		return NULL;
	}
	uint8_t *at = batch->bytes + batch->len;
	memset(at, 0, room);
	batch->len += room;
	/* The length of the message grows with everything put into it. */
	struct nlmsghdr *head = (struct nlmsghdr *)(void *)(batch->bytes + batch->message);
	head->nlmsg_len = (uint32_t)(batch->len - batch->message);
	return at;
}

void netlink_begin(struct netlink_batch *batch, uint16_t type, uint16_t flags, const void *fixed,
                   size_t len)
{
	batch->message = batch->len;
	uint8_t *at = append(batch, sizeof(struct nlmsghdr));
	if (!at)
		return;
	struct nlmsghdr *head = (struct nlmsghdr *)(void *)at;
	head->nlmsg_type = type;
	head->nlmsg_flags = (uint16_t)(NLM_F_REQUEST | flags);
	head->nlmsg_seq = ++batch->count;
	batch->answers += (flags & NLM_F_ACK) != 0;
	at = append(batch, len);
	if (at)
		memcpy(at, fixed, len);
}

void netlink_put(struct netlink_batch *batch, uint16_t attribute, const void *bytes, size_t len)
{
	uint8_t *at = append(batch, NLA_HDRLEN + len);
	if (!at)
		return;
	struct nlattr head = {.nla_len = (uint16_t)(NLA_HDRLEN + len), .nla_type = attribute};
	memcpy(at, &head, sizeof(head));
	if (len > 0)
		memcpy(at + NLA_HDRLEN, bytes, len);
}

void netlink_put_str(struct netlink_batch *batch, uint16_t attribute, const char *text)
{
	netlink_put(batch, attribute, text, strlen(text) + 1);
}

void netlink_put_be32(struct netlink_batch *batch, uint16_t attribute, uint32_t value)
{
	uint32_t big = htonl(value);
	netlink_put(batch, attribute, &big, sizeof(big));
}

size_t netlink_nest(struct netlink_batch *batch, uint16_t attribute)
{
	size_t nest = batch->len;
	netlink_put(batch, attribute | NLA_F_NESTED, NULL, 0);
	return nest;
}

void netlink_unnest(struct netlink_batch *batch, size_t nest)
{
	if (batch->overflow)
		return;
	struct nlattr head;
	memcpy(&head, batch->bytes + nest, sizeof(head));
	head.nla_len = (uint16_t)(batch->len - nest);
	memcpy(batch->bytes + nest, &head, sizeof(head));
}

/* The answers in one packet: the first error among them; counts them. */
static int read_answers(const uint8_t *bytes, size_t left, uint32_t *count)
{
	while (left >= sizeof(struct nlmsghdr)) {
		struct nlmsghdr head;
		struct nlmsgerr answer;
		memcpy(&head, bytes, sizeof(head));
		size_t len = NLMSG_ALIGN(head.nlmsg_len);
		if (head.nlmsg_len < sizeof(head) + sizeof(answer.error) || head.nlmsg_len > left ||
		    head.nlmsg_type != NLMSG_ERROR)
			return -EBADMSG;
		memcpy(&answer.error, bytes + sizeof(head), sizeof(answer.error));
		if (answer.error != 0)
			return answer.error;
		(*count)++;
		bytes += MIN(len, left);
		left -= MIN(len, left);
	}
	return 0;
}

int netlink_say(int fd, const struct netlink_batch *batch)
{
	uint8_t answer[ANSWER_BYTES];
	if (batch->overflow)
		return -ENOBUFS;
	/* An unconnected netlink socket sends to the kernel, and the kernel answers before send
	 * returns, so nothing here ever waits. */
	if (send(fd, batch->bytes, batch->len, 0) < 0)
		return -errno;
	uint32_t count = 0;
	while (count < batch->answers) {
		ssize_t len = recv(fd, answer, sizeof(answer), MSG_DONTWAIT);
		if (len < 0 && errno == EINTR)
			continue;
		int r = len < 0 ? -errno : read_answers(answer, (size_t)len, &count);
		if (r < 0)
			return r == -EAGAIN ? -EBADMSG : r;
	}
	return 0;
}

int netlink_send(const struct netlink_batch *batch, int protocol)
{
	auto_close int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol);
	return fd < 0 ? -errno : netlink_say(fd, batch);
}

int netlink_loopback_up(void)
{
	struct netlink_batch batch = {0};
	struct ifinfomsg info = {
		.ifi_family = AF_UNSPEC,
		.ifi_index = LOOPBACK_INDEX,
		.ifi_flags = IFF_UP,
		.ifi_change = IFF_UP,
	};
	netlink_begin(&batch, RTM_NEWLINK, NLM_F_ACK, &info, sizeof(info));
	return netlink_send(&batch, NETLINK_ROUTE);
}

#include "os/netlink.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* The first interface of every network namespace (LOOPBACK_IFINDEX in the kernel). */
enum { LOOPBACK_INDEX = 1 };

static int read_ack(int fd)
{
	struct {
		struct nlmsghdr head;
		struct nlmsgerr error;
	} answer;
	ssize_t len;

	do
		len = recv(fd, &answer, sizeof(answer), 0);
	while (len < 0 && errno == EINTR);
	if (len < 0)
		return -errno;
	if ((size_t)len < sizeof(answer.head) + sizeof(answer.error.error) ||
	    answer.head.nlmsg_type != NLMSG_ERROR)
		return -EBADMSG;
	return answer.error.error;
}

int netlink_loopback_up(void)
{
	struct {
		struct nlmsghdr head;
		struct ifinfomsg info;
	} request = {
		.head =
			{
				.nlmsg_len = sizeof(request),
				.nlmsg_type = RTM_NEWLINK,
				.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK,
				.nlmsg_seq = 1,
			},
		.info =
			{
				.ifi_family = AF_UNSPEC,
				.ifi_index = LOOPBACK_INDEX,
				.ifi_flags = IFF_UP,
				.ifi_change = IFF_UP,
			},
	};
	auto_close int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);

	if (fd < 0)
		return -errno;
	/* An unconnected netlink socket sends to the kernel, and the kernel answers before send
	 * returns, so the read never waits. */
	if (send(fd, &request, sizeof(request), 0) < 0)
		return -errno;
	return read_ack(fd);
}

#include "os/netlink.h"

#include <errno.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include "harness/test.h"
#include "own_ns.h"

static int connect_to_loopback(void)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET,
		.sin_port = htons(9),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	auto_close int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	CHECK(fd >= 0);
	return connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0 ? -errno : 0;
}

TEST(loopback_comes_up)
{
	if (!own_ns(CLONE_NEWNET))
		SKIP("no network namespace");
	CHECK_INT(connect_to_loopback(), -ENETUNREACH);
	CHECK_INT(netlink_loopback_up(), 0);
	CHECK_INT(connect_to_loopback(), -ECONNREFUSED);
	CHECK_INT(netlink_loopback_up(), 0);
}

TEST(without_rights_it_stays_down)
{
	if (geteuid() != 0 || !own_ns(CLONE_NEWNET))
		SKIP("no network namespace");
	CHECK(setresuid(65534, 65534, 65534) == 0);
	CHECK_INT(netlink_loopback_up(), -EPERM);
}

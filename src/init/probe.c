#include "init/probe.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PATIENCE_MS = 500, PORT_DNS = 53, ID = 0x0c10, NO_NAME = 3, MESSAGE = 512 };

static int open_to(const char *address, uint16_t port, int type, int *ret_fd)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
	if (inet_pton(AF_INET, address, &to.sin_addr) != 1)
		return -EINVAL;
	auto_close int fd = socket(AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	if (connect(fd, (const struct sockaddr *)&to, sizeof(to)) < 0 && errno != EINPROGRESS)
		return -errno;
	*ret_fd = take_fd(&fd);
	return 0;
}

static ssize_t wait_and_read(int fd, void *bytes, size_t size)
{
	struct pollfd ready = {.fd = fd, .events = POLLIN};
	int n;
	do {
		n = poll(&ready, 1, PATIENCE_MS);
	} while (n < 0 && errno == EINTR);
	if (n <= 0)
		return -ETIMEDOUT;
	ssize_t got = recv(fd, bytes, size, MSG_DONTWAIT);
	return got < 0 ? -errno : got;
}

/* Refused is a reset or an error; not bytes, not a proper end, not silence. */
static int probe_address(const char *address, uint16_t port, struct err *err)
{
	char byte;
	auto_close int fd = -1;
	int r = open_to(address, port, SOCK_STREAM, &fd);
	ssize_t got = r < 0 ? r : wait_and_read(fd, &byte, 1);
	if (got == -ETIMEDOUT)
		return err_set(err, ERR_INTERNAL, "nothing refused a connection to %s:%u", address,
		               port);
	if (got >= 0)
		return err_set(err, ERR_INTERNAL, "something answered at %s:%u", address, port);
	return 0;
}

/* A question for the address of name, written by hand: one label after the other. */
static size_t write_question(const char *name, uint8_t out[MESSAGE])
{
	static const uint8_t head[] = {ID >> 8, ID & 0xff, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0};
	static const uint8_t tail[] = {0, 0, 1, 0, 1};
	size_t len = sizeof(head);
	memcpy(out, head, sizeof(head));
	while (*name != '\0') {
		size_t label = strcspn(name, ".");
		if (label == 0 || label > 63 || len + label + 1 + sizeof(tail) > MESSAGE)
			return 0;
		out[len++] = (uint8_t)label;
		memcpy(out + len, name, label);
		len += label;
		name += label + (name[label] == '.');
	}
	memcpy(out + len, tail, sizeof(tail));
	return len + sizeof(tail);
}

static int probe_name(const char *name, const char *resolver, struct err *err)
{
	uint8_t bytes[MESSAGE];
	auto_close int fd = -1;
	size_t len = write_question(name, bytes);
	int r = len == 0 ? -EINVAL : open_to(resolver, PORT_DNS, SOCK_DGRAM, &fd);
	if (r >= 0 && send(fd, bytes, len, MSG_NOSIGNAL) != (ssize_t)len)
		r = -errno;
	ssize_t got = r < 0 ? r : wait_and_read(fd, bytes, sizeof(bytes));
	if (got < 12)
		return err_set(err, ERR_INTERNAL, "no name server answered inside");
	if ((bytes[3] & 0x0f) != NO_NAME || bytes[6] != 0 || bytes[7] != 0)
		return err_set(err, ERR_INTERNAL, "the name %s was not refused", name);
	return 0;
}

int probe_run(const char *address, uint16_t port, const char *name, const char *resolver,
              struct err *err)
{
	if (probe_address(address, port, err) < 0)
		return -1;
	return probe_name(name, resolver, err);
}

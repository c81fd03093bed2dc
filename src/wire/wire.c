/*
 * Layout of a message:
 *	u32 magic, u16 version, u16 type, u64 request, then fields
 *	field: u16 tag, u16 zero, u32 length, bytes, one NUL that is not counted
 * The NUL after each field lets wire_str return pointers into the message. wire_parse walks all
 * fields once and checks every length and NUL; after that the getters only repeat the walk.
 */
#include "wire/wire.h"

#include <endian.h>
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/io.h"
#include "base/must.h"

enum { MAGIC = 0x31484c43, HEADER = 16, FIELD_HEADER = 8 };

static uint16_t get_u16(const uint8_t *p)
{
	uint16_t v;
	memcpy(&v, p, sizeof(v));
	return le16toh(v);
}

static uint32_t get_u32(const uint8_t *p)
{
	uint32_t v;
	memcpy(&v, p, sizeof(v));
	return le32toh(v);
}

static uint64_t get_u64(const uint8_t *p)
{
	uint64_t v;
	memcpy(&v, p, sizeof(v));
	return le64toh(v);
}

/* --- writing --- */

/* The memory of the last message, for the next: most are small and gone a moment later, and musl
 * gives their pages back each time, which takes longer than to write them. */
static _Thread_local struct {
	uint8_t *bytes;
	size_t size;
} spare;

enum { SPARE_MOST = 4096 };

static void take_spare(struct buf *buf)
{
	buf->bytes = take_ptr(spare.bytes);
	buf->size = buf->bytes ? spare.size : 0;
}

static void keep_spare(struct buf *buf)
{
	if (spare.bytes || buf->size > SPARE_MOST)
		return;
	spare.size = buf->size;
	spare.bytes = take_ptr(buf->bytes);
}

void wire_begin(struct wire_out *out, enum wire_type type, uint64_t request)
{
	*out = (struct wire_out){0};
	buf_init(&out->buf, LIMIT_WIRE_BYTES);
	take_spare(&out->buf);
	uint8_t *head = buf_reserve(&out->buf, HEADER);
	must(head != NULL);
	uint32_t magic = htole32(MAGIC);
	uint16_t version = htole16(WIRE_VERSION);
	uint16_t number = htole16((uint16_t)type);
	uint64_t id = htole64(request);
	memcpy(head, &magic, 4);
	memcpy(head + 4, &version, 2);
	memcpy(head + 6, &number, 2);
	memcpy(head + 8, &id, 8);
	buf_commit(&out->buf, HEADER);
}

void wire_done(struct wire_out *out)
{
	keep_spare(&out->buf);
	buf_done(&out->buf);
}

void wire_put_bytes(struct wire_out *out, enum wire_field field, const void *bytes, size_t len)
{
	if (len > LIMIT_WIRE_BYTES || buf_room(&out->buf) < FIELD_HEADER + len + 1) {
		out->overflow = true;
		return;
	}
	uint8_t *to = buf_reserve(&out->buf, FIELD_HEADER + len + 1);
	must(to != NULL);
	uint16_t tag = htole16((uint16_t)field);
	uint32_t length = htole32((uint32_t)len);
	memcpy(to, &tag, 2);
	memset(to + 2, 0, 2);
	memcpy(to + 4, &length, 4);
	if (len > 0)
		memcpy(to + FIELD_HEADER, bytes, len);
	to[FIELD_HEADER + len] = 0;
	buf_commit(&out->buf, FIELD_HEADER + len + 1);
}

void wire_put_u64(struct wire_out *out, enum wire_field field, uint64_t value)
{
	uint64_t little = htole64(value);
	wire_put_bytes(out, field, &little, sizeof(little));
}

void wire_put_str(struct wire_out *out, enum wire_field field, const char *value)
{
	wire_put_bytes(out, field, value, strlen(value));
}

void wire_put_fd(struct wire_out *out, int fd)
{
	if (out->fd_count == ARRAY_LEN(out->fds)) {
		out->overflow = true;
		return;
	}
	out->fds[out->fd_count++] = fd;
}

void wire_put_err(struct wire_out *out, const struct err *err)
{
	wire_put_u64(out, FIELD_ERR_CODE, (uint64_t)err->code);
	wire_put_u64(out, FIELD_ERR_SYS, (uint64_t)err->sys);
	wire_put_str(out, FIELD_ERR_TEXT, err->msg);
}

const uint8_t *wire_bytes(const struct wire_out *out, size_t *ret_len)
{
	*ret_len = buf_len(&out->buf);
	return buf_head(&out->buf);
}

static void attach_fds(struct msghdr *header, char *control, const struct wire_out *out)
{
	size_t bytes = out->fd_count * sizeof(int);
	header->msg_control = control;
	header->msg_controllen = CMSG_SPACE(bytes);
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(header);
	cmsg->cmsg_level = SOL_SOCKET;
	cmsg->cmsg_type = SCM_RIGHTS;
	cmsg->cmsg_len = CMSG_LEN(bytes);
	memcpy(CMSG_DATA(cmsg), out->fds, bytes);
}

int wire_send(int sock, const struct wire_out *out)
{
	if (out->overflow)
		return -EMSGSIZE;
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(LIMIT_WIRE_FDS * sizeof(int))] = {0};
	size_t len;
	const uint8_t *bytes = wire_bytes(out, &len);
	struct iovec iov = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = len};
	struct msghdr header = {.msg_iov = &iov, .msg_iovlen = 1};
	if (out->fd_count > 0)
		attach_fds(&header, control, out);
	for (;;) {
		ssize_t n = sendmsg(sock, &header, MSG_NOSIGNAL);
		if (n >= 0)
			return 0;
		if (errno != EINTR)
			return -errno;
	}
}

/* --- reading --- */

static int check_fields(const uint8_t *at, size_t left)
{
	for (size_t count = 0; left > 0; count++) {
		if (count == LIMIT_WIRE_FIELDS || left < FIELD_HEADER + 1)
			return -EPROTO;
		size_t len = get_u32(at + 4);
		if (len > left - FIELD_HEADER - 1 || at[FIELD_HEADER + len] != 0)
			return -EPROTO;
		at += FIELD_HEADER + len + 1;
		left -= FIELD_HEADER + len + 1;
	}
	return 0;
}

int wire_parse(const uint8_t *bytes, size_t len, struct wire_msg *ret)
{
	if (len < HEADER || get_u32(bytes) != MAGIC || get_u16(bytes + 4) == 0)
		return -EPROTO;
	if (check_fields(bytes + HEADER, len - HEADER) < 0)
		return -EPROTO;
	*ret = (struct wire_msg){
		.type = (enum wire_type)get_u16(bytes + 6),
		.request = get_u64(bytes + 8),
		.fields = bytes + HEADER,
		.fields_len = len - HEADER,
	};
	return 0;
}

/* Collects the fds of a received packet; anything beyond the table is closed. */
static size_t collect_fds(struct msghdr *header, int *fds, pid_t *ret_sender)
{
	size_t count = 0;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(header); c; c = CMSG_NXTHDR(header, c)) {
		if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_CREDENTIALS) {
			struct ucred cred;
			memcpy(&cred, CMSG_DATA(c), sizeof(cred));
			*ret_sender = cred.pid;
		}
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < n; i++) {
			int fd;
			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
			if (count < LIMIT_WIRE_FDS)
				fds[count++] = fd;
			else
				(void)close(fd); /* more than anybody may send */
		}
	}
	return count;
}

int wire_recv(int sock, uint8_t *bytes, size_t size, struct wire_msg *ret)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(LIMIT_WIRE_FDS * sizeof(int)) +
	                                      CMSG_SPACE(sizeof(struct ucred))];
	struct iovec iov = {.iov_base = bytes, .iov_len = size};
	struct msghdr header = {.msg_iov = &iov,
	                        .msg_iovlen = 1,
	                        .msg_control = control,
	                        .msg_controllen = sizeof(control)};
	ssize_t n;
	int resets = 0;
	/* A peer that went without reading all of ours: told once, before its own last words. */
	do {
		n = recvmsg(sock, &header, MSG_CMSG_CLOEXEC);
	} while (n < 0 && (errno == EINTR || (errno == ECONNRESET && resets++ == 0)));
	if (n < 0)
		return errno == ECONNRESET ? 0 : -errno;
	int fds[LIMIT_WIRE_FDS];
	pid_t sender = 0;
	size_t fd_count = collect_fds(&header, fds, &sender);
	if (n == 0 && fd_count == 0)
		return 0;
	int r = header.msg_flags & (MSG_TRUNC | MSG_CTRUNC) ? -EPROTO
	                                                    : wire_parse(bytes, (size_t)n, ret);
	if (r < 0) {
		for (size_t i = 0; i < fd_count; i++)
			(void)close(fds[i]); /* malformed: nobody will take them */
		return r;
	}
	memcpy(ret->fds, fds, fd_count * sizeof(int));
	ret->fd_count = fd_count;
	ret->sender = sender;
	return 1;
}

void wire_msg_done(struct wire_msg *msg)
{
	for (size_t i = 0; i < msg->fd_count; i++)
		fd_closep(&msg->fds[i]);
	msg->fd_count = 0;
}

int wire_take_fd(struct wire_msg *msg, size_t index)
{
	return index < msg->fd_count ? take_fd(&msg->fds[index]) : -1;
}

/* The next field with this tag at or after *at; *at moves behind it. NULL at the end. */
static const uint8_t *next_field(const struct wire_msg *msg, enum wire_field field, size_t *at,
                                 size_t *ret_len)
{
	while (*at < msg->fields_len) {
		const uint8_t *p = msg->fields + *at;
		size_t len = get_u32(p + 4);
		*at += FIELD_HEADER + len + 1;
		if (get_u16(p) == (uint16_t)field) {
			*ret_len = len;
			return p + FIELD_HEADER;
		}
	}
	return NULL;
}

bool wire_has(const struct wire_msg *msg, enum wire_field field)
{
	size_t at = 0, len;
	return next_field(msg, field, &at, &len) != NULL;
}

uint64_t wire_u64(const struct wire_msg *msg, enum wire_field field, uint64_t otherwise)
{
	size_t at = 0, len;
	const uint8_t *p = next_field(msg, field, &at, &len);
	return p && len == sizeof(uint64_t) ? get_u64(p) : otherwise;
}

const char *wire_next_str(const struct wire_msg *msg, enum wire_field field, size_t *at)
{
	size_t len;
	const uint8_t *p;
	while ((p = next_field(msg, field, at, &len)) != NULL) {
		if (memchr(p, 0, len) == NULL)
			return (const char *)p;
	}
	return NULL;
}

const char *wire_str(const struct wire_msg *msg, enum wire_field field, const char *otherwise)
{
	size_t at = 0;
	const char *s = wire_next_str(msg, field, &at);
	return s ? s : otherwise;
}

const uint8_t *wire_blob(const struct wire_msg *msg, enum wire_field field, size_t *ret_len)
{
	size_t at = 0;
	*ret_len = 0;
	return next_field(msg, field, &at, ret_len);
}

size_t wire_count(const struct wire_msg *msg, enum wire_field field)
{
	size_t at = 0, len, count = 0;
	while (next_field(msg, field, &at, &len))
		count++;
	return count;
}

int wire_get_err(const struct wire_msg *msg, struct err *err)
{
	if (msg->type != WIRE_ERROR && !wire_has(msg, FIELD_ERR_CODE))
		return 0;
	(void)err_set(err, err_from_number(wire_u64(msg, FIELD_ERR_CODE, ERR_INTERNAL)), "%s",
	              wire_str(msg, FIELD_ERR_TEXT, "no reason given"));
	if (err) {
		if (err->code == ERR_OK)
			err->code = ERR_INTERNAL;
		err->sys = (int)(wire_u64(msg, FIELD_ERR_SYS, 0) & 0xffff);
	}
	return -1;
}

/* --- sockets --- */

/* An address for dir_fd/name: through /proc/self/fd so that long state paths still fit. */
static int make_address(int dir_fd, const char *name, struct sockaddr_un *ret)
{
	*ret = (struct sockaddr_un){.sun_family = AF_UNIX};
	int n = snprintf(ret->sun_path, sizeof(ret->sun_path), "/proc/self/fd/%d/%s", dir_fd, name);
	return n < 0 || (size_t)n >= sizeof(ret->sun_path) ? -ENAMETOOLONG : 0;
}

int wire_listen(int dir_fd, const char *name, mode_t mode)
{
	struct sockaddr_un address;
	int r = make_address(dir_fd, name, &address);
	if (r < 0)
		return r;
	auto_close int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (sock < 0)
		return -errno;
	if (unlinkat(dir_fd, name, 0) < 0 && errno != ENOENT)
		return -errno;
	if (bind(sock, (struct sockaddr *)&address, sizeof(address)) < 0)
		return -errno;
	/* Nobody can connect before listen, so the mode is right from the first connection. */
	if (fchmodat(dir_fd, name, mode, 0) < 0 || listen(sock, 64) < 0)
		return -errno;
	return take_fd(&sock);
}

int wire_connect(int dir_fd, const char *name)
{
	struct sockaddr_un address;
	int r = make_address(dir_fd, name, &address);
	if (r < 0)
		return r;
	auto_close int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (sock < 0)
		return -errno;
	if (connect(sock, (struct sockaddr *)&address, sizeof(address)) < 0)
		return -errno;
	return take_fd(&sock);
}

int wire_pair(int ret_fds[2])
{
	return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ret_fds) < 0 ? -errno : 0;
}

int wire_know_sender(int sock)
{
	int on = 1;
	return setsockopt(sock, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) < 0 ? -errno : 0;
}

int wire_peer(int sock, uid_t *ret_uid, pid_t *ret_pid)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);
	if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
		return -errno;
	*ret_uid = cred.uid;
	*ret_pid = cred.pid;
	return 0;
}

static int wait_readable(int sock, uint64_t until_ms)
{
	for (;;) {
		uint64_t now = io_boot_ms();
		if (now >= until_ms)
			return -ETIMEDOUT;
		struct pollfd p = {.fd = sock, .events = POLLIN};
		int n = poll(&p, 1, (int)MIN(until_ms - now, (uint64_t)60000));
		if (n > 0)
			return 0;
		if (n < 0 && errno != EINTR)
			return -errno;
	}
}

int wire_call(int sock, const struct wire_out *out, uint8_t *bytes, int timeout_ms,
              struct wire_msg *ret, struct err *err)
{
	size_t len;
	uint64_t request = get_u64(wire_bytes(out, &len) + 8);
	uint64_t until = io_boot_ms() + (uint64_t)timeout_ms;
	int r = wire_send(sock, out);
	while (r >= 0) {
		r = wait_readable(sock, until);
		if (r < 0)
			break;
		r = wire_recv(sock, bytes, LIMIT_WIRE_BYTES, ret);
		if (r == 0)
			return err_set(err, ERR_UNAVAILABLE,
			               "the other side closed the connection");
		if (r > 0 && ret->request == request) {
			if (wire_get_err(ret, err) == 0)
				return 0;
			wire_msg_done(ret);
			return -1;
		}
		if (r > 0)
			wire_msg_done(ret); /* a notification: not ours to answer */
	}
	return err_sys(err, -r, "wait for an answer");
}

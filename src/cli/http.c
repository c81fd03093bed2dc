#include "cli/http.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"

enum { IN_BYTES = 128 * 1024, STREAM_BYTES = 64 * 1024, CHUNK_HEAD = 16 };

void http_init(struct http *http)
{
	*http = (struct http){.fd = -1, .interrupt_fd = -1, .wait_ms = -1};
	buf_init(&http->in, IN_BYTES);
}

void http_close(struct http *http)
{
	fd_closep(&http->fd);
	buf_done(&http->in);
	http->body = (struct http_body){0};
	buf_init(&http->in, IN_BYTES);
}

void http_adopt(struct http *http, int fd)
{
	http_close(http);
	http->fd = fd;
	http->head = (struct http_head){.keep_alive = true};
}

/* A socket address holds 107 bytes of path; where that is too few, a descriptor of the folder
 * makes it short. */
static int connect_in(const char *dir, const char *name)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	auto_close int dir_fd = -1;
	int len = snprintf(address.sun_path, sizeof(address.sun_path), "%s/%s", dir, name);

	if (len < 0 || (size_t)len >= sizeof(address.sun_path)) {
		dir_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (dir_fd < 0)
			return -errno;
		len = snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/%s",
		               dir_fd, name);
	}
	if (len < 0 || (size_t)len >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
		return -errno;
	return take_fd(&fd);
}

int http_open(struct http *http, const char *dir, const char *name, struct err *err)
{
	int fd = connect_in(dir, name);

	if (fd == -ENOENT || fd == -ECONNREFUSED || fd == -ENOTDIR)
		return err_set(err, ERR_UNAVAILABLE,
		               "no daemon serves %s (start one with 'cloche serve')", dir);
	if (fd == -EACCES || fd == -EPERM)
		return err_set(err, ERR_FORBIDDEN, "you may not use the daemon of %s", dir);
	if (fd < 0)
		return err_sys(err, -fd, "connect to the daemon of %s", dir);
	http_adopt(http, fd);
	return 0;
}

static int lost(struct err *err, bool answered)
{
	return err_set(err, answered ? ERR_PROTOCOL : ERR_UNAVAILABLE,
	               answered ? "the daemon's answer broke off"
	                        : "the daemon closed the connection");
}

static int put_head(struct buf *to, const struct http *http, const struct http_request *request)
{
	int r = buf_printf(to, "%s %s HTTP/1.1\r\nHost: %s\r\nAccept: %s\r\n", request->method,
	                   request->target, http->host[0] != '\0' ? http->host : "cloche",
	                   request->accept == NULL ? "application/json" : request->accept);

	if (r >= 0 && http->key != NULL)
		r = buf_printf(to, "Authorization: Bearer %s\r\n", http->key);

	if (r >= 0 && request->content_type != NULL)
		r = buf_printf(to, "Content-Type: %s\r\n", request->content_type);
	if (r >= 0 && request->has_stream && request->stream_len == UINT64_MAX)
		r = buf_puts(to, "Transfer-Encoding: chunked\r\n");
	else if (r >= 0 && request->has_stream)
		r = buf_printf(to, "Content-Length: %llu\r\n",
		               (unsigned long long)request->stream_len);
	else if (r >= 0 && (request->body_len > 0 || request->content_type != NULL))
		r = buf_printf(to, "Content-Length: %zu\r\n", request->body_len);
	if (r >= 0 && request->headers != NULL)
		r = buf_puts(to, request->headers);
	if (r >= 0)
		r = buf_puts(to, "\r\n");
	if (r >= 0 && request->early != NULL)
		r = buf_put(to, buf_head(request->early), buf_len(request->early));
	if (r >= 0 && request->body_len > 0)
		r = buf_put(to, request->body, request->body_len);
	return r;
}

/* 1: sent; 0: the server answers or left before it took everything; -errno. */
static int send_all(const struct http *http, const uint8_t *bytes, size_t len)
{
	while (len > 0) {
		struct pollfd pollfd = {.fd = http->fd, .events = POLLIN | POLLOUT};

		if (poll(&pollfd, 1, -1) < 0) {
			if (errno == EINTR)
				continue;
			return -errno;
		}
		if (pollfd.revents & POLLIN)
			return 0;
		ssize_t sent = send(http->fd, bytes, len, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (sent < 0 && (errno == EPIPE || errno == ECONNRESET))
			return 0;
		if (sent < 0 && errno != EAGAIN && errno != EINTR)
			return -errno;
		bytes += sent > 0 ? (size_t)sent : 0;
		len -= sent > 0 ? (size_t)sent : 0;
	}
	return 1;
}

/* 1: sent; 0: cut; -1 with err and the connection closed. */
static int send_or_cut(struct http *http, const void *bytes, size_t len, struct err *err)
{
	int r = http->is_cut ? 0 : send_all(http, bytes, len);

	if (r < 0) {
		http_close(http);
		return err_sys(err, -r, "send to the daemon");
	}
	http->is_cut = r == 0;
	return r;
}

int http_begin(struct http *http, const struct http_request *request, struct err *err)
{
	auto_(buf_done) struct buf head;

	size_t early = request->early == NULL ? 0 : buf_len(request->early);

	buf_init(&head, HTTP_HEAD_MAX + early + request->body_len);
	if (put_head(&head, http, request) < 0)
		return err_set(err, ERR_TOO_LARGE, "the request is too long");
	http->is_cut = false;
	http->is_head = strcmp(request->method, "HEAD") == 0;
	http->is_chunked = request->has_stream && request->stream_len == UINT64_MAX;
	http->unsent = request->has_stream && !http->is_chunked ? request->stream_len : 0;
	return send_or_cut(http, buf_head(&head), buf_len(&head), err) < 0 ? -1 : 0;
}

int http_send(struct http *http, const void *bytes, size_t len, struct err *err)
{
	char head[CHUNK_HEAD];

	if (!http->is_chunked && len > http->unsent)
		return err_set(err, ERR_IO, "the file became longer while it was sent");
	if (len == 0 || http->is_cut)
		return !http->is_cut;
	if (!http->is_chunked) {
		http->unsent -= len;
		return send_or_cut(http, bytes, len, err);
	}
	int head_len = snprintf(head, sizeof(head), "%zx\r\n", len);
	int r = send_or_cut(http, head, (size_t)head_len, err);

	if (r > 0)
		r = send_or_cut(http, bytes, len, err);
	return r > 0 ? send_or_cut(http, "\r\n", 2, err) : r;
}

/* 0 when there is something to read, -ECANCELED, -ETIMEDOUT, or another -errno. */
static int wait_readable(const struct http *http)
{
	struct pollfd fds[2] = {{.fd = http->fd, .events = POLLIN},
	                        {.fd = http->interrupt_fd, .events = POLLIN}};

	int ready;

	while ((ready = poll(fds, ARRAY_LEN(fds), http->wait_ms)) < 0)
		if (errno != EINTR)
			return -errno;
	if (ready == 0)
		return -ETIMEDOUT;
	return fds[0].revents == 0 && fds[1].revents != 0 ? -ECANCELED : 0;
}

static int fill(struct http *http)
{
	for (;;) {
		bool waits = http->interrupt_fd >= 0 || http->wait_ms >= 0;
		int r = waits ? wait_readable(http) : 0;

		if (r < 0)
			return r;
		ssize_t got = buf_read_fd(&http->in, http->fd,
		                          MIN(buf_room(&http->in), (size_t)STREAM_BYTES));

		if (got == -EINTR)
			continue;
		return got == -ECONNRESET ? 0 : (int)got;
	}
}

static int read_failed(struct err *err, int sys)
{
	if (sys != ECANCELED)
		return err_sys(err, sys, "read the daemon's answer");
	err_set(err, ERR_UNAVAILABLE, "interrupted");
	err->sys = ECANCELED;
	return -1;
}

static int receive_head(struct http *http, struct err *err)
{
	for (;;) {
		ssize_t len = http_parse_head(buf_head(&http->in), buf_len(&http->in), &http->head);

		if (len < 0) {
			http_close(http);
			return err_set(err, ERR_PROTOCOL, "the daemon's answer is not HTTP");
		}
		if (len > 0) {
			buf_consume(&http->in, (size_t)len);
			if (http->head.status >= 200 || http->head.status == 101)
				return 0;
			continue;
		}
		int got = fill(http);

		if (got > 0)
			continue;
		bool answered = buf_len(&http->in) > 0;

		http_close(http);
		return got < 0 ? read_failed(err, -got) : lost(err, answered);
	}
}

int http_finish(struct http *http, struct err *err)
{
	if (!http->is_cut && http->unsent > 0) {
		http_close(http);
		return err_set(err, ERR_IO, "the file became shorter while it was sent");
	}
	if (http->is_chunked && send_or_cut(http, "0\r\n\r\n", 5, err) < 0)
		return -1;
	if (receive_head(http, err) < 0)
		return -1;
	if (http->is_cut)
		http->head.keep_alive = false;
	http_body_init(&http->body, &http->head, http->is_head);
	return 0;
}

ssize_t http_read(struct http *http, void *bytes, size_t size, struct err *err)
{
	for (;;) {
		ssize_t len = http_body_decode(&http->body, &http->in, bytes, size);

		if (len > 0)
			return len;
		if (len < 0) {
			http_close(http);
			return err_set(err, ERR_PROTOCOL, "the daemon's answer is malformed");
		}
		if (http->body.state == HTTP_BODY_DONE)
			return 0;
		int got = fill(http);

		if (got > 0)
			continue;
		int legal = http_body_end(&http->body);

		http_close(http);
		if (got < 0)
			return read_failed(err, -got);
		return legal < 0 ? lost(err, true) : 0;
	}
}

int http_read_to_fd(struct http *http, int fd, void (*on_progress)(void *ctx, uint64_t got),
                    void *ctx, struct err *err)
{
	auto_free uint8_t *bytes = mem_zalloc(STREAM_BYTES);
	uint64_t total = 0;
	ssize_t got;

	while ((got = http_read(http, bytes, STREAM_BYTES, err)) > 0) {
		int r = io_write_all(fd, bytes, (size_t)got);

		if (r < 0) {
			http_close(http);
			return err_sys(err, -r, "write what was received");
		}
		total += (uint64_t)got;
		if (on_progress != NULL)
			on_progress(ctx, total);
	}
	return (int)got;
}

bool http_can_reuse(const struct http *http)
{
	return http->fd >= 0 && http->head.keep_alive && http->body.state == HTTP_BODY_DONE;
}

/*
 * Who runs this: guest_make the keeper while it is privileged, the rest the keeper without any
 * right. Bytes looked at: none; what a refused client sends is read and dropped, so that its end of
 * the connection is not reset before it has read the answer.
 */
#include "keeper/guest.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "keeper/state.h"
#include "os/mount.h"

enum {
	BACKLOG = 64,
	ACCEPTS = 16, /* at a time */
	AGAIN_MS = 100,
	REFUSED = 32,      /* who may still be told so at once */
	REFUSED_MS = 2000, /* until a client must have read it */
};

static const char refusal[] = "HTTP/1.1 503 Service Unavailable\r\n"
			      "Retry-After: 2\r\n"
			      "Content-Type: application/problem+json\r\n"
			      "Content-Length: 88\r\n"
			      "Connection: close\r\n"
			      "\r\n"
			      "{\"title\":\"unavailable\",\"status\":503,\"code\":\"unavailable\","
			      "\"detail\":\"the daemon is away\"}\n";

/* One that was told no and has not gone yet. */
struct refused {
	struct refused *next, **at;
	struct guests *guests;
	int fd;
	struct loop_source source;
	struct loop_timer timer;
};

struct guests {
	struct keeper *keeper;
	struct loop_source source;
	struct loop_timer again;
	struct refused *refused;
	size_t refused_count;
};

int guest_make(int fs, int *ret_listener)
{
	auto_close int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	if (listener < 0)
		return -errno;
	(void)snprintf(addr.sun_path, sizeof(addr.sun_path), "/proc/self/fd/%d/api", fs); /* fits */
	if (bind(listener, (struct sockaddr *)&addr, sizeof(addr)) < 0)
		return -errno;
	/* Whoever is inside may knock; what they may do is written on their token. */
	if (fchmodat(fs, "api", 0666, 0) < 0 || listen(listener, BACKLOG) < 0)
		return -errno;
	*ret_listener = take_fd(&listener);
	return 0;
}

/* --- no --- */

static void refused_free(struct refused *refused)
{
	*refused->at = refused->next;
	if (refused->next)
		refused->next->at = refused->at;
	refused->guests->refused_count--;
	loop_remove(&refused->source);
	loop_timer_stop(&refused->timer);
	fd_closep(&refused->fd);
	free(refused);
}

static void on_refused(struct loop_source *source, uint32_t events, void *ctx)
{
	struct refused *refused = ctx;
	char bytes[4096];
	ssize_t n = recv(refused->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		refused_free(refused);
}

static void on_refused_late(struct loop_timer *timer, void *ctx)
{
	refused_free(ctx);
}

static void refuse(struct guests *guests, int fd)
{
	auto_close int own = fd;
	/* As much as fits, which is all of it: nothing was sent before. */
	(void)!send(own, refusal, sizeof(refusal) - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
	(void)shutdown(own, SHUT_WR);
	if (!guests || guests->refused_count == REFUSED)
		return;
	struct refused *refused = mem_new(struct refused);
	refused->guests = guests;
	refused->fd = take_fd(&own);
	refused->next = guests->refused;
	refused->at = &guests->refused;
	if (refused->next)
		refused->next->at = &refused->next;
	guests->refused = refused;
	guests->refused_count++;
	struct loop *loop = guests->keeper->loop;
	loop_timer_in(loop, &refused->timer, REFUSED_MS, on_refused_late, refused);
	if (loop_add(loop, &refused->source, refused->fd, EPOLLIN, on_refused, refused) < 0)
		refused_free(refused);
}

/* --- yes --- */

void guest_take(struct keeper *keeper, int fd)
{
	auto_close int own = fd;
	auto_wire_out struct wire_out out;
	wire_begin(&out, WIRE_K_GUEST, 0);
	wire_put_fd(&out, own);
	if (serve_pass(keeper, &out) < 0)
		refuse(keeper->guests, take_fd(&own));
}

static void on_guest(struct loop_source *source, uint32_t events, void *ctx);

static void on_again(struct loop_timer *timer, void *ctx)
{
	struct guests *guests = ctx;
	struct keeper *keeper = guests->keeper;
	if (loop_add(keeper->loop, &guests->source, keeper->launch.guest, EPOLLIN, on_guest,
	             guests) < 0)
		loop_timer_in(keeper->loop, timer, AGAIN_MS, on_again, guests);
}

static void on_guest(struct loop_source *source, uint32_t events, void *ctx)
{
	struct guests *guests = ctx;
	for (int i = 0; i < ACCEPTS; i++) {
		int fd = accept4(source->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd >= 0) {
			guest_take(guests->keeper, fd);
			continue;
		}
		if (errno != EMFILE && errno != ENFILE && errno != ENOMEM && errno != ENOBUFS)
			break;
		/* Whoever waits would wake us again and again: look when something was closed. */
		loop_remove(&guests->source);
		loop_timer_in(guests->keeper->loop, &guests->again, AGAIN_MS, on_again, guests);
		break;
	}
}

int guest_start(struct keeper *keeper)
{
	struct guests *guests = mem_new(struct guests);
	guests->keeper = keeper;
	keeper->guests = guests;
	return loop_add(keeper->loop, &guests->source, keeper->launch.guest, EPOLLIN, on_guest,
	                guests);
}

void guest_done(struct keeper *keeper)
{
	struct guests *guests = keeper->guests;
	if (!guests)
		return;
	loop_remove(&guests->source);
	loop_timer_stop(&guests->again);
	while (guests->refused)
		refused_free(guests->refused);
	free(guests);
	keeper->guests = NULL;
}

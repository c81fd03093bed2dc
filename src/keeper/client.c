/* Whoever asks the resolver over TCP (RFC 7766): one question after the other on each connection.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "keeper/gateway.h"

enum { CLIENTS = 64, IDLE_MS = 10 * 1000, PREFIX = 2 };

struct resolver_client {
	struct resolver_client *next;
	struct resolver *resolver;
	uint64_t number;
	int fd; /* owned */
	struct transparent_end from, to;
	struct loop_source source;
	struct loop_timer timer;
	struct loop_timer again; /* to the next question, which is here already */
	struct buf in, out;
	bool is_busy; /* a question is under way */
};

static void client_free(struct resolver_client *client)
{
	struct resolver_client **at = &client->resolver->clients;
	while (*at != client)
		at = &(*at)->next;
	*at = client->next;
	client->resolver->client_count--;
	loop_remove(&client->source);
	loop_timer_stop(&client->timer);
	loop_timer_stop(&client->again);
	fd_closep(&client->fd);
	buf_done(&client->in);
	buf_done(&client->out);
	free(client);
}

void client_free_all(struct resolver *resolver)
{
	while (resolver->clients)
		client_free(resolver->clients);
}

static void on_idle(struct loop_timer *timer, void *ctx)
{
	client_free(ctx);
}

/* The next whole question in the buffer. The client may be gone afterwards. */
static void take_question(struct resolver_client *client)
{
	const uint8_t *head = buf_head(&client->in);
	if (client->is_busy || buf_len(&client->in) < PREFIX)
		return;
	size_t len = (size_t)head[0] << 8 | head[1];
	struct resolver_ask ask = {
		.from = client->from, .to = client->to, .client = client->number, .len = len};
	if (len == 0 || len > sizeof(ask.bytes)) {
		client_free(client);
		return;
	}
	if (buf_len(&client->in) < PREFIX + len)
		return;
	memcpy(ask.bytes, head + PREFIX, len);
	buf_consume(&client->in, PREFIX + len);
	client->is_busy = true;
	resolver_question(client->resolver, &ask);
}

static void on_again(struct loop_timer *timer, void *ctx)
{
	take_question(ctx);
}

static bool flush(struct resolver_client *client)
{
	while (buf_len(&client->out) > 0) {
		ssize_t n = send(client->fd, buf_head(&client->out), buf_len(&client->out),
		                 MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0 && errno == EAGAIN)
			break;
		if (n < 0 && errno != EINTR)
			return false;
		buf_consume(&client->out, n > 0 ? (size_t)n : 0);
	}
	return loop_change(&client->source, EPOLLIN | (buf_len(&client->out) ? EPOLLOUT : 0U)) >= 0;
}

static void on_client(struct loop_source *source, uint32_t events, void *ctx)
{
	struct resolver_client *client = ctx;
	loop_timer_in(client->resolver->gateway->loop, &client->timer, IDLE_MS, on_idle, client);
	ssize_t n = buf_read_fd(&client->in, client->fd, buf_room(&client->in));
	if (n == 0 || (n < 0 && n != -EAGAIN && n != -EINTR) || !flush(client)) {
		client_free(client);
		return;
	}
	take_question(client);
}

void client_reply(struct resolver *resolver, uint64_t number, const uint8_t *bytes, size_t len)
{
	struct resolver_client *client = resolver->clients;
	uint8_t prefix[PREFIX] = {(uint8_t)(len >> 8), (uint8_t)len};
	while (client && client->number != number)
		client = client->next;
	if (!client)
		return; /* gone meanwhile */
	client->is_busy = false;
	if (buf_put(&client->out, prefix, sizeof(prefix)) < 0 ||
	    buf_put(&client->out, bytes, len) < 0 || !flush(client)) {
		client_free(client);
		return;
	}
	loop_timer_in(resolver->gateway->loop, &client->again, 0, on_again, client);
}

void resolver_accept(struct resolver *resolver, int fd, const struct transparent_end *from,
                     const struct transparent_end *to)
{
	if (resolver->client_count == CLIENTS) {
		flow_reset(&fd);
		return;
	}
	struct resolver_client *client = mem_new(struct resolver_client);
	client->resolver = resolver;
	client->number = ++resolver->last_client;
	client->fd = fd;
	client->from = *from;
	client->to = *to;
	buf_init(&client->in, PREFIX + DNS_QUERY_MOST);
	buf_init(&client->out, 2 * (PREFIX + (size_t)DNS_MESSAGE_MOST));
	client->next = resolver->clients;
	resolver->clients = client;
	resolver->client_count++;
	loop_timer_in(resolver->gateway->loop, &client->timer, IDLE_MS, on_idle, client);
	if (loop_add(resolver->gateway->loop, &client->source, fd, EPOLLIN, on_client, client) < 0)
		client_free(client);
}

#include "keeper/lookup.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"

enum { ATTEMPTS = 4, ANSWER_MS = 1500, PREFIX = 2, ANSWER_MOST = 16 * 1024, RCODE_AT = 3 };

static void attempt(struct lookup *lookup);

static void leave_socket(struct lookup *lookup)
{
	loop_remove(&lookup->source);
	loop_timer_stop(&lookup->timer);
	fd_closep(&lookup->fd);
	lookup->len = 0;
}

void lookup_cancel(struct lookup *lookup)
{
	if (!lookup)
		return;
	dial_cancel(lookup->dial);
	leave_socket(lookup);
	free(lookup->bytes);
	free(lookup);
}

static void finish(struct lookup *lookup, const uint8_t *bytes, size_t len)
{
	lookup->on_done(lookup->ctx, lookup->id, bytes, len);
	lookup_cancel(lookup);
}

static void try_next(struct lookup *lookup)
{
	leave_socket(lookup);
	lookup->is_tcp = false;
	if (lookup->attempts == ATTEMPTS)
		finish(lookup, NULL, 0);
	else
		attempt(lookup);
}

static void on_silence(struct loop_timer *timer, void *ctx)
{
	try_next(ctx);
}

static size_t resolver_number(const struct lookup *lookup)
{
	size_t count = MAX(lookup->dials->resolvers, (size_t)1);
	return (*lookup->preferred + lookup->attempts - 1) % count;
}

/* A message that answers the question: is it good enough? */
static void judge_answer(struct lookup *lookup, const uint8_t *bytes, size_t len)
{
	unsigned rcode = bytes[RCODE_AT] & 0x0f;
	if (dns_is_truncated(bytes, len) && !lookup->is_tcp) {
		leave_socket(lookup);
		lookup->is_tcp = true;
		attempt(lookup);
		return;
	}
	if (rcode != DNS_OK && rcode != DNS_NO_NAME && lookup->attempts < ATTEMPTS) {
		try_next(lookup);
		return;
	}
	*lookup->preferred = resolver_number(lookup);
	finish(lookup, bytes, len);
}

/* A datagram that answers something else is not ours: wait on. */
static void read_datagram(struct lookup *lookup)
{
	ssize_t n = recv(lookup->fd, lookup->bytes, ANSWER_MOST, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n < 0)
		try_next(lookup);
	else if (dns_is_answer(lookup->bytes, (size_t)n, lookup->id, lookup->name, lookup->type))
		judge_answer(lookup, lookup->bytes, (size_t)n);
}

static void read_stream(struct lookup *lookup)
{
	ssize_t n = recv(lookup->fd, lookup->bytes + lookup->len, ANSWER_MOST - lookup->len,
	                 MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	lookup->len += n > 0 ? (size_t)n : 0;
	size_t whole = lookup->len < PREFIX
	                       ? SIZE_MAX
	                       : PREFIX + ((size_t)lookup->bytes[0] << 8 | lookup->bytes[1]);
	if (lookup->len >= whole && dns_is_answer(lookup->bytes + PREFIX, whole - PREFIX,
	                                          lookup->id, lookup->name, lookup->type))
		judge_answer(lookup, lookup->bytes + PREFIX, whole - PREFIX);
	else if (n <= 0 || lookup->len >= whole || lookup->len == ANSWER_MOST)
		try_next(lookup);
}

static void on_answer(struct loop_source *source, uint32_t events, void *ctx)
{
	struct lookup *lookup = ctx;
	if (lookup->is_tcp)
		read_stream(lookup);
	else
		read_datagram(lookup);
}

static bool send_question(struct lookup *lookup)
{
	uint8_t bytes[PREFIX + DNS_QUERY_MOST];
	size_t len = dns_write_query(lookup->id, lookup->name, lookup->type, bytes + PREFIX);
	bytes[0] = (uint8_t)(len >> 8);
	bytes[1] = (uint8_t)len;
	size_t skip = lookup->is_tcp ? 0 : PREFIX;
	ssize_t n =
		send(lookup->fd, bytes + skip, PREFIX + len - skip, MSG_NOSIGNAL | MSG_DONTWAIT);
	return n == (ssize_t)(PREFIX + len - skip);
}

static void on_socket(void *ctx, int fd, const struct err *err)
{
	struct lookup *lookup = ctx;
	lookup->dial = NULL;
	lookup->fd = fd;
	if (fd < 0 && err->code == ERR_NOT_FOUND) {
		finish(lookup, NULL, 0); /* there is none to ask */
		return;
	}
	if (fd < 0 || !send_question(lookup) ||
	    loop_add(lookup->dials->loop, &lookup->source, fd, EPOLLIN, on_answer, lookup) < 0) {
		try_next(lookup);
		return;
	}
	loop_timer_in(lookup->dials->loop, &lookup->timer, ANSWER_MS, on_silence, lookup);
}

static void attempt(struct lookup *lookup)
{
	lookup->attempts += !lookup->is_tcp;
	/* It must not be guessed by whoever can send us datagrams. */
	if (getrandom(&lookup->id, sizeof(lookup->id), GRND_NONBLOCK) != sizeof(lookup->id))
		lookup->id = (uint16_t)(uintptr_t)lookup ^ (uint16_t)lookup->attempts;
	lookup->dial = dial_resolver(lookup->dials, (uint16_t)resolver_number(lookup),
	                             !lookup->is_tcp, on_socket, lookup);
}

struct lookup *lookup_start(struct dials *dials, const char *name, uint16_t type, size_t *preferred,
                            lookup_on_done on_done, void *ctx)
{
	uint8_t bytes[DNS_QUERY_MOST];
	if (dns_write_query(0, name, type, bytes) == 0)
		return NULL;
	struct lookup *lookup = mem_new(struct lookup);
	lookup->dials = dials;
	lookup->type = type;
	lookup->preferred = preferred;
	lookup->fd = -1;
	lookup->bytes = mem_zalloc(ANSWER_MOST);
	lookup->on_done = on_done;
	lookup->ctx = ctx;
	if (!str_copy(lookup->name, sizeof(lookup->name), name)) {
		lookup_cancel(lookup);
		return NULL;
	}
	attempt(lookup);
	return lookup;
}

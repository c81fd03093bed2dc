/*
 * UDP other than DNS, which leaves only where everything does (level full): an exchange is a pair
 * of inside and outside ends with a connected socket of the dialer's. Answers go back with the
 * outside end as their source. Everything else is refused with the ICMP message that says so.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "keeper/gateway.h"

enum { IDLE_MS = 60 * 1000, WAITING = 4, ANSWERS = 16, DATAGRAM_MOST = 65507 };

struct datagram {
	size_t len;
	uint8_t bytes[];
};

struct exchange {
	struct exchange *next;
	struct gateway *gateway;
	struct transparent_end from, to;
	struct judgement judgement;
	int fd; /* owned; -1 while it is dialled */
	struct loop_source source;
	struct loop_timer timer;
	struct dial *dial;
	struct datagram *waiting[WAITING]; /* until it is dialled */
	size_t waiting_count;
	uint64_t sent, received;
	uint64_t counted_sent, counted_received; /* of these, in the host's meters */
};

struct refusal {
	struct gateway *gateway;
	struct transparent_end from, to;
};

static void fill(const struct exchange *exchange, enum decision_verdict verdict,
                 struct decision *ret)
{
	gateway_fill(exchange->gateway, &exchange->judgement, DECISION_UDP, &exchange->from,
	             &exchange->to, ret);
	ret->verdict = verdict;
}

/* What its host's meters do not know yet. */
static void count_bytes(struct exchange *exchange)
{
	struct decision decision;
	if (exchange->sent == exchange->counted_sent &&
	    exchange->received == exchange->counted_received)
		return;
	fill(exchange, DECISION_CLOSED, &decision);
	decision_count_bytes(&exchange->gateway->decisions, &decision,
	                     exchange->sent - exchange->counted_sent,
	                     exchange->received - exchange->counted_received);
	exchange->counted_sent = exchange->sent;
	exchange->counted_received = exchange->received;
}

void exchange_count_all(struct gateway *gateway)
{
	for (struct exchange *exchange = gateway->exchanges; exchange; exchange = exchange->next)
		count_bytes(exchange);
}

static void exchange_free(struct exchange *exchange)
{
	struct gateway *gateway = exchange->gateway;
	struct exchange **at = &gateway->exchanges;
	struct decision decision;
	while (*at != exchange)
		at = &(*at)->next;
	*at = exchange->next;
	gateway->exchange_count--;
	fill(exchange, DECISION_CLOSED, &decision);
	decision.sent = exchange->sent;
	decision.received = exchange->received;
	count_bytes(exchange);
	(void)decision_make(&gateway->decisions, &decision, NULL, NULL);
	dial_cancel(exchange->dial);
	loop_remove(&exchange->source);
	loop_timer_stop(&exchange->timer);
	fd_closep(&exchange->fd);
	for (size_t i = 0; i < exchange->waiting_count; i++)
		free(exchange->waiting[i]);
	free(exchange);
}

void exchange_free_all(struct gateway *gateway)
{
	while (gateway->exchanges)
		exchange_free(gateway->exchanges);
}

static void on_idle(struct loop_timer *timer, void *ctx)
{
	exchange_free(ctx);
}

static void stay(struct exchange *exchange)
{
	loop_timer_in(exchange->gateway->loop, &exchange->timer, IDLE_MS, on_idle, exchange);
}

/* --- refusing --- */

static void on_told(void *ctx)
{
	struct refusal *refusal = ctx;
	const struct uplink *uplink = refusal->gateway->uplink;
	/* A refusal that does not fit the socket is silence, as on any network. */
	(void)!transparent_refuse_udp(uplink->raw[uplink_family(&refusal->to.addr)], &refusal->from,
	                              &refusal->to);
	free(refusal);
}

static void refuse(struct gateway *gateway, const struct judgement *judgement,
                   const struct transparent_end *from, const struct transparent_end *to)
{
	struct decision decision;
	struct refusal *refusal = mem_new(struct refusal);
	*refusal = (struct refusal){gateway, *from, *to};
	gateway_fill(gateway, judgement, DECISION_UDP, from, to, &decision);
	if (!decision_make(&gateway->decisions, &decision, on_told, refusal))
		on_told(refusal);
}

/* --- relaying --- */

static void send_out(struct exchange *exchange, const uint8_t *bytes, size_t len)
{
	if (gateway_may_send(exchange->gateway) == 0 || !gateway_fits_cap(exchange->gateway, len))
		return; /* over the rate, or held back until the cap was reached: lost */
	ssize_t n = send(exchange->fd, bytes, len, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (n < 0 && errno == ECONNREFUSED) {
		const struct uplink *uplink = exchange->gateway->uplink;
		(void)!transparent_refuse_udp(uplink->raw[uplink_family(&exchange->to.addr)],
		                              &exchange->from, &exchange->to);
	}
	if (n <= 0)
		return;
	exchange->sent += (uint64_t)n;
	gateway_count_sent(exchange->gateway, (size_t)n);
}

static void on_answer(struct loop_source *source, uint32_t events, void *ctx)
{
	struct exchange *exchange = ctx;
	struct gateway *gateway = exchange->gateway;
	int raw = gateway->uplink->raw[uplink_family(&exchange->from.addr)];
	for (int i = 0; i < ANSWERS; i++) {
		ssize_t n = recv(exchange->fd, gateway->bytes, DATAGRAM_MOST, MSG_DONTWAIT);
		if (n < 0)
			break;
		exchange->received += (uint64_t)n;
		gateway->received += (uint64_t)n;
		(void)!transparent_send_udp(raw, &exchange->to, &exchange->from, gateway->bytes,
		                            (size_t)n); /* lost when it is full */
	}
	stay(exchange);
}

static void on_dialled(void *ctx, int fd, const struct err *err)
{
	struct exchange *exchange = ctx;
	exchange->dial = NULL;
	exchange->fd = fd;
	if (fd < 0 || loop_add(exchange->gateway->loop, &exchange->source, fd, EPOLLIN, on_answer,
	                       exchange) < 0) {
		exchange_free(exchange);
		return;
	}
	exchange->gateway->connections++;
	for (size_t i = 0; i < exchange->waiting_count; i++) {
		send_out(exchange, exchange->waiting[i]->bytes, exchange->waiting[i]->len);
		free(exchange->waiting[i]);
	}
	exchange->waiting_count = 0;
}

static void hold(struct exchange *exchange, const uint8_t *bytes, size_t len)
{
	if (exchange->waiting_count == WAITING)
		return;
	struct datagram *datagram = mem_zalloc(sizeof(*datagram) + len);
	datagram->len = len;
	memcpy(datagram->bytes, bytes, len);
	exchange->waiting[exchange->waiting_count++] = datagram;
}

static bool is_same(const struct transparent_end *a, const struct transparent_end *b)
{
	return a->port == b->port && memcmp(&a->addr, &b->addr, sizeof(a->addr)) == 0;
}

/* The one that was silent longest makes room. */
static void make_room(struct gateway *gateway)
{
	struct exchange *oldest = gateway->exchanges;
	for (struct exchange *at = gateway->exchanges; at; at = at->next) {
		if (at->timer.due_ms < oldest->timer.due_ms)
			oldest = at;
	}
	if (gateway->exchange_count == GATEWAY_EXCHANGES)
		exchange_free(oldest);
}

static struct exchange *start(struct gateway *gateway, const struct judgement *judgement,
                              const struct transparent_end *from, const struct transparent_end *to)
{
	struct decision decision;
	make_room(gateway);
	struct exchange *exchange = mem_new(struct exchange);
	exchange->gateway = gateway;
	exchange->from = *from;
	exchange->to = *to;
	exchange->judgement = *judgement;
	exchange->fd = -1;
	exchange->next = gateway->exchanges;
	gateway->exchanges = exchange;
	gateway->exchange_count++;
	fill(exchange, DECISION_ALLOW, &decision);
	(void)decision_make(&gateway->decisions, &decision, NULL, NULL);
	exchange->dial = dial_to(&gateway->dials, to, true, on_dialled, exchange);
	return exchange;
}

void exchange_datagram(struct gateway *gateway, const uint8_t *bytes, size_t len,
                       const struct transparent_end *from, const struct transparent_end *to)
{
	struct exchange *exchange = gateway->exchanges;
	if (!uplink_is_own(&from->addr)) {
		struct judgement judgement = {0};
		judge_source(&judgement, &from->addr);
		refuse(gateway, &judgement, from, to);
		return;
	}
	while (exchange && !(is_same(&exchange->from, from) && is_same(&exchange->to, to)))
		exchange = exchange->next;
	if (!exchange || !gateway_fits_cap(gateway, len)) {
		struct judgement judgement;
		judge_datagram(&gateway->judge, to, &judgement);
		if (judgement.answer == POLICY_ALLOW && !gateway_fits_cap(gateway, len))
			judge_refuse(&judgement, JUDGE_CAP, "");
		if (judgement.answer != POLICY_ALLOW) {
			refuse(gateway, &judgement, from, to);
			return;
		}
		exchange = start(gateway, &judgement, from, to);
	}
	stay(exchange);
	if (exchange->fd >= 0)
		send_out(exchange, bytes, len);
	else
		hold(exchange, bytes, len);
}

void exchange_cut_all(struct gateway *gateway, enum judge_reason reason)
{
	while (gateway->exchanges) {
		struct exchange *exchange = gateway->exchanges;
		judge_refuse(&exchange->judgement, reason, "");
		refuse(gateway, &exchange->judgement, &exchange->from, &exchange->to);
		exchange_free(exchange);
	}
}

void exchange_policy_changed(struct gateway *gateway)
{
	struct exchange *next;
	for (struct exchange *exchange = gateway->exchanges; exchange; exchange = next) {
		next = exchange->next;
		struct judgement judgement;
		judge_datagram(&gateway->judge, &exchange->to, &judgement);
		if (judgement.answer == POLICY_ALLOW)
			continue;
		refuse(gateway, &judgement, &exchange->from, &exchange->to);
		exchange_free(exchange);
	}
}

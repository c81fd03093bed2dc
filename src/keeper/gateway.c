#include "keeper/gateway.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "net/never.h"
#include "os/nflog.h"

enum {
	ACCEPTS = 32, /* at a time */
	DATAGRAMS = 64,
	DATAGRAM_MOST = 65535,
	ACCEPT_AGAIN_MS = 100,
	PORT_DNS = 53,
	ASK_MS = 120 * 1000,
	RATE_MS = 20,    /* how often a rate is looked at */
	RATE_BURST = 10, /* a tenth of a second's worth at once */
	BURST_LEAST = 16 * 1024,
	AT_ONCE = 1024 * 1024,
};

uint64_t gateway_now_ms(const struct gateway *gateway)
{
	return loop_now_ms(gateway->loop);
}

void gateway_fill(const struct gateway *gateway, const struct judgement *judgement,
                  enum decision_proto proto, const struct transparent_end *from,
                  const struct transparent_end *to, struct decision *ret)
{
	*ret = (struct decision){.verdict = DECISION_DENY,
	                         .proto = proto,
	                         .from = *from,
	                         .to = *to,
	                         .generation = gateway->generation,
	                         .count = 1,
	                         .at_ms = io_real_ms()};
	memcpy(ret->host, judgement->host, sizeof(ret->host));
	memcpy(ret->rule, judgement->rule, sizeof(ret->rule));
	memcpy(ret->remedy, judgement->remedy, sizeof(ret->remedy));
}

/* --- how much may be sent --- */

bool gateway_is_capped(const struct gateway *gateway)
{
	uint64_t cap = gateway->judge.policy.egress_bytes;
	return cap != 0 && gateway->sent >= cap;
}

bool gateway_fits_cap(const struct gateway *gateway, size_t bytes)
{
	uint64_t cap = gateway->judge.policy.egress_bytes;
	return cap == 0 || (gateway->sent < cap && bytes <= cap - gateway->sent);
}

static void on_rate(struct loop_timer *timer, void *ctx)
{
	struct gateway *gateway = ctx;
	if (gateway_is_capped(gateway)) {
		flow_cut_all(gateway, JUDGE_CAP);
		exchange_cut_all(gateway, JUDGE_CAP);
	} else {
		flow_resume_all(gateway);
	}
}

static void refill(struct gateway *gateway)
{
	uint64_t rate = gateway->judge.policy.egress_rate;
	uint64_t most = MAX(rate / RATE_BURST, (uint64_t)BURST_LEAST);
	uint64_t now_us = io_boot_us();
	uint64_t gained = (uint64_t)((double)(now_us - gateway->rate_us) * (double)rate / 1e6);
	if (gained == 0)
		return; /* the time so far counts next time */
	gateway->rate_tokens = MIN(gateway->rate_tokens + gained, most);
	gateway->rate_us = now_us;
}

static void look_later(struct gateway *gateway, uint64_t in_ms)
{
	if (gateway->rate.magic == 0 || gateway->rate.heap_at == SIZE_MAX)
		loop_timer_in(gateway->loop, &gateway->rate, in_ms, on_rate, gateway);
}

size_t gateway_may_send(struct gateway *gateway)
{
	const struct policy *policy = &gateway->judge.policy;
	uint64_t most = AT_ONCE;
	if (gateway_is_capped(gateway))
		most = 0;
	else if (policy->egress_bytes != 0)
		most = MIN(most, policy->egress_bytes - gateway->sent);
	if (most == 0) {
		look_later(gateway, 0); /* cuts what is open, not from inside its own call */
		return 0;
	}
	if (policy->egress_rate == 0)
		return (size_t)most;
	refill(gateway);
	/* Not in crumbs: what gathers in the time between two looks, at least. */
	uint64_t least = MIN(policy->egress_rate * RATE_MS / 1000, (uint64_t)BURST_LEAST);
	if (gateway->rate_tokens < MAX(least, (uint64_t)1)) {
		look_later(gateway, RATE_MS);
		return 0;
	}
	return (size_t)MIN(most, gateway->rate_tokens);
}

void gateway_count_sent(struct gateway *gateway, size_t bytes)
{
	gateway->sent += bytes;
	gateway->rate_tokens -= MIN(gateway->rate_tokens, (uint64_t)bytes);
}

/* --- what comes from inside --- */

static int watch_listeners(struct gateway *gateway);

static void on_accept_again(struct loop_timer *timer, void *ctx)
{
	struct gateway *gateway = ctx;
	if (watch_listeners(gateway) < 0)
		loop_timer_in(gateway->loop, timer, ACCEPT_AGAIN_MS, on_accept_again, gateway);
}

static void on_connection(struct loop_source *source, uint32_t events, void *ctx)
{
	struct gateway *gateway = ctx;
	for (int i = 0; i < ACCEPTS; i++) {
		int fd = accept4(source->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd >= 0) {
			flow_accept(gateway, fd);
			continue;
		}
		if (errno != EMFILE && errno != ENFILE && errno != ENOMEM)
			break;
		/* Whoever waits would wake us again and again: look when something was closed. */
		for (size_t family = 0; family < UPLINK_FAMILIES_; family++)
			loop_remove(&gateway->tcp[family]);
		loop_timer_in(gateway->loop, &gateway->accept_again, ACCEPT_AGAIN_MS,
		              on_accept_again, gateway);
		break;
	}
}

static void on_datagram(struct loop_source *source, uint32_t events, void *ctx)
{
	struct gateway *gateway = ctx;
	for (int i = 0; i < DATAGRAMS; i++) {
		struct transparent_end from, to;
		ssize_t len =
			transparent_receive(source->fd, gateway->bytes, DATAGRAM_MOST, &from, &to);
		if (len < 0)
			break;
		if (to.port == PORT_DNS && uplink_is_own(&from.addr))
			resolver_datagram(&gateway->resolver, gateway->bytes, (size_t)len, &from,
			                  &to);
		else
			exchange_datagram(gateway, gateway->bytes, (size_t)len, &from, &to);
	}
}

/* To many at once: refused where it was sent, whatever the policy says. */
static void on_group(struct loop_source *source, uint32_t events, void *ctx)
{
	struct gateway *gateway = ctx;
	for (int i = 0; i < DATAGRAMS; i++) {
		struct transparent_end from, to;
		struct judgement judgement = {0};
		struct decision decision;
		int r = nflog_next(source->fd, &from, &to);
		if (r == -EBADMSG)
			continue;
		if (r < 0)
			break;
		judge_refuse(&judgement, JUDGE_GROUP, "");
		gateway_fill(gateway, &judgement, DECISION_UDP, &from, &to, &decision);
		(void)decision_make(&gateway->decisions, &decision, NULL, NULL);
	}
}

static int watch_listeners(struct gateway *gateway)
{
	int r = 0;
	for (size_t i = 0; r >= 0 && i < UPLINK_FAMILIES_; i++) {
		if (gateway->uplink->tcp[i] >= 0 && gateway->tcp[i].loop == NULL)
			r = loop_add(gateway->loop, &gateway->tcp[i], gateway->uplink->tcp[i],
			             EPOLLIN, on_connection, gateway);
	}
	return r;
}

int gateway_start(struct gateway *gateway, struct loop *loop, struct uplink *uplink,
                  const struct gateway_hooks *hooks)
{
	*gateway =
		(struct gateway){.loop = loop, .uplink = uplink, .hooks = *hooks, .ask_ms = ASK_MS};
	struct decision_hooks told = {hooks->ctx, hooks->tell, hooks->who};
	judge_init(&gateway->judge);
	dials_init(&gateway->dials, loop, &gateway->generation);
	decisions_init(&gateway->decisions, loop, &told);
	resolver_init(&gateway->resolver, gateway);
	gateway->bytes = mem_zalloc(DATAGRAM_MOST);
	int r = watch_listeners(gateway);
	for (size_t i = 0; r >= 0 && i < UPLINK_FAMILIES_; i++) {
		if (uplink->udp[i] >= 0)
			r = loop_add(loop, &gateway->udp[i], uplink->udp[i], EPOLLIN, on_datagram,
			             gateway);
	}
	if (r >= 0 && uplink->groups >= 0)
		r = loop_add(loop, &gateway->groups, uplink->groups, EPOLLIN, on_group, gateway);
	return r;
}

void gateway_done(struct gateway *gateway)
{
	if (!gateway->loop)
		return;
	for (size_t i = 0; i < UPLINK_FAMILIES_; i++) {
		loop_remove(&gateway->tcp[i]);
		loop_remove(&gateway->udp[i]);
	}
	loop_remove(&gateway->groups);
	loop_timer_stop(&gateway->accept_again);
	loop_timer_stop(&gateway->rate);
	flow_free_all(gateway);
	exchange_free_all(gateway);
	resolver_done(&gateway->resolver);
	dials_done(&gateway->dials);
	decisions_done(&gateway->decisions);
	judge_done(&gateway->judge);
	pump_pool_done(&gateway->pool);
	mem_freep(&gateway->bytes);
	gateway->loop = NULL;
}

/* --- policies --- */

void gateway_set_policy(struct gateway *gateway, uint64_t generation, struct policy *policy)
{
	gateway->generation = generation;
	judge_take_policy(&gateway->judge, policy);
	flow_policy_changed(gateway);
	exchange_policy_changed(gateway);
}

void gateway_ask_again(struct gateway *gateway)
{
	flow_ask_again(gateway);
}

bool gateway_answer(struct gateway *gateway, uint64_t number, bool is_allowed)
{
	return flow_answer(gateway, number, is_allowed);
}

/* A forbidden address, unless somebody was so free as to grant all of them. */
static bool find_forbidden(const struct judge *judge, struct addr *ret)
{
	static const char *const candidates[] = {"169.254.169.254", "10.255.255.254",
	                                         "192.168.255.254", "224.0.0.251", "240.0.0.1"};
	for (size_t i = 0; i < ARRAY_LEN(candidates); i++) {
		if (addr_parse(candidates[i], ret) &&
		    never_reason(ret, judge->grants, judge->grant_count))
			return true;
	}
	return false;
}

const struct gateway_probe *gateway_probe_begin(struct gateway *gateway)
{
	struct gateway_probe *probe = &gateway->probe;
	uint64_t random = 0;
	*probe = (struct gateway_probe){.to = {.port = 80}};
	(void)!getrandom(&random, sizeof(random),
	                 GRND_NONBLOCK); /* only so that nobody else uses it */
	(void)snprintf(probe->name, sizeof(probe->name), "p%llx.cloche.invalid",
	               (unsigned long long)random);
	if (!find_forbidden(&gateway->judge, &probe->to.addr))
		return NULL;
	probe->is_on = true;
	return probe;
}

bool gateway_probe_end(struct gateway *gateway)
{
	struct gateway_probe probe = gateway->probe;
	gateway->probe = (struct gateway_probe){0};
	return probe.saw_connection && probe.saw_question;
}

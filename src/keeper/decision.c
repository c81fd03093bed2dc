/*
 * A kind is {verdict, protocol, host or address, port}, or what was refused before there was any of
 * these. The first of a kind is told at once; those that follow are counted and told as one when a
 * second has passed. The table of kinds is small: what does not fit is counted, too, and told as a
 * number. Each class has a share of its own, so that a flood of names that do not exist hides
 * neither what was reached nor what was refused.
 */
#include "keeper/decision.h"

#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/str.h"

/* TICK_MS: whatever is counted is an event within a second, with what it takes to get there.
 * WHO_MS: a program is looked for in some milliseconds; on a machine that is very busy its refusal
 * waits rather than being told without a name. */
enum { WAITS = 32, TICK_MS = 750, WHO_MS = 250, IDLE_TICKS = 5 };

enum class { CLASS_NAME, CLASS_DENIAL, CLASS_SOCKET, CLASS_OTHER, CLASSES_ };
enum { SHARE_NAME = 64, SHARE_DENIAL = 96, SHARE_SOCKET = 32, SHARE_OTHER = 64 };
enum {
	KINDS = SHARE_NAME + SHARE_DENIAL + SHARE_SOCKET + SHARE_OTHER,
	HOSTS_OF_NAMES = DECISION_HOSTS / 4,
};

static const size_t shares[CLASSES_] = {SHARE_NAME, SHARE_DENIAL, SHARE_SOCKET, SHARE_OTHER};

struct decision_kind {
	struct decision last;
	uint64_t pending; /* counted since it was last told */
	unsigned idle;    /* ticks without a new one; the slot is free when it is large */
	bool is_used;
};

struct decision_wait {
	struct decision_wait *next;
	struct decisions *decisions;
	uint64_t token;
	struct decision decision;
	struct loop_timer timer;
	decision_on_told on_told; /* NULL: nobody waits */
	void *ctx;
};

static const char *const proto_names[] = {"tcp", "udp", "dns", "socket"};
static const char *const verdict_names[] = {"allow", "deny", "ask", "closed"};

const char *decision_proto_name(enum decision_proto proto)
{
	return proto_names[proto];
}

const char *decision_verdict_name(enum decision_verdict verdict)
{
	return verdict_names[verdict];
}

void decisions_init(struct decisions *decisions, struct loop *loop,
                    const struct decision_hooks *hooks)
{
	*decisions = (struct decisions){.loop = loop, .hooks = *hooks};
}

static void wait_free(struct decision_wait *wait)
{
	struct decision_wait **at = &wait->decisions->waits;
	while (*at != wait)
		at = &(*at)->next;
	*at = wait->next;
	wait->decisions->wait_count--;
	loop_timer_stop(&wait->timer);
	free(wait);
}

void decisions_done(struct decisions *decisions)
{
	while (decisions->waits) {
		struct decision_wait *wait = decisions->waits;
		if (wait->on_told)
			wait->on_told(wait->ctx); /* it has something to give back */
		wait_free(wait);
	}
	loop_timer_stop(&decisions->tick);
	mem_freep(&decisions->kinds);
	mem_freep(&decisions->hosts);
}

/* A name that was asked for and is refused costs whoever asks nothing: there can be many. */
static enum class class_of(const struct decision *decision) {
	if (decision->verdict != DECISION_DENY) return CLASS_OTHER;
	if (decision->proto == DECISION_SOCKET) return CLASS_SOCKET;
	return decision->proto == DECISION_DNS && decision->to.port != 0 ? CLASS_NAME
	                                                                 : CLASS_DENIAL;
}

/* --- hosts --- */

static void host_name(const struct decision *decision, char out[DOMAIN_TEXT])
{
	if (decision->host[0] != '\0')
		memcpy(out, decision->host, DOMAIN_TEXT);
	else
		addr_format(out, DOMAIN_TEXT, &decision->to.addr);
}

/* Its row; NULL when the table is full: then only the sums count it. */
static struct decision_host *find_host(struct decisions *decisions, const struct decision *decision)
{
	char name[DOMAIN_TEXT];
	host_name(decision, name);
	for (size_t i = 0; i < decisions->host_count; i++) {
		struct decision_host *host = &decisions->hosts[i];
		if (host->port == decision->to.port && host->proto == decision->proto &&
		    str_eq(host->host, name))
			return host;
	}
	size_t room = class_of(decision) == CLASS_NAME ? HOSTS_OF_NAMES : DECISION_HOSTS;
	if (decisions->host_count >= room)
		return NULL;
	decisions->hosts =
		mem_resize(decisions->hosts, decisions->host_count + 1, sizeof(*decisions->hosts));
	struct decision_host *host = &decisions->hosts[decisions->host_count++];
	*host = (struct decision_host){.port = decision->to.port, .proto = decision->proto};
	memcpy(host->host, name, sizeof(host->host));
	return host;
}

void decision_count_bytes(struct decisions *decisions, const struct decision *decision,
                          uint64_t sent, uint64_t received)
{
	struct decision_host *host = find_host(decisions, decision);
	if (!host)
		return;
	host->sent += sent;
	host->received += received;
}

static void count(struct decisions *decisions, const struct decision *decision)
{
	bool is_denied = decision->verdict == DECISION_DENY;
	decisions->denied += is_denied;
	struct decision_host *host =
		decision->proto == DECISION_SOCKET ? NULL : find_host(decisions, decision);
	if (!host)
		return;
	host->denied += is_denied;
	host->allowed += decision->verdict == DECISION_ALLOW;
}

/* --- kinds --- */

static bool is_alike(const struct decision *a, const struct decision *b)
{
	if (a->proto == DECISION_SOCKET)
		return a->proto == b->proto && str_eq(a->rule, b->rule);
	return a->verdict == b->verdict && a->proto == b->proto && a->to.port == b->to.port &&
	       str_eq(a->host, b->host) &&
	       (a->host[0] != '\0' || memcmp(&a->to.addr, &b->to.addr, sizeof(a->to.addr)) == 0);
}

static void on_tick(struct loop_timer *timer, void *ctx);

static void start_tick(struct decisions *decisions)
{
	if (decisions->tick.magic == 0 || decisions->tick.heap_at == SIZE_MAX)
		loop_timer_in(decisions->loop, &decisions->tick, TICK_MS, on_tick, decisions);
}

static void tell_overflow(struct decisions *decisions)
{
	struct decision more = {
		.verdict = DECISION_DENY, .count = decisions->overflow, .at_ms = io_real_ms()};
	(void)snprintf(more.rule, sizeof(more.rule),
	               "%llu more decisions about other hosts are not shown",
	               (unsigned long long)decisions->overflow);
	decisions->overflow = 0;
	decisions->hooks.tell(decisions->hooks.ctx, &more);
}

static void on_tick(struct loop_timer *timer, void *ctx)
{
	struct decisions *decisions = ctx;
	bool is_any = false;
	for (size_t i = 0; i < KINDS; i++) {
		struct decision_kind *kind = &decisions->kinds[i];
		if (!kind->is_used)
			continue;
		if (kind->pending > 0) {
			kind->last.count = kind->pending;
			decisions->hooks.tell(decisions->hooks.ctx, &kind->last);
			kind->pending = 0;
			kind->idle = 0;
			kind->last.sent = kind->last.received = 0;
		} else {
			kind->is_used = ++kind->idle < IDLE_TICKS;
		}
		is_any |= kind->is_used;
	}
	if (decisions->overflow > 0)
		tell_overflow(decisions);
	if (is_any)
		start_tick(decisions);
}

/* True: it is the first of its kind and has a slot now. */
static bool is_first(struct decisions *decisions, const struct decision *decision)
{
	struct decision_kind *free_slot = NULL;
	enum class class = class_of(decision);
	size_t used = 0;
	if (!decisions->kinds)
		decisions->kinds = mem_zalloc(KINDS * sizeof(*decisions->kinds));
	start_tick(decisions);
	for (size_t i = 0; i < KINDS; i++) {
		struct decision_kind *kind = &decisions->kinds[i];
		if (!kind->is_used) {
			free_slot = kind;
		} else if (is_alike(&kind->last, decision)) {
			uint64_t sent = kind->last.sent, received = kind->last.received;
			uint64_t pid = kind->last.pid;
			char program[DECISION_PROGRAM];
			memcpy(program, kind->last.program, sizeof(program));
			kind->last = *decision;
			kind->last.sent += sent;
			kind->last.received += received;
			kind->last.pid = pid;
			memcpy(kind->last.program, program, sizeof(program));
			kind->pending++;
			return false;
		} else {
			used += class_of(&kind->last) == class;
		}
	}
	if (!free_slot || used >= shares[class]) {
		decisions->overflow++;
		return false;
	}
	*free_slot = (struct decision_kind){.last = *decision, .is_used = true};
	free_slot->last.sent = free_slot->last.received = 0;
	return true;
}

/* --- telling --- */

static void tell_wait(struct decision_wait *wait)
{
	struct decisions *decisions = wait->decisions;
	decision_on_told on_told = wait->on_told;
	void *ctx = wait->ctx;
	decisions->hooks.tell(decisions->hooks.ctx, &wait->decision);
	for (size_t i = 0; decisions->kinds && i < KINDS; i++) {
		struct decision_kind *kind = &decisions->kinds[i];
		if (!kind->is_used || !is_alike(&kind->last, &wait->decision))
			continue;
		memcpy(kind->last.program, wait->decision.program, sizeof(kind->last.program));
		kind->last.pid = wait->decision.pid;
	}
	wait_free(wait);
	if (on_told)
		on_told(ctx);
}

static void on_who_late(struct loop_timer *timer, void *ctx)
{
	tell_wait(ctx);
}

/* True: the program is being looked for, and it is told afterwards. */
static bool tell(struct decisions *decisions, const struct decision *decision,
                 decision_on_told on_told, void *ctx)
{
	uint64_t token = decisions->last_token + 1;
	if (decision->verdict == DECISION_CLOSED || decision->program[0] != '\0' ||
	    decisions->wait_count == WAITS ||
	    !decisions->hooks.who(decisions->hooks.ctx, token, decision)) {
		decisions->hooks.tell(decisions->hooks.ctx, decision);
		return false;
	}
	struct decision_wait *wait = mem_new(struct decision_wait);
	wait->decisions = decisions;
	wait->token = decisions->last_token = token;
	wait->decision = *decision;
	wait->on_told = on_told;
	wait->ctx = ctx;
	wait->next = decisions->waits;
	decisions->waits = wait;
	decisions->wait_count++;
	loop_timer_in(decisions->loop, &wait->timer, WHO_MS, on_who_late, wait);
	return true;
}

bool decision_make(struct decisions *decisions, const struct decision *decision,
                   decision_on_told on_told, void *ctx)
{
	count(decisions, decision);
	return is_first(decisions, decision) && tell(decisions, decision, on_told, ctx) && on_told;
}

void decision_tell(struct decisions *decisions, const struct decision *decision)
{
	(void)tell(decisions, decision, NULL, NULL);
}

void decision_forget(struct decisions *decisions, void *ctx)
{
	for (struct decision_wait *wait = decisions->waits; wait; wait = wait->next) {
		if (wait->ctx == ctx)
			wait->on_told = NULL;
	}
}

void decisions_known(struct decisions *decisions, uint64_t token, const char *program, uint64_t pid)
{
	struct decision_wait *wait = decisions->waits;
	while (wait && wait->token != token)
		wait = wait->next;
	if (!wait)
		return;
	str_escape(wait->decision.program, sizeof(wait->decision.program), program,
	           strlen(program));
	wait->decision.pid = pid;
	tell_wait(wait);
}

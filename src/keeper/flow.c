/*
 * One TCP connection of a sandbox. Its way:
 *
 *	accepted ─► judged by address and names ─► looked at until it names its host ─► dialled ─►
 *relayed │ deny                        │ deny                              │ no answer
 *	                 └─────────────── told, then reset ◄──────────────────────────────┘
 *
 * The judgement is made before the first byte leaves, from the address the kernel says the client
 * connected to: nothing inside can change it afterwards. A request or hello that follows on the
 *same connection is judged again (net/inspect.h), and everything is when the policy changes.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/str.h"
#include "keeper/gateway.h"
#include "model/service.h"
#include "net/needle.h"

enum {
	LOOK_MS = 30 * 1000, /* until the client has said whom it wants */
	TARGETS = 4,         /* addresses of a name that are tried */
	SCAN_MOST = 1 << 18, /* bytes a client may send that are searched for what must not leave */
	PORT_DNS = 53,
	PORT_HTTP = 80,
};

enum flow_state {
	FLOW_LOOKING,
	FLOW_ASKING,    /* a person */
	FLOW_RESOLVING, /* the name behind a stand-in address */
	FLOW_DIALLING,
	FLOW_RELAYING,
	FLOW_DENIED, /* told, or being told */
};

struct flow {
	struct flow *next, **at;
	struct gateway *gateway;
	enum flow_state state;
	int inside; /* owned until it is relayed */
	struct loop_source source;
	struct transparent_end from, to;
	struct judgement judgement;
	struct inspect inspect;
	struct needle placeholder;
	uint64_t scanned; /* bytes of a stream that needs no other look */
	bool is_strict;
	bool is_told;     /* that it was allowed */
	bool is_approved; /* by a person */
	struct buf held;
	struct loop_timer timer;
	struct dial *dial;
	struct addr targets[TARGETS];
	size_t target_count, target;
	struct pump pump;
	uint64_t ask; /* number of the question */
	uint64_t sent, received;
	uint64_t counted_sent, counted_received; /* of these, in the host's meters */
};

void flow_reset(int *fd)
{
	struct linger now = {.l_onoff = 1, .l_linger = 0};
	if (*fd >= 0)
		(void)setsockopt(*fd, SOL_SOCKET, SO_LINGER, &now,
		                 sizeof(now)); /* then it closes */
	fd_closep(fd);
}

static void fill(const struct flow *flow, enum decision_verdict verdict, struct decision *ret)
{
	gateway_fill(flow->gateway, &flow->judgement, DECISION_TCP, &flow->from, &flow->to, ret);
	ret->verdict = verdict;
}

/* What its host's meters do not know yet. */
static void count_bytes(struct flow *flow)
{
	struct decision decision;
	if (flow->sent == flow->counted_sent && flow->received == flow->counted_received)
		return;
	fill(flow, DECISION_CLOSED, &decision);
	decision_count_bytes(&flow->gateway->decisions, &decision, flow->sent - flow->counted_sent,
	                     flow->received - flow->counted_received);
	flow->counted_sent = flow->sent;
	flow->counted_received = flow->received;
}

void flow_count_all(struct gateway *gateway)
{
	for (struct flow *flow = gateway->flows; flow; flow = flow->next)
		count_bytes(flow);
}

static void flow_free(struct flow *flow)
{
	struct gateway *gateway = flow->gateway;
	count_bytes(flow);
	*flow->at = flow->next;
	if (flow->next)
		flow->next->at = flow->at;
	gateway->flow_count--;
	decision_forget(&gateway->decisions, flow);
	resolver_cancel(&gateway->resolver, flow);
	dial_cancel(flow->dial);
	loop_remove(&flow->source);
	loop_timer_stop(&flow->timer);
	flow_reset(&flow->inside);
	buf_done(&flow->held);
	free(flow);
}

void flow_free_all(struct gateway *gateway)
{
	while (gateway->flows) {
		if (gateway->flows->state == FLOW_RELAYING)
			pump_stop(&gateway->flows->pump, true);
		flow_free(gateway->flows);
	}
}

/* --- the end --- */

static void on_denial_told(void *ctx)
{
	flow_free(ctx);
}

/* What flow->judgement says, to whom it concerns; then the reset. */
static void deny(struct flow *flow)
{
	struct decision decision;
	if (flow->state == FLOW_RELAYING)
		pump_stop(&flow->pump, true);
	dial_cancel(flow->dial);
	flow->dial = NULL;
	loop_remove(&flow->source);
	loop_timer_stop(&flow->timer);
	flow->state = FLOW_DENIED;
	fill(flow, DECISION_DENY, &decision);
	if (!decision_make(&flow->gateway->decisions, &decision, on_denial_told, flow))
		flow_free(flow);
}

static void refuse(struct flow *flow, enum judge_reason reason)
{
	char text[ADDR_TEXT];
	addr_format(text, sizeof(text), &flow->to.addr);
	judge_refuse(&flow->judgement, reason, text);
	deny(flow);
}

/* It was allowed and is over. */
static void tell_closed(struct flow *flow, const char *why)
{
	struct decision decision;
	fill(flow, DECISION_CLOSED, &decision);
	decision.sent = flow->sent;
	decision.received = flow->received;
	if (why)
		(void)!str_copy(decision.rule, sizeof(decision.rule), why); /* a shorter text */
	(void)decision_make(&flow->gateway->decisions, &decision, NULL, NULL);
}

/* --- looking --- */

/* A request that would give away what stands for a secret: refused before anybody is dialled.
 * Behind TLS nobody here sees it. */
static bool has_placeholder(const struct flow *flow)
{
	return flow->inspect.kind == INSPECT_HTTP &&
	       memmem(buf_head(&flow->held), buf_len(&flow->held), SERVICE_PLACEHOLDER,
	              sizeof(SERVICE_PLACEHOLDER) - 1);
}

/* What may go on of what is held: agrees to names as they come. False: flow->judgement denies. */
static enum inspect_result look_on(struct flow *flow, size_t *ret_pass)
{
	struct gateway *gateway = flow->gateway;
	enum inspect_result result;
	while ((result = inspect_step(&flow->inspect, &flow->held, ret_pass)) == INSPECT_NAME) {
		struct judgement named;
		judge_named(&gateway->judge, &flow->to, &flow->inspect, flow->is_strict,
		            gateway_now_ms(gateway), &named);
		bool is_same = flow->is_approved && str_eq(named.host, flow->judgement.host);
		if (named.answer != POLICY_DENY && has_placeholder(flow))
			judge_refuse(&named, JUDGE_PLACEHOLDER, named.host);
		if (named.answer == POLICY_DENY ||
		    (named.answer == POLICY_ASK_FIRST && !is_same && flow->state != FLOW_LOOKING)) {
			flow->judgement = named;
			return INSPECT_BAD;
		}
		if (named.host[0] != '\0' && !is_same)
			flow->judgement = named;
		inspect_agree(&flow->inspect);
	}
	if (result != INSPECT_BAD)
		return result;
	if (!flow->is_strict) {
		flow->inspect.kind = INSPECT_NOTHING; /* only wanted to know */
		return INSPECT_OVER;
	}
	judge_refuse(&flow->judgement,
	             flow->inspect.kind == INSPECT_TLS ? JUDGE_NOT_TLS : JUDGE_NOT_HTTP, "");
	if (flow->inspect.kind == INSPECT_HTTP)
		(void)snprintf(flow->judgement.rule, sizeof(flow->judgement.rule), "%s",
		               flow->inspect.why);
	return INSPECT_BAD;
}

/* --- relaying --- */

static size_t on_may_send(void *ctx)
{
	struct flow *flow = ctx;
	return gateway_may_send(flow->gateway);
}

static void on_moved(void *ctx, enum pump_way way, size_t bytes)
{
	struct flow *flow = ctx;
	if (way == PUMP_OUT) {
		flow->sent += bytes;
		gateway_count_sent(flow->gateway, bytes);
	} else {
		flow->received += bytes;
		flow->gateway->received += bytes;
	}
}

/* What is about to leave: false if it ends what stands for a secret, also one that came in pieces.
 * flow->judgement denies then. */
static bool scan(struct flow *flow, const struct buf *held, size_t len)
{
	char text[ADDR_TEXT];
	if (len == 0 || !needle_look(&flow->placeholder, buf_head(held), len))
		return true;
	addr_format(text, sizeof(text), &flow->to.addr);
	judge_refuse(&flow->judgement, JUDGE_PLACEHOLDER,
	             flow->judgement.host[0] != '\0' ? flow->judgement.host : text);
	flow->state = FLOW_DENIED;
	return false;
}

/* Any bytes: the first of them are searched, the rest is spliced. */
static bool look_over(struct flow *flow, const struct buf *held, size_t *ret_pass,
                      bool *ret_is_over)
{
	*ret_is_over = flow->scanned >= SCAN_MOST;
	*ret_pass = buf_len(held);
	flow->scanned += buf_len(held);
	return scan(flow, held, buf_len(held));
}

static bool on_look(void *ctx, struct buf *held, size_t *ret_pass, bool *ret_is_over)
{
	struct flow *flow = ctx;
	switch (look_on(flow, ret_pass)) {
	case INSPECT_OVER:
		return look_over(flow, held, ret_pass, ret_is_over);
	case INSPECT_WAIT: {
		int whole = INSPECT_STATUS;
		flow->pump.wants_answer = true;
		/* So that a status line in pieces is not taken for another. */
		(void)setsockopt(flow->pump.sides[PUMP_IN].fd, SOL_SOCKET, SO_RCVLOWAT, &whole,
		                 sizeof(whole));
		return true;
	}
	case INSPECT_BAD:
		flow->state = FLOW_DENIED;
		return false;
	case INSPECT_PASS:
		return scan(flow, held, *ret_pass);
	case INSPECT_MORE:
	case INSPECT_NAME:
	default:
		return true;
	}
}

static void on_answered(void *ctx, const uint8_t *bytes, size_t len)
{
	struct flow *flow = ctx;
	int any = 1;
	(void)setsockopt(flow->pump.sides[PUMP_IN].fd, SOL_SOCKET, SO_RCVLOWAT, &any, sizeof(any));
	inspect_server_said(&flow->inspect, bytes, len);
}

static void on_ended(void *ctx, bool is_reset)
{
	struct flow *flow = ctx;
	if (flow->state == FLOW_DENIED) {    /* on_look said so */
		flow->state = FLOW_RELAYING; /* so that deny ends the relay */
		deny(flow);
		return;
	}
	pump_stop(&flow->pump, is_reset);
	tell_closed(flow, NULL);
	flow_free(flow);
}

static const struct pump_hooks pump_hooks = {
	.may_send = on_may_send,
	.moved = on_moved,
	.look = on_look,
	.answered = on_answered,
	.ended = on_ended,
};

static void dial_target(struct flow *flow);

static void tell_allowed(struct flow *flow)
{
	struct decision decision;
	if (flow->is_told)
		return;
	flow->is_told = true;
	fill(flow, DECISION_ALLOW, &decision);
	(void)decision_make(&flow->gateway->decisions, &decision, NULL, NULL);
}

/* The dialer has a never-list of its own, and knows this machine's addresses. */
static void on_unreachable(struct flow *flow, const struct err *err)
{
	if (err->code == ERR_FORBIDDEN) {
		char text[ADDR_TEXT];
		addr_format(text, sizeof(text), &flow->targets[flow->target_count - 1]);
		judge_refuse(&flow->judgement, JUDGE_NEVER, text);
		(void)!str_copy(flow->judgement.rule, sizeof(flow->judgement.rule), err->msg);
		deny(flow);
		return;
	}
	tell_closed(flow, err->msg);
	flow_free(flow);
}

/* What waits in the buffers of both sockets is the kernel's memory, for which no sandbox has a
 * limit on our side. A few connections get as much as they make use of; where there are many, each
 * further one gets enough and no more: those stay below half a gigabyte together, whoever reads
 * slowly. */
static void bound_buffers(const struct flow *flow, int outside)
{
	enum { FEW_FLOWS = 32, BUFFER_BYTES = 64 * 1024 };
	const int fds[] = {flow->inside, outside};
	int bytes = BUFFER_BYTES;
	if (flow->gateway->flow_count <= FEW_FLOWS)
		return;
	for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
		(void)setsockopt(fds[i], SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
		(void)setsockopt(fds[i], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
	}
}

static void on_dialled(void *ctx, int fd, const struct err *err)
{
	struct flow *flow = ctx;
	struct gateway *gateway = flow->gateway;
	int now = 1;
	flow->dial = NULL;
	if (fd < 0) {
		/* The client thinks it is connected and would not try another address itself. */
		if (++flow->target < flow->target_count && err->code != ERR_FORBIDDEN) {
			dial_target(flow);
			return;
		}
		on_unreachable(flow, err);
		return;
	}
	gateway->connections++;
	loop_remove(&flow->source);
	loop_timer_stop(&flow->timer);
	(void)setsockopt(flow->inside, IPPROTO_TCP, TCP_NODELAY, &now, sizeof(now));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &now, sizeof(now));
	bound_buffers(flow, fd);
	flow->state = FLOW_RELAYING;
	flow->pump = (struct pump){
		.loop = gateway->loop, .pool = &gateway->pool, .hooks = &pump_hooks, .ctx = flow};
	pump_start(&flow->pump, take_fd(&flow->inside), fd, &flow->held);
}

static void dial_target(struct flow *flow)
{
	struct transparent_end to = {flow->targets[flow->target], flow->to.port};
	flow->state = FLOW_DIALLING;
	flow->dial = dial_to(&flow->gateway->dials, &to, false, on_dialled, flow);
}

static void add_target(struct flow *flow, const struct addr *addr)
{
	for (size_t i = 0; i < flow->target_count; i++) {
		if (memcmp(&flow->targets[i], addr, sizeof(*addr)) == 0)
			return;
	}
	if (flow->target_count < TARGETS && !judge_is_stand_in(addr) &&
	    judge_may_dial(&flow->gateway->judge, addr, flow->to.port))
		flow->targets[flow->target_count++] = *addr;
}

static void on_found(void *ctx, const struct dns_answer *answer)
{
	struct flow *flow = ctx;
	for (size_t i = 0; answer && i < answer->count; i++)
		add_target(flow, &answer->addrs[i]);
	if (flow->target_count > 0) {
		dial_target(flow);
		return;
	}
	tell_closed(flow, "the name has no address that may be reached");
	flow_free(flow);
}

/* Allowed: the address it wanted first, then others of the same name. */
static void proceed(struct flow *flow)
{
	struct gateway *gateway = flow->gateway;
	const struct addr *addr;
	size_t at = 0;
	if (gateway_is_capped(gateway)) {
		refuse(flow, JUDGE_CAP);
		return;
	}
	tell_allowed(flow);
	loop_remove(&flow->source); /* what it sends waits in the kernel */
	loop_timer_stop(&flow->timer);
	if (judge_is_stand_in(&flow->to.addr)) {
		flow->state = FLOW_RESOLVING;
		resolver_find(&gateway->resolver, flow->judgement.host, on_found, flow);
		return;
	}
	add_target(flow, &flow->to.addr);
	while (flow->judgement.host[0] != '\0' && flow->target_count < TARGETS &&
	       (addr = pins_next_addr(&gateway->judge.pins, flow->judgement.host,
	                              gateway_now_ms(gateway), &at)) != NULL)
		add_target(flow, addr);
	if (flow->target_count == 0)
		refuse(flow, JUDGE_NEVER);
	else
		dial_target(flow);
}

/* --- asking a person --- */

static void on_unanswered(struct loop_timer *timer, void *ctx)
{
	refuse(ctx, JUDGE_UNANSWERED);
}

static void tell_question(const struct flow *flow)
{
	struct gateway *gateway = flow->gateway;
	uint64_t now_ms = gateway_now_ms(gateway);
	struct decision decision;
	fill(flow, DECISION_ASK, &decision);
	decision.ask = flow->ask;
	decision.left_ms = flow->timer.due_ms > now_ms ? flow->timer.due_ms - now_ms : 0;
	decision_tell(&gateway->decisions, &decision); /* may be answered at once */
}

static void ask_person(struct flow *flow)
{
	struct gateway *gateway = flow->gateway;
	flow->state = FLOW_ASKING;
	loop_remove(&flow->source);
	flow->ask = ++gateway->last_ask;
	loop_timer_in(gateway->loop, &flow->timer, gateway->ask_ms, on_unanswered, flow);
	/* The same destination is asked about once, whoever waits for it, and for all of them the
	 * time is over at once. */
	for (const struct flow *other = gateway->flows; other; other = other->next) {
		if (other != flow && other->state == FLOW_ASKING &&
		    other->to.port == flow->to.port &&
		    str_eq(other->judgement.host, flow->judgement.host) &&
		    (flow->judgement.host[0] != '\0' ||
		     memcmp(&other->to.addr, &flow->to.addr, sizeof(flow->to.addr)) == 0)) {
			flow->ask = other->ask;
			loop_timer_at(gateway->loop, &flow->timer, other->timer.due_ms,
			              on_unanswered, flow);
		}
	}
	bool is_new = flow->ask == gateway->last_ask;
	gateway->last_ask -= !is_new;
	if (is_new)
		tell_question(flow);
}

void flow_ask_again(struct gateway *gateway)
{
	uint64_t last = UINT64_MAX;
	for (const struct flow *flow = gateway->flows; flow; flow = flow->next) {
		if (flow->state != FLOW_ASKING || flow->ask == last)
			continue;
		last = flow->ask;
		tell_question(flow);
	}
}

bool flow_answer(struct gateway *gateway, uint64_t number, bool is_allowed)
{
	bool is_found = false;
	struct flow *next;
	for (struct flow *flow = gateway->flows; flow; flow = next) {
		next = flow->next;
		if (flow->state != FLOW_ASKING || flow->ask != number)
			continue;
		is_found = true;
		if (!is_allowed) {
			refuse(flow, JUDGE_REFUSED);
			continue;
		}
		flow->is_approved = true;
		flow->judgement.answer = POLICY_ALLOW;
		(void)snprintf(flow->judgement.rule, sizeof(flow->judgement.rule),
		               "allowed once by a person");
		proceed(flow);
	}
	return is_found;
}

/* --- the beginning --- */

/* A verdict about the address is there and, where one is wanted, about the name. */
static void decide(struct flow *flow)
{
	switch (flow->judgement.answer) {
	case POLICY_ALLOW:
		proceed(flow);
		break;
	case POLICY_ASK_FIRST:
		ask_person(flow);
		break;
	case POLICY_DENY:
	default:
		deny(flow);
		break;
	}
}

static void look(struct flow *flow)
{
	size_t pass = 0;
	ssize_t n = buf_read_fd(&flow->held, flow->inside, buf_room(&flow->held));
	if (n < 0 && (n == -EAGAIN || n == -EINTR))
		return;
	if (n <= 0) {
		flow_free(flow); /* it went without a word */
		return;
	}
	/* Names are agreed to here and passed on by the pump: the step that passes comes again. */
	struct inspect before = flow->inspect;
	enum inspect_result result = look_on(flow, &pass);
	if (result == INSPECT_MORE)
		return;
	if (result == INSPECT_BAD) {
		deny(flow);
		return;
	}
	if (result == INSPECT_PASS) {
		flow->inspect = before;
		flow->inspect.is_first_done = false;
	}
	decide(flow);
}

static void on_inside(struct loop_source *source, uint32_t events, void *ctx)
{
	look(ctx);
}

static void on_look_late(struct loop_timer *timer, void *ctx)
{
	flow_free(ctx);
}

static bool is_probe(const struct gateway *gateway, const struct transparent_end *to)
{
	const struct gateway_probe *probe = &gateway->probe;
	return probe->is_on && to->port == probe->to.port &&
	       memcmp(&to->addr, &probe->to.addr, sizeof(to->addr)) == 0;
}

static void begin(struct flow *flow)
{
	struct gateway *gateway = flow->gateway;
	enum inspect_kind kind;
	if (gateway->flow_count > GATEWAY_FLOWS) {
		refuse(flow, JUDGE_BUSY);
		return;
	}
	if (!uplink_is_own(&flow->from.addr)) {
		judge_source(&flow->judgement, &flow->from.addr);
		deny(flow);
		return;
	}
	judge_stream(&gateway->judge, &flow->to, gateway_now_ms(gateway), &flow->judgement, &kind,
	             &flow->is_strict);
	inspect_start(&flow->inspect, kind);
	flow->scanned = kind == INSPECT_TLS ? SCAN_MOST : 0; /* nothing is found in there */
	bool must_look = kind == INSPECT_TLS || kind == INSPECT_HTTP;
	if (uplink_is_gateway(&flow->to.addr)) {
		refuse(flow, JUDGE_NOBODY);
		return;
	}
	if (flow->judgement.answer == POLICY_DENY || !must_look) {
		decide(flow);
		return;
	}
	loop_timer_in(gateway->loop, &flow->timer, LOOK_MS, on_look_late, flow);
	if (loop_add(gateway->loop, &flow->source, flow->inside, EPOLLIN, on_inside, flow) < 0)
		flow_free(flow);
}

void flow_accept(struct gateway *gateway, int fd)
{
	struct transparent_end from, to;
	if (transparent_local(fd, &to) < 0 || transparent_peer(fd, &from) < 0) {
		flow_reset(&fd); /* gone already */
		return;
	}
	if (is_probe(gateway, &to)) {
		gateway->probe.saw_connection = true;
		flow_reset(&fd);
		return;
	}
	bool is_own = uplink_is_own(&from.addr);
	if (to.port == PORT_DNS && is_own) {
		resolver_accept(&gateway->resolver, fd, &from, &to);
		return;
	}
	if (to.port == PORT_HTTP && is_own && uplink_is_gateway(&to.addr) && gateway->hooks.guest) {
		gateway->hooks.guest(gateway->hooks.ctx, fd);
		return;
	}
	struct flow *flow = mem_new(struct flow);
	flow->gateway = gateway;
	flow->inside = fd;
	flow->from = from;
	flow->to = to;
	buf_init(&flow->held, INSPECT_HELD);
	needle_init(&flow->placeholder, SERVICE_PLACEHOLDER);
	flow->next = gateway->flows;
	flow->at = &gateway->flows;
	if (flow->next)
		flow->next->at = &flow->next;
	gateway->flows = flow;
	gateway->flow_count++;
	begin(flow);
}

/* --- changes --- */

/* Does the policy now in force allow what the flow is? */
static bool is_still_allowed(struct flow *flow)
{
	struct gateway *gateway = flow->gateway;
	struct judgement now;
	enum inspect_kind kind;
	bool is_strict;
	judge_stream(&gateway->judge, &flow->to, gateway_now_ms(gateway), &now, &kind, &is_strict);
	if (now.answer == POLICY_DENY)
		return false;
	/* It has to be looked at now and was not: whom it talks to is not known. */
	bool was_looked_at = flow->inspect.is_first_done || flow->state == FLOW_LOOKING ||
	                     (flow->state == FLOW_ASKING && flow->inspect.kind == kind);
	if ((kind == INSPECT_TLS || kind == INSPECT_HTTP) && is_strict && !was_looked_at)
		return false;
	if (flow->judgement.host[0] == '\0' || kind == INSPECT_NOTHING)
		return true;
	struct policy_verdict named =
		policy_name_verdict(&gateway->judge.policy, flow->judgement.host, flow->to.port);
	return named.answer != POLICY_DENY;
}

void flow_policy_changed(struct gateway *gateway)
{
	struct flow *next;
	for (struct flow *flow = gateway->flows; flow; flow = next) {
		next = flow->next;
		if (flow->state == FLOW_DENIED)
			continue;
		if (!is_still_allowed(flow)) {
			refuse(flow, JUDGE_CHANGED);
			continue;
		}
		if (flow->state != FLOW_ASKING)
			continue;
		enum inspect_kind kind;
		struct judgement now;
		judge_stream(&gateway->judge, &flow->to, gateway_now_ms(gateway), &now, &kind,
		             &flow->is_strict);
		if (now.answer != POLICY_ALLOW)
			continue;
		flow->judgement = now; /* the answer came as a rule */
		proceed(flow);
	}
}

void flow_resume_all(struct gateway *gateway)
{
	struct flow *next;
	for (struct flow *flow = gateway->flows; flow; flow = next) {
		next = flow->next;
		if (flow->state == FLOW_RELAYING)
			pump_resume(&flow->pump);
	}
}

void flow_cut_all(struct gateway *gateway, enum judge_reason reason)
{
	struct flow *next;
	for (struct flow *flow = gateway->flows; flow; flow = next) {
		next = flow->next;
		if (flow->state != FLOW_DENIED)
			refuse(flow, reason);
	}
}

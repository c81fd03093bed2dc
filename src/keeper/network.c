/*
 * Who runs this: the keeper, without any right. Bytes looked at: policies of the daemon (through
 * policy_parse), answers of our own init, and through the gateway whatever a sandbox sends.
 *
 * A policy is in force before it is proved: the proof is an attempt from inside at an address and a
 * name that no policy allows, and if either is not refused here, nothing is allowed any more.
 */
#include "keeper/network.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "keeper/calls.h"
#include "keeper/denials.h"
#include "keeper/gateway.h"
#include "keeper/guest.h"
#include "keeper/state.h"

/* TOKEN_BIT tells requests of ours to init from those of keeper.c. */
#define TOKEN_BIT (UINT64_C(1) << 63)
#define PROBE_BIT (UINT64_C(1) << 62)

enum {
	PROBE_MS = 3000,
	KEPT_MOST = 256, /* decisions kept for a daemon that is away */
	HAND_ON_MS = 500,
};

struct kept {
	struct kept *next;
	struct decision decision;
};

struct network {
	struct keeper *keeper;
	struct gateway gateway;
	void (*on_ready)(struct keeper *keeper, const struct err *err);
	/* The proof under way: who waits for it. */
	struct conn *prover;
	uint64_t prover_request;
	bool is_proving;
	uint64_t proved; /* the last generation that was; one that was not is as if it never came */
	uint64_t probe_number;
	struct loop_timer late;
	struct kept *kept, **kept_end;
	size_t kept_count;
	uint64_t lost;   /* decisions beyond what is kept */
	bool has_common; /* a refused call that is told once was */
	struct loop_timer hand_on;
};

/* --- telling --- */

/* The address of a question is that of whatever resolver the program believes in; what is about no
 * address has port 0 and none. */
static bool has_address(const struct decision *decision)
{
	static const struct addr none;
	if (decision->to.port != 0)
		return decision->proto != DECISION_DNS;
	return memcmp(&decision->to.addr, &none, sizeof(none)) != 0;
}

static void put_decision(const struct decision *decision, struct wire_out *out)
{
	char address[ADDR_TEXT];
	addr_format(address, sizeof(address), &decision->to.addr);
	wire_put_str(out, FIELD_VERDICT, decision_verdict_name(decision->verdict));
	wire_put_str(out, FIELD_PROTO, decision_proto_name(decision->proto));
	if (decision->host[0] != '\0')
		wire_put_str(out, FIELD_HOST, decision->host);
	if (has_address(decision))
		wire_put_str(out, FIELD_ADDRESS, address);
	wire_put_u64(out, FIELD_PORT, decision->to.port);
	if (decision->program[0] != '\0') {
		wire_put_str(out, FIELD_PROGRAM, decision->program);
		wire_put_u64(out, FIELD_PID, decision->pid);
	}
	wire_put_str(out, FIELD_RULE, decision->rule);
	if (decision->remedy[0] != '\0')
		wire_put_str(out, FIELD_REMEDY, decision->remedy);
	wire_put_u64(out, FIELD_GENERATION, decision->generation);
	wire_put_u64(out, FIELD_COUNT, decision->count);
	wire_put_u64(out, FIELD_SENT, decision->sent);
	wire_put_u64(out, FIELD_RECEIVED, decision->received);
	wire_put_u64(out, FIELD_STARTED_MS, decision->at_ms);
}

static void send_decision(struct keeper *keeper, const struct decision *decision)
{
	auto_wire_out struct wire_out out;
	wire_begin(&out, WIRE_K_DECISION, 0);
	put_decision(decision, &out);
	serve_send(keeper, NULL, &out);
}

static void on_hand_on(struct loop_timer *timer, void *ctx);

static void keep(struct network *network, const struct decision *decision)
{
	if (network->kept_count == KEPT_MOST) {
		network->lost += decision->count;
		return;
	}
	struct kept *kept = mem_new(struct kept);
	kept->decision = *decision;
	*network->kept_end = kept;
	network->kept_end = &kept->next;
	network->kept_count++;
	if (network->kept_count == 1)
		loop_timer_in(network->keeper->loop, &network->hand_on, HAND_ON_MS, on_hand_on,
		              network);
}

static void tell_lost(struct network *network)
{
	struct decision lost = {.verdict = DECISION_DENY,
	                        .count = network->lost,
	                        .generation = network->gateway.generation,
	                        .at_ms = io_real_ms()};
	(void)snprintf(lost.rule, sizeof(lost.rule),
	               "%llu decisions were made while nobody listened, and are lost",
	               (unsigned long long)network->lost);
	network->lost = 0;
	send_decision(network->keeper, &lost);
}

static void drop_kept(struct network *network)
{
	struct kept *kept = network->kept;
	network->kept = kept->next;
	network->kept_count--;
	if (!network->kept)
		network->kept_end = &network->kept;
	free(kept);
}

static void on_hand_on(struct loop_timer *timer, void *ctx)
{
	struct network *network = ctx;
	while (serve_has_daemon(network->keeper) && network->kept) {
		send_decision(network->keeper, &network->kept->decision);
		drop_kept(network);
	}
	if (network->kept)
		loop_timer_in(network->keeper->loop, timer, HAND_ON_MS, on_hand_on, network);
	else if (network->lost > 0)
		tell_lost(network);
}

static void send_question(struct keeper *keeper, const struct decision *decision)
{
	auto_wire_out struct wire_out out;
	wire_begin(&out, WIRE_K_ASK, 0);
	wire_put_u64(&out, FIELD_ASK, decision->ask);
	wire_put_u64(&out, FIELD_TIMEOUT_MS, decision->left_ms);
	put_decision(decision, &out);
	serve_send(keeper, NULL, &out);
}

static void on_tell(void *ctx, const struct decision *decision)
{
	struct network *network = ctx;
	if (decision->verdict == DECISION_DENY)
		denials_write(network->keeper->launch.uplink.denials, decision);
	if (decision->verdict == DECISION_ASK)
		send_question(network->keeper, decision);
	if (serve_has_daemon(network->keeper) && !network->kept)
		send_decision(network->keeper, decision);
	else
		keep(network, decision);
}

static void on_guest(void *ctx, int fd)
{
	struct network *network = ctx;
	guest_take(network->keeper, fd);
}

/* Init looks into /proc inside; its answer comes to network_init_said. */
static bool on_who(void *ctx, uint64_t token, const struct decision *decision)
{
	struct network *network = ctx;
	int control = network->keeper->launch.control[0];
	if (control < 0 || decision->from.port == 0)
		return false;
	auto_wire_out struct wire_out out;
	wire_begin(&out, WIRE_I_WHO, TOKEN_BIT | token);
	wire_put_str(&out, FIELD_PROTO, decision->proto == DECISION_TCP ? "tcp" : "udp");
	wire_put_u64(&out, FIELD_PORT, decision->from.port);
	wire_put_u64(&out, FIELD_NUMBER, decision->to.port);
	return wire_send(control, &out) >= 0;
}

/* --- calls that were refused --- */

static void tell_call(struct network *network, const struct wire_msg *msg)
{
	struct judgement judgement;
	struct decision decision;
	struct transparent_end nowhere = {0};
	uint64_t args[CALLS_ARGS] = {0}, call = wire_u64(msg, FIELD_CALL, 0);
	size_t len = 0;
	const uint8_t *bytes = wire_blob(msg, FIELD_ARGS, &len);
	const char *program = wire_str(msg, FIELD_PROGRAM, "");
	if (bytes)
		memcpy(args, bytes, MIN(len, sizeof(args)));
	calls_describe(call, args, &judgement);
	gateway_fill(&network->gateway, &judgement, DECISION_SOCKET, &nowhere, &nowhere, &decision);
	str_escape(decision.program, sizeof(decision.program), program, strlen(program));
	decision.pid = wire_u64(msg, FIELD_PID, 0);
	if (calls_is_common(call) && network->has_common)
		return;
	network->has_common |= calls_is_common(call);
	(void)decision_make(&network->gateway.decisions, &decision, NULL, NULL);
}

/* Told first, then refused: the line inside is there when the program sees its error. */
static void on_call(struct keeper *keeper, const struct wire_msg *msg)
{
	if (keeper->network)
		tell_call(keeper->network, msg);
	auto_wire_out struct wire_out out;
	wire_begin(&out, WIRE_I_REFUSE, 0);
	wire_put_u64(&out, FIELD_ASK, wire_u64(msg, FIELD_ASK, 0));
	wire_put_u64(&out, FIELD_ERR_SYS, wire_u64(msg, FIELD_ERR_SYS, 0));
	(void)!wire_send(keeper->launch.control[0], &out); /* a dead init has nobody waiting */
}

/* --- the proof --- */

/* Nothing is allowed any more: what is not proved to be refused is not refused under the old policy
 * either. */
static void close_down(struct network *network, const struct err *why, struct err *ret)
{
	struct policy nothing;
	policy_init(&nothing);
	gateway_set_policy(&network->gateway, network->proved, &nothing);
	err_set(ret, ERR_INTERNAL, "nothing leaves, for no policy could be proved from inside: %s",
	        why->msg);
	log_error("the network policy is not in force, so nothing leaves",
	          LOG_STR("sandbox", network->keeper->slot.id), LOG_ERR(why));
}

static void finish_proof(struct network *network, const struct err *result)
{
	struct keeper *keeper = network->keeper;
	struct conn *prover = network->prover;
	struct err told = {0};
	const struct err *err = &told;
	loop_timer_stop(&network->late);
	network->is_proving = false;
	network->prover = NULL;
	if (result->code != ERR_OK)
		close_down(network, result, &told);
	else
		network->proved = network->gateway.generation;
	if (network->on_ready) {
		network->on_ready(keeper, err);
		network->on_ready = NULL;
	}
	if (!prover)
		return;
	if (err->code != ERR_OK) {
		serve_error(keeper, prover, network->prover_request, err);
		return;
	}
	auto_wire_out struct wire_out out;
	wire_begin(&out, WIRE_OK, network->prover_request);
	wire_put_u64(&out, FIELD_GENERATION, network->gateway.generation);
	serve_send(keeper, prover, &out);
}

static void on_probe_late(struct loop_timer *timer, void *ctx)
{
	struct network *network = ctx;
	struct err err = {0};
	(void)gateway_probe_end(&network->gateway);
	err_set(&err, ERR_INTERNAL, "the network policy could not be proved from inside in time");
	finish_proof(network, &err);
}

static void on_probe_answer(struct network *network, const struct wire_msg *msg)
{
	struct err err = {0};
	bool came_here = gateway_probe_end(&network->gateway);
	if (wire_get_err(msg, &err) == 0 && !came_here)
		err_set(&err, ERR_INTERNAL, "an attempt from inside did not come by the gateway");
	finish_proof(network, &err);
}

static void prove(struct network *network)
{
	struct keeper *keeper = network->keeper;
	const struct gateway_probe *probe = gateway_probe_begin(&network->gateway);
	char address[ADDR_TEXT];
	network->is_proving = true;
	network->probe_number = PROBE_BIT | keeper_next_request(keeper);
	if (!probe) {
		/* Every address there is was granted by name: there is nothing to be refused. */
		finish_proof(network, &(struct err){0});
		return;
	}
	addr_format(address, sizeof(address), &probe->to.addr);
	auto_wire_out struct wire_out out;
	wire_begin(&out, WIRE_I_PROBE, network->probe_number);
	wire_put_str(&out, FIELD_ADDRESS, address);
	wire_put_u64(&out, FIELD_PORT, probe->to.port);
	wire_put_str(&out, FIELD_HOST, probe->name);
	wire_put_str(&out, FIELD_ENTRY, UPLINK_GATEWAY_V4);
	loop_timer_in(keeper->loop, &network->late, PROBE_MS, on_probe_late, network);
	if (wire_send(keeper->launch.control[0], &out) < 0)
		loop_timer_in(keeper->loop, &network->late, 0, on_probe_late, network);
}

void network_init_said(struct keeper *keeper, const struct wire_msg *msg)
{
	struct network *network = keeper->network;
	if (msg->type == WIRE_I_TOLD)
		on_call(keeper, msg);
	if (!network || msg->type == WIRE_I_TOLD)
		return;
	if (msg->request & TOKEN_BIT)
		decisions_known(&network->gateway.decisions, msg->request & ~TOKEN_BIT,
		                wire_str(msg, FIELD_PROGRAM, ""), wire_u64(msg, FIELD_PID, 0));
	else if (network->is_proving && msg->request == network->probe_number)
		on_probe_answer(network, msg);
}

/* --- life --- */

int network_start(struct keeper *keeper,
                  void (*on_ready)(struct keeper *keeper, const struct err *err))
{
	if (!keeper->launch.uplink.is_up) {
		on_ready(keeper, &(struct err){0});
		return 0;
	}
	struct network *network = mem_new(struct network);
	struct gateway_hooks hooks = {
		.ctx = network, .tell = on_tell, .who = on_who, .guest = on_guest};
	network->keeper = keeper;
	network->kept_end = &network->kept;
	network->on_ready = on_ready;
	keeper->network = network;
	int r = gateway_start(&network->gateway, keeper->loop, &keeper->launch.uplink, &hooks);
	if (r < 0)
		return r;
	dials_take(&network->gateway.dials, take_fd(&keeper->slot.dialer));
	prove(network);
	return 0;
}

bool network_is_proving(const struct keeper *keeper)
{
	return keeper->network && keeper->network->is_proving;
}

void network_done(struct keeper *keeper)
{
	struct network *network = keeper->network;
	if (!network)
		return;
	gateway_done(&network->gateway);
	loop_timer_stop(&network->late);
	loop_timer_stop(&network->hand_on);
	while (network->kept)
		drop_kept(network);
	mem_freep(&keeper->network);
}

void network_conn_gone(struct keeper *keeper, const struct conn *conn)
{
	if (keeper->network && keeper->network->prover == conn)
		keeper->network->prover = NULL;
}

/* --- requests --- */

int network_policy(struct keeper *keeper, struct conn *conn, const struct wire_msg *msg,
                   struct err *err)
{
	struct network *network = keeper->network;
	uint64_t generation = wire_u64(msg, FIELD_GENERATION, 0);
	struct policy policy;
	size_t len;
	const uint8_t *blob = wire_blob(msg, FIELD_POLICY, &len);
	if (!blob || policy_parse(blob, len, &policy, err) < 0)
		return blob ? -1 : err_set(err, ERR_PROTOCOL, "a policy without its bytes");
	int r = 0;
	if (!network && policy.level != ENVIRONMENT_NONE)
		r = err_set(err, ERR_MISSING,
		            "network policies need nf_tables with tproxy, which this kernel lacks");
	else if (network && network->is_proving)
		r = err_set(err, ERR_CONFLICT, "another policy is being put in force: ask again");
	else if (network && generation <= network->gateway.generation)
		r = err_set(err, ERR_CONFLICT, "policy %llu is not newer than the one in force",
		            (unsigned long long)generation);
	if (r < 0 || !network) {
		policy_done(&policy);
		return r;
	}
	network->prover = conn;
	network->prover_request = msg->request;
	network->gateway.ask_ms = wire_u64(msg, FIELD_TIMEOUT_MS, network->gateway.ask_ms);
	gateway_set_policy(&network->gateway, generation, &policy);
	prove(network);
	return 1;
}

struct network_sums network_sums(const struct keeper *keeper)
{
	if (!keeper->network)
		return (struct network_sums){0};
	const struct gateway *gateway = &keeper->network->gateway;
	return (struct network_sums){
		.sent = gateway->sent,
		.received = gateway->received,
		.connections = gateway->connections,
		.open = gateway->flow_count + gateway->exchange_count,
		.denied = gateway->decisions.denied,
		.queries = gateway->resolver.asked,
	};
}

void network_put_sums(const struct keeper *keeper, struct wire_out *out)
{
	struct network_sums sums = network_sums(keeper);
	wire_put_u64(out, FIELD_METER_NET_SENT, sums.sent);
	wire_put_u64(out, FIELD_METER_NET_RECEIVED, sums.received);
	wire_put_u64(out, FIELD_METER_NET_CONNECTIONS, sums.connections);
	wire_put_u64(out, FIELD_METER_NET_OPEN, sums.open);
	wire_put_u64(out, FIELD_METER_NET_DENIED, sums.denied);
	wire_put_u64(out, FIELD_METER_DNS_QUERIES, sums.queries);
}

void network_put(struct keeper *keeper, struct conn *conn, uint64_t request, struct wire_out *out)
{
	struct network *network = keeper->network;
	if (!network)
		return;
	flow_count_all(&network->gateway);
	exchange_count_all(&network->gateway);
	const struct decisions *decisions = &network->gateway.decisions;
	for (size_t i = 0; i < decisions->host_count; i++) {
		const struct decision_host *host = &decisions->hosts[i];
		auto_wire_out struct wire_out row;
		wire_begin(&row, WIRE_K_NET_HOST, request);
		wire_put_str(&row, FIELD_HOST, host->host);
		wire_put_u64(&row, FIELD_PORT, host->port);
		wire_put_str(&row, FIELD_PROTO, decision_proto_name(host->proto));
		wire_put_u64(&row, FIELD_COUNT, host->allowed);
		wire_put_u64(&row, FIELD_DENIED, host->denied);
		wire_put_u64(&row, FIELD_SENT, host->sent);
		wire_put_u64(&row, FIELD_RECEIVED, host->received);
		serve_send(keeper, conn, &row);
	}
	wire_put_u64(out, FIELD_GENERATION, network->gateway.generation);
	network_put_sums(keeper, out);
}

int network_answer(struct keeper *keeper, const struct wire_msg *msg, struct err *err)
{
	const char *verdict = wire_str(msg, FIELD_VERDICT, "");
	bool is_allowed = str_eq(verdict, "allow");
	if (!is_allowed && !str_eq(verdict, "deny"))
		return err_set(err, ERR_INVALID, "an answer is allow or deny");
	if (!keeper->network ||
	    !gateway_answer(&keeper->network->gateway, wire_u64(msg, FIELD_ASK, 0), is_allowed))
		return err_set(err, ERR_NOT_FOUND, "nobody waits for this answer any more");
	return 0;
}

void network_ask_again(struct keeper *keeper)
{
	if (keeper->network)
		gateway_ask_again(&keeper->network->gateway);
}

int network_dialer(struct keeper *keeper, struct conn *conn, const struct wire_msg *msg,
                   struct err *err)
{
	/* The message stays whole for its owner: what is taken is a copy. */
	int sock = msg->fd_count == 1 ? fcntl(msg->fds[0], F_DUPFD_CLOEXEC, 0) : -1;
	if (!conn->is_root)
		err_set(err, ERR_FORBIDDEN, "only root hands out a dialer");
	else if (sock < 0)
		err_set(err, ERR_PROTOCOL, "a dialer without its socket");
	if (!conn->is_root || sock < 0 || !keeper->network) {
		fd_closep(&sock);
		return err->code == ERR_OK ? 0 : -1;
	}
	dials_take(&keeper->network->gateway.dials, sock);
	return 0;
}

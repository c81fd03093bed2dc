/*
 * The keeper's own side of the gateway: policies that the daemon sends, proved from inside before
 * they are confirmed; decisions told to the daemon, kept for it while it is away, and written where
 * the sandbox can read them; the meters.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"
#include "wire/wire.h"

struct conn;
struct keeper;
struct network;

/* Starts the gateway and proves from inside that nothing leaves. on_ready is called once: err has
 * ERR_OK, or says what is wrong. Where the kernel cannot carry policies there is no gateway, and
 * nothing to prove. */
int network_start(struct keeper *keeper,
                  void (*on_ready)(struct keeper *keeper, const struct err *err)) NODISCARD;
/* on_ready was not called yet, or a later policy is not confirmed yet. */
bool network_is_proving(const struct keeper *keeper);
void network_done(struct keeper *keeper);
/* K_POLICY: answered by network itself, later. */
int network_policy(struct keeper *keeper, struct conn *conn, const struct wire_msg *msg,
                   struct err *err) NODISCARD;
/* K_NET: the hosts, and then the sums into `out`. */
void network_put(struct keeper *keeper, struct conn *conn, uint64_t request, struct wire_out *out);
/* What left and came so far; zeros where there is no gateway. */
struct network_sums {
	uint64_t sent, received; /* bytes */
	uint64_t connections, open, denied;
	uint64_t queries; /* to resolvers outside */
};
struct network_sums network_sums(const struct keeper *keeper);
/* The METER_NET_* fields alone. */
void network_put_sums(const struct keeper *keeper, struct wire_out *out);
/* A daemon that lists what runs may be another one than was asked: questions come again. */
void network_ask_again(struct keeper *keeper);
/* K_ANSWER, K_DIALER. */
int network_answer(struct keeper *keeper, const struct wire_msg *msg, struct err *err) NODISCARD;
int network_dialer(struct keeper *keeper, struct conn *conn, const struct wire_msg *msg,
                   struct err *err) NODISCARD;
/* Init answered something that nobody waited for. */
void network_init_said(struct keeper *keeper, const struct wire_msg *msg);
void network_conn_gone(struct keeper *keeper, const struct conn *conn);

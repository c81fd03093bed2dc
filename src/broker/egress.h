/*
 * The broker's side of what leaves sandboxes: it keeps one dialer for all of them, a socket between
 * it and each keeper, and what each sandbox's policy opens of the never-list (OP_EGRESS), which it
 * writes to sandboxes/<id>/egress. A dialer that died is replaced, and so is that of a broker
 * before us: every living keeper gets a socket to the new one.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"
#include "base/loop.h"
#include "broker/dialer.h"

struct broker;

struct egress {
	struct broker *broker;
	struct dialer dialer;
	struct loop_source source; /* its end */
	struct loop_timer restart;
	uint64_t backoff_ms;
	int64_t resolv_conf_ns; /* which version of the file was told */
};

void egress_init(struct egress *egress, struct broker *broker);
void egress_done(struct egress *egress);
/* Starts the dialer and hands it to the keepers that are alive. Where that fails it is tried again
 * later: until then sandboxes reach nothing. */
void egress_start(struct egress *egress);
/* A new keeper's end of a socket to the dialer; the caller closes it. */
int egress_socket(struct egress *egress, const char *sandbox, struct err *err) NODISCARD;

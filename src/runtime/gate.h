/*
 * At most so many calls of a kind under way at once; the rest wait here in order. The broker
 * refuses more than its table allows, and a burst is no reason to fail. Nothing waits longer than
 * its own time limit: then it is refused.
 */
#pragma once

#include "base/base.h"
#include "runtime/peer.h"

struct gate_job;

struct gate {
	struct peer *peer;
	size_t most;
	size_t under_way;
	struct gate_job *first, **last;
};

void gate_init(struct gate *gate, struct peer *peer, size_t most);
/* As peer_call; takes the content of *out. When the peer is gone, what still waits is refused as
 * the calls under way are. */
void gate_call(struct gate *gate, uint64_t number, struct wire_out *out, uint64_t timeout_ms,
               peer_on_answer on_answer, void *ctx);

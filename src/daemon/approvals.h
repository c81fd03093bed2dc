/*
 * Questions of policies in mode `ask`, while they wait for a person. They live in memory and in the
 * keeper that holds the connection: when this daemon restarts, the keeper asks again or denies in
 * time. Every question and every answer is an event.
 */
#pragma once

#include "api/engine.h"
#include "base/base.h"
#include "daemon/fleet.h"
#include "model/approval.h"
#include "wire/wire.h"

struct approvals;

struct approvals *approvals_new(struct fleet *fleet);
void approvals_free(struct approvals *approvals);

/* What the keeper asks. */
void approvals_on_ask(struct member *member, const struct wire_msg *msg);
/* What an agent asks, as engine_ops has it; whoever asks does so again after a restart. */
int approvals_ask(struct approvals *approvals, const struct approval_question *question,
                  struct id *ret_id, struct err *err) NODISCARD;
void approvals_withdraw(struct approvals *approvals, const char *id);
/* Those that still wait, oldest first; NULL after the last. */
const struct approval *approvals_at(struct approvals *approvals, size_t index);
void approvals_answer(struct approvals *approvals, const char *id,
                      const struct approval_answer *answer, engine_on_done on_done, void *ctx);

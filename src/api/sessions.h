/*
 * What the handlers of sessions share: requests as sessions and turns, and both as JSON.
 */
#pragma once

#include <jansson.h>

#include "api/call.h"
#include "base/base.h"
#include "base/err.h"
#include "model/task.h"
#include "model/turn.h"

/* A TurnRequest: checked as far as it can be before anything is stored. The caller frees. */
int turn_decode(const struct call *call, const json_t *body, struct turn **ret,
                struct err *err) NODISCARD;
/* whole: with what it was asked. */
json_t *turn_encode(const struct turn *turn, bool whole);
/* The session with its newest run (NULL: none). */
json_t *session_encode(struct api *api, const struct task *task, const struct run *run);

/* The session of the path, which they may do with what the route says. On failure the call was
 * ended. */
int session_of_path(struct call *call, struct task **ret) NODISCARD;

/* Asks the agent of a session. The turn is taken; on_turn is called once, with the turn as it is
 * stored, once it is over or after wait_ms (UINT64_MAX: as long as it takes). A message that came
 * before is not asked again: is_duplicate. */
typedef void (*on_turn)(const struct turn *turn, bool is_duplicate, const struct err *err,
                        void *ctx);
void session_ask(struct api *api, const struct task *task, struct turn *turn, uint64_t wait_ms,
                 on_turn on_over_turn, void *ctx);

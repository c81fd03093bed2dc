/*
 * One turn of a session: what its agent was asked, and what came of it. Pure.
 *
 * queued     True: it is stored, and the agent knows nothing of it.
 * running    True: the agent has it, or is about to; input_tokens, output_tokens and cost are those
 *            of the run when it began.
 * completed, failed, cancelled
 *            True: `end` says why; tokens and cost are its own. Final.
 */
#pragma once

#include "base/base.h"
#include "base/id.h"

enum turn_state { TURN_QUEUED, TURN_RUNNING, TURN_COMPLETED, TURN_FAILED, TURN_CANCELLED };

enum turn_end {
#define END(id, text, state, about) TURN_END_##id,
#include "model/turn_ends.def"
#undef END
	TURN_END_COUNT_,
	TURN_END_NONE = -1
};

enum {
	TURN_PROMPT_BYTES = 256 * 1024,
	TURN_LABEL_BYTES = 128,
	TURN_MESSAGE_BYTES = 128,
};

struct turn {
	struct id id; /* trn_… */
	struct id session;
	struct id run;
	uint64_t number;  /* 1, 2, 3 … of its session */
	char *message_id; /* the client's own; NULL: none */
	char *label;      /* may be NULL */
	char *prompt;
	char *schema; /* the answer is JSON that fits this; NULL: a text */
	uint64_t timeout_ms;
	bool is_steer; /* it goes before all that wait */
	enum turn_state state;
	enum turn_end end;
	char *detail; /* a sentence for people; may be NULL */
	char *stop_reason;
	char *text;        /* the answer as it was said; NULL: none */
	char *output;      /* the answer as JSON; NULL: no schema, or none that fits */
	uint64_t attempts; /* how often the agent was asked */
	bool is_nudged, is_repaired;
	uint64_t input_tokens, output_tokens, cost;
	uint64_t created_ms, started_ms, ended_ms;
};

struct turn *turn_new(void);
void turn_free(struct turn *turn);
void turn_freep(struct turn **turn);
bool turn_is_over(const struct turn *turn);

const char *turn_state_name(enum turn_state state);
bool turn_state_from(const char *name, enum turn_state *ret) NODISCARD;
const char *turn_end_name(enum turn_end end);
/* TURN_END_NONE for an unknown word, and for NULL. */
enum turn_end turn_end_from(const char *name);
/* What a turn that ends so is. */
enum turn_state turn_end_state(enum turn_end end);

/*
 * The client's side of the Agent Client Protocol: one agent process, one session, one turn at a
 * time. Pure: lines in, lines out through `send`; no clock, no loop, no descriptor, so that every
 * word an agent might say can be tried in a test. Deadlines are the caller's.
 *
 * starting   initialize is sent.
 * opening    session/new, or session/load of an earlier one, is sent. What a load replays is told
 *            as replay.
 * tuning     session/set_mode is sent, where the agent offers the mode that was wished for.
 * ready      a prompt can be sent.
 * prompting  session/prompt is sent; its answer ends the turn.
 * broken     the agent broke the protocol, or refused to begin: why() says so. Final.
 */
#pragma once

#include <jansson.h>

#include "acp/message.h"
#include "base/base.h"
#include "base/err.h"

enum acp_phase {
#define PHASE(id, text) ACP_##id,
#include "acp/phases.def"
#undef PHASE
	ACP_PHASE_COUNT_
};

enum { ACP_SESSION_MOST = 256 };

struct acp_stop {
	const char *
		reason; /* end_turn, max_tokens, max_turn_requests, refusal, cancelled; NULL: err */
	const json_t *usage;   /* of the turn, as the agent says; NULL: it does not */
	const struct err *err; /* why there is no reason */
};

struct acp_client;

struct acp_client_ops {
	/* A whole line for the agent, which is the callee's to free. */
	void (*send)(struct acp_client *client, char *line, void *ctx);
	/* A session/update: `kind` is its sessionUpdate. */
	void (*update)(struct acp_client *client, const char *kind, const json_t *update,
	               bool is_replay, void *ctx);
	/* The agent asks: answered with acp_client_answer, now or later. `id` is a copy if kept. */
	void (*ask)(struct acp_client *client, const struct acp_message *message, void *ctx);
	/* The session is open: a prompt can be sent. */
	void (*ready)(struct acp_client *client, void *ctx);
	void (*stopped)(struct acp_client *client, const struct acp_stop *stop, void *ctx);
	/* Nothing more can come of it. */
	void (*broken)(struct acp_client *client, const struct err *why, void *ctx);
};

struct acp_client {
	const struct acp_client_ops *ops;
	void *ctx;
	enum acp_phase phase;
	uint64_t next_id;
	uint64_t awaited; /* the id whose answer ends the phase */
	char session[ACP_SESSION_MOST];
	bool can_load;          /* the agent can take up a session again */
	bool has_http, has_sse; /* it reaches servers of MCP that way */
	char agent[64];         /* its own name and version, for people */
	/* what the session shall be */
	const char *cwd;       /* not owned */
	bool has_tools;        /* files and terminals are offered to it */
	const char *mode;      /* modeId to set where it is offered; NULL: as it is. Not owned */
	const json_t *servers; /* mcpServers; NULL: none. Not owned */
};

/* Sends initialize. A session that is set is loaded, otherwise a new one is made. */
void acp_client_start(struct acp_client *client);
/* One line of the agent. */
void acp_client_line(struct acp_client *client, const char *line, size_t len);
/* Only when ready. Takes the content: a list of blocks. */
void acp_client_prompt(struct acp_client *client, json_t *content);
/* The turn shall end; it ends when its answer comes. */
void acp_client_cancel(struct acp_client *client);
/* Takes the result; NULL: an error. */
void acp_client_answer(struct acp_client *client, const json_t *id, json_t *result, int code,
                       const char *error);

const char *acp_phase_name(enum acp_phase phase);
bool acp_phase_from(const char *name, enum acp_phase *ret) NODISCARD;

/* The option to choose of a session/request_permission: one that allows (once rather than always)
 * or rejects; NULL: none is offered. */
const char *acp_choose(const json_t *params, bool allows);
/* The result of one: the option, or NULL for cancelled. */
json_t *acp_outcome(const char *option) NODISCARD;

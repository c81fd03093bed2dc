/*
 * A request that no client sent: somebody who was asked one thing (a tool of MCP) asks another on
 * behalf of the same peer, and everything that judges, records and answers requests sees it as any
 * other. It has the peer of the request it comes from, and outlives that. On the loop's thread.
 */
#pragma once

#include "base/base.h"

struct request;

struct virtual_pair {
	const char *name, *value;
};

struct virtual_wish {
	const char *method;
	const char *path; /* decoded */
	const struct virtual_pair *query, *headers;
	size_t query_count, header_count;
	const void *body;
	size_t body_len;
	size_t answer_max; /* more than this of an answer is not kept */
};

struct virtual_answer {
	int status;       /* 0: there is none, it was abandoned or cut off */
	const char *type; /* of the content; "" for none */
	const char *bytes;
	size_t len;
	bool is_cut; /* there was more than answer_max */
};

/* Exactly once, never before virtual_ask returns; the answer is valid during the call. */
typedef void (*virtual_on_answer)(const struct virtual_answer *answer, void *ctx);
typedef void (*virtual_on_request)(struct request *request, void *ctx);

/* Everything is copied. `serve` is whom a server would call. The result may be given to
 * virtual_abandon until on_answer is called. */
struct request *virtual_ask(struct request *from, const struct virtual_wish *wish,
                            virtual_on_answer on_answer, void *ctx, virtual_on_request serve,
                            void *serve_ctx);
/* As a client that goes away: on_answer is called before this returns. */
void virtual_abandon(struct request *request);

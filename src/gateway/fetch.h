/*
 * One call to a server outside of which the whole answer is wanted, up to a size. A known secret
 * is taken out of it. Lives in the daemon, on the loop's thread.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"

struct loop;
struct upstream_call;
struct upstreams;

struct fetch_wish {
	const struct upstream_call *call; /* has_body and body_length are filled in here */
	const void *body;                 /* NULL: none */
	size_t body_len;
	const char *secret; /* NULL: none */
	size_t most;        /* of the answer */
};

struct fetch_answer {
	int status;       /* 0: err says why there is none */
	const char *type; /* of its content; "" for none */
	const char *bytes;
	size_t len;
	bool is_cut; /* there was more */
};

/* Valid during the call. */
typedef void (*fetch_on_end)(const struct fetch_answer *answer, const struct err *err, void *ctx);

/* on_end is called once, never before these return. Everything is copied. */
void fetch_start(struct upstreams *upstreams, const struct fetch_wish *wish, fetch_on_end on_end,
                 void *ctx);
/* For one that cannot be started. */
void fetch_fail(struct loop *loop, const struct err *err, fetch_on_end on_end, void *ctx);

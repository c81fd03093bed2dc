/*
 * One request of a client and the call to an upstream that answers it: bodies stream both ways,
 * each held back while the other side is slow. A known secret is taken out of the answer. Lives
 * until its request is over, and tells its owner then.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"
#include "gateway/upstream.h"

struct relay;
struct request;

struct relay_sum {
	int status;         /* that the client was given; 0: none */
	const char *denied; /* why it was not, or not wholly, passed on; NULL: it was */
	uint64_t sent, received, took_ms;
};

struct relay_ops {
	/* A header of the answer: the value to pass on (the relay frees it), NULL: not this one. */
	char *(*header)(const char *name, const char *value, void *ctx);
	/* The beginning of the body: 1: it may go on; 0: more of it is needed; -1 with err: it is
	 * refused. Called until it has decided, with all that came. May be NULL. */
	int (*look)(const uint8_t *bytes, size_t len, struct err *err, void *ctx);
	/* Says so in the words of its protocol; false: as any other failure. May be NULL. */
	bool (*tell)(struct request *request, const struct err *err, void *ctx);
	/* Of the answer: a constant that says why it is not passed on, NULL: it is. May be NULL. */
	const char *(*refuse)(int status, void *ctx);
	bool is_plain; /* errors are lines of text, not problem documents */
	/* The request is over, and the relay goes. */
	void (*over)(const struct relay_sum *sum, void *ctx);
};

/* From here on the request is the relay's: relay_fail or relay_go is due, once. */
struct relay *relay_new(struct request *request, const struct relay_ops *ops, void *ctx);
/* Answers with a problem document. denied is a constant, or NULL. */
void relay_fail(struct relay *relay, const struct err *err, const char *denied);
/* Method and body are the request's; the rest of call is filled in. secret may be NULL. */
void relay_go(struct relay *relay, struct upstreams *upstreams, struct upstream_call *call,
              const char *secret, uint64_t response_bytes);
struct request *relay_request(const struct relay *relay);

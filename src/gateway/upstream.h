/*
 * Calls to HTTP servers outside: libcurl, driven by our loop, streaming both ways. Lives in the
 * daemon, on the loop's thread (names are resolved by a thread of the library). Follows no
 * redirect, keeps no cookie, uses no proxy; what it dials is checked when it is dialled.
 */
#pragma once

#include <sys/types.h>

#include "base/addr.h"
#include "base/base.h"
#include "base/err.h"
#include "model/strings.h"

struct loop;
struct upstream;
struct upstreams;

/* ca_file NULL: whom the system trusts. */
struct upstreams *upstreams_new(struct loop *loop, const char *ca_file);
/* Every call must have ended or been dropped. Accepts NULL. */
void upstreams_free(struct upstreams *upstreams);

struct upstream_call {
	const char *method, *url;
	const struct strings *headers; /* "Name: value", all that is sent but Host and lengths */
	bool has_body;
	uint64_t body_length; /* UINT64_MAX: unknown, sent in chunks */
	uint64_t timeout_ms;
	/* A connection to use, which becomes the call's own; -1: it is dialled. */
	int fd;
	/* Which addresses may be dialled: any, or public ones and these. Must outlive the call. */
	bool is_anywhere;
	const struct addr_cidr *granted;
	size_t granted_count;
};

/* Called on the loop; none of these may drop the call from inside. */
struct upstream_ops {
	/* One header of the final answer, then once on_head. */
	void (*on_header)(const char *name, const char *value, void *ctx);
	void (*on_head)(int status, uint64_t length, void *ctx);
	/* 1: all of it is taken; 0: not now (upstream_more); -1: no more at all. */
	int (*on_bytes)(const void *bytes, size_t len, void *ctx);
	/* Fills at most max bytes of the body; 0: nothing yet (upstream_more); -1: that was all. */
	ssize_t (*on_body)(void *to, size_t max, void *ctx);
	/* It is over and was freed. ERR_FORBIDDEN: the address may not be dialled; ERR_TIMEOUT;
	 * ERR_PROTOCOL: no answer, or half of one. The text names no address and no header. */
	void (*on_end)(const struct err *err, void *ctx);
};

/* on_end is called exactly once and not before this returns, unless upstream_drop comes first. */
struct upstream *upstream_start(struct upstreams *upstreams, const struct upstream_call *call,
                                const struct upstream_ops *ops, void *ctx);
/* Ends it; nothing more is called. */
void upstream_drop(struct upstream *upstream);
/* What said "not now" is asked again. */
void upstream_more(struct upstream *upstream);

/*
 * Sends bytes by HTTP to a URL that somebody gave us, with nothing of ours but the bytes: no
 * redirects, no proxies, no cookies, and no address that never_reason forbids. libcurl's multi
 * interface inside our loop.
 */
#pragma once

#include "base/addr.h"
#include "base/base.h"
#include "base/err.h"

struct loop;
struct post;

struct post_request {
	const char *url;
	const char *const *headers; /* "name: value", NULL at the end */
	const char *body;
};

struct post_result {
	int status;       /* of HTTP; 0: none came */
	const char *text; /* why, when there is none; valid during the call */
};
typedef void (*post_on_done)(const struct post_result *result, void *ctx);

/* The CIDRs are private ranges that may be dialled; copied. */
int post_new(struct loop *loop, const struct addr_cidr *granted, size_t count, struct post **ret,
             struct err *err) NODISCARD;
/* Whoever still waits hears nothing. */
void post_free(struct post *post);
/* on_done is called once, later. */
void post_send(struct post *post, const struct post_request *request, post_on_done on_done,
               void *ctx);

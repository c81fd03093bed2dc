/*
 * Requests of the API's callers to a port inside a sandbox, on a connection that was made there.
 * The caller's own credentials stay outside; what the sandbox answers can set no cookie and open
 * nothing for other web pages: it is served from the API's own place.
 */
#pragma once

#include "base/base.h"
#include "model/strings.h"

struct request;
struct upstreams;

/* Answers the request; takes fd. target is the path and query inside. Upgrades pass, too. */
void inbound_serve(struct upstreams *upstreams, struct request *request, int fd, uint16_t port,
                   const char *target);

/* --- for tunnel.c --- */
/* The request's headers that go inside, as "Name: value"; is_upgrade: those of an upgrade, too. */
void inbound_headers(struct request *request, uint16_t port, bool is_upgrade, struct strings *ret);
/* Whether a header of the answer may go on. */
bool inbound_may_return(const char *name);

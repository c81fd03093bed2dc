/*
 * Ports inside sandboxes for callers of the API: the keeper gives a connection, the gateway speaks
 * HTTP on it.
 */
#pragma once

#include "base/base.h"

struct fleet;
struct request;

/* Answers the request, whose caller may do this; target is path and query inside. */
void ports_serve(struct fleet *fleet, const char *sandbox, uint16_t port, struct request *request,
                 const char *target);

/*
 * Which headers of a call to a service go on, and which come back. What a sandbox sends as its own
 * credentials never goes on: a service has its own.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"
#include "model/service.h"
#include "model/strings.h"

struct request;

/* ERR_FORBIDDEN: a header holds the placeholder of another service than `name`. */
int headers_check_placeholders(struct request *request, const char *name,
                               struct err *err) NODISCARD;
/* What is sent: the service's own headers, then those of the request (NULL: none) that may go on,
 * with the service's placeholder replaced. secret may be NULL. The caller wipes the list. */
void headers_build(const struct service *service, const char *secret, struct request *request,
                   struct strings *ret);
/* Whether a header of a request is neither a credential nor about the connection, whose header of
 * that name is `connection` (NULL: none). */
bool headers_may_go(const char *name, const char *connection);
/* Of the answer. */
bool headers_may_return(const char *name);
/* The value as it is meant inside (a Location below the upstream); NULL: as it is. */
char *headers_translate(const struct service *service, const char *name, const char *value);

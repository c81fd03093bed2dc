/*
 * The secret of a service, read when it is needed and wiped when it was used: a variable of the
 * daemon, a file, or a value that was sealed. Its text is in no message of ours.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"
#include "model/service.h"

/* Opens what was sealed for this service; the caller wipes *ret with gateway_secret_wipe. */
typedef int (*gateway_unseal)(const struct service *service, char **ret, struct err *err,
                              void *ctx);

/* *ret is NULL for a service without one. The caller wipes it. */
int gateway_secret_read(const struct service *service, gateway_unseal unseal, void *ctx, char **ret,
                        struct err *err) NODISCARD;
void gateway_secret_wipe(char **secret);

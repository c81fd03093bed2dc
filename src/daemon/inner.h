/*
 * The door that opens inwards: connections that begin inside a sandbox and were handed on by its
 * keeper. A server of its own, so that sandboxes cannot use up the connections of the API. What a
 * request is for is in its Host: NAME.cloche.internal is a service, everything else the API. There
 * a connection has the rights of the run that works in its sandbox (api/identify.c), and without
 * one none.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"

struct fleet;
struct request;
struct server;
struct server_config;

struct inner {
	struct server *server;
	/* All take a request. */
	void (*on_api)(struct request *request, void *ctx);
	void (*on_service)(struct request *request, const char *name, void *ctx);
	void (*on_refuse)(struct request *request, enum err_code code, const char *detail,
	                  void *ctx);
	void *ctx;
};

/* As `base` but without a socket of its own, and with inner's hooks, which are set before. */
int inner_serve(struct inner *inner, struct fleet *fleet, const struct server_config *base,
                struct err *err) NODISCARD;
/* Cuts every connection. */
void inner_stop(struct inner *inner);

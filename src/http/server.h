/*
 * The HTTP/1.1 server: libmicrohttpd driven by our loop, on a listening socket that somebody
 * else made. No thread of its own. Knows no route and no sandbox.
 */
#pragma once

#include <sys/types.h>

#include "base/base.h"
#include "base/err.h"

struct loop;
struct request;
struct server;

struct server_config {
	int listen_fd; /* Unix stream socket; not owned */
	/* Whether this peer may speak to us; asked once per request. NULL: everybody. */
	bool (*on_peer)(uid_t uid, pid_t pid, void *ctx);
	/* A request whose headers are complete. */
	void (*on_request)(struct request *request, void *ctx);
	/* The server itself refuses (a peer, a body too large): answer in the application's way. */
	void (*on_refuse)(struct request *request, enum err_code code, const char *detail,
	                  void *ctx);
	void *ctx;
	unsigned max_connections;
	uint64_t *answered; /* counts answers by status / 100 (six of them); NULL: nobody counts */
	uint64_t header_timeout_ms; /* from connect, or the last answer, to complete headers */
};

int server_new(struct loop *loop, const struct server_config *config, struct server **ret,
               struct err *err) NODISCARD;
/* Cuts every connection (each request ends as gone). */
void server_free(struct server *server);
void server_freep(struct server **server);

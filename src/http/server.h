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
	/* A stream socket, Unix or TCP; not owned. -1: there are only those that are adopted. */
	int listen_fd;
	const char *tls_cert, *tls_key; /* PEM texts that outlive the server; NULL: no TLS */
	/* A request whose headers are complete. */
	void (*on_request)(struct request *request, void *ctx);
	/* The server itself refuses (a body too large): answer in the application's way. */
	void (*on_refuse)(struct request *request, enum err_code code, const char *detail,
	                  void *ctx);
	void *ctx;
	unsigned max_connections;
	unsigned max_of_peer; /* connections from one address; 0: no limit */
	uint64_t *answered; /* counts answers by status / 100 (six of them); NULL: nobody counts */
	/* From connect, or the last answer, to complete headers; again for a whole body. */
	uint64_t header_timeout_ms;
};

int server_new(struct loop *loop, const struct server_config *config, struct server **ret,
               struct err *err) NODISCARD;
/*
 * Serves a connection that somebody else accepted; takes fd. Its requests say request_guest() and
 * are neither local nor anybody's by where they come from. ERR_LIMITED: `of_guest` connections of
 * this guest are open already, or all that the server may have.
 */
enum { SERVER_GUEST = 40 };
int server_adopt(struct server *server, int fd, const char *guest, unsigned of_guest,
                 struct err *err) NODISCARD;
/* Cuts every connection (each request ends as gone). */
void server_free(struct server *server);
void server_freep(struct server **server);
/* Every request that is under way, upgraded and streamed ones included. `each` may disconnect. */
typedef void (*server_on_request)(struct request *request, void *ctx);
void server_each_request(struct server *server, server_on_request each, void *ctx);

/*
 * Serving the API on TCP, on a socket the broker made: with TLS when config.toml names a
 * certificate.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"
#include "model/listen.h"

struct config_server;
struct loop;
struct server;
struct server_config;

struct tcp {
	int fd; /* not owned; -1: no TCP */
	char name[LISTEN_TEXT];
	char *cert, *key; /* PEM texts; NULL: no TLS */
	struct server *server;
};

/* fd is -1 for none. Reads the certificate. ERR_CONFIG. tcp_done is due also after a failure. */
int tcp_open(struct tcp *tcp, int fd, const struct config_server *config,
             struct err *err) NODISCARD;
/* As `base` but on this socket, and with fewer connections. Nothing happens without one. */
int tcp_serve(struct tcp *tcp, struct loop *loop, const struct server_config *base,
              struct err *err) NODISCARD;
/* Cuts every connection. */
void tcp_stop(struct tcp *tcp);
void tcp_done(struct tcp *tcp);

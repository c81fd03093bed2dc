/*
 * What a client inside says about whom it talks to, followed through its whole stream: each TLS
 * hello, each HTTP request. The caller holds the bytes in a buffer and passes on only what this
 * module has seen and the caller agreed to. Pure.
 *
 *	for (;;) switch (inspect_step(&inspect, &held, &pass)) …
 */
#pragma once

#include "base/base.h"
#include "base/buf.h"
#include "net/http_head.h"
#include "net/tls_hello.h"

/* Room the buffer of held bytes needs. */
enum { INSPECT_HELD = HTTP_HEAD_MOST + 4096 };

enum inspect_kind {
	INSPECT_NOTHING, /* any bytes */
	INSPECT_TLS,
	INSPECT_HTTP,
	INSPECT_PERHAPS_TLS, /* TLS if the first byte is one of it, else any bytes */
};

enum inspect_result {
	INSPECT_NAME, /* inspect->name is whom the next bytes are for: when that is agreed to, call
	               * inspect_agree and go on */
	INSPECT_PASS, /* the first *ret_pass bytes may go on */
	INSPECT_MORE, /* wait for more bytes */
	INSPECT_OVER, /* nothing more to look at: everything may go on, now and later */
	INSPECT_WAIT, /* pass nothing on until the server answered: inspect_server_said */
	INSPECT_BAD,  /* inspect->why */
};

struct inspect {
	enum inspect_kind kind;
	enum { INSPECT_AT_HEAD, INSPECT_AGREED, INSPECT_IN_BODY, INSPECT_AT_SERVER } state;
	char name[TLS_HELLO_NAME]; /* "" when the client names nobody */
	uint16_t port;             /* HTTP: as its Host says; 0: not said */
	bool has_ech;
	const char *why;
	size_t pass; /* bytes agreed to */
	bool is_first_done;
	bool is_websocket;
	struct tls_watch watch;
	struct http_body body;
};

void inspect_start(struct inspect *inspect, enum inspect_kind kind);
/* May change the bytes held: a wish for HTTP/2 is taken out of a request. */
enum inspect_result inspect_step(struct inspect *inspect, struct buf *held, size_t *ret_pass);
void inspect_agree(struct inspect *inspect);
/* How many bytes of the answer inspect_server_said must see. */
enum { INSPECT_STATUS = 12 };
/* The first bytes of the answer to a request that wants to leave HTTP. */
void inspect_server_said(struct inspect *inspect, const uint8_t *bytes, size_t len);

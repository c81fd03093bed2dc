/*
 * The first message of a TLS client (RFC 8446, 4.1.2): which server it names. Comes from a sandbox
 * in whatever pieces it likes; never waits for more than TLS_HELLO_MOST bytes. Pure, no allocation.
 */
#pragma once

#include "base/base.h"

enum { TLS_HELLO_MOST = 17 * 1024, TLS_HELLO_NAME = 254 };

enum tls_hello_result {
	TLS_HELLO_WHOLE, /* read to its end */
	TLS_HELLO_MORE,  /* so far it could be one: wait for more bytes */
	TLS_HELLO_BAD,   /* it is none, or one with two meanings */
};

struct tls_hello {
	char name[TLS_HELLO_NAME]; /* as sent, in lower case; "" when it names none */
	bool has_ech;              /* one is encrypted inside, which may name another */
	bool has_early_data;
	size_t len; /* of its records */
};

enum tls_hello_result tls_hello_parse(const uint8_t *bytes, size_t len, struct tls_hello *ret);

/*
 * What follows a hello is watched until it cannot be another one: a server may ask for a second
 * (HelloRetryRequest), and that one could name somebody else.
 */
struct tls_watch {
	bool has_early_data; /* of the hello: such data may come before the second */
	size_t left;         /* of a record that is being passed on */
};

enum tls_watch_result {
	TLS_WATCH_OVER,  /* no hello comes any more: pass on everything */
	TLS_WATCH_PASS,  /* *ret_pass bytes may go on; look at the rest again */
	TLS_WATCH_MORE,  /* wait for more bytes */
	TLS_WATCH_HELLO, /* the bytes begin with another hello, *ret; *ret_pass is its length */
	TLS_WATCH_BAD,
};

enum tls_watch_result tls_watch(struct tls_watch *watch, const uint8_t *bytes, size_t len,
                                size_t *ret_pass, struct tls_hello *ret);

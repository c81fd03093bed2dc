/*
 * A daemon elsewhere: the URL of --url or CLOCHE_URL, and the connection to it. Addresses and
 * localhost are connected to at once; names and TLS need what a static program has not, so `cloched
 * tunnel` does that for us (through struct cli_roles).
 */
#pragma once

#include "base/base.h"
#include "base/err.h"
#include "cli/cli.h"

enum { REMOTE_HOST = 256 };

struct remote {
	bool is_tls;
	char host[REMOTE_HOST]; /* name or address, without brackets */
	uint16_t port;
	char authority[REMOTE_HOST + 10]; /* for the Host header */
};

/* "http://HOST[:PORT]", "https://HOST[:PORT]"; nothing behind but a slash. ERR_INVALID. */
int remote_parse(const char *url, struct remote *ret, struct err *err) NODISCARD;
/* A connection to whatever the command's daemon is: the URL's, or the state directory's. */
int remote_open(struct cli *cli, struct http *http) NODISCARD;

/*
 * Who may have sent a browser here: the Host it believes to talk to and the page (Origin) it acts
 * for. A page of another site can make a browser send anything to an address of this machine; it
 * cannot choose these two headers. Pure; reads foreign bytes.
 */
#pragma once

#include "base/base.h"
#include "model/strings.h"

/* Whether a Host header names this server: an address, "localhost" or one of `hosts`, with any
 * port. A name that is none of these may be somebody else's, pointed at us (DNS rebinding). */
bool origin_host_is_ours(const char *host, const struct strings *hosts);

enum origin {
	ORIGIN_NONE,    /* no browser, or one that acts for nobody else */
	ORIGIN_SAME,    /* a page of this very server */
	ORIGIN_ALLOWED, /* one of `origins`: it may read the answer */
	ORIGIN_FOREIGN,
};
/* origin and site are the headers Origin and Sec-Fetch-Site, NULL when absent. */
enum origin origin_of(const char *origin, const char *site, const char *host,
                      const struct strings *origins);

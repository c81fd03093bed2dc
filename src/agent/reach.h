/*
 * Plain HTTP out of a sandbox: names below cloche.internal by the socket that every sandbox has, so
 * that they need no network; else addresses, which the network policy lets through or not. There is
 * no TLS and no lookup of names here: what needs these is a service, which has credentials as well.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"

struct http;

/* http://HOST[:PORT][/PATH]. Connects; *ret_target is the path, within url or "/". ERR_INVALID,
 * ERR_UNAVAILABLE. */
int reach_open(const char *url, struct http *http, const char **ret_target,
               struct err *err) NODISCARD;

/*
 * The host image: what a sandbox sees around this machine's own /usr. One layer of ours with a clean
 * /etc (accounts root, agent and nobody; certificates, locale and library cache of this machine; no
 * shadow), an empty /home, /var and the usual directories. /usr itself is bound by the keeper.
 *
 * Made at the broker's start when there is none yet or when this machine's /etc changed since; a layer
 * that is replaced stays until no running sandbox uses it.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"
#include "broker/site.h"

/* Fills site->host_layer. */
int hostimage_prepare(struct site *site, struct err *err) NODISCARD;
/* True if the layer is one of a host image, current or replaced. */
bool hostimage_is(const struct site *site, const char *layer_id);

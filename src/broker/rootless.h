/*
 * Serving as an ordinary user. Two processes, because of what the kernel allows: the broker must be
 * root of a user namespace of its own, and cloched must run outside of it as the plain user
 * (inside, every file and capability of the namespace would be its). From inside there is no way
 * back out: setns to the parent user namespace is refused. So the process the user started stays
 * outside and does three things only: it starts cloched when the broker asks, hands on signals, and
 * ends with the broker's status. The broker is its child.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"
#include "broker/site.h"

struct rootless {
	struct site *site;     /* state opened and locked */
	const char *log_level; /* for cloched */
	/* The broker, in the namespace; takes starter_sock; returns its exit status. */
	int (*serve)(void *ctx, int starter_sock);
	void *ctx;
};

/* Makes the namespace, runs the broker in it, and is the starter until the broker ends. The exit
 * status, or -1 with err when it could not start. ERR_MISSING names what forbids user namespaces.
 */
int rootless_serve(struct rootless *rootless, struct err *err) NODISCARD;
/* Enters such a namespace with this very process, for a task without cloched (`cloche stop`,
 * `cloche doctor`). Fills the site's ids. */
int rootless_enter(struct site *site, struct err *err) NODISCARD;
/* Why user namespaces do not work here, as a sentence with a remedy. `sys` is the errno seen. */
const char *rootless_reason(int sys);

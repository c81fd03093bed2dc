/*
 * What the command line says to the broker itself, on run/broker.sock: the descriptors of host
 * folders a sandbox may see (the daemon never opens a host path), and the end of everything.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"

struct ask_mount {
	char *source; /* as the kernel names it; owned */
	char *target; /* owned */
	bool read_only;
	char grant[33]; /* the broker's id for it */
};

/* "SRC:DST[:ro|rw]"; a path with a colon cannot be written. Read-only unless said otherwise.
 * Nothing is opened yet. */
int ask_mount_parse(const char *text, struct ask_mount *ret, struct err *err) NODISCARD;
void ask_mount_done(struct ask_mount *mount);
/* Opens the source with our own rights and hands it over. */
int ask_grant(const char *state_dir, struct ask_mount *mount, struct err *err) NODISCARD;
/* Ends every sandbox of the state directory at once, its daemon and its broker. purge: what
 * sandboxes and images stored goes too. */
int ask_stop_all(const char *state_dir, bool purge, struct err *err) NODISCARD;

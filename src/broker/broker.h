/*
 * The broker: `cloche serve`, root or root of a user namespace. Supervises cloched, starts keepers,
 * does for cloched what needs privilege (ops.def), and leaves the sandboxes running when it ends.
 * Entries for main.c; everything else in this folder is the broker's own.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"
#include "broker/doctor.h"

struct broker_options {
	const char *state;     /* NULL: CLOCHE_STATE, else the default place */
	const char *log_level; /* NULL: config.toml's */
	const char *listen;    /* where on TCP (model/listen.h); NULL: config.toml's */
};

/* Serves in the foreground until SIGTERM, SIGINT or `cloche stop`; returns the exit status. */
int broker_serve(const struct broker_options *options);

struct broker_stop_options {
	const char *state; /* as above */
	bool keep;         /* only what serves it ends */
	uint64_t grace_ms; /* between SIGTERM and SIGKILL */
};

/* Ends every sandbox of a state directory and whatever serves it; works without broker and daemon,
 * too, and takes no longer than reap_stop_all_ms and a little. Files of sandboxes stay. 0 also when
 * nothing ran. */
int broker_stop(const struct broker_stop_options *options, struct err *err) NODISCARD;
/* The checks of doctor.h as this user, in this state directory when there is one. */
int broker_doctor(const char *state, doctor_on_check on_check, void *ctx,
                  struct err *err) NODISCARD;

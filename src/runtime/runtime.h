/*
 * What isolates a sandbox, behind one interface. A runtime makes a sandbox with a keeper
 * listening on run/<id>.sock, takes it away again, and knows which ones it has; everything else
 * (execs, files, meters) is the keeper's, the same for every runtime. Lives in the daemon.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"
#include "model/sandbox.h"
#include "model/strings.h"

struct broker_call;
struct runtime;

struct runtime_entry {
	const char *id;
	bool is_alive; /* its keeper runs */
};

/* err is never NULL; its code says whether it worked. What is passed is valid during the call. */
typedef void (*runtime_on_launched)(const struct strings *mechanisms, const struct err *err,
                                    void *ctx);
typedef void (*runtime_on_bound)(const struct err *err, void *ctx);
typedef void (*runtime_on_reaped)(const struct err *err, void *ctx);
typedef void (*runtime_on_listed)(const struct runtime_entry *entries, size_t count,
                                  const struct err *err, void *ctx);

struct runtime_size {
	uint64_t bytes;
	uint64_t inodes;
};
/* size is NULL when err has a code. */
typedef void (*runtime_on_measured)(const struct runtime_size *size, const struct err *err,
                                    void *ctx);

enum runtime_launch {
	RUNTIME_START,  /* at once; also of a blank one, which thereby gets what it lacks */
	RUNTIME_PARKED, /* runs nothing before its keeper gets K_CLAIM */
	RUNTIME_BLANK,  /* without an image: the layers are ignored. It serves nobody before its
	                   start */
};

struct runtime_ops {
	const char *name;
	/* Layers are ids, lowest first, or the one word "host". A refused launch has left nothing
	 * behind but what reap undoes. */
	void (*launch)(struct runtime *runtime, const struct sandbox *sandbox,
	               const struct strings *layers, enum runtime_launch how,
	               runtime_on_launched on_launched, void *ctx);
	/* Changes a parked one from what it was made as into what is wanted, before K_CLAIM: only
	 * hostname, limits and mounts. One that failed is of no use any more. */
	void (*bind)(struct runtime *runtime, const struct spec *made, const struct sandbox *wanted,
	             runtime_on_bound on_bound, void *ctx);
	/* One that failed, or ends before K_CLAIM: what is asked for next may be bound to what this
	 * one was. Nobody waits for it. */
	void (*unbind)(struct runtime *runtime, const char *id);
	/* Ends whatever still runs of it. Works on half-made ones and on ones that never were. */
	void (*reap)(struct runtime *runtime, const char *id, bool keep_files,
	             runtime_on_reaped on_reaped, void *ctx);
	void (*list)(struct runtime *runtime, runtime_on_listed on_listed, void *ctx);
	/* Counts what the sandbox itself has written, where no limit of the kernel does. Takes as
	 * long as there are files. */
	void (*measure)(struct runtime *runtime, const char *id, runtime_on_measured on_measured,
	                void *ctx);
	/* Which ranges of addresses that no sandbox reaches are open for this one, from this
	 * generation of its policy on; before the keeper is told. */
	void (*egress)(struct runtime *runtime, const char *id, uint64_t generation,
	               const struct strings *cidrs, runtime_on_reaped on_done, void *ctx);
	void (*free)(struct runtime *runtime);
};

struct runtime {
	const struct runtime_ops *ops;
};

/* The hostname inside: what was asked for, else the name, else the id. */
const char *runtime_hostname(const struct spec *spec, const char *id);

/* FIELD_ONCE of a launch or claim: how much is made ready for another command, or kept of it. */
uint64_t runtime_once(const struct spec *spec);

/* Namespaces of this machine, by the broker. */
/* Freed after the broker's line, which answers what is still under way. */
struct runtime *runtime_native_new(struct broker_call *broker);
void runtime_free(struct runtime *runtime);

/*
 * One run of `cloche inside VERB` in a sandbox (init/inside.h says what it does and prints): the
 * way to the files of a live sandbox. Its standard output comes at the reader's pace, its input
 * goes at its own; a failure it prints becomes our error. Everything it says is foreign bytes.
 */
#pragma once

#include "api/tail.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/err.h"
#include "model/sandbox.h"
#include "model/strings.h"

struct api;
struct inside_run;

struct inside_ops {
	/* inside_next may have more: output or the end. Also called once when the start failed. */
	void (*on_ready)(struct inside_run *run, void *ctx);
	/* It runs, or takes more input again. NULL: no input. */
	void (*on_room)(struct inside_run *run, void *ctx);
};

struct inside_run {
	struct api *api;
	struct tail tail;
	bool has_started;
	bool has_failed;      /* to start */
	bool is_freed;        /* while the start is still under way */
	struct buf complaint; /* stderr */
	struct err err;
	const struct inside_ops *ops;
	void *ctx;
};

/* argv without the program and "inside": the verb first. user NULL: the sandbox's. Freed with
 * inside_free, which also ends it if it still runs. */
struct inside_run *inside_start(struct api *api, const struct sandbox *sandbox,
                                const struct strings *argv, const char *user,
                                const struct inside_ops *ops, void *ctx);
void inside_free(struct inside_run *run);

enum { INSIDE_NOTHING_YET = 0, INSIDE_BYTES = 1, INSIDE_END = 2 };
/* INSIDE_BYTES: *ret, *ret_len are valid until the next call. INSIDE_END: it succeeded and said
 * all. <0: err says what failed. */
int inside_next(struct inside_run *run, const uint8_t **ret, size_t *ret_len,
                struct err *err) NODISCARD;
/* How many bytes were taken (fewer: on_room will be called), or <0: it takes no more. */
ssize_t inside_input(struct inside_run *run, const void *bytes, size_t len, bool eof);
/* Its first line on stderr, "code TAB message", as an error. */
void inside_parse_error(const char *line, size_t len, struct err *ret);

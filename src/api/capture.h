/*
 * A command whose whole output is wanted in one answer: feeds what input it was given, keeps the
 * beginning of both streams. Used where a call waits for a command to end.
 */
#pragma once

#include <jansson.h>

#include "api/decode.h"
#include "api/tail.h"
#include "base/base.h"
#include "base/buf.h"

struct capture {
	struct tail tail; /* its ops and ctx are the owner's */
	struct buf input;
	struct buf out, err;
	bool truncated;
	bool is_input_done;
	bool has_end; /* the log said how it ended */
	struct tail_exit end;
};

/* Pass &capture->tail.watch to the start. */
void capture_init(struct capture *capture, struct api *api, const struct decode_exec *decoded,
                  unsigned flags, const struct tail_ops *ops, void *ctx);
void capture_done(struct capture *capture);
/* Offers input; for the start and on_room. */
void capture_feed(struct capture *capture);
/* Takes all there is to read. <0: the log cannot be read. */
int capture_read(struct capture *capture, struct err *err) NODISCARD;
/* The ExecResult of a command that ended so. */
json_t *capture_result(const struct capture *capture, const struct tail_exit *end);

/*
 * Calls that wait for a person: a command or tool whose manifest or config.toml says so is held
 * until somebody answers, or until its time is over, which denies it. In memory: a call does not
 * outlive the daemon either. What was asked and answered is an event, without the arguments. The
 * daemon's loop.
 */
#pragma once

#include <jansson.h>

#include "base/base.h"
#include "base/err.h"

struct api;
struct call;
struct caller;
struct hold;

/* err ERR_OK: go on. Otherwise ERR_FORBIDDEN with who, or that nobody, allowed it. The hold is gone
 * then. Called from the loop, at most once. */
typedef void (*hold_on_answer)(const struct err *err, void *ctx);

struct hold_wish {
	const char *tool;
	const json_t *arguments;
	uint64_t timeout_ms;
};

/* NULL with ERR_LIMITED when too many wait already. */
struct hold *hold_new(struct api *api, struct caller *caller, const struct hold_wish *wish,
                      hold_on_answer on_answer, void *ctx, struct err *err);
/* Nobody waits any more. */
void hold_drop(struct hold *hold);
/* Without a word; when the daemon ends. */
void holds_free(struct api *api);

/* --- for whoever lists and answers approvals --- */
/* Adds those that the caller may see. */
void holds_list(struct call *call, json_t *items);
/* 1: it was one of ours and the call is answered (or refused); 0: it is another's. */
int holds_answer(struct call *call, const char *id, bool is_allowed, bool is_once);
/* ERR_NOT_FOUND, for one that is not there and one that is not the caller's to see; always -1. */
int holds_absent(const char *id, struct err *err) NODISCARD;

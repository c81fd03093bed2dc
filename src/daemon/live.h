/*
 * The execs that run: who watches them, how far their output was read, how much input they take.
 * Implements the exec verbs of struct engine. An exec is live from the moment the keeper is asked
 * for it until its end is committed.
 */
#pragma once

#include "api/engine.h"
#include "base/base.h"
#include "base/err.h"
#include "daemon/fleet.h"
#include "wire/wire.h"

struct live;

void live_start(struct member *member, const struct exec_start *start, engine_on_exec on_exec,
                void *ctx);
struct live *live_find(struct member *member, const char *exec);

int live_watch(struct live *live, struct exec_watch *watch, struct err *err) NODISCARD;
void live_unwatch(struct exec_watch *watch);
void live_ack(struct exec_watch *watch, uint64_t offset);
ssize_t live_input(struct exec_watch *watch, const void *bytes, size_t len, bool eof);
/* Kills it and wants to hear nothing more. */
void live_abandon(struct live *live);
/* The output of an internal one that is over is needed no more. */
void live_release(struct member *member, const char *exec);

/* What the keeper tells. */
void live_on_output(struct member *member, const struct wire_msg *msg);
void live_on_exit(struct member *member, const struct wire_msg *msg);
void live_on_room(struct member *member, const struct wire_msg *msg);
/* One exec of a keeper's list: known, unknown, or left over from before. */
void live_on_info(struct member *member, const struct wire_msg *msg);
/* The list is complete: what we hold for running and it did not name is lost. */
void live_listed(struct member *member);
/* The sandbox is over: every exec that still ran ended with it. */
void live_end_all(struct member *member, const char *reason);
/* The daemon ends, they do not: whoever watches hears that nothing more will come. */
void live_let_go(struct member *member);
void live_free_all(struct member *member);
uint64_t live_written(const struct live *live);
uint64_t live_fed(const struct live *live);
/* Those that run and are somebody's. */
size_t live_count(const struct member *member);

/*
 * Reading the kept output of a run that is a file (log.h): it may be long and its disk slow, so a
 * thread does it, and the loop goes on. For whoever answers requests. A few at a time; the others
 * wait.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"
#include "task/log.h"

struct tasks;

typedef void (*fetch_on_done)(const struct err *err, void *ctx);
/* `each` is called in the thread: what ctx points to is the thread's until on_done, which comes
 * once and from the loop, also when the daemon ends (ERR_UNAVAILABLE). */
void fetch_log(struct tasks *tasks, const char *run, log_each each, fetch_on_done on_done,
               void *ctx);
/* Waits for the threads. */
void fetch_shut(struct tasks *tasks);

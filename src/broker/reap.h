/*
 * Taking a sandbox away: one path for the ordinary end, a failed launch, a crash of any of our
 * processes and `cloche stop`. Every step is idempotent: doing it twice, or again after dying in
 * the middle, is the same as doing it once. Blocking; runs in a task or in `cloche stop`.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"
#include "broker/site.h"

/* Ends the keeper and everything in its cgroup, and takes away runtime leftovers. With keep_files
 * the directory with disk, out/ and meta (without a slot) stays, else all of it goes. A sandbox
 * that is not there is a success. The caller frees the slot. */
int reap_run(const struct site *site, const char *id, bool keep_files, struct err *err) NODISCARD;
/* Asks every living keeper to stop within grace_ms, waits, then reaps all with their files kept.
 * *ret_count: how many were alive. Goes on after a failure and reports the first; gives up the rest
 * after reap_stop_all_ms. */
uint64_t reap_stop_all_ms(uint64_t grace_ms);
int reap_stop_all(const struct site *site, uint64_t grace_ms, size_t *ret_count,
                  struct err *err) NODISCARD;

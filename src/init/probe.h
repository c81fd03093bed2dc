/*
 * The proof, from where a workload will be, that the network policy is in force: an address and a
 * name that no policy allows must be refused at once. Run by init before the sandbox is anybody's
 * and after each change.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"

/* 0: both were refused. Takes a second at most. */
int probe_run(const char *address, uint16_t port, const char *name, const char *resolver,
              struct err *err) NODISCARD;

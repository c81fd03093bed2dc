/*
 * What to say of a system call that a program inside was refused because it leads around the
 * network (init/refusals.h). Pure: numbers in, words out.
 */
#pragma once

#include "base/base.h"
#include "keeper/judge.h"

enum { CALLS_ARGS = 6 };

/* Fills rule and remedy. */
void calls_describe(uint64_t call, const uint64_t args[CALLS_ARGS], struct judgement *ret);
/* One that programs try and do well without: worth telling once, not whenever one starts. */
bool calls_is_common(uint64_t call);

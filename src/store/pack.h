/*
 * Lists in one column: one text a line, backslash as "\\" and newline as "\n". Limits and meters
 * are lists of name=value, so that a new row in their tables needs no migration.
 */
#pragma once

#include "base/base.h"
#include "model/limits.h"
#include "model/sandbox.h"
#include "model/strings.h"
#include "model/task.h"

/* The caller frees. */
char *pack_strings(const struct strings *list) NODISCARD;
char *pack_limits(const struct limits *limits) NODISCARD;
char *pack_meters(const struct meters *meters) NODISCARD;
/* What a sandbox adds to its environment, and the policy it was given; "" when there is none. */
char *pack_network(const struct sandbox *sandbox) NODISCARD;
/* The journal of a run: RUN_STEP_COUNT_ steps; those without a status are left out. */
char *pack_steps(const struct run_progress *steps) NODISCARD;

/* Appends to *list. */
void unpack_strings(const char *text, struct strings *list);
/* What the text does not name keeps its default; what this version does not know is dropped. */
void unpack_limits(const char *text, struct limits *limits);
void unpack_meters(const char *text, struct meters *meters);
/* Fills at most RUN_STEP_COUNT_ items, whose texts the caller owns; how many. Steps that this
 * version does not know are left out. */
size_t unpack_steps(const char *text, struct run_progress *ret) NODISCARD;
void unpack_network(const char *text, struct sandbox *sandbox);

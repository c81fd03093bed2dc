/*
 * Runs that stand still because a budget with the action `freeze` is spent. Private to src/task.
 *
 * The keeper knows that its sandbox is frozen and says so with its meters; so a daemon that was
 * killed meanwhile finds it again at its first look. Ways out: the budget is raised, removed or in
 * its next period (it is thawed at the next look), `[budgets] freeze_timeout` or its own wall clock
 * is over, somebody stops it, its sandbox is lost.
 */
#pragma once

#include "base/base.h"

struct job;
struct meters;

/* It shall stand still; where that is not possible it ends. Harmless when it does already. */
void freeze_job(struct job *job, const char *why);
/* At each look: thaws it when nothing holds it any more. */
void freeze_look(struct job *job, const struct meters *meters);
/* It ends: whatever ends it must reach it. */
void freeze_end(struct job *job);

/*
 * A budget: how much all runs of a team, of an agent in a team, with a key (and those made with it)
 * or of a task may cost, in all or in each day or month (of UTC). Pure; what is spent is summed up
 * from runs (task/ledger.h).
 */
#pragma once

#include "base/base.h"
#include "base/err.h"
#include "base/id.h"
#include "model/money.h"

enum budget_kind { BUDGET_TEAM, BUDGET_AGENT, BUDGET_KEY, BUDGET_TASK, BUDGET_KIND_COUNT_ };
enum budget_period { BUDGET_TOTAL, BUDGET_DAY, BUDGET_MONTH, BUDGET_PERIOD_COUNT_ };
/* What becomes of what it pays for when it is spent. */
enum budget_action { BUDGET_STOP, BUDGET_FREEZE, BUDGET_ACTION_COUNT_ };
/* What everybody was told in this period. */
enum budget_told { BUDGET_SILENT, BUDGET_WARNED, BUDGET_EXHAUSTED };

struct budget {
	struct id id; /* bg_… */
	enum budget_kind kind;
	char *subject; /* id of team, key or task; name of an agent */
	struct id team;
	uint64_t amount;
	enum budget_period period;
	enum budget_action action;
	uint64_t created_ms;
	enum budget_told told;
	uint64_t told_ms; /* begin of the period that is about */
};

void budget_done(struct budget *budget);
const char *budget_kind_name(enum budget_kind kind);
bool budget_kind_from(const char *text, enum budget_kind *ret) NODISCARD;
const char *budget_period_name(enum budget_period period);
bool budget_period_from(const char *text, enum budget_period *ret) NODISCARD;
const char *budget_action_name(enum budget_action action);
bool budget_action_from(const char *text, enum budget_action *ret) NODISCARD;
/* When the period began that now_ms is in; 0 for all time. */
uint64_t budget_since(enum budget_period period, uint64_t now_ms);
/* Four fifths: the time to say something. */
uint64_t budget_warn_at(uint64_t amount);

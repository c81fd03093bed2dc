#include "model/budget.h"

#include <time.h>

#include "base/mem.h"
#include "base/str.h"

static const char *const kinds[] = {"team", "agent", "key", "task"};
static_assert(ARRAY_LEN(kinds) == BUDGET_KIND_COUNT_, "a word a kind");
static const char *const periods[] = {"total", "day", "month"};
static_assert(ARRAY_LEN(periods) == BUDGET_PERIOD_COUNT_, "a word a period");
static const char *const actions[] = {"stop", "freeze"};
static_assert(ARRAY_LEN(actions) == BUDGET_ACTION_COUNT_, "a word an action");

void budget_done(struct budget *budget)
{
	mem_freep(&budget->subject);
}

static bool find(const char *const *words, size_t count, const char *text, int *ret)
{
	for (size_t i = 0; i < count; i++) {
		if (str_eq(words[i], text)) {
			*ret = (int)i;
			return true;
		}
	}
	return false;
}

const char *budget_kind_name(enum budget_kind kind)
{
	return kinds[kind];
}

bool budget_kind_from(const char *text, enum budget_kind *ret)
{
	int at;

	if (!find(kinds, ARRAY_LEN(kinds), text, &at))
		return false;
	*ret = (enum budget_kind)at;
	return true;
}

const char *budget_period_name(enum budget_period period)
{
	return periods[period];
}

bool budget_period_from(const char *text, enum budget_period *ret)
{
	int at;

	if (!find(periods, ARRAY_LEN(periods), text, &at))
		return false;
	*ret = (enum budget_period)at;
	return true;
}

const char *budget_action_name(enum budget_action action)
{
	return actions[action];
}

bool budget_action_from(const char *text, enum budget_action *ret)
{
	int at;

	if (!find(actions, ARRAY_LEN(actions), text, &at))
		return false;
	*ret = (enum budget_action)at;
	return true;
}

uint64_t budget_since(enum budget_period period, uint64_t now_ms)
{
	time_t seconds = (time_t)(now_ms / 1000);
	struct tm parts;

	if (period == BUDGET_TOTAL || !gmtime_r(&seconds, &parts))
		return 0;
	parts.tm_hour = parts.tm_min = parts.tm_sec = 0;
	if (period == BUDGET_MONTH)
		parts.tm_mday = 1;
	return (uint64_t)timegm(&parts) * 1000;
}

uint64_t budget_warn_at(uint64_t amount)
{
	return amount - amount / 5;
}

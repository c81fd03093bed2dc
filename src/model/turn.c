#include "model/turn.h"

#include "base/mem.h"
#include "base/must.h"
#include "base/str.h"

static const char *const states[] = {[TURN_QUEUED] = "queued",
                                     [TURN_RUNNING] = "running",
                                     [TURN_COMPLETED] = "completed",
                                     [TURN_FAILED] = "failed",
                                     [TURN_CANCELLED] = "cancelled"};

static const struct {
	const char *name;
	enum turn_state state;
} ends[] = {
#define END(id, text, state, about) [TURN_END_##id] = {text, TURN_##state},
#include "model/turn_ends.def"
#undef END
};

struct turn *turn_new(void)
{
	struct turn *turn = mem_new(struct turn);

	turn->id = id_new("trn");
	turn->end = TURN_END_NONE;
	return turn;
}

void turn_free(struct turn *turn)
{
	if (!turn)
		return;
	mem_freep(&turn->message_id);
	mem_freep(&turn->label);
	mem_freep(&turn->prompt);
	mem_freep(&turn->schema);
	mem_freep(&turn->detail);
	mem_freep(&turn->stop_reason);
	mem_freep(&turn->text);
	mem_freep(&turn->output);
	mem_freep(&turn);
}

void turn_freep(struct turn **turn)
{
	turn_free(*turn);
	*turn = NULL;
}

bool turn_is_over(const struct turn *turn)
{
	return turn->state != TURN_QUEUED && turn->state != TURN_RUNNING;
}

const char *turn_state_name(enum turn_state state)
{
	return states[state];
}

bool turn_state_from(const char *name, enum turn_state *ret)
{
	for (size_t i = 0; name && i < ARRAY_LEN(states); i++) {
		if (str_eq(states[i], name)) {
			*ret = (enum turn_state)i;
			return true;
		}
	}
	return false;
}

const char *turn_end_name(enum turn_end end)
{
	must(end >= 0 && end < TURN_END_COUNT_);
	return ends[end].name;
}

enum turn_end turn_end_from(const char *name)
{
	for (size_t i = 0; name && i < ARRAY_LEN(ends); i++) {
		if (str_eq(ends[i].name, name))
			return (enum turn_end)i;
	}
	return TURN_END_NONE;
}

enum turn_state turn_end_state(enum turn_end end)
{
	must(end >= 0 && end < TURN_END_COUNT_);
	return ends[end].state;
}

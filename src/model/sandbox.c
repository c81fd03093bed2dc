#include "model/sandbox.h"

#include "base/mem.h"
#include "base/must.h"
#include "base/str.h"

static const char *const state_names[] = {
#define STATE(state, text, ...) [SANDBOX_##state] = (text),
#include "model/states.def"
#undef STATE
};

static const char *const event_names[] = {
#define EVENT(event, text) [SANDBOX_EVENT_##event] = (text),
	SANDBOX_EVENTS(EVENT)
#undef EVENT
};

/* The row's cells are the enum's words without their prefix; each must name its column's event,
 * so a row with a cell too many or too few does not compile. */
#define STATE(state, text, started, start_failed, stop, ended, lost, start, remove, remove_force)  \
	[SANDBOX_##state] = {                                                                      \
		[SANDBOX_EVENT_STARTED] = SANDBOX_##started,                                       \
		[SANDBOX_EVENT_START_FAILED] = SANDBOX_##start_failed,                             \
		[SANDBOX_EVENT_STOP] = SANDBOX_##stop,                                             \
		[SANDBOX_EVENT_ENDED] = SANDBOX_##ended,                                           \
		[SANDBOX_EVENT_LOST] = SANDBOX_##lost,                                             \
		[SANDBOX_EVENT_START] = SANDBOX_##start,                                           \
		[SANDBOX_EVENT_REMOVE] = SANDBOX_##remove,                                         \
		[SANDBOX_EVENT_REMOVE_FORCE] = SANDBOX_##remove_force,                             \
	},
static const enum sandbox_state next[SANDBOX_STATE_COUNT_][SANDBOX_EVENT_COUNT_] = {
#include "model/states.def"
};
#undef STATE

const struct meter meters_table[] = {
#define METER(field, json, about) {#field, json, offsetof(struct meters, field)},
#include "model/meters.def"
#undef METER
	{0},
};

uint64_t meters_get(const struct meters *meters, const struct meter *meter)
{
	return *(const uint64_t *)((const char *)meters + meter->offset);
}

void meters_set(struct meters *meters, const char *name, uint64_t value)
{
	for (const struct meter *meter = meters_table; meter->name != NULL; meter++) {
		if (str_eq(meter->name, name))
			*(uint64_t *)((char *)meters + meter->offset) = value;
	}
}

struct sandbox *sandbox_new(const struct spec *spec, uint64_t now_ms)
{
	struct sandbox *sandbox = mem_new(struct sandbox);

	sandbox->id = id_new("sb");
	sandbox->state = SANDBOX_CREATING;
	sandbox->created_ms = now_ms;
	spec_copy(&sandbox->spec, spec);
	if (spec->ttl_ms != 0)
		sandbox->expires_ms = now_ms + spec->ttl_ms;
	return sandbox;
}

void sandbox_network_done(struct sandbox_network *network)
{
	free(network->level);
	free(network->mode);
	free(network->fingerprint);
	free(network->policy);
	strings_done(&network->approved);
	*network = (struct sandbox_network){0};
}

void sandbox_network_copy(struct sandbox_network *to, const struct sandbox_network *from)
{
	*to = (struct sandbox_network){.generation = from->generation};
	spec_set(&to->level, from->level);
	spec_set(&to->mode, from->mode);
	spec_set(&to->fingerprint, from->fingerprint);
	spec_set(&to->policy, from->policy);
	strings_copy(&to->approved, &from->approved);
}

struct sandbox *sandbox_copy(const struct sandbox *sandbox)
{
	struct sandbox *copy = mem_new(struct sandbox);

	*copy = *sandbox;
	spec_copy(&copy->spec, &sandbox->spec);
	copy->end_reason = sandbox->end_reason != NULL ? mem_strdup(sandbox->end_reason) : NULL;
	copy->detail = sandbox->detail != NULL ? mem_strdup(sandbox->detail) : NULL;
	copy->mechanisms = (struct strings){0};
	strings_copy(&copy->mechanisms, &sandbox->mechanisms);
	sandbox_network_copy(&copy->network, &sandbox->network);
	return copy;
}

void sandbox_free(struct sandbox *sandbox)
{
	if (sandbox == NULL)
		return;
	spec_done(&sandbox->spec);
	free(sandbox->end_reason);
	free(sandbox->detail);
	strings_done(&sandbox->mechanisms);
	sandbox_network_done(&sandbox->network);
	free(sandbox);
}

void sandbox_freep(struct sandbox **sandbox)
{
	sandbox_free(*sandbox);
	*sandbox = NULL;
}

int sandbox_apply(enum sandbox_state state, enum sandbox_event event, enum sandbox_state *ret_state,
                  struct err *err)
{
	must(state >= 0 && state < SANDBOX_STATE_COUNT_ && event < SANDBOX_EVENT_COUNT_);
	if (next[state][event] == SANDBOX_NONE)
		return err_set(err, ERR_CONFLICT, "sandbox is %s: %s is not possible now%s",
		               state_names[state], event_names[event],
		               event == SANDBOX_EVENT_REMOVE ? "; stop it first, or use --force"
		                                             : "");
	*ret_state = next[state][event];
	return 0;
}

const char *sandbox_state_name(enum sandbox_state state)
{
	must(state >= 0 && state < SANDBOX_STATE_COUNT_);
	return state_names[state];
}

enum sandbox_state sandbox_state_from(const char *name)
{
	for (int state = 0; state < SANDBOX_STATE_COUNT_; state++) {
		if (str_eq(state_names[state], name))
			return (enum sandbox_state)state;
	}
	return SANDBOX_NONE;
}

const char *sandbox_event_name(enum sandbox_event event)
{
	must(event < SANDBOX_EVENT_COUNT_);
	return event_names[event];
}

bool sandbox_is_alive(enum sandbox_state state)
{
	return state == SANDBOX_CREATING || state == SANDBOX_RUNNING || state == SANDBOX_STOPPING;
}

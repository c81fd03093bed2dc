/*
 * A sandbox as a resource: what it is made from, the state it is in, what it has used. Pure: no
 * I/O, no clock. sandbox_apply is the only place that says which state follows which; the daemon
 * stores the new state before it acts on it.
 *
 * creating  True: the row exists; a launch is asked for or under way. Allowed: looking, forced
 *           removal. After a crash: the broker is asked; alive = started, else start_failed.
 * running   True: a keeper holds it, execs may start. Allowed: all but start. After a crash: the
 *           keeper is adopted (it kept going); without one: lost.
 * stopping  True: the keeper was told to end it. No new exec. Allowed: looking, stop again
 *           (shorter grace), forced removal. After a crash: as running, and the stop is repeated.
 * stopped   True: no process of it is left; end_reason says why, meters are final, files and
 *           outputs are kept. Allowed: start, removal. Survives as it is.
 * failed    As stopped, but it could not start or its keeper vanished; detail says what happened.
 * removing  True: its owner gave it up; processes and files are being taken away. Nothing is
 *           allowed but asking again. After a crash: the removal is repeated. The row goes last.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"
#include "base/id.h"
#include "model/spec.h"
#include "model/strings.h"

enum sandbox_state {
#define STATE(state, text, ...) SANDBOX_##state,
#include "model/states.def"
#undef STATE
	SANDBOX_STATE_COUNT_,
	SANDBOX_NONE = -1 /* an empty cell; never stored */
};

/* The columns of states.def, in order. */
#define SANDBOX_EVENTS(EVENT)                                                                      \
	EVENT(STARTED, "started")           /* the launcher reports it ready */                    \
	EVENT(START_FAILED, "start failed") /* the launch was refused or undone */                 \
	EVENT(STOP, "stop")                 /* someone asks, or the ttl is over */                 \
	EVENT(ENDED, "ended")               /* the keeper wrote its exit record */                 \
	EVENT(LOST, "lost")                 /* the keeper is gone without one */                   \
	EVENT(START, "start")               /* someone asks for it again */                        \
	EVENT(REMOVE, "remove")             /* someone asks; refused while it lives */             \
	EVENT(REMOVE_FORCE, "forced remove")

enum sandbox_event {
#define EVENT(event, text) SANDBOX_EVENT_##event,
	SANDBOX_EVENTS(EVENT)
#undef EVENT
		SANDBOX_EVENT_COUNT_
};

struct meters {
#define METER(field, json, about) uint64_t field;
#include "model/meters.def"
#undef METER
};

struct meter {
	const char *name; /* the field's */
	const char *json;
	size_t offset;
};
/* Ends with a row without a name. */
extern const struct meter meters_table[];
uint64_t meters_get(const struct meters *meters, const struct meter *meter);
/* By name; an unknown one is ignored: another version may have written it. */
void meters_set(struct meters *meters, const char *name, uint64_t value);

/* What became of spec.network when it started; all empty: no policy, so no network. */
struct sandbox_network {
	char *level, *mode; /* of the compiled policy */
	char *fingerprint;  /* SHA-256 of it, in hexadecimal */
	char *policy;       /* the policy itself (model/policy.h), in base64 */
	uint64_t generation;
	struct strings approved; /* domains that a person allowed for this sandbox */
};

void sandbox_network_done(struct sandbox_network *network);
/* *to must not hold anything. */
void sandbox_network_copy(struct sandbox_network *to, const struct sandbox_network *from);

struct sandbox {
	struct id id;
	enum sandbox_state state;
	struct spec spec;
	struct id image_id;  /* "" for the host image */
	uint64_t created_ms; /* all times: CLOCK_REALTIME in ms, 0 = not yet */
	uint64_t started_ms;
	uint64_t ended_ms;
	uint64_t expires_ms; /* 0: never */
	char *end_reason; /* "stopped", "ttl", "lost", "start_failed", …; NULL while it lives */
	char *detail;     /* a sentence for people; may be NULL */
	bool is_degraded; /* in force now, unlike spec.degraded which only allows it */
	struct strings mechanisms; /* name=value */
	struct meters meters;
	struct sandbox_network network;
};

/* A new id and state creating; copies the spec. */
struct sandbox *sandbox_new(const struct spec *spec, uint64_t now_ms);
struct sandbox *sandbox_copy(const struct sandbox *sandbox);
/* Accepts NULL and half-built. */
void sandbox_free(struct sandbox *sandbox);
void sandbox_freep(struct sandbox **sandbox);

/* The state that follows. ERR_CONFLICT names both: "sandbox is creating: stop is not possible
 * now". */
int sandbox_apply(enum sandbox_state state, enum sandbox_event event, enum sandbox_state *ret_state,
                  struct err *err) NODISCARD;

/* "running"; must be a real state. */
const char *sandbox_state_name(enum sandbox_state state);
/* SANDBOX_NONE for an unknown word. */
enum sandbox_state sandbox_state_from(const char *name);
const char *sandbox_event_name(enum sandbox_event event);
/* creating, running, stopping: something of it may run. */
bool sandbox_is_alive(enum sandbox_state state);

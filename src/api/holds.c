#include "api/holds.h"

#include "api/authz.h"
#include "api/call.h"
#include "api/encode.h"
#include "api/record.h"
#include "base/io.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/str.h"
#include "model/event.h"
#include "store/store.h"

enum { HOLDS_MOST = 512, HOLDS_OF_CALLER = 32, HOLDS_SHOWN = 4096 };

struct hold {
	struct hold *next;
	struct api *api;
	struct id id;
	struct caller *caller;
	char *tool, *arguments;
	uint64_t asked_ms, expires_ms;
	struct loop_timer timer;
	hold_on_answer on_answer;
	void *ctx;
	struct call *answerer; /* an answer under way; NULL: none */
	bool is_allowed;
};

static void hold_free(struct hold *hold)
{
	for (struct hold **at = &hold->api->holds; *at; at = &(*at)->next) {
		if (*at != hold)
			continue;
		*at = hold->next;
		break;
	}
	loop_timer_stop(&hold->timer);
	caller_unref(hold->caller);
	mem_freep(&hold->tool);
	mem_freep(&hold->arguments);
	mem_freep(&hold);
}

void holds_free(struct api *api)
{
	while (api->holds)
		hold_free(api->holds);
}

/* What is told: never what it was asked with. */
static void tell(const struct hold *hold, enum event_kind kind, const char *verdict, const char *by,
                 store_on_done on_result, void *ctx)
{
	struct event event = {.kind = kind, .time_ms = io_real_ms()};
	json_t *data = json_pack("{s:s, s:s, s:s, s:s}", "approval", hold->id.text, "kind", "tool",
	                         "tool", hold->tool, "caller", hold->caller->name);

	if (hold->caller->run.text[0])
		json_object_set_new(data, "run", json_string(hold->caller->run.text));
	if (verdict)
		json_object_set_new(data, "verdict", json_string(verdict));
	if (by)
		json_object_set_new(data, "by", json_string(by));
	event.data = json_dumps(data, JSON_COMPACT);
	json_decref(data);
	store_event_put(hold->api->store, &event, on_result, ctx);
	event_done(&event);
}

static void on_over(struct loop_timer *timer, void *ctx)
{
	struct hold *hold = ctx;
	hold_on_answer on_answer = hold->on_answer;
	void *whose = hold->ctx;
	struct err err = {0};

	tell(hold, EVENT_APPROVAL_ANSWERED, "timeout", NULL, NULL, NULL);
	(void)err_set(&err, ERR_FORBIDDEN, "nobody allowed this call of %s in time",
	              hold->tool); /* always -1 */
	hold_free(hold);
	on_answer(&err, whose);
}

struct hold *hold_new(struct api *api, struct caller *caller, const struct hold_wish *wish,
                      hold_on_answer on_answer, void *ctx, struct err *err)
{
	size_t all = 0, own = 0;
	struct hold **at = &api->holds;
	struct hold *hold;

	for (; *at; at = &(*at)->next) {
		all++;
		own += str_eq((*at)->caller->credential.text, caller->credential.text);
	}
	if (all >= HOLDS_MOST || own >= HOLDS_OF_CALLER) {
		(void)err_set(err, ERR_LIMITED,
		              "too many calls wait for an answer already"); /* always -1 */
		return NULL;
	}
	hold = *at = mem_new(struct hold);
	hold->api = api;
	hold->id = id_new("ap");
	hold->caller = caller_ref(caller);
	hold->tool = mem_strdup(wish->tool);
	hold->arguments = json_dumps(wish->arguments, JSON_COMPACT | JSON_ENSURE_ASCII);
	if (hold->arguments && strlen(hold->arguments) > HOLDS_SHOWN)
		hold->arguments[HOLDS_SHOWN] = '\0';
	hold->asked_ms = io_real_ms();
	hold->expires_ms = hold->asked_ms + wish->timeout_ms;
	hold->on_answer = on_answer;
	hold->ctx = ctx;
	loop_timer_in(api->loop, &hold->timer, wish->timeout_ms, on_over, hold);
	tell(hold, EVENT_APPROVAL_ASKED, NULL, NULL, NULL, NULL);
	return hold;
}

void hold_drop(struct hold *hold)
{
	if (hold->answerer) {
		/* Its answer is being stored: on_stored finds nobody to tell. */
		hold->on_answer = NULL;
		return;
	}
	tell(hold, EVENT_APPROVAL_ANSWERED, "gone", NULL, NULL, NULL);
	hold_free(hold);
}

/* --- listing and answering --- */

static struct ownership whose(const struct hold *hold)
{
	return (struct ownership){hold->caller->principal.text, hold->caller->team.text,
	                          VISIBILITY_TEAM, hold->caller->credential.text};
}

void holds_list(struct call *call, json_t *items)
{
	for (const struct hold *hold = call->api->holds; hold; hold = hold->next) {
		struct ownership owner = whose(hold);

		if (hold->answerer || !authz_sees(call, &owner))
			continue;
		json_array_append_new(
			items,
			json_pack("{s:s, s:s, s:n, s:s, s:s, s:s, s:o, s:s, s:n, s:n, s:n, s:i, "
		                  "s:n, s:o, s:o}",
		                  "id", hold->id.text, "kind", "tool", "sandbox", "tool",
		                  hold->tool, "arguments", hold->arguments ? hold->arguments : "",
		                  "caller", hold->caller->name, "run",
		                  hold->caller->run.text[0] ? json_string(hold->caller->run.text)
		                                            : json_null(),
		                  "state", "waiting", "proto", "host", "address", "port", 0,
		                  "program", "askedAt", encode_time(hold->asked_ms), "expiresAt",
		                  encode_time(hold->expires_ms)));
	}
}

static void on_stored(const struct store_result *result, void *ctx)
{
	struct hold *hold = ctx;
	struct call *call = hold->answerer;
	hold_on_answer on_answer = hold->on_answer;
	void *asked_ctx = hold->ctx;
	struct err err = {0};

	if (!result->ok)
		log_error("an answer has no event", LOG_ERR(&result->err));
	if (!hold->is_allowed)
		(void)err_set(&err, ERR_FORBIDDEN, "%s denied this call of %s", call->caller->name,
		              hold->tool); /* always -1 */
	hold_free(hold);
	call_answer_empty(call);
	if (on_answer)
		on_answer(&err, asked_ctx);
}

int holds_absent(const char *id, struct err *err)
{
	char shown[64];

	str_escape(shown, sizeof(shown), id, strlen(id));
	return err_set(err, ERR_NOT_FOUND,
	               "no approval '%s' waits: it was answered, or nobody did in time", shown);
}

/* The key that asks, or one that was made with it. */
static bool is_own(const struct caller *caller, const struct hold *hold)
{
	struct ownership made = {.made_by = caller->chain};

	if (caller->credential.text[0] &&
	    str_eq(caller->credential.text, hold->caller->credential.text))
		return true;
	return access_is_below(hold->caller, &made);
}

/* An agent that could answer for itself would need no person. */
static int check(struct call *call, const struct hold *hold, bool is_once, struct err *err)
{
	const struct caller *caller = call->caller;
	struct ownership owner = whose(hold);

	if (authz_change(call, &owner, "approval", hold->id.text, err) < 0)
		return err->code == ERR_NOT_FOUND ? holds_absent(hold->id.text, err) : -1;
	if (caller->run.text[0] || is_own(caller, hold)) {
		record_denial(call->api, call->request, caller, call->route->name, hold->id.text,
		              "own question");
		return err_set(err, ERR_FORBIDDEN, "whoever asks cannot answer: use another key");
	}
	if (!is_once)
		return err_set(err, ERR_INVALID, "a call of a tool is allowed once");
	if (hold->answerer)
		return err_set(err, ERR_CONFLICT, "somebody is answering this already");
	return 0;
}

int holds_answer(struct call *call, const char *id, bool is_allowed, bool is_once)
{
	struct hold *hold = call->api->holds;
	struct err err = {0};

	while (hold && !str_eq(hold->id.text, id))
		hold = hold->next;
	if (!hold)
		return 0;
	if (check(call, hold, is_once, &err) < 0) {
		call_fail(call, &err);
		return 1;
	}
	loop_timer_stop(&hold->timer);
	hold->answerer = call;
	hold->is_allowed = is_allowed;
	/* The event first: who answered what must not be lost by a crash. */
	tell(hold, EVENT_APPROVAL_ANSWERED, is_allowed ? "allow" : "deny", call->caller->name,
	     on_stored, hold);
	return 1;
}

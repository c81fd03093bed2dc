/*
 * An answer that is to last is made a rule first (of the environment, then of this sandbox, each in
 * force before the next step), and only then is the connection let go: whoever asks again a moment
 * later must not wait again.
 */
#include "daemon/approvals.h"

#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "daemon/environments.h"
#include "daemon/lifecycle.h"
#include "daemon/network.h"
#include "daemon/notes.h"
#include "store/store.h"

enum { ANSWER_MS = 10 * 1000, ASK_MS = 60 * 1000, OF_ONE_SANDBOX = 64 };

struct waiting {
	struct waiting *next;
	struct approvals *approvals;
	struct approval *approval;
	struct loop_timer timer; /* its end */
	bool is_allowed;
	enum approval_reach reach;
	char *by;
	engine_on_done on_done; /* of the answer under way; NULL: none */
	void *ctx;
	approval_on_verdict on_verdict; /* of a question of an agent; NULL: of a keeper */
	void *asker;
};

struct approvals {
	struct fleet *fleet;
	struct waiting *first;
};

static const struct err no_err;

struct approvals *approvals_new(struct fleet *fleet)
{
	struct approvals *approvals = mem_new(struct approvals);

	approvals->fleet = fleet;
	return approvals;
}

static void waiting_free(struct waiting *waiting)
{
	for (struct waiting **at = &waiting->approvals->first; *at; at = &(*at)->next) {
		if (*at != waiting)
			continue;
		*at = waiting->next;
		break;
	}
	loop_timer_stop(&waiting->timer);
	approval_free(waiting->approval);
	mem_freep(&waiting->by);
	mem_freep(&waiting);
}

void approvals_free(struct approvals *approvals)
{
	if (!approvals)
		return;
	while (approvals->first)
		waiting_free(approvals->first);
	mem_freep(&approvals);
}

/* The running sandbox that asked; NULL: it waits no more. */
static struct member *member_of(const struct waiting *waiting)
{
	struct member *member =
		fleet_find(waiting->approvals->fleet, waiting->approval->sandbox.text);

	return member && member->row->state == SANDBOX_RUNNING ? member : NULL;
}

static void tell(const struct waiting *waiting, enum event_kind kind, const char *verdict)
{
	struct event event;

	note_approval(&event, kind, waiting->approval, verdict, waiting->by);
	store_event_put(waiting->approvals->fleet->store, &event, NULL, NULL);
	event_done(&event);
}

/* An agent waits inside, and no keeper. */
static void tell_asker(struct waiting *waiting, bool is_allowed)
{
	approval_on_verdict on_verdict = waiting->on_verdict;

	waiting->on_verdict = NULL;
	if (on_verdict)
		on_verdict(is_allowed, waiting->asker);
}

static void on_over(struct loop_timer *timer, void *ctx)
{
	struct waiting *waiting = ctx;

	/* The keeper's own clock denies it; this one only takes it off the list. */
	if (waiting->on_done)
		return;
	tell(waiting, EVENT_APPROVAL_ANSWERED, "timeout");
	tell_asker(waiting, false);
	waiting_free(waiting);
}

/* --- asking --- */

static bool is_known(const struct approvals *approvals, const char *sandbox, uint64_t ask)
{
	size_t count = 0;

	for (const struct waiting *at = approvals->first; at; at = at->next) {
		if (!str_eq(at->approval->sandbox.text, sandbox))
			continue;
		if (at->approval->ask == ask && !at->approval->title)
			return true;
		count++;
	}
	return count >= OF_ONE_SANDBOX; /* one more stays unanswered, so it is denied */
}

static char *words(const struct wire_msg *msg, enum wire_field field)
{
	const char *text = wire_str(msg, field, NULL);
	char shown[512];

	if (!text || !*text)
		return NULL;
	str_escape(shown, sizeof(shown), text, strlen(text)); /* the sandbox's own words */
	return mem_strdup(shown);
}

static void add(struct waiting *waiting, uint64_t left_ms)
{
	struct waiting **at = &waiting->approvals->first;

	while (*at)
		at = &(*at)->next;
	*at = waiting;
	loop_timer_in(waiting->approvals->fleet->loop, &waiting->timer, left_ms, on_over, waiting);
	tell(waiting, EVENT_APPROVAL_ASKED, NULL);
}

void approvals_on_ask(struct member *member, const struct wire_msg *msg)
{
	struct approvals *approvals = member->fleet->approvals;
	uint64_t ask = wire_u64(msg, FIELD_ASK, 0);
	uint64_t left_ms = wire_u64(msg, FIELD_TIMEOUT_MS, ASK_MS);
	struct waiting *waiting;
	struct approval *approval;

	if (!approvals || member->shelf || is_known(approvals, member->row->id.text, ask))
		return;
	waiting = mem_new(struct waiting);
	waiting->approvals = approvals;
	approval = waiting->approval = approval_new();
	approval->sandbox = member->row->id;
	approval->ask = ask;
	approval->proto = words(msg, FIELD_PROTO);
	approval->host = words(msg, FIELD_HOST);
	approval->address = words(msg, FIELD_ADDRESS);
	approval->program = words(msg, FIELD_PROGRAM);
	approval->port = (uint16_t)wire_u64(msg, FIELD_PORT, 0);
	approval->pid = wire_u64(msg, FIELD_PID, 0);
	approval->asked_ms = io_real_ms();
	approval->expires_ms = approval->asked_ms + left_ms;
	add(waiting, left_ms);
}

int approvals_ask(struct approvals *approvals, const struct approval_question *question,
                  struct id *ret_id, struct err *err)
{
	const struct member *member =
		approvals ? fleet_find(approvals->fleet, question->sandbox) : NULL;
	struct waiting *waiting;

	if (!member || member->row->state != SANDBOX_RUNNING)
		return err_set(err, ERR_CONFLICT, "the sandbox does not run");
	if (is_known(approvals, question->sandbox, UINT64_MAX))
		return err_set(err, ERR_LIMITED, "too many questions wait already");
	waiting = mem_new(struct waiting);
	waiting->approvals = approvals;
	waiting->approval = approval_new();
	waiting->approval->sandbox = member->row->id;
	waiting->approval->title = mem_strdup(question->title);
	waiting->approval->program = mem_strdup(question->program);
	waiting->approval->asked_ms = io_real_ms();
	waiting->approval->expires_ms = waiting->approval->asked_ms + question->timeout_ms;
	waiting->on_verdict = question->on_verdict;
	waiting->asker = question->ctx;
	add(waiting, question->timeout_ms);
	*ret_id = waiting->approval->id;
	return 0;
}

void approvals_withdraw(struct approvals *approvals, const char *id)
{
	for (struct waiting *at = approvals ? approvals->first : NULL; at; at = at->next) {
		if (!str_eq(at->approval->id.text, id))
			continue;
		at->on_verdict = NULL;
		if (!at->on_done) {
			tell(at, EVENT_APPROVAL_ANSWERED, "gone");
			waiting_free(at);
		}
		return;
	}
}

const struct approval *approvals_at(struct approvals *approvals, size_t index)
{
	struct waiting *next;

	for (struct waiting *at = approvals->first; at; at = next) {
		next = at->next;
		if (at->on_done)
			continue; /* being answered */
		if (!member_of(at)) {
			tell(at, EVENT_APPROVAL_ANSWERED, "gone");
			tell_asker(at, false);
			waiting_free(at);
		} else if (index-- == 0) {
			return at->approval;
		}
	}
	return NULL;
}

/* --- answering --- */

struct answered {
	engine_on_done on_done;
	void *ctx;
};

static void on_told(const struct store_result *result, void *ctx)
{
	auto_free struct answered *answered = ctx;

	if (!result->ok)
		log_error("an answer has no event", LOG_ERR(&result->err));
	answered->on_done(&no_err, answered->ctx);
}

/* The event first: who answered what must not be lost by a crash. */
static void answered(struct waiting *waiting)
{
	struct answered *told = mem_new(struct answered);
	struct event event;

	*told = (struct answered){waiting->on_done, waiting->ctx};
	note_approval(&event, EVENT_APPROVAL_ANSWERED, waiting->approval,
	              waiting->is_allowed ? "allow" : "deny", waiting->by);
	store_event_put(waiting->approvals->fleet->store, &event, on_told, told);
	event_done(&event);
	waiting_free(waiting);
}

static void finish(struct waiting *waiting, const struct err *err)
{
	engine_on_done on_done = waiting->on_done;
	void *ctx = waiting->ctx;
	uint64_t now = io_real_ms();

	if (err->code == ERR_OK) {
		answered(waiting);
		return;
	}
	waiting->on_done = NULL;
	if (!member_of(waiting) || now >= waiting->approval->expires_ms) {
		tell(waiting, EVENT_APPROVAL_ANSWERED, "gone");
		waiting_free(waiting);
	} else {
		loop_timer_in(waiting->approvals->fleet->loop, &waiting->timer,
		              waiting->approval->expires_ms - now, on_over, waiting);
	}
	on_done(err, ctx);
}

static void on_keeper(struct wire_msg *msg, const struct err *err, void *ctx)
{
	struct waiting *waiting = ctx;

	/* A rule that lasts may have let it go before. */
	if (err->code == ERR_NOT_FOUND && waiting->is_allowed && waiting->reach != APPROVAL_ONCE) {
		finish(waiting, &no_err);
		return;
	}
	if (err->code == ERR_NOT_FOUND)
		waiting->approval->expires_ms = 0; /* the keeper's clock was faster */
	finish(waiting, err);
}

static void send_answer(struct waiting *waiting)
{
	struct member *member = member_of(waiting);
	auto_wire_out struct wire_out out = {0};
	struct err err = {0};
	uint64_t number;

	if (!member || !peer_is_open(member->peer)) {
		(void)err_set(&err, ERR_GONE, "the sandbox does not wait any more"); /* always -1 */
		finish(waiting, &err);
		return;
	}
	number = peer_begin(member->peer, &out, WIRE_K_ANSWER);
	wire_put_u64(&out, FIELD_ASK, waiting->approval->ask);
	wire_put_str(&out, FIELD_VERDICT, waiting->is_allowed ? "allow" : "deny");
	peer_call(member->peer, number, &out, ANSWER_MS, on_keeper, waiting);
}

static void on_sandbox_allows(const struct sandbox *sandbox, const struct err *err, void *ctx)
{
	struct waiting *waiting = ctx;

	if (sandbox)
		send_answer(waiting);
	else
		finish(waiting, err);
}

static void allow_for_sandbox(struct waiting *waiting)
{
	struct member *member = member_of(waiting);
	struct network_change change = {0};
	struct strings list = {0};
	struct err gone = {0};
	auto_free char *entry = NULL;
	bool is_cidr;

	if (!member) {
		(void)err_set(&gone, ERR_GONE,
		              "the sandbox does not wait any more"); /* always -1 */
		finish(waiting, &gone);
		return;
	}
	entry = approval_entry(waiting->approval, &is_cidr);
	strings_copy(&list,
	             is_cidr ? &member->row->spec.allow_cidrs : &member->row->network.approved);
	if (!strings_has(&list, entry))
		strings_add(&list, entry);
	change.allow_cidrs = is_cidr ? &list : NULL;
	change.approved = is_cidr ? NULL : &list;
	network_set(waiting->approvals->fleet, member->row->id.text, &change, on_sandbox_allows,
	            waiting);
	strings_done(&list);
}

static void on_environment_allows(const struct err *err, void *ctx)
{
	struct waiting *waiting = ctx;

	if (err->code == ERR_OK)
		allow_for_sandbox(waiting);
	else
		finish(waiting, err);
}

/* The environment as it shall be. */
static int extend(const struct waiting *waiting, struct environment *environment, struct err *err)
{
	auto_free char *entry = NULL;
	struct strings *list;
	bool is_cidr;

	if (!environment->id.text[0])
		return err_set(err, ERR_CONFLICT,
		               "environment '%s' does not change here: allow it for the sandbox",
		               environment->name);
	if (environment->level == ENVIRONMENT_TRUSTED) {
		environment->level = ENVIRONMENT_CUSTOM;
		environment->include_default = true;
	}
	entry = approval_entry(waiting->approval, &is_cidr);
	list = is_cidr ? &environment->cidrs : &environment->domains;
	if (!strings_has(list, entry))
		strings_add(list, entry);
	environment->updated_ms = io_real_ms();
	return environment_normalise(environment, err);
}

static void allow_for_environment(struct waiting *waiting)
{
	const struct environments *all = waiting->approvals->fleet->environments;
	auto_(environment_freep) struct environment *environment = NULL;
	struct member *member = member_of(waiting);
	struct err err = {0};

	if (!member)
		(void)err_set(&err, ERR_GONE, "the sandbox does not wait any more"); /* always -1 */
	if (err.code != ERR_OK ||
	    environments_for(all, &member->row->spec, &environment, &err) < 0 ||
	    extend(waiting, environment, &err) < 0) {
		finish(waiting, &err);
		return;
	}
	environments_put(all, &(struct environment_change){.environment = environment},
	                 on_environment_allows, waiting);
}

static void on_begin(struct loop_timer *timer, void *ctx)
{
	struct waiting *waiting = ctx;

	if (waiting->approval->title) {
		tell_asker(waiting, waiting->is_allowed);
		finish(waiting, &no_err);
	} else if (!waiting->is_allowed || waiting->reach == APPROVAL_ONCE) {
		send_answer(waiting);
	} else if (waiting->reach == APPROVAL_SANDBOX) {
		allow_for_sandbox(waiting);
	} else {
		allow_for_environment(waiting);
	}
}

static struct waiting *find(const struct approvals *approvals, const char *id, struct err *err)
{
	for (struct waiting *at = approvals->first; at; at = at->next) {
		if (!str_eq(at->approval->id.text, id))
			continue;
		if (!at->on_done)
			return at;
		(void)err_set(err, ERR_CONFLICT,
		              "somebody is answering this already"); /* always -1 */
		return NULL;
	}
	(void)err_set(err, ERR_NOT_FOUND,
	              "no approval '%.40s' waits: it was answered, or nobody did in time",
	              id); /* always -1 */
	return NULL;
}

void approvals_answer(struct approvals *approvals, const char *id,
                      const struct approval_answer *answer, engine_on_done on_done, void *ctx)
{
	struct err err = {0};
	struct waiting *waiting = find(approvals, id, &err);

	if (waiting && waiting->approval->title && answer->is_allowed &&
	    answer->reach != APPROVAL_ONCE) {
		(void)err_set(&err, ERR_INVALID,
		              "what an agent asks for is allowed once"); /* always -1 */
		waiting = NULL;
	}
	if (!waiting) {
		lifecycle_refuse(approvals->fleet, &err, NULL, on_done, ctx);
		return;
	}
	waiting->is_allowed = answer->is_allowed;
	waiting->reach = answer->reach;
	waiting->on_done = on_done;
	waiting->ctx = ctx;
	mem_freep(&waiting->by);
	waiting->by = answer->by ? mem_strdup(answer->by) : NULL;
	/* From the loop, as every answer is; its end is the keeper's matter from here on. */
	loop_timer_stop(&waiting->timer);
	loop_timer_in(approvals->fleet->loop, &waiting->timer, 0, on_begin, waiting);
}

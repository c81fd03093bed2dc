#include "daemon/lifecycle.h"

#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/must.h"
#include "base/str.h"
#include "daemon/fit.h"
#include "daemon/leftover.h"
#include "daemon/network.h"
#include "daemon/notes.h"
#include "daemon/pool.h"
#include "daemon/step.h"
#include "runtime/image.h"
#include "task/meter.h"

enum { CLAIM_MS = 5000, ENFORCE_MOST_MS = 60 * 1000 };

static const struct err no_err;

/* --- the end of a start that failed --- */

/* What the caller needs is why it failed; the row's detail and the event are the same sentence. */
static void answer_failure(struct member *member)
{
	struct err err = {0};

	(void)err_set(&err, member->start_err.code, "%s", member->start_err.msg);
	member_answer(&member->start_waiters, NULL, &err);
	member_unref(member);
}

static void on_unborn_deleted(const struct store_result *result, void *ctx)
{
	struct member *member = ctx;

	if (!result->ok)
		log_error("a sandbox that never ran stays as failed",
		          LOG_STR("sandbox", member->row->id.text), LOG_ERR(&result->err));
	answer_failure(member);
}

static void on_failure_stored(const struct store_result *result, void *ctx)
{
	struct member *member = ctx;
	struct event event;
	bool is_expected;

	/* A parked one whose new name is somebody else's: it has no row, and needs none. */
	is_expected = result->ok || result->err.code == ERR_CONFLICT;
	fleet_note_end(member->fleet, is_expected);
	meter_ended(member->fleet->tasks, member->row->id.text);
	if (!is_expected)
		log_error("a failed start is not recorded; the next start of the daemon does it",
		          LOG_STR("sandbox", member->row->id.text), LOG_ERR(&result->err));
	/* One that never ran and whose caller is told why is of no use to anybody and would hold
	 * its name. Where nobody is left to be told, the row tells. */
	if (!result->ok || !member->is_undone || member->is_restart || !member->start_waiters) {
		answer_failure(member);
		return;
	}
	note_sandbox(&event, EVENT_SANDBOX_REMOVED, member->row);
	store_sandbox_delete(member->fleet->store, member->row->id.text, &event, on_unborn_deleted,
	                     member);
	event_done(&event);
}

static void on_undone(const struct err *err, void *ctx)
{
	struct member *member = ctx;
	struct err refused = {0};

	step_answered(member, METRICS_REAP, err);
	member->is_undone = err->code == ERR_OK;
	if (step_is_cut_off(member, err))
		return;
	if (err->code != ERR_OK && member->row->state != SANDBOX_REMOVING) {
		log_error("a failed start leaves something behind; trying again",
		          LOG_STR("sandbox", member->row->id.text), LOG_ERR(err));
		leftover_add(member->fleet, member->row->id.text, member->is_restart);
	}
	if (member->row->state == SANDBOX_REMOVING) {
		member_answer(&member->start_waiters, NULL, &member->start_err);
		lifecycle_continue_removal(member);
	} else if (step_apply(member, SANDBOX_EVENT_START_FAILED, &refused) == 0) {
		member->row->ended_ms = io_real_ms();
		spec_set(&member->row->end_reason, "start_failed");
		spec_set(&member->row->detail, member->start_err.msg);
		step_store(member, EVENT_SANDBOX_FAILED, on_failure_stored);
	} else {
		member_answer(&member->start_waiters, NULL, &member->start_err);
	}
	member_unref(member);
}

/* Takes down what the launch made. Files of an earlier life are kept. */
static void undo_start(struct member *member, const struct err *err)
{
	member->start_err = *err;
	member_disconnect(member);
	step_reap(member, member->is_restart, on_undone);
}

/* --- create and start --- */

static void on_running_stored(const struct store_result *result, void *ctx)
{
	struct member *member = ctx;

	if (result->ok)
		member_answer(&member->start_waiters, member->row, &no_err);
	else if (member->fleet->is_shut)
		member_answer(&member->start_waiters, NULL, &result->err);
	else if (member->row->state == SANDBOX_RUNNING) {
		/* A sandbox nobody can find must not run. */
		member_set_state(member, SANDBOX_CREATING);
		undo_start(member, &result->err);
	} else {
		member_answer(&member->start_waiters, NULL, &result->err);
	}
	member_unref(member);
}

/* It runs: from here on its time counts. */
static int take_over(struct member *member, struct err *err)
{
	struct sandbox *row = member->row;

	if (step_apply(member, SANDBOX_EVENT_STARTED, err) < 0)
		return -1;
	row->started_ms = io_real_ms();
	row->expires_ms = row->spec.ttl_ms ? row->started_ms + row->spec.ttl_ms : 0;
	if (row->expires_ms)
		member_send_deadline(member);
	return 0;
}

/* Its network policy is in force: only now may a command run. Takes the launch's reference. */
static void on_enforced(struct member *member, const struct err *err)
{
	struct err failed = *err;

	member->is_busy = false;
	if (step_is_cut_off(member, err))
		return;
	if (member->row->state == SANDBOX_REMOVING) {
		(void)err_set(&failed, ERR_GONE, "the sandbox was removed while it started");
		member_answer(&member->start_waiters, NULL, &failed);
		lifecycle_continue_removal(member);
	} else if (err->code != ERR_OK || take_over(member, &failed) < 0) {
		undo_start(member, &failed);
	} else {
		step_store(member, EVENT_SANDBOX_RUNNING, on_running_stored);
		if (member->row->spec.is_ephemeral)
			member_answer(&member->start_waiters, member->row, &no_err);
	}
	member_unref(member);
}

static void on_launched(const struct strings *mechanisms, const struct err *err, void *ctx)
{
	struct member *member = ctx;
	bool is_wanted = !member->fleet->is_shut && member->row->state != SANDBOX_REMOVING;
	struct err failed = *err;

	step_answered(member, METRICS_LAUNCH, err);
	if (err->code != ERR_OK || !is_wanted) {
		on_enforced(member, err);
	} else if (member_connect(member, &failed) < 0) {
		err_wrap(&failed, "start the sandbox (connect)");
		on_enforced(member, &failed);
	} else {
		member->is_busy = true;
		member_set_mechanisms(member, mechanisms);
		network_enforce(member, on_enforced);
	}
}

static int layers_of(struct member *member, struct strings *layers, struct err *err)
{
	auto_(image_freep) struct image *image = NULL;
	const struct sandbox *row = member->row;

	if (!image_is_host(row->spec.image) &&
	    store_image_get(member->fleet->store, row->image_id.text, &image, err) < 0)
		return err_wrap(err, "image %s", row->spec.image);
	image_layers(image, layers);
	return 0;
}

static void on_creation_stored(const struct store_result *result, void *ctx)
{
	struct member *member = ctx;
	struct runtime *runtime = member->fleet->runtime;
	struct strings layers = {0};
	struct err err = {0};

	(void)err_set(&err, ERR_UNAVAILABLE, "the daemon is ending"); /* always -1 */
	if (step_is_cut_off(member, &err))
		return;
	err = no_err;
	if (!result->ok) {
		/* Nothing was made and no row is there (or it is as it was before). */
		member_set_state(member, SANDBOX_FAILED);
		member_answer(&member->start_waiters, NULL, &result->err);
	} else if (member->row->state == SANDBOX_REMOVING) {
		(void)err_set(&err, ERR_GONE, "the sandbox was removed before it started");
		member_answer(&member->start_waiters, NULL, &err);
		lifecycle_continue_removal(member);
	} else if (layers_of(member, &layers, &err) < 0) {
		undo_start(member, &err);
	} else {
		member->is_busy = true;
		member->asked_us = io_boot_us();
		runtime->ops->launch(runtime, member->row, &layers, RUNTIME_START, on_launched,
		                     member_ref(member));
	}
	strings_done(&layers);
	member_unref(member);
}

struct refusal {
	struct loop_timer timer;
	struct member_waiter *waiter;
	struct err err;
};

static void on_refusal(struct loop_timer *timer, void *ctx)
{
	auto_free struct refusal *refusal = ctx;

	member_answer(&refusal->waiter, NULL, &refusal->err);
}

void lifecycle_refuse(struct fleet *fleet, const struct err *err, engine_on_sandbox on_sandbox,
                      engine_on_done on_done, void *ctx)
{
	struct refusal *refusal = mem_new(struct refusal);

	refusal->err = *err;
	member_wait(&refusal->waiter, on_sandbox, on_done, ctx);
	loop_timer_in(fleet->loop, &refusal->timer, 0, on_refusal, refusal);
}

/* --- create from the pool --- */

static void create_anew(struct fleet *fleet, struct sandbox *row, struct member_waiter *waiters)
{
	struct member *member = fleet_add(fleet, row);

	member->start_waiters = waiters;
	step_store(member, EVENT_SANDBOX_CREATED, on_creation_stored);
	member_unref(member);
}

/* Created and running in one commit: there was no time between. */
static void store_claimed(struct member *member)
{
	static const enum event_kind kinds[] = {EVENT_SANDBOX_CREATED, EVENT_SANDBOX_RUNNING};
	struct store_write *write = store_write_new(member->fleet->store);

	store_put_sandbox(write, member->row);
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		struct event event;

		note_sandbox(&event, kinds[i], member->row);
		store_put_event(write, &event);
		event_done(&event);
	}
	if (member->row->spec.is_ephemeral)
		fleet_submit_soon(member->fleet, write, on_running_stored, member_ref(member));
	else
		store_write_submit(write, on_running_stored, member_ref(member));
	log_info("sandbox changes", LOG_STR("sandbox", member->row->id.text),
	         LOG_STR("state", sandbox_state_name(member->row->state)));
}

/* Nobody's and never to be: the same request goes the long way, which says what is wrong with it if
 * it is the request. */
static void cannot_claim(struct member *member, const struct err *err)
{
	struct runtime *runtime = member->fleet->runtime;
	struct sandbox *row = member->row;
	struct sandbox *again = sandbox_new(&row->spec, io_real_ms());

	log_warn("a parked sandbox could not be claimed; another is made",
	         LOG_STR("sandbox", row->id.text), LOG_ERR(err));
	metrics_count(&member->fleet->metrics, METRICS_CLAIM_FAILURES);
	again->image_id = row->image_id;
	sandbox_network_copy(&again->network, &row->network);
	if (row->spec.mount_count > 0)
		runtime->ops->unbind(runtime, row->id.text);
	create_anew(member->fleet, again, take_ptr(member->start_waiters));
	pool_discard(member);
}

/* Takes the pool's reference. */
static void on_claim_enforced(struct member *member, const struct err *err)
{
	struct sandbox *row = member->row;
	struct err refused = *err;

	if (step_is_cut_off(member, err))
		return;
	if (err->code != ERR_OK || take_over(member, &refused) < 0) {
		cannot_claim(member, &refused);
		return;
	}
	store_claimed(member);
	if (row->spec.is_ephemeral)
		member_answer(&member->start_waiters, row, &no_err);
	member_unref(member);
}

static void on_claimed(struct wire_msg *msg, const struct err *err, void *ctx)
{
	struct member *member = ctx;

	metrics_since(&member->fleet->metrics, METRICS_CLAIM, member->asked_us);
	if (msg && !member->fleet->is_shut)
		network_enforce(member, on_claim_enforced);
	else
		on_claim_enforced(member, err);
}

/* The second phase. */
static void claim(struct member *member)
{
	const struct spec *spec = &member->row->spec;
	auto_wire_out struct wire_out out = {0};
	uint64_t number = peer_begin(member->peer, &out, WIRE_K_CLAIM);

	member->asked_us = io_boot_us();
	wire_put_u64(&out, FIELD_OUTPUT_RATE, spec->limits.output_rate);
	wire_put_u64(&out, FIELD_NOFILE, spec->limits.nofile);
	/* As with a launch: told again when it runs. */
	if (spec->ttl_ms)
		wire_put_u64(&out, FIELD_DEADLINE_MS,
		             io_boot_ms() + ENFORCE_MOST_MS + spec->ttl_ms);
	wire_put_u64(&out, FIELD_ONCE, runtime_once(spec));
	peer_call(member->peer, number, &out, CLAIM_MS, on_claimed, member);
}

static void on_bound(const struct err *err, void *ctx)
{
	struct member *member = ctx;
	struct err gone = *err;

	member->is_busy = false;
	metrics_since(&member->fleet->metrics, METRICS_BIND, member->asked_us);
	if (step_is_cut_off(member, err))
		return;
	if (err->code == ERR_OK && !member->peer)
		(void)err_set(&gone, ERR_GONE, "its keeper is gone"); /* always -1 */
	if (gone.code != ERR_OK)
		cannot_claim(member, &gone);
	else
		claim(member);
}

/* Takes the pool's reference. */
static void take_parked(struct member *member, const struct spec *spec,
                        struct member_waiter *waiters)
{
	struct runtime *runtime = member->fleet->runtime;
	struct sandbox *row = member->row;
	enum fit fit = fit_of(row, spec);
	struct spec made = row->spec;

	spec_copy(&row->spec, spec);
	row->created_ms = io_real_ms();
	member->since_ms = io_boot_ms();
	member->start_waiters = waiters;
	if (fit == FIT_BOUND) {
		member->is_busy = true;
		member->asked_us = io_boot_us();
		runtime->ops->bind(runtime, &made, row, on_bound, member);
	} else {
		claim(member);
	}
	spec_done(&made);
}

/* --- create from a blank one --- */

/* Has the pool's reference. */
static void on_finished(const struct strings *mechanisms, const struct err *err, void *ctx)
{
	struct member *member = ctx;
	struct err failed = *err;

	member->is_busy = false;
	metrics_since(&member->fleet->metrics, METRICS_FINISH, member->asked_us);
	if (step_is_cut_off(member, err))
		return;
	if (failed.code != ERR_OK || member_connect(member, &failed) < 0) {
		cannot_claim(member, &failed);
		return;
	}
	member_set_mechanisms(member, mechanisms);
	network_enforce(member, on_claim_enforced);
}

/* Takes the pool's reference. As with a parked one nothing is stored before it runs. */
static void take_blank(struct member *member, const struct spec *spec, const struct image *image,
                       struct member_waiter *waiters)
{
	struct runtime *runtime = member->fleet->runtime;
	struct sandbox *row = member->row;
	struct strings layers = {0};

	spec_done(&row->spec);
	spec_copy(&row->spec, spec);
	if (image)
		row->image_id = image->id;
	row->created_ms = io_real_ms();
	member->since_ms = io_boot_ms();
	member->start_waiters = waiters;
	member->is_busy = true;
	member->asked_us = io_boot_us();
	image_layers(image, &layers);
	runtime->ops->launch(runtime, row, &layers, RUNTIME_START, on_finished, member);
	strings_done(&layers);
}

/* --- create --- */

/* From the pool, from a blank one, or anew. */
static void create(struct fleet *fleet, const struct spec *spec, const struct image *image,
                   struct sandbox_network *network, struct member_waiter *waiters)
{
	struct pool *pool = fleet->pool;
	struct member *parked = pool ? pool_take(pool, spec, image ? image->id.text : "") : NULL;
	struct member *blank = pool && !parked ? pool_take_blank(pool, spec) : NULL;
	struct spec final;
	struct sandbox *row;

	spec_copy(&final, spec);
	image_apply(image, &final);
	if (parked) {
		parked->row->network = *network;
		take_parked(parked, &final, waiters);
	} else if (blank) {
		blank->row->network = *network;
		take_blank(blank, &final, image, waiters);
	} else {
		row = sandbox_new(&final, io_real_ms());
		row->network = *network;
		if (image)
			row->image_id = image->id;
		create_anew(fleet, row, waiters);
	}
	spec_done(&final);
}

void lifecycle_create(struct fleet *fleet, const struct spec *spec, engine_on_sandbox on_sandbox,
                      void *ctx)
{
	auto_(image_freep) struct image *image = NULL;
	struct member_waiter *waiters = NULL;
	struct network_wish wish = {.spec = spec};
	struct sandbox_network network = {0};
	struct err err = {0};

	calm_disturb(&fleet->calm);
	if (fleet->is_shut)
		(void)err_set(&err, ERR_UNAVAILABLE, "the daemon is ending"); /* always -1 */
	if (err.code != ERR_OK || meter_fits(fleet->tasks, spec, &err) < 0 ||
	    (!image_is_host(spec->image) &&
	     store_image_get(fleet->store, spec->image, &image, &err) < 0) ||
	    network_compile(fleet, &wish, &network, &err) < 0) {
		lifecycle_refuse(fleet, &err, on_sandbox, NULL, ctx);
		return;
	}
	member_wait(&waiters, on_sandbox, NULL, ctx);
	create(fleet, spec, image, &network, waiters);
}

/* Environments are resolved at each start. */
static int compile_again(struct member *member, struct sandbox_network *ret, struct err *err)
{
	const struct sandbox *row = member->row;
	struct network_wish wish = {&row->spec, &row->network.approved, row->network.generation,
	                            false};

	return network_compile(member->fleet, &wish, ret, err);
}

void lifecycle_start(struct fleet *fleet, const char *id, engine_on_sandbox on_sandbox, void *ctx)
{
	struct sandbox_network network = {0};
	struct member *member;
	struct err err = {0};

	if (fleet_get(fleet, id, &member, &err) < 0) {
		lifecycle_refuse(fleet, &err, on_sandbox, NULL, ctx);
		return;
	}
	if (meter_fits(fleet->tasks, &member->row->spec, &err) < 0 ||
	    compile_again(member, &network, &err) < 0 ||
	    step_apply(member, SANDBOX_EVENT_START, &err) < 0) {
		sandbox_network_done(&network);
		lifecycle_refuse(fleet, &err, on_sandbox, NULL, ctx);
	} else {
		sandbox_network_done(&member->row->network);
		member->row->network = network;
		leftover_forget(fleet, id);
		member->is_restart = true;
		member->row->ended_ms = 0;
		member->row->meters = (struct meters){0};
		member->ended_ms = 0;
		spec_set(&member->row->end_reason, NULL);
		spec_set(&member->row->detail, NULL);
		mem_freep(&member->cut_why);
		member_wait(&member->start_waiters, on_sandbox, NULL, ctx);
		step_store(member, EVENT_SANDBOX_CREATED, on_creation_stored);
	}
	member_unref(member);
}

void lifecycle_undo_creation(struct member *member)
{
	struct err err = {0};

	(void)err_set(&err, ERR_UNAVAILABLE,
	              "the daemon ended while this sandbox was being made"); /* always -1 */
	member->is_restart = member->row->started_ms != 0;
	undo_start(member, &err);
}

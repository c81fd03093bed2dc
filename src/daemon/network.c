#include "daemon/network.h"

#include <sodium.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/must.h"
#include "base/str.h"
#include "daemon/environments.h"
#include "daemon/lifecycle.h"
#include "daemon/notes.h"
#include "model/policy.h"
#include "runtime/runtime.h"
#include "store/store.h"

enum { POLICY_MS = 15 * 1000, VARIANT = sodium_base64_VARIANT_ORIGINAL };

static const struct err no_err;

/* --- compiling --- */

static bool is_nothing(const struct spec *spec, const struct strings *approved)
{
	return str_eq(spec->network, "none") && spec->allow.count == 0 &&
	       spec->allow_cidrs.count == 0 && (!approved || approved->count == 0) &&
	       !spec->network_mode;
}

static char *encode_policy(const struct policy *policy)
{
	struct buf blob;
	size_t size;
	char *text;

	buf_init(&blob, POLICY_BLOB_MAX);
	must(policy_write(policy, &blob, NULL) == 0); /* policy_compile looked at its size */
	size = sodium_base64_encoded_len(buf_len(&blob), VARIANT);
	text = mem_zalloc(size);
	sodium_bin2base64(text, size, buf_head(&blob), buf_len(&blob), VARIANT);
	buf_done(&blob);
	return text;
}

static uint8_t *decode_policy(const char *text, size_t *ret_len)
{
	size_t size = strlen(text);
	uint8_t *blob = mem_zalloc(size + 1);

	/* Of our own store: whether it is a policy, the keeper says. */
	if (sodium_base642bin(blob, size, text, size, NULL, ret_len, NULL, VARIANT) < 0)
		*ret_len = 0;
	return blob;
}

int network_compile(const struct fleet *fleet, const struct network_wish *wish,
                    struct sandbox_network *ret, struct err *err)
{
	auto_(environment_freep) struct environment *environment = NULL;
	const struct spec *spec = wish->spec;
	struct policy_extra extra = {&spec->allow, &spec->allow_cidrs, wish->approved, NULL};
	enum environment_mode mode;
	struct policy policy;
	char fingerprint[SHA256_TEXT];

	*ret = (struct sandbox_network){.generation = wish->generation};
	if (is_nothing(spec, wish->approved) && !wish->even_nothing)
		return 0;
	if (environments_for(fleet->environments, spec, &environment, err) < 0)
		return -1;
	if (spec->network_mode && environment_mode_from(spec->network_mode, &mode))
		extra.mode = &mode;
	if (policy_compile(environment, &extra, &policy, err) < 0)
		return err_wrap(err, "network %s", spec->network);
	if (policy.level == ENVIRONMENT_NONE && !wish->even_nothing) {
		policy_done(&policy);
		return 0;
	}
	policy_fingerprint(&policy, fingerprint);
	spec_set(&ret->level, environment_level_name(policy.level));
	spec_set(&ret->mode, environment_mode_name(policy.mode));
	spec_set(&ret->fingerprint, fingerprint);
	ret->policy = encode_policy(&policy);
	ret->generation = wish->generation + 1;
	if (wish->approved)
		strings_copy(&ret->approved, wish->approved);
	policy_done(&policy);
	return 0;
}

/* --- handing it over --- */

struct enforcing {
	struct member *member;
	network_on_enforced on_done;
	bool is_again;      /* with a number above the keeper's */
	struct err refusal; /* of the first time */
};

static void enforced(struct enforcing *enforcing, const struct err *err)
{
	struct member *member = enforcing->member;
	network_on_enforced on_done = enforcing->on_done;

	mem_freep(&enforcing);
	on_done(member, err);
	member_unref(member);
}

static void hand_over(struct enforcing *enforcing);

static void on_renumbered(const struct store_result *result, void *ctx)
{
	struct enforcing *enforcing = ctx;

	if (result->ok)
		hand_over(enforcing);
	else
		enforced(enforcing, &result->err);
}

/* A store that was put back knows an older number than the keeper, whose policy may be another one:
 * ours counts, under a number above. */
static void on_generation(struct wire_msg *msg, const struct err *err, void *ctx)
{
	struct enforcing *enforcing = ctx;
	struct member *member = enforcing->member;
	uint64_t has = msg ? wire_u64(msg, FIELD_GENERATION, 0) : 0;
	uint64_t ours = member->row->network.generation;

	if (has < ours || (has == ours && !member->setting) ||
	    member->row->state == SANDBOX_REMOVING) {
		enforced(enforcing, &enforcing->refusal);
		return;
	}
	log_warn("a keeper is ahead of the store; its network policy is replaced",
	         LOG_STR("sandbox", member->row->id.text), LOG_INT("keeper", (int64_t)has),
	         LOG_INT("store", (int64_t)ours));
	enforcing->is_again = true;
	member->row->network.generation = has + 1;
	store_sandbox_put(member->fleet->store, member->row, NULL, on_renumbered, enforcing);
}

static void ask_generation(struct enforcing *enforcing, const struct err *err)
{
	auto_wire_out struct wire_out out = {0};
	struct peer *peer = enforcing->member->peer;
	uint64_t number = peer_begin(peer, &out, WIRE_K_NET);

	enforcing->refusal = *err;
	peer_call(peer, number, &out, POLICY_MS, on_generation, enforcing);
}

static void on_keeper(struct wire_msg *msg, const struct err *err, void *ctx)
{
	struct enforcing *enforcing = ctx;
	struct err wrong = *err;

	if (err->code == ERR_CONFLICT && !enforcing->is_again &&
	    peer_is_open(enforcing->member->peer)) {
		ask_generation(enforcing, err);
		return;
	}
	if (msg && wire_u64(msg, FIELD_GENERATION, 0) != enforcing->member->row->network.generation)
		(void)err_set(&wrong, ERR_PROTOCOL,
		              "the keeper confirms another policy than it got"); /* always -1 */
	enforced(enforcing, &wrong);
}

static void on_egress(const struct err *err, void *ctx)
{
	struct enforcing *enforcing = ctx;
	struct member *member = enforcing->member;
	const struct environments *environments = member->fleet->environments;
	const struct config *config = environments ? environments->config : NULL;
	auto_wire_out struct wire_out out = {0};
	auto_free uint8_t *blob = NULL;
	struct err gone = *err;
	uint64_t number;
	size_t len = 0;

	if (err->code == ERR_OK && !peer_is_open(member->peer))
		(void)err_set(&gone, ERR_UNAVAILABLE, "its keeper is away"); /* always -1 */
	if (gone.code != ERR_OK) {
		enforced(enforcing, &gone);
		return;
	}
	blob = decode_policy(member->row->network.policy, &len);
	number = peer_begin(member->peer, &out, WIRE_K_POLICY);
	wire_put_u64(&out, FIELD_GENERATION, member->row->network.generation);
	wire_put_bytes(&out, FIELD_POLICY, blob, len);
	if (config)
		wire_put_u64(&out, FIELD_TIMEOUT_MS, config->ask_timeout_ms);
	peer_call(member->peer, number, &out, POLICY_MS, on_keeper, enforcing);
}

/* The ranges that the dialer would refuse by itself. */
static void list_grants(const struct sandbox_network *network, struct strings *ret)
{
	struct addr_cidr grants[POLICY_CIDRS];
	auto_free uint8_t *blob = NULL;
	struct policy policy;
	size_t len = 0, count;

	blob = decode_policy(network->policy, &len);
	if (policy_parse(blob, len, &policy, NULL) < 0)
		return; /* the keeper will refuse it */
	count = policy_grants(&policy, grants, ARRAY_LEN(grants));
	for (size_t i = 0; i < count; i++) {
		char text[ADDR_CIDR_TEXT];

		addr_format_cidr(text, sizeof(text), &grants[i]);
		if (!strings_has(ret, text))
			strings_add(ret, text);
	}
	policy_done(&policy);
}

static void hand_over(struct enforcing *enforcing)
{
	struct member *member = enforcing->member;
	struct runtime *runtime = member->fleet->runtime;
	struct strings cidrs = {0};

	list_grants(&member->row->network, &cidrs);
	runtime->ops->egress(runtime, member->row->id.text, member->row->network.generation, &cidrs,
	                     on_egress, enforcing);
	strings_done(&cidrs);
}

void network_enforce(struct member *member, network_on_enforced on_done)
{
	struct enforcing *enforcing;

	if (!member->row->network.policy) {
		on_done(member, &no_err);
		return;
	}
	enforcing = mem_new(struct enforcing);
	*enforcing = (struct enforcing){.member = member_ref(member), .on_done = on_done};
	hand_over(enforcing);
}

static void on_confirmed(struct member *member, const struct err *err)
{
	/* ERR_CONFLICT: it has this one. */
	if (err->code != ERR_OK && err->code != ERR_CONFLICT)
		log_warn("a keeper does not confirm its network policy; it keeps the one it has",
		         LOG_STR("sandbox", member->row->id.text), LOG_ERR(err));
}

void network_confirm(struct member *member)
{
	if (member->row->state == SANDBOX_RUNNING && !member->is_busy && !member->setting)
		network_enforce(member, on_confirmed);
}

/* --- changing it --- */

struct network_set {
	struct member *member;
	struct spec spec; /* of before: only its network is looked at */
	struct sandbox_network network;
	struct err refused; /* why it is being taken back */
	engine_on_sandbox on_sandbox;
	void *ctx;
};

static void set_done(struct network_set *set, const struct err *err)
{
	struct member *member = set->member;

	member->setting = NULL;
	set->on_sandbox(err->code == ERR_OK ? member->row : NULL, err, set->ctx);
	spec_done(&set->spec);
	sandbox_network_done(&set->network);
	mem_freep(&set);
	member_unref(member);
}

static void swap(struct sandbox *row, struct network_set *set)
{
	struct sandbox_network network = row->network;
	struct spec before;

	spec_copy(&before, &row->spec);
	spec_set(&row->spec.network, set->spec.network);
	spec_set(&row->spec.network_mode, set->spec.network_mode);
	strings_copy(&row->spec.allow, &set->spec.allow);
	strings_copy(&row->spec.allow_cidrs, &set->spec.allow_cidrs);
	row->network = set->network;
	set->network = network;
	spec_done(&set->spec);
	set->spec = before;
}

static void on_told(const struct store_result *result, void *ctx)
{
	if (!result->ok)
		log_error("a change of a network policy has no event", LOG_ERR(&result->err));
	set_done(ctx, &no_err);
}

static void on_taken_back(const struct store_result *result, void *ctx)
{
	struct network_set *set = ctx;
	struct err err = set->refused;

	if (!result->ok)
		log_error("a refused network policy is not taken back in the store",
		          LOG_STR("sandbox", set->member->row->id.text), LOG_ERR(&result->err));
	set_done(set, &err);
}

/* The keeper has the old one; whoever dials must be told so again. */
static void on_egress_back(const struct err *err, void *ctx)
{
	struct network_set *set = ctx;

	if (err->code != ERR_OK)
		log_error("a refused network policy is not taken back; the sandbox reaches nothing",
		          LOG_STR("sandbox", set->member->row->id.text), LOG_ERR(err));
	/* A row that is going must not come back. */
	if (set->member->row->state == SANDBOX_REMOVING)
		on_taken_back(&(struct store_result){.ok = true}, set);
	else
		store_sandbox_put(set->member->fleet->store, set->member->row, NULL, on_taken_back,
		                  set);
}

static void take_back(struct network_set *set, const struct err *err)
{
	struct member *member = set->member;
	struct runtime *runtime = member->fleet->runtime;
	struct strings cidrs = {0};

	/* A proof that failed is about the walls, not about this policy: none is in force then. */
	(void)err_set(&set->refused, err->code,
	              err->code == ERR_INTERNAL ? "%s"
	                                        : "the policy is refused and the old one stays: %s",
	              err->msg); /* always -1 */
	swap(member->row, set);
	if (member->row->network.policy)
		list_grants(&member->row->network, &cidrs);
	runtime->ops->egress(runtime, member->row->id.text, member->row->network.generation, &cidrs,
	                     on_egress_back, set);
	strings_done(&cidrs);
}

static void on_set_enforced(struct member *member, const struct err *err)
{
	struct network_set *set = member->setting;
	struct event event;

	/* No answer is no refusal: which one it has is known when it answers again, and then the
	 * new one is sent once more (network_confirm). */
	if (err->code == ERR_TIMEOUT || err->code == ERR_UNAVAILABLE) {
		struct err unknown = {0};

		(void)err_set(&unknown, err->code,
		              "the keeper has not confirmed the policy; it gets it again: %s",
		              err->msg); /* always -1 */
		set_done(set, &unknown);
	} else if (err->code != ERR_OK) {
		take_back(set, err);
	} else {
		note_policy(&event, member->row);
		store_event_put(member->fleet->store, &event, on_told, set);
		event_done(&event);
	}
}

static void on_set_stored(const struct store_result *result, void *ctx)
{
	struct network_set *set = ctx;

	if (!result->ok) {
		swap(set->member->row, set);
		set_done(set, &result->err);
	} else if (set->member->row->state != SANDBOX_RUNNING) {
		set_done(set, &no_err);
	} else {
		network_enforce(set->member, on_set_enforced);
	}
}

static void apply_change(struct spec *spec, const struct network_change *change)
{
	if (change->network)
		spec_set(&spec->network, change->network);
	if (change->mode)
		spec_set(&spec->network_mode, change->mode);
	if (change->allow)
		strings_copy(&spec->allow, change->allow);
	if (change->allow_cidrs)
		strings_copy(&spec->allow_cidrs, change->allow_cidrs);
}

/* The new policy into set; nothing else changes. */
static int prepare(struct network_set *set, const struct network_change *change, struct err *err)
{
	struct member *member = set->member;
	const struct sandbox *row = member->row;
	bool runs = row->state == SANDBOX_RUNNING;
	struct network_wish wish = {&set->spec, &row->network.approved, row->network.generation,
	                            runs};

	if (member->setting)
		return err_set(err, ERR_CONFLICT, "another change of its network is under way");
	if (!runs && row->state != SANDBOX_STOPPED && row->state != SANDBOX_FAILED)
		return err_set(err, ERR_CONFLICT, "the sandbox is %s: try again later",
		               sandbox_state_name(row->state));
	if (runs && !peer_is_open(member->peer))
		return err_set(err, ERR_UNAVAILABLE, "its keeper is away: try again");
	spec_copy(&set->spec, &row->spec);
	apply_change(&set->spec, change);
	if (spec_normalise(&set->spec, err) < 0 || spec_validate(&set->spec, err) < 0)
		return -1;
	if (change->approved)
		wish.approved = change->approved;
	return network_compile(member->fleet, &wish, &set->network, err);
}

void network_set(struct fleet *fleet, const char *id, const struct network_change *change,
                 engine_on_sandbox on_sandbox, void *ctx)
{
	struct network_set *set = mem_new(struct network_set);
	struct err err = {0};

	*set = (struct network_set){.on_sandbox = on_sandbox, .ctx = ctx};
	if (fleet_get(fleet, id, &set->member, &err) < 0 || prepare(set, change, &err) < 0) {
		lifecycle_refuse(fleet, &err, on_sandbox, NULL, ctx);
		if (set->member)
			member_unref(set->member);
		spec_done(&set->spec);
		sandbox_network_done(&set->network);
		mem_freep(&set);
		return;
	}
	set->member->setting = set;
	swap(set->member->row, set);
	store_sandbox_put(fleet->store, set->member->row, NULL, on_set_stored, set);
}

/* --- variables --- */

int network_add_variables(struct member *member, struct strings *env, struct err *err)
{
	struct strings values = {0};
	int r = environments_open(member->fleet->environments, &member->row->spec, &values, err);

	/* One that was removed meanwhile has none any more. */
	if (r < 0 && err->code == ERR_NOT_FOUND) {
		*err = no_err;
		r = 0;
	}
	for (size_t i = 0; r == 0 && i < values.count; i++) {
		auto_free char *name = mem_strndup(values.items[i], strcspn(values.items[i], "="));

		if (!strings_value(env, name))
			strings_add(env, values.items[i]);
	}
	environments_wipe(&values);
	return r;
}

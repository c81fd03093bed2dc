#include "api/identify.h"

#include <strings.h>

#include "api/call.h"
#include "api/connect.h"
#include "api/limiter.h"
#include "api/mcp.h"
#include "base/io.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/must.h"
#include "base/str.h"
#include "http/request.h"
#include "model/access.h"
#include "model/config.h"
#include "store/identity.h"
#include "task/tasks.h"

enum {
	USED_SLOTS = 256,
	USED_FLUSH_MS = 10 * 1000,
	/* Attempts without a key that counts, from one address. */
	STRANGER_RATE = 10,
	STRANGER_BURST = 30,
	/* The connection's memo. */
	PEER_OPERATOR = 1,
	PEER_OTHER = 2,
};

/* When a key was last used, until it is stored. */
struct used {
	struct id id;
	uint64_t at_ms;
};

struct identify {
	struct api *api;
	struct caller *local; /* on the socket; its source is filled in for each uid */
	struct scopes roles[ROLE_COUNT_];
	struct scopes run; /* what only runs have */
	struct limiter *known;
	struct limiter *strangers;
	struct used used[USED_SLOTS];
	size_t used_count;
	struct loop_timer flush;
	bool is_armed;
};

/* --- when keys were used --- */

static void flush_used(struct identify *identify)
{
	struct store_write *write;

	if (identify->used_count == 0)
		return;
	write = store_write_new(identify->api->store);
	for (size_t i = 0; i < identify->used_count; i++)
		store_touch_credential(write, identify->used[i].id.text, identify->used[i].at_ms);
	store_write_submit(write, NULL, NULL);
	identify->used_count = 0;
}

static void on_flush(struct loop_timer *timer, void *ctx)
{
	struct identify *identify = ctx;

	identify->is_armed = false;
	flush_used(identify);
}

static void note_use(struct identify *identify, const struct id *id)
{
	uint64_t now_ms = io_real_ms();

	for (size_t i = 0; i < identify->used_count; i++) {
		if (str_eq(identify->used[i].id.text, id->text)) {
			identify->used[i].at_ms = now_ms;
			return;
		}
	}
	if (identify->used_count == USED_SLOTS)
		flush_used(identify);
	identify->used[identify->used_count++] = (struct used){*id, now_ms};
	if (identify->is_armed)
		return;
	identify->is_armed = true;
	loop_timer_in(identify->api->loop, &identify->flush, USED_FLUSH_MS, on_flush, identify);
}

/* --- start and end --- */

static void set_text(char *to, size_t size, const char *text)
{
	(void)snprintf(to, size, "%s", text); /* names and ids fit */
}

static struct caller *make_operator(const struct strings *objects)
{
	struct caller *caller = caller_new();

	set_text(caller->principal.text, sizeof(caller->principal.text), ACCESS_OPERATOR);
	set_text(caller->name, sizeof(caller->name), "operator");
	set_text(caller->team.text, sizeof(caller->team.text), ACCESS_TEAM);
	set_text(caller->team_name, sizeof(caller->team_name), ACCESS_TEAM_NAME);
	caller->role = ROLE_ADMIN;
	caller->is_operator = true;
	scopes_preset(false, objects, &caller->scopes);
	return caller;
}

struct identify *identify_new(struct api *api)
{
	struct identify *identify = mem_new(struct identify);
	const struct config *config = api->config;

	identify->api = api;
	identify->local = make_operator(&config->scope_objects);
	for (int role = 0; role < ROLE_COUNT_; role++)
		scopes_of_role((enum role)role, &config->scope_objects, &identify->roles[role]);
	scopes_make_run(&identify->run);
	identify->known = limiter_new(config->server.rate_limit, config->server.rate_burst);
	identify->strangers = limiter_new(STRANGER_RATE, STRANGER_BURST);
	return identify;
}

void identify_rescope(struct identify *identify)
{
	const struct strings *objects = &identify->api->config->scope_objects;

	caller_unref(identify->local);
	identify->local = make_operator(objects);
	for (int role = 0; role < ROLE_COUNT_; role++) {
		scopes_done(&identify->roles[role]);
		identify->roles[role] = (struct scopes){0};
		scopes_of_role((enum role)role, objects, &identify->roles[role]);
	}
}

void identify_shut(struct identify *identify)
{
	flush_used(identify);
	loop_timer_stop(&identify->flush);
}

void identify_free(struct identify *identify)
{
	if (!identify)
		return;
	loop_timer_stop(&identify->flush);
	caller_unref(identify->local);
	for (int role = 0; role < ROLE_COUNT_; role++)
		scopes_done(&identify->roles[role]);
	scopes_done(&identify->run);
	limiter_free(identify->known);
	limiter_free(identify->strangers);
	mem_freep(&identify);
}

/* --- rates --- */

static int refuse_rate(struct request *request, uint64_t wait_ms, const char *what, struct err *err)
{
	char seconds[24];

	(void)snprintf(seconds, sizeof(seconds), "%llu",
	               (unsigned long long)((wait_ms + 999) / 1000)); /* fits */
	request_add_header(request, "Retry-After", seconds);
	return err_set(err, ERR_LIMITED, "too many %s; try again in %s s", what, seconds);
}

/* --- keys --- */

/* Behind "Bearer "; NULL: the header says something else. */
static const char *bearer_of(const char *header)
{
	if (strncasecmp(header, "Bearer ", 7) != 0)
		return NULL;
	header += 7;
	return header + strspn(header, " ");
}

/* A page cannot set headers of a WebSocket, but offer protocols: "cloche.v1, cloche.bearer.KEY".
 * The caller wipes it. NULL: there is none. */
static char *bearer_of_offer(const struct request *request)
{
	static const char mark[] = "cloche.bearer.";
	const char *upgrade = request_header(request, "Upgrade");
	const char *at = request_header(request, "Sec-WebSocket-Protocol");

	if (!upgrade || strcasecmp(upgrade, "websocket") != 0)
		return NULL;
	while (at) {
		at += strspn(at, ", \t");
		if (str_has_prefix(at, mark))
			return mem_strndup(at + strlen(mark), strcspn(at + strlen(mark), ", \t"));
		at = strchr(at, ',');
	}
	return NULL;
}

static int find_key(struct api *api, const char *text, struct credential **ret, struct err *err)
{
	static const uint8_t nothing[CREDENTIAL_HASH];
	auto_(credential_freep) struct credential *key = NULL;
	uint8_t hash[CREDENTIAL_HASH];
	struct id id;

	if (!secret_read(text, &id, hash))
		return err_set(err, ERR_UNAUTHORIZED, "the key is not valid");
	if (store_credential_get(api->store, id.text, &key, err) < 0 && err->code != ERR_NOT_FOUND)
		return -1;
	/* Compared also when there is none: both take the same time. */
	if (!secret_is_same(hash, key ? key->hash : nothing) || !key ||
	    !credential_is_live(key, io_real_ms()) || (!key->has_role && !key->is_operator))
		return err_set(err, ERR_UNAUTHORIZED, "the key is not valid");
	*ret = take_ptr(key);
	return 0;
}

static struct caller *caller_of_key(struct identify *identify, struct credential *key,
                                    const char *source)
{
	struct caller *caller = caller_new();
	const struct scopes *most =
		key->is_operator ? &identify->local->scopes : &identify->roles[key->role];

	caller->principal = key->principal;
	set_text(caller->name, sizeof(caller->name), key->principal_name);
	caller->team = key->team;
	set_text(caller->team_name, sizeof(caller->team_name), key->team_name);
	caller->role = key->has_role ? key->role : ROLE_VIEWER;
	caller->is_operator = key->is_operator;
	scopes_copy(&caller->scopes, most);
	if (key->run.text[0])
		scopes_add(&caller->scopes, &identify->run);
	scopes_intersect(&caller->scopes, &key->scopes);
	caller->credential = key->id;
	caller->chain = take_ptr(key->chain);
	caller->run = key->run;
	set_text(caller->source, sizeof(caller->source), source);
	caller->expires_ms = key->expires_ms;
	return caller;
}

static int by_key(struct identify *identify, struct request *request, const char *text,
                  struct caller **ret, struct err *err)
{
	auto_(credential_freep) struct credential *key = NULL;

	if (!text || request_count_header(request, "Authorization") > 1)
		return err_set(err, ERR_UNAUTHORIZED, "the key is not valid");
	if (find_key(identify->api, text, &key, err) < 0)
		return -1;
	must(key);
	note_use(identify, &key->id);
	request_set_tag(request, key->id.text);
	if (key->expires_ms)
		request_disconnect_at(request, io_boot_ms() + (key->expires_ms - io_real_ms()));
	*ret = caller_of_key(identify, key, request_source(request));
	return 0;
}

/* --- runs: known by the sandbox that a connection comes from, so there is nothing to steal --- */

static int by_guest(struct identify *identify, struct request *request, struct caller **ret,
                    struct err *err)
{
	auto_(credential_freep) struct credential *token = NULL;
	struct api *api = identify->api;
	struct id run;

	if (!api->tasks || !tasks_run_in(api->tasks, request_guest(request), &run) ||
	    store_credential_of_run(api->store, run.text, &token, err) < 0 ||
	    !credential_is_live(token, io_real_ms()) || (!token->has_role && !token->is_operator)) {
		*err = (struct err){0};
		return err_set(err, ERR_UNAUTHORIZED,
		               "a key is needed: no run of a task is under way in this sandbox");
	}
	request_set_tag(request, token->id.text);
	if (token->expires_ms)
		request_disconnect_at(request, io_boot_ms() + (token->expires_ms - io_real_ms()));
	*ret = caller_of_key(identify, token, request_source(request));
	return 0;
}

/* --- whoever drives a session --- */

static int by_connect(struct identify *identify, struct request *request, struct caller **ret,
                      struct err *err)
{
	auto_(credential_freep) struct credential *credential = NULL;
	struct connect_grant grant;
	struct caller *caller;
	char tag[2 * sizeof(grant.by.text)];

	if (request_count_header(request, "Authorization") > 1)
		return err_set(err, ERR_UNAUTHORIZED, "the token is not valid");
	if (connect_read(identify->api, connect_token_of(request), &grant, err) < 0)
		return -1;
	credential = grant.credential;
	(void)snprintf(tag, sizeof(tag), "%s %s", credential->id.text, grant.by.text); /* fits */
	request_set_tag(request, tag);
	request_disconnect_at(request, io_boot_ms() + (grant.expires_ms - io_real_ms()));
	caller = caller_of_key(identify, credential, request_source(request));
	caller->is_connect = true;
	caller->can_approve = grant.can_approve;
	caller->is_operator = false;
	scopes_done(&caller->scopes);
	caller->scopes = (struct scopes){0};
	*ret = caller;
	return 0;
}

/* --- users of this machine --- */

static int by_user(struct identify *identify, struct request *request, struct caller **ret,
                   struct err *err)
{
	const char *team = request_header(request, "Cloche-Team");
	struct membership membership = {0};
	struct caller *caller;

	if (store_membership_of_uid(identify->api->store, request_uid(request), team ? team : "",
	                            &membership, err) < 0) {
		if (err->code != ERR_NOT_FOUND)
			return -1;
		return err_set(err, ERR_FORBIDDEN, "this socket does not serve your user%s",
		               team ? " in that team" : "");
	}
	caller = caller_new();
	caller->principal = membership.principal.id;
	set_text(caller->name, sizeof(caller->name), membership.principal.name);
	caller->team = membership.team;
	set_text(caller->team_name, sizeof(caller->team_name), membership.team_name);
	caller->role = membership.role;
	scopes_copy(&caller->scopes, &identify->roles[membership.role]);
	set_text(caller->source, sizeof(caller->source), request_source(request));
	membership_done(&membership);
	*ret = caller;
	return 0;
}

static bool is_operator(struct identify *identify, struct request *request)
{
	struct api *api = identify->api;
	int memo = request_memo(request);

	if (memo == 0) {
		memo = api->peers.is_operator(request_uid(request), request_pid(request),
		                              api->peers.ctx)
		               ? PEER_OPERATOR
		               : PEER_OTHER;
		request_set_memo(request, memo);
	}
	return memo == PEER_OPERATOR;
}

static int by_socket(struct identify *identify, struct request *request, struct caller **ret,
                     struct err *err)
{
	if (!is_operator(identify, request))
		return by_user(identify, request, ret, err);
	/* One object for all of its requests; the user behind it seldom changes. */
	if (!str_eq(identify->local->source, request_source(request))) {
		caller_unref(identify->local);
		identify->local = make_operator(&identify->api->config->scope_objects);
		set_text(identify->local->source, sizeof(identify->local->source),
		         request_source(request));
	}
	*ret = caller_ref(identify->local);
	return 0;
}

/* --- all together --- */

static int refuse_stranger(struct identify *identify, struct request *request, struct err *err)
{
	uint64_t wait_ms = limiter_take(identify->strangers, request_source(request), io_boot_ms());

	if (err->code != ERR_UNAUTHORIZED && err->code != ERR_FORBIDDEN)
		return -1;
	if (wait_ms > 0)
		return refuse_rate(request, wait_ms, "attempts without a valid key", err);
	if (err->code == ERR_UNAUTHORIZED && str_eq(request_path(request), "/mcp")) {
		auto_free char *challenge = mcp_challenge(identify->api, request, NULL, NULL);

		request_add_header(request, "WWW-Authenticate", challenge);
	} else if (err->code == ERR_UNAUTHORIZED) {
		request_add_header(request, "WWW-Authenticate", "Bearer realm=\"cloche\"");
	}
	return -1;
}

/* Whoever is known may ask so often. */
static int check_rate(struct identify *identify, struct request *request,
                      const struct caller *caller, struct err *err)
{
	uint64_t wait_ms;

	if (caller == identify->local)
		return 0;
	wait_ms =
		limiter_take(identify->known,
	                     caller->credential.text[0] ? caller->credential.text : caller->source,
	                     io_boot_ms());
	return wait_ms > 0 ? refuse_rate(request, wait_ms, "requests", err) : 0;
}

int identify_connect(struct api *api, struct request *request, struct caller **ret, struct err *err)
{
	auto_(caller_unrefp) struct caller *caller = NULL;

	if (by_connect(api->identify, request, &caller, err) < 0)
		return refuse_stranger(api->identify, request, err);
	must(caller);
	if (check_rate(api->identify, request, caller, err) < 0)
		return -1;
	*ret = take_ptr(caller);
	return 0;
}

static int identify_with(struct api *api, struct request *request, bool has_key, const char *key,
                         struct caller **ret, struct err *err)
{
	struct identify *identify = api->identify;
	auto_(caller_unrefp) struct caller *caller = NULL;
	int r;

	if (has_key)
		r = by_key(identify, request, key, &caller, err);
	else if (*request_guest(request))
		r = by_guest(identify, request, &caller, err);
	else if (request_is_local(request))
		r = by_socket(identify, request, &caller, err);
	else
		r = err_set(err, ERR_UNAUTHORIZED,
		            "a key is needed: Authorization: Bearer sk_live_…");
	if (r < 0)
		return refuse_stranger(identify, request, err);
	must(caller);
	if (check_rate(identify, request, caller, err) < 0)
		return -1;
	*ret = take_ptr(caller);
	return 0;
}

int identify_caller(struct api *api, struct request *request, struct caller **ret, struct err *err)
{
	const char *header = request_header(request, "Authorization");

	char *offer = header ? NULL : bearer_of_offer(request);
	int r = identify_with(api, request, header || offer, header ? bearer_of(header) : offer,
	                      ret, err);

	if (offer)
		mem_wipe_free(offer, strlen(offer));
	return r;
}

int identify_model_caller(struct api *api, struct request *request, struct caller **ret,
                          struct err *err)
{
	const char *header = request_header(request, "Authorization");
	const char *texts[] = {
		header ? bearer_of(header) : NULL, request_header(request, "X-Api-Key"),
		request_header(request, "X-Goog-Api-Key"), request_query(request, "key")};
	uint8_t hash[CREDENTIAL_HASH];
	const char *key = NULL;
	struct id id;

	for (size_t i = 0; i < ARRAY_LEN(texts) && !key; i++) {
		if (texts[i] && secret_read(texts[i], &id, hash))
			key = texts[i];
	}
	return identify_with(api, request, key != NULL, key, ret, err);
}

/* --- revoking --- */

struct recheck {
	struct api *api;
	const struct request *except;
	const char *id;
};

static bool is_revoked(const struct recheck *recheck, const char *id)
{
	auto_(credential_freep) struct credential *key = NULL;
	struct err err = {0};

	return (recheck->id && str_eq(id, recheck->id)) ||
	       store_credential_get(recheck->api->store, id, &key, &err) < 0 ||
	       !credential_is_live(key, io_real_ms()) || (!key->has_role && !key->is_operator);
}

/* The tag names a credential; with a token of connect.h, who asked for that, too: a credential, or
 * somebody of the socket, who is looked at when they ask again. */
static void recheck_one(struct request *request, void *ctx)
{
	const struct recheck *recheck = ctx;
	struct strings ids = {0};

	if (!*request_tag(request) || request == recheck->except)
		return;
	strings_split(&ids, request_tag(request));
	for (size_t i = 0; i < ids.count; i++) {
		if ((i == 0 || id_is_valid(ids.items[i], "ky")) &&
		    is_revoked(recheck, ids.items[i])) {
			request_disconnect(request);
			break;
		}
	}
	strings_done(&ids);
}

void identify_recheck(struct api *api, const struct request *except, const char *id)
{
	struct recheck recheck = {api, except, id};

	api->peers.each_request(recheck_one, &recheck, api->peers.ctx);
	if (api->tasks)
		tasks_recheck(api->tasks);
}

/*
 * The credential of a run at a forge. A configured token is read for each use. An app's token is
 * asked for when a run first needs one, for its repository and no more than it may do, and asked
 * for again before it expires. After a crash the next daemon asks for another; the one before
 * expires by itself within the hour.
 */
#include <string.h>

#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/must.h"
#include "base/str.h"
#include "gateway/forge_impl.h"
#include "gateway/secret.h"

enum { LIFE_MS = 55 * 60 * 1000 }; /* theirs is an hour */

struct forge_token {
	struct forge_token *next;
	struct forgeway *forgeway;
	const struct forge *forge;
	char *run, *path;
	bool may_write;
	char *text;        /* NULL: not there yet */
	uint64_t until_ms; /* boot clock */
	struct forge_call *call;
	struct forge_waiter *waiters;
};

void forge_wipe(char **text)
{
	if (*text)
		mem_wipe_free(*text, strlen(*text));
	*text = NULL;
}

char *forge_auth(const struct forge *forge, const char *token, bool is_app)
{
	return mem_printf("%s %s", is_app || forge->kind == FORGE_GITHUB ? "Bearer" : "token",
	                  token);
}

struct unsealing {
	const struct forgeway_config *config;
	const struct forge *forge;
};

static int unseal(const struct service *service, char **ret, struct err *err, void *ctx)
{
	const struct unsealing *unsealing = ctx;

	return unsealing->config->unseal(unsealing->forge, ret, err, unsealing->config->ctx);
}

int forge_secret_read(const struct forgeway *forgeway, const struct forge *forge, char **ret,
                      struct err *err)
{
	/* A reference is read in one way, whoever has it. */
	struct service holder = {.name = forge->name, .secret = forge->secret};
	struct unsealing unsealing = {&forgeway->config, forge};

	if (gateway_secret_read(&holder, unseal, &unsealing, ret, err) == 0)
		return 0;
	log_warn("the secret of a forge is not there", LOG_STR("forge", forge->name), LOG_ERR(err));
	return err_set(err, ERR_UNAVAILABLE, "the secret of forge %s cannot be read", forge->name);
}

static void token_free(struct forge_token *token)
{
	forge_call_drop(token->call);
	while (token->waiters) {
		token->waiters->of = NULL;
		token->waiters = token->waiters->next;
	}
	forge_wipe(&token->text);
	mem_freep(&token->run);
	mem_freep(&token->path);
	mem_freep(&token);
}

void forge_token_drop_all(struct forgeway *forgeway)
{
	while (forgeway->tokens) {
		struct forge_token *token = forgeway->tokens;

		forgeway->tokens = token->next;
		token_free(token);
	}
}

void forge_token_unwait(struct forge_waiter *waiter)
{
	struct forge_waiter **at;

	if (!waiter->of)
		return;
	for (at = &waiter->of->waiters; *at != waiter;)
		at = &(*at)->next;
	*at = waiter->next;
	waiter->of = NULL;
}

/* --- made for a run --- */

static void tell_all(struct forge_token *token, const struct err *err)
{
	while (token->waiters) {
		struct forge_waiter *waiter = token->waiters;

		forge_token_unwait(waiter);
		waiter->on_token(err->code == ERR_OK ? token->text : NULL, err, waiter->ctx);
	}
}

static int ask(struct forge_token *token, const char *method, const char *path, const json_t *body,
               forge_on_answer on_answer, struct err *err)
{
	struct forge_ask ask = {
		.forge = token->forge, .method = method, .path = path, .body = body};
	char *jwt = NULL, *auth;

	if (forge_app_jwt(token->forge, io_real_ms(), &jwt, err) < 0)
		return -1;
	auth = forge_auth(token->forge, jwt, true);
	ask.auth = auth;
	token->call = forge_call_start(token->forgeway, &ask, on_answer, token);
	forge_wipe(&jwt);
	forge_wipe(&auth);
	return 0;
}

static void on_minted(int status, const json_t *body, const struct err *err, void *ctx)
{
	struct forge_token *token = ctx;
	const char *text = json_string_value(json_object_get(body, "token"));
	struct err failed = *err;

	token->call = NULL;
	if (status == 201 && text && service_is_value(text)) {
		forge_wipe(&token->text);
		token->text = mem_strdup(text);
		token->until_ms = io_boot_ms() + LIFE_MS;
	} else if (status > 0) {
		(void)!forge_complain(token->forge, "a token for the run", status, body, &failed);
	}
	/* It may be asked for again by whoever comes next. */
	tell_all(token, &failed);
}

static json_t *permissions(const struct forge_token *token)
{
	const char *name = strchr(token->path, '/');
	json_t *wanted = json_object();

	json_object_set_new(wanted, "contents", json_string(token->may_write ? "write" : "read"));
	if (token->may_write)
		json_object_set_new(wanted, "pull_requests", json_string("write"));
	return json_pack("{s:[s], s:o}", "repositories", name ? name + 1 : "", "permissions",
	                 wanted);
}

static void on_installation(int status, const json_t *body, const struct err *err, void *ctx)
{
	struct forge_token *token = ctx;
	json_int_t id = json_integer_value(json_object_get(body, "id"));
	struct err failed = *err;

	token->call = NULL;
	if (status == 200 && id > 0) {
		auto_free char *path =
			mem_printf("/app/installations/%lld/access_tokens", (long long)id);
		json_t *wanted = permissions(token);
		int r = ask(token, "POST", path, wanted, on_minted, &failed);

		json_decref(wanted);
		if (r == 0)
			return;
	} else if (status > 0) {
		(void)!forge_complain(token->forge, "the app's installation", status, body,
		                      &failed);
	}
	tell_all(token, &failed);
}

static struct forge_token *enter(struct forgeway *forgeway, const struct forge_grant *grant)
{
	struct forge_token *token = forgeway->tokens;

	while (token && !(str_eq(token->run, grant->run) && str_eq(token->path, grant->path)))
		token = token->next;
	if (token)
		return token;
	token = mem_new(struct forge_token);
	*token = (struct forge_token){.next = forgeway->tokens,
	                              .forgeway = forgeway,
	                              .forge = grant->forge,
	                              .run = mem_strdup(grant->run),
	                              .path = mem_strdup(grant->path),
	                              .may_write = grant->may_write};
	forgeway->tokens = token;
	return token;
}

static void get_of_app(struct forgeway *forgeway, const struct forge_grant *grant,
                       struct forge_waiter *waiter)
{
	struct forge_token *token = enter(forgeway, grant);
	struct err err = {0};

	if (!token->call && token->text && token->until_ms > io_boot_ms()) {
		waiter->on_token(token->text, &err, waiter->ctx);
		return;
	}
	if (!token->call) {
		auto_free char *path = mem_printf("/repos/%s/installation", token->path);

		if (ask(token, "GET", path, NULL, on_installation, &err) < 0) {
			waiter->on_token(NULL, &err, waiter->ctx);
			return;
		}
	}
	waiter->of = token;
	waiter->next = token->waiters;
	token->waiters = waiter;
}

void forge_token_get(struct forgeway *forgeway, const struct forge_grant *grant,
                     struct forge_waiter *waiter)
{
	char *text = NULL;
	struct err err = {0};

	if (grant->forge->app_id) {
		get_of_app(forgeway, grant, waiter);
		return;
	}
	if (forge_secret_read(forgeway, grant->forge, &text, &err) < 0) {
		waiter->on_token(NULL, &err, waiter->ctx);
		return;
	}
	waiter->on_token(text ? text : "", &err, waiter->ctx);
	forge_wipe(&text);
}

/* --- the end of a run --- */

static void on_revoked(int status, const json_t *body, const struct err *err, void *ctx)
{
	if (status != 204)
		log_warn("a token of a run is not revoked; it expires within the hour",
		         LOG_INT("status", status), LOG_ERR(err));
}

static void revoke(struct forge_token *token)
{
	char *auth = forge_auth(token->forge, token->text, true);
	struct forge_ask ask = {.forge = token->forge,
	                        .method = "DELETE",
	                        .path = "/installation/token",
	                        .auth = auth};

	(void)forge_call_start(token->forgeway, &ask, on_revoked, NULL); /* ends by itself */
	forge_wipe(&auth);
}

void forge_token_forget(struct forgeway *forgeway, const char *run)
{
	struct forge_token **at = &forgeway->tokens;
	struct err err = {0};

	(void)err_set(&err, ERR_GONE, "the run is over"); /* always -1 */
	while (*at) {
		struct forge_token *token = *at;

		if (!str_eq(token->run, run)) {
			at = &token->next;
			continue;
		}
		*at = token->next;
		if (token->text && token->until_ms > io_boot_ms())
			revoke(token);
		tell_all(token, &err);
		token_free(token);
	}
}

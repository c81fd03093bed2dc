/* Forges: where repositories and pull requests are. They are the operator's: config.toml has them.
 */
#include <string.h>

#include "api/authz.h"
#include "api/call.h"
#include "api/encode.h"
#include "base/mem.h"
#include "base/str.h"
#include "model/config.h"
#include "model/forge.h"
#include "model/service.h"

static json_t *encode_names(const struct strings *list)
{
	json_t *array = json_array();

	for (size_t i = 0; i < list->count; i++)
		json_array_append_new(array, encode_text(list->items[i]));
	return array;
}

static json_t *encode(const struct config_git *git, const struct forge *forge)
{
	json_t *object = json_object();
	bool is_default = git->default_forge ? str_eq(git->default_forge, forge->name)
	                                     : forge == git->forges[0];

	json_object_set_new(object, "name", encode_text(forge->name));
	json_object_set_new(object, "kind", json_string(forge_kind_name(forge->kind)));
	json_object_set_new(object, "baseUrl", encode_text(forge->base_url));
	json_object_set_new(object, "apiUrl", encode_text(forge->api_url));
	json_object_set_new(object, "credential",
	                    encode_text(forge->app_id   ? "app"
	                                : forge->secret ? forge->secret
	                                                : NULL));
	json_object_set_new(object, "appId", encode_text(forge->app_id));
	json_object_set_new(object, "repositories", encode_names(&forge->repositories));
	json_object_set_new(object, "teams", encode_names(&forge->teams));
	json_object_set_new(object, "isDefault", json_boolean(is_default));
	return object;
}

/* Whom it is for sees it. */
static bool may_see(const struct call *call, const struct forge *forge)
{
	return call->caller->is_operator || forge->teams.count == 0 ||
	       strings_has(&forge->teams, call->caller->team_name);
}

void handle_forge_list(struct call *call)
{
	const struct config_git *git = &call->api->config->git;
	json_t *items = json_array();

	for (size_t i = 0; i < git->forge_count; i++) {
		if (may_see(call, git->forges[i]))
			json_array_append_new(items, encode(git, git->forges[i]));
	}
	call_answer(call, 200, json_pack("{s:o}", "items", items));
}

static void on_tested(int status, const struct err *err, void *ctx)
{
	struct call *call = ctx;

	if (status > 0)
		call_answer(call, 200, json_pack("{s:i}", "status", status));
	else
		call_fail(call, err);
}

/* Ends the call where there is none. */
static const struct forge *find(struct call *call)
{
	const struct forge *forge = forge_find(&call->api->config->git, call->params[0]);
	struct err err = {0};

	if (forge && may_see(call, forge))
		return forge;
	(void)err_set(&err, ERR_NOT_FOUND, "no such forge"); /* always -1 */
	call_fail(call, &err);
	return NULL;
}

void handle_forge_test(struct call *call)
{
	const struct forge *forge = find(call);
	struct engine *engine = call->api->engine;

	if (forge)
		engine->ops->forges.test(engine, forge, on_tested, call);
}

static void on_sealed(const struct err *err, void *ctx)
{
	struct call *call = ctx;

	if (err->code == ERR_OK)
		call_answer_empty(call);
	else
		call_fail(call, err);
}

void handle_forge_seal(struct call *call)
{
	const char *value = json_string_value(json_object_get(call->body, "value"));
	const struct forge *forge = find(call);
	struct engine *engine = call->api->engine;
	struct err err = {0};

	if (!forge)
		return;
	if (!forge->secret || !str_eq(forge->secret, SERVICE_SEALED))
		(void)err_set(&err, ERR_CONFLICT,
		              "forge %s has no secret = \"sealed\" in config.toml",
		              forge->name); /* always -1 */
	else if (!value || !*value || strlen(value) > SERVICE_SECRET || !service_is_value(value))
		(void)err_set(&err, ERR_INVALID, "'value' is one line of at most %d bytes",
		              SERVICE_SECRET); /* always -1 */
	if (err.code != ERR_OK)
		call_fail(call, &err);
	else
		engine->ops->forges.seal(engine, forge, value, on_sealed, call);
}

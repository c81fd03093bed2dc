/* Who one is here, and the words of which rights are made. */
#include "api/call.h"
#include "api/encode.h"
#include "base/mem.h"
#include "model/access.h"
#include "model/capability.h"
#include "model/config.h"

static json_t *encode_list(const struct strings *list)
{
	json_t *array = json_array();

	for (size_t i = 0; i < list->count; i++)
		json_array_append_new(array, json_string(list->items[i]));
	return array;
}

void handle_me(struct call *call)
{
	const struct caller *caller = call->caller;
	struct strings scopes = {0};
	json_t *object;

	scopes_list(&caller->scopes, &scopes);
	object =
		json_pack("{s:s, s:s, s:s, s:s, s:s, s:b, s:o, s:o, s:o, s:s, s:o}", "id",
	                  caller->principal.text, "name", caller->name, "teamId", caller->team.text,
	                  "team", caller->team_name, "role", role_name(caller->role), "operator",
	                  caller->is_operator, "scopes", encode_list(&scopes), "credential",
	                  encode_text(caller->credential.text), "chain", encode_text(caller->chain),
	                  "source", caller->source, "expiresAt", encode_time(caller->expires_ms));
	strings_done(&scopes);
	call_answer(call, 200, object);
}

void handle_scopes(struct call *call)
{
	const struct strings *objects = &call->api->config->scope_objects;
	json_t *items = json_array();
	const char *object, *about;
	bool writable;

	for (size_t i = 0; (object = scope_object_at(i, &about, &writable)); i++)
		json_array_append_new(items, json_pack("{s:s, s:b, s:s}", "object", object,
		                                       "writable", writable, "about", about));
	for (size_t i = 0; i < objects->count; i++) {
		const char *equals = strchr(objects->items[i], '=');
		auto_free char *name =
			mem_strndup(objects->items[i], (size_t)(equals - objects->items[i]));

		json_array_append_new(items, json_pack("{s:s, s:b, s:s}", "object", name,
		                                       "writable", true, "about", equals + 1));
	}
	call_answer(call, 200, json_pack("{s:o}", "items", items));
}

void handle_capabilities(struct call *call)
{
	const struct capabilities *defined = &call->api->config->capabilities;
	json_t *items = json_array();
	const char *name, *about;
	char *network;

	for (size_t i = 0; (name = capability_at(defined, i, &about, &network)); i++) {
		json_array_append_new(items, json_pack("{s:s, s:s, s:s}", "name", name, "about",
		                                       about, "network", network));
		mem_freep(&network);
	}
	call_answer(call, 200, json_pack("{s:o}", "items", items));
}

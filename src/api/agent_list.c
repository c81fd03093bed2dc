/* What can work on a task, and whether it is there. */
#include "api/call.h"
#include "api/encode.h"
#include "base/mem.h"
#include "base/str.h"
#include "model/config.h"
#include "store/store.h"
#include "task/agent.h"

/* The image its sandboxes have unless their profile says otherwise; NULL: there is none with it. */
static char *image_of(struct call *call, const struct agent *agent)
{
	const char *chosen = call->api->config->tasks.image;
	auto_(image_freep) struct image *image = NULL;
	char *name = chosen ? mem_strdup(chosen) : mem_printf(AGENT_IMAGE "%s", agent->name);

	if (store_image_get(call->api->store, name, &image, &(struct err){0}) == 0)
		return name;
	free(name);
	return NULL;
}

static json_t *encode(struct call *call, const struct agent *agent)
{
	bool is_built_in = agent_is_built_in(agent);
	auto_free char *image = is_built_in ? NULL : image_of(call, agent);
	const char *packages = agent->packages && *agent->packages ? agent->packages : NULL;
	json_t *object = json_object();

	json_object_set_new(object, "name", encode_text(agent->name));
	json_object_set_new(object, "about", encode_text(agent->about));
	json_object_set_new(object, "protocol",
	                    json_string(agent->protocol == AGENT_ACP ? "acp" : "plain"));
	json_object_set_new(object, "hasModel", json_boolean(agent->has_model));
	/* What the operator's own are made of is not known here. */
	json_object_set_new(object, "installed",
	                    !agent->packages ? json_null() : json_boolean(is_built_in || image));
	json_object_set_new(object, "image", encode_text(image));
	json_object_set_new(object, "packages", encode_text(packages));
	return object;
}

void handle_agent_list(struct call *call)
{
	json_t *items = json_array();
	struct agent agent;

	for (size_t i = 0; agent_at(call->api->config, i, &agent); i++)
		json_array_append_new(items, encode(call, &agent));
	call_answer(call, 200, json_pack("{s:o}", "items", items));
}

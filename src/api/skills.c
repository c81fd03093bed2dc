/* Skills: folders with a SKILL.md that runs can be shown. The operator's are read-only here. */
#include "api/skills.h"

#include <sodium.h>

#include "api/authz.h"
#include "api/call.h"
#include "base/mem.h"
#include "base/must.h"
#include "base/str.h"

static json_t *encode(const struct skill *skill)
{
	json_t *files = json_array();
	json_t *object;

	for (size_t i = 0; i < skill->count; i++)
		json_array_append_new(files, json_string(skill->files[i].path));
	object = json_pack("{s:s, s:s, s:s, s:o, s:I}", "name", skill->name, "description",
	                   skill->about, "source", skill->source, "files", files, "bytes",
	                   (json_int_t)skill->bytes);
	must(object);
	return object;
}

/* One that is wrong is told of, not left out: its owner looks for it. */
static json_t *encode_wrong(const char *name, const struct err *err)
{
	return json_pack("{s:s, s:s, s:s, s:[], s:i, s:s}", "name", name, "description", "",
	                 "source", "config", "files", "bytes", 0, "problem", err->msg);
}

void handle_skill_list(struct call *call)
{
	struct engine *engine = call->api->engine;
	const char *team = call->caller->team.text;
	struct strings names = {0};
	json_t *items = json_array();
	struct err err = {0};

	if (engine->ops->skills->list(engine, team, &names, &err) < 0) {
		json_decref(items);
		call_fail(call, &err);
		return;
	}
	for (size_t i = 0; i < names.count; i++) {
		auto_(skill_freep) struct skill *skill = NULL;

		err = (struct err){0};
		if (engine->ops->skills->get(engine, team, names.items[i], &skill, &err) == 0)
			json_array_append_new(items, encode(skill));
		else
			json_array_append_new(items, encode_wrong(names.items[i], &err));
	}
	strings_done(&names);
	call_answer(call, 200, json_pack("{s:o}", "items", items));
}

void handle_skill_info(struct call *call)
{
	struct engine *engine = call->api->engine;
	auto_(skill_freep) struct skill *skill = NULL;
	struct err err = {0};

	if (engine->ops->skills->get(engine, call->caller->team.text, call->params[0], &skill,
	                             &err) < 0)
		call_fail(call, &err);
	else
		call_answer(call, 200, encode(skill));
}

/* The bytes of a file, with a NUL behind them; NULL: it has none. */
static char *bytes_of(const json_t *file, size_t *ret_len)
{
	const json_t *text = json_object_get(file, "content");
	const json_t *coded = json_object_get(file, "contentBase64");
	size_t size = json_string_length(text ? text : coded);
	char *bytes = mem_zalloc(size + 1);

	*ret_len = size;
	if (text && !coded && json_is_string(text)) {
		memcpy(bytes, json_string_value(text), size);
		return bytes;
	}
	if (coded && !text && json_is_string(coded) &&
	    sodium_base642bin((uint8_t *)bytes, size, json_string_value(coded), size, "\r\n",
	                      ret_len, NULL, sodium_base64_VARIANT_ORIGINAL) == 0) {
		bytes[*ret_len] = '\0';
		return bytes;
	}
	free(bytes);
	return NULL;
}

static int take_files(struct skill *skill, const json_t *files, struct err *err)
{
	json_t *file;
	size_t i;

	json_array_foreach (files, i, file) {
		const char *path = json_string_value(json_object_get(file, "path"));
		size_t len = 0;
		char *bytes = bytes_of(file, &len);

		if (!bytes)
			return err_set(err, ERR_INVALID,
			               "file %zu needs either 'content' or 'contentBase64'", i + 1);
		if (skill_add(skill, path ? path : "", bytes, len,
		              json_is_true(json_object_get(file, "program")), err) < 0)
			return -1;
	}
	return 0;
}

void handle_skill_add(struct call *call)
{
	struct engine *engine = call->api->engine;
	auto_(skill_freep) struct skill *skill = mem_new(struct skill);
	struct err err = {0};

	skill->source = "api";
	if (take_files(skill, json_object_get(call->body, "files"), &err) < 0 ||
	    skill_check(skill, NULL, &err) < 0) {
		call_fail(call, &err);
		return;
	}
	authz_made(call, skill->name);
	if (engine->ops->skills->put(engine, call->caller->team.text, skill, &err) < 0)
		call_fail(call, &err);
	else
		call_answer(call, 201, encode(skill));
}

void handle_skill_remove(struct call *call)
{
	struct engine *engine = call->api->engine;
	struct err err = {0};

	if (engine->ops->skills->remove(engine, call->caller->team.text, call->params[0], &err) < 0)
		call_fail(call, &err);
	else
		call_answer_empty(call);
}

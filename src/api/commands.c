/*
 * A call: the scope, then the arguments against the schema, then a person if the manifest says so,
 * then the engine. Arguments are data all the way: a caller fills places that the manifest leaves
 * open, and says nothing else.
 */
#include "api/commands.h"

#include "api/authz.h"
#include "api/call.h"
#include "api/delegate.h"
#include "api/holds.h"
#include "api/identify.h"
#include "api/record.h"
#include "base/mem.h"
#include "base/must.h"
#include "base/opt.h"
#include "base/str.h"
#include "http/request.h"
#include "model/command.h"
#include "model/jsonschema.h"
#include "model/rights.h"

/* --- which there are --- */

struct command *command_find(struct api *api, const char *noun, const char *verb)
{
	struct engine *engine = api->engine;
	struct command *command;

	for (size_t i = 0; (command = engine->ops->command_at(engine, i)); i++) {
		if (str_eq(command->noun, noun) && str_eq(command->verb, verb))
			return command;
	}
	return NULL;
}

struct command *command_find_tool(struct api *api, const char *tool)
{
	struct engine *engine = api->engine;
	struct command *command;

	for (size_t i = 0; (command = engine->ops->command_at(engine, i)); i++) {
		if (str_eq(command->tool, tool))
			return command;
	}
	return NULL;
}

static bool has_tool(struct call *call, const struct command *command)
{
	struct rights rights = {0};
	struct err err = {0};
	bool has;

	if (!call->caller->run.text[0])
		return true;
	has = delegate_rights(call->api, call->caller, &rights, &err) == 0 &&
	      allowed_has(&rights.tools, command->tool);
	rights_done(&rights);
	return has;
}

bool command_may(struct call *call, const struct command *command)
{
	return scopes_has_text(&call->caller->scopes, command->scope) && has_tool(call, command);
}

json_t *command_schema(const struct command *command)
{
	json_t *schema = json_loads(command->schema_text, 0, NULL);

	return schema ? schema : json_object(); /* it was compiled: there is one */
}

static json_t *encode(const struct command *command)
{
	json_t *object = json_pack(
		"{s:s, s:s, s:s, s:s, s:s, s:o, s:s, s:I, s:o}", "noun", command->noun, "verb",
		command->verb, "tool", command->tool, "description", command->about, "scope",
		command->scope, "approval", command->asks ? json_string("ask") : json_null(),
		"kind", command->service ? "http" : "exec", "timeoutMs",
		(json_int_t)command->timeout_ms, "arguments", command_schema(command));

	must(object);
	return object;
}

static json_t *encode_all(struct call *call)
{
	struct engine *engine = call->api->engine;
	json_t *items = json_array();
	const struct command *command;

	for (size_t i = 0; (command = engine->ops->command_at(engine, i)); i++) {
		if (command_may(call, command))
			json_array_append_new(items, encode(command));
	}
	return json_pack("{s:o}", "items", items);
}

void handle_command_list(struct call *call)
{
	call_answer(call, 200, encode_all(call));
}

void handle_command_reload(struct call *call)
{
	struct engine *engine = call->api->engine;
	struct err err = {0};

	if (engine->ops->command_reload(engine, &err) < 0) {
		call_fail(call, &err);
		return;
	}
	identify_rescope(call->api->identify);
	call_answer(call, 200, encode_all(call));
}

static int refuse_unknown(struct call *call, struct err *err)
{
	struct engine *engine = call->api->engine;
	auto_free char *asked = mem_printf("%s %s", call->params[0], call->params[1]);
	char *names[COMMAND_MOST + 1] = {NULL};
	const struct command *command;
	size_t count = 0;
	const char *near;
	char shown[100];

	for (size_t i = 0; (command = engine->ops->command_at(engine, i)); i++) {
		if (command_may(call, command))
			names[count++] = mem_printf("%s %s", command->noun, command->verb);
	}
	near = opt_nearest(asked, (const char *const *)names);
	str_escape(shown, sizeof(shown), asked, strlen(asked));
	(void)err_set(err, ERR_NOT_FOUND, "no command '%s'%s%s%s", shown,
	              near ? " (did you mean '" : "", near ? near : "",
	              near ? "'?)" : ""); /* always -1 */
	for (size_t i = 0; i < count; i++)
		free(names[i]);
	return -1;
}

/* The command of the path, if the caller may call it. A reference; NULL: the call was ended. */
static struct command *find(struct call *call)
{
	struct command *command = command_find(call->api, call->params[0], call->params[1]);
	auto_free char *object = mem_printf("%s/%s", call->params[0], call->params[1]);
	struct err err = {0};

	if (!command) {
		(void)refuse_unknown(call, &err); /* always -1 */
	} else if (!scopes_has_text(&call->caller->scopes, command->scope)) {
		record_denial(call->api, call->request, call->caller, call->route->name, object,
		              command->scope);
		(void)err_set(&err, ERR_FORBIDDEN, "this needs the scope %s, which you do not have",
		              command->scope); /* always -1 */
	} else if (!has_tool(call, command)) {
		record_denial(call->api, call->request, call->caller, call->route->name, object,
		              "tool");
		(void)err_set(&err, ERR_FORBIDDEN, "this run has not the tool %s",
		              command->tool); /* always -1 */
	} else {
		return command_ref(command);
	}
	call_fail(call, &err);
	return NULL;
}

void handle_command_info(struct call *call)
{
	struct command *command = find(call);

	if (!command)
		return;
	call_answer(call, 200, encode(command));
	command_unref(command);
}

/* --- arguments --- */

/* One value as a word; NULL: it cannot be one. The caller frees. */
static char *word_of(const json_t *value)
{
	if (!json_is_string(value))
		return json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
	if (strlen(json_string_value(value)) != json_string_length(value))
		return NULL;
	return mem_strdup(json_string_value(value));
}

static int add_value(struct strings *values, const char *name, const json_t *value, struct err *err)
{
	auto_free char *word = word_of(value);
	char shown[80];

	str_escape(shown, sizeof(shown), name, strlen(name));
	if (!word)
		return err_set(err, ERR_INVALID,
		               "argument '%s' holds a NUL, which no program takes", shown);
	strings_take(values, mem_printf("%s=%s", name, word));
	return 0;
}

/* Those that the manifest places somewhere. null is as good as absent. */
static int collect(const struct command *command, const json_t *arguments, struct strings *ret,
                   struct err *err)
{
	const char *name;
	json_t *value, *item;
	size_t index;
	int r = 0;

	json_object_foreach ((json_t *)(uintptr_t)arguments, name, value) {
		if (!command_uses(command, name) || json_is_null(value))
			continue;
		if (json_is_array(value)) {
			json_array_foreach (value, index, item)
				r = r < 0 ? r : add_value(ret, name, item, err);
		} else {
			r = add_value(ret, name, value, err);
		}
		if (r < 0)
			return -1;
	}
	return 0;
}

static int check(const struct command *command, const char *text, struct err *err)
{
	auto_free struct jsonschema_report *report = mem_new(struct jsonschema_report);
	char why[200];

	if (strlen(text) > COMMAND_ARGUMENTS)
		return err_set(err, ERR_TOO_LARGE, "the arguments are longer than 64 KiB");
	if (jsonschema_validate(command->schema, text, strlen(text), report, err) < 0)
		return -1;
	if (report->is_valid)
		return 0;
	jsonschema_error_text(&report->errors[0], why, sizeof(why));
	return err_set(err, ERR_INVALID, "arguments of '%s %s': %s", command->noun, command->verb,
	               report->count > 0 ? why : "they do not fit its schema");
}

/* --- a call --- */

struct calling {
	struct call *call; /* NULL: its client went while it waited for a person */
	struct command *command;
	struct strings values;
	char *arguments;
	struct hold *hold;
};

static void calling_free(struct calling *calling)
{
	command_unref(calling->command);
	strings_done(&calling->values);
	mem_freep(&calling->arguments);
	mem_freep(&calling);
}

/* As text: escaped where it is none. */
static json_t *text_of(const char *bytes, size_t len)
{
	auto_free char *shown = NULL;

	if (str_is_utf8(bytes, len) && !memchr(bytes, '\0', len))
		return json_stringn(bytes, len);
	shown = mem_zalloc(4 * len + 8);
	str_escape(shown, 4 * len + 8, bytes, len);
	return json_string(shown);
}

static json_t *encode_result(const struct command_result *result)
{
	bool is_program = result->status == 0;
	bool ok = is_program ? result->exit_code == 0 && !result->signal && !result->timed_out
	                     : result->status >= 200 && result->status < 300;
	json_t *document =
		json_loadb(result->output, result->output_len, JSON_REJECT_DUPLICATES, NULL);
	json_t *object =
		json_pack("{s:b, s:o, s:o, s:o, s:b, s:b, s:o, s:o}", "ok", ok, "status",
	                  is_program ? json_null() : json_integer(result->status), "exitCode",
	                  is_program && !result->signal && !result->timed_out
	                          ? json_integer(result->exit_code)
	                          : json_null(),
	                  "signal", result->signal ? json_integer(result->signal) : json_null(),
	                  "timedOut", result->timed_out, "truncated", result->is_cut, "output",
	                  text_of(result->output, result->output_len), "errors",
	                  text_of(result->errors, result->errors_len));

	must(object);
	if (json_is_object(document))
		json_object_set(object, "result", document);
	json_decref(document);
	return object;
}

static void on_result(const struct command_result *result, const struct err *err, void *ctx)
{
	struct calling *calling = ctx;
	struct call *call = calling->call;

	calling_free(calling);
	if (result)
		call_answer(call, 200, encode_result(result));
	else
		call_fail(call, err);
}

static void go(struct calling *calling)
{
	struct engine *engine = calling->call->api->engine;
	struct command_call asked = {calling->command, &calling->values, calling->arguments};

	engine->ops->command_call(engine, &asked, on_result, calling);
}

static void on_answer(const struct err *err, void *ctx)
{
	struct calling *calling = ctx;
	struct call *call = calling->call;

	calling->hold = NULL;
	request_set_on_end(call->request, NULL, NULL);
	if (err->code == ERR_OK) {
		go(calling);
		return;
	}
	calling_free(calling);
	call_fail(call, err);
}

/* Nothing is done for somebody who no longer waits for it. */
static void on_gone(struct request *request, bool gone, void *ctx)
{
	struct calling *calling = ctx;
	struct call *call = calling->call;

	hold_drop(calling->hold);
	calling_free(calling);
	call_done(call);
}

static void hold(struct calling *calling, const json_t *arguments)
{
	struct call *call = calling->call;
	struct hold_wish wish = {calling->command->tool, arguments, calling->command->ask_ms};
	struct err err = {0};

	calling->hold = hold_new(call->api, call->caller, &wish, on_answer, calling, &err);
	if (calling->hold) {
		request_set_on_end(call->request, on_gone, calling);
		return;
	}
	calling_free(calling);
	call_fail(call, &err);
}

void handle_command_call(struct call *call)
{
	json_t *given = json_object_get(call->body, "arguments");
	json_t *arguments = given ? json_incref(given) : json_object();
	struct command *command = find(call);
	struct calling *calling;
	struct err err = {0};

	if (!command) {
		json_decref(arguments);
		return;
	}
	calling = mem_new(struct calling);
	calling->call = call;
	calling->command = command;
	calling->arguments = json_dumps(arguments, JSON_COMPACT | JSON_REAL_PRECISION(17));
	must(calling->arguments);
	if (check(command, calling->arguments, &err) < 0 ||
	    collect(command, arguments, &calling->values, &err) < 0) {
		calling_free(calling);
		call_fail(call, &err);
	} else {
		auto_free char *object = mem_printf("%s/%s", command->noun, command->verb);

		record_action(call, object, command->scope);
		if (command->asks)
			hold(calling, arguments);
		else
			go(calling);
	}
	json_decref(arguments);
}

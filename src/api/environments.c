#include "api/environments.h"

#include "api/authz.h"
#include "api/call.h"
#include "api/decode.h"
#include "api/encode.h"
#include "base/io.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/str.h"
#include "model/config.h"
#include "model/variable.h"
#include "store/store.h"

static void put_fixed(json_t *items, const struct api *api)
{
	for (size_t i = 0; environment_builtin_at(i); i++)
		json_array_append_new(items, environment_encode(environment_builtin_at(i)));
	for (size_t i = 0; i < api->config->environment_count; i++)
		json_array_append_new(items, environment_encode(api->config->environments[i]));
}

void handle_environment_list(struct call *call)
{
	const struct caller *caller = call->caller;
	struct environment_filter filter = {
		.team = caller->is_operator ? NULL : caller->team.text,
		.cursor = call_query(call, "cursor", NULL),
		.limit = MIN(call_query_u64(call, "limit", 0), (uint64_t)LIMIT_PAGE),
	};
	struct environment_page page = {0};
	struct err err = {0};
	json_t *items;

	if (store_environment_list(call->api->store, &filter, &page, &err) < 0) {
		call_fail(call, &err);
		return;
	}
	items = json_array();
	if (!filter.cursor)
		put_fixed(items, call->api);
	for (size_t i = 0; i < page.count; i++) {
		struct ownership whose = environment_ownership(page.items[i]);

		/* The operator's file hides one of the same name. */
		if (access_to(caller, &whose) != ACCESS_HIDDEN &&
		    !config_environment(call->api->config, page.items[i]->name))
			json_array_append_new(items, environment_encode(page.items[i]));
	}
	call_answer(call, 200, encode_page(items, page.next_cursor));
	environment_page_done(&page);
}

/* The one of the path, if the caller may do with it what is asked. */
static int find_for(struct call *call, bool to_change, struct environment **ret)
{
	struct engine *engine = call->api->engine;
	const char *name = call->params[0];
	struct ownership whose;
	struct err err = {0};
	int r;

	if (engine->ops->environment_get(engine, call->caller->team.text, name, ret, &err) < 0) {
		call_fail(call, &err);
		return -1;
	}
	whose = environment_ownership(*ret);
	/* What nobody can change here is refused as that, whoever asks. */
	r = to_change && (*ret)->id.text[0] ? authz_change(call, &whose, "environment", name, &err)
	                                    : authz_look(call, &whose, "environment", name, &err);
	if (r < 0)
		call_fail(call, &err);
	return r;
}

/* One that can be changed here. */
static int find_own(struct call *call, struct environment **ret)
{
	struct err err = {0};

	if (find_for(call, true, ret) < 0)
		return -1;
	if ((*ret)->id.text[0])
		return 0;
	(void)err_set(
		&err, ERR_CONFLICT, "environment '%s' is %s: it does not change here", (*ret)->name,
		str_eq((*ret)->origin, "config") ? "of config.toml" : "built in"); /* always -1 */
	call_fail(call, &err);
	return -1;
}

void handle_environment_info(struct call *call)
{
	auto_(environment_freep) struct environment *environment = NULL;

	if (find_for(call, false, &environment) == 0)
		call_answer(call, 200, environment_encode(environment));
}

/* --- changes --- */

struct saving {
	struct call *call;
	struct environment *environment; /* to answer with; NULL: nothing */
};

static void on_saved(const struct err *err, void *ctx)
{
	auto_free struct saving *saving = ctx;
	struct call *call = saving->call;

	if (err->code != ERR_OK)
		call_fail(call, err);
	else if (saving->environment)
		call_answer(call, call->route->status, environment_encode(saving->environment));
	else
		call_answer_empty(call);
	environment_free(saving->environment);
}

static struct saving *saving_new(struct call *call, struct environment *environment)
{
	struct saving *saving = mem_new(struct saving);

	*saving = (struct saving){call, environment};
	return saving;
}

/* The names that the list will have, for the answer. */
static void note_variables(struct environment *environment, const struct strings *variables)
{
	for (size_t i = 0; i < variables->count; i++) {
		auto_free char *name =
			mem_strndup(variables->items[i], strcspn(variables->items[i], "="));

		if (!strings_has(&environment->variables, name))
			strings_add(&environment->variables, name);
	}
}

static void wipe(struct strings *variables)
{
	for (size_t i = 0; i < variables->count; i++)
		explicit_bzero(variables->items[i], strlen(variables->items[i]));
	strings_done(variables);
}

/* decode_entries wants a check of entries; names are checked with the whole list. */
static int check_nothing(const char *entry, struct err *err)
{
	return 0;
}

static int read_new(struct call *call, struct environment **ret, struct strings *variables,
                    struct err *err)
{
	const char *name = json_string_value(json_object_get(call->body, "name"));
	auto_(environment_freep) struct environment *environment = NULL;

	if (environment_check_name(name, err) < 0)
		return -1;
	if (config_environment(call->api->config, name))
		return err_set(err, ERR_CONFLICT, "config.toml has an environment '%s'", name);
	environment = environment_new(name);
	environment->id = id_new("en");
	environment->level = ENVIRONMENT_CUSTOM;
	environment->created_ms = environment->updated_ms = io_real_ms();
	spec_set(&environment->owner, call->caller->principal.text);
	spec_set(&environment->team, call->caller->team.text);
	authz_made(call, environment->id.text);
	if (environment_decode(call->body, environment, err) < 0 ||
	    decode_entries(json_object_get(call->body, "variables"), variables, check_nothing,
	                   err) < 0 ||
	    variable_check_list(variables, err) < 0)
		return -1;
	*ret = take_ptr(environment);
	return 0;
}

void handle_environment_create(struct call *call)
{
	struct engine *engine = call->api->engine;
	struct environment *environment = NULL;
	struct strings variables = {0};
	struct err err = {0};

	if (read_new(call, &environment, &variables, &err) < 0) {
		call_fail(call, &err);
	} else {
		struct environment_change change = {
			.environment = environment, .variables = &variables, .is_new = true};

		note_variables(environment, &variables);
		engine->ops->environment_put(engine, &change, on_saved,
		                             saving_new(call, environment));
	}
	wipe(&variables);
}

void handle_environment_change(struct call *call)
{
	struct engine *engine = call->api->engine;
	struct environment *environment = NULL;
	struct err err = {0};

	if (find_own(call, &environment) < 0) {
		environment_free(environment);
		return;
	}
	environment->updated_ms = io_real_ms();
	if (environment_decode(call->body, environment, &err) < 0) {
		environment_free(environment);
		call_fail(call, &err);
		return;
	}
	engine->ops->environment_put(engine,
	                             &(struct environment_change){.environment = environment},
	                             on_saved, saving_new(call, environment));
}

void handle_environment_remove(struct call *call)
{
	auto_(environment_freep) struct environment *environment = NULL;
	struct engine *engine = call->api->engine;

	if (find_own(call, &environment) == 0)
		engine->ops->environment_remove(engine, environment, on_saved,
		                                saving_new(call, NULL));
}

/* --- variables: written, never read --- */

/* The whole list must fit; the values that are there count as nothing, they are not known here. */
static int check_variable(const struct environment *environment, const char *name,
                          const struct strings *entry, struct err *err)
{
	if (variable_check_list(entry, err) < 0)
		return -1;
	if (environment->variables.count >= VARIABLE_MOST &&
	    !strings_has(&environment->variables, name))
		return err_set(err, ERR_INVALID, "the environment has %d variables already",
		               VARIABLE_MOST);
	return 0;
}

void handle_variable_set(struct call *call)
{
	const char *value = json_string_value(json_object_get(call->body, "value"));
	auto_(environment_freep) struct environment *environment = NULL;
	struct engine *engine = call->api->engine;
	struct strings variables = {0};
	struct err err = {0};

	if (find_own(call, &environment) < 0)
		return;
	strings_take(&variables, mem_printf("%s=%s", call->params[1], value));
	if (strchr(call->params[1], '='))
		(void)err_set(&err, ERR_INVALID, "a name cannot contain '='"); /* always -1 */
	if (err.code != ERR_OK ||
	    check_variable(environment, call->params[1], &variables, &err) < 0) {
		call_fail(call, &err);
	} else {
		struct environment_change change = {.environment = environment,
		                                    .variables = &variables};

		environment->updated_ms = io_real_ms();
		engine->ops->environment_put(engine, &change, on_saved, saving_new(call, NULL));
	}
	wipe(&variables);
}

void handle_variable_remove(struct call *call)
{
	auto_(environment_freep) struct environment *environment = NULL;
	struct engine *engine = call->api->engine;
	struct environment_change change = {0};
	struct strings removed = {0};

	if (find_own(call, &environment) < 0)
		return;
	environment->updated_ms = io_real_ms();
	strings_add(&removed, call->params[1]);
	change.environment = environment;
	change.removed = &removed;
	engine->ops->environment_put(engine, &change, on_saved, saving_new(call, NULL));
	strings_done(&removed);
}

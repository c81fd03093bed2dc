/* Services: what sandboxes call by name, with credentials they never have. */
#include <string.h>

#include "api/authz.h"
#include "api/call.h"
#include "api/decode.h"
#include "api/encode.h"
#include "base/io.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/str.h"
#include "http/request.h"
#include "model/config.h"
#include "model/service.h"
#include "store/service.h"
#include "store/store.h"

static json_t *list_of(const struct strings *list)
{
	json_t *items = json_array();

	for (size_t i = 0; i < list->count; i++)
		json_array_append_new(items, encode_text(list->items[i]));
	return items;
}

static json_t *encode_use(const struct call *call, const struct service *service)
{
	struct service_use use;

	/* A store that cannot be read says so elsewhere. */
	if (store_service_use(call->api->store, service, &use, &(struct err){0}) < 0)
		use = (struct service_use){0};
	return json_pack("{s:I, s:I, s:I, s:I, s:o}", "calls", (json_int_t)use.calls, "denied",
	                 (json_int_t)use.denied, "sentBytes", (json_int_t)use.sent, "receivedBytes",
	                 (json_int_t)use.received, "lastUsedAt", encode_time(use.last_ms));
}

static json_t *encode(const struct call *call, const struct service *service)
{
	json_t *object = json_object();
	auto_free char *url = mem_printf("http://%s.cloche.internal", service->name);
	auto_free char *placeholder = mem_printf("%s%s", SERVICE_PLACEHOLDER, service->name);

	json_object_set_new(object, "id", encode_text(service->id.text));
	json_object_set_new(object, "name", encode_text(service->name));
	json_object_set_new(object, "origin", encode_text(service->origin));
	json_object_set_new(object, "url", json_string(url));
	json_object_set_new(object, "upstream", encode_text(service->upstream));
	json_object_set_new(object, "headers", list_of(&service->headers));
	json_object_set_new(object, "secret", encode_text(service->secret));
	json_object_set_new(object, "placeholder",
	                    service->secret ? json_string(placeholder) : json_null());
	json_object_set_new(object, "methods", list_of(&service->methods));
	json_object_set_new(object, "paths", list_of(&service->paths));
	json_object_set_new(object, "responseBytes",
	                    json_integer((json_int_t)service->response_bytes));
	json_object_set_new(object, "timeoutMs", json_integer((json_int_t)service->timeout_ms));
	json_object_set_new(object, "visibility",
	                    json_string(visibility_name(service->visibility)));
	json_object_set_new(object, "owner", encode_text(service->owner));
	json_object_set_new(object, "team", encode_text(service->team));
	json_object_set_new(object, "createdAt", encode_time(service->created_ms));
	json_object_set_new(object, "updatedAt", encode_time(service->updated_ms));
	json_object_set_new(object, "meter", encode_use(call, service));
	return object;
}

/* --- reading --- */

static int take_numbers(const json_t *body, struct service *service, struct err *err)
{
	const json_t *bytes = json_object_get(body, "responseBytes");
	const json_t *timeout = json_object_get(body, "timeout");

	if (bytes)
		service->response_bytes = (uint64_t)json_integer_value(bytes);
	return timeout ? schema_ms(timeout, "timeout", &service->timeout_ms, err) : 0;
}

static void take_text(const json_t *body, const char *name, char **to)
{
	const json_t *value = json_object_get(body, name);

	if (!value)
		return;
	mem_freep(to);
	*to = json_is_string(value) ? mem_strdup(json_string_value(value)) : NULL;
}

/* The request on top of what is there, checked; *ret_value is what to seal, or NULL. */
static int decode(const struct call *call, struct service *service, const char **ret_value,
                  struct err *err)
{
	const json_t *body = call->body;
	const char *visibility = json_string_value(json_object_get(body, "visibility"));
	bool was_sealed = service->secret && str_eq(service->secret, SERVICE_SEALED);
	auto_free char *before = service->upstream ? mem_strdup(service->upstream) : NULL;
	bool is_sealed;

	*ret_value = json_string_value(json_object_get(body, "secretValue"));
	take_text(body, "upstream", &service->upstream);
	take_text(body, "secret", &service->secret);
	if (*ret_value && !service->secret)
		service->secret = mem_strdup(SERVICE_SEALED);
	decode_list(body, "headers", &service->headers);
	decode_list(body, "methods", &service->methods);
	decode_list(body, "paths", &service->paths);
	if (take_numbers(body, service, err) < 0 ||
	    (visibility && visibility_parse(visibility, &service->visibility, err) < 0) ||
	    service_normalise(service, err) < 0)
		return -1;
	is_sealed = service->secret && str_eq(service->secret, SERVICE_SEALED);
	if (*ret_value && (!is_sealed || !**ret_value || strlen(*ret_value) > SERVICE_SECRET ||
	                   !service_is_value(*ret_value)))
		return err_set(err, ERR_INVALID,
		               "secretValue: one line, and with secret \"" SERVICE_SEALED "\"");
	if (is_sealed && !was_sealed && !*ret_value)
		return err_set(err, ERR_INVALID, "secretValue is needed: there is nothing to seal");
	/* Whoever may change where it leads must not learn by that what somebody else sealed. */
	if (is_sealed && was_sealed && !*ret_value &&
	    (!before || !str_eq(before, service->upstream)))
		return err_set(err, ERR_INVALID,
		               "secretValue is needed again: what is sealed was given for %.150s",
		               before ? before : "no upstream");
	/* The daemon's own files and variables are not for everybody to send somewhere. */
	if (service->secret && !is_sealed && !call->caller->is_operator)
		return err_set(err, ERR_FORBIDDEN,
		               "only an operator may refer to variables and files of the daemon");
	/* Its name would stand in for other teams' services. */
	if (service->visibility == VISIBILITY_GLOBAL && !call->caller->is_operator)
		return err_set(err, ERR_FORBIDDEN, "only an operator makes what all teams use");
	return 0;
}

/* --- handlers --- */

void handle_service_list(struct call *call)
{
	const struct caller *caller = call->caller;
	const char *cursor = call_query(call, "cursor", NULL);
	const struct config *config = call->api->config;
	struct service_page page = {0};
	struct err err = {0};
	json_t *items;

	if (store_service_list(call->api->store, caller->is_operator ? NULL : caller->team.text,
	                       cursor, (size_t)call_query_u64(call, "limit", 0), &page, &err) < 0) {
		call_fail(call, &err);
		return;
	}
	items = json_array();
	for (size_t i = 0; !cursor && i < config->service_count; i++) {
		struct ownership whose = service_ownership(config->services[i]);

		if (access_to(caller, &whose) != ACCESS_HIDDEN)
			json_array_append_new(items, encode(call, config->services[i]));
	}
	for (size_t i = 0; i < page.count; i++) {
		struct ownership whose = service_ownership(page.items[i]);

		/* The operator's file hides one of the same name. */
		if (access_to(caller, &whose) != ACCESS_HIDDEN &&
		    !config_service(config, page.items[i]->name))
			json_array_append_new(items, encode(call, page.items[i]));
	}
	call_answer(call, 200, encode_page(items, page.next_cursor));
	service_page_done(&page);
}

/* The one of the path, if the caller may do with it what is asked; else the call was ended. */
static int find_for(struct call *call, bool to_change, struct service **ret)
{
	struct engine *engine = call->api->engine;
	const char *name = call->params[0];
	struct ownership whose;
	struct err err = {0};
	int r = engine->ops->service_get(engine, call->caller->team.text, name, ret, &err);

	if (r == 0) {
		whose = service_ownership(*ret);
		r = to_change && (*ret)->id.text[0]
		            ? authz_change(call, &whose, "service", name, &err)
		            : authz_look(call, &whose, "service", name, &err);
	}
	if (r == 0 && to_change && !(*ret)->id.text[0])
		r = err_set(&err, ERR_CONFLICT,
		            "service '%s' is of config.toml: it does not change here",
		            (*ret)->name);
	if (r < 0)
		call_fail(call, &err);
	return r;
}

void handle_service_info(struct call *call)
{
	auto_(service_freep) struct service *service = NULL;

	if (find_for(call, false, &service) == 0)
		call_answer(call, 200, encode(call, service));
}

struct saving {
	struct call *call;
	struct service *service; /* to answer with; NULL: nothing */
};

static void on_saved(const struct err *err, void *ctx)
{
	auto_free struct saving *saving = ctx;

	if (err->code != ERR_OK)
		call_fail(saving->call, err);
	else if (saving->service)
		call_answer(saving->call, saving->call->route->status,
		            encode(saving->call, saving->service));
	else
		call_answer_empty(saving->call);
	service_free(saving->service);
}

/* Takes the service. */
static void save(struct call *call, struct service *service, bool is_new)
{
	struct engine *engine = call->api->engine;
	struct service_change change = {.service = service, .is_new = is_new};
	struct saving *saving;
	struct err err = {0};

	if (decode(call, service, &change.value, &err) < 0) {
		service_free(service);
		call_fail(call, &err);
		return;
	}
	saving = mem_new(struct saving);
	*saving = (struct saving){call, service};
	engine->ops->service_put(engine, &change, on_saved, saving);
}

void handle_service_create(struct call *call)
{
	const char *name = json_string_value(json_object_get(call->body, "name"));
	struct service *service;
	struct err err = {0};

	if (service_check_name(name, &err) == 0 && config_service(call->api->config, name))
		err_set(&err, ERR_CONFLICT, "config.toml has a service '%s'", name);
	if (err.code != ERR_OK) {
		call_fail(call, &err);
		return;
	}
	service = service_new(name);
	service->id = id_new("sv");
	service->created_ms = service->updated_ms = io_real_ms();
	service->owner = mem_strdup(call->caller->principal.text);
	service->team = mem_strdup(call->caller->team.text);
	authz_made(call, service->id.text);
	save(call, service, true);
}

void handle_service_change(struct call *call)
{
	struct service *service = NULL;

	if (find_for(call, true, &service) < 0) {
		service_free(service);
		return;
	}
	service->updated_ms = io_real_ms();
	save(call, service, false);
}

void handle_service_remove(struct call *call)
{
	auto_(service_freep) struct service *service = NULL;
	struct engine *engine = call->api->engine;
	struct saving *saving;

	if (find_for(call, true, &service) < 0)
		return;
	saving = mem_new(struct saving);
	*saving = (struct saving){call, NULL};
	engine->ops->service_remove(engine, service, on_saved, saving);
}

static void on_tested(int status, const struct err *err, void *ctx)
{
	struct call *call = ctx;

	if (status == 0)
		call_fail(call, err);
	else
		call_answer(call, 200, json_pack("{s:i}", "status", status));
}

void handle_service_test(struct call *call)
{
	auto_(service_freep) struct service *service = NULL;
	const char *path = json_string_value(json_object_get(call->body, "path"));
	struct engine *engine = call->api->engine;

	if (find_for(call, false, &service) == 0)
		engine->ops->service_test(engine, service, path ? path : "/", on_tested, call);
}

#include "daemon/services.h"

#include <jansson.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/str.h"
#include "daemon/fleet.h"
#include "daemon/network.h"
#include "daemon/notes.h"
#include "daemon/vault.h"
#include "gateway/proxy.h"
#include "store/service.h"
#include "store/store.h"

int services_get(const struct services *services, const char *team, const char *name,
                 struct service **ret, struct err *err)
{
	const struct service *known = config_service(services->config, name);

	if (!known)
		return store_service_get(services->store, team, name, ret, err);
	*ret = service_copy(known);
	return 0;
}

/* --- secrets --- */

static char *purpose_of(const struct service *service)
{
	return mem_printf("service %s", service->id.text);
}

static int unseal(const struct service *service, char **ret, struct err *err, void *ctx)
{
	const struct services *services = ctx;
	auto_free char *purpose = purpose_of(service);
	auto_free char *sealed = NULL;

	if (store_service_sealed(services->store, service->id.text, &sealed, err) < 0)
		return -1;
	if (!sealed)
		return err_set(err, ERR_UNAVAILABLE, "service %s has no secret yet", service->name);
	return vault_open(services->keys, purpose, sealed, ret, err);
}

/* --- calls --- */

/* What the sandbox may not use is not there for it. */
static int find(const char *sandbox, const char *name, struct service **ret, struct err *err,
                void *ctx)
{
	struct services *services = ctx;
	auto_(service_freep) struct service *service = NULL;
	struct member *member = fleet_find(services->fleet, sandbox);
	char shown[100];

	if (!member)
		return err_set(err, ERR_NOT_FOUND, "the sandbox is gone");
	str_escape(shown, sizeof(shown), name, strlen(name));
	if (service_check_name(name, err) < 0 ||
	    services_get(services, member->row->spec.team, name, &service, err) < 0 ||
	    !service_serves(service, member->row->spec.owner, member->row->spec.team))
		return err_set(err, ERR_NOT_FOUND, "no service '%s'", shown);
	*ret = take_ptr(service);
	return 0;
}

/* A sandbox's words, made fit to be shown. */
static void put_word(json_t *data, const char *name, const char *text)
{
	char shown[512];

	str_escape(shown, sizeof(shown), text, strlen(text));
	json_object_set_new(data, name, json_string(shown));
}

/* What it was used, for its owner; a name that leads nowhere is nobody's. */
static void count(struct services *services, const struct member *member,
                  const struct proxy_report *report)
{
	auto_(service_freep) struct service *service = NULL;
	struct service_use more = {.calls = 1,
	                           .denied = report->denied != NULL,
	                           .sent = report->sent,
	                           .received = report->received,
	                           .last_ms = io_real_ms()};
	struct store_write *write;

	if (find(member->row->id.text, report->service, &service, &(struct err){0}, services) < 0)
		return;
	write = store_write_new(services->store);
	store_count_service(write, service, &more);
	store_write_submit(write, NULL, NULL);
}

void services_note(struct services *services, const struct proxy_report *report)
{
	struct member *member = fleet_find(services->fleet, report->sandbox);
	json_t *data;

	if (!member)
		return;
	data = json_object();
	json_object_set_new(data, "verdict", json_string(report->denied ? "deny" : "allow"));
	put_word(data, "service", report->service);
	put_word(data, "method", report->method);
	put_word(data, "path", report->path);
	if (report->denied)
		json_object_set_new(data, "rule", json_string(report->denied));
	json_object_set_new(data, "status", json_integer(report->status));
	json_object_set_new(data, "sent", json_integer((json_int_t)report->sent));
	json_object_set_new(data, "received", json_integer((json_int_t)report->received));
	json_object_set_new(data, "ms", json_integer((json_int_t)report->took_ms));
	network_on_service(member, data);
	count(services, member, report);
}

static void told(const struct proxy_report *report, void *ctx)
{
	services_note(ctx, report);
}

void services_start(struct services *services, struct loop *loop)
{
	struct proxy_config config = {.loop = loop,
	                              .config = services->config,
	                              .find = find,
	                              .unseal = unseal,
	                              .told = told,
	                              .ctx = services};

	services->proxy = proxy_new(&config);
}

void services_stop(struct services *services)
{
	proxy_free(services->proxy);
	services->proxy = NULL;
}

void services_serve(struct services *services, struct request *request, const char *name)
{
	proxy_serve(services->proxy, request, name);
}

void services_test(const struct services *services, const struct service *service, const char *path,
                   engine_on_status on_status, void *ctx)
{
	proxy_test(services->proxy, service, path, on_status, ctx);
}

/* --- changes --- */

struct saving {
	engine_on_done on_done;
	void *ctx;
};

static void on_saved(const struct store_result *result, void *ctx)
{
	static const struct err none = {0};
	auto_free struct saving *saving = ctx;

	saving->on_done(result->ok ? &none : &result->err, saving->ctx);
}

static void submit(struct store_write *write, const struct service *service, enum event_kind kind,
                   struct saving saving)
{
	struct saving *copy = mem_new(struct saving);
	struct event event;

	*copy = saving;
	note_service(&event, kind, service);
	store_put_event(write, &event);
	event_done(&event);
	store_write_submit(write, on_saved, copy);
}

void services_put(const struct services *services, const struct service_change *change,
                  engine_on_done on_done, void *ctx)
{
	const struct service *service = change->service;
	struct store_write *write = store_write_new(services->store);
	bool is_sealed = service->secret && str_eq(service->secret, SERVICE_SEALED);

	store_put_service(write, service);
	if (is_sealed && change->value) {
		auto_free char *purpose = purpose_of(service);
		auto_free char *sealed = vault_seal(services->keys, purpose, change->value);

		store_seal_service(write, service->id.text, sealed);
	} else if (!is_sealed) {
		store_seal_service(write, service->id.text, NULL);
	}
	submit(write, service, change->is_new ? EVENT_SERVICE_CREATED : EVENT_SERVICE_CHANGED,
	       (struct saving){on_done, ctx});
}

void services_remove(const struct services *services, const struct service *service,
                     engine_on_done on_done, void *ctx)
{
	struct store_write *write = store_write_new(services->store);

	store_delete_service(write, service->id.text);
	submit(write, service, EVENT_SERVICE_REMOVED, (struct saving){on_done, ctx});
}

#include "daemon/forges.h"

#include "base/mem.h"
#include "daemon/services.h"
#include "daemon/vault.h"
#include "gateway/forge.h"
#include "store/forge.h"
#include "store/store.h"

static void told(const struct proxy_report *report, void *ctx)
{
	struct forges *forges = ctx;

	services_note(forges->services, report);
}

/* The place is part of it: a credential goes nowhere but where it was given for. */
static char *purpose_of(const struct forge *forge)
{
	return mem_printf("forge %s %s %s", forge->name, forge->base_url, forge->api_url);
}

static int unseal(const struct forge *forge, char **ret, struct err *err, void *ctx)
{
	const struct services *services = ((struct forges *)ctx)->services;
	auto_free char *purpose = purpose_of(forge);
	auto_free char *sealed = NULL;

	if (store_forge_sealed(services->store, forge->name, &sealed, err) < 0)
		return -1;
	if (!sealed)
		return err_set(err, ERR_UNAVAILABLE, "forge %s has no secret yet", forge->name);
	return vault_open(services->keys, purpose, sealed, ret, err);
}

struct sealing {
	void (*on_done)(const struct err *err, void *ctx);
	void *ctx;
};

static void on_sealed(const struct store_result *result, void *ctx)
{
	static const struct err none = {0};
	auto_free struct sealing *sealing = ctx;

	sealing->on_done(result->ok ? &none : &result->err, sealing->ctx);
}

void forges_seal(struct forges *forges, const struct forge *forge, const char *value,
                 void (*on_done)(const struct err *err, void *ctx), void *ctx)
{
	const struct services *services = forges->services;
	auto_free char *purpose = purpose_of(forge);
	auto_free char *sealed = vault_seal(services->keys, purpose, value);
	struct store_write *write = store_write_new(services->store);
	struct sealing *sealing = mem_new(struct sealing);

	*sealing = (struct sealing){on_done, ctx};
	store_seal_forge(write, forge->name, sealed);
	store_write_submit(write, on_sealed, sealing);
}

void forges_start(struct forges *forges, struct loop *loop, struct upstreams *upstreams)
{
	struct forgeway_config config = {.loop = loop,
	                                 .upstreams = upstreams,
	                                 .unseal = unseal,
	                                 .told = told,
	                                 .ctx = forges};

	forges->forgeway = forgeway_new(&config);
}

void forges_stop(struct forges *forges)
{
	forgeway_free(forges->forgeway);
	forges->forgeway = NULL;
}

void forges_serve(struct forges *forges, struct request *request, const struct forge_grant *grant,
                  const struct err *err)
{
	if (grant)
		forgeway_serve(forges->forgeway, request, grant);
	else
		forgeway_refuse(request, err_http(err->code), err->msg);
}

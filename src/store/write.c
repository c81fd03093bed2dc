/* What each change is in statements. Values are copied here, on the loop thread, so that the
 * writer thread shares nothing with the objects they came from. */
#include "store/write.h"
#include "store/provider.h"
#include "store/seal.h"

#include "base/mem.h"
#include "store/audit.h"
#include "store/pack.h"
#include "store/service.h"

/* Of owner_id in SANDBOX_COLUMNS (sql.def). */
enum { SANDBOX_OWNER_AT = 26 };

struct store_write *store_write_new(struct store *store)
{
	struct store_write *write = mem_new(struct store_write);

	write->store = store;
	write->last = &write->first;
	return write;
}

static void op_free(struct op *op)
{
	for (size_t i = 0; i < op->count; i++)
		free((char *)op->values[i].text);
	free(op->if_taken);
	free(op->if_foreign);
	free(op->if_none_text);
	if (op->audit != NULL)
		audit_row_done(op->audit);
	free(op->audit);
	free(op);
}

void store_write_free(struct store_write *write)
{
	if (write == NULL)
		return;
	for (struct op *op = write->first, *next; op != NULL; op = next) {
		next = op->next;
		op_free(op);
	}
	for (size_t i = 0; i < write->event_count; i++) {
		event_done(write->events[i]);
		free(write->events[i]);
	}
	free(write->events);
	free(write);
}

struct op *write_add_values(struct store_write *write, enum sql sql, const struct value *values,
                            size_t count)
{
	struct op *op = mem_zalloc(sizeof(*op) + count * sizeof(*values));

	op->sql = sql;
	op->count = count;
	for (size_t i = 0; i < count; i++) {
		op->values[i] = values[i];
		if (values[i].text != NULL)
			op->values[i].text = mem_strdup(values[i].text);
	}
	*write->last = op;
	write->last = &op->next;
	return op;
}

#define add write_add

/* Names are unique in a team. The column is unique in all, so outside of the default team it holds
 * the team's id and a slash before the name, which no name has. NULL stays NULL. */
char *write_scoped_name(const char *team, const char *name)
{
	if (name == NULL)
		return NULL;
	return team == NULL || strcmp(team, ACCESS_TEAM) == 0 ? mem_strdup(name)
	                                                      : mem_printf("%s/%s", team, name);
}

/* An id that may be absent. */
static struct value value_id(const struct id *id)
{
	return value_text(id->text[0] != '\0' ? id->text : NULL);
}

/* Labels are key=value: whoever made the sandbox has checked them (spec_validate). */
static void put_labels(struct store_write *write, const struct sandbox *sandbox)
{
	add(write, SQL_LABELS_CLEAR, value_text(sandbox->id.text));
	for (size_t i = 0; i < sandbox->spec.labels.count; i++) {
		const char *label = sandbox->spec.labels.items[i];
		size_t len = strcspn(label, "=");
		auto_free char *key = mem_strndup(label, len);

		add(write, SQL_LABEL_ADD, value_text(sandbox->id.text), value_int(i),
		    value_text(key), value_text(label[len] == '=' ? label + len + 1 : ""));
	}
}

static void put_mounts(struct store_write *write, const struct sandbox *sandbox)
{
	add(write, SQL_MOUNTS_CLEAR, value_text(sandbox->id.text));
	for (size_t i = 0; i < sandbox->spec.mount_count; i++) {
		const struct mount *mount = &sandbox->spec.mounts[i];

		add(write, SQL_MOUNT_ADD, value_text(sandbox->id.text), value_int(i),
		    value_text(mount->source), value_text(mount->grant), value_text(mount->target),
		    value_int(mount->read_only));
	}
}

void store_put_sandbox(struct store_write *write, const struct sandbox *sandbox)
{
	const struct spec *spec = &sandbox->spec;
	auto_free char *plain_env = pack_strings(&spec->env);
	auto_free char *env = seal_text(write->store, "variables", sandbox->id.text, plain_env);
	auto_free char *limits = pack_limits(&spec->limits);
	auto_free char *mechanisms = pack_strings(&sandbox->mechanisms);
	auto_free char *meters = pack_meters(&sandbox->meters);
	auto_free char *network = pack_network(sandbox);
	auto_free char *name = write_scoped_name(spec->team, spec->name);
	struct op *op;

	store_audit_bind(write->store, spec->audit, sandbox->id.text);

	op = add(write, SQL_SANDBOX_PUT, value_text(sandbox->id.text), value_text(name),
	         value_text(sandbox_state_name(sandbox->state)), value_text(spec->profile),
	         value_text(spec->runtime), value_text(spec->image), value_id(&sandbox->image_id),
	         value_text(spec->user), value_text(spec->cwd), value_text(spec->hostname),
	         value_text(spec->disk_backend), value_text(spec->network), value_text(env),
	         value_text(limits), value_int(spec->ttl_ms), value_int(spec->degraded),
	         value_int(sandbox->created_ms), value_int(sandbox->started_ms),
	         value_int(sandbox->ended_ms), value_int(sandbox->expires_ms),
	         value_text(sandbox->end_reason), value_text(sandbox->detail),
	         value_int(sandbox->is_degraded), value_text(mechanisms), value_text(meters),
	         value_text(network), value_text(spec->owner ? spec->owner : ACCESS_OPERATOR),
	         value_text(spec->team ? spec->team : ACCESS_TEAM),
	         value_text(visibility_name(spec->visibility)), value_text(spec->made_by));
	op->owner_at = SANDBOX_OWNER_AT;
	if (spec->name != NULL)
		op->if_taken = mem_printf("a sandbox named '%s' exists already", spec->name);
	op->if_foreign = mem_printf("image '%s' is gone", spec->image);
	put_labels(write, sandbox);
	put_mounts(write, sandbox);
}

void store_set_sandbox(struct store_write *write, const struct sandbox *sandbox)
{
	auto_free char *mechanisms = pack_strings(&sandbox->mechanisms);
	auto_free char *meters = pack_meters(&sandbox->meters);
	auto_free char *network = pack_network(sandbox);

	store_audit_bind(write->store, sandbox->spec.audit, sandbox->id.text);
	add(write, SQL_SANDBOX_SET, value_text(sandbox_state_name(sandbox->state)),
	    value_int(sandbox->started_ms), value_int(sandbox->ended_ms),
	    value_int(sandbox->expires_ms), value_text(sandbox->end_reason),
	    value_text(sandbox->detail), value_int(sandbox->is_degraded), value_text(mechanisms),
	    value_text(meters), value_text(network), value_text(sandbox->id.text));
}

void store_delete_sandbox(struct store_write *write, const char *id)
{
	add(write, SQL_SANDBOX_DELETE, value_text(id));
}

void store_put_exec(struct store_write *write, const struct exec *exec)
{
	auto_free char *argv = pack_strings(&exec->argv);
	struct op *op;

	op = add(write, SQL_EXEC_PUT, value_text(exec->id.text), value_text(exec->sandbox.text),
	         value_text(argv), value_text(exec->user), value_text(exec->cwd),
	         value_int(exec->tty), value_int(exec->background), value_int(exec->started_ms),
	         value_int(exec->ended_ms), value_int((uint64_t)(int64_t)exec->exit_code),
	         value_int((uint64_t)(int64_t)exec->signal), value_text(exec->reason),
	         value_int(exec->output_bytes));
	op->if_foreign = mem_printf("sandbox %s of this command is gone", exec->sandbox.text);
}

void store_delete_exec(struct store_write *write, const char *id)
{
	add(write, SQL_EXEC_DELETE, value_text(id));
}

void store_put_image(struct store_write *write, const struct image *image)
{
	struct op *op;

	op = add(write, SQL_IMAGE_PUT, value_text(image->id.text), value_text(image->name),
	         value_text(image->format), value_text(image->config), value_int(image->bytes),
	         value_int(image->entries), value_int(image->created_ms),
	         value_text(image->owner.text[0] ? image->owner.text : ACCESS_OPERATOR),
	         value_text(image->team.text[0] ? image->team.text : ACCESS_TEAM));
	op->if_taken = mem_printf("an image named '%s' exists already", image->name);
	add(write, SQL_IMAGE_LAYERS_CLEAR, value_text(image->id.text));
	for (size_t i = 0; i < image->layers.count; i++) {
		add(write, SQL_LAYER_ADD, value_text(image->layers.items[i]));
		add(write, SQL_IMAGE_LAYER_ADD, value_text(image->id.text), value_int(i),
		    value_text(image->layers.items[i]));
	}
}

void store_delete_image(struct store_write *write, const char *id)
{
	struct op *op;

	/* One that is on its way out needs it no more: its removal was answered already. */
	add(write, SQL_IMAGE_RELEASE, value_text(id),
	    value_text(sandbox_state_name(SANDBOX_REMOVING)));
	op = add(write, SQL_IMAGE_DELETE, value_text(id));

	op->if_foreign = mem_printf("image %s is used by a sandbox", id);
	op->if_none = ERR_NOT_FOUND;
	op->if_none_text = mem_printf("no image %s", id);
}

void store_delete_layer(struct store_write *write, const char *id)
{
	struct op *op = add(write, SQL_LAYER_DELETE, value_text(id));

	op->if_foreign = mem_printf("layer %s is used by an image", id);
}

static char *pack_ports(const struct environment *environment)
{
	struct strings list = {0};
	char *text;

	for (size_t i = 0; i < environment->port_count; i++)
		strings_take(&list, mem_printf("%u", environment->ports[i]));
	text = pack_strings(&list);
	strings_done(&list);
	return text;
}

void store_put_environment(struct store_write *write, const struct environment *environment)
{
	auto_free char *domains = pack_strings(&environment->domains);
	auto_free char *denied = pack_strings(&environment->denied_domains);
	auto_free char *ports = pack_ports(environment);
	auto_free char *cidrs = pack_strings(&environment->cidrs);
	auto_free char *denied_cidrs = pack_strings(&environment->denied_cidrs);
	struct op *op;

	op = add(write, SQL_ENVIRONMENT_PUT, value_text(environment->id.text),
	         value_text(environment->name),
	         value_text(environment_level_name(environment->level)),
	         value_text(environment_mode_name(environment->mode)),
	         value_text(environment->domains_any ? NULL : domains),
	         value_int(environment->include_default), value_text(denied),
	         value_text(environment->ports_any ? NULL : ports), value_text(cidrs),
	         value_text(denied_cidrs), value_int(environment->egress_bytes),
	         value_int(environment->egress_rate),
	         value_text(visibility_name(environment->visibility)),
	         value_text(environment->owner != NULL ? environment->owner : ACCESS_OPERATOR),
	         value_text(environment->team != NULL ? environment->team : ACCESS_TEAM),
	         value_int(environment->created_ms), value_int(environment->updated_ms));
	op->if_taken = mem_printf("an environment named '%s' exists already", environment->name);
}

void store_delete_environment(struct store_write *write, const char *id)
{
	struct op *op = add(write, SQL_ENVIRONMENT_DELETE, value_text(id));

	op->if_none = ERR_NOT_FOUND;
	op->if_none_text = mem_printf("no environment %s", id);
}

void store_put_service(struct store_write *write, const struct service *service)
{
	auto_free char *headers = pack_strings(&service->headers);
	auto_free char *methods = pack_strings(&service->methods);
	auto_free char *paths = pack_strings(&service->paths);
	struct op *op;

	op = add(write, SQL_SERVICE_PUT, value_text(service->id.text), value_text(service->name),
	         value_text(service->upstream), value_text(headers), value_text(service->secret),
	         value_text(methods), value_text(paths), value_int(service->response_bytes),
	         value_int(service->timeout_ms), value_text(visibility_name(service->visibility)),
	         value_text(service->owner ? service->owner : ACCESS_OPERATOR),
	         value_text(service->team ? service->team : ACCESS_TEAM),
	         value_int(service->created_ms), value_int(service->updated_ms));
	op->if_taken = mem_printf("a service named '%s' exists already", service->name);
}

void store_seal_service(struct store_write *write, const char *id, const char *sealed)
{
	(void)add(write, SQL_SERVICE_SEAL, value_text(sealed), value_text(id));
}

void store_delete_service(struct store_write *write, const char *id)
{
	struct op *op = add(write, SQL_SERVICE_DELETE, value_text(id));

	op->if_none = ERR_NOT_FOUND;
	op->if_none_text = mem_printf("no service %s", id);
	(void)add(write, SQL_SERVICE_UNCOUNT, value_text(id));
}

void store_count_service(struct store_write *write, const struct service *service,
                         const struct service_use *more)
{
	auto_free char *key = service_use_key(service);

	(void)add(write, SQL_SERVICE_COUNT, value_text(key), value_int(more->calls),
	          value_int(more->denied), value_int(more->sent), value_int(more->received),
	          value_int(more->last_ms));
}

void store_add_provider(struct store_write *write, const struct provider *provider,
                        const char *sealed)
{
	auto_free char *models = pack_strings(&provider->models);
	auto_free char *aliases = pack_strings(&provider->aliases);
	auto_free char *prices = pack_strings(&provider->prices);
	struct op *op;

	op = add(write, SQL_PROVIDER_ADD, value_text(provider->id.text), value_text(provider->name),
	         value_text(provider_kind_name(provider->kind)), value_text(provider->base_url),
	         value_text(provider->secret), value_text(provider->default_model),
	         value_text(models), value_text(aliases), value_text(prices),
	         value_text(visibility_name(provider->visibility)),
	         value_text(provider->owner ? provider->owner : ACCESS_OPERATOR),
	         value_text(provider->team ? provider->team : ACCESS_TEAM),
	         value_int(provider->created_ms), value_text(sealed));
	op->if_taken = mem_printf("a provider named '%s' exists already", provider->name);
}

void store_set_provider(struct store_write *write, const struct provider *provider,
                        const char *sealed)
{
	auto_free char *models = pack_strings(&provider->models);
	auto_free char *aliases = pack_strings(&provider->aliases);
	auto_free char *prices = pack_strings(&provider->prices);
	struct op *op;

	op = add(write, SQL_PROVIDER_SET, value_text(provider_kind_name(provider->kind)),
	         value_text(provider->base_url), value_text(provider->secret),
	         value_text(provider->default_model), value_text(models), value_text(aliases),
	         value_text(prices), value_text(visibility_name(provider->visibility)),
	         value_text(sealed), value_text(provider->id.text));
	op->if_none = ERR_NOT_FOUND;
	op->if_none_text = mem_printf("no provider %s", provider->id.text);
}

void store_delete_provider(struct store_write *write, const char *id)
{
	struct op *op = add(write, SQL_PROVIDER_DELETE, value_text(id));

	op->if_none = ERR_NOT_FOUND;
	op->if_none_text = mem_printf("no provider %s", id);
}

void store_put_variable(struct store_write *write, const char *environment_id, const char *name,
                        const char *sealed)
{
	struct op *op = add(write, SQL_VARIABLE_PUT, value_text(environment_id), value_text(name),
	                    value_text(sealed));

	op->if_foreign = mem_strdup("the environment is gone");
}

void store_delete_variable(struct store_write *write, const char *environment_id, const char *name)
{
	struct op *op =
		add(write, SQL_VARIABLE_DELETE, value_text(environment_id), value_text(name));

	op->if_none = ERR_NOT_FOUND;
	op->if_none_text = mem_printf("the environment has no variable '%s'", name);
}

void store_put_event(struct store_write *write, const struct event *event)
{
	struct event *copy = mem_new(struct event);
	struct op *op;

	*copy = *event;
	copy->data = event->data != NULL ? mem_strdup(event->data) : NULL;
	write->events = mem_resize(write->events, write->event_count + 1, sizeof(struct event *));
	write->events[write->event_count++] = copy;
	op = write_add_values(write, SQL_EVENT_ADD, NULL, 0);
	op->event = copy;
}

void store_put_meta(struct store_write *write, const char *name, const char *value)
{
	add(write, SQL_META_PUT, value_text(name), value_text(value));
}

void store_claim_idempotency(struct store_write *write, const struct idempotency *entry,
                             uint64_t now_ms)
{
	struct op *op;

	op = add(write, SQL_IDEMPOTENCY_CLAIM, value_text(entry->key), value_text(entry->route),
	         value_text(entry->body_hash), value_int((uint64_t)entry->status),
	         value_text(entry->response), value_int(entry->expires_ms), value_int(now_ms));
	op->if_none = ERR_CONFLICT;
	op->if_none_text = mem_strdup("a request with this Idempotency-Key is being worked on");
}

void store_put_idempotency(struct store_write *write, const struct idempotency *entry)
{
	add(write, SQL_IDEMPOTENCY_PUT, value_text(entry->key), value_text(entry->route),
	    value_text(entry->body_hash), value_int((uint64_t)entry->status),
	    value_text(entry->response), value_int(entry->expires_ms));
}

void store_delete_idempotency(struct store_write *write, const char *key, const char *route)
{
	add(write, SQL_IDEMPOTENCY_DELETE, value_text(key), value_text(route));
}

void store_expire_idempotency(struct store_write *write, uint64_t now_ms)
{
	add(write, SQL_IDEMPOTENCY_EXPIRE, value_int(now_ms));
}

/* Ends a write of one change: adds the event and hands it over. */
static void finish(struct store_write *write, const struct event *event, store_on_done on_done,
                   void *ctx)
{
	if (event != NULL)
		store_put_event(write, event);
	store_write_submit(write, on_done, ctx);
}

void store_sandbox_put(struct store *store, const struct sandbox *sandbox,
                       const struct event *event, store_on_done on_done, void *ctx)
{
	struct store_write *write = store_write_new(store);

	store_put_sandbox(write, sandbox);
	finish(write, event, on_done, ctx);
}

void store_sandbox_delete(struct store *store, const char *id, const struct event *event,
                          store_on_done on_done, void *ctx)
{
	struct store_write *write = store_write_new(store);

	store_delete_sandbox(write, id);
	finish(write, event, on_done, ctx);
}

void store_exec_put(struct store *store, const struct exec *exec, const struct event *event,
                    store_on_done on_done, void *ctx)
{
	struct store_write *write = store_write_new(store);

	store_put_exec(write, exec);
	finish(write, event, on_done, ctx);
}

void store_event_put(struct store *store, const struct event *event, store_on_done on_done,
                     void *ctx)
{
	finish(store_write_new(store), event, on_done, ctx);
}

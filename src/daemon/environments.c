#include "daemon/environments.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/opt.h"
#include "base/str.h"
#include "daemon/notes.h"
#include "daemon/vault.h"
#include "model/capability.h"
#include "model/variable.h"
#include "store/store.h"

enum { NEAR_MOST = 200 };

/* Adds "(did you mean …?)" to what is in err. */
static void suggest(const struct environments *all, const char *team, const char *name,
                    struct err *err)
{
	struct environment_filter filter = {.team = team != NULL ? team : ACCESS_TEAM,
	                                    .limit = NEAR_MOST};
	struct environment_page page = {0};
	struct strings names = {0};
	const char *near;

	for (size_t i = 0; environment_builtin_at(i) != NULL; i++)
		strings_add(&names, environment_builtin_at(i)->name);
	for (size_t i = 0; i < all->config->environment_count; i++)
		strings_add(&names, all->config->environments[i]->name);
	if (store_environment_list(all->store, &filter, &page, &(struct err){0}) == 0) {
		for (size_t i = 0; i < page.count; i++) {
			if (page.items[i]->visibility != VISIBILITY_PRIVATE)
				strings_add(&names, page.items[i]->name);
		}
		environment_page_done(&page);
	}
	near = opt_nearest(name, (const char *const *)names.items);
	if (near != NULL)
		err_set(err, ERR_NOT_FOUND, "no environment '%.63s' (did you mean '%s'?)", name,
		        near);
	strings_done(&names);
}

int environments_get(const struct environments *all, const char *team, const char *name,
                     struct environment **ret, struct err *err)
{
	const struct environment *known = config_environment(all->config, name);

	if (known != NULL) {
		*ret = environment_copy(known);
		return 0;
	}
	if (capability_is_network(name))
		return capability_network(name, &all->config->capabilities,
		                          &all->config->scope_objects, ret, err);
	if (store_environment_get(all->store, team, name, ret, err) == 0)
		return 0;
	if (err->code == ERR_NOT_FOUND)
		suggest(all, team, name, err);
	return -1;
}

int environments_for(const struct environments *all, const struct spec *spec,
                     struct environment **ret, struct err *err)
{
	auto_(environment_freep) struct environment *environment = NULL;

	if (environments_get(all, spec->team, spec->network, &environment, err) < 0)
		return -1;
	if (!environment_serves(environment, spec->owner, spec->team)) {
		err_set(err, ERR_NOT_FOUND, "no environment '%.63s'", spec->network);
		suggest(all, spec->team, spec->network, err);
		return -1;
	}
	*ret = take_ptr(environment);
	return 0;
}

static char *purpose_of(const char *environment_id, const char *variable)
{
	return mem_printf("environment %s %s", environment_id, variable);
}

/* entry is NAME=sealed; *ret becomes NAME=value. */
static int open_one(const struct environments *all, const char *id, const char *entry, char **ret,
                    struct err *err)
{
	size_t len = strcspn(entry, "=");
	auto_free char *name = mem_strndup(entry, len);
	auto_free char *purpose = purpose_of(id, name);
	char *value = NULL;

	if (variable_check_name(name, err) < 0)
		return -1;
	if (vault_open(all->keys, purpose, entry + len + (entry[len] == '='), &value, err) < 0)
		return err_wrap(err, "variable %s", name);
	*ret = mem_printf("%s=%s", name, value);
	mem_wipe_free(value, strlen(value));
	return 0;
}

int environments_open(const struct environments *all, const struct spec *spec, struct strings *ret,
                      struct err *err)
{
	auto_(environment_freep) struct environment *environment = NULL;
	struct strings sealed = {0};
	int r = 0;

	/* Only those of the store have variables. */
	if (config_environment(all->config, spec->network) != NULL)
		return 0;
	if (environments_for(all, spec, &environment, err) < 0 ||
	    store_variables_get(all->store, environment->id.text, &sealed, err) < 0)
		return -1;
	for (size_t i = 0; i < sealed.count && r == 0; i++) {
		char *entry = NULL;

		r = open_one(all, environment->id.text, sealed.items[i], &entry, err);
		if (r == 0)
			strings_take(ret, entry);
	}
	strings_done(&sealed);
	return r < 0 ? err_wrap(err, "environment %s", spec->network) : 0;
}

void environments_wipe(struct strings *values)
{
	for (size_t i = 0; i < values->count; i++)
		explicit_bzero(values->items[i], strlen(values->items[i]));
	strings_done(values);
}

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

static void submit(struct store_write *write, const struct environment *environment,
                   enum event_kind kind, struct saving saving)
{
	struct saving *copy = mem_new(struct saving);
	struct event event;

	*copy = saving;
	note_environment(&event, kind, environment);
	store_put_event(write, &event);
	event_done(&event);
	store_write_submit(write, on_saved, copy);
}

void environments_put(const struct environments *all, const struct environment_change *change,
                      engine_on_done on_done, void *ctx)
{
	struct store_write *write = store_write_new(all->store);
	const char *id = change->environment->id.text;

	store_put_environment(write, change->environment);
	for (size_t i = 0; change->removed != NULL && i < change->removed->count; i++)
		store_delete_variable(write, id, change->removed->items[i]);
	for (size_t i = 0; change->variables != NULL && i < change->variables->count; i++) {
		const char *entry = change->variables->items[i];
		size_t len = strcspn(entry, "=");
		auto_free char *name = mem_strndup(entry, len);
		auto_free char *purpose = purpose_of(id, name);
		auto_free char *sealed = vault_seal(all->keys, purpose, entry + len + 1);

		store_put_variable(write, id, name, sealed);
	}
	submit(write, change->environment,
	       change->is_new ? EVENT_ENVIRONMENT_CREATED : EVENT_ENVIRONMENT_CHANGED,
	       (struct saving){on_done, ctx});
}

void environments_remove(const struct environments *all, const struct environment *environment,
                         engine_on_done on_done, void *ctx)
{
	struct store_write *write = store_write_new(all->store);

	store_delete_environment(write, environment->id.text);
	submit(write, environment, EVENT_ENVIRONMENT_REMOVED, (struct saving){on_done, ctx});
}

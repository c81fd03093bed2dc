#include "cli/spec.h"

#include "base/limits.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/ask.h"
#include "cli/client.h"

void cli_spec_done(struct cli_spec *spec)
{
	opt_list_done(&spec->env);
	opt_list_done(&spec->labels);
	opt_list_done(&spec->mounts);
	opt_list_done(&spec->allow);
	opt_list_done(&spec->allow_cidrs);
}

/* Text from the command line that is no UTF-8 cannot be JSON. */
static int set_text(json_t *object, const char *key, const char *text, struct err *err)
{
	if (text == NULL)
		return 0;
	if (json_object_set_new(object, key, json_string(text)) < 0)
		return err_set(err, ERR_INVALID, "%s is not valid UTF-8", key);
	return 0;
}

int cli_spec_add_env(json_t *object, const struct opt_list *env, struct err *err)
{
	for (size_t i = 0; i < env->count; i++) {
		const char *equals = strchr(env->items[i], '=');
		size_t len =
			equals == NULL ? strlen(env->items[i]) : (size_t)(equals - env->items[i]);
		auto_free char *name = mem_strndup(env->items[i], len);
		/* NOLINTNEXTLINE(concurrency-mt-unsafe): one thread; "" is a value here */
		const char *value = equals == NULL ? getenv(name) : equals + 1;

		if (value == NULL)
			return err_set(err, ERR_INVALID, "variable %s is not set here", name);
		if (set_text(object, name, value, err) < 0)
			return -1;
	}
	return 0;
}

static int add_labels(json_t *object, const struct opt_list *labels, struct err *err)
{
	for (size_t i = 0; i < labels->count; i++) {
		const char *equals = strchr(labels->items[i], '=');

		if (equals == NULL)
			return err_set(err, ERR_INVALID, "label '%s' is not KEY=VALUE",
			               labels->items[i]);
		auto_free char *key =
			mem_strndup(labels->items[i], (size_t)(equals - labels->items[i]));

		if (set_text(object, key, equals + 1, err) < 0)
			return -1;
	}
	return 0;
}

static int add_mount(struct cli *cli, json_t *mounts, const char *text)
{
	auto_(ask_mount_done) struct ask_mount mount = {0};

	if (cli->url != NULL)
		return err_set(&cli->err, ERR_INVALID,
		               "--volume grants folders of the daemon's own machine: it does not "
		               "work with --url");
	if (ask_mount_parse(text, &mount, &cli->err) < 0 ||
	    ask_grant(cli->state_dir, &mount, &cli->err) < 0)
		return -1;
	json_t *item = json_pack("{s:s, s:s, s:b}", "grant", mount.grant, "target", mount.target,
	                         "readOnly", mount.read_only);

	if (item == NULL || json_array_append_new(mounts, item) < 0)
		return err_set(&cli->err, ERR_INVALID, "'%s' is not valid UTF-8", text);
	/* Only for people; a source that is no UTF-8 goes without. */
	if (str_is_utf8(mount.source, strlen(mount.source)))
		return set_text(item, "source", mount.source, &cli->err);
	return 0;
}

static int add_texts(json_t *body, const struct cli_spec *spec, struct err *err)
{
	const struct {
		const char *key;
		const char *text;
	} texts[] = {
		{"image", spec->image},
		{"profile", spec->profile},
		{"name", spec->name},
		{"hostname", spec->hostname},
		{"cwd", spec->cwd},
		{"user", spec->user},
		{"network", spec->network},
		{"diskBackend", spec->disk_backend},
		{"networkMode", spec->network_mode},
		{"visibility", spec->visibility},
	};

	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		if (set_text(body, texts[i].key, texts[i].text, err) < 0)
			return -1;
	return 0;
}

static int add_limits(json_t *limits, const struct cli_spec *spec, struct err *err)
{
	const struct {
		const char *key;
		const char *text;
	} texts[] = {
		{"memory", spec->memory},
		{"cpu", spec->cpu},
		{"pids", spec->pids},
		{"disk", spec->disk},
		{"inodes", spec->inodes},
		{"nofile", spec->nofile},
		{"outputRate", spec->output_rate},
	};

	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		if (set_text(limits, texts[i].key, texts[i].text, err) < 0)
			return -1;
	return 0;
}

static int add_entries(json_t *list, const struct opt_list *entries, struct err *err)
{
	for (size_t i = 0; i < entries->count; i++)
		if (json_array_append_new(list, json_string(entries->items[i])) < 0)
			return err_set(err, ERR_INVALID, "'%s' is not valid UTF-8",
			               entries->items[i]);
	return 0;
}

/* An object or array that is only sent when something is in it. */
static void keep_if_filled(json_t *body, const char *key, json_t *value)
{
	if (json_object_size(value) > 0 || json_array_size(value) > 0)
		(void)json_object_set(body, key, value); /* only fails without memory */
	json_decref(value);
}

json_t *cli_spec_to_json(struct cli *cli, const struct cli_spec *spec)
{
	auto_json json_t *body = json_object();
	json_t *labels = json_object(), *env = json_object(), *limits = json_object();
	json_t *mounts = json_array(), *allow = json_array(), *cidrs = json_array();
	int r = add_texts(body, spec, &cli->err);

	if (r >= 0)
		r = add_labels(labels, &spec->labels, &cli->err);
	if (r >= 0)
		r = cli_spec_add_env(env, &spec->env, &cli->err);
	if (r >= 0)
		r = add_limits(limits, spec, &cli->err);
	if (r >= 0)
		r = add_entries(allow, &spec->allow, &cli->err);
	if (r >= 0)
		r = add_entries(cidrs, &spec->allow_cidrs, &cli->err);
	for (size_t i = 0; r >= 0 && i < spec->mounts.count; i++)
		r = add_mount(cli, mounts, spec->mounts.items[i]);
	keep_if_filled(body, "labels", labels);
	keep_if_filled(body, "env", env);
	keep_if_filled(body, "limits", limits);
	keep_if_filled(body, "mounts", mounts);
	keep_if_filled(body, "allow", allow);
	keep_if_filled(body, "allowCidrs", cidrs);
	if (spec->ttl_ms > 0)
		(void)json_object_set_new(body, "ttl", json_integer((json_int_t)spec->ttl_ms));
	if (spec->degraded)
		(void)json_object_set_new(body, "degraded", json_true());
	return r < 0 ? NULL : take_ptr(body);
}

#include "api/decode.h"

#include <signal.h>
#include <strings.h>

#include "api/schema.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/str.h"
#include "model/entry.h"
#include "model/user.h"

static const char *text_of(const json_t *body, const char *name)
{
	return json_string_value(json_object_get(body, name));
}

static uint64_t count_of(const json_t *body, const char *name, uint64_t otherwise)
{
	const json_t *value = json_object_get(body, name);

	return json_is_integer(value) ? (uint64_t)json_integer_value(value) : otherwise;
}

int decode_entries(const json_t *map, struct strings *to,
                   int (*check)(const char *entry, struct err *err), struct err *err)
{
	const char *key;
	json_t *value;

	/* Each is looked for among those before it: a body of a megabyte would take seconds. */
	if (json_object_size(map) > LIMIT_ENV)
		return err_set(err, ERR_INVALID,
		               "%zu environment variables or labels are more than %d",
		               json_object_size(map), LIMIT_ENV);
	json_object_foreach ((json_t *)(uintptr_t)map, key, value) {
		auto_free char *entry = mem_printf("%s=%s", key, json_string_value(value));

		if (strchr(key, '='))
			return err_set(err, ERR_INVALID, "the name '%.64s' cannot contain '='",
			               key);
		if (check(entry, err) < 0)
			return -1;
		strings_set(to, key, json_string_value(value));
	}
	return 0;
}

int decode_check_label(const char *entry, struct err *err)
{
	if (str_has_prefix(entry, "cloche/"))
		return err_set(err, ERR_INVALID,
		               "labels that begin with cloche/ are set by Cloche");
	return entry_check_label(entry, err);
}

static int take_limits(const json_t *object, struct limits *limits, struct err *err)
{
	const char *name;
	json_t *value;

	json_object_foreach ((json_t *)(uintptr_t)object, name, value) {
		const struct limit *limit = limits_find_json(name);
		int r = json_is_string(value)
		                ? limits_set_text(limits, limit, json_string_value(value), err)
		                : limits_set_number(limits, limit, json_number_value(value), err);

		if (r < 0)
			return r;
	}
	return 0;
}

static int take_mounts(const json_t *list, struct spec *spec, struct err *err)
{
	size_t i;
	json_t *mount;

	if (json_array_size(list) > LIMIT_MOUNTS)
		return err_set(err, ERR_INVALID, "at most %d mounts are possible", LIMIT_MOUNTS);
	json_array_foreach (list, i, mount) {
		const json_t *read_only = json_object_get(mount, "readOnly");

		/* Others are the daemon's own to give. */
		if (!id_is_valid(text_of(mount, "grant"), "gr"))
			return err_set(err, ERR_INVALID, "mount %zu names no valid grant", i + 1);

		spec_add_mount(spec, text_of(mount, "source"), text_of(mount, "grant"),
		               text_of(mount, "target"), !read_only || json_is_true(read_only));
	}
	return 0;
}

static int take_texts(const json_t *body, struct spec *spec, struct err *err)
{
	const struct {
		const char *name;
		char **field;
	} texts[] = {
		{"name", &spec->name},
		{"image", &spec->image},
		{"user", &spec->user},
		{"cwd", &spec->cwd},
		{"network", &spec->network},
		{"hostname", &spec->hostname},
		{"runtime", &spec->runtime},
		{"diskBackend", &spec->disk_backend},
		{"networkMode", &spec->network_mode},
	};

	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		const char *text = text_of(body, texts[i].name);

		if (text && !*text)
			return err_set(err, ERR_INVALID, "'%s' is empty: leave it out instead",
			               texts[i].name);
		if (text)
			spec_set(texts[i].field, text);
	}
	return 0;
}

/* Replaces the profile's list, as the other members do. */
void decode_words(const json_t *value, struct strings *list)
{
	size_t i;
	json_t *item;

	if (json_is_string(value))
		strings_add(list, json_string_value(value));
	json_array_foreach (value, i, item)
		strings_add(list, json_string_value(item));
}

void decode_list(const json_t *body, const char *name, struct strings *list)
{
	const json_t *value = json_object_get(body, name);
	size_t i;
	json_t *item;

	if (!value)
		return;
	strings_done(list);
	json_array_foreach (value, i, item)
		strings_add(list, json_string_value(item));
}

static int take_ttl(const json_t *body, struct spec *spec, struct err *err)
{
	const json_t *ttl = json_object_get(body, "ttl");

	if (!ttl)
		return 0;
	spec->ttl_ms = 0;
	return json_is_null(ttl) ? 0 : schema_ms(ttl, "ttl", &spec->ttl_ms, err);
}

static int fill_spec(const json_t *body, struct spec *spec, struct err *err)
{
	const json_t *degraded = json_object_get(body, "degraded");

	const char *visibility = text_of(body, "visibility");

	if (degraded)
		spec->degraded = json_is_true(degraded);
	if (visibility && visibility_parse(visibility, &spec->visibility, err) < 0)
		return -1;
	decode_list(body, "allow", &spec->allow);
	decode_list(body, "allowCidrs", &spec->allow_cidrs);
	if (take_texts(body, spec, err) < 0 || take_ttl(body, spec, err) < 0 ||
	    take_limits(json_object_get(body, "limits"), &spec->limits, err) < 0 ||
	    take_mounts(json_object_get(body, "mounts"), spec, err) < 0 ||
	    decode_entries(json_object_get(body, "labels"), &spec->labels, decode_check_label,
	                   err) < 0 ||
	    decode_entries(json_object_get(body, "env"), &spec->env, entry_check_env, err) < 0)
		return -1;
	return spec_normalise(spec, err) < 0 ? -1 : spec_validate(spec, err);
}

int decode_spec(const json_t *body, const struct config *config, struct spec *ret, struct err *err)
{
	const char *name = text_of(body, "profile");
	const struct profile *profile;
	struct spec spec = {0};

	if (config_find_profile(config, name ? name : "default", &profile, err) < 0)
		return -1;
	spec_copy(&spec, &profile->spec);
	if (fill_spec(body, &spec, err) < 0) {
		spec_done(&spec);
		return -1;
	}
	*ret = spec;
	return 0;
}

/* --- execs --- */

static int take_argv(const json_t *body, struct strings *argv, struct err *err)
{
	const json_t *list = json_object_get(body, "argv");
	const char *shell = text_of(body, "shell");
	size_t bytes = 0;
	size_t i;
	json_t *item;

	if (!list == !shell)
		return err_set(err, ERR_INVALID, "give either 'argv' or 'shell'");
	if (shell) {
		strings_add(argv, "/bin/sh");
		strings_add(argv, "-c");
		strings_add(argv, shell);
		bytes = strlen(shell);
	}
	if (list && (json_array_size(list) == 0 || json_array_size(list) > LIMIT_ARGV))
		return err_set(err, ERR_INVALID, "'argv' must have 1 to %d items", LIMIT_ARGV);
	json_array_foreach (list, i, item) {
		strings_add(argv, json_string_value(item));
		bytes += json_string_length(item) + 1;
	}
	if (!*argv->items[0])
		return err_set(err, ERR_INVALID, "the program's name is empty");
	if (bytes > LIMIT_ARGV_BYTES)
		return err_set(err, ERR_TOO_LARGE, "the command has more than %d bytes",
		               LIMIT_ARGV_BYTES);
	return 0;
}

static int take_place(const json_t *body, const struct spec *spec, struct exec *exec,
                      struct err *err)
{
	const char *user = text_of(body, "user");
	const char *cwd = text_of(body, "cwd");
	struct user_ref ref;

	spec_set(&exec->user, user ? user : spec->user);
	spec_set(&exec->cwd, cwd ? cwd : spec->cwd);
	if (user && user_parse(user, &ref, err) < 0)
		return -1;
	return cwd ? spec_check_path("cwd", cwd, err) : 0;
}

static int take_size(const json_t *body, struct decode_exec *ret, struct err *err)
{
	ret->rows = count_of(body, "rows", 24);
	ret->cols = count_of(body, "cols", 80);
	if (ret->rows == 0 || ret->rows > UINT16_MAX || ret->cols == 0 || ret->cols > UINT16_MAX)
		return err_set(err, ERR_INVALID, "'rows' and 'cols' must be 1 to %d", UINT16_MAX);
	return 0;
}

static int fill_exec(const json_t *body, const struct spec *spec, struct decode_exec *ret,
                     struct err *err)
{
	const json_t *input = json_object_get(body, "input");

	ret->exec->tty = json_is_true(json_object_get(body, "tty"));
	ret->exec->background = json_is_true(json_object_get(body, "background"));
	ret->attach = json_is_true(json_object_get(body, "attach"));
	ret->has_stdin = json_is_true(json_object_get(body, "stdin")) || input;
	ret->input = json_string_value(input);
	ret->input_len = json_string_length(input);
	ret->timeout_ms = count_of(body, "timeoutMs", 0);
	if (ret->exec->background && ret->attach)
		return err_set(err, ERR_INVALID, "give either 'background' or 'attach'");
	if (input && ret->attach)
		return err_set(err, ERR_INVALID,
		               "'input' does not go with 'attach': send it there");
	if (take_argv(body, &ret->exec->argv, err) < 0 ||
	    take_place(body, spec, ret->exec, err) < 0 || take_size(body, ret, err) < 0)
		return -1;
	return decode_entries(json_object_get(body, "env"), &ret->env, entry_check_env, err);
}

int decode_exec(const json_t *body, const struct id *sandbox, const struct spec *spec,
                struct decode_exec *ret, struct err *err)
{
	*ret = (struct decode_exec){.exec = exec_new(sandbox)};
	strings_copy(&ret->env, &spec->env);
	if (fill_exec(body, spec, ret, err) == 0)
		return 0;
	decode_exec_done(ret);
	return -1;
}

void decode_exec_done(struct decode_exec *decoded)
{
	exec_free(decoded->exec);
	decoded->exec = NULL;
	strings_done(&decoded->env);
}

int decode_signal(const char *text, int *ret, struct err *err)
{
	const char *name = strncasecmp(text, "SIG", 3) == 0 ? text + 3 : text;
	uint64_t number;

	if (str_to_u64(text, &number) == 0 && number >= 1 && number <= 64) {
		*ret = (int)number;
		return 0;
	}
	for (int i = 1; i < 32; i++) {
		const char *known = sigabbrev_np(i);

		if (known && strcasecmp(known, name) == 0) {
			*ret = i;
			return 0;
		}
	}
	return err_set(err, ERR_INVALID,
	               "'signal' must be a name such as TERM or a number of 1 to 64");
}

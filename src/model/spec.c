#include "model/spec.h"

#include "base/id.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/str.h"
#include "model/backend.h"
#include "model/capability.h"
#include "model/domain.h"
#include "model/entry.h"
#include "model/environment.h"
#include "model/user.h"

static const uint64_t TTL_LEAST_MS = 1000;
static const uint64_t TTL_MOST_MS = 365ULL * 24 * 3600 * 1000;

/* Mount points of the sandbox itself: covering one would cover its isolation. */
static const char *const taken_targets[] = {"/proc", "/sys", "/dev", "/run/cloche", NULL};
static const char *const disk_backends[] = {"auto", "quota", "loop", "tmpfs", "sampled", NULL};

void spec_set(char **field, const char *text)
{
	/* text may be *field itself. */
	char *copy = text != NULL && text[0] != '\0' ? mem_strdup(text) : NULL;

	free(*field);
	*field = copy;
}

void spec_init(struct spec *spec)
{
	*spec = (struct spec){.visibility = VISIBILITY_TEAM};
	spec_set(&spec->profile, "default");
	spec_set(&spec->runtime, BACKEND_DEFAULT);
	spec_set(&spec->image, "host");
	spec_set(&spec->user, "agent");
	spec_set(&spec->cwd, "/workspace");
	spec_set(&spec->disk_backend, "auto");
	spec_set(&spec->network, "none");
	limits_init(&spec->limits);
}

static void drop_mounts(struct spec *spec)
{
	for (size_t i = 0; i < spec->mount_count; i++) {
		free(spec->mounts[i].source);
		free(spec->mounts[i].grant);
		free(spec->mounts[i].target);
	}
	free(spec->mounts);
}

/* Every owned string of a spec, in one place for copy and done. */
static void for_each_text(struct spec *spec, void (*visit)(char **field))
{
	char **fields[] = {
		&spec->name,    &spec->profile,      &spec->runtime,  &spec->image,
		&spec->user,    &spec->cwd,          &spec->hostname, &spec->disk_backend,
		&spec->network, &spec->network_mode, &spec->owner,    &spec->team,
		&spec->made_by,
	};

	for (size_t i = 0; i < ARRAY_LEN(fields); i++)
		visit(fields[i]);
}

static void drop_text(char **field)
{
	free(*field);
	*field = NULL;
}

static void renew_text(char **field)
{
	if (*field != NULL)
		*field = mem_strdup(*field);
}

void spec_done(struct spec *spec)
{
	for_each_text(spec, drop_text);
	strings_done(&spec->labels);
	strings_done(&spec->env);
	strings_done(&spec->allow);
	strings_done(&spec->allow_cidrs);
	drop_mounts(spec);
	*spec = (struct spec){0};
}

void spec_copy(struct spec *to, const struct spec *from)
{
	*to = *from;
	for_each_text(to, renew_text);
	to->labels = (struct strings){0};
	to->env = (struct strings){0};
	to->allow = (struct strings){0};
	to->allow_cidrs = (struct strings){0};
	strings_copy(&to->allow, &from->allow);
	strings_copy(&to->allow_cidrs, &from->allow_cidrs);
	strings_copy(&to->labels, &from->labels);
	strings_copy(&to->env, &from->env);
	to->mounts = NULL;
	to->mount_count = 0;
	for (size_t i = 0; i < from->mount_count; i++)
		spec_add_mount(to, from->mounts[i].source, from->mounts[i].grant,
		               from->mounts[i].target, from->mounts[i].read_only);
}

void spec_add_mount(struct spec *spec, const char *source, const char *grant, const char *target,
                    bool read_only)
{
	struct mount *mount;

	spec->mounts = mem_resize(spec->mounts, spec->mount_count + 1, sizeof(*mount));
	mount = &spec->mounts[spec->mount_count++];
	*mount = (struct mount){.read_only = read_only};
	spec_set(&mount->source, source);
	spec_set(&mount->grant, grant);
	spec_set(&mount->target, target);
}

int spec_check_name(const char *name, struct err *err)
{
	char shown[LIMIT_NAME_LEN * 2];

	str_escape(shown, sizeof(shown), name, strlen(name));
	if (!str_is_name(name))
		return err_set(
			err, ERR_INVALID,
			"name '%s': at most %d of a-z 0-9 . _ -, the first a letter or digit",
			shown, LIMIT_NAME_LEN);
	/* Requests take an id or a name: one must never be mistaken for the other. */
	if (id_is_valid(name, "sb") || id_is_valid(name, "im"))
		return err_set(err, ERR_INVALID, "name '%s' has the form of an id", shown);
	return 0;
}

int spec_check_ttl(uint64_t ttl_ms, struct err *err)
{
	if (ttl_ms == 0)
		return 0;
	if (ttl_ms < TTL_LEAST_MS)
		return err_set(err, ERR_INVALID, "ttl %llums is below the least of 1s",
		               (unsigned long long)ttl_ms);
	if (ttl_ms > TTL_MOST_MS)
		return err_set(err, ERR_INVALID, "ttl %llums is above the most of 365d",
		               (unsigned long long)ttl_ms);
	return 0;
}

/* "", "." or "..", as a component of a path. */
static bool is_bad_component(const char *at, size_t len)
{
	return len == 0 || (len == 1 && at[0] == '.') || (len == 2 && at[0] == '.' && at[1] == '.');
}

int spec_check_path(const char *what, const char *path, struct err *err)
{
	size_t len = strlen(path);
	char shown[128];

	str_escape(shown, sizeof(shown), path, len);
	if (path[0] != '/')
		return err_set(err, ERR_INVALID, "%s '%s' is not an absolute path", what, shown);
	if (len > LIMIT_PATH_LEN)
		return err_set(err, ERR_INVALID, "%s has %zu bytes, more than %d", what, len,
		               LIMIT_PATH_LEN);
	for (size_t i = 0; i < len; i++) {
		if ((unsigned char)path[i] < 0x20 || path[i] == 0x7f)
			return err_set(err, ERR_INVALID, "%s '%s' has a control character", what,
			               shown);
	}
	for (const char *at = path + 1; len > 1;) {
		size_t component = strcspn(at, "/");

		if (is_bad_component(at, component))
			return err_set(err, ERR_INVALID, "%s '%s' has an empty, '.' or '..' part",
			               what, shown);
		if (at[component] == '\0')
			break;
		at += component + 1;
	}
	return 0;
}

/* path is base or lies below it. */
static bool is_within(const char *path, const char *base)
{
	size_t len = strlen(base);

	return strncmp(path, base, len) == 0 && (path[len] == '\0' || path[len] == '/');
}

int spec_check_target(const char *target, struct err *err)
{
	if (spec_check_path("mount target", target, err) < 0)
		return -1;
	if (str_eq(target, "/"))
		return err_set(err, ERR_INVALID, "mount target '/' would hide the whole image");
	for (size_t i = 0; taken_targets[i] != NULL; i++) {
		if (is_within(target, taken_targets[i]) || is_within(taken_targets[i], target))
			return err_set(err, ERR_INVALID,
			               "mount target '%.100s' would change the sandbox's own %s",
			               target, taken_targets[i]);
	}
	return 0;
}

static int check_target(const struct spec *spec, size_t at, struct err *err)
{
	const char *target = spec->mounts[at].target;

	if (target == NULL)
		return err_set(err, ERR_INVALID, "mount %zu has no target", at + 1);
	if (spec_check_target(target, err) < 0)
		return -1;
	for (size_t i = 0; i < at; i++) {
		if (str_eq(spec->mounts[i].target, target))
			return err_set(err, ERR_INVALID, "mount target '%.100s' is given twice",
			               target);
	}
	return 0;
}

static int check_mounts(const struct spec *spec, struct err *err)
{
	if (spec->mount_count > LIMIT_MOUNTS)
		return err_set(err, ERR_INVALID, "%zu mounts are more than %d", spec->mount_count,
		               LIMIT_MOUNTS);
	for (size_t i = 0; i < spec->mount_count; i++) {
		if (check_target(spec, i, err) < 0)
			return -1;
		/* "sk": skills that the daemon laid out, to be read alone. */
		if (spec->mounts[i].grant == NULL ||
		    (!id_is_valid(spec->mounts[i].grant, "gr") &&
		     !(spec->mounts[i].read_only && id_is_valid(spec->mounts[i].grant, "sk"))))
			return err_set(err, ERR_INVALID, "mount '%.100s' names no valid grant",
			               spec->mounts[i].target);
	}
	return 0;
}

static int check_choice(const char *what, const char *value, const char *const *choices,
                        struct err *err)
{
	char shown[64];

	for (size_t i = 0; value != NULL && choices[i] != NULL; i++) {
		if (str_eq(choices[i], value))
			return 0;
	}
	if (value == NULL)
		return err_set(err, ERR_INVALID, "%s is missing", what);
	str_escape(shown, sizeof(shown), value, strlen(value));
	return err_set(err, ERR_INVALID, "%s '%s' is not known here", what, shown);
}

static bool is_hostname(const char *name)
{
	size_t len = strlen(name);

	if (len == 0 || len > LIMIT_NAME_LEN || name[0] == '-' || name[len - 1] == '-')
		return false;
	for (size_t i = 0; i < len; i++) {
		bool letter =
			(name[i] >= 'a' && name[i] <= 'z') || (name[i] >= 'A' && name[i] <= 'Z');

		if (!letter && (name[i] < '0' || name[i] > '9') && name[i] != '-')
			return false;
	}
	return true;
}

/* Both lists, and what is wrong with either. */
static int normalise(struct strings *allow, struct strings *cidrs, struct err *err)
{
	struct err one = {0};
	int r = domain_parse_list("allow", allow, allow, err);

	if (environment_parse_cidrs("allowCidrs", cidrs, cidrs, &one) >= 0)
		return r;
	if (r < 0)
		err_also(err, &one);
	else
		*err = one;
	return -1;
}

static int check_network(const struct spec *spec, struct err *err)
{
	struct strings domains = {0}, cidrs = {0};
	enum environment_mode mode;

	if (spec->network == NULL ||
	    (!capability_is_network(spec->network) && !str_is_name(spec->network)))
		return err_set(err, ERR_INVALID,
		               "network '%.63s' is not the name of an environment",
		               spec->network != NULL ? spec->network : "");
	if (spec->network_mode != NULL && !environment_mode_from(spec->network_mode, &mode))
		return err_set(err, ERR_INVALID,
		               "network mode '%.32s' is none of enforce, record, ask",
		               spec->network_mode);
	strings_copy(&domains, &spec->allow);
	strings_copy(&cidrs, &spec->allow_cidrs);
	int r = normalise(&domains, &cidrs, err);
	strings_done(&domains);
	strings_done(&cidrs);
	return r;
}

int spec_normalise(struct spec *spec, struct err *err)
{
	return normalise(&spec->allow, &spec->allow_cidrs, err);
}

static int check_texts(const struct spec *spec, struct err *err)
{
	enum backend backend;
	struct user_ref user;

	if (spec->name != NULL && spec_check_name(spec->name, err) < 0)
		return -1;
	if (spec->image == NULL || !str_is_name(spec->image))
		return err_set(err, ERR_INVALID, "image '%.63s' is not a name",
		               spec->image != NULL ? spec->image : "");
	if (spec->user != NULL && user_parse(spec->user, &user, err) < 0)
		return -1;
	if (spec->cwd != NULL && spec_check_path("cwd", spec->cwd, err) < 0)
		return -1;
	if (spec->hostname != NULL && !is_hostname(spec->hostname))
		return err_set(err, ERR_INVALID, "hostname: at most %d letters, digits and '-'",
		               LIMIT_NAME_LEN);
	if (spec->runtime == NULL)
		return err_set(err, ERR_INVALID, "runtime is missing");
	if (backend_of("runtime", spec->runtime, &backend, err) < 0 || check_network(spec, err) < 0)
		return -1;
	return check_choice("disk backend", spec->disk_backend, disk_backends, err);
}

int spec_validate(const struct spec *spec, struct err *err)
{
	if (check_texts(spec, err) < 0 || spec_check_ttl(spec->ttl_ms, err) < 0 ||
	    limits_check(&spec->limits, err) < 0 ||
	    entry_check_label_list(&spec->labels, err) < 0 ||
	    entry_check_env_list(&spec->env, err) < 0)
		return -1;
	return check_mounts(spec, err);
}

static const char mark_name[] = "ephemeral", mark_prefix[] = "run";

bool spec_is_for_one_command(const struct spec *spec)
{
	const char *mark = strings_value(&spec->labels, mark_name);

	return mark && id_is_valid(mark, mark_prefix);
}

void spec_mark_for_one_command(struct spec *spec)
{
	if (!spec_is_for_one_command(spec))
		strings_set(&spec->labels, mark_name, id_new(mark_prefix).text);
}

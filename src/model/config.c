/*
 * The tree that base/toml reads is walked once; each node is looked up in the tables below and
 * handed to the reader of its kind. After each profile key the whole profile is validated: it was
 * valid before, so what is wrong now is that line's fault and gets its number.
 */
#include "model/config.h"

#include "base/buf.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/must.h"
#include "base/opt.h"
#include "base/str.h"
#include "base/toml.h"
#include "model/backend.h"
#include "model/config_impl.h"
#include "model/entry.h"
#include "model/user.h"

enum { POOL_MOST = 256, KEYS_MOST = 32 };

typedef int (*read_value)(void *field, const struct toml *node, struct err *err);

struct key {
	const char *name;
	read_value read;
	size_t offset;
	const char *text;
	const char *about;
};

int config_refuse_kind(const struct toml *node, const char *expected, struct err *err)
{
	return err_set(err, ERR_CONFIG, "'%s' is %s, expected %s", node->key,
	               toml_kind_name(node->kind), expected);
}

bool config_has_nul(const struct toml *node)
{
	return memchr(node->str, '\0', node->str_len) != NULL;
}

static int read_TEXT(void *field, const struct toml *node, struct err *err)
{
	if (node->kind != TOML_STRING)
		return config_refuse_kind(node, "a string", err);
	if (node->str_len == 0 || config_has_nul(node))
		return err_set(err, ERR_CONFIG, "'%s' is empty or holds a NUL", node->key);
	spec_set(field, node->str);
	return 0;
}

static int read_LEVEL(void *field, const struct toml *node, struct err *err)
{
	static const char *const levels[] = {"debug", "info", "warn", "error", NULL};
	const char *near;
	char shown[64];

	if (node->kind != TOML_STRING)
		return config_refuse_kind(node, "a string", err);
	if (log_parse_level(node->str, field))
		return 0;
	near = opt_nearest(node->str, levels);
	str_escape(shown, sizeof(shown), node->str, node->str_len);
	return err_set(err, ERR_CONFIG, "log_level '%s' is none of debug, info, warn, error%s%s%s",
	               shown, near != NULL ? " (did you mean '" : "", near != NULL ? near : "",
	               near != NULL ? "'?)" : "");
}

static int read_DURATION(void *field, const struct toml *node, struct err *err)
{
	uint64_t *ms = field;

	if (node->kind == TOML_INT && node->num >= 0 && node->num < INT64_MAX / 1000) {
		*ms = (uint64_t)node->num * 1000;
		return 0;
	}
	if (node->kind == TOML_STRING && !config_has_nul(node) && str_to_ms(node->str, ms) == 0)
		return 0;
	return err_set(err, ERR_CONFIG,
	               "'%s' is not a time such as \"30m\", \"2h\" or 90 (seconds)", node->key);
}

static int read_COUNT(void *field, const struct toml *node, struct err *err)
{
	if (node->kind != TOML_INT)
		return config_refuse_kind(node, "a whole number", err);
	if (node->num < 0 || node->num > POOL_MOST)
		return err_set(err, ERR_CONFIG, "%s %lld is not between 0 and %d", node->key,
		               (long long)node->num, POOL_MOST);
	*(uint64_t *)field = (uint64_t)node->num;
	return 0;
}

int config_read_strings(struct strings *list, const struct toml *node, struct err *err)
{
	if (node->kind != TOML_ARRAY)
		return config_refuse_kind(node, "an array of strings", err);
	strings_done(list);
	for (const struct toml *item = node->child; item != NULL; item = item->next) {
		if (item->kind != TOML_STRING || config_has_nul(item))
			return err_set(err, ERR_CONFIG, "'%s' is an array of strings", node->key);
		strings_add(list, item->str);
	}
	return 0;
}

static int read_LIST(void *field, const struct toml *node, struct err *err)
{
	return config_read_strings(field, node, err);
}

static int read_BOOL(void *field, const struct toml *node, struct err *err)
{
	if (node->kind != TOML_BOOL)
		return config_refuse_kind(node, "true or false", err);
	*(bool *)field = node->num != 0;
	return 0;
}

static int read_ENV(void *field, const struct toml *node, struct err *err)
{
	if (node->kind != TOML_TABLE)
		return config_refuse_kind(node, "a table { NAME = \"value\" }", err);
	for (const struct toml *item = node->child; item != NULL; item = item->next) {
		if (item->kind != TOML_STRING)
			return config_refuse_kind(item, "a string", err);
		if (!entry_is_env_name(item->key))
			return err_set(err, ERR_CONFIG, "'%.64s' is not a name of a variable",
			               item->key);
		if (config_has_nul(item))
			return err_set(err, ERR_CONFIG, "'%s' holds a NUL", item->key);
		strings_set(field, item->key, item->str);
	}
	return 0;
}

static int read_VISIBILITY(void *field, const struct toml *node, struct err *err)
{
	if (node->kind != TOML_STRING)
		return config_refuse_kind(node, "a string", err);
	return visibility_parse(node->str, field, err);
}

/* "" is none. */
static int read_NAME(void *field, const struct toml *node, struct err *err)
{
	if (node->kind != TOML_STRING)
		return config_refuse_kind(node, "a string", err);
	if (node->str_len > 0 && !str_is_name(node->str))
		return err_set(err, ERR_CONFIG, "'%s' is no name", node->key);
	spec_set(field, node->str);
	return 0;
}

static int read_RUNTIME(void *field, const struct toml *node, struct err *err)
{
	if (read_NAME(field, node, err) < 0)
		return -1;
	return node->str_len > 0 ? backend_check_name(node->str, err) : 0;
}

static const struct key daemon_keys[] = {
#define DAEMON_KEY(key, kind, field, text, about)                                                  \
	{key, read_##kind, offsetof(struct config, field), text, about},
#include "model/config.def"
#undef DAEMON_KEY
	{0},
};

static const struct key profile_keys[] = {
#define PROFILE_KEY(key, kind, field, text, about)                                                 \
	{key, read_##kind, offsetof(struct profile, field), text, about},
#include "model/config.def"
#undef PROFILE_KEY
	{0},
};

static const struct key *find_key(const struct key *keys, const char *name)
{
	for (const struct key *key = keys; key->name != NULL; key++) {
		if (str_eq(key->name, name))
			return key;
	}
	return NULL;
}

int config_blame(const struct config_place *place, int line, struct err *err)
{
	err_wrap(err, "%s:%d", place->file, line);
	if (err != NULL)
		err->code = ERR_CONFIG;
	return -1;
}

int config_refuse_unknown(const struct config_place *place, const struct toml *node,
                          const char *const *known, struct err *err)
{
	const char *near = opt_nearest(node->key, known);
	char shown[64];

	str_escape(shown, sizeof(shown), node->key, strlen(node->key));
	err_set(err, ERR_CONFIG, "unknown key '%s'%s%s%s%s%s", shown,
	        place->section[0] != '\0' ? " in " : "", place->section,
	        near != NULL ? " (did you mean '" : "", near != NULL ? near : "",
	        near != NULL ? "'?)" : "");
	return config_blame(place, node->line, err);
}

/* Adds the names of keys, and of the limits when asked, to a list that ends with NULL. */
static void list_names(const struct key *keys, bool limits, const char **names)
{
	size_t count = 0;

	for (const struct key *key = keys; key->name != NULL; key++)
		names[count++] = key->name;
	for (const struct limit *limit = limits_table; limits && limit->name != NULL; limit++)
		names[count++] = limit->name;
	must(count < KEYS_MOST);
	names[count] = NULL;
}

static int read_daemon(struct config *config, struct config_place *place, const struct toml *table,
                       struct err *err)
{
	const char *names[KEYS_MOST];
	struct user_ref user;

	place->section = "[daemon]";
	for (const struct toml *node = table->child; node != NULL; node = node->next) {
		const struct key *key = find_key(daemon_keys, node->key);

		if (key == NULL) {
			list_names(daemon_keys, false, names);
			return config_refuse_unknown(place, node, names, err);
		}
		if (key->read((char *)config + key->offset, node, err) < 0)
			return config_blame(place, node->line, err);
		if (!str_eq(node->key, "user"))
			continue;
		if (user_parse(config->daemon_user, &user, err) < 0)
			return config_blame(place, node->line, err);
		config->has_daemon_user = true;
	}
	return 0;
}

static int read_limit(struct limits *limits, const struct limit *limit, const struct toml *node,
                      struct err *err)
{
	if (node->kind == TOML_INT)
		return limits_set_number(limits, limit, (double)node->num, err);
	if (node->kind == TOML_FLOAT)
		return limits_set_number(limits, limit, node->real, err);
	if (node->kind == TOML_STRING && !config_has_nul(node))
		return limits_set_text(limits, limit, node->str, err);
	return config_refuse_kind(node, "a number or a string", err);
}

static int read_profile_key(struct profile *profile, const struct config_place *place,
                            const struct toml *node, struct err *err)
{
	const struct limit *limit = limits_find(node->key);
	const struct key *key = find_key(profile_keys, node->key);
	const char *names[KEYS_MOST];
	int r;

	if (limit == NULL && key == NULL) {
		list_names(profile_keys, true, names);
		return config_refuse_unknown(place, node, names, err);
	}
	if (limit != NULL)
		r = read_limit(&profile->spec.limits, limit, node, err);
	else
		r = key->read((char *)profile + key->offset, node, err);
	if (r < 0 || spec_validate(&profile->spec, err) < 0)
		return config_blame(place, node->line, err);
	return 0;
}

enum { DEFAULT_POOL = 8, DEFAULT_BLANKS = 2, ASK_MS = 120 * 1000 };

static void profile_init(struct profile *profile, const char *name)
{
	*profile = (struct profile){.visibility = VISIBILITY_GLOBAL};
	spec_init(&profile->spec);
	spec_set(&profile->spec.profile, name);
}

/* The profile of that name, made from the built-in values when it is new. */
static struct profile *enter_profile(struct config *config, const char *name)
{
	for (size_t i = 0; i < config->profile_count; i++) {
		if (str_eq(config->profiles[i].spec.profile, name))
			return &config->profiles[i];
	}
	config->profiles =
		mem_resize(config->profiles, config->profile_count + 1, sizeof(*config->profiles));
	profile_init(&config->profiles[config->profile_count], name);
	return &config->profiles[config->profile_count++];
}

static int read_profile(struct config *config, struct config_place *place, const struct toml *table,
                        struct err *err)
{
	char section[LIMIT_NAME_LEN + 16];
	struct profile *profile;

	if (table->kind != TOML_TABLE) {
		config_refuse_kind(table, "a table [sandboxes.NAME]", err);
		return config_blame(place, table->line, err);
	}
	if (!str_is_name(table->key)) {
		err_set(err, ERR_CONFIG,
		        "'%.64s' is not a name for a profile: at most %d of a-z "
		        "0-9 . _ -",
		        table->key, LIMIT_NAME_LEN);
		return config_blame(place, table->line, err);
	}
	snprintf(section, sizeof(section), "[sandboxes.%s]", table->key);
	profile = enter_profile(config, table->key);
	for (const struct toml *node = table->child; node != NULL; node = node->next) {
		struct config_place inner = {.file = place->file, .section = section};

		if (read_profile_key(profile, &inner, node, err) < 0)
			return -1;
	}
	return 0;
}

/* A key of [sandboxes] itself. 1: it was none. */
static int read_sandboxes_key(struct config *config, const struct toml *node, struct err *err)
{
#define SANDBOXES_KEY(name, kind, field, value, about)                                             \
	if (str_eq(node->key, name))                                                               \
		return read_##kind(&config->field, node, err);
#include "model/config.def"
#undef SANDBOXES_KEY
	return 1;
}

static int read_profiles(struct config *config, struct config_place *place,
                         const struct toml *table, struct err *err)
{
	for (const struct toml *node = table->child; node != NULL; node = node->next) {
		int r = node->kind == TOML_TABLE ? 1 : read_sandboxes_key(config, node, err);

		if (r < 0) {
			place->section = "[sandboxes]";
			return config_blame(place, node->line, err);
		}
		if (r > 0 && read_profile(config, place, node, err) < 0)
			return -1;
	}
	return 0;
}

static const struct {
	const char *name;
	int (*read)(struct config *config, struct config_place *place, const struct toml *table,
	            struct err *err);
} sections[] = {
	{"daemon", read_daemon},
	{"server", config_read_server},
	{"delegation", config_read_delegation},
	{"audit", config_read_audit},
	{"tasks", config_read_tasks},
	{"sessions", config_read_sessions},
	{"rates", config_read_rates},
	{"budgets", config_read_budgets},
	{"webhooks", config_read_webhooks},
	{"scopes", config_read_scopes},
	{"capabilities", config_read_capabilities},
	{"network", config_read_network},
	{"environments", config_read_environments},
	{"services", config_read_services},
	{"llm", config_read_llm},
	{"git", config_read_git},
	{"forges", config_read_forges},
	{"agents", config_read_agents},
	{"commands", config_read_commands},
	{"mcp", config_read_mcp},
	{"skills", config_read_skills},
	{"sandboxes", read_profiles},
};

static int read_section(struct config *config, const char *file, const struct toml *node,
                        struct err *err)
{
	struct config_place place = {.file = file, .section = ""};
	const char *names[ARRAY_LEN(sections) + 1] = {NULL};

	for (size_t i = 0; i < ARRAY_LEN(sections); i++) {
		names[i] = sections[i].name;
		if (!str_eq(sections[i].name, node->key))
			continue;
		if (node->kind == TOML_TABLE)
			return sections[i].read(config, &place, node, err);
		config_refuse_kind(node, "a table", err);
		return config_blame(&place, node->line, err);
	}
	return config_refuse_unknown(&place, node, names, err);
}

void config_init(struct config *config)
{
	*config = (struct config){.log_level = LOG_LEVEL_INFO, .ask_timeout_ms = ASK_MS};
	config->daemon_user = mem_strdup("cloche");
	config_server_init(config);
	config_tasks_init(config);
	config_llm_init(config);
	config_hands_init(config);
	config_git_init(config);
	/* Only this one has a stock unasked: others may be many, and seldom used. */
	enter_profile(config, "default")->pool = DEFAULT_POOL;
	config->blanks = DEFAULT_BLANKS;
}

void config_done(struct config *config)
{
	free(config->daemon_user);
	for (size_t i = 0; i < config->profile_count; i++) {
		spec_done(&config->profiles[i].spec);
		free(config->profiles[i].team);
		free(config->profiles[i].owner);
		free(config->profiles[i].trust_floor);
	}
	free(config->profiles);
	config_server_done(config);
	config_tasks_done(config);
	config_hands_done(config);
	for (size_t i = 0; i < config->environment_count; i++)
		environment_free(config->environments[i]);
	free(config->environments);
	config_services_done(config);
	config_llm_done(config);
	config_git_done(config);
	config_agents_done(config);
	strings_done(&config->resolvers);
	*config = (struct config){0};
}

int config_parse(struct config *config, const char *name, const char *text, size_t len,
                 struct err *err)
{
	auto_(toml_freep) struct toml *root = NULL;

	if (toml_parse(name, text, len, &root, err) < 0)
		return -1;
	for (const struct toml *node = root->child; node != NULL; node = node->next) {
		if (read_section(config, name, node, err) < 0)
			return -1;
	}
	return config_check_capabilities(config, name, err);
}

const struct profile *config_profile(const struct config *config, const char *name)
{
	for (size_t i = 0; i < config->profile_count; i++) {
		if (str_eq(config->profiles[i].spec.profile, name))
			return &config->profiles[i];
	}
	return NULL;
}

int config_find_profile(const struct config *config, const char *name, const struct profile **ret,
                        struct err *err)
{
	auto_free const char **names = NULL;
	const char *near;
	char shown[64];

	*ret = config_profile(config, name);
	if (*ret != NULL)
		return 0;
	names = mem_resize(NULL, config->profile_count + 1, sizeof(*names));
	for (size_t i = 0; i < config->profile_count; i++)
		names[i] = config->profiles[i].spec.profile;
	names[config->profile_count] = NULL;
	near = opt_nearest(name, names);
	str_escape(shown, sizeof(shown), name, strlen(name));
	return err_set(err, ERR_NOT_FOUND, "no profile '%s'%s%s%s", shown,
	               near != NULL ? " (did you mean '" : "", near != NULL ? near : "",
	               near != NULL ? "'?)" : "");
}

static void print_key(struct buf *out, const char *name, const char *value, const char *about)
{
	char line[256];

	snprintf(line, sizeof(line), "%s = %s", name, value);
	must(buf_printf(out, "#%-26s # %s\n", line, about) == 0);
}

static const struct {
	const char *name, *text, *about;
} environment_lines[] = {
#define ENVIRONMENT_KEY(key, kind, field, text, about) {key, text, about},
#include "model/config.def"
#undef ENVIRONMENT_KEY
};

static const struct {
	const char *name, *text, *about;
} service_lines[] = {
#define SERVICE_KEY(key, kind, field, text, about) {key, text, about},
#include "model/config.def"
#undef SERVICE_KEY
};

static void print_services(struct buf *out)
{
	must(buf_puts(out, "\n[services]\n") == 0);
	print_key(out, "allow_cidrs", "[]",
	          "private ranges that services made by the API may lead to");
	print_key(out, "ca_file", "\"\"", "who is trusted (PEM); by default those of the system");
	must(buf_puts(out, "\n# One table a service: http://NAME.cloche.internal inside.\n"
	                   "#[services.example]\n") == 0);
	for (size_t i = 0; i < ARRAY_LEN(service_lines); i++)
		print_key(out, service_lines[i].name, service_lines[i].text,
		          service_lines[i].about);
}

static void print_agents(struct buf *out)
{
	must(buf_puts(out, "\n# One table an agent of yours: `cloche task run --agent NAME`.\n"
	                   "#[agents.example]\n") == 0);
	print_key(out, "command", "[\"my-agent\"]", "speaks ACP on its stdio");
	print_key(out, "env", "[]", "[\"NAME=value\"]; {url}, {model}, {token} are replaced");
	print_key(out, "about", "\"\"", "for people");
}

static void print_lines(struct buf *out,
                        bool (*line)(size_t index, const char **section, const char **name,
                                     const char **text, const char **about))
{
	const char *section, *name, *text, *about, *before = "";

	for (size_t i = 0; line(i, &section, &name, &text, &about); i++) {
		if (!str_eq(section, before))
			must(buf_printf(out, "\n%s\n", section) == 0);
		print_key(out, name, text, about);
		before = section;
	}
}

char *config_default_text(void)
{
	struct buf out;
	char *text;

	buf_init(&out, LIMIT_CONFIG_BYTES);
	must(buf_puts(&out,
	              "# Cloche's settings. Each line below shows what holds without it; remove "
	              "the # to\n# change it. Unknown keys are errors.\n\n[daemon]\n") == 0);
	for (const struct key *key = daemon_keys; key->name != NULL; key++)
		print_key(&out, key->name, key->text, key->about);
	print_lines(&out, config_server_line);
	print_lines(&out, config_tasks_line);
	must(buf_puts(&out, "\n[network]\n") == 0);
	print_key(&out, "resolvers", "[]",
	          "who is asked for names: [\"ADDRESS\"]; []: those of this machine");
	print_key(&out, "ask_timeout", "\"2m\"",
	          "mode ask: what no person answered by then is denied");
	must(buf_puts(&out, "\n# One table an environment: `cloche run --network NAME`.\n"
	                    "#[environments.example]\n") == 0);
	for (size_t i = 0; i < ARRAY_LEN(environment_lines); i++)
		print_key(&out, environment_lines[i].name, environment_lines[i].text,
		          environment_lines[i].about);
	print_services(&out);
	print_lines(&out, config_llm_line);
	print_lines(&out, config_hands_line);
	print_lines(&out, config_git_line);
	print_agents(&out);
	must(buf_puts(&out, "\n# One table a profile: `cloche run --profile NAME`. Values that are "
	                    "not given are these.\n[sandboxes.default]\n") == 0);
	for (const struct key *key = profile_keys; key->name != NULL; key++)
		print_key(&out, key->name, key->text, key->about);
	for (const struct limit *limit = limits_table; limit->name != NULL; limit++) {
		char value[32], quoted[40];

		limits_format(limit, limit->otherwise, value, sizeof(value));
		snprintf(quoted, sizeof(quoted),
		         limit->kind == LIMIT_KIND_BYTES || limit->kind == LIMIT_KIND_RATE
		                 ? "\"%s\""
		                 : "%s",
		         value);
		print_key(&out, limit->name, quoted, limit->about);
	}
	text = buf_take_string(&out);
	buf_done(&out);
	return text;
}

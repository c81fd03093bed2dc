#include "model/agent.h"

#include "base/mem.h"
#include "base/opt.h"
#include "base/str.h"
#include "base/toml.h"
#include "model/backend.h"

enum kind { TEXT, LIST };

static const struct {
	const char *name;
	enum kind kind;
	size_t offset;
} keys[] = {
	{"name", TEXT, offsetof(struct agent, name)},
	{"version", TEXT, offsetof(struct agent, version)},
	{"description", TEXT, offsetof(struct agent, description)},
	{"runtime", TEXT, offsetof(struct agent, runtime)},
	{"capabilities", LIST, offsetof(struct agent, capabilities)},
	{"tools", LIST, offsetof(struct agent, tools)},
	{"repositories", LIST, offsetof(struct agent, repositories)},
};

static bool is_clean(const struct toml *node)
{
	if (node->kind != TOML_STRING || node->str_len == 0 || node->str_len > 1024)
		return false;
	for (size_t i = 0; i < node->str_len; i++) {
		if ((unsigned char)node->str[i] < 0x20 || node->str[i] == 0x7f)
			return false;
	}
	return true;
}

static int read_list(struct strings *list, const struct toml *node, struct err *err)
{
	if (node->kind != TOML_ARRAY)
		return err_set(err, ERR_INVALID, "'%s' is %s, expected a list of strings",
		               node->key, toml_kind_name(node->kind));
	for (const struct toml *item = node->child; item; item = item->next) {
		if (!is_clean(item))
			return err_set(err, ERR_INVALID,
			               "'%s' holds something that is no plain text", node->key);
		if (list->count == AGENT_LIST)
			return err_set(err, ERR_INVALID, "'%s' has more than %d entries", node->key,
			               AGENT_LIST);
		if (!strings_has(list, item->str))
			strings_add(list, item->str);
	}
	return 0;
}

static int read_key(struct agent *agent, const struct toml *node, struct err *err)
{
	const char *names[ARRAY_LEN(keys) + 1] = {0};
	const char *near;
	char shown[64];

	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		void *field = (char *)agent + keys[i].offset;

		names[i] = keys[i].name;
		if (!str_eq(keys[i].name, node->key))
			continue;
		if (keys[i].kind == LIST)
			return read_list(field, node, err);
		if (!is_clean(node))
			return err_set(err, ERR_INVALID, "'%s' is no plain text", node->key);
		*(char **)field = mem_strdup(node->str);
		return 0;
	}
	near = opt_nearest(node->key, names);
	str_escape(shown, sizeof(shown), node->key, strlen(node->key));
	return err_set(err, ERR_INVALID, "unknown key '%s'%s%s%s", shown,
	               near ? " (did you mean '" : "", near ? near : "", near ? "'?)" : "");
}

static int read_all(struct agent *agent, const char *name, const struct toml *root, struct err *err)
{
	for (const struct toml *node = root->child; node; node = node->next) {
		if (read_key(agent, node, err) < 0)
			return err_wrap(err, "%s:%d", name, node->line);
	}
	if (!agent->name || !str_is_name(agent->name))
		return err_set(err, ERR_INVALID,
		               "%s: 'name' is missing, or not of a-z 0-9 . _ - (at most 63)", name);
	if (agent->runtime && backend_check_name(agent->runtime, err) < 0)
		return err_wrap(err, "%s", name);
	return 0;
}

int agent_parse(const char *name, const char *text, size_t len, struct agent *ret, struct err *err)
{
	auto_(toml_freep) struct toml *root = NULL;
	struct agent agent = {0};

	if (len > AGENT_MANIFEST_BYTES)
		return err_set(err, ERR_INVALID, "%s has %zu bytes, more than %d", name, len,
		               AGENT_MANIFEST_BYTES);
	if (toml_parse(name, text, len, &root, err) < 0) {
		if (err)
			err->code = ERR_INVALID;
		return -1;
	}
	if (read_all(&agent, name, root, err) < 0) {
		agent_done(&agent);
		return -1;
	}
	*ret = agent;
	return 0;
}

void agent_done(struct agent *agent)
{
	free(agent->name);
	free(agent->version);
	free(agent->description);
	free(agent->runtime);
	strings_done(&agent->capabilities);
	strings_done(&agent->tools);
	strings_done(&agent->repositories);
	*agent = (struct agent){0};
}

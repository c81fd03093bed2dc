/* [git] and [forges.NAME] of config.toml. */
#include <stdlib.h>

#include "base/mem.h"
#include "base/str.h"
#include "model/config_impl.h"
#include "model/service.h"

enum { NUMBER_MOST = 1000000000, KEYS_MOST = 16, FORGES_MOST = 64 };

typedef int (*read_value)(void *field, const struct toml *node, struct err *err);

static int read_NUMBER(void *field, const struct toml *node, struct err *err)
{
	return config_read_number(field, node, NUMBER_MOST, err);
}

static int read_DURATION(void *field, const struct toml *node, struct err *err)
{
	return config_read_ms(field, node, err);
}

static int read_LIST(void *field, const struct toml *node, struct err *err)
{
	return config_read_strings(field, node, err);
}

static int read_TEXT(void *field, const struct toml *node, struct err *err)
{
	return config_read_text(field, node, err);
}

/* People write a number as a number. */
static int read_ID(void *field, const struct toml *node, struct err *err)
{
	if (node->kind != TOML_INT)
		return read_TEXT(field, node, err);
	free(*(char **)field);
	*(char **)field = mem_printf("%lld", (long long)node->num);
	return 0;
}

static int read_KIND(void *field, const struct toml *node, struct err *err)
{
	if (node->kind != TOML_STRING)
		return config_refuse_kind(node, "a string", err);
	return forge_kind_parse(node->str, field, err);
}

struct key {
	const char *name;
	read_value read;
	size_t offset;
};

static const struct key git_keys[] = {
#define GIT_KEY(key, kind, field, text, about)                                                     \
	{key, read_##kind, offsetof(struct config_git, field)},
#include "model/config_git.def"
#undef GIT_KEY
	{0},
};

static const struct key forge_keys[] = {
#define FORGE_KEY(key, kind, field, text, about) {key, read_##kind, offsetof(struct forge, field)},
#include "model/config_git.def"
#undef FORGE_KEY
	{0},
};

static int read_key(const struct key *keys, void *object, const struct config_place *place,
                    const struct toml *node, struct err *err)
{
	const char *names[KEYS_MOST] = {NULL};

	for (size_t i = 0; keys[i].name; i++) {
		names[i] = keys[i].name;
		if (!str_eq(keys[i].name, node->key))
			continue;
		if (keys[i].read((char *)object + keys[i].offset, node, err) < 0)
			return config_blame(place, node->line, err);
		return 0;
	}
	return config_refuse_unknown(place, node, names, err);
}

static int check_git(const struct config_git *git, struct err *err)
{
	auto_free char *branch = mem_printf("%sx", git->branch_prefix ? git->branch_prefix : "");

	if (author_check("author_name", git->author_name ? git->author_name : "", err) < 0 ||
	    author_check("author_email", git->author_email ? git->author_email : "", err) < 0)
		return -1;
	return branch_check(branch, err) < 0
	               ? err_set(err, ERR_CONFIG, "'branch_prefix' begins no branch")
	               : 0;
}

int config_read_git(struct config *config, struct config_place *place, const struct toml *table,
                    struct err *err)
{
	place->section = "[git]";
	for (const struct toml *node = table->child; node; node = node->next) {
		if (read_key(git_keys, &config->git, place, node, err) < 0)
			return -1;
	}
	return check_git(&config->git, err) < 0 ? config_blame(place, table->line, err) : 0;
}

/* Replaces one of an earlier file. */
static struct forge *enter(struct config_git *git, const char *name)
{
	struct forge *forge = forge_new(name);

	for (size_t i = 0; i < git->forge_count; i++) {
		if (!str_eq(git->forges[i]->name, name))
			continue;
		forge_free(git->forges[i]);
		git->forges[i] = forge;
		return forge;
	}
	git->forges = mem_resize(git->forges, git->forge_count + 1, sizeof(struct forge *));
	git->forges[git->forge_count++] = forge;
	return forge;
}

static int read_forge(struct config *config, const struct config_place *place,
                      const struct toml *table, struct err *err)
{
	char section[FORGE_NAME + 24];
	struct config_place inner = {.file = place->file, .section = section};
	struct forge *forge;

	if (table->kind != TOML_TABLE || !str_is_name(table->key) ||
	    strlen(table->key) > FORGE_NAME || config->git.forge_count == FORGES_MOST) {
		err_set(err, ERR_CONFIG, "'%.63s' is not [forges.NAME], or there are more than %d",
		        table->key, FORGES_MOST);
		return config_blame(place, table->line, err);
	}
	(void)snprintf(section, sizeof(section), "[forges.%s]", table->key); /* fits */
	forge = enter(&config->git, table->key);
	for (const struct toml *node = table->child; node; node = node->next) {
		if (read_key(forge_keys, forge, &inner, node, err) < 0)
			return -1;
	}
	return forge_normalise(forge, err) < 0 ? config_blame(&inner, table->line, err) : 0;
}

int config_read_forges(struct config *config, struct config_place *place, const struct toml *table,
                       struct err *err)
{
	place->section = "[forges]";
	for (const struct toml *node = table->child; node; node = node->next) {
		if (read_forge(config, place, node, err) < 0)
			return -1;
	}
	return 0;
}

void config_git_init(struct config *config)
{
	config->git = (struct config_git){.depth = 50,
	                                  .author_name = mem_strdup("Cloche"),
	                                  .author_email = mem_strdup("cloche@localhost"),
	                                  .branch_prefix = mem_strdup("cloche/")};
}

void config_git_done(struct config *config)
{
	struct config_git *git = &config->git;

	for (size_t i = 0; i < git->forge_count; i++)
		forge_free(git->forges[i]);
	free(git->forges);
	free(git->default_forge);
	free(git->author_name);
	free(git->author_email);
	free(git->branch_prefix);
}

/* For the default file: a line of a forge's begins with a comment sign of its own section. */
static const struct {
	const char *section, *name, *text, *about;
} lines[] = {
#define GIT_KEY(key, kind, field, text, about)   {"[git]", key, text, about},
#define FORGE_KEY(key, kind, field, text, about) {"#[forges.example]", key, text, about},
#include "model/config_git.def"
#undef GIT_KEY
#undef FORGE_KEY
};

bool config_git_line(size_t index, const char **ret_section, const char **ret_name,
                     const char **ret_text, const char **ret_about)
{
	if (index >= ARRAY_LEN(lines))
		return false;
	*ret_section = lines[index].section;
	*ret_name = lines[index].name;
	*ret_text = lines[index].text;
	*ret_about = lines[index].about;
	return true;
}

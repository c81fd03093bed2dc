#include "model/forge.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "model/service.h"
#include "model/spec.h"

enum { SEGMENT_MOST = 100, AUTHOR_MOST = 200 };

static const struct {
	const char *name, *base_url, *api;
} kinds[] = {
#define FORGE_KIND(id, text, base_url, api, about) {text, base_url, api},
#include "model/forge_kinds.def"
#undef FORGE_KIND
};

struct forge *forge_new(const char *name)
{
	struct forge *forge = mem_new(struct forge);

	forge->name = mem_strdup(name);
	forge->kind = FORGE_KIND_COUNT_;
	forge->timeout_ms = SERVICE_TIMEOUT_MS;
	return forge;
}

void forge_free(struct forge *forge)
{
	if (!forge)
		return;
	free(forge->name);
	free(forge->base_url);
	free(forge->api_url);
	free(forge->secret);
	free(forge->app_id);
	free(forge->key_file);
	strings_done(&forge->repositories);
	strings_done(&forge->teams);
	free(forge);
}

const char *forge_kind_name(enum forge_kind kind)
{
	return kind < FORGE_KIND_COUNT_ ? kinds[kind].name : "";
}

int forge_kind_parse(const char *text, enum forge_kind *ret, struct err *err)
{
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		if (str_eq(kinds[i].name, text)) {
			*ret = (enum forge_kind)i;
			return 0;
		}
	}
	return err_set(err, ERR_INVALID, "kind is github or gitea");
}

/* --- one of the configuration --- */

static int check_credential(const struct forge *forge, struct err *err)
{
	if (!forge->app_id != !forge->key_file)
		return err_set(err, ERR_INVALID, "app_id and key_file belong together");
	if (forge->app_id && forge->secret)
		return err_set(err, ERR_INVALID, "either a secret or an app, not both");
	if (forge->app_id && forge->kind != FORGE_GITHUB)
		return err_set(err, ERR_INVALID, "app_id: only kind github has apps");
	if (forge->key_file && forge->key_file[0] != '/')
		return err_set(err, ERR_INVALID, "key_file: an absolute path is needed");
	for (const char *at = forge->app_id; at && *at; at++) {
		if (!isalnum((unsigned char)*at) && !strchr("._-", *at))
			return err_set(err, ERR_INVALID, "app_id: not the id of an app");
	}
	return service_check_secret(forge->secret, err);
}

static int check_patterns(const struct strings *list, struct err *err)
{
	for (size_t i = 0; i < list->count; i++) {
		const char *text = list->items[i], *slash = strchr(text, '/');

		if (!slash || slash == text || !slash[1] || strlen(text) > FORGE_PATH)
			return err_set(err, ERR_INVALID,
			               "repositories: entry %zu is not \"org/name\" or \"org/*\"",
			               i + 1);
	}
	return 0;
}

int forge_normalise(struct forge *forge, struct err *err)
{
	bool is_default;

	if (forge->kind >= FORGE_KIND_COUNT_)
		return err_set(err, ERR_INVALID, "kind is missing: github or gitea");
	if (!forge->base_url && kinds[forge->kind].base_url)
		forge->base_url = mem_strdup(kinds[forge->kind].base_url);
	if (!forge->base_url)
		return err_set(err, ERR_INVALID, "base_url is missing");
	if (service_check_url("base_url", &forge->base_url, err) < 0)
		return -1;
	is_default = forge->kind == FORGE_GITHUB && str_eq(forge->base_url, kinds[0].base_url);
	if (!forge->api_url)
		forge->api_url =
			is_default ? mem_strdup("https://api.github.com")
				   : mem_printf("%s%s", forge->base_url, kinds[forge->kind].api);
	if (service_check_url("api_url", &forge->api_url, err) < 0 ||
	    check_credential(forge, err) < 0)
		return -1;
	return check_patterns(&forge->repositories, err);
}

const struct forge *forge_find(const struct config_git *git, const char *name)
{
	for (size_t i = 0; i < git->forge_count; i++) {
		if (str_eq(git->forges[i]->name, name))
			return git->forges[i];
	}
	return NULL;
}

/* --- repositories --- */

static bool is_segment(const char *text, size_t len)
{
	if (len == 0 || len > SEGMENT_MOST || text[0] == '.' || text[0] == '-')
		return false;
	for (size_t i = 0; i < len; i++) {
		if (!isalnum((unsigned char)text[i]) && !strchr("._-", text[i]))
			return false;
	}
	return true;
}

/* "org/name", with or without ".git" and a last slash. */
static bool take_path(const char *text, char ret[FORGE_PATH + 1])
{
	size_t len = strlen(text), first = strcspn(text, "/");

	if (len > 0 && text[len - 1] == '/')
		len--;
	if (len > 4 && strncmp(text + len - 4, ".git", 4) == 0)
		len -= 4;
	if (len > FORGE_PATH || first >= len || !is_segment(text, first) ||
	    !is_segment(text + first + 1, len - first - 1))
		return false;
	/* What is written behind it again must mean the same. */
	if (len > 4 && strncmp(text + len - 4, ".git", 4) == 0)
		return false;
	memcpy(ret, text, len);
	ret[len] = '\0';
	return true;
}

static const struct forge *default_forge(const struct config_git *git)
{
	if (git->default_forge)
		return forge_find(git, git->default_forge);
	return git->forge_count > 0 ? git->forges[0] : NULL;
}

static int parse_url(const struct config_git *git, const char *text, struct repository *ret,
                     struct err *err)
{
	char *url = mem_strdup(text);
	int r = service_check_url("'repository'", &url, err);

	for (size_t i = 0; r == 0 && i < git->forge_count && !ret->forge; i++) {
		size_t len = strlen(git->forges[i]->base_url);

		if (strncmp(url, git->forges[i]->base_url, len) == 0 && url[len] == '/' &&
		    take_path(url + len + 1, ret->path))
			ret->forge = git->forges[i];
	}
	free(url);
	if (r == 0 && !ret->forge)
		return err_set(err, ERR_INVALID,
		               "'repository': no forge of this server has it; `cloche forge list` "
		               "shows those there are ([forges.NAME] of config.toml)");
	return r;
}

int repository_parse(const struct config_git *git, const char *text, struct repository *ret,
                     struct err *err)
{
	*ret = (struct repository){0};
	if (git->forge_count == 0)
		return err_set(err, ERR_INVALID,
		               "'repository': no forge is configured on this server "
		               "([forges.NAME] of config.toml)");
	if (strstr(text, "://"))
		return parse_url(git, text, ret, err);
	ret->forge = default_forge(git);
	if (!ret->forge)
		return err_set(err, ERR_INVALID,
		               "'repository': [git] default_forge names none of "
		               "[forges]");
	if (!take_path(text, ret->path))
		return err_set(err, ERR_INVALID,
		               "'repository' is org/name, or the https:// URL of a repository");
	return 0;
}

static bool matches(const char *pattern, const char *path)
{
	size_t len = strlen(pattern);

	if (len > 0 && pattern[len - 1] == '*')
		return strncmp(pattern, path, len - 1) == 0;
	return str_eq(pattern, path);
}

int repository_allows(const struct repository *repository, const char *team, struct err *err)
{
	const struct forge *forge = repository->forge;
	bool is_listed = forge->repositories.count == 0;

	for (size_t i = 0; i < forge->repositories.count; i++)
		is_listed = is_listed || matches(forge->repositories.items[i], repository->path);
	if (is_listed && (forge->teams.count == 0 || strings_has(&forge->teams, team)))
		return 0;
	return err_set(err, ERR_FORBIDDEN, "'repository': forge %s is not open to your team for %s",
	               forge->name, repository->path);
}

char *repository_id(const struct repository *repository)
{
	const char *host = strstr(repository->forge->base_url, "://");

	return mem_printf("%s/%s", host ? host + 3 : repository->forge->base_url, repository->path);
}

/* --- branches and authors --- */

/* As git-check-ref-format(1) has it, and nothing that begins like an option. */
int branch_check(const char *name, struct err *err)
{
	size_t len = strlen(name);
	bool is_good = len > 0 && len <= FORGE_BRANCH && name[0] != '-' && name[0] != '/' &&
	               name[0] != '.' && name[len - 1] != '/' && name[len - 1] != '.' &&
	               !str_eq(name, "@") && !str_eq(name, "HEAD") && str_is_utf8(name, len);
	static const char *const never[] = {"..", "//", "/.", "@{", ".lock/"};

	for (size_t i = 0; is_good && i < ARRAY_LEN(never); i++)
		is_good = !strstr(name, never[i]);
	for (size_t i = 0; is_good && i < len; i++)
		is_good = (unsigned char)name[i] > ' ' && name[i] != 0x7f &&
		          !strchr("~^:?*[\\", name[i]);
	if (is_good && !str_has_suffix(name, ".lock") && !str_has_prefix(name, "refs/"))
		return 0;
	return err_set(err, ERR_INVALID, "'branch' is not a name that git takes for one");
}

int author_check(const char *what, const char *text, struct err *err)
{
	if (*text && strlen(text) <= AUTHOR_MOST && service_is_value(text) &&
	    !strpbrk(text, "<>\t") && str_is_utf8(text, strlen(text)))
		return 0;
	return err_set(err, ERR_INVALID, "'%s' is one line without < and >", what);
}

/* --- git over HTTP --- */

enum git_ask git_ask_read(const char *path, const char *method, const char *target,
                          const char **ret_rest)
{
	static const struct {
		const char *method, *rest;
		enum git_ask ask;
	} known[] = {
		{"GET", "/info/refs?service=git-upload-pack", GIT_READ_REFS},
		{"POST", "/git-upload-pack", GIT_READ},
		{"GET", "/info/refs?service=git-receive-pack", GIT_WRITE_REFS},
		{"POST", "/git-receive-pack", GIT_WRITE},
	};
	size_t len = strlen(path);

	if (target[0] != '/' || strncmp(target + 1, path, len) != 0)
		return GIT_NOTHING;
	target += 1 + len;
	if (strncmp(target, ".git", 4) != 0)
		return GIT_NOTHING;
	target += 4;
	for (size_t i = 0; i < ARRAY_LEN(known); i++) {
		if (str_eq(method, known[i].method) && str_eq(target, known[i].rest)) {
			*ret_rest = target;
			return known[i].ask;
		}
	}
	return GIT_NOTHING;
}

bool git_ask_writes(enum git_ask ask)
{
	return ask == GIT_WRITE_REFS || ask == GIT_WRITE;
}

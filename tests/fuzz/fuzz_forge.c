/*
 * Repositories and branches: whatever the bytes, what is taken for one can be put into a URL and
 * behind a word of a command, has one form, and no request but four passes for git's.
 */
#include <string.h>

#include "base/mem.h"
#include "base/must.h"
#include "base/str.h"
#include "model/config.h"
#include "model/forge.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static const char CONFIG[] = "[forges.hub]\nkind = \"github\"\n[forges.tea]\nkind = \"gitea\"\n"
			     "base_url = \"https://tea.example.org/git\"\n";

static void try_repository(const char *text)
{
	struct repository repository, again;
	struct config config;
	struct err err = {0};

	config_init(&config);
	must(config_parse(&config, "fuzz", CONFIG, sizeof(CONFIG) - 1, &err) == 0);
	if (repository_parse(&config.git, text, &repository, &err) == 0) {
		auto_free char *url =
			mem_printf("%s/%s", repository.forge->base_url, repository.path);

		must(strchr(repository.path, '/') == strrchr(repository.path, '/'));
		must(!strpbrk(repository.path, " %?#\\:@\r\n"));
		must(repository_parse(&config.git, url, &again, &err) == 0);
		must(again.forge == repository.forge && str_eq(again.path, repository.path));
	} else {
		must(err.code == ERR_INVALID && err.msg[0]);
	}
	config_done(&config);
}

static void try_branch(const char *text)
{
	struct err err = {0};

	if (branch_check(text, &err) < 0)
		return;
	must(text[0] != '-' && !strpbrk(text, " \t\r\n~^:?*[\\") && !strstr(text, ".."));
}

static void try_target(const char *text)
{
	const char *rest = NULL;
	enum git_ask ask = git_ask_read("org/app", "GET", text, &rest);

	must(ask == GIT_NOTHING ||
	     (rest && str_has_prefix(text, "/org/app.git/info/refs?service=")));
	ask = git_ask_read("org/app", "POST", text, &rest);
	must(ask == GIT_NOTHING || str_has_prefix(text, "/org/app.git/git-"));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	auto_free char *text = mem_strndup((const char *)bytes, strnlen((const char *)bytes, len));

	try_repository(text);
	try_branch(text);
	try_target(text);
	return 0;
}

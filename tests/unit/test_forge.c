#include "model/forge.h"
#include "model/git_push.h"

#include <string.h>

#include "base/base.h"
#include "base/mem.h"
#include "harness/test.h"
#include "model/config.h"

static const char FILE_TEXT[] =
	"[forges.hub]\nkind = \"github\"\nsecret = \"env:CLOCHE_X\"\n"
	"repositories = [\"org/*\", \"me/one\"]\nteams = [\"default\"]\n"
	"[forges.tea]\nkind = \"gitea\"\nbase_url = \"https://Tea.example.org/git/\"\n";

static void load(struct config *config)
{
	struct err err = {0};

	config_init(config);
	CHECK_INT(config_parse(config, "config.toml", FILE_TEXT, sizeof(FILE_TEXT) - 1, &err), 0);
}

TEST(repositories_have_one_name)
{
	static const struct {
		const char *text, *id;
	} known[] = {
		{"org/app", "github.com/org/app"},
		{"org/app.git", "github.com/org/app"},
		{"org/app/", "github.com/org/app"},
		{"https://GitHub.com/org/app.git", "github.com/org/app"},
		{"https://tea.example.org/git/a/b", "tea.example.org/git/a/b"},
	};
	struct config config;

	load(&config);
	for (size_t i = 0; i < ARRAY_LEN(known); i++) {
		struct repository repository;
		struct err err = {0};

		CHECK_INT(repository_parse(&config.git, known[i].text, &repository, &err), 0);
		auto_free char *id = repository_id(&repository);

		CHECK_STR(id, known[i].id);
	}
	config_done(&config);
}

TEST(what_is_no_repository_is_refused)
{
	static const char *const bad[] = {"",
	                                  "org",
	                                  "org/",
	                                  "/app",
	                                  "org/app/more",
	                                  "../app",
	                                  "org/..",
	                                  "org/.git",
	                                  "org/app.git.git",
	                                  "-org/app",
	                                  "org/-app",
	                                  "org/a b",
	                                  "org/a%2fb",
	                                  "org//app",
	                                  "o\nrg/app",
	                                  "https://example.org/org/app",
	                                  "org/app?x",
	                                  "file:///etc",
	                                  "https://x@github.com/org/app",
	                                  "https://github.com/org/app?x",
	                                  "https://github.com/org/../app",
	                                  "https://github.company.org/org/app"};
	struct config config;

	load(&config);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct repository repository;
		struct err err = {0};

		CHECK_INT(repository_parse(&config.git, bad[i], &repository, &err), -1);
		CHECK_INT(err.code, ERR_INVALID);
	}
	config_done(&config);
}

TEST(forges_are_open_to_some)
{
	struct repository repository;
	struct config config;
	struct err err = {0};

	load(&config);
	CHECK_INT(repository_parse(&config.git, "org/app", &repository, &err), 0);
	CHECK_INT(repository_allows(&repository, "default", &err), 0);
	CHECK_INT(repository_allows(&repository, "others", &err), -1);
	CHECK_INT(repository_parse(&config.git, "me/two", &repository, &err), 0);
	CHECK_INT(repository_allows(&repository, "default", &err), -1);
	CHECK_INT(repository_parse(&config.git, "organ/app", &repository, &err), 0);
	CHECK_INT(repository_allows(&repository, "default", &err), -1);
	config_done(&config);
}

TEST(api_urls_belong_to_kinds)
{
	struct config config;

	load(&config);
	CHECK_STR(forge_find(&config.git, "hub")->api_url, "https://api.github.com");
	CHECK_STR(forge_find(&config.git, "tea")->api_url, "https://tea.example.org/git/api/v1");
	CHECK(!forge_find(&config.git, "none"));
	config_done(&config);
}

TEST(forges_that_cannot_be_are_refused)
{
	static const char *const bad[] = {
		"secret = \"env:CLOCHE_X\"",
		"kind = \"gitlab\"",
		"kind = \"gitea\"",
		"kind = \"github\"\nsecret = \"ghp_123\"",
		"kind = \"github\"\napp_id = 1",
		"kind = \"github\"\napp_id = 1\nkey_file = \"key.pem\"",
		"kind = \"github\"\napp_id = 1\nkey_file = \"/k\"\nsecret = \"env:CLOCHE_X\"",
		"kind = \"gitea\"\nbase_url = \"https://x.org\"\napp_id = 1\nkey_file = \"/k\"",
		"kind = \"github\"\nbase_url = \"github.com\"",
		"kind = \"github\"\nrepositories = [\"org\"]",
	};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		auto_free char *text = mem_printf("[forges.x]\n%s\n", bad[i]);
		struct config config;
		struct err err = {0};

		config_init(&config);
		CHECK_INT(config_parse(&config, "config.toml", text, strlen(text), &err), -1);
		CHECK(!strstr(err.msg, "ghp_123"));
		config_done(&config);
	}
}

TEST(branches_are_names_that_git_takes)
{
	static const char *const good[] = {"main", "feature/one", "a-b.c_d", "cloche/tsk_1", "ü"};
	static const char *const bad[] = {
		"",     "-x",   "/x",     "x/",  ".x",   "x.",   "a..b",         "a//b",
		"a/.b", "a b",  "a~b",    "a^b", "a:b",  "a?b",  "a*b",          "a[b",
		"a\\b", "a@{b", "x.lock", "@",   "HEAD", "a\nb", "refs/heads/x", "a.lock/b"};
	struct err err = {0};

	for (size_t i = 0; i < ARRAY_LEN(good); i++)
		CHECK_INT(branch_check(good[i], &err), 0);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		CHECK_INT(branch_check(bad[i], &err), -1);
}

TEST(four_requests_are_git)
{
	static const struct {
		const char *method, *target;
		enum git_ask ask;
	} known[] = {
		{"GET", "/org/app.git/info/refs?service=git-upload-pack", GIT_READ_REFS},
		{"POST", "/org/app.git/git-upload-pack", GIT_READ},
		{"GET", "/org/app.git/info/refs?service=git-receive-pack", GIT_WRITE_REFS},
		{"POST", "/org/app.git/git-receive-pack", GIT_WRITE},
		{"POST", "/org/app.git/info/refs?service=git-upload-pack", GIT_NOTHING},
		{"GET", "/org/app.git/git-upload-pack", GIT_NOTHING},
		{"GET", "/org/app/info/refs?service=git-upload-pack", GIT_NOTHING},
		{"GET", "/org/apple.git/info/refs?service=git-upload-pack", GIT_NOTHING},
		{"GET", "/org/app.git/info/refs", GIT_NOTHING},
		{"GET", "/org/app.git/info/refs?service=git-upload-pack&a", GIT_NOTHING},
		{"GET", "/org/app.git/../x.git/info/refs?service=git-upload-pack", GIT_NOTHING},
		{"GET", "org/app.git/info/refs?service=git-upload-pack", GIT_NOTHING},
		{"GET", "", GIT_NOTHING},
	};

	for (size_t i = 0; i < ARRAY_LEN(known); i++) {
		const char *rest = NULL;
		enum git_ask ask = git_ask_read("org/app", known[i].method, known[i].target, &rest);

		CHECK_INT(ask, known[i].ask);
		CHECK_INT(git_ask_writes(ask), ask == GIT_WRITE || ask == GIT_WRITE_REFS);
		CHECK_INT(rest != NULL, ask != GIT_NOTHING);
	}
}

#define OLD "0000000000000000000000000000000000000000 "
#define NEW "1111111111111111111111111111111111111111 "

TEST(pushes_name_their_branch)
{
	static const struct {
		const char *text;
		size_t len; /* 0: all of it */
		int result;
	} known[] = {
		{"0000", 0, 1},
		{"0000PACK", 0, 1},
		{"0071" OLD NEW "refs/heads/a\0 report-status0000", 117, 1},
		{"0066" OLD NEW "refs/heads/a\nX00000", 0, -1},
		{"0063" OLD NEW "refs/heads/a\n0000", 0, 1},
		{"0062" OLD NEW "refs/heads/a0000", 0, 1},
		{"0062" OLD NEW "refs/heads/b0000", 0, -1},
		{"0063" OLD NEW "refs/heads/aa0000", 0, -1},
		{"0061" OLD NEW "refs/heads/0000", 0, -1},
		{"005c" OLD NEW "refs/a0000", 0, -1},
		{"0062" OLD NEW "refs/heads/a0062" OLD NEW "refs/heads/b0000", 0, -1},
		{"0034shallow 11111111111111111111111111111111111111110062" OLD NEW
	         "refs/heads/a0000",
	         0, 1},
		{"0013push-cert\0 more", 19, -1},
		{"", 0, 0},
		{"00", 0, 0},
		{"0062" OLD, 0, 0},
		{"0001", 0, -1},
		{"0004", 0, -1},
		{"PACK", 0, -1},
		{"\x1f\x8b\x08\x01", 0, -1},
	};

	for (size_t i = 0; i < ARRAY_LEN(known); i++) {
		size_t len = known[i].len ? known[i].len : strlen(known[i].text);
		struct err err = {0};

		CHECK_INT(git_push_read((const uint8_t *)known[i].text, len, "a", &err),
		          known[i].result);
	}
}

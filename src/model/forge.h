/*
 * A forge: where git repositories and their pull requests are, and by which credential they are
 * reached from outside of sandboxes. Names of repositories and branches come from callers and are
 * checked here once: what passes can be put into a URL and behind a word of a command. Pure.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"
#include "model/strings.h"

enum forge_kind {
#define FORGE_KIND(id, text, base_url, api, about) FORGE_##id,
#include "model/forge_kinds.def"
#undef FORGE_KIND
	FORGE_KIND_COUNT_
};

enum { FORGE_NAME = 63, FORGE_PATH = 200, FORGE_BRANCH = 200 };

struct forge {
	char *name;
	enum forge_kind kind;
	char *base_url, *api_url;    /* "https://host[:port][/path]", no slash at the end */
	char *secret;                /* "env:NAME", "file:PATH", "sealed"; NULL: none */
	char *app_id, *key_file;     /* of a GitHub App; NULL: none */
	struct strings repositories; /* patterns of paths; empty: every one */
	struct strings teams;        /* names; empty: every team */
	uint64_t timeout_ms;
};

struct config_git {
	struct forge **forges; /* in the order of the file */
	size_t forge_count;
	char *default_forge; /* NULL: the first */
	char *author_name, *author_email, *branch_prefix;
	uint64_t depth; /* 0: all */
};

struct forge *forge_new(const char *name);
/* Accepts NULL. */
void forge_free(struct forge *forge);
const char *forge_kind_name(enum forge_kind kind);
int forge_kind_parse(const char *text, enum forge_kind *ret, struct err *err) NODISCARD;
/* Fills in what its kind knows and says what is wrong: ERR_INVALID. */
int forge_normalise(struct forge *forge, struct err *err) NODISCARD;
/* NULL: there is none of that name. */
const struct forge *forge_find(const struct config_git *git, const char *name);

/* What a run may reach; the forge is the configuration's. */
struct forge_grant {
	const char *run, *sandbox; /* ids */
	const struct forge *forge;
	const char *path;   /* of the repository */
	const char *branch; /* that it may push to */
	bool may_write;
};

struct forge_pull {
	struct forge_grant grant;
	const char *branch, *base;
	const char *title, *body;
	bool is_draft;
	const struct strings *labels;
};

struct forge_pulled {
	const char *url; /* NULL: there is none, and note says why */
	uint64_t number;
	bool is_new;
	const char *note; /* may be NULL */
};

/* pulled is NULL on failure. Called once, never before forgeway_pull returns. */
typedef void (*forge_on_pulled)(const struct forge_pulled *pulled, const struct err *err,
                                void *ctx);
struct repository {
	const struct forge *forge; /* of the configuration */
	char path[FORGE_PATH + 1]; /* "org/name", no ".git" */
};

/* "org/name" of the default forge, or the URL of a repository of one of them. ERR_INVALID. */
int repository_parse(const struct config_git *git, const char *text, struct repository *ret,
                     struct err *err) NODISCARD;
/* Whether tasks of this team may use it. ERR_FORBIDDEN. */
int repository_allows(const struct repository *repository, const char *team,
                      struct err *err) NODISCARD;
/* What rights call it: "github.com/org/name". The caller frees. */
char *repository_id(const struct repository *repository) NODISCARD;

/* A name that git takes for a branch and that is no option of anything. ERR_INVALID. */
int branch_check(const char *name, struct err *err) NODISCARD;
/* A name or address of who commits: one line without what git cannot keep. ERR_INVALID. */
int author_check(const char *what, const char *text, struct err *err) NODISCARD;

/* What of git over HTTP a request asks for; GIT_NOTHING: nothing that is passed on. */
enum git_ask {
	GIT_NOTHING,
	GIT_READ_REFS,
	GIT_READ,
	GIT_WRITE_REFS,
	GIT_WRITE,
};
/* target (path and query as they were sent) must be exactly that of this repository: nothing is
 * decoded, so there is one way to say it. *ret_rest is what follows the repository's URL. */
enum git_ask git_ask_read(const char *path, const char *method, const char *target,
                          const char **ret_rest);
bool git_ask_writes(enum git_ask ask);

/* What the parts of the forge gateway share. */
#pragma once

#include <jansson.h>

#include "gateway/forge.h"
#include "gateway/upstream.h"

struct forge_call;
struct forge_token;

struct forgeway {
	struct forgeway_config config;
	struct forge_call *calls;   /* under way */
	struct forge_token *tokens; /* of runs, forge_token.c */
	struct forge_job *jobs;     /* pull requests under way, forge_pull.c */
};

/* --- forge_call.c: one question to the API of a forge --- */
struct forge_ask {
	const struct forge *forge;
	const char *method;
	const char *path;   /* below the API */
	const char *auth;   /* value of Authorization */
	const json_t *body; /* NULL: none */
};
/* status 0: err says why; body may be NULL, it is borrowed. */
typedef void (*forge_on_answer)(int status, const json_t *body, const struct err *err, void *ctx);
/* Called once, never before this returns, unless it is dropped. */
struct forge_call *forge_call_start(struct forgeway *forgeway, const struct forge_ask *ask,
                                    forge_on_answer on_answer, void *ctx);
/* Accepts NULL. */
void forge_call_drop(struct forge_call *call);
void forge_call_drop_all(struct forgeway *forgeway);
/* Who may be dialled. */
void forge_call_fill(const struct forge *forge, struct upstream_call *call);
/* An error with what the forge says about it. Returns -1. */
int forge_complain(const struct forge *forge, const char *what, int status, const json_t *body,
                   struct err *err);

/* --- forge_token.c: the credential --- */
struct forge_waiter {
	struct forge_waiter *next;
	/* token NULL: err says why. Valid during the call. */
	void (*on_token)(const char *token, const struct err *err, void *ctx);
	void *ctx;
	struct forge_token *of; /* NULL: it does not wait */
};
/* May call at once. */
void forge_token_get(struct forgeway *forgeway, const struct forge_grant *grant,
                     struct forge_waiter *waiter);
/* Harmless when it does not wait. */
void forge_token_unwait(struct forge_waiter *waiter);
void forge_token_forget(struct forgeway *forgeway, const char *run);
void forge_token_drop_all(struct forgeway *forgeway);
/* The configured one; *ret is NULL where there is none. The caller wipes it. */
int forge_secret_read(const struct forgeway *forgeway, const struct forge *forge, char **ret,
                      struct err *err) NODISCARD;
/* "Authorization" for the API; the caller wipes. App: the token is a JWT. */
char *forge_auth(const struct forge *forge, const char *token, bool is_app) NODISCARD;
void forge_wipe(char **text);

/* --- forge_app.c --- */
/* A token that proves to the forge which app we are, for some minutes; the caller wipes. */
int forge_app_jwt(const struct forge *forge, uint64_t now_ms, char **ret,
                  struct err *err) NODISCARD;

/* --- forge_pull.c --- */
void forge_pull_drop_all(struct forgeway *forgeway);
void forge_pull_forget(struct forgeway *forgeway, const char *run);

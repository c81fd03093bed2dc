/*
 * What an agent asks of its client while it works: whether it may (where a person decides), files
 * and terminals. All of it happens inside its own sandbox, as the sandbox's user, by commands that
 * the keeper starts: there is no path that leads elsewhere. Private to src/task.
 *
 * A request begins after the commit that has it, and is answered once: what a daemon before this
 * one left open is begun again, and a terminal is known by the id of its command, which was chosen
 * before.
 */
#pragma once

#include <jansson.h>

#include "base/base.h"

struct acp_message;
struct job;
struct serve;

struct serve_ops {
	/* Takes the result; NULL: an error. */
	void (*answer)(const json_t *id, json_t *result, int code, const char *error, void *ctx);
	/* A person decided, or nobody did. */
	void (*decided)(const json_t *params, const json_t *id, bool is_allowed, void *ctx);
};

struct serve *serve_new(struct job *job, const struct serve_ops *ops, void *ctx);
void serve_free(struct serve *serve);
/* Whether it is a request that is served here: it is answered later, from the loop. */
bool serve_ask(struct serve *serve, const struct acp_message *message);
/* Whether anything was ever asked: what is said then cannot be put together again. */
bool serve_is_used(const struct serve *serve);
/* The turn is cancelled: nobody has to decide any more. */
void serve_cancel(struct serve *serve);

/* Into a write of the job; that is on disk; what a daemon before this one kept (NULL: nothing). */
json_t *serve_save(struct serve *serve) NODISCARD;
void serve_committed(struct serve *serve);
void serve_restore(struct serve *serve, const json_t *state);

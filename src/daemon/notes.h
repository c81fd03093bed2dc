/*
 * Events as the daemon writes them: what each kind carries.
 */
#pragma once

#include "model/event.h"

struct approval;
struct environment;
struct exec;
struct image;
struct json_t;
struct sandbox;
struct service;

/* Fill *ret (event_done afterwards). */
void note_sandbox(struct event *ret, enum event_kind kind, const struct sandbox *sandbox);
void note_limit(struct event *ret, const struct sandbox *sandbox, const char *reason,
                const char *detail);
/* Takes the data. */
void note_network(struct event *ret, const struct sandbox *sandbox, struct json_t *data);
/* A call to a service; takes the data. */
void note_call(struct event *ret, enum event_kind kind, const struct sandbox *sandbox,
               struct json_t *data);
void note_service(struct event *ret, enum event_kind kind, const struct service *service);
/* name NULL: it is not known any more. */
void note_provider(struct event *ret, enum event_kind kind, const char *id, const char *name);
void note_policy(struct event *ret, const struct sandbox *sandbox);
/* verdict and by may be NULL. */
void note_approval(struct event *ret, enum event_kind kind, const struct approval *approval,
                   const char *verdict, const char *by);
void note_exec(struct event *ret, enum event_kind kind, const struct exec *exec);
void note_image(struct event *ret, enum event_kind kind, const struct image *image);
void note_environment(struct event *ret, enum event_kind kind,
                      const struct environment *environment);
void note_daemon(struct event *ret);

/*
 * What was done goes on record here: rows of the audit from calls, floods of them counted. Rows are
 * given to the store, which commits them with the next change; a timer sees to those after which
 * none comes.
 */
#pragma once

#include "base/base.h"
#include "model/audit.h"

struct api;
struct call;
struct caller;
struct record;
struct request;

struct record *record_new(struct api *api);
/* Writes what was only counted until now; the store is still open. */
void record_shut(struct record *record);
void record_free(struct record *record);

/* A refusal: nobody known (caller NULL), or somebody who may not. object may be NULL. */
void record_denial(struct api *api, const struct request *request, const struct caller *caller,
                   const char *action, const char *object, const char *rule);
/* Somebody does what they may. With an object that is known now … */
void record_action(struct call *call, const char *object, const char *rule);
/* … or one that is still to be made: the ticket goes with it (store/audit.h). */
uint64_t record_creation(struct call *call, const char *rule);
/* Somebody uses what costs, outside every run. */
void record_use(struct api *api, const struct caller *caller, const char *action, const char *rule);

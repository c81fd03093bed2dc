/* All runs there are, and who pays for them. Private to src/task; job.h has it. */
#pragma once

#include "base/base.h"
#include "base/loop.h"
#include "task/tasks.h"
#include "task/tenant.h"

struct account;
struct fetch;
struct job;
struct keeping;
struct outside;

struct tasks {
	struct tasks_config config;
	struct job *jobs;     /* running */
	struct job *queue;    /* in the order they came */
	struct job *arriving; /* not stored yet */
	size_t running, queued;
	size_t starting_most; /* runs that wait for their sandboxes at one time */
	uint64_t started, finished;
	char turn[33]; /* the team that was served last */
	bool is_shut;
	struct account *accounts; /* account.c */
	struct outside *outside;  /* outside.c */
	struct tenant *tenants;   /* tenant.h */
	struct rhythm meter;      /* the rhythm of these */
	size_t account_count;
	struct loop_timer reload;
	struct loop_timer again;  /* the queue is looked at */
	struct loop_timer sweep;  /* resume.h */
	struct keeping *keepings; /* keep.h: those with a thread */
	struct fetch *fetches;    /* fetch.h, in the order they came */
};

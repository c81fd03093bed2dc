/*
 * Tasks, runs, the journal of each run and artifacts in the store. Part of store.h: the same rules
 * for writes and reads.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"
#include "model/task.h"
#include "store/store.h"

/* --- writing --- */
void store_add_task(struct store_write *write, const struct task *task);
/* Inserts the run as the newest of its task. ERR_CONFLICT when another came first. */
void store_add_run(struct store_write *write, const struct run *run);
/* Replaces what changes in a run's life. One that is over stays as it is: ERR_CONFLICT. */
/* With its journal: RUN_STEP_COUNT_ steps, those without a status left out; NULL: as it is. */
void store_put_run(struct store_write *write, const struct run *run,
                   const struct run_progress *steps);
/* What it did with its repository, as JSON. */
void store_put_run_git(struct store_write *write, const char *run, const char *json);
/* Where the talk with its agent is (task/drive.h), as JSON. */
void store_put_run_agent(struct store_write *write, const char *run, const char *json);
/* ERR_CONFLICT when the run is over. */
void store_set_output(struct store_write *write, const char *run, const char *json);

struct artifact {
	struct id id; /* af_… */
	struct id task, run;
	char *name;
	char *content_type;
	uint64_t bytes;
	char *sha256;
	uint64_t created_ms;
};
void artifact_done(struct artifact *artifact);
/* ERR_CONFLICT when the task has `most` already. */
void store_add_artifact(struct store_write *write, const struct artifact *artifact, uint64_t most);
void store_delete_artifact(struct store_write *write, const char *id);

/* --- reading --- */
int store_task_get(struct store *store, const char *id, struct task **ret,
                   struct err *err) NODISCARD;
struct task_filter {
	const struct caller *viewer; /* only what they may look at; NULL: all */
	const char *state;           /* of the newest run; NULL: all */
	bool is_session;             /* sessions, not tasks */
	const char *cursor;
	size_t limit;
};
struct task_page {
	struct task **items; /* newest first */
	size_t count;
	char *next_cursor;
};
int store_task_list(struct store *store, const struct task_filter *filter, struct task_page *ret,
                    struct err *err) NODISCARD;
void task_page_done(struct task_page *page);

int store_run_get(struct store *store, const char *id, struct run **ret, struct err *err) NODISCARD;
struct run_page {
	struct run **items; /* oldest first */
	size_t count;
	char *next_cursor;
};
int store_run_list(struct store *store, const char *task, const char *cursor, size_t limit,
                   struct run_page *ret, struct err *err) NODISCARD;
/* Runs that are not over, oldest first; after is an id or "". */
int store_run_unfinished(struct store *store, const char *after, size_t limit, struct run_page *ret,
                         struct err *err) NODISCARD;
void run_page_done(struct run_page *page);

/* ERR_NOT_FOUND; the caller frees *ret. */
int store_run_agent_get(struct store *store, const char *run, char **ret,
                        struct err *err) NODISCARD;

int store_run_git_get(struct store *store, const char *run, char **ret, struct err *err) NODISCARD;

struct progress_list {
	struct run_progress items[RUN_STEP_COUNT_];
	size_t count;
};
int store_run_steps(struct store *store, const char *run, struct progress_list *ret,
                    struct err *err) NODISCARD;
void progress_list_done(struct progress_list *list);

int store_artifact_get(struct store *store, const char *id, struct artifact *ret,
                       struct err *err) NODISCARD;
struct artifact_page {
	struct artifact *items; /* oldest first */
	size_t count;
	char *next_cursor;
};
int store_artifact_list(struct store *store, const char *task, const char *cursor, size_t limit,
                        struct artifact_page *ret, struct err *err) NODISCARD;
/* Those made before, the oldest first; without a cursor. */
int store_artifact_old(struct store *store, uint64_t before_ms, size_t limit,
                       struct artifact_page *ret, struct err *err) NODISCARD;
void artifact_page_done(struct artifact_page *page);

/* --- sums --- */
struct usage_row {
	char *key; /* of what they are summed up by; "" for keys: the socket */
	uint64_t runs, cost, input_tokens, output_tokens;
	uint64_t cpu_us, uptime_ms, memory_byte_seconds, disk_byte_seconds, network_bytes;
	uint64_t cached_tokens;
	uint64_t sandboxes; /* of no run: how many were started */
};
struct usage_filter {
	const struct caller *viewer; /* only what they may look at; NULL: all */
	const char *by;              /* task, agent, key, team or day */
	uint64_t since_ms;           /* runs that ended then or later, sandboxes from that day on */
};
struct usage_list {
	struct usage_row *items; /* by key */
	size_t count;
};
/* Over runs that are over, models outside of runs and sandboxes of no run. ERR_INVALID for an
 * unknown `by`. */
int store_usage(struct store *store, const struct usage_filter *filter, struct usage_list *ret,
                struct err *err) NODISCARD;
void usage_list_done(struct usage_list *list);

/*
 * What the daemon knows, on disk: sandboxes, execs, images, events, idempotency keys. Lives in
 * cloched only.
 *
 * Writes: a struct store_write collects changes and events; submitted, it becomes one
 * transaction, together with whatever else waits (group commit), in the store's own writer
 * thread. Its callback runs on the loop thread after the commit is on disk, so whoever answers
 * from the callback never acknowledges what a crash can lose. Writes happen in the order they
 * were submitted. A write is all or nothing; one that is refused (ERR_CONFLICT) leaves the
 * others of its group alone.
 * Reads: on the loop thread, a connection of their own; they see what is committed.
 *
 * Except for the writer thread inside, everything here is called from one thread.
 * Failures: ERR_NO_SPACE (full disk), ERR_IO (the disk, a damaged file), ERR_CONFLICT (a name is
 * taken, an image is in use), ERR_NOT_FOUND, ERR_INVALID (a bad cursor).
 */
#pragma once

#include "base/base.h"
#include "base/err.h"
#include "model/environment.h"
#include "model/event.h"
#include "model/exec.h"
#include "model/image.h"
#include "model/sandbox.h"
#include "model/service.h"
#include "model/strings.h"

struct store;
struct store_write;

struct store_options {
	const char *path;           /* of the database file; its folder must exist */
	const char *vfs;            /* SQLite VFS; NULL: the default. For fault tests */
	const uint8_t *audit_key;   /* AUDIT_HASH bytes its hashes are keyed with; NULL: zeroes */
	const uint8_t *sealing_key; /* 32 bytes (store/seal.h); NULL: nothing is sealed */
};

/* Opens or creates, migrates, checks, starts the writer thread. Refuses a store written by a
 * newer version and a damaged one, each with a message that says what to do. */
int store_open(const struct store_options *options, struct store **ret, struct err *err) NODISCARD;
/* Commits what was submitted, calls the callbacks that are due, then closes. Accepts NULL. */
void store_close(struct store *store);
void store_closep(struct store **store);

/* Readable when store_dispatch has something to do. */
int store_event_fd(const struct store *store);
/* Calls the callbacks of committed and failed writes, in order. They may submit new ones. */
void store_dispatch(struct store *store);
/* Every committed event, in the order of its number, just before the callback of its write. */
typedef void (*store_on_event)(const struct event *event, void *ctx);
void store_listen(struct store *store, store_on_event on_event, void *ctx);

/* --- writing --- */
struct store_result {
	bool ok;
	struct err err; /* when not ok */
	uint64_t seq;   /* number of the write's last event; 0 without one */
	uint64_t sandbox_seq;
};
typedef void (*store_on_done)(const struct store_result *result, void *ctx);

struct store_write *store_write_new(struct store *store);
/* Only for a write that was not submitted. */
void store_write_free(struct store_write *write);
/* on_done may be NULL. Takes the write. */
void store_write_submit(struct store_write *write, store_on_done on_done, void *ctx);
/* Blocks until it is on disk, for start-up and tests; callbacks of other writes stay due. Takes
 * the write. ret may be NULL. */
int store_write_wait(struct store_write *write, struct store_result *ret,
                     struct err *err) NODISCARD;

/* Each of these copies what it is given. *_put inserts or replaces by id. */
void store_put_sandbox(struct store_write *write, const struct sandbox *sandbox);
/* Of one that is there: how it is now. What it was asked to be stays as it is stored. */
void store_set_sandbox(struct store_write *write, const struct sandbox *sandbox);
/* With its execs; its events stay. Nothing happens when it is not there. */
void store_delete_sandbox(struct store_write *write, const char *id);
void store_put_exec(struct store_write *write, const struct exec *exec);
void store_delete_exec(struct store_write *write, const char *id);
void store_put_image(struct store_write *write, const struct image *image);
/* ERR_CONFLICT when a sandbox uses it, ERR_NOT_FOUND when it is not there. Its layers stay as
 * rows until store_delete_layer, so that a crash before their files are gone is not a leak. */
void store_delete_image(struct store_write *write, const char *id);
void store_delete_layer(struct store_write *write, const char *id);
/* Without its variables, which are rows of their own. */
void store_put_environment(struct store_write *write, const struct environment *environment);
/* With its variables. ERR_NOT_FOUND. */
void store_delete_environment(struct store_write *write, const char *id);
/* The value is sealed already. */
void store_put_variable(struct store_write *write, const char *environment_id, const char *name,
                        const char *sealed);
void store_delete_variable(struct store_write *write, const char *environment_id, const char *name);
/* Without what it has sealed, which stays as it is. */
void store_put_service(struct store_write *write, const struct service *service);
/* NULL: nothing any more. */
void store_seal_service(struct store_write *write, const char *id, const char *sealed);
/* ERR_NOT_FOUND. */
void store_delete_service(struct store_write *write, const char *id);
/* Numbers are given at commit; seq fields are ignored. */
void store_put_event(struct store_write *write, const struct event *event);
void store_put_meta(struct store_write *write, const char *name, const char *value);

struct idempotency {
	char *key;
	char *route;     /* "POST /sandboxes": the same key on another route is another key */
	char *body_hash; /* to refuse the key with another body */
	int status;      /* 0: the first request is still being worked on */
	char *response;  /* body of the first answer; may be NULL */
	uint64_t expires_ms;
};
/* ERR_CONFLICT when the key is there and has not expired at now: someone else has this request. */
void store_claim_idempotency(struct store_write *write, const struct idempotency *entry,
                             uint64_t now_ms);
void store_put_idempotency(struct store_write *write, const struct idempotency *entry);
void store_delete_idempotency(struct store_write *write, const char *key, const char *route);
/* Drops those that expired before now. */
void store_expire_idempotency(struct store_write *write, uint64_t now_ms);

/* The usual write in one call: a row and its event. event may be NULL. */
void store_sandbox_put(struct store *store, const struct sandbox *sandbox,
                       const struct event *event, store_on_done on_done, void *ctx);
void store_sandbox_delete(struct store *store, const char *id, const struct event *event,
                          store_on_done on_done, void *ctx);
void store_exec_put(struct store *store, const struct exec *exec, const struct event *event,
                    store_on_done on_done, void *ctx);
void store_event_put(struct store *store, const struct event *event, store_on_done on_done,
                     void *ctx);

/* --- reading --- */
/* By id, or by a name in that team (NULL: the default one). The caller frees. */
int store_sandbox_find(struct store *store, const char *team, const char *id_or_name,
                       struct sandbox **ret, struct err *err) NODISCARD;
/* By id or name in the default team. The caller frees with sandbox_free. */
int store_sandbox_get(struct store *store, const char *id_or_name, struct sandbox **ret,
                      struct err *err) NODISCARD;

/* By id, without the rest; SANDBOX_NONE: there is none, or why not. */
enum sandbox_state store_sandbox_state(struct store *store, const char *id, struct err *err);

struct sandbox_filter {
	const struct caller *viewer;  /* only what they may look at; NULL: all */
	uint32_t states;              /* mask of 1 << state; 0: all */
	const char *name, *image;     /* exact; an image by name or id; NULL: all */
	const struct strings *labels; /* key=value, all must be there; NULL: all */
	const char *made_by;          /* on this credential, or below it; NULL: all */
	bool hides_kept;              /* not those that are only the files of a run (resume.h) */
	const char *cursor;           /* next_cursor of the page before; NULL: the first page */
	size_t limit;                 /* 1 … LIMIT_PAGE; 0: 100 */
};
struct sandbox_page {
	struct sandbox **items; /* oldest first */
	size_t count;
	char *next_cursor; /* NULL: this was the last page */
};
int store_sandbox_list(struct store *store, const struct sandbox_filter *filter,
                       struct sandbox_page *ret, struct err *err) NODISCARD;
void sandbox_page_done(struct sandbox_page *page);

int store_exec_get(struct store *store, const char *id, struct exec **ret,
                   struct err *err) NODISCARD;
struct exec_filter {
	const char *sandbox; /* id; NULL: of all */
	bool running_only;
	const char *cursor;
	size_t limit;
};
struct exec_page {
	struct exec **items; /* oldest first */
	size_t count;
	char *next_cursor;
};
int store_exec_list(struct store *store, const struct exec_filter *filter, struct exec_page *ret,
                    struct err *err) NODISCARD;
void exec_page_done(struct exec_page *page);
/* The newest of a sandbox; ERR_NOT_FOUND when there is none. */
int store_exec_latest(struct store *store, const char *sandbox_id, struct exec **ret,
                      struct err *err) NODISCARD;

int store_image_get(struct store *store, const char *id_or_name, struct image **ret,
                    struct err *err) NODISCARD;
struct image_page {
	struct image **items; /* by name */
	size_t count;
	char *next_cursor;
};
int store_image_list(struct store *store, const char *cursor, size_t limit, struct image_page *ret,
                     struct err *err) NODISCARD;
void image_page_done(struct image_page *page);
/* Layers that no image uses any more: their files can go. */
int store_layers_unused(struct store *store, struct strings *ret, struct err *err) NODISCARD;

/* By id, or by a name in that team (NULL: the default one); with the names of its variables. */
int store_environment_get(struct store *store, const char *team, const char *id_or_name,
                          struct environment **ret, struct err *err) NODISCARD;
struct environment_filter {
	const char *team; /* its own and those for everybody; NULL: all */
	const char *cursor;
	size_t limit;
};
struct environment_page {
	struct environment **items; /* oldest first */
	size_t count;
	char *next_cursor;
};
int store_environment_list(struct store *store, const struct environment_filter *filter,
                           struct environment_page *ret, struct err *err) NODISCARD;
void environment_page_done(struct environment_page *page);
/* Appends NAME=sealed for each variable. */
int store_variables_get(struct store *store, const char *environment_id, struct strings *ret,
                        struct err *err) NODISCARD;

struct event_filter {
	const struct caller *viewer; /* only what they may look at; NULL: all */
	const char *sandbox;         /* id; then `after` counts in this sandbox's own numbers */
	const char *kind;            /* only of this kind, of one sandbox; NULL: all */
	uint64_t after;              /* events with a greater number; 0: from the start */
	size_t limit;                /* 1 … LIMIT_PAGE; 0: 100 */
};
struct event_page {
	struct event *items; /* by number */
	size_t count;
	bool more;
};
int store_event_list(struct store *store, const struct event_filter *filter, struct event_page *ret,
                     struct err *err) NODISCARD;
void event_page_done(struct event_page *page);
/* The newest committed number, 0 before the first; of one sandbox when given, else of the node. */
int store_event_last(struct store *store, const char *sandbox_id, uint64_t *ret,
                     struct err *err) NODISCARD;

/* ERR_NOT_FOUND also for one that expired. */
int store_idempotency_get(struct store *store, const char *key, const char *route, uint64_t now_ms,
                          struct idempotency **ret, struct err *err) NODISCARD;
void idempotency_free(struct idempotency *entry);
/* ERR_NOT_FOUND. The caller frees. */
int store_meta_get(struct store *store, const char *name, char **ret, struct err *err) NODISCARD;

struct store_counts {
	uint64_t sandboxes[SANDBOX_STATE_COUNT_];
	uint64_t execs;
	uint64_t execs_running;
	uint64_t images;
	uint64_t events;
};
int store_count(struct store *store, struct store_counts *ret, struct err *err) NODISCARD;

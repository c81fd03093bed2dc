/*
 * A write before, during and after its commit. Built on the loop thread (write.c), applied by the
 * writer thread (apply.c), ended on the loop thread (store.c); it has one owner at each moment.
 */
#pragma once

#include "model/audit.h"
#include "store/db.h"
#include "store/store.h"

/* One statement of a write, with the values it owns. */
struct op {
	struct op *next;
	enum sql sql;
	char *if_taken;   /* ERR_CONFLICT when something unique is there already */
	char *if_foreign; /* ERR_CONFLICT when a row that must or must not refer does not or does */
	enum err_code if_none; /* the failure when no row was changed; ERR_OK: none */
	char *if_none_text;
	struct event *event;     /* in the write's list; it has the values of EVENT_ADD */
	struct audit_row *audit; /* not NULL: a row of the audit, and no statement of its own */
	size_t owner_at; /* where owner, team and visibility of the row are among the values, which
	                  * begin with its id; 0: no event is about it */
	size_t count;
	struct value values[];
};

struct store_write {
	struct store_write *next; /* in the queue or among the done */
	struct store *store;
	struct op *first;
	struct op **last;
	struct event **events; /* owned; in order */
	size_t event_count;
	store_on_done on_done;
	void *ctx;
	struct store_result result;
	bool is_done; /* guarded by the store's lock */
};

/* Adds a statement with copies of the values. */
struct op *write_add_values(struct store_write *write, enum sql sql, const struct value *values,
                            size_t count);
#define write_add(write, sql, ...)                                                                 \
	write_add_values(write, sql, (const struct value[]){__VA_ARGS__},                          \
	                 sizeof((const struct value[]){__VA_ARGS__}) / sizeof(struct value))

/* What the column of a sandbox's name holds; the caller frees. */
char *write_scoped_name(const char *team, const char *name) NODISCARD;
/* Applies the statements inside a transaction that is open. */
int write_apply(struct store_write *write, struct db *db, struct err *err) NODISCARD;
/* Gives the row its number and hash, in the writer thread. */
int audit_apply(struct store *store, struct audit_row *row, struct db *db,
                struct err *err) NODISCARD;
/* A write with the rows that wait, or NULL. */
struct store_write *audit_write_waiting(struct store *store);
/* True when the failure concerns this write alone. */
bool write_is_refusal(const struct err *err);

/*
 * The audit in the store. Rows are given in on the loop thread and wait for the next write: they
 * are committed before it or with it, in the same group, so a change and the record of who made it
 * cost one commit. Whoever gives rows in also calls store_audit_flush now and then, for actions
 * that write nothing. Part of store.h.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"
#include "model/audit.h"
#include "store/store.h"

/* Copies the row. */
void store_audit(struct store *store, const struct audit_row *row);
/* As store_audit, for an object that does not exist yet: the row waits until store_audit_bind says
 * its id (or store_audit_flush gives up waiting). The number goes where the object is made. */
uint64_t store_audit_open(struct store *store, const struct audit_row *row);
/* Harmless for a ticket that was bound or flushed. */
void store_audit_bind(struct store *store, uint64_t ticket, const char *object);
/* Commits what waits; those with an open ticket only when they are older than patience_ms. */
void store_audit_flush(struct store *store, uint64_t now_ms, uint64_t patience_ms);
bool store_audit_waits(const struct store *store);

struct audit_filter {
	const char *team; /* id; NULL: of all */
	bool backwards;   /* newest first */
	uint64_t after;   /* numbers greater (backwards: smaller) than this; 0: from the start */
	size_t limit;
};
struct audit_page {
	struct audit_row *items;
	size_t count;
	bool more;
};
int store_audit_list(struct store *store, const struct audit_filter *filter, struct audit_page *ret,
                     struct err *err) NODISCARD;
void audit_page_done(struct audit_page *page);

/* --- old rows --- */

/* Where the record begins, once rows were removed. */
struct audit_anchor {
	uint64_t seq; /* of the newest that went; 0: all are there */
	uint8_t hash[AUDIT_HASH];
	bool holds; /* it is as it was written */
};
int store_audit_anchor(struct store *store, struct audit_anchor *ret, struct err *err) NODISCARD;

struct audit_span {
	uint64_t first, last; /* 0: there is none */
	uint8_t hash[AUDIT_HASH];
};
/* The oldest rows, at most so many, that are from before that time. */
int store_audit_old(struct store *store, uint64_t before_ms, size_t most, struct audit_span *ret,
                    struct err *err) NODISCARD;
/* Removes them and everything before, and moves the anchor. */
void store_prune_audit(struct store_write *write, const struct audit_span *span);

/* --- verifying: rows in order, in as many calls as one likes --- */
struct audit_check {
	uint64_t seq;    /* the last found good so far */
	uint64_t pruned; /* up to this one they were removed on purpose */
	uint8_t hash[AUDIT_HASH];
	bool is_over;
	uint64_t bad_seq; /* the first bad number; 0: none */
	char what[160];   /* what is wrong with it */
};
/* The next rows, at most `limit`; is_over when the end was reached or something is wrong. */
int store_audit_verify(struct store *store, struct audit_check *check, size_t limit,
                       struct err *err) NODISCARD;
/* What a row's hash must be after this one. Pure. */
void audit_hash(const uint8_t key[AUDIT_HASH], const uint8_t before[AUDIT_HASH],
                const struct audit_row *row, uint8_t ret[AUDIT_HASH]);

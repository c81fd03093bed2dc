/*
 * Turns of sessions in the store. Part of store.h: the same rules for writes and reads.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"
#include "model/turn.h"
#include "store/store.h"

/* ERR_CONFLICT when its number or its message id is taken. */
void store_add_turn(struct store_write *write, const struct turn *turn);
/* Replaces what changes in a turn's life. */
void store_put_turn(struct store_write *write, const struct turn *turn);

/* ERR_NOT_FOUND, also for a turn of another session. */
int store_turn_get(struct store *store, const char *session, const char *id, struct turn **ret,
                   struct err *err) NODISCARD;
/* The one that came as this message of a client; ERR_NOT_FOUND. */
int store_turn_by_message(struct store *store, const char *session, const char *message,
                          struct turn **ret, struct err *err) NODISCARD;
struct turn_page {
	struct turn **items; /* oldest first */
	size_t count;
	char *next_cursor;
};
int store_turn_list(struct store *store, const char *session, const char *cursor, size_t limit,
                    struct turn_page *ret, struct err *err) NODISCARD;
/* Those that are not over: all of them. */
int store_turn_open(struct store *store, const char *session, struct turn_page *ret,
                    struct err *err) NODISCARD;
void turn_page_done(struct turn_page *page);
/* The number of the newest one; 0: there is none. */
int store_turn_last(struct store *store, const char *session, uint64_t *ret,
                    struct err *err) NODISCARD;

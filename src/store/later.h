/*
 * Writes that nobody waits for, in cloched: rows of which a client was told before they are stored.
 */
#pragma once

#include "store/store.h"

/* As store_write_submit; it is committed with the next one that somebody waits for, or by
 * store_hurry, and wakes nobody before. */
void store_write_submit_later(struct store_write *write, store_on_done on_done, void *ctx);
/* Commits what is there. */
void store_hurry(struct store *store);

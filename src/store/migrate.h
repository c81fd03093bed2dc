/*
 * Brings a database to this version's schema: the numbered files of store/migrations, embedded at
 * build, each in a transaction of its own with the row that records it.
 */
#pragma once

#include "store/db.h"

/* Refuses a database whose schema is newer than this program, before anything is changed. */
int migrate(struct db *db, struct err *err) NODISCARD;
/* Not further than to that version: what an earlier program had, for tests. */
int migrate_to(struct db *db, int64_t last, struct err *err) NODISCARD;

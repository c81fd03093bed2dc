/*
 * The numbers of events, and whose they are. Given by the writer thread, which is the only one
 * that writes: they are read from the database once and counted in memory from there on, so that an
 * event is one plain insertion. Whatever is rolled back takes all of this memory with it.
 */
#pragma once

#include "model/event.h"
#include "store/db.h"

struct numbers;
struct op;

struct numbers *numbers_new(void);
/* Accepts NULL. */
void numbers_free(struct numbers *numbers);
/* Fills in what the store says of an event: its numbers, its owner, who sees it. */
int numbers_give(struct numbers *numbers, struct db *db, struct event *event,
                 struct err *err) NODISCARD;
/* A row that events are about was written: what comes later has the owner it names. */
void numbers_learn(struct numbers *numbers, const struct op *op);
/* After a rollback: some of what was given was taken back. */
void numbers_forget(struct numbers *numbers);

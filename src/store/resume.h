/*
 * Resume records in the store: which files of a run are left, and for how long. The files are those
 * of a stopped sandbox; a record that is used belongs to the run that goes on with them. Part of
 * store.h: the same rules for writes and reads.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"
#include "base/id.h"
#include "store/store.h"

struct resume {
	struct id run, team, sandbox;
	struct id parent; /* the run that this one went on with; "": none */
	struct id used_by;
	char *runtime, *image;
	char *branch;      /* NULL: none */
	char *fingerprint; /* of what the files belong to: another one cannot be started with them
	                    */
	uint64_t bytes;
	uint64_t created_ms, expires_ms;
};
void resume_done(struct resume *resume);

/* --- writing --- */
void store_put_resume(struct store_write *write, const struct resume *resume);
/* ERR_CONFLICT when another run came first or the record is gone. */
void store_use_resume(struct store_write *write, const char *run, const char *by);
/* Nothing happens when it is gone. */
void store_delete_resume(struct store_write *write, const char *run);

/* --- reading --- */
int store_resume_get(struct store *store, const char *run, struct resume *ret,
                     struct err *err) NODISCARD;
struct resume_page {
	struct resume *items; /* those that expire first come first */
	size_t count;
};
/* Records that are too old, and of the others those that are too many or too large together (0: no
 * limit), the oldest first. */
struct resume_bounds {
	uint64_t now_ms;
	uint64_t most, bytes;
};
int store_resume_due(struct store *store, const struct resume_bounds *bounds, size_t limit,
                     struct resume_page *ret, struct err *err) NODISCARD;
void resume_page_done(struct resume_page *page);

/*
 * What an agent tells, as events of its task: redacted, bounded each and all together, and whole
 * where it comes in small pieces. Private to src/task.
 */
#pragma once

#include <jansson.h>

#include "base/base.h"
#include "base/buf.h"

struct acp_stop;
struct job;
struct redact;

enum { TOLD_MESSAGE, TOLD_THOUGHT, TOLD_COUNT };

struct told {
	struct job *job;
	struct redact *redact;
	struct buf said[TOLD_COUNT]; /* that no event has yet */
	struct buf answer;           /* of this turn, since its last tool call: redacted, too */
	uint64_t count, bytes;       /* of events up to now */
	uint64_t left_out;           /* events that were too many */
	size_t room;                 /* bytes that the event now put together may still take */
};

void told_init(struct told *told, struct job *job);
void told_done(struct told *told);
void told_start(struct told *told, const char *session, const char *agent);
void told_update(struct told *told, const char *kind, const json_t *update);
void told_permission(struct told *told, const json_t *params, bool is_allowed);
void told_stop(struct told *told, const struct acp_stop *stop);
/* A text of the agent without secrets, as all that is kept has to be. The caller frees. */
char *told_redacted(struct told *told, const char *text) NODISCARD;
/* What was said up to now becomes events. */
void told_flush(struct told *told);

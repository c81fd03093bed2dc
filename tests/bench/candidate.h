/*
 * What the timing programs measure, one candidate a line, its fields separated by tabs:
 *   spawn NAME SETTLE ARGV...                        a program, from posix_spawn to its wait status
 *   run   NAME SETTLE SOCKET REQUEST                 a RunRequest on an open conversation of GET
 *                                                    /run, until the exit status after the removal
 *   post  NAME SETTLE SOCKET PATH BODY               one POST on an open connection that answers
 *                                                    with an exitCode
 *   life  NAME SETTLE SOCKET CREATE-BODY EXEC-BODY   create, exec and remove: three requests on one
 *                                                    open connection
 *   make  NAME SETTLE SOCKET CREATE-BODY             create alone; the removal is not in the sample
 *   keep  NAME SETTLE SOCKET CREATE-BODY             create alone, and it stays
 * SETTLE: milliseconds to leave alone after a sample, for what the candidate still does afterwards:
 * a pool that fills up again must not slow the next candidate. With "/N" behind it the candidate is
 * slow and takes part in every Nth round only. "%n" in an argument of a program is a number never
 * used before.
 */
#pragma once

#include <stddef.h>

#include "client.h"

enum { CANDIDATE_FIELDS = 64 };

struct candidate {
	char *field[CANDIDATE_FIELDS + 1]; /* NULL behind the last */
	size_t count;
	const char *name;
	unsigned settle_ms;
	unsigned every; /* rounds */
	const struct kind *kind;
	struct client client;
	char made[64]; /* id of a sandbox to remove after the sample */
};

/* Takes the line apart in place; it must stay. NULL when it is none. */
struct candidate *candidate_new(char *line);
/* Another with the same fields, for another thread. */
struct candidate *candidate_copy(const struct candidate *candidate);

/* Opens what the sample needs open. 0, or -errno. */
int candidate_prepare(struct candidate *candidate);
/* 0, or how it failed: a status, or -errno. */
int candidate_sample(struct candidate *candidate);
/* Takes away what the sample left; after a failure the connection, too. */
void candidate_clean_up(struct candidate *candidate, int result);

/* What the commands about tasks share: following a run to its end, and showing what came of it. */
#pragma once

#include <jansson.h>

#include "cli/cli.h"

/* Follows the events of a task until its run is over, showing steps on a terminal; a daemon that
 * restarts is waited for. timeout_ms 0: as long as it takes. ERR_TIMEOUT. */
int task_follow(struct cli *cli, const char *id, uint64_t timeout_ms) NODISCARD;
/* Prints the output of the newest run and, for people, how it ended. Returns the exit status: the
 * agent's, 124 for a timeout, 1 for any other end that is not a good one. */
int task_show_end(struct cli *cli, const char *id);
/* "outputSchema" from a file, or from the schema itself; NULL: nothing. */
int task_put_schema(json_t *body, const char *schema, struct err *err) NODISCARD;
/* All that can be read; the caller frees. */
int task_read_all(int fd, char **ret, struct err *err) NODISCARD;
/* Prints {"task":…}, or the facts. */
void task_show(struct cli *cli, const json_t *answer);

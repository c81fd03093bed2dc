/*
 * Calls to the daemon's REST API: targets, JSON bodies, problem documents turned into errors.
 * One connection per command, kept alive between calls. Failures fill cli->err.
 */
#pragma once

#include <jansson.h>

#include "base/base.h"
#include "base/err.h"
#include "cli/cli.h"
#include "cli/http.h"
#include "cli/sse.h"

/* "/api/v1" plus the format, in which only %s is allowed and is escaped for URLs. The caller
 * frees. */
char *client_target(const char *fmt, ...) PRINTF(1, 2) NODISCARD;
/* Appends ?name=value or &name=value to *target; nothing when value is NULL. */
void client_query(char **target, const char *name, const char *value);
void client_query_u64(char **target, const char *name, uint64_t value);

/* Connects if that is not done yet. ERR_UNAVAILABLE when no daemon answers. */
int client_connect(struct cli *cli) NODISCARD;
/*
 * Sends and reads the head; an answer other than 2xx becomes cli->err. The body is then read from
 * cli->http by the caller. A connection that broke before the answer is opened again once, if the
 * request can be repeated (no stream).
 */
int client_send(struct cli *cli, const struct http_request *request) NODISCARD;
/* Gives the next bytes of an upload; 0 at the end; <0 with err breaks it off. */
typedef ssize_t (*client_source)(void *ctx, void *bytes, size_t size, struct err *err);
/* As client_send for a request with has_stream, of which source gives the bytes. Not repeated. */
int client_upload(struct cli *cli, const struct http_request *request, client_source source,
                  void *ctx) NODISCARD;
/* The answer's body as JSON; NULL for an empty one. */
int client_read_json(struct cli *cli, json_t **ret) NODISCARD;
/* JSON both ways. body may be NULL and is not taken; ret may be NULL; *ret is a new reference and
 * NULL for an empty answer. */
int client_json(struct cli *cli, const char *method, const char *target, const json_t *body,
                json_t **ret) NODISCARD;
static inline int client_get(struct cli *cli, const char *target, json_t **ret)
{
	return client_json(cli, "GET", target, NULL, ret);
}
/* Fills cli->err from the problem document of the answer at hand; returns -1. */
int client_problem(struct cli *cli);
/* Fills cli->err from a problem document and returns -1; 0 when it says nothing. */
int client_set_problem(struct cli *cli, const json_t *problem);
/* Reads on until an event is there. 1: *ret; 0: the stream ended; <0. */
int client_next_event(struct cli *cli, struct sse *sse, struct sse_event *ret) NODISCARD;

#define auto_json auto_(client_json_freep)
void client_json_freep(json_t **json);
/* Members of an answer; "" and 0 when absent or of another type. */
const char *client_str(const json_t *object, const char *key);
uint64_t client_u64(const json_t *object, const char *key);
/* A whole `rm NAME...`: parses the command line and deletes each of a collection such as "images";
 * a failure names the one it is about. */
int client_remove_each(struct cli *cli, const char *collection) NODISCARD;

/* What the commands about sessions share. */
#pragma once

#include <jansson.h>

#include "base/base.h"
#include "cli/cli.h"

/* The exit status: 0 when it was answered, 124 when it took too long, 1 otherwise. */
int session_show_turn(const json_t *turn);
/* headers may be NULL; *ret is a new reference. */
int session_post(struct cli *cli, const char *target, const json_t *body, const char *headers,
                 json_t **ret) NODISCARD;
int session_get(struct cli *cli, const char *id, json_t **ret) NODISCARD;
bool session_is_over(const json_t *session);

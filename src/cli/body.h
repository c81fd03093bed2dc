/*
 * Bodies of requests from options of the command line: what was not said is not sent. Pure.
 */
#pragma once

#include <jansson.h>

#include "base/err.h"
#include "cli/cli.h"

/* NULL is not said. */
void body_put_text(json_t *body, const char *name, const char *text);
/* 0 is not said. */
void body_put_ms(json_t *body, const char *name, uint64_t ms);
void body_put_list(json_t *body, const char *name, const struct opt_list *list);
/* KEY=VALUE entries as an object. */
int body_put_map(json_t *body, const char *name, const struct opt_list *list,
                 struct err *err) NODISCARD;

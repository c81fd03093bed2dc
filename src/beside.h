/*
 * The program beside us: what the command line leaves to cloched, because it needs libraries that a
 * static program does not map. Beside main.c, because the command line may not know where it is.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"

/* For struct cli_roles. */
int beside_tunnel(const char *host, uint16_t port, bool is_tls, struct err *err) NODISCARD;
int beside_become(const char *const *words, struct err *err);

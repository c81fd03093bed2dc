/*
 * The layer of the host image: what lies around this machine's own /usr (which the keeper binds).
 * Built by a worker, with the rights of nobody in particular; kept until this machine's /etc
 * changes. The broker only knows which layer is the current one.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"
#include "base/id.h"
#include "broker/site.h"

/* At start: takes the newest one there is, or builds the first; drops replaced ones that no running
 * sandbox stands on. Fills site->host_layer. */
int hostimage_prepare(struct site *site, struct err *err) NODISCARD;
/* Looks whether the current one still is what this machine would give, and builds another if not.
 * *ret_id is the one to use from now on. Blocking: a task. */
int hostimage_refresh(const struct site *site, struct id *ret_id, struct err *err) NODISCARD;

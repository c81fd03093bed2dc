/*
 * What is left of sandboxes that are over and could not be taken down: asked for again, ever more
 * seldom, until it works. Nobody waits for it; a crash is no loss, the next start finds the same.
 */
#pragma once

#include "base/base.h"

struct fleet;
struct leftover;

/* The broker could not take it down. */
void leftover_add(struct fleet *fleet, const char *id, bool keep_files);
/* It starts again: what is there belongs to it from now on. */
void leftover_forget(struct fleet *fleet, const char *id);
size_t leftover_count(const struct fleet *fleet);
void leftover_free_all(struct fleet *fleet);

/*
 * Which addresses which names led to, for as long as that holds: what a connection is judged by.
 * Filled by the resolver from answers it handed inside, so nobody inside can add to it. Bounded:
 * the pin that ends soonest goes first. Times are CLOCK_BOOTTIME in ms. No I/O.
 */
#pragma once

#include "base/addr.h"
#include "base/base.h"

enum { PINS_MOST = 4096 };

struct pin {
	struct addr addr;
	char *name; /* normal form */
	uint64_t until_ms;
};

struct pins {
	struct pin *list;
	size_t count, room;
};

void pins_done(struct pins *pins);
/* Adds it, or lets it hold longer. */
void pins_add(struct pins *pins, const char *name, const struct addr *addr, uint64_t until_ms,
              uint64_t now_ms);
bool pins_has(const struct pins *pins, const char *name, const struct addr *addr, uint64_t now_ms);
/* Iterates over the names of an address: start with *at = 0; NULL at the end. */
const char *pins_next_name(const struct pins *pins, const struct addr *addr, uint64_t now_ms,
                           size_t *at);
/* Iterates over the addresses of a name. */
const struct addr *pins_next_addr(const struct pins *pins, const char *name, uint64_t now_ms,
                                  size_t *at);

/*
 * How far something reaches into the network, in a form that can be compared: a child's reach must
 * lie within its parent's. Made from environments and capabilities; what a sandbox really enforces
 * is model/policy.h. Pure.
 *
 * A rule is a pattern and its ports: "*" (every public name), "*.example.org", "example.org" or a
 * CIDR. Denied patterns only ever grow on the way down, so they need no comparing.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"
#include "model/strings.h"

enum { REACH_PORTS = 100, REACH_RULES = 1024, REACH_TEXT = 1024 };

struct reach_rule {
	char *pattern;
	bool ports_any;
	uint16_t ports[REACH_PORTS]; /* ascending */
	size_t port_count;
};

/* Zeroed memory reaches nothing. */
struct reach {
	struct reach_rule *rules;
	size_t count;
	bool udp;              /* other than DNS */
	struct strings denied; /* patterns, whatever the rules say */
};

void reach_done(struct reach *reach);
/* Replaces what *to holds. */
void reach_copy(struct reach *to, const struct reach *from);
/* "PATTERN", "PATTERN:443,80", "[CIDR]:443": adds a rule; without ports all of them. ERR_INVALID;
 * ERR_TOO_LARGE above REACH_RULES. */
int reach_add(struct reach *reach, const char *text, struct err *err) NODISCARD;
/* As reach_add writes it; out has room for REACH_TEXT bytes. */
void reach_format(const struct reach_rule *rule, char *out, size_t size);
/* Everything: every public name, any port, UDP too. */
void reach_add_all(struct reach *reach);
/* Adds all rules and denials of more. */
void reach_join(struct reach *reach, const struct reach *more);
/* Denies what outer denies as well. */
void reach_deny(struct reach *reach, const struct reach *outer);
/* Whether every rule of inner is covered by rules of outer, port by port. If not, `extra` (room for
 * REACH_TEXT bytes) says which is not. */
bool reach_within(const struct reach *inner, const struct reach *outer, char *extra, size_t size);
/* Whether a connection to this name (normal form) or address is covered. For tests. */
bool reach_has(const struct reach *reach, const char *host, uint16_t port);

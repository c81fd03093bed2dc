/*
 * An environment: a named network policy as people write it, and variables for the commands of
 * sandboxes that use it. It is compiled (model/policy.h) when a sandbox starts, so a later change
 * of the environment changes the next sandbox and not the running one. Pure.
 *
 * Lists come in two kinds of "nothing": null is no limit, [] is nothing at all. `*_any` is null.
 */
#pragma once

#include "base/addr.h"
#include "base/base.h"
#include "base/err.h"
#include "base/id.h"
#include "model/access.h"
#include "model/strings.h"

enum environment_level {
#define LEVEL(level, text, about) ENVIRONMENT_##level,
#include "model/levels.def"
#undef LEVEL
	ENVIRONMENT_LEVEL_COUNT_
};

enum environment_mode {
#define MODE(mode, text, about) ENVIRONMENT_##mode,
#include "model/levels.def"
#undef MODE
	ENVIRONMENT_MODE_COUNT_
};

enum { ENVIRONMENT_PORTS = 100, ENVIRONMENT_NO_CAP = 0 };

struct environment {
	struct id id; /* en_…; "" for the built-in ones and those of config.toml */
	char *name;
	char *origin; /* "built-in", "config" (both read-only) or "api" */
	enum environment_level level;
	enum environment_mode mode;
	bool domains_any;              /* null: every name (custom only) */
	struct strings domains;        /* normal forms, "*.x.org" covers x.org */
	bool include_default;          /* the trusted list too (custom only) */
	struct strings denied_domains; /* win over everything that allows */
	bool ports_any;
	uint16_t ports[ENVIRONMENT_PORTS]; /* ascending */
	size_t port_count;
	struct strings cidrs;        /* the only way to private addresses */
	struct strings denied_cidrs; /* win */
	uint64_t egress_bytes;       /* cap on bytes sent out by one sandbox; 0: none */
	uint64_t egress_rate;        /* bytes per second out; 0: none */
	enum visibility visibility;
	char *owner, *team;       /* principal and team ids; NULL: the machine's own */
	struct strings variables; /* names only: the values are sealed and not here */
	uint64_t created_ms, updated_ms;
};

/* Level none, mode enforce, ports 443, 80 and 22, private. */
struct environment *environment_new(const char *name);
struct environment *environment_copy(const struct environment *environment);
/* Accepts NULL and half-built. */
void environment_free(struct environment *environment);
void environment_freep(struct environment **environment);

/* A name that a new one may have: not that of a built-in one. */
int environment_check_name(const char *name, struct err *err) NODISCARD;
/* Brings the lists to their normal forms, or says what is wrong: ERR_INVALID with the member, the
 * positions of every bad entry and the reason of the first. */
int environment_normalise(struct environment *environment, struct err *err) NODISCARD;
/* A list of numbers, each once, ascending. */
int environment_set_ports(struct environment *environment, const uint64_t *ports, size_t count,
                          struct err *err) NODISCARD;

/* "10.0.0.0/8" or "10.0.0.0/8:5432"; port 0: none of its own. */
bool environment_parse_cidr(const char *text, struct addr_cidr *ret, uint16_t *ret_port) NODISCARD;
/* A list of at most DOMAIN_LIST CIDRs in one form each, once each; ERR_INVALID with the positions.
 */
int environment_parse_cidrs(const char *what, const struct strings *list, struct strings *ret,
                            struct err *err) NODISCARD;

/* Whose it is; the machine's own are the operator's, for everybody. */
struct ownership environment_ownership(const struct environment *environment);
/* Whether a sandbox of this owner and team (NULL: the operator's, the default one) may use it. */
bool environment_serves(const struct environment *environment, const char *owner, const char *team);

/* none, trusted and full, which are always there and never change; NULL for another name. */
const struct environment *environment_builtin(const char *name);
/* In the order they are listed; NULL after the last. */
const struct environment *environment_builtin_at(size_t index);

const char *environment_level_name(enum environment_level level);
const char *environment_mode_name(enum environment_mode mode);
bool environment_level_from(const char *text, enum environment_level *ret) NODISCARD;
bool environment_mode_from(const char *text, enum environment_mode *ret) NODISCARD;

/* The trusted list, entry by entry; NULL after the last. */
const char *environment_trusted_at(size_t index);

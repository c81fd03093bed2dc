/*
 * What a sandbox may use, at most. One row of limits.def per limit feeds the struct, the config
 * keys, the API members, the defaults, the ranges and the messages. (The program's own hard caps
 * are base/limits.h.)
 */
#pragma once

#include "base/base.h"
#include "base/err.h"

enum limit_kind {
	LIMIT_KIND_BYTES, /* "64M" or a whole number */
	LIMIT_KIND_COUNT, /* a whole number */
	LIMIT_KIND_MILLI, /* "1.5", kept as 1500 */
	LIMIT_KIND_RATE,  /* "64M" or "64M/s": bytes per second */
};

struct limits {
#define LIMIT(field, name, json, kind, otherwise, least, most, about) uint64_t field;
#include "model/limits.def"
#undef LIMIT
};

struct limit {
	const char *name;
	const char *json;
	enum limit_kind kind;
	uint64_t otherwise; /* the default */
	uint64_t least;
	uint64_t most;
	const char *about;
	size_t offset; /* in struct limits; use limits_get and limits_set */
};

/* Ends with a row without a name. */
extern const struct limit limits_table[];

void limits_init(struct limits *limits);
/* By config name or by JSON member; NULL when there is none. */
const struct limit *limits_find(const char *name);
const struct limit *limits_find_json(const char *json);
uint64_t limits_get(const struct limits *limits, const struct limit *limit);

/* Each refuses with ERR_INVALID and "memory 1K is below the least of 4M" or the like; *limits is
 * then unchanged. */
int limits_set(struct limits *limits, const struct limit *limit, uint64_t value,
               struct err *err) NODISCARD;
/* A number as people write it in config and API: 1.5 for MILLI, whole for the others. */
int limits_set_number(struct limits *limits, const struct limit *limit, double value,
                      struct err *err) NODISCARD;
int limits_set_text(struct limits *limits, const struct limit *limit, const char *text,
                    struct err *err) NODISCARD;
/* Every value in its range. */
int limits_check(const struct limits *limits, struct err *err) NODISCARD;
/* Exact and short: "64M", "1.5", "512", "64M/s". out has room for at least 32 bytes. */
void limits_format(const struct limit *limit, uint64_t value, char *out, size_t size);

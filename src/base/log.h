/*
 * Logging: a fixed message plus fields. Text on a terminal, JSON lines otherwise, always to
 * stderr. The place that ends an error's journey logs once; everyone else returns.
 * Never logged: tokens, environments, bodies. Foreign bytes are escaped here.
 *
 *	log_info("keeper exited", LOG_STR("sandbox", id), LOG_INT("status", status));
 */
#pragma once

#include "base/base.h"
#include "base/err.h"

enum log_level { LOG_LEVEL_DEBUG, LOG_LEVEL_INFO, LOG_LEVEL_WARN, LOG_LEVEL_ERROR };

struct log_field {
	const char *name;
	const char *str; /* NULL: use num */
	int64_t num;
};

#define LOG_STR(name_, value) ((struct log_field){.name = (name_), .str = (value)})
#define LOG_INT(name_, value) ((struct log_field){.name = (name_), .num = (int64_t)(value)})
#define LOG_ERR(err_)         ((struct log_field){.name = "error", .str = (err_)->msg})

/* role appears in each line ("broker", "keeper"); level is the least one printed. */
void log_setup(const char *role, enum log_level level);
/* "debug", "info", "warn", "error"; false for anything else. */
bool log_parse_level(const char *name, enum log_level *ret);
void log_write(enum log_level level, const char *message, const struct log_field *fields,
               size_t count);

#define log_at(level, message, ...)                                                                \
	log_write(level, message, (const struct log_field[]){__VA_ARGS__},                         \
	          sizeof((const struct log_field[]){__VA_ARGS__}) / sizeof(struct log_field))
#define log_debug(message, ...) log_at(LOG_LEVEL_DEBUG, message, __VA_ARGS__)
#define log_info(message, ...)  log_at(LOG_LEVEL_INFO, message, __VA_ARGS__)
#define log_warn(message, ...)  log_at(LOG_LEVEL_WARN, message, __VA_ARGS__)
#define log_error(message, ...) log_at(LOG_LEVEL_ERROR, message, __VA_ARGS__)

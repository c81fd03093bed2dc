/*
 * Answers to the user: JSON as it came, or tables and facts for people. Whatever may have come
 * from inside a sandbox is escaped before it reaches a terminal.
 */
#pragma once

#include <jansson.h>

#include "base/base.h"
#include "cli/cli.h"

/* Digits of a number with a fraction: with 17, as JSON libraries have it, 5e-6
 * is 5.0000000000000004e-6. */
enum { OUTPUT_COLUMNS_MAX = 12, OUTPUT_DIGITS = 15 };

struct output_table {
	const char *const *titles; /* NULL-terminated, at most OUTPUT_COLUMNS_MAX */
	char **cells;
	size_t count, size;
};

/* The object or array in the chosen form; false when that is CLI_HUMAN and nothing was printed.
 * JSONL prints the items of an array one a line. */
bool output_json(const struct cli *cli, const json_t *json);
/* One object on a line of its own, flushed: for streams in both JSON forms. */
void output_json_line(const json_t *json);

void output_table_init(struct output_table *table, const char *const *titles);
/* Adds a cell (copied, escaped); rows fill from left to right. NULL and "" show as "-". */
void output_cell(struct output_table *table, const char *text);
void output_cell_bytes(struct output_table *table, uint64_t bytes);
void output_cell_ago(struct output_table *table, uint64_t real_ms);
/* Prints and frees. */
void output_table_print(struct output_table *table);
/* "name:   value" with the values in one column; value is escaped, nothing printed when empty. */
void output_fact(const char *name, const char *fmt, ...) PRINTF(2, 3);
/* Connections and bytes by host, as the API lists them. */
void output_hosts(const json_t *hosts);
/* Escaped text and a newline. */
void output_line(const char *text);
/* What a program or an agent said, a JSON string or NULL. In a pipe the bytes as they are; on a
 * terminal lines and colours, and nothing else that a terminal would act on. */
void output_text(FILE *to, const json_t *text);
/* What output_text shows on a terminal; to be freed. */
char *output_disarm(const char *text, size_t len);
/* "2026-01-31T12:00:00.123Z" to ms since 1970, or 0. */
uint64_t output_parse_time(const char *text);
/* "3m ago"; "" for 0. */
void output_format_ago(char *out, size_t size, uint64_t real_ms);

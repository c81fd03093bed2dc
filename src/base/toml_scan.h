/*
 * The words of TOML: blanks, comments, strings, numbers, dates. Used by toml.c alone; knows
 * nothing of tables. A scan is a cursor over foreign bytes; every function stays within it.
 */
#pragma once

#include "base/base.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/toml.h"

struct toml_scan {
	const char *name; /* of the file, for messages */
	const char *at;
	const char *end;
	int line;
	struct err *err;
};

/* Fills err with "NAME:LINE: what" and returns -1. */
int toml_scan_fail(struct toml_scan *scan, const char *fmt, ...) PRINTF(2, 3);
/* The byte `ahead` of the cursor, or -1 behind the end. */
int toml_scan_peek(const struct toml_scan *scan, size_t ahead);
/* True, and the cursor moves, if text is next. */
bool toml_scan_take(struct toml_scan *scan, const char *text);
/* Spaces and tabs. */
void toml_scan_blanks(struct toml_scan *scan);
/* Blanks, an optional comment, then a line end or the end of the text. */
int toml_scan_line_end(struct toml_scan *scan) NODISCARD;
/* Any number of blanks, comments and line ends. */
int toml_scan_lines(struct toml_scan *scan) NODISCARD;
/* At a quote: the string's value is appended to out, whose maximum is the length of the text. */
int toml_scan_string(struct toml_scan *scan, bool multiline_allowed, struct buf *out) NODISCARD;
/* A number, boolean or date into node's kind and value fields. */
int toml_scan_plain(struct toml_scan *scan, struct toml *node) NODISCARD;

/*
 * JSON as it comes, without a tree: tells each value with the names that lead to it, in constant
 * memory, wherever the bytes are split. For answers that are passed on while they are counted and
 * bodies of which three fields matter. Pure.
 */
#pragma once

#include "base/base.h"

enum { JSON_SCAN_DEPTH = 256, JSON_SCAN_PATHS = 16, JSON_SCAN_PATH = 120, JSON_SCAN_TEXT = 256 };

enum json_scan_kind {
	JSON_SCAN_STRING,
	JSON_SCAN_NUMBER,
	JSON_SCAN_TRUE,
	JSON_SCAN_FALSE,
	JSON_SCAN_NULL,
	JSON_SCAN_OBJECT, /* told when it begins, like an array */
	JSON_SCAN_ARRAY,
};

struct json_scan_value {
	enum json_scan_kind kind;
	const char *path;   /* "usage.input_tokens"; arrays add nothing, a dot in a name is \1 */
	unsigned depth;     /* containers around it */
	const char *text;   /* of a string, decoded, or of a number; its beginning if it is long */
	bool is_whole;      /* text is all of it */
	uint64_t length;    /* bytes of a string as it stands between its quotes */
	uint64_t from, end; /* where it stands; of a container its first byte */
};

/* Values deeper than JSON_SCAN_PATHS are checked and not told. */
typedef void (*json_scan_on_value)(const struct json_scan_value *value, void *ctx);

struct json_scan {
	json_scan_on_value on_value;
	void *ctx;
	uint64_t at;
	uint8_t state;
	bool is_key;
	unsigned depth;
	uint8_t is_object[JSON_SCAN_DEPTH / 8];
	uint8_t ends[JSON_SCAN_PATHS]; /* length of the path of the container at that depth */
	uint8_t path_len;
	char path[JSON_SCAN_PATH];
	/* the scalar under way */
	char text[JSON_SCAN_TEXT];
	uint16_t text_len;
	bool is_whole;
	uint64_t from;
	const char *literal;
	unsigned digits, code; /* of \uXXXX */
};

void json_scan_init(struct json_scan *scan, json_scan_on_value on_value, void *ctx);
/* Forgets what it read; positions begin at 0 again. */
void json_scan_reset(struct json_scan *scan);
/* false: this is no JSON, and nothing more is told until a reset. */
bool json_scan_feed(struct json_scan *scan, const void *bytes, size_t len);
/* That was all: true if it was one whole value. A number may only now be told. */
bool json_scan_end(struct json_scan *scan);

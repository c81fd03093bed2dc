/*
 * Every hard cap of the program on one page. A cap that a user may set is a default in
 * model/limits.def instead; these are what no setting can pass.
 */
#pragma once

enum {
	LIMIT_WIRE_BYTES = 128 * 1024, /* one message between our processes */
	LIMIT_WIRE_FIELDS = 4096,
	LIMIT_WIRE_FDS = 96,           /* layers, mounts and the fixed few of a launch */
	LIMIT_CHUNK_BYTES = 64 * 1024, /* bulk data in one message */
	LIMIT_ID_LEN = 32,
	LIMIT_NAME_LEN = 63,
	LIMIT_PATH_LEN = 4095,
	LIMIT_ARGV = 1024,
	LIMIT_ARGV_BYTES = 96 * 1024, /* argv and environment of one exec together */
	LIMIT_ENV = 512,
	LIMIT_LABELS = 32,
	LIMIT_MOUNTS = 16,
	LIMIT_LAYERS = 64,
	LIMIT_SLOTS = 4096, /* sandboxes of one broker, pool included */
	LIMIT_EXECS = 1024, /* kept per sandbox */
	LIMIT_CONFIG_BYTES = 1024 * 1024,
	LIMIT_JSON_BODY_BYTES = 1024 * 1024,
	LIMIT_JSON_DEPTH = 64,
	LIMIT_HTTP_HEADER_BYTES = 32 * 1024,
	LIMIT_PAGE = 1000, /* rows in one answer */
	LIMIT_OUTPUT_SEGMENT_BYTES = 1024 * 1024,
	LIMIT_OUTPUT_SEGMENTS = 16,                   /* kept per exec: the newest 16 MiB */
	LIMIT_OUTPUT_TOTAL_BYTES = 256 * 1024 * 1024, /* per sandbox; what ended first goes first */
	LIMIT_OUTPUT_WINDOW_BYTES = 1024 * 1024,      /* how far an attached reader may lag */
	LIMIT_STDIN_WINDOW_BYTES = 256 * 1024, /* input sent ahead of what the command has read */
	LIMIT_KEEPER_QUEUE_BYTES = 4 * 1024 * 1024, /* unsent messages to one daemon */
};

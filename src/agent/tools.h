/*
 * The tools of cloche-agent: each takes arguments that a model wrote and answers with a text for
 * the model. A failure is an answer, too: nothing is refused in silence.
 */
#pragma once

#include <jansson.h>

#include "base/base.h"
#include "base/buf.h"

enum { TOOLS_ANSWER_MOST = 64 * 1024 };

struct tools_call {
	const char *cwd;
	/* True: the turn is being cancelled; asked again and again while a command runs. */
	bool (*is_cancelled)(void *ctx);
	void *ctx;
	int watch_fd; /* becomes readable when that may have changed; -1: never */
};

struct tool {
	const char *name, *kind, *about, *parameters;
	/* Appends the answer. <0: it failed, and the answer says why. */
	int (*run)(const struct tools_call *call, const json_t *arguments, struct buf *answer);
};

const struct tool *tools_find(const char *name);
/* As the `tools` of a chat completion. */
json_t *tools_describe(void);
/* A line about a call for people; the caller frees. */
char *tools_title(const struct tool *tool, const json_t *arguments) NODISCARD;

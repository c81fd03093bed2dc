/*
 * Asking the model: chat completions over plain HTTP/1.1 to the gateway, streamed. Inside a sandbox
 * the gateway is reached by the socket that every sandbox has, so it needs no network; elsewhere
 * by an address. Blocking, but never deaf: whoever waits can be told to stop.
 */
#pragma once

#include "agent/chat.h"
#include "base/base.h"
#include "base/err.h"

struct model {
	const char *url;    /* http://NAME.cloche.internal or http://ADDRESS[:PORT] */
	const char *name;   /* of the model */
	const char *key;    /* bearer; NULL: none */
	const char *effort; /* reasoning_effort; NULL: as the model thinks best */
	int watch_fd;       /* see tools.h */
	bool (*is_cancelled)(void *ctx);
	/* A piece of the answer's text, as it comes. */
	void (*on_text)(const char *text, size_t len, void *ctx);
	/* Something went wrong and is tried again. */
	void (*on_retry)(const struct err *why, void *ctx);
	void *ctx;
};

/* `tools` may be NULL. ERR_UNAVAILABLE, ERR_PROTOCOL; ERR_GONE: it was cancelled. */
int model_ask(const struct model *model, const json_t *messages, const json_t *tools,
              struct chat_answer *answer, struct err *err) NODISCARD;

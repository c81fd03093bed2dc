/*
 * Request bodies, already of the right shape (schema.h), as our own structs. Pure.
 */
#pragma once

#include <jansson.h>

#include "base/base.h"
#include "base/err.h"
#include "model/config.h"
#include "model/exec.h"
#include "model/spec.h"

/* SandboxRequest on top of its profile, validated. *ret is initialised on success only. */
int decode_spec(const json_t *body, const struct config *config, struct spec *ret,
                struct err *err) NODISCARD;

struct decode_exec {
	struct exec *exec; /* owned: argv, user, cwd, tty, background */
	struct strings env;
	const char *input; /* points into the body; NULL: none */
	size_t input_len;
	uint64_t rows, cols, timeout_ms;
	bool has_stdin;
	bool attach;
};
/* ExecRequest for this sandbox; what is left out comes from the sandbox. */
int decode_exec(const json_t *body, const struct id *sandbox, const struct spec *spec,
                struct decode_exec *ret, struct err *err) NODISCARD;
void decode_exec_done(struct decode_exec *decoded);
/* A label that a caller may set: those that begin with "cloche/" are ours. */
int decode_check_label(const char *entry, struct err *err) NODISCARD;
/* "TERM", "SIGTERM" or "15". */
int decode_signal(const char *text, int *ret, struct err *err) NODISCARD;
/* Replaces the list by an array of texts, if the body has it. */
void decode_list(const json_t *body, const char *name, struct strings *list);
/* A text (one word) or an array of texts, as SCHEMA_TEXTS allows; appends. */
void decode_words(const json_t *value, struct strings *list);
/* An object of texts as key=value entries on top of what is there. */
int decode_entries(const json_t *map, struct strings *to,
                   int (*check)(const char *entry, struct err *err), struct err *err) NODISCARD;

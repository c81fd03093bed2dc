/*
 * The daemon's line to the broker (fd 3): one peer for all that needs privilege. Here are the
 * questions that belong to no runtime; runtimes use the same line for theirs.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"
#include "model/strings.h"
#include "runtime/peer.h"

struct broker_call;

/* Takes fd. on_gone: the broker ended; the daemon must, too. */
int broker_call_new(struct loop *loop, int fd, void (*on_gone)(void *ctx), void *ctx,
                    struct broker_call **ret, struct err *err) NODISCARD;
void broker_call_free(struct broker_call *call);
struct peer *broker_call_peer(struct broker_call *call);

struct broker_imported {
	struct strings layers; /* lowest first */
	char *config;          /* JSON text; NULL: none */
	const char *format;    /* what it was found to be */
	uint64_t bytes;
	uint64_t entries;
};
/* result is NULL when err has a code; valid during the call. */
typedef void (*broker_on_imported)(const struct broker_imported *result, const struct err *err,
                                   void *ctx);
/* Unpacks the archive behind archive_fd (not taken) as the layers of a new image. */
void broker_call_import(struct broker_call *call, const char *image_id, const char *format,
                        int archive_fd, broker_on_imported on_imported, void *ctx);

typedef void (*broker_on_done)(const struct err *err, void *ctx);
void broker_call_layer_rm(struct broker_call *call, const char *layer, broker_on_done on_done,
                          void *ctx);

struct broker_program {
	const char *manifest, *digest; /* its file, and of its text */
	const struct strings *values;  /* name=value */
	const char *input;             /* NULL: none */
	uint64_t timeout_ms;
};
struct broker_ran {
	int exit_code;
	int signal; /* 0: it ended by itself */
	bool timed_out, is_cut;
	const char *output, *errors;
	size_t output_len, errors_len;
};
/* result is NULL when err has a code; valid during the call. */
typedef void (*broker_on_ran)(const struct broker_ran *result, const struct err *err, void *ctx);
/* Runs the program that a manifest of commands names. */
void broker_call_run(struct broker_call *call, const struct broker_program *program,
                     broker_on_ran on_ran, void *ctx);

/* Each check as "name TAB status TAB detail TAB remedy". */
typedef void (*broker_on_doctor)(const struct strings *checks, const struct err *err, void *ctx);
void broker_call_doctor(struct broker_call *call, broker_on_doctor on_doctor, void *ctx);

/*
 * One conversation with a model, as chat completions want it: a list of messages, and the answer
 * that is put together from the pieces of a stream. Pure; what comes from the model is bounded.
 */
#pragma once

#include <jansson.h>

#include "base/base.h"
#include "base/buf.h"
#include "base/err.h"

enum {
	CHAT_CALLS_MOST = 32,             /* of tools, in one answer */
	CHAT_TEXT_MOST = 4 * 1024 * 1024, /* of one answer */
	CHAT_ARGUMENTS_MOST = 4 * 1024 * 1024,
};

struct chat_call {
	char *id, *name;
	struct buf arguments;
};

/* An answer under way. */
struct chat_answer {
	struct buf text;
	struct chat_call calls[CHAT_CALLS_MOST];
	size_t call_count;
	char finish[32];                /* finish_reason; "": the stream did not end */
	bool is_done;                   /* [DONE] came */
	bool has_refusal;               /* the model refused */
	uint64_t input, output, cached; /* tokens, as the provider counts; 0: it said nothing */
};

void chat_answer_init(struct chat_answer *answer);
void chat_answer_done(struct chat_answer *answer);
/* One event of the stream. *ret_text, *ret_len is the text in it, valid until the next call.
 * ERR_PROTOCOL; ERR_UNAVAILABLE with what the provider says about a failure. */
int chat_answer_take(struct chat_answer *answer, const char *data, size_t len,
                     const char **ret_text, size_t *ret_len, struct err *err) NODISCARD;
/* The answer as a message of the conversation. */
json_t *chat_answer_message(const struct chat_answer *answer) NODISCARD;

/* Rough, and rather too high: three bytes a token. */
uint64_t chat_estimate(const json_t *messages);
/*
 * Makes the conversation shorter until it is estimated at `most` tokens or less: first the results
 * of older tool calls are left out, then whole turns behind the first message, oldest first, with a
 * note where they were. The last turn stays. Returns how many messages changed or went.
 */
size_t chat_compact(json_t *messages, uint64_t most);

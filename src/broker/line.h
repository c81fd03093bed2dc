/*
 * The wire to cloched. Reads one message at a time and none while answers wait to be taken, so a
 * daemon that asks without listening only holds up itself.
 */
#pragma once

#include "base/base.h"
#include "base/loop.h"
#include "wire/wire.h"

struct broker;
struct line_answer;

struct line {
	struct broker *broker;
	int sock; /* -1: cloched does not run */
	struct loop_source source;
	struct line_answer *first, **last;
};

void line_init(struct line *line, struct broker *broker);
/* Takes sock; says hello. */
int line_open(struct line *line, int sock, struct err *err) NODISCARD;
void line_close(struct line *line);
/* cloched has ended: takes why it could not start, if it said so. */
void line_hear_out(struct line *line);
/* Sends now or when there is room; dropped when cloched is gone. */
void line_answer(struct line *line, const struct wire_out *out);
/* OK without fields, or the error, for a request. */
void line_answer_result(struct line *line, uint64_t request, const struct err *err);

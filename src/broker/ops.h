/*
 * The closed table of operations (ops.def): what cloched, which is only half trusted, can make root
 * do. Two kinds of refusal. A message that no honest daemon sends (unknown, malformed, without a
 * field it needs, with descriptors it must not have) is fatal: the daemon is killed and started
 * anew. A value that is out of range or names nothing gets an ERROR answer.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"
#include "wire/wire.h"

struct broker;
struct job;

/* 0: taken care of (answered now or later); -1: fatal, err says why. */
int ops_dispatch(struct broker *broker, struct wire_msg *msg, struct err *err) NODISCARD;

/* Handlers: 0: answered, or a job will; -1: refused, err is the answer. */
#define OP(message, handler, needs, fds, most)                                                     \
	int op_##handler(struct broker *broker, struct wire_msg *msg, struct err *err) NODISCARD;
#include "broker/ops.def"
#undef OP

/* The answer of a job that only says yes or no, or whose fields go to cloched as they are. */
void ops_relay(struct job *job, struct wire_msg *answer, const struct err *err);
/* A job that makes layers is over: what one that died left half-made goes, as soon as nobody else
 * makes any. */
void ops_layers_made(struct job *job, bool has_answered);

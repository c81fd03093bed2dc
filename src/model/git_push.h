/*
 * The beginning of a push (body of POST git-receive-pack): which references it wants to change, as
 * pkt-lines up to the first flush (gitprotocol-pack(5)); what follows is passed on unseen. Bytes
 * from inside a sandbox. Pure.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"

/* Longest list of references that is looked at: a run changes one. */
enum { GIT_PUSH_LIST = 16 * 1024 };

/* 1: all of them are refs/heads/BRANCH; 0: the list goes on behind these bytes; ERR_FORBIDDEN:
 * another one; ERR_INVALID: it is no such list, or too long. */
int git_push_read(const uint8_t *bytes, size_t len, const char *branch, struct err *err) NODISCARD;

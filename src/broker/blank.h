/*
 * Blank sandboxes: made in advance, without an image, waiting for the OP_LAUNCH that gives them
 * one. Each has a keeper with every privilege that listens to nobody but this process, by the
 * socket its launch was answered on: closing that is its end, and so is ours. Runs on the broker's
 * loop.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"

struct broker;
struct job;

struct blank;

/* The job launched one and is over: its socket is kept here. Without memory or epoll for it the
 * blank ends. */
void blanks_add(struct broker *broker, struct job *job);
bool blanks_has(const struct broker *broker, const char *sandbox);
/* Its socket, which is the caller's now; -1: there is none. */
int blanks_take(struct broker *broker, const char *sandbox);
/* It ends, if there is one. */
void blanks_drop(struct broker *broker, const char *sandbox);
void blanks_drop_all(struct broker *broker);

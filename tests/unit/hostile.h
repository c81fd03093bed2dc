/*
 * A hostile daemon: the broker's op table over a real line, with real zygotes whose children are
 * chosen by the test. What must hold after each attempt: either the daemon is cut off or it gets a
 * refusal, and nothing outside has changed.
 */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "broker/box.h"
#include "broker/context.h"
#include "broker/tasks.h"
#include "harness/test.h"
#include "keeper/keeper.h"

#define BOX_A   "sb_00000000000000000001"
#define BOX_B   "sb_00000000000000000002"
#define LAYER_A "ly_00000000000000000001"
#define LAYER_B "ly_00000000000000000002"

struct fixture {
	struct broker *broker;
	struct zygote_role launch;
	struct zygote_role tasks;
	int daemon; /* our end of the line */
	uint8_t *bytes;
	int dir;
};

/* The run functions of the two zygotes. */
void setup(struct fixture *f, zygote_fn keeper, zygote_fn tasks);
void teardown(struct fixture *f);
void make_layer(struct fixture *f, const char *id);
void open_line(struct fixture *f);
bool is_cut_off(const struct fixture *f);

/* Sends and lets the broker work until it has answered or cut us off. */
int ask(struct fixture *f, struct wire_out *out, struct wire_msg *answer, struct err *err);
/* Refused with this code, and the line still stands. */
void expect_refusal(struct fixture *f, struct wire_out *out, enum err_code code);
void expect_cut_off(struct fixture *f, struct wire_out *out);
void expect_ok(struct fixture *f, struct wire_out *out);

size_t count_entries(int dir_fd);
void begin_launch(struct wire_out *out, const char *sandbox, const char *layer);
void begin_reap(struct wire_out *out, const char *sandbox);

/*
 * A daemon's fleet on a stage: a real store and loop, and a broker and keepers that are played here
 * on the same loop. Every message they get is recorded as a word, every answer can be chosen.
 */
#pragma once

#include "api/engine.h"
#include "base/base.h"
#include "base/io.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/str.h"
#include "daemon/fleet.h"
#include "harness/test.h"
#include "model/strings.h"
#include "store/store.h"
#include "wire/wire.h"

struct stage_keeper {
	char id[33];
	int listen_fd, fd;
	struct loop_source listening, source;
	bool is_mute;        /* takes a stop and never ends */
	bool is_stuck;       /* answers nothing at all */
	uint64_t generation; /* of the policy it has */
	char fingerprint[65];
};

extern struct loop *loop;
extern struct store *store;
extern struct fleet *fleet;
extern struct engine *engine;
extern int stage_broker_fd, stage_sandboxes_fd;
/* What broker and keepers were asked, as words. */
extern char heard[4096];
/* How the broker answers. */
extern struct err launch_err;
extern bool hold_launch;
extern uint64_t held_launch;    /* number of the launch that waits */
extern int reaps_to_refuse;     /* so many are refused before one works */
extern enum err_code reap_code; /* as what */
extern bool hold_reap;          /* never answered */
extern struct strings alive;    /* what it lists */
/* How keepers answer to a policy. */
extern struct err policy_err;
/* NAME=value of the last exec, a blank behind each. */
extern char exec_env[512];
/* Ids a keeper claims to run. */
extern const char *exec_infos[4];

/* What the engine answered last. */
extern int answers;
extern struct err answer_err;
extern char answer_id[33];
extern enum sandbox_state answer_state;
void on_sandbox(const struct sandbox *sandbox, const struct err *err, void *ctx);
void on_done(const struct err *err, void *ctx);
void on_exec(const struct exec *exec, const struct err *err, void *ctx);

/* What a watch heard. */
extern int outputs, overs, rooms, over_code;
extern const struct exec_watch_ops watch_ops;

void set_up(void);
void tear_down(void);
/* The same state, another daemon; keepers outlive the first. */
void restart_daemon(void);

struct stage_keeper *keeper_of(const char *id);
struct stage_keeper *keeper_appears(const char *id);
void keeper_dies(struct stage_keeper *keeper);
void keeper_says_gone(struct stage_keeper *keeper, const char *reason);
void keeper_tells(struct stage_keeper *keeper, enum wire_type type, const char *exec);
void send_simple(int fd, enum wire_type type, uint64_t request, const struct err *err);

/* Waits for the answer, unless the launch is held. */
void create(const char *name);
/* In the sandbox of the last answer. */
struct exec *new_exec(void);
/* SANDBOX_NONE when there is no row. */
enum sandbox_state stored_state(const char *id);
/* The caller frees. */
char *stored_reason(const char *id);
/* How a stored exec ended; "" while it runs, NULL when there is no row. */
const char *exec_reason(const char *id);
/* The kinds of all events, in order. */
const char *event_words(void);

#define UNTIL(cond)                                                                                \
	do {                                                                                       \
		uint64_t begin_ = io_boot_ms();                                                    \
		while (!(cond)) {                                                                  \
			CHECK(io_boot_ms() - begin_ < 10000);                                      \
			CHECK(loop_step(loop, 50) >= 0);                                           \
		}                                                                                  \
	} while (0)

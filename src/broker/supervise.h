/*
 * Keeping cloched running: started at once, started again when it ends (after 100 ms, then twice as
 * long up to 5 s while it does not stay up), ended on request. Its API socket is made here and
 * stays open meanwhile, so clients wait instead of failing.
 */
#pragma once

#include <sys/types.h>

#include "base/base.h"
#include "base/err.h"
#include "base/loop.h"

struct broker;

struct supervise {
	struct broker *broker;
	const char *log_level; /* for cloched; NULL: its config's */
	int starter_sock;      /* rootless: who starts it for us; -1: we do. Owned */
	int api_fd;
	int tcp_fd; /* -1: no TCP */
	pid_t pid;  /* 0: does not run */
	int pidfd;
	struct loop_source exit_source;
	struct loop_source starter_source;
	struct loop_timer timer; /* to start again, or to kill */
	uint64_t backoff_ms;
	uint64_t started_ms;
	bool has_served;    /* one of them came as far as to greet us */
	struct err refusal; /* why the one that runs now cannot start; code OK: it said nothing */
	bool is_ending;
	int end_status;
};

/* Takes starter_sock (or -1). */
void supervise_init(struct supervise *supervise, struct broker *broker, int starter_sock,
                    const char *log_level);
/* Makes the API sockets; listen_option is that of tcp_listen. Early: clients that come while we
 * still prepare wait in their queues. */
int supervise_listen(struct supervise *supervise, const char *listen_option,
                     struct err *err) NODISCARD;
/* Starts cloched, which serves it. */
int supervise_start(struct supervise *supervise, struct err *err) NODISCARD;
/* It did what no honest daemon does: SIGKILL; it is started again. */
void supervise_kill(struct supervise *supervise, const struct err *why);
/* It says why it cannot start. Where trying again cannot help, and none has served yet, the broker
 * ends with that. */
void supervise_refused(struct supervise *supervise, const struct err *why);
/* SIGTERM, 5 s, SIGKILL; then stops the broker's loop with the status. */
void supervise_end(struct supervise *supervise, int status);
/* Removes the API socket. */
void supervise_done(struct supervise *supervise);

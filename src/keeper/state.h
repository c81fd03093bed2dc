/*
 * The running keeper, shared by its own files: keeper.c (life), serve.c (daemon connections),
 * exec.c and relay.c (commands and their streams), claim.c (of a parked one), meter.c (usage and
 * limits), sampled.c (a disk without a limit of its own), network.c (what leaves). One thread, one
 * loop.
 */
#pragma once

#include "base/base.h"
#include "base/buf.h"
#include "base/loop.h"
#include "keeper/launch.h"
#include "keeper/meter.h"
#include "keeper/slot.h"
#include "wire/outlog.h"
#include "wire/wire.h"

struct keeper;

/* One connection from a daemon. */
struct conn {
	struct conn *next;
	struct keeper *keeper;
	int sock;       /* owned */
	bool is_root;   /* the other side is */
	bool is_daemon; /* it said hello */
	struct loop_source source;
	struct packet *first, *last; /* not yet sent */
	size_t queued_bytes;
	bool is_behind; /* was not told of output while its socket was full */
};

enum exec_state {
	EXEC_STARTING, /* the spawner was told; no answer yet */
	EXEC_RUNNING,  /* the command runs */
	EXEC_ENDED,    /* status and all output are recorded */
};

/* One output stream of an exec. */
struct exec_stream {
	struct exec *exec;
	int fd; /* owned; -1 when at end */
	enum outlog_stream stream;
	struct loop_source source;
};

struct exec {
	struct exec *next;
	struct keeper *keeper;
	char id[LIMIT_ID_LEN + 1];
	enum exec_state state;
	char **argv; /* as asked, for lists; NULL-terminated */
	bool is_tty;
	bool is_attached;    /* hold output back for the reader */
	bool is_output_news; /* K_OUTPUT is due */
	bool has_loss;       /* some output could not be written; said once */
	uint64_t acked;      /* offset the attached reader has */
	uint64_t started_ms, ended_ms;
	pid_t leader, shim; /* inside numbers */
	int status_fd;      /* shim's socket; owned */
	struct loop_source status;
	int input_fd; /* owned; the terminal's master is streams[0].fd instead */
	struct loop_source input_source;
	struct buf input;
	uint64_t input_taken; /* bytes of input since the start */
	uint64_t input_eof;   /* where its end was said; UINT64_MAX: not yet */
	bool is_input_ended;  /* to be passed on once the buffer is empty */
	struct exec_stream streams[2];
	struct outlog_writer log;
	struct loop_timer timeout;
	struct loop_timer start; /* until it has started: first another spawner, then no more */
	uint64_t rate_limit, rate_tokens,
		rate_at_ms;      /* output bytes per second; UINT64_MAX: no limit */
	struct loop_timer again; /* looks whether it may be read: over the rate, or no memory */
	struct conn *starter;    /* who waits for the answer to K_EXEC; NULL when gone */
	uint64_t start_request;
	bool may_answer_once; /* who started it understands an answer that tells of its end, too */
	uint64_t oom_kills_before, pids_denied_before;
	bool is_killed;             /* a kill was asked for: reason is set */
	unsigned int kills;         /* how often */
	int exit_code, exit_signal; /* signal 0: code counts */
	const char *reason;
};

/* What a disk that is only measured (disk_backend "sampled") may hold before commands are ended. */
struct sampled {
	uint64_t bytes, inodes; /* 0: the limit itself */
	unsigned int failures;  /* in a row */
};

struct keeper {
	struct loop *loop;
	struct slot slot;
	struct launch launch;
	struct loop_source listener, control, spawn, init;
	struct conn *conns;
	struct exec *execs;
	size_t exec_count;
	struct outlog_writer spare; /* of the next command */
	bool has_spare;
	struct loop_timer spare_due;
	struct meter meter;
	struct sampled sampled;
	uint64_t respawned_ms; /* init was told to make another spawner */
	unsigned int holds;    /* who wants the work group frozen */
	bool is_frozen;
	bool is_paused;  /* K_FREEZE: one of the holds */
	bool is_let_die; /* thawed for a moment all the same */
	struct loop_timer sample, deadline, stop, accept_again, refreeze;
	uint64_t busy_since_ms; /* CLOCK_BOOTTIME: when the newest command came */
	struct told_limits {
		uint64_t at_ms; /* CLOCK_BOOTTIME; 0: never */
		uint64_t oom_kills, pids_denied;
		bool is_full;
	} told;
	uint8_t *bytes;        /* one received message */
	uint64_t init_request; /* numbers of our requests to init */
	uint64_t output_bytes;
	uint64_t started_boot_ms;
	struct guests *guests;      /* guest.h */
	struct port_ask *port_asks; /* port.h */
	uint64_t last_port_ask;
	struct network *network; /* NULL: this kernel can carry no policies */
	struct conn *binder;     /* changes the parked sandbox just now; NULL: nobody */
	bool is_refused;         /* it never became ready */
	bool is_bound;           /* it was changed, once */
	const char *end_reason;  /* set once, when the end begins */
	uint64_t grace_ms;       /* of that end */
};

/* keeper.c */
/* Begins the end: SIGTERM to all, SIGKILL after the grace, exit record, loop stop. */
void keeper_end(struct keeper *keeper, const char *reason, uint64_t grace_ms);
/* Reads the meters, and says each limit that acted since the last time. */
void keeper_sample(struct keeper *keeper);
/* An event: a limit acted. */
void keeper_tell_limit(struct keeper *keeper, const char *reason, const char *detail);
/* A command starts: the next sample is due within the busy interval, however idle it was before. */
void keeper_watch(struct keeper *keeper);
/* Ends the wait of keeper_end as soon as the last command is gone. */
void keeper_exec_ended(struct keeper *keeper);
void keeper_set_deadline(struct keeper *keeper, uint64_t deadline_ms);
/* Sends to init and waits for its answer, for seconds at most (init is ours and answers at once).
 */
int keeper_ask_init(struct keeper *keeper, struct wire_out *out, struct err *err) NODISCARD;
uint64_t keeper_next_request(struct keeper *keeper);

/* claim.c: how a parked sandbox becomes somebody's */
/* K_BIND: answered here, because the answer may carry the disk. */
int claim_bind(struct keeper *keeper, struct conn *conn, const struct wire_msg *msg,
               struct err *err) NODISCARD;
int claim_bound(struct keeper *keeper, struct conn *conn, const struct wire_msg *msg,
                struct err *err) NODISCARD;
int claim_take(struct keeper *keeper, const struct wire_msg *msg, struct err *err) NODISCARD;
/* After that was answered: what need not be done before. */
void claim_taken(struct keeper *keeper);
/* One that was being bound by it is of no use any more. */
void claim_conn_gone(struct keeper *keeper, const struct conn *conn);

/* What the machine offers, as keeper_warm saw it. */
const struct cgroup_layout *keeper_layout(void);

/* serve.c */
int serve_start(struct keeper *keeper) NODISCARD;
void serve_done(struct keeper *keeper);
/* To one connection or (conn NULL) to all; queued when the socket is full. */
void serve_send(struct keeper *keeper, struct conn *conn, struct wire_out *out);
void serve_send_others(struct keeper *keeper, const struct conn *except, struct wire_out *out);
void serve_error(struct keeper *keeper, struct conn *conn, uint64_t request, const struct err *err);
/* A daemon listens to notifications. */
bool serve_has_daemon(const struct keeper *keeper);
/* With its descriptors, to a daemon that takes it at once; never queued. -EAGAIN: there is none. */
int serve_pass(struct keeper *keeper, const struct wire_out *out) NODISCARD;
/* The same to one connection. */
int serve_give(struct conn *conn, const struct wire_out *out) NODISCARD;
/* Tries to deliver K_OUTPUT for every exec that has news. */
void serve_flush_output(struct keeper *keeper);
/* Last chance before exit: empties the queues, waiting briefly. */
void serve_drain(struct keeper *keeper);

/* exec.c */
struct exec *exec_find(struct keeper *keeper, const char *id);
int exec_start(struct keeper *keeper, struct conn *conn, const struct wire_msg *msg,
               struct err *err) NODISCARD;
int exec_signal(struct exec *exec, int number, struct err *err) NODISCARD;
/* Freezes the work group, kills all below the shim, thaws. Also of an ended exec, as long as
 * something it left behind lives; of a starting one as soon as it has started. */
int exec_kill(struct exec *exec, const char *reason, struct err *err) NODISCARD;
/* All of them, and what ended ones left behind; nothing inside runs meanwhile. */
void exec_kill_all(struct keeper *keeper, const char *reason);
/* K_FREEZE. Kills reach what is frozen; nothing starts. ERR_UNSUPPORTED: there is no freezer. */
int exec_freeze(struct keeper *keeper, bool on, struct err *err) NODISCARD;
void exec_forget(struct exec *exec);
void exec_put_info(const struct exec *exec, struct wire_out *out);
void exec_conn_gone(struct keeper *keeper, struct conn *conn);
void exec_done_all(struct keeper *keeper);
/* The command ended (status known or the shim vanished); called once streams are drained too. */
void exec_finish(struct exec *exec);

/* output.c */
enum { OUTPUT_EXIT_TEXT = 96 };
/* "code=N reason=..." or "signal=N reason=...". */
void output_exit_text(const struct exec *exec, char *to, size_t size);
/* Some was written: lets go of the oldest when it is too much. */
void output_bound(struct keeper *keeper);

/* sampled.c */
/* K_DISK: judges a measurement, and ends all commands of a sandbox that is over its limit. */
void sampled_take(struct keeper *keeper, const struct wire_msg *msg);

/* relay.c: bytes in and out of one exec */
int relay_start(struct exec *exec, int out_dir) NODISCARD;
/* Makes files for the next command, when nobody waits. */
void relay_spare(struct keeper *keeper);
void relay_spare_soon(struct keeper *keeper);
void relay_spare_done(struct keeper *keeper);
int relay_watch(struct exec *exec) NODISCARD;
/* One piece of input and where it belongs: one that comes a second time, after a connection was cut
 * and it was not clear what had arrived, is dropped. */
struct relay_piece {
	uint64_t offset;
	const uint8_t *bytes;
	size_t len;
	bool is_end;
};
int relay_input(struct exec *exec, struct relay_piece piece, struct err *err) NODISCARD;
int relay_resize(struct exec *exec, uint16_t rows, uint16_t cols, struct err *err) NODISCARD;
/* Re-evaluates whether the streams may be read (window, rate). */
void relay_update(struct exec *exec);
/* Takes what the pipes still hold after the command ended. */
void relay_drain(struct exec *exec);
/* The last frame is written: gives back what an ended exec needs no more. */
void relay_end(struct exec *exec);
void relay_done(struct exec *exec);

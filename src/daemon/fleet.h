/*
 * The sandboxes this daemon has to do with right now: those that are alive (with a connection to
 * their keeper) and those somebody is changing. A member's row is the newest state, which may be
 * ahead of the store by a commit that is on its way: every change goes through it, so that two
 * requests cannot both find the old state.
 *
 * fleet.c holds members and keeper connections, live.c the execs, lifecycle.c the changes of
 * state, reconcile.c the start. One thread.
 */
#pragma once

#include "api/engine.h"
#include "base/base.h"
#include "base/err.h"
#include "base/loop.h"
#include "daemon/calm.h"
#include "daemon/metrics.h"
#include "model/sandbox.h"
#include "runtime/peer.h"
#include "store/store.h"

struct approvals;
struct environments;
struct fleet;
struct host_uses;
struct network_set;
struct leftover;
struct live;
struct member;
struct pool;
struct pool_shelf;
struct runtime;
struct commands;
struct services;
struct skills;
struct store;
struct tasks;

/* Somebody who waits for a sandbox to reach an end of its way. */
struct member_waiter {
	struct member_waiter *next;
	engine_on_sandbox on_sandbox; /* one of the two */
	engine_on_done on_done;
	void *ctx;
};

struct member {
	struct fleet *fleet;
	struct member *next, *prev;
	unsigned refs; /* operations under way; an alive sandbox needs none to stay */
	struct sandbox *row;
	struct peer *peer; /* its keeper; NULL: no connection */
	struct live *execs;
	struct loop_timer timer; /* reconnecting, the patience of a stop, or a removal to repeat */
	unsigned attempts;       /* to reconnect, to remove */
	uint64_t since_ms;       /* in its state, on the boot clock */
	bool is_late;            /* beyond its deadline, and that was said */
	uint64_t quiet_since_ms; /* orphan.h; 0: it is not */
	uint64_t asked_us;       /* broker or keeper, for what is_busy is about, or the claim */
	bool is_busy;            /* being launched, bound or taken down by the broker */
	bool is_ending;          /* the keeper is gone and the end is being recorded */
	bool is_lost;            /* it ends without a word of its keeper */
	bool is_restart;         /* this start is not its first: files of before are kept */
	bool is_undone;          /* nothing of the start that failed is left */
	bool is_stop_stored;
	bool is_removal_stored;
	struct calm_job removal;         /* stored, and nobody waits for it */
	bool is_retrying;                /* the removal failed and the timer repeats it */
	bool has_unknown_execs;          /* the end of one could not be stored */
	enum sandbox_state state_before; /* the removal that is being stored */
	uint64_t grace_ms;               /* of the stop under way */
	char *cut_why;                   /* a budget is spent: that is why it stops */
	bool is_told_early;   /* the removal: whoever asked does not wait for the store */
	bool is_given_up;     /* the removal is part of a write of its run's (ending.c) */
	struct err start_err; /* why the start under way is being undone */
	bool has_said_gone;   /* K_GONE came */
	uint64_t ended_ms;    /* from the keeper's last words; 0: none */
	struct strings seen;  /* execs a listing named, while it runs */
	struct member_waiter *stop_waiters;
	struct member_waiter *removing_waiters; /* for the removal to be stored */
	struct member_waiter *remove_waiters;
	struct member_waiter *start_waiters;
	void (*on_adopted)(struct member *member, void *ctx); /* once, after a reconnect */
	void *adopt_ctx;
	uint64_t measured_ms, measure_ms; /* sampler.h: when the last time, and how long it took */
	bool is_unmeasured;               /* that failed */
	struct network_set *setting;      /* a change of its policy that is under way */
	struct host_uses *hosts;          /* being listed by its keeper */
	uint64_t decisions_ms;            /* since when decisions are counted */
	unsigned decisions, unstored; /* since then: stored, and not because there were too many */
	struct pool_shelf *shelf;     /* parked there: nobody's, and without a row in the store */
};

struct fleet {
	struct loop *loop;
	struct store *store;
	struct runtime *runtime;                 /* native: the only one there is yet */
	int run_fd;                              /* $STATE/run; not owned */
	int sandboxes_fd;                        /* $STATE/sandboxes; not owned */
	struct pool *pool;                       /* NULL: none */
	const struct environments *environments; /* not owned */
	struct services *services;               /* not owned; NULL: none, in tests */
	struct providers *providers;             /* the same */
	struct commands *commands;               /* the same */
	struct forges *forges;                   /* the same */
	struct skills *skills;                   /* the same */
	struct tasks *tasks;                     /* counts what sandboxes use; the same */
	struct approvals *approvals;
	struct member *members;
	/* Somebody inside wants the API or a service; takes fd. NULL: nobody is there for that. */
	void (*on_guest)(const struct sandbox *sandbox, int fd, void *ctx);
	void *guest_ctx;
	struct leftover *leftovers; /* leftover.h */
	size_t told_early;          /* removals whose clients do not wait for the store */
	struct member_waiter *settle_waiters;
	struct calm calm;
	struct metrics metrics;
	struct loop_timer hurry; /* fleet_submit_soon */
	bool is_hurry_due;
	struct loop_timer sweep; /* sweep.h */
	uint64_t sweep_next_ms;
	bool has_swept;            /* the last look around took something up */
	bool has_stored_end;       /* since then the store took an end (fleet_note_end) */
	bool has_refused_end;      /* since then it refused one */
	struct loop_timer sampler; /* sampler.h */
	bool has_unknown_ends;     /* the end of a sandbox could not be stored */
	bool is_shut;              /* nothing new is begun */
	/* For tests; 0: as it is for everybody. */
	uint64_t sweep_ms, deadline_ms, retry_ms;
};

struct fleet *fleet_new(const struct fleet *parts);
/* Closes every connection; what is under way is answered with an error. Sandboxes stay. */
void fleet_shut(struct fleet *fleet);
/* After the store was closed. */
void fleet_free(struct fleet *fleet);

/* For rows of sandboxes whose clients do not wait for the store: those of one short command share a
 * commit, which comes when nobody needs the processors for it. */
void fleet_submit_soon(struct fleet *fleet, struct store_write *write, store_on_done on_done,
                       void *ctx);

/* The member with this id, from memory or from its row. Gives a reference. ERR_NOT_FOUND. */
int fleet_get(struct fleet *fleet, const char *id, struct member **ret, struct err *err) NODISCARD;
/* NULL when it is not in memory. No reference. */
struct member *fleet_find(struct fleet *fleet, const char *id);
/* Takes the row; gives a reference. */
struct member *fleet_add(struct fleet *fleet, struct sandbox *row);
struct member *member_ref(struct member *member);
/* The member leaves the memory when nobody needs it and it is not alive. */
void member_unref(struct member *member);
/* The only place that changes row->state: keeps the time spent in each. */
void member_set_state(struct member *member, enum sandbox_state state);
/* Its row is gone: no state follows. */
void member_leave_state(struct member *member);
/* Whether the store took the end of a sandbox, of a start or of an exec: what it refused is taken
 * up again by sweep.h. */
void fleet_note_end(struct fleet *fleet, bool is_stored);
/* How long to wait before something is tried for the so-manieth time again. */
uint64_t fleet_retry_ms(const struct fleet *fleet, unsigned attempts);

/* What is in force in it, as its launch said. */
void member_set_mechanisms(struct member *member, const struct strings *mechanisms);
/* Connects to the keeper on run/<id>.sock and asks which execs it has. */
int member_connect(struct member *member, struct err *err) NODISCARD;
/* As member_connect, then on_adopted once the execs are known. */
int member_adopt(struct member *member, void (*on_adopted)(struct member *member, void *ctx),
                 void *ctx, struct err *err) NODISCARD;
/* Asks once more which execs there are. false: there is nobody to ask. */
bool member_list_execs(struct member *member);
void member_disconnect(struct member *member);
/* Tells the keeper when to end by itself. */
void member_send_deadline(struct member *member);
/* K_METERS into the row; on_done also when the keeper does not answer. */
void member_meter(struct member *member, engine_on_done on_done, void *ctx);
/* Reads sandboxes/<id>/out/exit into the row: reason, meters, end. false: there is none. */
bool member_read_exit(struct member *member);

void member_wait(struct member_waiter **list, engine_on_sandbox on_sandbox, engine_on_done on_done,
                 void *ctx);
/* Answers and empties the list; row NULL: err. */
void member_answer(struct member_waiter **list, const struct sandbox *row, const struct err *err);

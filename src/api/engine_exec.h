/* How a command is started and followed: part of struct engine_ops (api/engine.h). */
#pragma once

#include "base/base.h"
#include "model/exec.h"
#include "model/strings.h"

struct exec_watch;

/*
 * Somebody who follows one live exec. Embedded by value; registered until on_over or unwatch.
 * None of these may unwatch another watch.
 */
struct exec_watch_ops {
	/* There is more to read in its output (or its end). */
	void (*on_output)(struct exec_watch *watch, void *ctx);
	/* Input that was refused can be offered again. May be NULL. */
	void (*on_room)(struct exec_watch *watch, void *ctx);
	/* It ended, and the row is committed, unless it is_noted; or the daemon ends (exec is
	 * NULL). The watch is no longer registered. */
	void (*on_over)(struct exec_watch *watch, const struct exec *exec, void *ctx);
};

struct exec_watch {
	const struct exec_watch_ops *ops;
	void *ctx;
	bool is_holder; /* output waits for this one: it must ack what it has read */
	bool is_writer; /* input comes from this one and nobody else */
	uint64_t acked;
	uint64_t written;         /* the engine's: output up to here is in the log, or lost */
	const struct exec *ended; /* the engine's: how it did, until that is stored; or NULL */
	struct exec_watch *next;  /* the engine's */
	void *live;               /* the engine's; NULL: not registered */
};

struct exec_size {
	uint64_t rows, cols;
};

struct exec_start {
	const struct exec *exec;   /* id, sandbox, argv, user, cwd, tty, background */
	const struct strings *env; /* all it gets: the sandbox's and its own; NULL: none */
	struct exec_size size;
	uint64_t timeout_ms; /* 0: none */
	bool has_stdin;
	bool is_attached; /* output waits for an attached reader from the first byte on */
	bool is_internal; /* the daemon's own: no row, no event, forgotten when it is read */
	bool is_recorded; /* answered once its row is stored, also in a sandbox that is ephemeral */
	bool is_noted;    /* its id is on disk with whoever asks, who looks for it after a crash: it
	                     is answered, and its end is told, before their rows are stored */
	struct exec_watch *watch; /* registered before it starts; NULL: nobody yet */
};

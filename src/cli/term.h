/*
 * The terminal the user sits at: raw mode that is always undone (also when we crash), size,
 * colours and progress lines, and the keys that detach. The saved mode is the one piece of
 * process-wide state here, because crash handlers have no other way to it.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"

struct term_size {
	uint16_t rows, cols;
};

/* Both stdin and stdout are terminals. */
bool term_is_interactive(void);
/* stdin to raw mode until term_restore; again when already raw is harmless. */
int term_raw(struct err *err) NODISCARD;
/* Safe at any time, in signal handlers too. */
void term_restore(void);
/* Of stdout; 24×80 when it is no terminal. */
struct term_size term_size(void);

enum term_style { TERM_PLAIN, TERM_BOLD, TERM_DIM, TERM_GREEN, TERM_YELLOW, TERM_RED };
/* Escape sequence for stdout, "" when it is no terminal, NO_COLOR is set or TERM is dumb. */
const char *term_style(enum term_style style);

/* A line on stderr that replaces the one before; nothing when stderr is no terminal, and at most
 * ten times a second. */
struct term_progress {
	const char *what; /* "sent" */
	uint64_t total;   /* UINT64_MAX: unknown */
	uint64_t last_ms;
	bool is_shown;
};
void term_progress(struct term_progress *progress, uint64_t bytes);
/* Removes the line. */
void term_progress_done(struct term_progress *progress);

enum { TERM_KEYS_MAX = 8 };

/* A sequence of keys that is recognised in typed input: "ctrl-p,ctrl-q". */
struct term_keys {
	uint8_t keys[TERM_KEYS_MAX];
	size_t count;   /* 0: nothing is recognised */
	size_t matched; /* keys of it seen so far; held back from the output */
};
/* "ctrl-X" with a letter or one of @[\]^_, or a single character, separated by commas; "none". */
int term_keys_parse(const char *text, struct term_keys *ret, struct err *err) NODISCARD;
/*
 * Copies typed bytes to out (room for len + TERM_KEYS_MAX), holding back what may become the
 * sequence. *ret_len is what was copied. True when the sequence is complete: the rest is dropped.
 */
bool term_keys_filter(struct term_keys *keys, const uint8_t *bytes, size_t len, uint8_t *out,
                      size_t *ret_len);

#include "cli/term.h"

#include <errno.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/io.h"
#include "base/str.h"
#include "cli/place.h"

/* Written before the handlers are set and never while they may run. */
static struct termios saved;
static volatile sig_atomic_t is_raw;

bool term_is_interactive(void)
{
	return isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
}

void term_restore(void)
{
	if (!is_raw)
		return;
	is_raw = 0;
	/* Nothing is left to try when the terminal is gone. */
	(void)tcsetattr(STDIN_FILENO, TCSADRAIN, &saved);
}

static void on_crash(int signal_number)
{
	term_restore();
	/* The handler was one-shot (SA_RESETHAND): this ends the process as it would have. */
	(void)raise(signal_number);
}

static void catch_crashes(void)
{
	static const int signals[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGSYS, SIGQUIT};
	struct sigaction action = {.sa_handler = on_crash, .sa_flags = (int)SA_RESETHAND};

	sigemptyset(&action.sa_mask);
	for (size_t i = 0; i < ARRAY_LEN(signals); i++)
		(void)sigaction(signals[i], &action, NULL); /* cannot fail for these */
}

int term_raw(struct err *err)
{
	struct termios raw;

	if (is_raw)
		return 0;
	if (tcgetattr(STDIN_FILENO, &saved) < 0)
		return err_sys(err, errno, "read the terminal's mode");
	catch_crashes();
	raw = saved;
	cfmakeraw(&raw);
	is_raw = 1;
	if (tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) < 0) {
		is_raw = 0;
		return err_sys(err, errno, "set the terminal's mode");
	}
	return 0;
}

struct term_size term_size(void)
{
	struct winsize size = {0};

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0 || size.ws_row == 0 || size.ws_col == 0)
		return (struct term_size){.rows = 24, .cols = 80};
	return (struct term_size){.rows = size.ws_row, .cols = size.ws_col};
}

const char *term_style(enum term_style style)
{
	static const char *const codes[] = {
		[TERM_PLAIN] = "\033[0m",  [TERM_BOLD] = "\033[1m",    [TERM_DIM] = "\033[2m",
		[TERM_GREEN] = "\033[32m", [TERM_YELLOW] = "\033[33m", [TERM_RED] = "\033[31m",
	};
	const char *no_color = place_env("NO_COLOR");
	const char *kind = place_env("TERM");

	if (!isatty(STDOUT_FILENO) || no_color != NULL || kind == NULL || str_eq(kind, "dumb"))
		return "";
	return codes[style];
}

void term_progress(struct term_progress *progress, uint64_t bytes)
{
	uint64_t now = io_boot_ms();
	char done[32], total[32];

	if (now - progress->last_ms < 100 || !isatty(STDERR_FILENO))
		return;
	progress->last_ms = now;
	progress->is_shown = true;
	str_format_bytes(done, sizeof(done), bytes);
	str_format_bytes(total, sizeof(total), progress->total);
	if (progress->total == UINT64_MAX)
		(void)fprintf(stderr, "\r\033[K%s %s", progress->what, done);
	else
		(void)fprintf(stderr, "\r\033[K%s %s of %s", progress->what, done, total);
	(void)fflush(stderr);
}

void term_progress_done(struct term_progress *progress)
{
	if (!progress->is_shown)
		return;
	progress->is_shown = false;
	(void)fputs("\r\033[K", stderr);
	(void)fflush(stderr);
}

/* One key of the sequence; 0 when it is none. */
static uint8_t parse_key(const char *word, size_t len)
{
	if (len == 1)
		return (uint8_t)word[0];
	if (len != 6 || strncmp(word, "ctrl-", 5) != 0)
		return 0;
	char letter = word[5];

	if (letter >= 'a' && letter <= 'z')
		return (uint8_t)(letter - 'a' + 1);
	return strchr("@[\\]^_", letter) != NULL ? (uint8_t)(letter - '@') : 0;
}

int term_keys_parse(const char *text, struct term_keys *ret, struct err *err)
{
	struct term_keys keys = {0};

	for (const char *at = text; !str_eq(text, "none");) {
		size_t len = strcspn(at, ",");
		uint8_t key = parse_key(at, len);

		if (key == 0 || keys.count == TERM_KEYS_MAX)
			return err_set(err, ERR_INVALID,
			               "'%s' is not a key sequence like ctrl-p,ctrl-q", text);
		keys.keys[keys.count++] = key;
		if (at[len] == '\0')
			break;
		at += len + 1;
	}
	*ret = keys;
	return 0;
}

bool term_keys_filter(struct term_keys *keys, const uint8_t *bytes, size_t len, uint8_t *out,
                      size_t *ret_len)
{
	size_t to = 0;

	for (size_t i = 0; i < len; i++) {
		if (keys->count > 0 && bytes[i] == keys->keys[keys->matched]) {
			if (++keys->matched < keys->count)
				continue;
			keys->matched = 0;
			*ret_len = to;
			return true;
		}
		/* Not the sequence: what was held back was meant for the program. */
		for (size_t j = 0; j < keys->matched; j++)
			out[to++] = keys->keys[j];
		keys->matched = keys->count > 0 && bytes[i] == keys->keys[0] ? 1 : 0;
		if (keys->matched == 0)
			out[to++] = bytes[i];
	}
	*ret_len = to;
	return false;
}

#include "cli/attach.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <jansson.h>

#include "base/io.h"
#include "base/must.h"
#include "base/str.h"
#include "cli/client.h"
#include "cli/remote.h"
#include "cli/ws.h"

/* First byte of a frame of subprotocol cloche.v1. */
enum channel {
	CHANNEL_STDIN = 0,
	CHANNEL_STDOUT = 1,
	CHANNEL_STDERR = 2,
	CHANNEL_RESIZE = 3,
	CHANNEL_SIGNAL = 4,
	CHANNEL_EXIT = 5,
	CHANNEL_GAP = 6,
};

enum {
	INPUT_BYTES = 32 * 1024,
	ASK_MAX = 128 * 1024,     /* what a daemon takes as one message */
	SEND_MAX = 512 * 1024,    /* unsent bytes to the daemon */
	SEND_FULL = 256 * 1024,   /* stdin rests above this */
	OUTPUT_FULL = 256 * 1024, /* the socket rests above this */
	OUTPUT_MAX = OUTPUT_FULL + WS_MESSAGE_MAX,
	RECONNECT_TRIES = 100,
	RECONNECT_WAIT_MS = 100,
	IMPATIENT =
		3, /* interrupts within a second that end a session whose command ignores them */
};

struct output {
	int fd;
	bool is_file; /* never blocks: write as much as there is */
	bool broken;  /* the reader is gone */
	struct buf buf;
};

struct session {
	struct cli *cli;
	const struct attach_spec *spec;
	struct attach_result *result;
	struct http http; /* of its own: the command's calls go on beside */
	struct buf in, out;
	struct ws_decoder decoder;
	struct term_keys keys;
	struct output outputs[2]; /* stdout, stderr */
	uint64_t offset;
	int signal_fd;
	bool input_open;
	bool ended;  /* result is filled */
	bool failed; /* the daemon said why in cli->err */
	uint64_t interrupt_ms;
	int interrupts;
};

static const int handled_signals[] = {SIGINT, SIGTERM, SIGHUP, SIGWINCH};

static void fill_signals(sigset_t *set)
{
	sigemptyset(set);
	for (size_t i = 0; i < ARRAY_LEN(handled_signals); i++)
		sigaddset(set, handled_signals[i]);
}

void attach_block_signals(void)
{
	sigset_t set;

	fill_signals(&set);
	(void)pthread_sigmask(SIG_BLOCK, &set, NULL); /* cannot fail with a valid set */
	(void)signal(SIGPIPE, SIG_IGN);
}

int attach_pending_signal(void)
{
	const struct timespec none = {0};
	sigset_t set;

	fill_signals(&set);
	sigdelset(&set, SIGWINCH);
	int signal_number = sigtimedwait(&set, NULL, &none);

	return signal_number > 0 ? signal_number : 0;
}

int attach_guard(struct cli *cli)
{
	sigset_t set;

	attach_block_signals();
	fill_signals(&set);
	sigdelset(&set, SIGWINCH);
	int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);

	if (fd < 0)
		return err_sys(&cli->err, errno, "catch signals");
	cli->interrupt_fd = fd;
	cli->http.interrupt_fd = fd;
	return 0;
}

int attach_status(const struct attach_result *result)
{
	if (result->interrupted != 0)
		return 128 + result->interrupted;
	if (str_eq(result->reason, "timeout"))
		return 124;
	return result->signal != 0 ? 128 + result->signal : result->exit_code;
}

/* --- to the daemon --- */

static void put(struct session *session, enum channel channel, const void *bytes, size_t len)
{
	/* Input stops far below the buffer's maximum; the rest are a few bytes each. */
	if (ws_encode(&session->out, WS_BINARY, channel, bytes, len) < 0)
		session->input_open = false;
}

static void put_size(struct session *session)
{
	struct term_size size = term_size();
	const uint8_t bytes[4] = {(uint8_t)size.rows, (uint8_t)(size.rows >> 8), (uint8_t)size.cols,
	                          (uint8_t)(size.cols >> 8)};

	put(session, CHANNEL_RESIZE, bytes, sizeof(bytes));
}

static void put_signal(struct session *session, int signal_number)
{
	const uint8_t byte = (uint8_t)signal_number;

	put(session, CHANNEL_SIGNAL, &byte, 1);
}

static void on_stdin(struct session *session)
{
	uint8_t typed[INPUT_BYTES], bytes[INPUT_BYTES + TERM_KEYS_MAX];
	ssize_t got = read(STDIN_FILENO, typed, sizeof(typed));
	size_t len = 0;

	if (got < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (got <= 0) {
		session->input_open = false;
		if (session->spec->input)
			put(session, CHANNEL_STDIN, NULL, 0);
		return;
	}
	if (term_keys_filter(&session->keys, typed, (size_t)got, bytes, &len)) {
		session->result->detached = true;
		session->ended = true;
	}
	if (len > 0 && session->spec->input)
		put(session, CHANNEL_STDIN, bytes, len);
}

/* A command that ignores signals must not hold the user: several in a row end the session. */
static bool is_impatient(struct session *session)
{
	uint64_t now = io_boot_ms();

	if (now - session->interrupt_ms > 1000)
		session->interrupts = 0;
	session->interrupt_ms = now;
	return ++session->interrupts >= IMPATIENT;
}

static void on_signal(struct session *session)
{
	struct signalfd_siginfo info;

	if (read(session->signal_fd, &info, sizeof(info)) != sizeof(info))
		return;
	int signal_number = (int)info.ssi_signo;

	if (signal_number == SIGWINCH) {
		if (session->spec->tty && !session->spec->read_only)
			put_size(session);
		return;
	}
	/* With a terminal, keys go inside as bytes; a signal from elsewhere is for us. Who only
	 * looks on has no business signalling. */
	if (session->spec->tty || session->spec->read_only || is_impatient(session)) {
		session->result->interrupted = signal_number;
		session->ended = true;
		return;
	}
	put_signal(session, signal_number);
}

/* --- from the daemon --- */

static int on_exit_message(struct session *session, const uint8_t *bytes, size_t len)
{
	auto_json json_t *exit = json_loadb((const char *)bytes, len, JSON_REJECT_DUPLICATES, NULL);
	struct attach_result *result = session->result;

	if (exit == NULL)
		return -EPROTO;
	result->exit_code = (int)(client_u64(exit, "exitCode") & 0xff);
	result->signal = (int)(client_u64(exit, "signal") & 0x7f);
	(void)!str_copy(result->reason, sizeof(result->reason), client_str(exit, "reason"));
	session->ended = true;
	return 0;
}

static int on_gap(struct session *session, const uint8_t *bytes, size_t len)
{
	uint64_t offset = 0;

	if (len != 8)
		return -EPROTO;
	for (size_t i = 0; i < 8; i++)
		offset |= (uint64_t)bytes[i] << (8 * i);
	if (offset > session->offset)
		cli_note("%llu bytes of output are no longer kept",
		         (unsigned long long)(offset - session->offset));
	session->offset = offset;
	return 0;
}

/* What was made, or why not. */
static int on_text(struct session *session, const uint8_t *bytes, size_t len)
{
	auto_json json_t *text = json_loadb((const char *)bytes, len, JSON_REJECT_DUPLICATES, NULL);
	const json_t *sandbox = json_object_get(text, "sandbox");
	const json_t *problem = json_object_get(text, "error");
	struct attach_result *result = session->result;

	if (problem != NULL) {
		client_set_problem(session->cli, problem);
		session->failed = true;
		session->ended = true;
		return 0;
	}
	if (!str_copy(result->sandbox, sizeof(result->sandbox), client_str(sandbox, "id")) ||
	    !str_copy(result->exec, sizeof(result->exec),
	              client_str(json_object_get(text, "exec"), "id")))
		return -EPROTO;
	json_decref(result->limits);
	result->limits = json_incref(json_object_get(sandbox, "limits"));
	return 0;
}

static int on_frame(struct session *session, const uint8_t *bytes, size_t len)
{
	if (len == 0)
		return -EPROTO;
	uint8_t channel = *bytes++;

	len--;
	if (channel == CHANNEL_STDOUT || channel == CHANNEL_STDERR) {
		struct output *output = &session->outputs[channel - CHANNEL_STDOUT];

		session->offset += len;
		return output->broken ? 0 : buf_put(&output->buf, bytes, len);
	}
	if (channel == CHANNEL_EXIT)
		return on_exit_message(session, bytes, len);
	return channel == CHANNEL_GAP ? on_gap(session, bytes, len) : 0;
}

static bool is_full(const struct session *session)
{
	return buf_len(&session->outputs[0].buf) > OUTPUT_FULL ||
	       buf_len(&session->outputs[1].buf) > OUTPUT_FULL;
}

/* Whole messages that are in the buffer. 0, or <0 when the connection is of no use any more. */
static int decode(struct session *session)
{
	while (!session->ended && !is_full(session)) {
		struct ws_message message;
		size_t used = 0;
		int r = ws_decode(&session->decoder, &session->in, &message, &used);

		if (r <= 0)
			return r;
		if (message.opcode == WS_CLOSE)
			return -ECONNRESET;
		if (message.opcode == WS_PING)
			r = ws_encode(&session->out, WS_PONG, -1, message.bytes, message.len);
		else if (message.opcode == WS_TEXT)
			r = on_text(session, message.bytes, message.len);
		else if (message.opcode != WS_PONG)
			r = on_frame(session, message.bytes, message.len);
		buf_consume(&session->in, used);
		if (r < 0)
			return r;
	}
	return 0;
}

static int on_socket(struct session *session, short events)
{
	if (events & POLLOUT) {
		ssize_t sent = buf_write_fd(&session->out, session->http.fd);

		if (sent < 0 && sent != -EAGAIN && sent != -EINTR)
			return (int)sent;
	}
	if (events & (POLLIN | POLLHUP | POLLERR)) {
		ssize_t got = buf_read_fd(&session->in, session->http.fd,
		                          MIN(buf_room(&session->in), (size_t)64 * 1024));

		if (got == 0)
			return -ECONNRESET;
		if (got < 0 && got != -EAGAIN && got != -EINTR)
			return (int)got;
	}
	return 0;
}

static bool is_to_be_asked(const struct session *session)
{
	return session->spec->ask != NULL && session->result->exec[0] == '\0';
}

/* One that has begun is followed like any command; its maker was another daemon. */
static char *session_target(struct session *session)
{
	const struct attach_spec *spec = session->spec;
	struct attach_result *result = session->result;

	if (is_to_be_asked(session))
		return spec->sandbox == NULL ? client_target("/run")
		                             : client_target("/sandboxes/%s/exec", spec->sandbox);
	char *target = client_target("/sandboxes/%s/execs/%s/attach",
	                             spec->ask != NULL ? result->sandbox : spec->sandbox,
	                             spec->ask != NULL ? result->exec : spec->exec);

	result->is_ours = spec->ask != NULL && spec->sandbox == NULL;
	client_query_u64(&target, "offset", session->offset);
	client_query(&target, "readonly", spec->read_only ? "true" : NULL);
	return target;
}

/* The first frames: what is to be run, the size of the terminal, the end of input. */
static int put_first(struct session *session)
{
	const char *ask = session->spec->ask;

	if (is_to_be_asked(session) &&
	    (strlen(ask) > ASK_MAX || ws_encode(&session->out, WS_TEXT, -1, ask, strlen(ask)) < 0))
		return err_set(&session->cli->err, ERR_TOO_LARGE, "the command is too long");
	if (session->spec->tty && !session->spec->read_only)
		put_size(session);
	if (session->spec->input && !session->input_open)
		put(session, CHANNEL_STDIN, NULL, 0);
	return 0;
}

static void take_problem(struct session *session)
{
	struct http kept = session->cli->http;

	session->cli->http = session->http;
	client_problem(session->cli);
	session->http = session->cli->http;
	session->cli->http = kept;
}

/* On the connection the command's calls used, if there is one, or on a new one. */
static int open_once(struct session *session, const char *target)
{
	struct http *http = &session->http;
	struct cli *cli = session->cli;

	http->interrupt_fd = cli->http.interrupt_fd;
	http->key = cli->http.key;
	memcpy(http->host, cli->http.host, sizeof(http->host));
	if (http_can_reuse(&cli->http))
		http_adopt(http, take_fd(&cli->http.fd));
	else if (remote_open(cli, http) < 0)
		return -1;
	if (ws_open(http, target, "cloche.v1", &session->out, &cli->err) == 0)
		return 0;
	if (http->fd >= 0 && http->head.status != 0)
		take_problem(session);
	return -1;
}

static int open_stream(struct session *session, const char *target)
{
	struct err *err = &session->cli->err;
	bool is_used = http_can_reuse(&session->cli->http);
	int r = open_once(session, target);

	/* A daemon that started anew dropped what it had; but no command is asked for twice. */
	if (r == 0 || !is_used || session->spec->ask != NULL || err->code != ERR_UNAVAILABLE ||
	    err->sys == ECANCELED)
		return r;
	*err = (struct err){0};
	return open_once(session, target);
}

static int session_connect(struct session *session)
{
	auto_free char *target = session_target(session);

	http_close(&session->http);
	buf_reset(&session->in);
	buf_reset(&session->out);
	ws_decoder_done(&session->decoder);
	ws_decoder_init(&session->decoder);
	if (put_first(session) < 0 || open_stream(session, target) < 0)
		return -1;
	buf_reset(&session->out);
	/* The answer's head may have brought the first frames along. */
	if (buf_put(&session->in, buf_head(&session->http.in), buf_len(&session->http.in)) < 0 ||
	    io_set_nonblock(session->http.fd, true) < 0)
		return err_set(&session->cli->err, ERR_PROTOCOL, "the stream cannot be used");
	return 0;
}

/* The daemon is gone but the command is not: its keeper holds it until a new daemon asks. */
static int reconnect(struct session *session)
{
	const struct timespec wait = {.tv_nsec = RECONNECT_WAIT_MS * 1000000L};

	if (is_to_be_asked(session))
		return err_set(&session->cli->err, ERR_UNAVAILABLE,
		               "the daemon went while the command was being started");

	for (int i = 0; i < RECONNECT_TRIES; i++) {
		int pending = attach_pending_signal();

		session->cli->err = (struct err){0};
		if (pending != 0) {
			session->result->interrupted = pending;
			session->ended = true;
			return 0;
		}
		if (session_connect(session) == 0)
			return 0;
		if (session->cli->err.code != ERR_UNAVAILABLE || session->cli->err.sys == ECANCELED)
			return -1;
		(void)nanosleep(&wait, NULL); /* a signal ends it early: fine */
	}
	return err_wrap(&session->cli->err, "the connection was lost");
}

/* --- to the user --- */

static void output_init(struct output *output, int fd)
{
	struct stat st;

	*output = (struct output){.fd = fd};
	output->is_file = fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
	buf_init(&output->buf, OUTPUT_MAX);
}

/* After POLLOUT a pipe takes PIPE_BUF bytes without blocking. The descriptor itself is shared
 * with other processes, so it is never made non-blocking. */
static void on_output(struct session *session, struct output *output)
{
	size_t len = buf_len(&output->buf);
	ssize_t wrote = write(output->fd, buf_head(&output->buf),
	                      output->is_file ? len : MIN(len, (size_t)PIPE_BUF));

	if (wrote >= 0) {
		buf_consume(&output->buf, (size_t)wrote);
		return;
	}
	if (errno == EINTR || errno == EAGAIN)
		return;
	output->broken = true;
	buf_reset(&output->buf);
	/* What the command would have met had it written there itself. */
	put_signal(session, SIGPIPE);
}

static void drain(struct output *output)
{
	if (!output->broken)
		/* Nothing more can be done about a reader that went away now. */
		(void)!io_write_all(output->fd, buf_head(&output->buf), buf_len(&output->buf));
	buf_reset(&output->buf);
}

/* --- the loop --- */

enum slot { SLOT_SOCKET, SLOT_STDIN, SLOT_SIGNAL, SLOT_STDOUT, SLOT_STDERR, SLOT_COUNT };

static void fill_slots(const struct session *session, struct pollfd *slots)
{
	bool typing = session->input_open && buf_len(&session->out) < SEND_FULL;
	short socket_events = (short)((is_full(session) ? 0 : POLLIN) |
	                              (buf_len(&session->out) > 0 ? POLLOUT : 0));

	slots[SLOT_SOCKET] = (struct pollfd){.fd = session->http.fd, .events = socket_events};
	slots[SLOT_STDIN] = (struct pollfd){.fd = typing ? STDIN_FILENO : -1, .events = POLLIN};
	slots[SLOT_SIGNAL] = (struct pollfd){.fd = session->signal_fd, .events = POLLIN};
	for (int i = 0; i < 2; i++) {
		bool pending = buf_len(&session->outputs[i].buf) > 0;

		slots[SLOT_STDOUT + i] = (struct pollfd){
			.fd = pending ? session->outputs[i].fd : -1, .events = POLLOUT};
	}
}

static int turn(struct session *session)
{
	struct pollfd slots[SLOT_COUNT];

	fill_slots(session, slots);
	if (poll(slots, SLOT_COUNT, -1) < 0)
		return errno == EINTR ? 0 : err_sys(&session->cli->err, errno, "wait");
	if (slots[SLOT_SIGNAL].revents & POLLIN)
		on_signal(session);
	if (slots[SLOT_STDIN].revents != 0)
		on_stdin(session);
	for (int i = 0; i < 2; i++)
		if (slots[SLOT_STDOUT + i].revents != 0)
			on_output(session, &session->outputs[i]);
	int r = slots[SLOT_SOCKET].revents == 0 ? 0
	                                        : on_socket(session, slots[SLOT_SOCKET].revents);

	/* Also what a lost connection brought before: the exit may be in it. */
	int decoded = session->ended ? 0 : decode(session);

	if ((r < 0 || decoded < 0) && !session->ended)
		return reconnect(session);
	return 0;
}

static void session_done(struct session *session)
{
	http_close(&session->http);
	buf_done(&session->in);
	buf_done(&session->out);
	ws_decoder_done(&session->decoder);
	for (int i = 0; i < 2; i++)
		buf_done(&session->outputs[i].buf);
	fd_closep(&session->signal_fd);
}

static int session_init(struct session *session)
{
	sigset_t set;

	attach_block_signals();
	fill_signals(&set);
	http_init(&session->http);
	buf_init(&session->in, WS_IN_MAX);
	buf_init(&session->out, SEND_MAX);
	ws_decoder_init(&session->decoder);
	output_init(&session->outputs[0], STDOUT_FILENO);
	output_init(&session->outputs[1], STDERR_FILENO);
	session->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return session->signal_fd < 0 ? err_sys(&session->cli->err, errno, "catch signals") : 0;
}

int attach_run(struct cli *cli, const struct attach_spec *spec, struct attach_result *ret)
{
	auto_(session_done) struct session session = {
		.cli = cli,
		.spec = spec,
		.result = ret,
		.offset = spec->offset,
		.input_open = spec->input,
		.signal_fd = -1,
	};

	*ret = (struct attach_result){0};
	if (spec->tty && spec->detach.count > 0) {
		session.keys = spec->detach;
		session.input_open = true; /* for the keys, also when nothing is passed on */
	}
	(void)fflush(stdout); /* before bytes that go around stdio */
	if (session_init(&session) < 0 || session_connect(&session) < 0)
		return -1;
	if (spec->tty && term_raw(&cli->err) < 0)
		return -1;
	int r = decode(&session) < 0 ? reconnect(&session) : 0;

	while (r >= 0 && !session.ended)
		r = turn(&session);
	drain(&session.outputs[0]);
	drain(&session.outputs[1]);
	term_restore();
	if (spec->tty && (ret->detached || ret->interrupted != 0))
		(void)fputc('\n', stderr); /* the program's line is not finished */
	return session.failed ? -1 : r;
}

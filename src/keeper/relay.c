/*
 * Bytes of one exec: pipes or a terminal on one side, the output log and the input buffer on the
 * other. The keeper reads a stream only while the log may grow: an attached reader that lags more
 * than the window, or an exec over its output rate, simply is not read, and the command blocks in
 * write(2). Nothing is buffered in memory.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/log.h"
#include "keeper/state.h"
#include "os/path.h"
#include "os/tty.h"

/* The next command's folder for output, before it has its name; no exec is called so. */
#define SPARE "next"

enum { SPARE_MS = 50 };
enum { RATE_BURST_MS = 1000, AGAIN_MS = 50, READS_PER_WAKE = 8, DRAIN_READS = 32 };

/* --- output --- */

static void rate_refill(struct exec *exec)
{
	uint64_t now = loop_now_ms(exec->keeper->loop);
	uint64_t rate = exec->rate_limit;
	if (rate == UINT64_MAX)
		return;
	uint64_t gained = (now - exec->rate_at_ms) * rate / 1000;
	if (gained == 0)
		return; /* the time so far counts next time: a low rate would never gain anything */
	exec->rate_tokens = MIN(exec->rate_tokens + gained, rate * RATE_BURST_MS / 1000);
	exec->rate_at_ms = now;
}

static bool is_over_rate(const struct exec *exec)
{
	return exec->rate_limit != UINT64_MAX && exec->rate_tokens == 0;
}

static bool is_over_window(const struct exec *exec)
{
	/* What comes after the end is thrown away, so nobody needs to keep up with it. */
	return exec->is_attached && exec->state != EXEC_ENDED &&
	       exec->log.offset - exec->acked > LIMIT_OUTPUT_WINDOW_BYTES;
}

static void on_again(struct loop_timer *timer, void *ctx)
{
	relay_update(ctx);
}

static void on_stream(struct loop_source *source, uint32_t events, void *ctx);
static void on_input(struct loop_source *source, uint32_t events, void *ctx);

/* A paused stream leaves the loop: a hang-up would be reported again and again otherwise. */
static int stream_watch(struct exec_stream *stream, uint32_t events)
{
	if (stream->source.fd >= 0 && events == 0)
		loop_remove(&stream->source);
	if (events == 0)
		return 0;
	if (stream->source.fd >= 0)
		return loop_change(&stream->source, events);
	return loop_add(stream->exec->keeper->loop, &stream->source, stream->fd, events, on_stream,
	                stream);
}

static int input_watch(struct exec *exec)
{
	uint32_t events = buf_len(&exec->input) > 0 ? EPOLLOUT : 0;
	if (exec->input_fd < 0)
		return 0;
	if (exec->input_source.fd >= 0)
		return loop_change(&exec->input_source, events);
	return loop_add(exec->keeper->loop, &exec->input_source, exec->input_fd, events, on_input,
	                exec);
}

void relay_update(struct exec *exec)
{
	rate_refill(exec);
	if (exec->state == EXEC_STARTING)
		return;
	bool may_read = !is_over_window(exec) && !is_over_rate(exec);
	uint32_t also = exec->is_tty && buf_len(&exec->input) > 0 ? EPOLLOUT : 0;
	int r = input_watch(exec);
	for (size_t i = 0; i < ARRAY_LEN(exec->streams); i++) {
		int each = 0;
		if (exec->streams[i].fd >= 0)
			each = stream_watch(&exec->streams[i], may_read ? EPOLLIN | also : 0);
		r = MIN(r, each);
	}
	/* Without memory for a source the command waits until there is some. */
	if (is_over_rate(exec) || r < 0)
		loop_timer_in(exec->keeper->loop, &exec->again, AGAIN_MS, on_again, exec);
}

static void stream_close(struct exec_stream *stream)
{
	loop_remove(&stream->source);
	fd_closep(&stream->fd);
}

/* Records what was read. After the end of the command, output of what it left behind is discarded:
 * the exit record is the last frame, but nobody shall die of a closed pipe. */
static void record(struct exec_stream *stream, const uint8_t *bytes, size_t len)
{
	struct exec *exec = stream->exec;
	uint64_t segment = exec->log.segment_start;
	exec->rate_tokens -= MIN(exec->rate_tokens, (uint64_t)len);
	if (exec->state == EXEC_ENDED)
		return;
	/* A full state disk loses output, not the sandbox; every reader is shown the gap. */
	int r = outlog_append(&exec->log, stream->stream, bytes, (uint32_t)len);
	if (r < 0 && !exec->has_loss)
		log_warn("output of an exec is lost: it cannot be written",
		         LOG_STR("exec", exec->id), LOG_INT("errno", -r));
	exec->has_loss |= r < 0;
	exec->keeper->output_bytes += len;
	exec->is_output_news = true;
	if (exec->log.segment_start != segment)
		output_bound(exec->keeper);
}

/* One read. False when nothing more can be read now (empty, or at its end and closed). */
static bool pump(struct exec_stream *stream)
{
	uint8_t *bytes = stream->exec->keeper->bytes;
	ssize_t n = read(stream->fd, bytes, LIMIT_CHUNK_BYTES);
	if (n > 0) {
		record(stream, bytes, (size_t)n);
		return true;
	}
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return errno == EINTR;
	stream_close(stream); /* end of file, or EIO when a terminal's last process went */
	return false;
}

static void write_input(struct exec *exec);

static void on_stream(struct loop_source *source, uint32_t events, void *ctx)
{
	struct exec_stream *stream = ctx;
	struct exec *exec = stream->exec;
	if (exec->is_tty && events & EPOLLOUT)
		write_input(exec);
	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
		for (int i = 0; i < READS_PER_WAKE && stream->fd >= 0; i++) {
			if (is_over_window(exec) || is_over_rate(exec) || !pump(stream))
				break;
		}
	}
	relay_update(exec);
	serve_flush_output(exec->keeper);
}

void relay_drain(struct exec *exec)
{
	for (size_t i = 0; i < ARRAY_LEN(exec->streams); i++) {
		/* More than any pipe holds; a process left behind may write for ever. */
		for (int n = 0; n < DRAIN_READS && exec->streams[i].fd >= 0; n++) {
			if (!pump(&exec->streams[i]))
				break;
		}
	}
}

/* --- input --- */

static int input_fd(const struct exec *exec)
{
	return exec->is_tty ? exec->streams[0].fd : exec->input_fd;
}

static void input_close(struct exec *exec)
{
	loop_remove(&exec->input_source);
	fd_closep(&exec->input_fd);
}

static void tell_room(struct exec *exec, size_t bytes)
{
	auto_wire_out struct wire_out out;
	wire_begin(&out, WIRE_K_STDIN_ROOM, 0);
	wire_put_str(&out, FIELD_EXEC, exec->id);
	wire_put_u64(&out, FIELD_BYTES_COUNT, bytes);
	serve_send(exec->keeper, NULL, &out);
}

/* A terminal has no half-close: end of input is the end-of-file character. */
static void end_input(struct exec *exec)
{
	static const uint8_t end_of_file = 4;
	exec->is_input_ended = false;
	if (!exec->is_tty)
		input_close(exec);
	else if (exec->streams[0].fd >= 0)
		(void)!write(exec->streams[0].fd, &end_of_file,
		             1); /* a full terminal: the user repeats */
}

static void write_input(struct exec *exec)
{
	size_t written = 0;
	ssize_t n = 0;
	int fd = input_fd(exec);
	while (fd >= 0 && buf_len(&exec->input) > 0 && (n = buf_write_fd(&exec->input, fd)) > 0)
		written += (size_t)n;
	if (fd < 0 || (n < 0 && n != -EAGAIN && n != -EINTR)) {
		/* The reader is gone: the bytes have nowhere to go, but the sender may send on. */
		written += buf_len(&exec->input);
		buf_reset(&exec->input);
		input_close(exec);
	}
	if (written > 0)
		tell_room(exec, written);
	if (exec->is_input_ended && buf_len(&exec->input) == 0)
		end_input(exec);
}

static void on_input(struct loop_source *source, uint32_t events, void *ctx)
{
	struct exec *exec = ctx;
	if (events & (EPOLLERR | EPOLLHUP)) {
		/* The command closed its standard input. */
		size_t dropped = buf_len(&exec->input);
		buf_reset(&exec->input);
		input_close(exec);
		if (dropped > 0)
			tell_room(exec, dropped);
		return;
	}
	write_input(exec);
	relay_update(exec);
}

/* Cuts off what was taken before. */
static int cut_repeat(const struct exec *exec, struct relay_piece *piece, struct err *err)
{
	if (piece->offset > exec->input_taken)
		return err_set(err, ERR_INVALID, "input is missing before this");
	size_t old = MIN(piece->len, (size_t)(exec->input_taken - piece->offset));
	if (old > 0)
		piece->bytes += old;
	piece->offset += old;
	piece->len -= old;
	if (piece->offset < exec->input_taken || exec->input_eof == piece->offset)
		piece->is_end = false;
	return 0;
}

int relay_input(struct exec *exec, struct relay_piece piece, struct err *err)
{
	if (exec->state == EXEC_ENDED) {
		if (piece.len > 0)
			tell_room(exec, piece.len);
		return 0;
	}
	if (cut_repeat(exec, &piece, err) < 0)
		return -1;
	if (buf_put(&exec->input, piece.bytes, piece.len) < 0)
		return err_set(err, ERR_TOO_LARGE, "more input than the window allows");
	exec->input_taken += piece.len;
	exec->is_input_ended |= piece.is_end;
	if (piece.is_end)
		exec->input_eof = exec->input_taken;
	if (exec->state == EXEC_RUNNING)
		write_input(exec);
	relay_update(exec);
	return 0;
}

int relay_resize(struct exec *exec, uint16_t rows, uint16_t cols, struct err *err)
{
	if (!exec->is_tty || exec->streams[0].fd < 0)
		return err_set(err, ERR_CONFLICT, "the exec has no terminal");
	int r = tty_set_size(exec->streams[0].fd, (struct tty_size){.rows = rows, .cols = cols});
	return r < 0 ? err_sys(err, -r, "resize the terminal") : 0;
}

/* --- life --- */

static int make_log(int out_dir, const char *name, struct outlog_writer *ret)
{
	int dir = path_dir(out_dir, name, 0750);
	return dir < 0 ? dir : outlog_writer_open(ret, dir);
}

/* Making files takes a multiple of what renaming one does. Without a spare the next command makes
 * its own, and says what is wrong with that. */
void relay_spare(struct keeper *keeper)
{
	if (keeper->has_spare || keeper->end_reason ||
	    make_log(keeper->launch.out_dir, SPARE, &keeper->spare) < 0)
		return;
	/* A keeper that idles has no folder but those it was given. */
	fd_closep(&keeper->spare.dir_fd);
	keeper->has_spare = true;
}

static void on_spare_due(struct loop_timer *timer, void *ctx)
{
	relay_spare(ctx);
}

void relay_spare_soon(struct keeper *keeper)
{
	loop_timer_in(keeper->loop, &keeper->spare_due, SPARE_MS, on_spare_due, keeper);
}

void relay_spare_done(struct keeper *keeper)
{
	loop_timer_stop(&keeper->spare_due);
	if (keeper->has_spare)
		outlog_writer_close(&keeper->spare);
	keeper->has_spare = false;
}

static bool take_spare(struct exec *exec, int out_dir)
{
	struct keeper *keeper = exec->keeper;
	if (!keeper->has_spare || renameat(out_dir, SPARE, out_dir, exec->id) < 0)
		return false;
	keeper->has_spare = false;
	exec->log = keeper->spare;
	exec->log.dir_fd = path_open_plain(out_dir, exec->id, O_RDONLY | O_DIRECTORY, 0);
	if (exec->log.dir_fd >= 0)
		return true;
	outlog_writer_close(&exec->log);
	return false;
}

int relay_start(struct exec *exec, int out_dir)
{
	buf_init(&exec->input, LIMIT_STDIN_WINDOW_BYTES);
	exec->rate_at_ms = loop_now_ms(exec->keeper->loop);
	exec->rate_tokens = exec->rate_limit;
	return take_spare(exec, out_dir) ? 0 : make_log(out_dir, exec->id, &exec->log);
}

int relay_watch(struct exec *exec)
{
	for (size_t i = 0; i < ARRAY_LEN(exec->streams); i++) {
		struct exec_stream *stream = &exec->streams[i];
		if (stream->fd < 0)
			continue;
		int r = io_set_nonblock(stream->fd, true);
		if (r < 0)
			return r;
	}
	int r = exec->input_fd < 0 ? 0 : io_set_nonblock(exec->input_fd, true);
	if (r < 0)
		return r;
	if (exec->input_fd >= 0)
		write_input(exec);
	relay_update(exec);
	return 0;
}

void relay_end(struct exec *exec)
{
	input_close(exec);
	buf_done(&exec->input);
	outlog_writer_close(&exec->log);
}

void relay_done(struct exec *exec)
{
	for (size_t i = 0; i < ARRAY_LEN(exec->streams); i++)
		stream_close(&exec->streams[i]);
	input_close(exec);
	loop_timer_stop(&exec->again);
	buf_done(&exec->input);
	outlog_writer_close(&exec->log);
}

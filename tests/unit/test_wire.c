#include "wire/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "harness/test.h"

static uint8_t bytes[LIMIT_WIRE_BYTES];

TEST(fields_come_back_as_put)
{
	struct wire_out out;
	struct wire_msg msg;
	size_t len, at = 0;
	wire_begin(&out, WIRE_K_EXEC, 77);
	wire_put_str(&out, FIELD_ARGV, "one");
	wire_put_u64(&out, FIELD_TTY, 1);
	wire_put_str(&out, FIELD_ARGV, "");
	wire_put_bytes(&out, FIELD_BYTES, "\0x", 2);
	const uint8_t *raw = wire_bytes(&out, &len);
	CHECK_INT(wire_parse(raw, len, &msg), 0);
	CHECK_INT(msg.type, WIRE_K_EXEC);
	CHECK_INT(msg.request, 77);
	CHECK_INT(wire_count(&msg, FIELD_ARGV), 2);
	CHECK_STR(wire_next_str(&msg, FIELD_ARGV, &at), "one");
	CHECK_STR(wire_next_str(&msg, FIELD_ARGV, &at), "");
	CHECK(wire_next_str(&msg, FIELD_ARGV, &at) == NULL);
	CHECK_INT(wire_u64(&msg, FIELD_TTY, 9), 1);
	CHECK_INT(wire_u64(&msg, FIELD_ROWS, 9), 9);
	/* A NUL in the middle is no string. */
	CHECK_STR(wire_str(&msg, FIELD_BYTES, "none"), "none");
	CHECK_MEM(wire_blob(&msg, FIELD_BYTES, &len), "\0x", 2);
	CHECK_INT(len, 2);
	wire_done(&out);
}

TEST(an_error_crosses_as_a_value)
{
	struct err err = {0}, back = {0};
	struct wire_out out;
	struct wire_msg msg;
	size_t len;
	(void)err_sys(&err, ENOSPC, "write it");
	wire_begin(&out, WIRE_ERROR, 1);
	wire_put_err(&out, &err);
	const uint8_t *raw = wire_bytes(&out, &len);
	CHECK_INT(wire_parse(raw, len, &msg), 0);
	CHECK_INT(wire_get_err(&msg, &back), -1);
	CHECK_INT(back.code, ERR_NO_SPACE);
	CHECK_INT(back.sys, ENOSPC);
	CHECK_STR(back.msg, err.msg);
	wire_done(&out);
}

TEST(every_cut_of_a_message_is_refused_or_shorter)
{
	struct wire_out out;
	struct wire_msg msg;
	size_t len;
	wire_begin(&out, WIRE_OK, 1);
	wire_put_str(&out, FIELD_PATH, "/a/path");
	wire_put_u64(&out, FIELD_PID, 1);
	const uint8_t *raw = wire_bytes(&out, &len);
	int accepted = 0;
	for (size_t cut = 0; cut < len; cut++)
		accepted += wire_parse(raw, cut, &msg) == 0;
	CHECK_INT(accepted, 2); /* the header alone, and up to the first field's end */
	wire_done(&out);
}

TEST(a_length_beyond_the_end_is_refused)
{
	struct wire_out out;
	struct wire_msg msg;
	size_t len = 0;
	wire_begin(&out, WIRE_OK, 1);
	wire_put_str(&out, FIELD_PATH, "abc");
	const uint8_t *whole = wire_bytes(&out, &len);
	memcpy(bytes, whole, len);
	memset(bytes + 20, 0xff, 4);
	CHECK_INT(wire_parse(bytes, len, &msg), -EPROTO);
	memset(bytes + 20, 0, 4);
	bytes[20] = 2; /* the NUL is then not where it must be */
	CHECK_INT(wire_parse(bytes, len, &msg), -EPROTO);
	wire_done(&out);
}

TEST(too_much_is_refused_at_send)
{
	struct wire_out out;
	wire_begin(&out, WIRE_OK, 1);
	for (int i = 0; i < 3; i++)
		wire_put_bytes(&out, FIELD_BYTES, bytes, LIMIT_CHUNK_BYTES);
	CHECK(out.overflow);
	CHECK_INT(wire_send(-1, &out), -EMSGSIZE);
	wire_done(&out);
}

TEST(descriptors_travel_and_unclaimed_ones_close)
{
	int pair[2];
	struct wire_out out;
	struct wire_msg msg;
	CHECK_INT(wire_pair(pair), 0);
	wire_begin(&out, WIRE_OK, 5);
	wire_put_fd(&out, pair[0]);
	wire_put_fd(&out, pair[1]);
	CHECK_INT(wire_send(pair[0], &out), 0);
	CHECK_INT(wire_recv(pair[1], bytes, sizeof(bytes), &msg), 1);
	CHECK_INT(msg.fd_count, 2);
	int taken = wire_take_fd(&msg, 1);
	CHECK(taken >= 0);
	CHECK_INT(fcntl(taken, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	CHECK_INT(wire_take_fd(&msg, 7), -1);
	wire_msg_done(&msg);
	(void)close(taken);
	(void)close(pair[0]);
	CHECK_INT(wire_recv(pair[1], bytes, sizeof(bytes), &msg), 0);
	(void)close(pair[1]);
	wire_done(&out);
}

TEST(a_call_skips_notifications_and_times_out)
{
	int pair[2];
	struct wire_out note, answer, call;
	struct wire_msg msg;
	struct err err = {0};
	CHECK_INT(wire_pair(pair), 0);
	wire_begin(&note, WIRE_K_OUTPUT, 0);
	wire_begin(&answer, WIRE_OK, 3);
	wire_begin(&call, WIRE_PING, 3);
	CHECK_INT(wire_send(pair[1], &note), 0);
	CHECK_INT(wire_send(pair[1], &answer), 0);
	CHECK_INT(wire_call(pair[0], &call, bytes, 1000, &msg, &err), 0);
	CHECK_INT(msg.type, WIRE_OK);
	CHECK(wire_call(pair[0], &call, bytes, 10, &msg, &err) < 0);
	CHECK_INT(err.code, ERR_TIMEOUT);
	wire_done(&note);
	wire_done(&answer);
	wire_done(&call);
	(void)close(pair[0]);
	(void)close(pair[1]);
}

TEST(a_listener_is_found_by_directory_and_name)
{
	int dir = test_dir_fd();
	uid_t uid;
	pid_t pid;
	int listener = wire_listen(dir, "x.sock", 0600);
	CHECK(listener >= 0);
	int sock = wire_connect(dir, "x.sock");
	CHECK(sock >= 0);
	CHECK_INT(wire_peer(sock, &uid, &pid), 0);
	CHECK_INT(uid, getuid());
	CHECK_INT(wire_connect(dir, "y.sock"), -ENOENT);
	(void)close(sock);
	(void)close(listener);
	(void)close(dir);
}

TEST(last_words_are_heard_from_a_peer_that_did_not_read_ours)
{
	auto_wire_out struct wire_out ours = {0}, theirs = {0};
	struct wire_msg msg;
	int pair[2];

	CHECK_INT(wire_pair(pair), 0);
	wire_begin(&ours, WIRE_K_STOP, 1);
	wire_begin(&theirs, WIRE_K_GONE, 0);
	CHECK_INT(wire_send(pair[0], &ours), 0);
	CHECK_INT(wire_send(pair[1], &theirs), 0);
	CHECK_INT(close(pair[1]), 0);
	CHECK_INT(wire_recv(pair[0], bytes, sizeof(bytes), &msg), 1);
	CHECK_INT(msg.type, WIRE_K_GONE);
	wire_msg_done(&msg);
	CHECK_INT(wire_recv(pair[0], bytes, sizeof(bytes), &msg), 0);
	CHECK_INT(close(pair[0]), 0);
}

#include <errno.h>
#include <unistd.h>

#include "base/loop.h"
#include "base/mem.h"
#include "harness/test.h"
#include "runtime/gate.h"
#include "runtime/peer.h"

static struct loop *loop;
static struct peer *peer;
static int other;
static uint8_t bytes[LIMIT_WIRE_BYTES];
static struct err last_err;
static int answers, refusals, messages, closed;
static uint64_t last_value;

static void on_answer(struct wire_msg *msg, const struct err *err, void *ctx)
{
	answers++;
	last_err = *err;
	if (msg)
		last_value = wire_u64(msg, FIELD_PID, 0);
	else
		refusals++;
}

static void on_message(struct wire_msg *msg, void *ctx)
{
	messages++;
	last_value = wire_u64(msg, FIELD_OFFSET, 0);
}

static void on_closed(void *ctx)
{
	closed++;
}

static void set_up(void)
{
	struct peer_config config = {
		.role = "tester", .on_message = on_message, .on_closed = on_closed};
	struct wire_msg msg;
	struct err err = {0};
	int pair[2];

	CHECK_INT(wire_pair(pair), 0);
	CHECK_INT(loop_new(&loop), 0);
	other = pair[1];
	CHECK_INT(peer_new(loop, pair[0], &config, &peer, &err), 0);
	CHECK_INT(wire_recv(other, bytes, sizeof(bytes), &msg), 1);
	CHECK_INT(msg.type, WIRE_HELLO);
	wire_msg_done(&msg);
}

static void tear_down(void)
{
	peer_free(peer);
	close(other);
	loop_free(loop);
}

static void run(void)
{
	for (int i = 0; i < 20; i++)
		CHECK(loop_step(loop, 0) >= 0);
}

static void call(uint64_t timeout_ms)
{
	auto_wire_out struct wire_out out = {0};
	uint64_t number = peer_begin(peer, &out, WIRE_K_METERS);

	peer_call(peer, number, &out, timeout_ms, on_answer, NULL);
}

/* Takes one request on the other side; answers it with type. */
static void answer(enum wire_type type, uint64_t value)
{
	auto_wire_out struct wire_out out = {0};
	struct wire_msg msg;
	const struct err err = {.code = ERR_LIMITED, .msg = "too many"};

	CHECK_INT(wire_recv(other, bytes, sizeof(bytes), &msg), 1);
	wire_begin(&out, type, msg.request);
	wire_put_u64(&out, FIELD_PID, value);
	if (type == WIRE_ERROR)
		wire_put_err(&out, &err);
	CHECK_INT(wire_send(other, &out), 0);
	wire_msg_done(&msg);
}

TEST(an_answer_finds_its_question)
{
	set_up();
	call(1000);
	CHECK_INT(answers, 0);
	answer(WIRE_OK, 42);
	run();
	CHECK_INT(answers, 1);
	CHECK_INT(last_value, 42);
	CHECK_INT(last_err.code, ERR_OK);
	call(1000);
	answer(WIRE_ERROR, 0);
	run();
	CHECK_INT(refusals, 1);
	CHECK_INT(last_err.code, ERR_LIMITED);
	CHECK_STR(last_err.msg, "too many");
	tear_down();
}

TEST(other_messages_are_notifications)
{
	auto_wire_out struct wire_out out = {0};

	set_up();
	wire_begin(&out, WIRE_K_OUTPUT, 0);
	wire_put_u64(&out, FIELD_OFFSET, 9);
	CHECK_INT(wire_send(other, &out), 0);
	run();
	CHECK_INT(messages, 1);
	CHECK_INT(last_value, 9);
	tear_down();
}

TEST(silence_has_a_limit_and_a_late_answer_is_ignored)
{
	set_up();
	call(20);
	for (int i = 0; i < 200 && !answers; i++)
		CHECK(loop_step(loop, 10) >= 0);
	CHECK_INT(refusals, 1);
	CHECK_INT(last_err.code, ERR_TIMEOUT);
	answer(WIRE_OK, 1);
	run();
	CHECK_INT(answers, 1);
	tear_down();
}

TEST(the_end_of_the_other_side_answers_everything)
{
	set_up();
	call(1000);
	call(1000);
	close(other);
	run();
	CHECK_INT(refusals, 2);
	CHECK_INT(last_err.code, ERR_UNAVAILABLE);
	CHECK_INT(closed, 1);
	call(1000);
	CHECK_INT(refusals, 2);
	run();
	CHECK_INT(refusals, 3);
	other = -1;
	tear_down();
}

TEST(nonsense_ends_the_connection)
{
	set_up();
	CHECK_INT(write(other, "nonsense", 8), 8);
	run();
	CHECK_INT(closed, 1);
	CHECK(!peer_is_open(peer));
	tear_down();
}

TEST(another_version_ends_the_connection)
{
	auto_wire_out struct wire_out out = {0};

	set_up();
	wire_begin(&out, WIRE_HELLO, 0);
	wire_put_u64(&out, FIELD_VERSION_MIN, WIRE_VERSION + 1);
	wire_put_u64(&out, FIELD_VERSION_MAX, WIRE_VERSION + 9);
	CHECK_INT(wire_send(other, &out), 0);
	run();
	CHECK_INT(closed, 1);
	tear_down();
}

TEST(a_full_socket_makes_messages_wait_in_order)
{
	struct wire_msg msg;
	int count = 0;

	set_up();
	for (uint64_t i = 1; i <= 1000; i++) {
		auto_wire_out struct wire_out out = {0};

		wire_begin(&out, WIRE_K_ACK, 0);
		wire_put_u64(&out, FIELD_OFFSET, i);
		peer_notify(peer, &out);
	}
	while (count < 1000) {
		run();
		while (count < 1000 && wire_recv(other, bytes, sizeof(bytes), &msg) == 1) {
			CHECK_INT(wire_u64(&msg, FIELD_OFFSET, 0), ++count);
			wire_msg_done(&msg);
			if (count % 10 == 0)
				break;
		}
	}
	tear_down();
}

TEST(a_gate_lets_so_many_through)
{
	struct gate gate;

	set_up();
	gate_init(&gate, peer, 2);
	for (int i = 0; i < 5; i++) {
		auto_wire_out struct wire_out out = {0};
		uint64_t number = peer_begin(peer, &out, WIRE_OP_REAP);

		gate_call(&gate, number, &out, 1000, on_answer, NULL);
	}
	CHECK_INT(gate.under_way, 2);
	for (int i = 0; i < 3; i++) {
		answer(WIRE_OK, 1);
		run();
	}
	CHECK_INT(answers, 3);
	CHECK_INT(gate.under_way, 2);
	peer_free(peer);
	peer = NULL;
	CHECK_INT(answers, 5);
	CHECK_INT(refusals, 2);
	tear_down();
}

TEST(a_gate_refuses_what_waits_when_the_peer_goes)
{
	struct gate gate;

	set_up();
	gate_init(&gate, peer, 1);
	for (int i = 0; i < 4; i++) {
		auto_wire_out struct wire_out out = {0};
		uint64_t number = peer_begin(peer, &out, WIRE_OP_REAP);

		gate_call(&gate, number, &out, 1000, on_answer, NULL);
	}
	close(other);
	run();
	other = -1;
	CHECK_INT(refusals, 4);
	tear_down();
}

TEST(a_gate_refuses_what_waited_too_long)
{
	static const uint64_t timeouts[] = {60, 10, 10, 10};
	struct gate gate;

	set_up();
	gate_init(&gate, peer, 1);
	for (size_t i = 0; i < ARRAY_LEN(timeouts); i++) {
		auto_wire_out struct wire_out out = {0};
		uint64_t number = peer_begin(peer, &out, WIRE_OP_REAP);

		gate_call(&gate, number, &out, timeouts[i], on_answer, NULL);
	}
	while (answers < 1)
		CHECK(loop_step(loop, 100) >= 0);
	/* The first hung; the others had no time left and are not sent any more. */
	CHECK_INT(answers, 4);
	CHECK_INT(refusals, 4);
	CHECK_INT(last_err.code, ERR_TIMEOUT);
	CHECK_INT(gate.under_way, 0);
	tear_down();
}

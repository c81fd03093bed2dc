/* What is said of calls that are refused, and how a flood of them is told. */
#include "keeper/calls.h"

#include <sys/socket.h>
#include <sys/syscall.h>

#include "base/loop.h"
#include "base/str.h"
#include "harness/test.h"
#include "keeper/decision.h"

static void check(uint64_t call, const uint64_t args[CALLS_ARGS], const char *rule)
{
	struct judgement judgement;
	calls_describe(call, args, &judgement);
	CHECK_INT(judgement.answer, POLICY_DENY);
	CHECK_STR(judgement.rule, rule);
	CHECK(judgement.remedy[0] != '\0');
}

TEST(each_kind_has_words)
{
	const struct {
		uint64_t call, args[CALLS_ARGS];
		const char *rule;
	} rows[] = {
		{SYS_socket,
	         {AF_PACKET, SOCK_RAW, 3},
	         "a sandbox has no sockets of this family (AF_PACKET)"},
		{SYS_socket,
	         {1000, SOCK_RAW},
	         "a sandbox has no sockets of this family (no name is known)"},
		/* of each number the kernel looks at half, and so does this */
		{SYS_socket,
	         {AF_PACKET | UINT64_C(1) << 32, SOCK_RAW},
	         "a sandbox has no sockets of this family (AF_PACKET)"},
		{SYS_socketpair,
	         {AF_TIPC, SOCK_STREAM},
	         "a sandbox has no sockets of this family (AF_TIPC)"},
		{SYS_socket,
	         {AF_NETLINK, SOCK_RAW, 9},
	         "a sandbox has no netlink sockets but for routes (AUDIT)"},
		{SYS_socket,
	         {AF_NETLINK, SOCK_RAW, 99},
	         "a sandbox has no netlink sockets but for routes (no name is known)"},
		{SYS_socket,
	         {AF_INET6, SOCK_RAW | SOCK_CLOEXEC, 58},
	         "a sandbox has no raw sockets"},
		{SYS_socket,
	         {AF_INET, SOCK_DGRAM, 1},
	         "a sandbox has no IP sockets but for TCP and UDP (ICMP)"},
		{SYS_setsockopt,
	         {0, SOL_SOCKET, SO_MARK},
	         "a sandbox has no socket options of this kind (SO_MARK)"},
		{SYS_setsockopt,
	         {0, 41, 57},
	         "a sandbox has no socket options of this kind (IPV6_RTHDR)"},
		{SYS_io_uring_setup, {4}, "a sandbox has no io_uring"},
		{12345, {0}, "a sandbox has no such call"},
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		check(rows[i].call, rows[i].args, rows[i].rule);
	CHECK(calls_is_common(SYS_io_uring_setup) && !calls_is_common(SYS_socket));
}

struct told {
	unsigned events;
	uint64_t count;
};

static void on_tell(void *ctx, const struct decision *decision)
{
	struct told *told = ctx;
	told->events++;
	told->count += decision->count;
}

static bool on_who(void *ctx, uint64_t token, const struct decision *decision)
{
	return false;
}

TEST(a_flood_of_them_is_counted_and_hides_nothing_else)
{
	struct told told = {0};
	struct decision_hooks hooks = {&told, on_tell, on_who};
	struct decisions decisions;
	auto_loop struct loop *loop = NULL;
	CHECK_INT(loop_new(&loop), 0);
	decisions_init(&decisions, loop, &hooks);
	struct decision one = {.verdict = DECISION_DENY, .proto = DECISION_SOCKET, .count = 1};
	for (int i = 0; i < 10000; i++) {
		(void)snprintf(one.rule, sizeof(one.rule), "kind %d", i % 1000);
		(void)decision_make(&decisions, &one, NULL, NULL);
	}
	CHECK(told.events >= 16 && told.events <= 32);
	CHECK_INT(decisions.denied, 10000);
	CHECK_INT(decisions.host_count, 0);
	struct decision other = {.verdict = DECISION_DENY, .proto = DECISION_TCP, .count = 1};
	other.to.port = 443;
	unsigned before = told.events;
	(void)decision_make(&decisions, &other, NULL, NULL);
	CHECK_INT(told.events, before + 1);
	for (int i = 0; i < 200 && told.count < 10001; i++)
		CHECK(loop_step(loop, 50) >= 0);
	CHECK_INT(told.count, 10001);
	decisions_done(&decisions);
}

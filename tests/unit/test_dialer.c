#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "broker/dialer.h"
#include "harness/test.h"
#include "wire/wire.h"

#define BOX   "sb_00000000000000000001"
#define OTHER "sb_00000000000000000002"

struct fixture {
	struct dialer dialer;
	int keeper; /* our end of BOX's socket */
	int listener;
	uint16_t port;
	uint8_t *bytes;
};

static enum err_code call(struct fixture *f, int sock, struct wire_out *out, int *ret_fd)
{
	struct wire_msg answer;
	struct err err = {0};
	int r = wire_call(sock, out, f->bytes, 10000, &answer, &err);
	wire_done(out);
	if (r < 0)
		return err.code;
	int fd = wire_take_fd(&answer, 0);
	wire_msg_done(&answer);
	if (ret_fd)
		*ret_fd = fd;
	else if (fd >= 0)
		close(fd);
	return ERR_OK;
}

static int add_keeper(struct fixture *f, const char *sandbox)
{
	int pair[2];
	struct wire_out out;
	CHECK_INT(wire_pair(pair), 0);
	wire_begin(&out, WIRE_D_KEEPER, 1);
	wire_put_str(&out, FIELD_SANDBOX, sandbox);
	wire_put_fd(&out, pair[1]);
	CHECK_INT(call(f, f->dialer.sock, &out, NULL), ERR_OK);
	close(pair[1]);
	return pair[0];
}

static void setup(struct fixture *f)
{
	struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	socklen_t len = sizeof(addr);
	struct err err = {0};
	f->bytes = mem_zalloc(LIMIT_WIRE_BYTES);
	f->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CHECK_INT(bind(f->listener, (const struct sockaddr *)&addr, sizeof(addr)), 0);
	CHECK_INT(listen(f->listener, 8), 0);
	CHECK_INT(getsockname(f->listener, (struct sockaddr *)&addr, &len), 0);
	f->port = ntohs(addr.sin_port);
	dialer_init(&f->dialer);
	CHECK_INT(dialer_start(&f->dialer, &err), 0);
	f->keeper = add_keeper(f, BOX);
}

static void teardown(struct fixture *f)
{
	pid_t pid = f->dialer.pid;
	dialer_stop(&f->dialer);
	close(f->keeper);
	CHECK_INT(waitpid(pid, NULL, 0), pid); /* nobody needs it any more */
	close(f->listener);
	mem_freep(&f->bytes);
}

static enum err_code set_policy(struct fixture *f, uint64_t generation, const char *cidr)
{
	struct wire_out out;
	wire_begin(&out, WIRE_D_POLICY, 1);
	wire_put_str(&out, FIELD_SANDBOX, BOX);
	wire_put_u64(&out, FIELD_GENERATION, generation);
	if (cidr)
		wire_put_str(&out, FIELD_CIDR, cidr);
	return call(f, f->dialer.sock, &out, NULL);
}

static enum err_code dial_on(struct fixture *f, int sock, uint64_t generation, const char *address,
                             uint64_t port, int *ret_fd)
{
	struct wire_out out;
	wire_begin(&out, WIRE_D_DIAL, 2);
	wire_put_u64(&out, FIELD_GENERATION, generation);
	wire_put_str(&out, FIELD_ADDRESS, address);
	wire_put_u64(&out, FIELD_PORT, port);
	return call(f, sock, &out, ret_fd);
}

static enum err_code dial(struct fixture *f, uint64_t generation, const char *address,
                          uint64_t port, int *ret_fd)
{
	return dial_on(f, f->keeper, generation, address, port, ret_fd);
}

static void check_connected(struct fixture *f, int fd)
{
	char got = 0;
	struct pollfd ready = {.fd = fd, .events = POLLOUT};
	int peer = accept4(f->listener, NULL, NULL, SOCK_CLOEXEC);
	CHECK_INT(poll(&ready, 1, 5000), 1);
	CHECK_INT(write(fd, "x", 1), 1);
	CHECK_INT(read(peer, &got, 1), 1);
	CHECK_INT(got, 'x');
	close(peer);
	close(fd);
}

TEST(a_granted_address_is_connected)
{
	struct fixture f;
	int fd = -1;
	setup(&f);
	CHECK_INT(set_policy(&f, 1, "127.0.0.0/8"), ERR_OK);
	CHECK_INT(dial(&f, 1, "127.0.0.1", f.port, &fd), ERR_OK);
	check_connected(&f, fd);
	teardown(&f);
}

TEST(the_never_list_holds)
{
	struct fixture f;
	static const char *const never[] = {
		"127.0.0.1",        "::1",           "169.254.169.254", "10.0.0.1",
		"::ffff:127.0.0.1", "2002:7f00:1::", "0.0.0.0"};
	setup(&f);
	CHECK_INT(set_policy(&f, 1, NULL), ERR_OK);
	for (size_t i = 0; i < ARRAY_LEN(never); i++)
		CHECK_INT(dial(&f, 1, never[i], f.port, NULL), ERR_FORBIDDEN);
	/* Narrow means narrow. */
	CHECK_INT(set_policy(&f, 2, "127.0.0.2/32"), ERR_OK);
	CHECK_INT(dial(&f, 2, "127.0.0.1", f.port, NULL), ERR_FORBIDDEN);
	teardown(&f);
}

TEST(an_old_policy_dials_nothing)
{
	struct fixture f;
	setup(&f);
	CHECK_INT(dial(&f, 0, "127.0.0.1", f.port, NULL), ERR_FORBIDDEN); /* none yet */
	CHECK_INT(set_policy(&f, 1, "127.0.0.0/8"), ERR_OK);
	CHECK_INT(set_policy(&f, 2, "127.0.0.0/8"), ERR_OK);
	CHECK_INT(dial(&f, 1, "127.0.0.1", f.port, NULL), ERR_CONFLICT);
	CHECK_INT(dial(&f, 2, "127.0.0.1", f.port, NULL), ERR_OK);
	CHECK_INT(set_policy(&f, 0, NULL), ERR_OK);
	CHECK_INT(dial(&f, 2, "127.0.0.1", f.port, NULL), ERR_FORBIDDEN);
	teardown(&f);
}

TEST(who_asks_is_the_socket)
{
	struct fixture f;
	setup(&f);
	int other = add_keeper(&f, OTHER);
	CHECK_INT(set_policy(&f, 1, "127.0.0.0/8"), ERR_OK);
	CHECK_INT(dial_on(&f, other, 1, "127.0.0.1", f.port, NULL), ERR_FORBIDDEN);
	/* A keeper gives no orders. */
	struct wire_out out;
	wire_begin(&out, WIRE_D_POLICY, 3);
	wire_put_str(&out, FIELD_SANDBOX, OTHER);
	wire_put_u64(&out, FIELD_GENERATION, 1);
	CHECK_INT(call(&f, other, &out, NULL), ERR_PROTOCOL);
	close(other);
	teardown(&f);
}

TEST(nonsense_is_refused)
{
	struct fixture f;
	struct wire_out out;
	setup(&f);
	CHECK_INT(set_policy(&f, 1, "localhost/8"), ERR_INVALID);
	CHECK_INT(set_policy(&f, 1, "127.0.0.0/8"), ERR_OK);
	CHECK_INT(dial(&f, 1, "localhost", f.port, NULL), ERR_INVALID);
	CHECK_INT(dial(&f, 1, "127.0.0.1", 0, NULL), ERR_INVALID);
	CHECK_INT(dial(&f, 1, "127.0.0.1", 65536, NULL), ERR_INVALID);
	wire_begin(&out, WIRE_OP_LAUNCH, 3);
	CHECK_INT(call(&f, f.dialer.sock, &out, NULL), ERR_PROTOCOL);
	wire_begin(&out, WIRE_D_RESOLVERS, 3);
	wire_put_str(&out, FIELD_ENTRY, "localhost\t53");
	CHECK_INT(call(&f, f.dialer.sock, &out, NULL), ERR_INVALID);
	teardown(&f);
}

TEST(resolvers_are_the_operator_s)
{
	struct fixture f;
	struct wire_out out;
	int fd = -1;
	char entry[32];
	setup(&f);
	(void)snprintf(entry, sizeof(entry), "127.0.0.1\t%u", f.port);
	wire_begin(&out, WIRE_D_RESOLVERS, 3);
	wire_put_str(&out, FIELD_ENTRY, entry);
	CHECK_INT(call(&f, f.dialer.sock, &out, NULL), ERR_OK);
	wire_begin(&out, WIRE_D_RESOLVE, 4);
	CHECK_INT(call(&f, f.keeper, &out, NULL), ERR_FORBIDDEN); /* no policy */
	CHECK_INT(set_policy(&f, 1, NULL), ERR_OK);
	wire_begin(&out, WIRE_D_RESOLVE, 5);
	CHECK_INT(call(&f, f.keeper, &out, &fd), ERR_OK);
	check_connected(&f, fd);
	wire_begin(&out, WIRE_D_RESOLVE, 6);
	wire_put_u64(&out, FIELD_NUMBER, 1);
	CHECK_INT(call(&f, f.keeper, &out, NULL), ERR_NOT_FOUND);
	teardown(&f);
}

TEST(it_outlives_the_broker_for_its_keepers)
{
	struct fixture f;
	int fd = -1;
	setup(&f);
	CHECK_INT(set_policy(&f, 1, "127.0.0.0/8"), ERR_OK);
	close(f.dialer.sock);
	f.dialer.sock = -1;
	CHECK_INT(dial(&f, 1, "127.0.0.1", f.port, &fd), ERR_OK);
	check_connected(&f, fd);
	teardown(&f);
}

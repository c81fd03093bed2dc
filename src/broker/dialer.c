/*
 * Who: a child of the broker. Capabilities: none from its first message on; as root a uid of its
 * own. Bytes: messages of broker and keepers, through wire_parse: ids, numbers, addresses in
 * numbers. Gone before the first message: capabilities, files (Landlock), other descriptors.
 */
#include "broker/dialer.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/addr.h"
#include "base/id.h"
#include "base/io.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/str.h"
#include "net/never.h"
#include "os/caps.h"
#include "os/landlock.h"
#include "wire/wire.h"

struct policy {
	char sandbox[LIMIT_ID_LEN + 1];
	uint64_t generation;
	struct addr_cidr cidrs[DIALER_CIDRS];
	size_t cidr_count;
};

struct serving {
	int sock;
	struct loop *loop;
	struct loop_source source;
	struct policy **policies;
	size_t policy_count;
	struct dial *dials;
	size_t dial_count;
	uint8_t *bytes;
};

struct dial {
	struct dial *next;
	struct serving *serving;
	uint64_t request;
	int fd;
	struct loop_source source;
	struct loop_timer timer;
};

static void answer(struct serving *serving, uint64_t request, int fd, const struct err *err)
{
	auto_wire_out struct wire_out out;
	wire_begin(&out, err->code == ERR_OK ? WIRE_OK : WIRE_ERROR, request);
	if (err->code != ERR_OK)
		wire_put_err(&out, err);
	else if (fd >= 0)
		wire_put_fd(&out, fd);
	/* Who does not take answers loses them; the connection closes with our copy. */
	(void)!wire_send(serving->sock, &out);
}

static void dial_free(struct dial *dial)
{
	struct dial **at = &dial->serving->dials;
	while (*at != dial)
		at = &(*at)->next;
	*at = dial->next;
	dial->serving->dial_count--;
	loop_remove(&dial->source);
	loop_timer_stop(&dial->timer);
	fd_closep(&dial->fd);
	mem_freep(&dial);
}

static void dial_finish(struct dial *dial, const struct err *err)
{
	loop_remove(&dial->source);
	answer(dial->serving, dial->request, dial->fd, err);
	dial_free(dial);
}

static void on_timeout(struct loop_timer *timer, void *ctx)
{
	struct err err = {0};
	err_set(&err, ERR_TIMEOUT, "nobody answered there");
	dial_finish(ctx, &err);
}

static void on_connected(struct loop_source *source, uint32_t events, void *ctx)
{
	struct dial *dial = ctx;
	struct err err = {0};
	int sys = 0;
	socklen_t len = sizeof(sys);
	if (getsockopt(dial->fd, SOL_SOCKET, SO_ERROR, &sys, &len) < 0)
		sys = errno;
	if (sys)
		err_set(&err, ERR_UNAVAILABLE, "cannot connect: %s", strerror(sys));
	dial_finish(dial, &err);
}

static struct policy *find_policy(struct serving *serving, const char *sandbox, size_t *ret_at)
{
	for (size_t i = 0; i < serving->policy_count; i++) {
		if (!str_eq(serving->policies[i]->sandbox, sandbox))
			continue;
		if (ret_at)
			*ret_at = i;
		return serving->policies[i];
	}
	return NULL;
}

static int connect_to(const struct addr *ip, uint16_t port, struct err *err)
{
	struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
	bool is_v4 = addr_is_v4(ip);
	memcpy(&v4.sin_addr, ip->bytes + 12, sizeof(v4.sin_addr));
	memcpy(&v6.sin6_addr, ip->bytes, sizeof(v6.sin6_addr));
	auto_close int fd =
		socket(is_v4 ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return err_sys(err, errno, "make a socket");
	int r = is_v4 ? connect(fd, (const struct sockaddr *)&v4, sizeof(v4))
	              : connect(fd, (const struct sockaddr *)&v6, sizeof(v6));
	if (r < 0 && errno != EINPROGRESS)
		return err_set(err, ERR_UNAVAILABLE, "cannot connect: %s", strerror(errno));
	return take_fd(&fd);
}

/* What is asked for, judged by what this sandbox may. A connected or connecting socket, or -1. */
static int judge_and_connect(struct serving *serving, const struct wire_msg *msg, struct err *err)
{
	const char *sandbox = wire_str(msg, FIELD_SANDBOX, "");
	const struct policy *policy = find_policy(serving, sandbox, NULL);
	uint64_t port = wire_u64(msg, FIELD_PORT, 0);
	struct addr ip;
	if (!policy)
		return err_set(err, ERR_FORBIDDEN, "this sandbox has no network policy");
	if (wire_u64(msg, FIELD_GENERATION, 0) != policy->generation)
		return err_set(err, ERR_CONFLICT, "the network policy has changed");
	if (!addr_parse(wire_str(msg, FIELD_ADDRESS, ""), &ip) || port == 0 || port > 65535)
		return err_set(err, ERR_INVALID, "not an address and port");
	const char *rule = never_reason(&ip, policy->cidrs, policy->cidr_count);
	if (rule)
		return err_set(err, ERR_FORBIDDEN, "%s addresses are never dialled", rule);
	if (serving->dial_count >= DIALER_DIALS)
		return err_set(err, ERR_LIMITED, "%d connections are being made already",
		               DIALER_DIALS);
	return connect_to(&ip, (uint16_t)port, err);
}

static int start_dial(struct serving *serving, struct wire_msg *msg, struct err *err)
{
	auto_close int fd = judge_and_connect(serving, msg, err);
	if (fd < 0)
		return -1;
	struct dial *dial = mem_new(struct dial);
	dial->serving = serving;
	dial->request = msg->request;
	dial->fd = take_fd(&fd);
	dial->next = serving->dials;
	serving->dials = dial;
	serving->dial_count++;
	int r = loop_add(serving->loop, &dial->source, dial->fd, EPOLLOUT, on_connected, dial);
	if (r < 0) {
		dial_free(dial);
		return err_sys(err, -r, "wait for a connection");
	}
	uint64_t timeout = wire_u64(msg, FIELD_TIMEOUT_MS, DIALER_TIMEOUT_MS);
	loop_timer_in(serving->loop, &dial->timer, MIN(timeout, (uint64_t)DIALER_TIMEOUT_MOST_MS),
	              on_timeout, dial);
	return 0;
}

static int read_cidrs(const struct wire_msg *msg, struct policy *policy, struct err *err)
{
	size_t at = 0;
	const char *text;
	while ((text = wire_next_str(msg, FIELD_CIDR, &at))) {
		if (policy->cidr_count == DIALER_CIDRS ||
		    !addr_parse_cidr(text, &policy->cidrs[policy->cidr_count]))
			return err_set(err, ERR_INVALID, "malformed or too many CIDRs");
		policy->cidr_count++;
	}
	return 0;
}

static int set_policy(struct serving *serving, struct wire_msg *msg, struct err *err)
{
	const char *sandbox = wire_str(msg, FIELD_SANDBOX, "");
	uint64_t generation = wire_u64(msg, FIELD_GENERATION, 0);
	size_t at = 0;
	if (!id_is_valid(sandbox, "sb"))
		return err_set(err, ERR_INVALID, "malformed sandbox id");
	struct policy *old = find_policy(serving, sandbox, &at);
	auto_free struct policy *policy = mem_new(struct policy);
	policy->generation = generation;
	if (!str_copy(policy->sandbox, sizeof(policy->sandbox), sandbox) ||
	    read_cidrs(msg, policy, err) < 0)
		return -1;
	if (old && generation == 0) {
		serving->policies[at] = serving->policies[--serving->policy_count];
		mem_freep(&old);
	} else if (old) {
		*old = *policy;
	} else if (generation != 0) {
		if (serving->policy_count == DIALER_POLICIES)
			return err_set(err, ERR_LIMITED, "too many policies");
		serving->policies = mem_resize(serving->policies, serving->policy_count + 1,
		                               sizeof(struct policy *));
		serving->policies[serving->policy_count++] = take_ptr(policy);
	}
	answer(serving, msg->request, -1, &(struct err){0});
	return 0;
}

static void on_message(struct loop_source *source, uint32_t events, void *ctx)
{
	struct serving *serving = ctx;
	struct wire_msg msg;
	struct err err = {0};
	int r = wire_recv(serving->sock, serving->bytes, LIMIT_WIRE_BYTES, &msg);
	if (r == -EAGAIN || r == -EINTR)
		return;
	if (r <= 0) {
		loop_stop(serving->loop, r < 0);
		return;
	}
	if (msg.type == WIRE_D_DIAL)
		r = start_dial(serving, &msg, &err);
	else if (msg.type == WIRE_D_POLICY)
		r = set_policy(serving, &msg, &err);
	else
		r = err_set(&err, ERR_PROTOCOL, "the dialer does not know this message");
	if (r < 0)
		answer(serving, msg.request, -1, &err);
	wire_msg_done(&msg);
}

int dialer_serve(int sock)
{
	struct serving serving = {.sock = sock, .bytes = mem_zalloc(LIMIT_WIRE_BYTES)};
	auto_loop struct loop *loop = NULL;
	int r = loop_new(&loop);
	serving.loop = loop;
	if (r == 0)
		r = io_set_nonblock(sock, true);
	if (r == 0)
		r = loop_add(loop, &serving.source, sock, EPOLLIN, on_message, &serving);
	if (r == 0)
		r = loop_run(loop);
	loop_remove(&serving.source);
	while (serving.dials)
		dial_free(serving.dials);
	for (size_t i = 0; i < serving.policy_count; i++)
		mem_freep(&serving.policies[i]);
	mem_freep(&serving.policies);
	mem_freep(&serving.bytes);
	return r == 0 ? 0 : 1;
}

/* Where Landlock is missing the uid and the empty capability sets have to do. */
static int confine(void)
{
	auto_close int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	int r = caps_has(CAP_SETUID) ? caps_become(DIALER_UID, DIALER_UID, CAPS_BIT(CAP_SETPCAP))
	                             : 0;
	/* Rootless that uid is not mapped, and we are the plain user outside anyway. */
	if (r == 0 || r == -EINVAL)
		r = caps_has(CAP_SETPCAP) ? caps_limit(0) : caps_clear();
	if (r == 0)
		r = caps_no_new_privs();
	if (r == 0)
		r = landlock_restrict(root, NULL, 0, 0);
	return r == -ENOSYS || r == -EOPNOTSUPP ? 0 : r;
}

void dialer_init(struct dialer *dialer)
{
	*dialer = (struct dialer){.sock = -1};
}

static NORETURN void child(int sock)
{
	const int keep[] = {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO, sock};
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_IGN);
	(void)setsid(); /* Ctrl-C is for the broker; fails only for a leader */
	(void)prctl(PR_SET_NAME, "cloche:dialer", 0, 0, 0);
	if (caps_close_fds_except(keep, ARRAY_LEN(keep)) < 0 || confine() < 0)
		_exit(1);
	_exit(dialer_serve(sock));
}

int dialer_start(struct dialer *dialer, struct err *err)
{
	if (dialer->pid > 0 && waitpid(dialer->pid, NULL, WNOHANG) == 0)
		return 0;
	fd_closep(&dialer->sock);
	dialer->pid = 0;
	int pair[2];
	int r = wire_pair(pair);
	if (r < 0)
		return err_sys(err, -r, "make the dialer's socket");
	pid_t pid = fork();
	if (pid == 0)
		child(pair[1]);
	close(pair[1]);
	if (pid < 0) {
		close(pair[0]);
		return err_sys(err, errno, "fork the dialer");
	}
	*dialer = (struct dialer){.pid = pid, .sock = pair[0]};
	return 0;
}

void dialer_stop(struct dialer *dialer)
{
	fd_closep(&dialer->sock);
	while (dialer->pid > 0 && waitpid(dialer->pid, NULL, 0) < 0 && errno == EINTR)
		;
	dialer->pid = 0;
}

/*
 * Who: a child of the broker. Capabilities: none from its first message on; as root a uid of its
 * own. Bytes: messages of broker and keepers, through wire_parse: ids, numbers, addresses in
 * numbers. Gone before the first message: capabilities, files (Landlock), other descriptors.
 *
 * Which sandbox asks is not said but known: it is the socket on which it asks. So a keeper that was
 * taken over can dial for itself alone, and only what its own policy opens.
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
#include <time.h>
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

enum { V4_AT = 12, V6_FRESH_MS = 5000, STOP_MS = 20 };

struct place {
	struct addr addr;
	uint16_t port;
};

/* One keeper's socket, and what its sandbox may. */
struct channel {
	struct channel *next;
	struct serving *serving;
	int sock; /* owned */
	struct loop_source source;
	char sandbox[LIMIT_ID_LEN + 1];
	uint64_t generation; /* 0: it may dial nothing */
	struct addr_cidr *cidrs;
	size_t cidr_count;
};

struct serving {
	int sock; /* the broker's; -1: it is gone */
	struct loop *loop;
	struct loop_source source;
	struct channel *channels;
	struct place resolvers[DIALER_RESOLVERS];
	size_t resolver_count;
	uint64_t v6_checked_ms;
	bool has_v6;
	uint8_t *bytes;
};

/* --- sockets --- */

static socklen_t to_socket(const struct place *place, struct sockaddr_storage *ret)
{
	*ret = (struct sockaddr_storage){0};
	if (addr_is_v4(&place->addr)) {
		struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(place->port)};
		memcpy(&v4.sin_addr, place->addr.bytes + V4_AT, sizeof(v4.sin_addr));
		memcpy(ret, &v4, sizeof(v4));
		return sizeof(v4);
	}
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(place->port)};
	memcpy(&v6.sin6_addr, place->addr.bytes, sizeof(v6.sin6_addr));
	memcpy(ret, &v6, sizeof(v6));
	return sizeof(v6);
}

/* A socket on its way there: a stream may still be connecting. -errno. */
static int connect_to(const struct place *place, int type)
{
	struct sockaddr_storage address;
	socklen_t len = to_socket(place, &address);
	auto_close int fd = socket(address.ss_family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (connect(fd, (const struct sockaddr *)&address, len) < 0 && errno != EINPROGRESS)
		return -errno;
	return take_fd(&fd);
}

/* Would a packet to this address stay on the machine? Then its source is the address itself. Asked
 * with a datagram socket, which sends nothing. */
static bool is_own(const struct addr *addr)
{
	struct place place = {*addr, 9};
	auto_close int fd = connect_to(&place, SOCK_DGRAM);
	struct sockaddr_storage local = {0};
	socklen_t len = sizeof(local);
	struct addr source = {{0}};
	if (fd < 0 || getsockname(fd, (struct sockaddr *)&local, &len) < 0)
		return false;
	if (local.ss_family == AF_INET)
		source = addr_from_v4(
			(const uint8_t *)&((const struct sockaddr_in *)(const void *)&local)
				->sin_addr);
	else
		memcpy(source.bytes,
		       &((const struct sockaddr_in6 *)(const void *)&local)->sin6_addr,
		       sizeof(source.bytes));
	return memcmp(source.bytes, addr->bytes, sizeof(source.bytes)) == 0;
}

/* Whether this machine has a way to IPv6 at all: keepers need not hand out addresses that lead
 * nowhere. */
static bool has_v6(struct serving *serving)
{
	uint64_t now = io_boot_ms();
	if (serving->v6_checked_ms != 0 && now - serving->v6_checked_ms < V6_FRESH_MS)
		return serving->has_v6;
	struct place somewhere = {.port = 9};
	bool is_parsed = addr_parse("2000::1", &somewhere.addr);
	auto_close int fd = is_parsed ? connect_to(&somewhere, SOCK_DGRAM) : -1;
	serving->has_v6 = fd >= 0;
	serving->v6_checked_ms = now;
	return serving->has_v6;
}

static bool is_covered(const struct channel *channel, const struct addr *addr)
{
	for (size_t i = 0; i < channel->cidr_count; i++) {
		if (addr_covers(&channel->cidrs[i], addr))
			return true;
	}
	return false;
}

static int parse_type(const struct wire_msg *msg)
{
	return str_eq(wire_str(msg, FIELD_PROTO, "tcp"), "udp") ? SOCK_DGRAM : SOCK_STREAM;
}

/* --- what keepers ask --- */

/* What is asked for, judged by what this sandbox may. */
static int judge(const struct channel *channel, const struct wire_msg *msg, struct place *ret,
                 struct err *err)
{
	uint64_t port = wire_u64(msg, FIELD_PORT, 0);
	if (channel->generation == 0)
		return err_set(err, ERR_FORBIDDEN, "this sandbox has no network policy");
	if (wire_u64(msg, FIELD_GENERATION, 0) != channel->generation)
		return err_set(err, ERR_CONFLICT, "the network policy has changed");
	if (!addr_parse(wire_str(msg, FIELD_ADDRESS, ""), &ret->addr) || port == 0 || port > 65535)
		return err_set(err, ERR_INVALID, "not an address and port");
	ret->port = (uint16_t)port;
	const char *rule = never_reason(&ret->addr, channel->cidrs, channel->cidr_count);
	if (!rule && !is_covered(channel, &ret->addr) && is_own(&ret->addr))
		rule = "this machine's own";
	return rule ? err_set(err, ERR_FORBIDDEN, "%s addresses are never dialled", rule) : 0;
}

static int dial(struct channel *channel, const struct wire_msg *msg, struct wire_out *out,
                struct err *err)
{
	struct place place = {0};
	if (judge(channel, msg, &place, err) < 0)
		return -1;
	int fd = connect_to(&place, parse_type(msg));
	if (fd < 0)
		return err_set(err, ERR_UNAVAILABLE, "cannot connect: %s", strerror(-fd));
	wire_put_fd(out, fd);
	return fd;
}

static int resolve(struct channel *channel, const struct wire_msg *msg, struct wire_out *out,
                   struct err *err)
{
	struct serving *serving = channel->serving;
	uint64_t number = wire_u64(msg, FIELD_NUMBER, 0);
	if (channel->generation == 0)
		return err_set(err, ERR_FORBIDDEN, "this sandbox has no network policy");
	if (number >= serving->resolver_count)
		return err_set(err, ERR_NOT_FOUND, "this machine has %zu resolvers",
		               serving->resolver_count);
	int fd = connect_to(&serving->resolvers[number], parse_type(msg));
	if (fd < 0)
		return err_set(err, ERR_UNAVAILABLE, "cannot ask a resolver: %s", strerror(-fd));
	wire_put_u64(out, FIELD_ENTRIES, serving->resolver_count);
	wire_put_u64(out, FIELD_HAS_V6, has_v6(serving));
	wire_put_fd(out, fd);
	return fd;
}

static void channel_free(struct channel *channel)
{
	struct serving *serving = channel->serving;
	struct channel **at = &serving->channels;
	while (*at != channel)
		at = &(*at)->next;
	*at = channel->next;
	loop_remove(&channel->source);
	fd_closep(&channel->sock);
	free(channel->cidrs);
	free(channel);
	if (serving->sock < 0 && !serving->channels)
		loop_stop(serving->loop, 0);
}

static void on_keeper(struct loop_source *source, uint32_t events, void *ctx)
{
	struct channel *channel = ctx;
	struct wire_msg msg;
	struct err err = {0};
	int r = wire_recv(channel->sock, channel->serving->bytes, LIMIT_WIRE_BYTES, &msg);
	if (r == -EAGAIN || r == -EINTR)
		return;
	if (r <= 0) {
		channel_free(channel);
		return;
	}
	auto_close int fd = -1;
	struct wire_out out;
	wire_begin(&out, WIRE_OK, msg.request);
	if (msg.type == WIRE_D_DIAL)
		fd = dial(channel, &msg, &out, &err);
	else if (msg.type == WIRE_D_RESOLVE)
		fd = resolve(channel, &msg, &out, &err);
	else
		err_set(&err, ERR_PROTOCOL, "the dialer does not know this message");
	if (fd < 0) {
		wire_done(&out);
		wire_begin(&out, WIRE_ERROR, msg.request);
		wire_put_err(&out, &err);
	}
	/* Who does not take answers loses them; the connection closes with our copy. */
	(void)!wire_send(channel->sock, &out);
	wire_done(&out);
	wire_msg_done(&msg);
}

/* --- what the broker says --- */

static struct channel *find_channel(struct serving *serving, const char *sandbox)
{
	struct channel *channel = serving->channels;
	while (channel && !str_eq(channel->sandbox, sandbox))
		channel = channel->next;
	return channel;
}

static int add_keeper(struct serving *serving, struct wire_msg *msg, struct err *err)
{
	const char *sandbox = wire_str(msg, FIELD_SANDBOX, "");
	auto_close int sock = wire_take_fd(msg, 0);
	if (!id_is_valid(sandbox, "sb") || sock < 0)
		return err_set(err, ERR_INVALID, "malformed sandbox id, or no socket");
	struct channel *old = find_channel(serving, sandbox);
	struct channel *channel = mem_new(struct channel);
	channel->serving = serving;
	channel->next = serving->channels;
	serving->channels = channel;
	if (old)
		channel_free(old);
	int r = io_set_nonblock(sock, true);
	channel->sock = take_fd(&sock);
	bool fits = str_copy(channel->sandbox, sizeof(channel->sandbox), sandbox);
	if (r >= 0 && fits)
		r = loop_add(serving->loop, &channel->source, channel->sock, EPOLLIN, on_keeper,
		             channel);
	if (r >= 0)
		return 0;
	channel_free(channel);
	return err_sys(err, -r, "watch a keeper's socket");
}

static int set_policy(struct serving *serving, struct wire_msg *msg, struct err *err)
{
	struct channel *channel = find_channel(serving, wire_str(msg, FIELD_SANDBOX, ""));
	size_t count = wire_count(msg, FIELD_CIDR), at = 0;
	if (!channel)
		return err_set(err, ERR_NOT_FOUND, "no keeper of that sandbox is known");
	if (count > DIALER_CIDRS)
		return err_set(err, ERR_INVALID, "too many CIDRs");
	auto_free struct addr_cidr *cidrs = mem_zalloc((count + 1) * sizeof(*cidrs));
	for (size_t i = 0; i < count; i++) {
		const char *text = wire_next_str(msg, FIELD_CIDR, &at);
		if (!text || !addr_parse_cidr(text, &cidrs[i]))
			return err_set(err, ERR_INVALID, "malformed CIDR");
	}
	free(channel->cidrs);
	channel->cidrs = take_ptr(cidrs);
	channel->cidr_count = count;
	channel->generation = wire_u64(msg, FIELD_GENERATION, 0);
	return 0;
}

static int set_resolvers(struct serving *serving, struct wire_msg *msg, struct err *err)
{
	struct place places[DIALER_RESOLVERS] = {0};
	size_t count = 0, at = 0;
	const char *text;
	while ((text = wire_next_str(msg, FIELD_ENTRY, &at)) != NULL) {
		uint64_t port;
		char address[ADDR_TEXT];
		const char *tab = strchr(text, '\t');
		if (!tab || (size_t)(tab - text) >= sizeof(address) || count == DIALER_RESOLVERS ||
		    str_to_u64(tab + 1, &port) < 0 || port == 0 || port > 65535)
			return err_set(err, ERR_INVALID, "malformed or too many resolvers");
		memcpy(address, text, (size_t)(tab - text));
		address[tab - text] = '\0';
		if (!addr_parse(address, &places[count].addr))
			return err_set(err, ERR_INVALID, "malformed resolver");
		places[count++].port = (uint16_t)port;
	}
	memcpy(serving->resolvers, places, count * sizeof(places[0]));
	serving->resolver_count = count;
	return 0;
}

static const struct {
	enum wire_type type;
	int (*run)(struct serving *serving, struct wire_msg *msg, struct err *err);
} orders[] = {
	{WIRE_D_KEEPER, add_keeper},
	{WIRE_D_POLICY, set_policy},
	{WIRE_D_RESOLVERS, set_resolvers},
};

static void obey(struct serving *serving, struct wire_msg *msg)
{
	struct err err = {0};
	int r = -1;
	size_t i = 0;
	while (i < ARRAY_LEN(orders) && orders[i].type != msg->type)
		i++;
	if (i < ARRAY_LEN(orders))
		r = orders[i].run(serving, msg, &err);
	else
		err_set(&err, ERR_PROTOCOL, "the dialer does not know this message");
	if (msg->request == 0)
		return;
	auto_wire_out struct wire_out out;
	wire_begin(&out, r < 0 ? WIRE_ERROR : WIRE_OK, msg->request);
	if (r < 0)
		wire_put_err(&out, &err);
	(void)!wire_send(serving->sock, &out); /* a broker that is gone shows as end of file */
}

static void on_broker(struct loop_source *source, uint32_t events, void *ctx)
{
	struct serving *serving = ctx;
	struct wire_msg msg;
	int r = wire_recv(serving->sock, serving->bytes, LIMIT_WIRE_BYTES, &msg);
	if (r == -EAGAIN || r == -EINTR)
		return;
	if (r > 0) {
		obey(serving, &msg);
		wire_msg_done(&msg);
		return;
	}
	/* Sandboxes outlive the broker, and so does their network: the next broker hands them
	 * another dialer, and this one ends with its last keeper. */
	loop_remove(&serving->source);
	serving->sock = -1;
	if (!serving->channels)
		loop_stop(serving->loop, 0);
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
		r = loop_add(loop, &serving.source, sock, EPOLLIN, on_broker, &serving);
	if (r == 0)
		r = loop_run(loop);
	loop_remove(&serving.source);
	while (serving.channels)
		channel_free(serving.channels);
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
		r = caps_not_dumpable();
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
	signal(SIGTERM, SIG_DFL);
	signal(SIGINT, SIG_DFL);
	(void)setsid(); /* Ctrl-C is for the broker; fails only for a leader */
	(void)prctl(PR_SET_NAME, "cloche:dialer", 0, 0, 0);
	if (caps_close_fds_except(keep, ARRAY_LEN(keep)) < 0 || confine() < 0)
		_exit(1);
	_exit(dialer_serve(sock));
}

int dialer_start(struct dialer *dialer, struct err *err)
{
	int pair[2];
	dialer_stop(dialer);
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
	struct timespec moment = {.tv_nsec = 1000 * 1000};
	fd_closep(&dialer->sock);
	/* Where no keeper needs it, it ends at once: not to be left to somebody else. */
	for (int i = 0; dialer->pid > 0 && i < STOP_MS && waitpid(dialer->pid, NULL, WNOHANG) == 0;
	     i++)
		(void)nanosleep(&moment, NULL);
	dialer->pid = 0;
}

/*
 * Who: the broker's loop. Capabilities: none of them needed. Bytes: OP_EGRESS of cloched (a sandbox
 * id, a number, CIDRs), our own `egress` files, /etc/resolv.conf. Gone at the end: our socket to
 * the dialer; it lives on as long as keepers do.
 *
 * Why OP_EGRESS is safe: it opens addresses to a sandbox that cloched could dial itself, being an
 * ordinary user with the host's network. It gives the sandbox no right cloched lacks.
 */
#include "broker/egress.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/addr.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "broker/box.h"
#include "broker/context.h"
#include "broker/ops.h"
#include "model/config.h"

enum {
	BACKOFF_FIRST_MS = 100,
	BACKOFF_MOST_MS = 5000,
	RESOLV_CONF_BYTES = 64 * 1024,
	EGRESS_BYTES = 64 * 1024,
	NS_PER_S = 1000000000,
};

#define RESOLV_CONF "/etc/resolv.conf"

static void start_or_retry(struct egress *egress);

void egress_init(struct egress *egress, struct broker *broker)
{
	*egress = (struct egress){.broker = broker, .backoff_ms = BACKOFF_FIRST_MS};
	dialer_init(&egress->dialer);
}

void egress_done(struct egress *egress)
{
	loop_remove(&egress->source);
	loop_timer_stop(&egress->restart);
	dialer_stop(&egress->dialer);
}

/* --- resolvers --- */

static void put_resolver(struct wire_out *out, const char *text, size_t *count)
{
	char address[ADDR_TEXT], entry[ADDR_TEXT + 8];
	struct addr addr;
	uint16_t port;
	if (*count == DIALER_RESOLVERS || !config_parse_resolver(text, &addr, &port))
		return;
	addr_format(address, sizeof(address), &addr);
	(void)snprintf(entry, sizeof(entry), "%s\t%u", address, port);
	wire_put_str(out, FIELD_ENTRY, entry);
	(*count)++;
}

/* resolv.conf(5): a line for each, everything else is for others. */
static void put_host_resolvers(struct wire_out *out)
{
	auto_free char *text = mem_zalloc(RESOLV_CONF_BYTES + 1);
	size_t count = 0;
	auto_close int fd = open(RESOLV_CONF, O_RDONLY | O_CLOEXEC); /* often a link */
	if (fd < 0 || io_read_full(fd, text, RESOLV_CONF_BYTES) < 0)
		return;
	char *rest = text;
	for (char *line; (line = strsep(&rest, "\n")) != NULL;) {
		static const char word[] = "nameserver";
		if (!str_has_prefix(line, word))
			continue;
		line += sizeof(word) - 1;
		line += strspn(line, " \t");
		line[strcspn(line, " \t\r%")] = '\0'; /* a zone is of no use to anybody else */
		put_resolver(out, line, &count);
	}
}

/* When the file has changed since it was last told. */
static bool is_resolv_conf_new(struct egress *egress)
{
	struct stat st;
	if (egress->broker->site.resolvers.count > 0 || stat(RESOLV_CONF, &st) < 0)
		return false;
	int64_t now = (int64_t)st.st_mtim.tv_sec * NS_PER_S + st.st_mtim.tv_nsec;
	bool is_new = now != egress->resolv_conf_ns;
	egress->resolv_conf_ns = now;
	return is_new;
}

static int tell_resolvers(struct egress *egress)
{
	const struct strings *resolvers = &egress->broker->site.resolvers;
	size_t count = 0;
	auto_wire_out struct wire_out out;
	wire_begin(&out, WIRE_D_RESOLVERS, 0);
	for (size_t i = 0; i < resolvers->count; i++)
		put_resolver(&out, resolvers->items[i], &count);
	if (resolvers->count == 0)
		put_host_resolvers(&out);
	return wire_send(egress->dialer.sock, &out);
}

/* --- what a sandbox may --- */

/* The file is the message's text: "generation=N" and a line for each CIDR. */
static int write_policy(int box, uint64_t generation, const struct wire_msg *msg)
{
	struct buf text;
	size_t at = 0;
	const char *cidr;
	buf_init(&text, EGRESS_BYTES);
	int r = buf_printf(&text, "generation=%llu\n", (unsigned long long)generation);
	while (r >= 0 && (cidr = wire_next_str(msg, FIELD_CIDR, &at)) != NULL)
		r = buf_printf(&text, "cidr=%s\n", cidr);
	if (r >= 0)
		r = buf_put(&text, "", 1);
	if (r >= 0)
		r = box_write(box, "egress", (const char *)buf_head(&text));
	buf_done(&text);
	return r;
}

/* After a restart: what the file says. */
static void put_policy(int box, struct wire_out *out)
{
	auto_free char *text = NULL;
	size_t len;
	uint64_t generation = 0;
	if (io_read_file(box, "egress", EGRESS_BYTES, &text, &len) < 0)
		return;
	char *rest = text;
	for (char *line; (line = strsep(&rest, "\n")) != NULL;) {
		if (str_has_prefix(line, "generation="))
			(void)!str_to_u64(line + strlen("generation="), &generation);
		else if (str_has_prefix(line, "cidr="))
			wire_put_str(out, FIELD_CIDR, line + strlen("cidr="));
	}
	wire_put_u64(out, FIELD_GENERATION, generation);
}

static int check_cidrs(const struct wire_msg *msg, struct err *err)
{
	struct addr_cidr cidr;
	size_t at = 0;
	const char *text;
	if (wire_count(msg, FIELD_CIDR) > DIALER_CIDRS)
		return err_set(err, ERR_INVALID, "more than %d CIDRs", DIALER_CIDRS);
	while ((text = wire_next_str(msg, FIELD_CIDR, &at)) != NULL) {
		if (!addr_parse_cidr(text, &cidr))
			return err_set(err, ERR_INVALID, "malformed CIDR");
	}
	return 0;
}

int op_egress(struct broker *broker, struct wire_msg *msg, struct err *err)
{
	struct egress *egress = &broker->egress;
	const char *sandbox = wire_str(msg, FIELD_SANDBOX, "");
	uint64_t generation = wire_u64(msg, FIELD_GENERATION, 0);
	auto_close int box = box_open(broker->site.state.sandboxes_fd, sandbox);
	size_t at = 0;
	const char *cidr;
	if (check_cidrs(msg, err) < 0)
		return -1;
	if (box < 0 || !box_is_alive(box))
		return err_set(err, ERR_NOT_FOUND, "sandbox %s does not run", sandbox);
	int r = write_policy(box, generation, msg);
	if (r < 0)
		return err_sys(err, -r, "write egress of %s", sandbox);
	auto_wire_out struct wire_out out;
	wire_begin(&out, WIRE_D_POLICY, 0);
	wire_put_str(&out, FIELD_SANDBOX, sandbox);
	wire_put_u64(&out, FIELD_GENERATION, generation);
	while ((cidr = wire_next_str(msg, FIELD_CIDR, &at)) != NULL)
		wire_put_str(&out, FIELD_CIDR, cidr);
	if (is_resolv_conf_new(egress))
		(void)!tell_resolvers(egress); /* as below */
	/* A dialer that is gone is told everything when it is there again. */
	if (egress->dialer.sock >= 0)
		(void)!wire_send(egress->dialer.sock, &out);
	line_answer_result(&broker->line, msg->request, &(struct err){0});
	return 0;
}

/* --- sockets of keepers --- */

int egress_socket(struct egress *egress, const char *sandbox, struct err *err)
{
	int pair[2];
	int r = wire_pair(pair);
	if (r < 0)
		return err_sys(err, -r, "make a socket to the dialer");
	auto_close int theirs = pair[1];
	auto_close int ours = pair[0];
	r = io_set_nonblock(ours, true);
	if (r < 0)
		return err_sys(err, -r, "make a socket to the dialer");
	auto_wire_out struct wire_out out;
	wire_begin(&out, WIRE_D_KEEPER, 0);
	wire_put_str(&out, FIELD_SANDBOX, sandbox);
	wire_put_fd(&out, theirs);
	/* Without a dialer the keeper reads end of file: it reaches nothing until it gets another.
	 */
	if (egress->dialer.sock >= 0)
		(void)!wire_send(egress->dialer.sock, &out);
	return take_fd(&ours);
}

/* A keeper that lives gets the new dialer, and the dialer what it may. */
static int hand_over(const char *id, void *ctx)
{
	struct egress *egress = ctx;
	const struct state *state = &egress->broker->site.state;
	struct err err = {0};
	char name[LIMIT_ID_LEN + 8];
	auto_close int box = box_open(state->sandboxes_fd, id);
	if (box < 0 || !box_is_alive(box))
		return 0;
	auto_close int sock = egress_socket(egress, id, &err);
	(void)snprintf(name, sizeof(name), "%s.sock", id);
	auto_close int keeper = wire_connect(state->run_fd, name);
	if (sock < 0 || keeper < 0)
		return 0;
	auto_wire_out struct wire_out policy, dialer;
	wire_begin(&policy, WIRE_D_POLICY, 0);
	wire_put_str(&policy, FIELD_SANDBOX, id);
	put_policy(box, &policy);
	wire_begin(&dialer, WIRE_K_DIALER, 0);
	wire_put_fd(&dialer, sock);
	if (wire_send(egress->dialer.sock, &policy) < 0 || wire_send(keeper, &dialer) < 0)
		log_warn("a sandbox has no dialer", LOG_STR("sandbox", id));
	return 0;
}

static void on_dialer(struct loop_source *source, uint32_t events, void *ctx)
{
	struct egress *egress = ctx;
	log_warn("the dialer ended, starting another", LOG_INT("in_ms", egress->backoff_ms));
	loop_remove(&egress->source);
	dialer_stop(&egress->dialer);
	start_or_retry(egress);
}

static int start(struct egress *egress, struct err *err)
{
	if (dialer_start(&egress->dialer, err) < 0)
		return -1;
	int r = loop_add(egress->broker->loop, &egress->source, egress->dialer.sock, EPOLLRDHUP,
	                 on_dialer, egress);
	(void)is_resolv_conf_new(egress); /* this version is the one told now */
	if (r >= 0)
		r = tell_resolvers(egress);
	if (r >= 0)
		r = box_each(egress->broker->site.state.sandboxes_fd, hand_over, egress);
	return r < 0 ? err_sys(err, -r, "prepare the dialer") : 0;
}

void egress_start(struct egress *egress)
{
	struct err err = {0};
	if (start(egress, &err) == 0)
		return;
	log_error("sandboxes reach nothing: no dialer", LOG_ERR(&err));
	loop_remove(&egress->source);
	dialer_stop(&egress->dialer);
	start_or_retry(egress);
}

static void on_restart(struct loop_timer *timer, void *ctx)
{
	egress_start(ctx);
}

static void start_or_retry(struct egress *egress)
{
	loop_timer_in(egress->broker->loop, &egress->restart, egress->backoff_ms, on_restart,
	              egress);
	egress->backoff_ms = MIN(egress->backoff_ms * 2, (uint64_t)BACKOFF_MOST_MS);
}

/*
 * `cloche stop`: ends every sandbox of a state directory, whoever is alive; or, with keep, only who
 * serves it.
 *
 * Who: the command line as root or as the state directory's user. Capabilities: none when a broker
 * answers; otherwise the broker's own work is done here, with its rights. Bytes: the broker's
 * answer; files root wrote. Gone at the end: sandboxes' processes, and the broker if there was one.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "base/mem.h"
#include "broker/adopt.h"
#include "broker/broker.h"
#include "broker/reap.h"
#include "broker/rootless.h"
#include "broker/site.h"
#include "broker/slot.h"
#include "wire/wire.h"

enum { STOP_EXIT_MS = 15 * 1000, STOP_EXTRA_MS = 30 * 1000 };

/* 1: it did; 0: nobody answers there. */
static int ask_broker(const struct site *site, const struct broker_stop_options *options,
                      struct err *err)
{
	auto_close int sock = wire_connect(site->state.run_fd, "broker.sock");
	if (sock < 0)
		return 0;
	auto_free uint8_t *bytes = mem_zalloc(LIMIT_WIRE_BYTES);
	auto_wire_out struct wire_out out;
	struct wire_msg answer;
	int answer_ms = (int)(reap_stop_all_ms(options->grace_ms) + STOP_EXTRA_MS);
	wire_begin(&out, options->keep ? WIRE_END : WIRE_STOP_ALL, 1);
	wire_put_u64(&out, FIELD_GRACE_MS, options->grace_ms);
	if (wire_call(sock, &out, bytes, answer_ms, &answer, err) < 0)
		return err->code == ERR_UNAVAILABLE ? 0 : -1;
	wire_msg_done(&answer);
	/* It closes the connection when it ends; only then is everything over. */
	struct pollfd p = {.fd = sock, .events = POLLIN};
	if (poll(&p, 1, STOP_EXIT_MS) == 0)
		return err_set(err, ERR_TIMEOUT, "cloche serve does not end");
	return 1;
}

/* Registered id ranges go, too: of this state directory, and of ones that were deleted. */
static int release_slots(const struct site *site, struct err *err)
{
	struct slots slots;
	struct adopted adopted;
	int registry = site->is_rootless ? -1 : slots_open_registry();
	if (!site->is_rootless && registry < 0)
		return err_sys(err, -registry, "open /run/cloche/slots");
	slots_init(&slots, registry, site->state.path);
	int r = adopt_run(site, &slots, &adopted, err);
	slots_done(&slots);
	return r;
}

/* The broker died or never was: its work, done by us, under its lock. */
static int stop_ourselves(struct site *site, uint64_t grace_ms, struct err *err)
{
	size_t count;
	if (state_lock(&site->state, err) < 0)
		return -1;
	int r = cgroup_detect(&site->cgroups);
	if (r < 0)
		site->cgroups.version = 0;
	if (reap_stop_all(site, grace_ms, &count, err) < 0 || release_slots(site, err) < 0)
		return -1;
	/* Sockets nobody serves. */
	(void)unlinkat(site->state.dir_fd, "cloche.sock", 0);
	(void)unlinkat(site->state.run_fd, "broker.sock", 0);
	return 0;
}

int broker_stop(const struct broker_stop_options *options, struct err *err)
{
	auto_(site_done) struct site site;
	auto_free char *path = state_path(options->state);
	site_init(&site);
	int r = state_open(&site.state, path, false, err);
	if (r == 0)
		r = state_open_dirs(&site.state, err);
	if (r < 0)
		return err->code == ERR_NOT_FOUND ? 0 : -1; /* never served: nothing runs */
	r = ask_broker(&site, options, err);
	if (r != 0)
		return r < 0 ? -1 : 0;
	*err = (struct err){0};
	if (options->keep)
		return 0; /* cloched ends with its broker */
	/* Keepers of a rootless broker are in its user namespace: same user, so a signal reaches
	 * them, and their files belong to ids only a namespace like it can touch. */
	if (geteuid() != 0 && rootless_enter(&site, err) < 0)
		return -1;
	return stop_ourselves(&site, options->grace_ms, err);
}

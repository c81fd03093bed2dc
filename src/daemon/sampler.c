#include "daemon/sampler.h"

#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "daemon/fleet.h"
#include "runtime/runtime.h"
#include "wire/wire.h"

enum {
	BUSY_MS = 1000,
	IDLE_MS = 5000, /* without a command only what one left behind can write */
	LOOK_MS = 1000,
	OWN_SHARE = 10, /* of the time, for one tree: a tenth */
	ALL_SHARE = 4,  /* for all of them: a fifth */
};

struct sample {
	struct member *member; /* a reference */
	uint64_t begun_ms;
};

static void look(struct fleet *fleet);

static bool is_sampled(const struct member *member)
{
	return member->row->state == SANDBOX_RUNNING && !member->shelf &&
	       peer_is_open(member->peer) && strings_has(&member->row->mechanisms, "disk=sampled");
}

static uint64_t due_ms(const struct member *member)
{
	uint64_t pause = member->execs ? BUSY_MS : IDLE_MS;

	return member->measured_ms + MAX(pause, OWN_SHARE * member->measure_ms);
}

static struct member *find_next(const struct fleet *fleet)
{
	struct member *next = NULL;

	for (struct member *at = fleet->members; at; at = at->next) {
		if (is_sampled(at) && (!next || due_ms(at) < due_ms(next)))
			next = at;
	}
	return next;
}

static void on_look(struct loop_timer *timer, void *ctx)
{
	look(ctx);
}

/* Without a size: it could not be measured. */
static void tell_keeper(struct member *member, const struct runtime_size *size)
{
	auto_wire_out struct wire_out out = {0};

	wire_begin(&out, WIRE_K_DISK, 0);
	if (size) {
		wire_put_u64(&out, FIELD_BYTES_COUNT, size->bytes);
		wire_put_u64(&out, FIELD_ENTRIES, size->inodes);
	}
	peer_notify(member->peer, &out);
}

/* Our own troubles say nothing about the sandbox. */
static bool is_about_files(const struct err *err)
{
	return err->code != ERR_NOT_FOUND && err->code != ERR_UNAVAILABLE &&
	       err->code != ERR_LIMITED;
}

static void on_measured(const struct runtime_size *size, const struct err *err, void *ctx)
{
	auto_free struct sample *sample = ctx;
	struct member *member = sample->member;
	struct fleet *fleet = member->fleet;
	uint64_t now = io_boot_ms();

	member->measured_ms = now;
	member->measure_ms = now - sample->begun_ms;
	if (!size && !member->is_unmeasured)
		log_warn("cannot measure the files of a sandbox",
		         LOG_STR("sandbox", member->row->id.text), LOG_ERR(err));
	member->is_unmeasured = !size;
	if (is_sampled(member) && (size || is_about_files(err)))
		tell_keeper(member, size);
	if (!fleet->is_shut)
		loop_timer_in(fleet->loop, &fleet->sampler, ALL_SHARE * member->measure_ms, on_look,
		              fleet);
	member_unref(member);
}

static void look(struct fleet *fleet)
{
	struct member *member = find_next(fleet);
	uint64_t now = io_boot_ms();
	struct sample *sample;

	if (!member || due_ms(member) > now) {
		uint64_t wait = member ? due_ms(member) - now : LOOK_MS;

		loop_timer_in(fleet->loop, &fleet->sampler, MIN(wait, (uint64_t)LOOK_MS), on_look,
		              fleet);
		return;
	}
	sample = mem_new(struct sample);
	*sample = (struct sample){member_ref(member), now};
	fleet->runtime->ops->measure(fleet->runtime, member->row->id.text, on_measured, sample);
}

void sampler_start(struct fleet *fleet)
{
	look(fleet);
}

void sampler_stop(struct fleet *fleet)
{
	loop_timer_stop(&fleet->sampler);
}

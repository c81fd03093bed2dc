#include "daemon/pool.h"

#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "daemon/fit.h"
#include "daemon/leftover.h"
#include "runtime/image.h"
#include "runtime/runtime.h"
#include "store/store.h"

/* Making one costs a few milliseconds of both cores: two at a time leave room for who waits. */
enum { MAKING_MAX = 2, RETRY_MS = 1000, RETRY_MAX_MS = 60 * 1000 };
/* Whoever just took one wants the processors for its command: the shelf is filled when it is calm
 * (calm.h), or at once when it runs low. */
enum { LOW_PART = 4, LOW_MOST = 4 };

struct pool_shelf {
	struct pool *pool;
	const struct profile *profile;
	size_t wanted;
	bool is_blank;         /* without an image; only the profile's limits count */
	struct member **ready; /* oldest first */
	size_t ready_count;
	size_t making;
	uint64_t hits, misses, made, failed;
	struct span make;
	uint64_t retry_ms; /* 0: the last one worked */
	struct loop_timer retry;
	struct calm_job refill;
};

struct pool {
	struct fleet *fleet;
	struct pool_shelf *shelves;
	size_t count;
	struct pool_shelf blanks;
};

static void shelf_init(struct pool_shelf *shelf, struct pool *pool, const struct profile *profile,
                       size_t wanted)
{
	*shelf = (struct pool_shelf){.pool = pool, .profile = profile, .wanted = wanted};
	shelf->ready = mem_zalloc((wanted + 1) * sizeof(struct member *));
}

static void shelf_done(struct pool_shelf *shelf)
{
	loop_timer_stop(&shelf->retry);
	(void)calm_forget(&shelf->pool->fleet->calm, &shelf->refill);
	mem_freep(&shelf->ready);
}

struct pool *pool_new(struct fleet *fleet, const struct config *config)
{
	struct pool *pool = mem_new(struct pool);
	size_t all = 0;

	pool->fleet = fleet;
	pool->count = config->profile_count;
	pool->shelves = mem_zalloc(pool->count * sizeof(*pool->shelves));
	for (size_t i = 0; i < pool->count; i++) {
		shelf_init(&pool->shelves[i], pool, &config->profiles[i], config->profiles[i].pool);
		all += config->profiles[i].pool;
	}
	/* What a machine has room for while it is ready it has room for once it was used. */
	fleet->calm.room = MAX(fleet->calm.room, all);
	shelf_init(&pool->blanks, pool, &config->profiles[0], config->blanks);
	pool->blanks.is_blank = true;
	return pool;
}

void pool_free(struct pool *pool)
{
	if (!pool)
		return;
	for (size_t i = 0; i < pool->count; i++)
		shelf_done(&pool->shelves[i]);
	shelf_done(&pool->blanks);
	mem_freep(&pool->shelves);
	mem_freep(&pool);
}

/* --- taking down --- */

static void on_reaped(const struct err *err, void *ctx)
{
	struct member *member = ctx;

	member->is_busy = false;
	metrics_since(&member->fleet->metrics, METRICS_REAP, member->asked_us);
	if (err->code != ERR_OK && !member->fleet->is_shut) {
		metrics_count(&member->fleet->metrics, METRICS_REAP_FAILURES);
		log_error("a parked sandbox cannot be taken down; trying again",
		          LOG_STR("sandbox", member->row->id.text), LOG_ERR(err));
		leftover_add(member->fleet, member->row->id.text, false);
	}
	member_unref(member);
}

void pool_discard(struct member *member)
{
	struct runtime *runtime = member->fleet->runtime;

	member->shelf = NULL;
	member->row->state = SANDBOX_FAILED; /* so that it leaves the memory */
	member->is_busy = true;
	member->asked_us = io_boot_us();
	member_disconnect(member);
	runtime->ops->reap(runtime, member->row->id.text, false, on_reaped, member);
}

/* --- making --- */

static void fill_shelf(struct pool_shelf *shelf);

static void on_retry(struct loop_timer *timer, void *ctx)
{
	fill_shelf(ctx);
}

/* Says why once, then tries again ever more seldom: a machine may lack something for long. */
static void failed(struct pool_shelf *shelf, const struct err *err)
{
	shelf->failed++;
	if (shelf->retry_ms == 0)
		log_warn(shelf->is_blank ? "cannot make blank sandboxes in advance"
		                         : "cannot make sandboxes in advance; they are made when "
		                           "asked for",
		         LOG_STR("profile", shelf->profile->spec.profile), LOG_ERR(err));
	shelf->retry_ms = shelf->retry_ms ? MIN(shelf->retry_ms * 2, (uint64_t)RETRY_MAX_MS)
	                                  : (uint64_t)RETRY_MS;
	loop_timer_in(shelf->pool->fleet->loop, &shelf->retry, shelf->retry_ms, on_retry, shelf);
}

static void put_on_shelf(struct pool_shelf *shelf, struct member *member,
                         const struct strings *mechanisms)
{
	member_set_mechanisms(member, mechanisms);
	shelf->ready[shelf->ready_count++] = member;
	shelf->made++;
	span_add(&shelf->make, io_boot_us() - member->asked_us);
	shelf->retry_ms = 0;
	fill_shelf(shelf);
}

static void on_launched(const struct strings *mechanisms, const struct err *err, void *ctx)
{
	struct member *member = ctx;
	struct pool_shelf *shelf = member->shelf;
	struct err why = *err;

	shelf->making--;
	member->is_busy = false;
	metrics_since(&member->fleet->metrics, METRICS_LAUNCH, member->asked_us);
	if (err->code != ERR_OK)
		metrics_count(&member->fleet->metrics, METRICS_LAUNCH_FAILURES);
	if (member->fleet->is_shut) {
		member->row->state = SANDBOX_FAILED;
		member_unref(member);
	} else if (why.code != ERR_OK || (!shelf->is_blank && member_connect(member, &why) < 0)) {
		pool_discard(member);
		failed(shelf, &why);
	} else {
		put_on_shelf(shelf, member, mechanisms);
	}
}

/* The row a parked one would have; its image looked up as a create would. */
static struct sandbox *new_row(struct pool_shelf *shelf, struct strings *layers, struct err *err)
{
	const struct spec *spec = &shelf->profile->spec;
	auto_(image_freep) struct image *image = NULL;
	struct sandbox *row;

	if (!shelf->is_blank && !image_is_host(spec->image) &&
	    store_image_get(shelf->pool->fleet->store, spec->image, &image, err) < 0)
		return NULL;
	row = sandbox_new(spec, io_real_ms());
	if (image) {
		row->image_id = image->id;
		image_apply(image, &row->spec);
	}
	image_layers(image, layers);
	return row;
}

static bool make_one(struct pool_shelf *shelf)
{
	struct fleet *fleet = shelf->pool->fleet;
	struct strings layers = {0};
	struct err err = {0};
	struct sandbox *row = new_row(shelf, &layers, &err);

	if (row) {
		struct member *member = fleet_add(fleet, row);

		member->shelf = shelf;
		member->is_busy = true;
		member->asked_us = io_boot_us();
		shelf->making++;
		fleet->runtime->ops->launch(fleet->runtime, row, &layers,
		                            shelf->is_blank ? RUNTIME_BLANK : RUNTIME_PARKED,
		                            on_launched, member);
	} else {
		failed(shelf, &err);
	}
	strings_done(&layers);
	return row != NULL;
}

static void make_some(struct pool_shelf *shelf)
{
	if (shelf->pool->fleet->is_shut)
		return;
	while (shelf->making < MAKING_MAX && shelf->ready_count + shelf->making < shelf->wanted) {
		if (!make_one(shelf))
			return;
	}
}

static void on_refill(struct calm_job *job, void *ctx)
{
	make_some(ctx);
}

static void fill_shelf(struct pool_shelf *shelf)
{
	struct calm *calm = &shelf->pool->fleet->calm;
	size_t low = MIN(shelf->wanted / LOW_PART, (size_t)LOW_MOST);

	if (shelf->ready_count < low || calm_is_reached(calm))
		make_some(shelf);
	else if (shelf->ready_count + shelf->making < shelf->wanted)
		calm_wait(calm, &shelf->refill, on_refill, shelf);
}

void pool_fill(struct pool *pool)
{
	for (size_t i = 0; i < pool->count; i++)
		fill_shelf(&pool->shelves[i]);
	fill_shelf(&pool->blanks);
}

/* --- taking --- */

static bool is_same_text(const char *a, const char *b)
{
	return str_eq(a ? a : "", b ? b : "");
}

static struct pool_shelf *shelf_for(struct pool *pool, const struct spec *spec)
{
	for (size_t i = 0; i < pool->count; i++) {
		struct pool_shelf *shelf = &pool->shelves[i];

		if (shelf->wanted > 0 && is_same_text(shelf->profile->spec.profile, spec->profile))
			return shelf;
	}
	return NULL;
}

static struct member *take_oldest(struct pool_shelf *shelf)
{
	struct member *member = shelf->ready[0];

	shelf->ready_count--;
	memmove(shelf->ready, shelf->ready + 1, shelf->ready_count * sizeof(struct member *));
	member->shelf = NULL;
	return member;
}

/* Down to `spare` of them. The image may have been imported anew since: what was made of the old
 * one is of no use. */
static struct member *take_fitting(struct pool_shelf *shelf, const struct spec *spec,
                                   const char *image_id, size_t spare)
{
	while (shelf->ready_count > spare && fit_of(shelf->ready[0]->row, spec) != FIT_NOT) {
		struct member *member = take_oldest(shelf);

		if (str_eq(member->row->image_id.text, image_id))
			return member;
		pool_discard(member);
	}
	return NULL;
}

/* What another profile has ready may fit too: it is lent as long as half of it stays. */
static struct member *borrow(struct pool *pool, const struct pool_shelf *own,
                             const struct spec *spec, const char *image_id)
{
	for (size_t i = 0; i < pool->count; i++) {
		struct pool_shelf *shelf = &pool->shelves[i];
		struct member *member =
			shelf == own ? NULL
				     : take_fitting(shelf, spec, image_id, shelf->wanted / 2);

		if (!member)
			continue;
		fill_shelf(shelf);
		return member;
	}
	return NULL;
}

struct member *pool_take(struct pool *pool, const struct spec *spec, const char *image_id)
{
	struct pool_shelf *shelf = shelf_for(pool, spec);
	struct member *member = shelf ? take_fitting(shelf, spec, image_id, 0) : NULL;

	if (!member)
		member = borrow(pool, shelf, spec, image_id);
	if (!shelf)
		return member;
	if (member)
		shelf->hits++;
	else
		shelf->misses++;
	fill_shelf(shelf);
	return member;
}

struct member *pool_take_blank(struct pool *pool, const struct spec *spec)
{
	struct pool_shelf *shelf = &pool->blanks;
	struct member *member = NULL;

	if (shelf->ready_count > 0 && fit_blank(shelf->ready[0]->row, spec))
		member = take_oldest(shelf);
	if (member)
		shelf->hits++;
	else if (shelf->wanted > 0)
		shelf->misses++;
	fill_shelf(shelf);
	return member;
}

void pool_lost(struct member *member)
{
	struct pool_shelf *shelf = member->shelf;

	for (size_t i = 0; i < shelf->ready_count; i++) {
		if (shelf->ready[i] != member)
			continue;
		shelf->ready_count--;
		memmove(shelf->ready + i, shelf->ready + i + 1,
		        (shelf->ready_count - i) * sizeof(struct member *));
		break;
	}
	pool_discard(member);
	fill_shelf(shelf);
}

static void count_shelf(const struct pool_shelf *shelf, struct pool_counts *ret)
{
	*ret = (struct pool_counts){.profile = shelf->profile->spec.profile,
	                            .wanted = shelf->wanted,
	                            .ready = shelf->ready_count,
	                            .making = shelf->making,
	                            .hits = shelf->hits,
	                            .misses = shelf->misses,
	                            .made = shelf->made,
	                            .failed = shelf->failed,
	                            .make = shelf->make};
}

bool pool_count(const struct pool *pool, size_t index, struct pool_counts *ret)
{
	if (index >= pool->count)
		return false;
	count_shelf(&pool->shelves[index], ret);
	return true;
}

void pool_count_blanks(const struct pool *pool, struct pool_counts *ret)
{
	count_shelf(&pool->blanks, ret);
}

#include "daemon/reconcile.h"

#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "daemon/leftover.h"
#include "daemon/lifecycle.h"
#include "runtime/runtime.h"
#include "store/store.h"
#include "task/meter.h"

/* Rows that say that something is under way. */
#define TRANSITIONAL (1u << SANDBOX_CREATING | 1u << SANDBOX_STOPPING | 1u << SANDBOX_REMOVING)

struct reconcile {
	struct fleet *fleet;
	uint32_t states; /* rows that are looked at */
	size_t waiting;  /* for keepers; one more while the rows are being read */
	size_t settled, adopted, undone, reaped;
	void (*on_ready)(const struct err *err, void *ctx);
	void *ctx;
};

static void done_with_one(struct reconcile *reconcile)
{
	static const struct err none = {0};

	if (--reconcile->waiting > 0)
		return;
	if (reconcile->settled || reconcile->ctx)
		log_info("sandboxes are matched", LOG_INT("adopted", reconcile->adopted),
		         LOG_INT("undone", reconcile->undone),
		         LOG_INT("reaped", reconcile->reaped));
	reconcile->on_ready(&none, reconcile->ctx);
	mem_freep(&reconcile);
}

static void on_adopted(struct member *member, void *ctx)
{
	if (member->peer && member->row->state == SANDBOX_STOPPING)
		lifecycle_repeat_stop(member);
	done_with_one(ctx);
}

static void adopt(struct reconcile *reconcile, struct member *member)
{
	struct err err = {0};

	reconcile->waiting++;
	if (member_adopt(member, on_adopted, reconcile, &err) == 0) {
		reconcile->adopted++;
		return;
	}
	log_info("a sandbox has no keeper any more", LOG_STR("sandbox", member->row->id.text),
	         LOG_ERR(&err));
	lifecycle_keeper_gone(member);
	done_with_one(reconcile);
}

/* Takes the row. */
static void settle(struct reconcile *reconcile, struct sandbox *row)
{
	struct member *member = fleet_add(reconcile->fleet, row);

	reconcile->settled++;
	switch (row->state) {
	case SANDBOX_CREATING:
		reconcile->undone++;
		lifecycle_undo_creation(member);
		break;
	case SANDBOX_RUNNING:
	case SANDBOX_STOPPING:
		member->is_stop_stored = row->state == SANDBOX_STOPPING;
		meter_adopt(reconcile->fleet->tasks, row);
		adopt(reconcile, member);
		break;
	case SANDBOX_REMOVING:
		reconcile->undone++;
		lifecycle_repeat_removal(member);
		break;
	case SANDBOX_STOPPED:
	case SANDBOX_FAILED:
	case SANDBOX_STATE_COUNT_:
	case SANDBOX_NONE:
		break;
	}
	member_unref(member);
}

/* Takes the row. Who is in memory goes its own way. */
static void settle_if_alone(struct reconcile *reconcile, struct sandbox *row)
{
	if (fleet_find(reconcile->fleet, row->id.text))
		sandbox_free(row);
	else
		settle(reconcile, row);
}

static int settle_rows(struct reconcile *reconcile, struct err *err)
{
	struct sandbox_filter filter = {
		.states = reconcile->states,
		.limit = LIMIT_PAGE,
	};
	auto_free char *cursor = NULL;

	do {
		struct sandbox_page page = {0};

		filter.cursor = cursor;
		if (store_sandbox_list(reconcile->fleet->store, &filter, &page, err) < 0)
			return -1;
		for (size_t i = 0; i < page.count; i++)
			settle_if_alone(reconcile, take_ptr(page.items[i]));
		mem_freep(&cursor);
		cursor = take_ptr(page.next_cursor);
		sandbox_page_done(&page);
	} while (cursor);
	return 0;
}

struct stray {
	struct fleet *fleet;
	bool keep_files;
	char id[];
};

static void on_stray_reaped(const struct err *err, void *ctx)
{
	auto_free struct stray *stray = ctx;

	if (err->code == ERR_OK)
		return;
	log_error("what is left of a sandbox stays; trying again", LOG_STR("sandbox", stray->id),
	          LOG_ERR(err));
	leftover_add(stray->fleet, stray->id, stray->keep_files);
}

static struct stray *stray_new(struct fleet *fleet, const char *id, bool keep_files)
{
	size_t size = strlen(id) + 1;
	struct stray *stray = mem_zalloc(sizeof(*stray) + size);

	stray->fleet = fleet;
	stray->keep_files = keep_files;
	memcpy(stray->id, id, size);
	return stray;
}

/* Nobody's, or one that runs although its row says that it ended. */
static void reap_if_stray(struct reconcile *reconcile, const struct runtime_entry *entry)
{
	struct runtime *runtime = reconcile->fleet->runtime;
	auto_(sandbox_freep) struct sandbox *row = NULL;
	struct err err = {0};
	bool is_known = store_sandbox_get(reconcile->fleet->store, entry->id, &row, &err) == 0;

	if (!is_known && err.code != ERR_NOT_FOUND)
		return;
	if (is_known &&
	    (!entry->is_alive || (row->state != SANDBOX_STOPPED && row->state != SANDBOX_FAILED)))
		return;
	reconcile->reaped++;
	runtime->ops->reap(runtime, entry->id, is_known, on_stray_reaped,
	                   stray_new(reconcile->fleet, entry->id, is_known));
}

static void on_listed(const struct runtime_entry *entries, size_t count, const struct err *err,
                      void *ctx)
{
	struct reconcile *reconcile = ctx;
	struct err failed = *err;

	if (err->code != ERR_OK || settle_rows(reconcile, &failed) < 0) {
		reconcile->on_ready(&failed, reconcile->ctx);
		return; /* the daemon ends; keepers may still answer into this */
	}
	for (size_t i = 0; i < count; i++)
		reap_if_stray(reconcile, &entries[i]);
	done_with_one(reconcile);
}

/* Without an end to wait for. */
static void on_swept(const struct err *err, void *ctx)
{
}

int reconcile_rows(struct fleet *fleet, size_t *ret_count, struct err *err)
{
	struct reconcile *reconcile = mem_new(struct reconcile);
	bool with_running = fleet->has_unknown_ends;
	int r;

	*reconcile = (struct reconcile){.fleet = fleet, .waiting = 1, .on_ready = on_swept};
	reconcile->states = TRANSITIONAL | (with_running ? 1u << SANDBOX_RUNNING : 0);
	fleet->has_unknown_ends = false;
	r = settle_rows(reconcile, err);
	if (r < 0)
		fleet->has_unknown_ends = with_running;
	*ret_count = reconcile->settled;
	done_with_one(reconcile);
	return r;
}

void reconcile_run(struct fleet *fleet, void (*on_ready)(const struct err *err, void *ctx),
                   void *ctx)
{
	struct reconcile *reconcile = mem_new(struct reconcile);

	reconcile->fleet = fleet;
	reconcile->states = TRANSITIONAL | 1u << SANDBOX_RUNNING;
	reconcile->waiting = 1;
	reconcile->on_ready = on_ready;
	reconcile->ctx = ctx;
	fleet->runtime->ops->list(fleet->runtime, on_listed, reconcile);
}

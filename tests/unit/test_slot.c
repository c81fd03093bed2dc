#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"
#include "broker/slot.h"
#include "harness/test.h"

#define BOX_A "sb_00000000000000000001"
#define BOX_B "sb_00000000000000000002"

/* A state directory `name` and the registry all of a test share. */
static void open_slots(struct slots *slots, const char *name)
{
	auto_close int dir = test_dir_fd();
	auto_free char *path = mem_printf("%s/%s", test_dir(), name);
	auto_free char *boxes = mem_printf("%s/sandboxes", name);
	(void)mkdirat(dir, name, 0700); /* may be there */
	(void)mkdirat(dir, boxes, 0700);
	(void)mkdirat(dir, "registry", 0700);
	int registry = openat(dir, "registry", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(registry >= 0);
	slots_init(slots, registry, path);
}

static void make_box(const char *state, const char *id)
{
	auto_close int dir = test_dir_fd();
	auto_free char *box = mem_printf("%s/sandboxes/%s", state, id);
	auto_free char *meta = mem_printf("%s/meta", box);
	CHECK_INT(mkdirat(dir, box, 0700), 0);
	test_write_file(meta, "x", 1);
}

TEST(ranges_never_overlap)
{
	CHECK_INT(slot_range_base(0), 0x40000000);
	CHECK_INT(slot_range_base(1) - slot_range_base(0), 65536);
	CHECK(slot_keeper_uid(LIMIT_SLOTS - 1) < slot_range_base(0));
	CHECK_INT(slot_range_base(LIMIT_SLOTS - 1) + SLOT_RANGE_COUNT, (uint32_t)SLOT_WORKER_BASE);
}

TEST(a_range_is_found_by_its_sandbox)
{
	struct slots slots;
	struct err err = {0};
	unsigned a, b;
	open_slots(&slots, "state");
	CHECK_INT(slots_take(&slots, BOX_A, &a, &err), 0);
	CHECK_INT(slots_take(&slots, BOX_B, &b, &err), 0);
	CHECK_INT(slots_find(&slots, BOX_B), (int)b);
	slots_free(&slots, b);
	CHECK_INT(slots_find(&slots, BOX_B), -1);
	CHECK_INT(slots_find(&slots, BOX_A), (int)a);
	slots_done(&slots);
}

TEST(a_freed_range_rests)
{
	struct slots slots;
	struct err err = {0};
	unsigned first, second;
	open_slots(&slots, "one");
	CHECK_INT(slots_take(&slots, BOX_A, &first, &err), 0);
	slots_free(&slots, first);
	CHECK_INT(slots_take(&slots, BOX_A, &second, &err), 0);
	CHECK(first != second);
	slots_free(&slots, second);
	slots_free(&slots, second); /* harmless */
	slots_done(&slots);
}

TEST(all_can_be_taken_and_then_none)
{
	struct slots slots;
	struct err err = {0};
	unsigned slot;
	slots_init(&slots, -1, "/nowhere");
	for (unsigned i = 0; i < LIMIT_SLOTS; i++)
		CHECK_INT(slots_take(&slots, BOX_A, &slot, &err), 0);
	CHECK_INT(slots_take(&slots, BOX_A, &slot, &err), -1);
	CHECK_INT(err.code, ERR_LIMITED);
	slots_free(&slots, 77);
	CHECK_INT(slots_take(&slots, BOX_A, &slot, &err), 0);
	CHECK_INT(slot, 77);
	slots_done(&slots);
}

TEST(two_state_directories_share_no_range)
{
	struct slots one, two;
	struct err err = {0};
	unsigned a, b;
	open_slots(&one, "one");
	open_slots(&two, "two");
	CHECK_INT(slots_take(&one, BOX_A, &a, &err), 0);
	CHECK_INT(slots_take(&two, BOX_B, &b, &err), 0);
	CHECK(a != b);
	CHECK_INT(slots_adopt(&two, a, BOX_B, &err), -1);
	CHECK_INT(err.code, ERR_CONFLICT);
	slots_done(&one);
	slots_done(&two);
}

TEST(a_restart_finds_its_ranges_again)
{
	struct slots before, after;
	struct err err = {0};
	unsigned slot, other;
	make_box((open_slots(&before, "one"), "one"), BOX_A);
	CHECK_INT(slots_take(&before, BOX_A, &slot, &err), 0);
	slots_done(&before);
	open_slots(&after, "one");
	CHECK_INT(slots_adopt(&after, slot, BOX_A, &err), 0);
	CHECK_INT(slots_adopt(&after, slot, BOX_A, &err), -1);
	CHECK_INT(slots_take(&after, BOX_B, &other, &err), 0);
	CHECK(slot != other);
	slots_done(&after);
}

struct stale {
	size_t count;
	unsigned slot;
	char id[64];
	bool is_busy;
};

static bool on_stale(unsigned slot, const char *id, void *ctx)
{
	struct stale *stale = ctx;
	stale->count++;
	stale->slot = slot;
	CHECK(str_copy(stale->id, sizeof(stale->id), id));
	return !stale->is_busy;
}

TEST(ranges_of_deleted_directories_come_back_after_their_processes_ended)
{
	struct slots gone, mine;
	struct err err = {0};
	struct stale stale = {0};
	unsigned lost, kept;
	open_slots(&gone, "gone");
	CHECK_INT(slots_take(&gone, BOX_A, &lost, &err), 0); /* no directory, no meta */
	slots_done(&gone);
	open_slots(&mine, "mine");
	make_box("mine", BOX_B);
	CHECK_INT(slots_take(&mine, BOX_B, &kept, &err), 0);
	slots_each_stale(&mine, on_stale, &stale);
	CHECK_INT(stale.count, 1);
	CHECK_INT(stale.slot, lost);
	CHECK_STR(stale.id, BOX_A);
	CHECK_INT(slots_adopt(&mine, lost, BOX_A, &err), 0);
	slots_done(&mine);
}

TEST(a_range_whose_processes_run_on_stays_taken)
{
	struct slots gone, mine;
	struct err err = {0};
	struct stale stale = {.is_busy = true};
	unsigned busy;
	open_slots(&gone, "gone");
	CHECK_INT(slots_take(&gone, BOX_A, &busy, &err), 0);
	slots_done(&gone);
	open_slots(&mine, "mine");
	for (int i = 0; i < 2; i++)
		slots_each_stale(&mine, on_stale, &stale);
	CHECK_INT(stale.count, 2); /* still there the second time */
	slots_done(&mine);
}

TEST(an_unused_link_of_ours_is_dropped_without_killing)
{
	struct slots before, after;
	struct err err = {0};
	struct stale stale = {0};
	unsigned slot;
	open_slots(&before, "one");
	make_box("one", BOX_A);
	CHECK_INT(slots_take(&before, BOX_A, &slot, &err), 0);
	slots_done(&before);
	open_slots(&after, "one"); /* meta does not name the slot: nothing was adopted */
	slots_each_stale(&after, on_stale, &stale);
	CHECK_INT(stale.count, 0);
	CHECK_INT(slots_take(&after, BOX_B, &slot, &err), 0);
	CHECK_INT(slot, 0);
	slots_done(&after);
}

TEST(another_live_directory_keeps_its_range)
{
	struct slots theirs, mine;
	struct err err = {0};
	struct stale stale = {0};
	unsigned slot;
	open_slots(&theirs, "theirs");
	make_box("theirs", BOX_A);
	CHECK_INT(slots_take(&theirs, BOX_A, &slot, &err), 0);
	open_slots(&mine, "mine");
	slots_each_stale(&mine, on_stale, &stale);
	CHECK_INT(stale.count, 0);
	CHECK_INT(slots_adopt(&mine, slot, BOX_B, &err), -1);
	slots_done(&theirs);
	slots_done(&mine);
}

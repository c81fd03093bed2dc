#include "worker/usage.h"

#include <errno.h>

#include "base/mem.h"
#include "worker/tree.h"

enum {
	BLOCK_BYTES = 512,        /* unit of st_blocks, whatever the file system's */
	LINKED_MAX = 4 * 1000000, /* files with several links that are told apart */
	LINKED_FIRST = 1024,
};

/* Inodes with several links seen so far: open addressing, at most half full; 0 is a free slot. */
struct linked {
	ino_t *slots;
	size_t size; /* power of two */
	size_t count;
};

struct measure {
	struct usage usage;
	struct linked linked;
};

static size_t slot_of(const struct linked *linked, ino_t inode)
{
	size_t at = (size_t)((uint64_t)inode * UINT64_C(0x9e3779b97f4a7c15)) & (linked->size - 1);

	while (linked->slots[at] != 0 && linked->slots[at] != inode)
		at = (at + 1) & (linked->size - 1);
	return at;
}

static void grow(struct linked *linked)
{
	struct linked bigger = {.count = linked->count};

	bigger.size = MAX(2 * linked->size, (size_t)LINKED_FIRST);
	bigger.slots = mem_zalloc(bigger.size * sizeof(ino_t));
	for (size_t i = 0; i < linked->size; i++) {
		if (linked->slots[i] != 0)
			bigger.slots[slot_of(&bigger, linked->slots[i])] = linked->slots[i];
	}
	free(linked->slots);
	*linked = bigger;
}

/* True the first time. */
static bool add_linked(struct linked *linked, ino_t inode)
{
	if (2 * (linked->count + 1) > linked->size)
		grow(linked);
	size_t at = slot_of(linked, inode);
	if (linked->slots[at] == inode)
		return false;
	if (linked->count < LINKED_MAX) {
		linked->slots[at] = inode;
		linked->count++;
	}
	return true;
}

static int add_entry(const struct tree_entry *entry, void *ctx)
{
	const struct stat *st = &entry->st;
	struct measure *measure = ctx;

	if (!S_ISDIR(st->st_mode) && st->st_nlink > 1 && !add_linked(&measure->linked, st->st_ino))
		return 0;
	measure->usage.bytes += (uint64_t)st->st_blocks * BLOCK_BYTES;
	measure->usage.inodes++;
	return 0;
}

int usage_measure(int dir_fd, struct usage *ret, struct err *err)
{
	struct measure measure = {0};
	int r = tree_walk(dir_fd, add_entry, &measure);

	free(measure.linked.slots);
	if (r < 0)
		return err_sys(err, -r, "measure the tree");
	*ret = measure.usage;
	return 0;
}

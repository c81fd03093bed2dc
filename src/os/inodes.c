/* Open addressing in a table of a power of two, at most half full. */
#include "os/inodes.h"

#include "base/mem.h"

static struct inode *place_of(const struct inodes *set, dev_t dev, ino_t ino)
{
	uint64_t hash = ((uint64_t)ino ^ (uint64_t)dev << 32) * UINT64_C(0x9e3779b97f4a7c15);
	size_t at = (size_t)(hash >> 20) & (set->size - 1);
	while (set->places[at].used && (set->places[at].ino != ino || set->places[at].dev != dev))
		at = (at + 1) & (set->size - 1);
	return &set->places[at];
}

const struct inode *inodes_find(const struct inodes *set, const struct stat *st)
{
	if (set->size == 0)
		return NULL;
	const struct inode *place = place_of(set, st->st_dev, st->st_ino);
	return place->used ? place : NULL;
}

static void grow(struct inodes *set)
{
	struct inodes old = *set;
	set->size = old.size ? 2 * old.size : 256;
	set->places = mem_zalloc(set->size * sizeof(struct inode));
	for (size_t i = 0; i < old.size; i++) {
		if (old.places[i].used)
			*place_of(set, old.places[i].dev, old.places[i].ino) = old.places[i];
	}
	free(old.places);
}

void inodes_add(struct inodes *set, const struct stat *st, const char *name)
{
	if (2 * (set->count + 1) > set->size)
		grow(set);
	struct inode *place = place_of(set, st->st_dev, st->st_ino);
	if (place->used)
		return;
	set->count++;
	*place = (struct inode){
		.dev = st->st_dev,
		.ino = st->st_ino,
		.name = name ? mem_strdup(name) : NULL,
		.used = true,
	};
}

void inodes_done(struct inodes *set)
{
	for (size_t i = 0; i < set->size; i++)
		free(set->places[i].name);
	free(set->places);
	*set = (struct inodes){0};
}

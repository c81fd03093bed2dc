#include "api/flood.h"

#include "base/mem.h"
#include "base/str.h"

enum { NAME = 128 };

struct kind {
	char name[NAME]; /* "": free */
	uint64_t since_ms;
	uint64_t seen;
	struct audit_row first; /* of those that were only counted */
	uint64_t counted;
};

struct flood {
	struct kind kinds[FLOOD_KINDS + 1]; /* the last is for what found no place */
	size_t used;
	size_t counting; /* kinds with counted rows */
};

struct flood *flood_new(void)
{
	return mem_new(struct flood);
}

static void clear(struct flood *flood, struct kind *kind)
{
	flood->counting -= kind->counted > 0;
	flood->used--;
	audit_row_done(&kind->first);
	*kind = (struct kind){0};
}

void flood_free(struct flood *flood)
{
	if (!flood)
		return;
	for (size_t i = 0; i < ARRAY_LEN(flood->kinds); i++)
		audit_row_done(&flood->kinds[i].first);
	mem_freep(&flood);
}

static uint32_t hash(const char *name)
{
	uint32_t value = 2166136261U;

	for (; *name; name++)
		value = (value ^ (uint8_t)*name) * 16777619U;
	return value;
}

static bool is_over(const struct kind *kind, uint64_t now_ms)
{
	return now_ms - kind->since_ms >= FLOOD_MS;
}

/* The kind of that name, or a place for it; NULL: all places near are taken by others. */
static struct kind *find(struct flood *flood, const char *name, uint64_t now_ms)
{
	struct kind *free_one = NULL;

	for (size_t i = 0; i < 8; i++) {
		struct kind *kind = &flood->kinds[(hash(name) + i) % FLOOD_KINDS];

		if (str_eq(kind->name, name))
			return kind;
		/* One whose window is over and that owes no summary can go. */
		if (kind->name[0] && kind->counted == 0 && is_over(kind, now_ms))
			clear(flood, kind);
		if (!kind->name[0] && !free_one)
			free_one = kind;
	}
	if (!free_one)
		return NULL;
	(void)snprintf(free_one->name, sizeof(free_one->name), "%s", name); /* was cut to fit */
	free_one->since_ms = now_ms;
	flood->used++;
	return free_one;
}

/* Where kinds that found no place are counted together. */
static struct kind *shared(struct flood *flood, uint64_t now_ms)
{
	struct kind *kind = &flood->kinds[FLOOD_KINDS];

	if (!kind->name[0]) {
		kind->name[0] = '*';
		kind->since_ms = now_ms;
		flood->used++;
	}
	return kind;
}

bool flood_admit(struct flood *flood, const char *name, const struct audit_row *row, bool may_share,
                 uint64_t now_ms)
{
	char cut[NAME];
	struct kind *kind;

	(void)snprintf(cut, sizeof(cut), "%s", name); /* long ones share a kind */
	kind = find(flood, cut, now_ms);
	if (!kind && !may_share)
		return true;
	if (!kind)
		kind = shared(flood, now_ms);
	if (is_over(kind, now_ms) && kind->counted == 0) {
		kind->since_ms = now_ms;
		kind->seen = 0;
	}
	if (kind->seen++ < FLOOD_ROWS)
		return true;
	if (kind->counted == 0) {
		audit_row_done(&kind->first);
		audit_row_copy(&kind->first, row);
		flood->counting++;
	}
	kind->counted++;
	return false;
}

void flood_sweep(struct flood *flood, uint64_t now_ms, bool all, flood_each each, void *ctx)
{
	for (size_t i = 0; i < ARRAY_LEN(flood->kinds) && flood->counting > 0; i++) {
		struct kind *kind = &flood->kinds[i];

		if (kind->counted == 0 || (!all && !is_over(kind, now_ms)))
			continue;
		kind->first.count = kind->counted;
		each(&kind->first, ctx);
		clear(flood, kind);
	}
}

bool flood_has_counted(const struct flood *flood)
{
	return flood->counting > 0;
}

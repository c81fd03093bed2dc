/* A plain list: a connection looks through it once, which takes microseconds when it is full. */
#include "net/pins.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum { FIRST_ROOM = 16 };

static bool is_same(const struct addr *a, const struct addr *b)
{
	return memcmp(a->bytes, b->bytes, sizeof(a->bytes)) == 0;
}

void pins_done(struct pins *pins)
{
	for (size_t i = 0; i < pins->count; i++)
		free(pins->list[i].name);
	free(pins->list);
	*pins = (struct pins){0};
}

static struct pin *find(const struct pins *pins, const char *name, const struct addr *addr)
{
	for (size_t i = 0; i < pins->count; i++) {
		struct pin *pin = &pins->list[i];
		if (is_same(&pin->addr, addr) && strcmp(pin->name, name) == 0)
			return pin;
	}
	return NULL;
}

/* A place for one more: an ended one, a new one, or at the limit the one that ends soonest. */
static struct pin *make_room(struct pins *pins, uint64_t now_ms)
{
	struct pin *soonest = NULL;
	for (size_t i = 0; i < pins->count; i++) {
		struct pin *pin = &pins->list[i];
		if (!soonest || pin->until_ms < soonest->until_ms)
			soonest = pin;
	}
	if (soonest && (soonest->until_ms <= now_ms || pins->count == PINS_MOST)) {
		free(soonest->name);
		return soonest;
	}
	if (pins->count == pins->room) {
		pins->room = MAX(pins->room * 2, (size_t)FIRST_ROOM);
		pins->list = mem_resize(pins->list, pins->room, sizeof(*pins->list));
	}
	return &pins->list[pins->count++];
}

void pins_add(struct pins *pins, const char *name, const struct addr *addr, uint64_t until_ms,
              uint64_t now_ms)
{
	struct pin *pin = find(pins, name, addr);
	if (pin) {
		pin->until_ms = MAX(pin->until_ms, until_ms);
		return;
	}
	*make_room(pins, now_ms) =
		(struct pin){.addr = *addr, .name = mem_strdup(name), .until_ms = until_ms};
}

bool pins_has(const struct pins *pins, const char *name, const struct addr *addr, uint64_t now_ms)
{
	const struct pin *pin = find(pins, name, addr);
	return pin && pin->until_ms > now_ms;
}

const char *pins_next_name(const struct pins *pins, const struct addr *addr, uint64_t now_ms,
                           size_t *at)
{
	while (*at < pins->count) {
		const struct pin *pin = &pins->list[(*at)++];
		if (pin->until_ms > now_ms && is_same(&pin->addr, addr))
			return pin->name;
	}
	return NULL;
}

const struct addr *pins_next_addr(const struct pins *pins, const char *name, uint64_t now_ms,
                                  size_t *at)
{
	while (*at < pins->count) {
		const struct pin *pin = &pins->list[(*at)++];
		if (pin->until_ms > now_ms && strcmp(pin->name, name) == 0)
			return &pin->addr;
	}
	return NULL;
}

#include "model/host.h"

#include <stdlib.h>

#include "base/mem.h"
#include "base/str.h"

void host_uses_done(struct host_uses *uses)
{
	for (size_t i = 0; i < uses->count; i++) {
		free(uses->items[i].host);
		free(uses->items[i].proto);
	}
	free(uses->items);
	*uses = (struct host_uses){0};
}

struct host_use *host_uses_enter(struct host_uses *uses, const char *host, uint16_t port,
                                 const char *proto)
{
	struct host_use *use;

	for (size_t i = 0; i < uses->count; i++) {
		use = &uses->items[i];
		if (use->port == port && str_eq(use->host, host) && str_eq(use->proto, proto))
			return use;
	}
	uses->items = mem_resize(uses->items, uses->count + 1, sizeof(*uses->items));
	use = &uses->items[uses->count++];
	*use = (struct host_use){
		.host = mem_strdup(host), .proto = mem_strdup(proto), .port = port};
	return use;
}

static int order(const void *left, const void *right)
{
	const struct host_use *a = left, *b = right;
	int by_name = strcmp(a->host, b->host);

	if (by_name == 0)
		by_name = (int)a->port - (int)b->port;
	return by_name != 0 ? by_name : strcmp(a->proto, b->proto);
}

void host_uses_sort(struct host_uses *uses)
{
	if (uses->count > 0)
		qsort(uses->items, uses->count, sizeof(*uses->items), order);
}

#include "model/event.h"

#include "base/must.h"
#include "base/str.h"

static const char *const names[] = {
#define EVENT(kind, text, about) [EVENT_##kind] = (text),
#include "model/events.def"
#undef EVENT
};

void event_done(struct event *event)
{
	free(event->data);
	*event = (struct event){.kind = EVENT_NONE};
}

const char *event_name(enum event_kind kind)
{
	must(kind >= 0 && kind < EVENT_COUNT_);
	return names[kind];
}

enum event_kind event_from(const char *name)
{
	for (int kind = 0; kind < EVENT_COUNT_; kind++) {
		if (str_eq(names[kind], name))
			return (enum event_kind)kind;
	}
	return EVENT_NONE;
}

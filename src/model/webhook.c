#include "model/webhook.h"

#include <stdlib.h>

#include "base/must.h"
#include "base/opt.h"
#include "base/str.h"
#include "model/event.h"

static const char *const state_names[] = {"pending", "delivered", "dead"};

void webhook_done(struct webhook *webhook)
{
	free(webhook->url);
	strings_done(&webhook->events);
	free(webhook->about);
	free(webhook->sealed);
	free(webhook->sealed_before);
	*webhook = (struct webhook){0};
}

void delivery_done(struct delivery *delivery)
{
	free(delivery->kind);
	free(delivery->subject);
	free(delivery->payload);
	free(delivery->last_error);
	*delivery = (struct delivery){0};
}

const char *delivery_state_name(enum delivery_state state)
{
	must(state < DELIVERY_STATE_COUNT_);
	return state_names[state];
}

enum delivery_state delivery_state_from(const char *text)
{
	for (size_t i = 0; i < ARRAY_LEN(state_names); i++) {
		if (str_eq(state_names[i], text))
			return (enum delivery_state)i;
	}
	return DELIVERY_STATE_COUNT_;
}

static bool is_clean(const char *text)
{
	for (; *text; text++) {
		if ((unsigned char)*text <= ' ' || *text == 0x7f || strchr("\"<>\\^`{|}#", *text))
			return false;
	}
	return true;
}

int webhook_check_url(const char *url, struct err *err)
{
	const char *rest = str_has_prefix(url, "https://")  ? url + 8
	                   : str_has_prefix(url, "http://") ? url + 7
	                                                    : NULL;
	size_t host = rest ? strcspn(rest, "/?") : 0;

	if (host == 0 || strlen(url) > WEBHOOK_URL_BYTES || !is_clean(url) ||
	    memchr(rest, '@', host))
		return err_set(
			err, ERR_INVALID,
			"'url' is http:// or https:// with a host, without a user, at most %d "
			"bytes",
			WEBHOOK_URL_BYTES);
	return 0;
}

static bool begins_a_kind(const char *word, size_t len)
{
	for (int i = 0; i < EVENT_COUNT_; i++) {
		if (strncmp(event_name((enum event_kind)i), word, len) == 0)
			return true;
	}
	return false;
}

static bool is_known(const char *event)
{
	if (str_eq(event, "*") || event_from(event) != EVENT_NONE)
		return true;
	return str_has_suffix(event, ".*") && strlen(event) > 2 &&
	       begins_a_kind(event, strlen(event) - 1);
}

int webhook_check_events(const struct strings *events, struct err *err)
{
	char shown[64];

	if (events->count == 0 || events->count > WEBHOOK_EVENTS)
		return err_set(err, ERR_INVALID, "'events' has 1 to %d entries", WEBHOOK_EVENTS);
	for (size_t i = 0; i < events->count; i++) {
		if (is_known(events->items[i]))
			continue;
		str_escape(shown, sizeof(shown), events->items[i], strlen(events->items[i]));
		return err_set(err, ERR_INVALID,
		               "'events': '%s' is no kind of event, such as task.completed, task.* "
		               "or *",
		               shown);
	}
	return 0;
}

bool webhook_wants(const struct webhook *webhook, const char *kind)
{
	for (size_t i = 0; i < webhook->events.count; i++) {
		const char *event = webhook->events.items[i];

		if (str_eq(event, "*") || str_eq(event, kind))
			return true;
		if (str_has_suffix(event, ".*") && strncmp(event, kind, strlen(event) - 1) == 0)
			return true;
	}
	return false;
}

uint64_t webhook_pause_ms(uint64_t first_ms, uint64_t attempts)
{
	uint64_t pause = first_ms;

	for (uint64_t i = 1; i < attempts && pause < WEBHOOK_PAUSE_MOST_MS; i++)
		pause *= 3;
	return MIN(pause, (uint64_t)WEBHOOK_PAUSE_MOST_MS);
}

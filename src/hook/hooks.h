/*
 * Webhooks: turns committed events into deliveries, and sends these until they are taken or given
 * up. Lives in cloched, on the loop's thread.
 *
 * A delivery is a row that is made once for an event and a webhook, whatever crashes: the number of
 * the last event that was looked at is stored with the rows it gave, and the events behind it are
 * looked at again by the next start. Sending is at least once; the id is the same every time. Only
 * addresses that a sandbox could reach, or that [webhooks] allow_cidrs names, are ever dialled: the
 * address is judged where the socket is made, so no name can lead elsewhere. Redirects are not
 * followed.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"
#include "model/webhook.h"

struct config;
struct event;
struct hooks;
struct loop;
struct store;

struct hooks_config {
	struct loop *loop;
	struct store *store;
	const struct config *config;
	/* Secrets are kept sealed (daemon/vault.h). The caller frees what they give. */
	char *(*seal)(const char *purpose, const char *value, void *ctx);
	int (*open)(const char *purpose, const char *sealed, char **ret, void *ctx,
	            struct err *err);
	void *ctx;
};

int hooks_new(const struct hooks_config *config, struct hooks **ret, struct err *err) NODISCARD;
/* Looks at what happened since the daemon before last looked. */
int hooks_start(struct hooks *hooks, struct err *err) NODISCARD;
/* Attempts that are under way are made again by the next start. */
void hooks_shut(struct hooks *hooks);
/* After the store was closed. Accepts NULL. */
void hooks_free(struct hooks *hooks);
/* Every committed event, in order. */
void hooks_on_event(struct hooks *hooks, const struct event *event);
/* After webhooks or deliveries were changed in the store. */
void hooks_reload(struct hooks *hooks);

/* A new secret, "whsec_…", for its owner to see once (mem_wipe_free); *ret_sealed is to be kept. */
char *hooks_make_secret(struct hooks *hooks, const struct id *webhook, char **ret_sealed) NODISCARD;
/* A delivery of a kind of its own, to try a webhook out. */
void hooks_make_test(const struct webhook *webhook, struct delivery *ret);

/*
 * Webhooks and their deliveries in the store. Part of store.h: the same rules for writes and reads.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"
#include "model/webhook.h"
#include "store/store.h"

/* Inserts or replaces by id. */
void store_put_webhook(struct store_write *write, const struct webhook *webhook);
/* With its deliveries. ERR_NOT_FOUND. */
void store_delete_webhook(struct store_write *write, const char *id);
/* Nothing happens when the webhook has one for this event already, or is gone. */
void store_add_delivery(struct store_write *write, const struct delivery *delivery);
/* How the last attempt went. */
void store_put_delivery(struct store_write *write, const struct delivery *delivery);
/* Drops those that are over and were made before. */
void store_expire_deliveries(struct store_write *write, uint64_t before_ms);

int store_webhook_get(struct store *store, const char *id, struct webhook *ret,
                      struct err *err) NODISCARD;
struct webhook_page {
	struct webhook *items; /* oldest first */
	size_t count;
	char *next_cursor;
};
/* team "": of all. */
int store_webhook_list(struct store *store, const char *team, const char *cursor, size_t limit,
                       struct webhook_page *ret, struct err *err) NODISCARD;
void webhook_page_done(struct webhook_page *page);

int store_delivery_get(struct store *store, const char *id, struct delivery *ret,
                       struct err *err) NODISCARD;
struct delivery_filter {
	const char *webhook;
	const char *state; /* NULL: all */
	uint64_t since_ms;
	const char *cursor;
	size_t limit;
};
struct delivery_page {
	struct delivery *items; /* oldest first */
	size_t count;
	char *next_cursor;
};
int store_delivery_list(struct store *store, const struct delivery_filter *filter,
                        struct delivery_page *ret, struct err *err) NODISCARD;
/* What is to be sent now, at most limit of them. */
int store_delivery_due(struct store *store, uint64_t now_ms, size_t limit,
                       struct delivery_page *ret, struct err *err) NODISCARD;
void delivery_page_done(struct delivery_page *page);
/* When something is to be sent; 0: nothing is. */
int store_delivery_next(struct store *store, uint64_t *ret, struct err *err) NODISCARD;

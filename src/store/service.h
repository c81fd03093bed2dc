/*
 * Services out of the store (model/service.h). Reading, on the thread of the loop, and counting
 * their use; they are written with store_put_service.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"
#include "model/service.h"

struct store;
struct store_write;

/* By id, or by a name in that team (NULL: the default one), or else by that of one for everybody.
 */
int store_service_get(struct store *store, const char *team, const char *id_or_name,
                      struct service **ret, struct err *err) NODISCARD;
/* What it has sealed; NULL: nothing. The caller frees. */
int store_service_sealed(struct store *store, const char *id, char **ret,
                         struct err *err) NODISCARD;
/* Under which its use is counted; the caller frees. */
char *service_use_key(const struct service *service);
/* How much it was used so far; zeros when never. */
int store_service_use(struct store *store, const struct service *service, struct service_use *ret,
                      struct err *err) NODISCARD;
/* Adds to what it was used; last_ms takes the place of the one before. */
void store_count_service(struct store_write *write, const struct service *service,
                         const struct service_use *more);
struct service_page {
	struct service **items; /* oldest first */
	size_t count;
	char *next_cursor;
};
/* team NULL: all; else its own and those for everybody. */
int store_service_list(struct store *store, const char *team, const char *cursor, size_t limit,
                       struct service_page *ret, struct err *err) NODISCARD;
void service_page_done(struct service_page *page);

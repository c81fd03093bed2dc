/*
 * Who follows events: a shared ring of the newest ones, encoded once, and cursors into it. A
 * follower that fell behind the ring reads the store until it has caught up.
 */
#pragma once

#include <jansson.h>

#include "base/base.h"
#include "base/err.h"
#include "model/access.h"
#include "model/event.h"

struct hub;
struct store;
struct hub_follower;

/* There is something to take (or the follower asked when there was nothing). */
typedef void (*hub_on_news)(struct hub_follower *follower, void *ctx);

/* Embedded by value. */
struct hub_follower {
	struct hub *hub;
	struct hub_follower *next, *prev;
	char sandbox[33];      /* only of this one, and counted in its own numbers; "": all */
	uint64_t after;        /* number of the last event taken */
	struct caller *viewer; /* only what they may look at; NULL: all */
	hub_on_news on_news;
	void *ctx;
};

struct hub *hub_new(struct store *store);
void hub_free(struct hub *hub);
void hub_publish(struct hub *hub, const struct event *event);
/* sandbox may be NULL. */
void hub_follow(struct hub *hub, struct hub_follower *follower, const char *sandbox, uint64_t after,
                hub_on_news on_news, void *ctx);
/* Only what this caller may look at; keeps a reference while it follows. */
void hub_show(struct hub_follower *follower, struct caller *viewer);
/* Harmless when it does not follow. */
void hub_unfollow(struct hub_follower *follower);
/* Calls `each` with the events that follow, encoded, until it returns false (then that event was
 * not taken) or there are none. */
typedef bool (*hub_each)(uint64_t number, const char *kind, const char *json, void *ctx);
int hub_take(struct hub_follower *follower, hub_each each, void *ctx, struct err *err) NODISCARD;

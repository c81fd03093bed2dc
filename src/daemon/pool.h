/*
 * Sandboxes made in advance: each profile with pool = N keeps N of them parked, complete but
 * nobody's, so that a create only has to bind one. Each is used once and never comes back. A parked
 * one has no row: whatever happens to this daemon, the next one finds it without a row and takes it
 * down.
 *
 * Claiming has two phases. What takes rights (hostname, limits, mounts) is changed by the broker,
 * or nothing is; then the keeper is told (K_CLAIM) before any command can run in it, and the row is
 * committed as running; only then is anybody answered. What a parked one cannot become (fit.h) is
 * made from a blank one if there is one, which has everything but an image, and else the long way;
 * so is the request of one that could not be bound.
 */
#pragma once

#include "base/base.h"
#include "daemon/fleet.h"
#include "model/config.h"

struct pool;
struct pool_shelf;

struct pool_counts {
	const char *profile;
	uint64_t wanted, ready, making;
	uint64_t hits, misses, made, failed;
	struct span make; /* from asking for one to having it */
};

struct pool *pool_new(struct fleet *fleet, const struct config *config);
void pool_free(struct pool *pool);
/* Begins to make what is missing, a few at a time. */
void pool_fill(struct pool *pool);
/* A parked one that can become this, off its shelf; the caller owns the reference. NULL: none (a
 * miss when the profile has a pool). image_id is "" for the host image. */
struct member *pool_take(struct pool *pool, const struct spec *spec, const char *image_id);
/* One without an image that can become this, as pool_take. RUNTIME_START gives it all it lacks. */
struct member *pool_take_blank(struct pool *pool, const struct spec *spec);
/* Takes down one that was taken but could not be used. */
void pool_discard(struct member *member);
/* The keeper of a parked one went. */
void pool_lost(struct member *member);
/* Shelf by shelf; false at the end. */
bool pool_count(const struct pool *pool, size_t index, struct pool_counts *ret);
void pool_count_blanks(const struct pool *pool, struct pool_counts *ret);

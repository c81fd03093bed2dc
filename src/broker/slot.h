/*
 * Id ranges. As root every running sandbox has a range of 65536 host ids and a uid for its keeper
 * that no other running sandbox of this machine has; which one is its slot. The broker alone
 * chooses. Several brokers may serve several state directories: they share a registry of
 * symlinks (/run/cloche/slots/<slot> -> <state>/sandboxes/<id>), made exclusively, so a slot can
 * be taken once. Rootless there is one range for all and no registry.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"
#include "base/limits.h"

enum {
	SLOT_RANGE_COUNT = 65536,
	SLOT_RANGE_FIRST = 0x40000000,
	SLOT_KEEPER_FIRST = 0x3fff0000,
	/* Workers (archives, removals) share one range after all slots. */
	SLOT_WORKER_BASE = SLOT_RANGE_FIRST + LIMIT_SLOTS * SLOT_RANGE_COUNT,
};

struct slots {
	uint64_t used[LIMIT_SLOTS / 64];
	unsigned next;   /* where the search goes on: a range rests before it is used again */
	int registry_fd; /* -1: none */
	char *sandboxes; /* "<state>/sandboxes", what links point below */
};

/* Takes registry_fd (or -1); copies the path. */
void slots_init(struct slots *slots, int registry_fd, const char *state_path);
void slots_done(struct slots *slots);
/* Opens (makes) the machine's registry. -errno. */
int slots_open_registry(void) NODISCARD;

/* A slot for the sandbox. ERR_LIMITED when all are taken. */
int slots_take(struct slots *slots, const char *sandbox, unsigned *ret, struct err *err) NODISCARD;
/* A slot found in a running sandbox's meta. ERR_CONFLICT when somebody else holds it. */
int slots_adopt(struct slots *slots, unsigned slot, const char *sandbox, struct err *err) NODISCARD;
/* The one that is registered for the sandbox here; -1: none. For one whose meta is gone already. */
int slots_find(const struct slots *slots, const char *sandbox);
/* Gives it back. Harmless for one that is free. */
void slots_free(struct slots *slots, unsigned slot);
void slots_free_all(struct slots *slots);

/* Takes left-over links away. fn (slot, sandbox id) is asked about those whose sandbox directory is
 * not to be seen: only if it says that nothing of it runs is the range free again. After
 * slots_adopt. */
void slots_each_stale(struct slots *slots, bool (*fn)(unsigned slot, const char *id, void *ctx),
                      void *ctx);

static inline uint32_t slot_range_base(unsigned slot)
{
	return SLOT_RANGE_FIRST + slot * (uint32_t)SLOT_RANGE_COUNT;
}

static inline uint32_t slot_keeper_uid(unsigned slot)
{
	return SLOT_KEEPER_FIRST + slot;
}

/*
 * What this machine enforces, each mechanism proven by trying it in a child that is thrown away.
 * Used by the broker (OP_DOCTOR) and by `cloche doctor` when no daemon answers. Changes nothing
 * that stays.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"

enum doctor_status {
	DOCTOR_OK,
	DOCTOR_MISSING,  /* sandboxes are refused unless their profile says degraded = true */
	DOCTOR_DEGRADED, /* done without; every status shows it */
};

struct doctor_check {
	const char *name;
	enum doctor_status status;
	char detail[160];
	const char *remedy; /* "" when there is nothing to do */
};

struct doctor_options {
	int sandboxes_fd; /* where disks are tried; -1: on a tmpfs */
	bool is_rootless;
	uint32_t id_count;   /* ids sandboxes have */
	const char *pretend; /* for tests: this check finds its mechanism missing; NULL: none */
};

typedef void (*doctor_on_check)(const struct doctor_check *check, void *ctx);

/* Calls on_check for each, in a fixed order. */
void doctor_run(const struct doctor_options *options, doctor_on_check on_check, void *ctx);
/* "ok", "missing", "degraded". */
const char *doctor_status_name(enum doctor_status status);

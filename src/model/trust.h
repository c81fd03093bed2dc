/*
 * Trust tiers: how strongly something must be isolated, by who vouches for it. An agent whose
 * manifest is signed by a trusted key may use the runtime it asks for; an unsigned or tampered one
 * gets the strongest there is. Floors that the operator sets (per team, per profile) hold for
 * everybody. Pure.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"

enum trust {
#define TRUST(id, text, about) TRUST_##id,
#include "model/trusts.def"
#undef TRUST
	TRUST_COUNT_
};

const char *trust_name(enum trust trust);

struct trust_ask {
	enum trust trust;
	const char *wanted;      /* a runtime; NULL: whichever holds */
	const char *floors[2];   /* of the team and of the profile; NULL: none */
	const char *const *have; /* runtimes of this machine, NULL-terminated */
};

/* The runtime to use, one of `have`: never below a floor, never below the tier. ERR_INVALID for a
 * name nobody knows; ERR_MISSING naming the runtime that this machine lacks. */
int trust_choose(const struct trust_ask *ask, const char **ret, struct err *err) NODISCARD;

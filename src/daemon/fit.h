/*
 * Whether a sandbox made in advance can become what somebody asks for. Pure: two descriptions and
 * what is in force in the one that was made.
 */
#pragma once

#include "base/base.h"
#include "model/sandbox.h"

enum fit {
	FIT_NOT,   /* made the long way */
	FIT_AS_IS, /* claimed at once: env, cwd, user, labels and the like are no part of it */
	FIT_BOUND, /* claimed after the broker changed it: hostname, limits, mounts */
};

/* The same of one without an image; everything but the kind can be made to fit. */
bool fit_blank(const struct sandbox *made, const struct spec *wanted);
enum fit fit_of(const struct sandbox *made, const struct spec *wanted);

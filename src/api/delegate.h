/*
 * What a run may hand on: what is made with the credential of a run reaches no further than the run
 * itself does, be it a sandbox or another run.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"
#include "model/reach.h"
#include "model/rights.h"

struct api;
struct caller;
struct spec;

/* How far a sandbox made from this reaches. Fills *ret, which must hold nothing. */
int delegate_reach(struct api *api, const struct spec *spec, struct reach *ret,
                   struct err *err) NODISCARD;
/* Whose variables a sandbox made from this has, into *ret (which may hold some already), if they
 * are among `own`. ERR_FORBIDDEN. */
int delegate_variables(struct api *api, const struct spec *spec, const struct allowed *own,
                       struct allowed *ret, struct err *err) NODISCARD;
/* What the caller has: a run what its credential says, everybody else what their scopes are.
 * Fills *ret, which must hold nothing. */
int delegate_rights(struct api *api, const struct caller *caller, struct rights *ret,
                    struct err *err) NODISCARD;
/* Whether this caller may have such a sandbox; always when it is no run. ERR_FORBIDDEN names what
 * is more than the run's own. */
int delegate_check(struct api *api, const struct caller *caller, const struct spec *spec,
                   struct err *err) NODISCARD;
/* Whether inner is within outer, denials included. ERR_FORBIDDEN. */
int delegate_within(const struct reach *inner, const struct reach *outer,
                    struct err *err) NODISCARD;

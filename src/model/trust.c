#include "model/trust.h"

#include "base/opt.h"
#include "base/str.h"

static const struct {
	const char *name;
	unsigned strength;
} runtimes[] = {
#define RUNTIME(name, strength, about) {name, strength},
#include "model/runtimes.def"
#undef RUNTIME
};

static const char *const trust_names[] = {
#define TRUST(id, text, about) text,
#include "model/trusts.def"
#undef TRUST
};

const char *trust_name(enum trust trust)
{
	return trust_names[trust];
}

/* 0: nobody knows it. */
static unsigned strength_of(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(runtimes); i++) {
		if (str_eq(runtimes[i].name, name))
			return runtimes[i].strength;
	}
	return 0;
}

int trust_check_runtime(const char *name, struct err *err)
{
	const char *names[ARRAY_LEN(runtimes) + 1] = {0};
	const char *near;
	char shown[64];

	if (strength_of(name) > 0)
		return 0;
	for (size_t i = 0; i < ARRAY_LEN(runtimes); i++)
		names[i] = runtimes[i].name;
	near = opt_nearest(name, names);
	str_escape(shown, sizeof(shown), name, strlen(name));
	return err_set(err, ERR_INVALID, "there is no runtime '%s'%s%s%s", shown,
	               near ? " (did you mean '" : "", near ? near : "", near ? "'?)" : "");
}

static bool is_here(const struct trust_ask *ask, const char *name)
{
	for (const char *const *at = ask->have; *at; at++) {
		if (str_eq(*at, name))
			return true;
	}
	return false;
}

/* The strongest here; with `least` the weakest that is at least so strong. NULL: none. */
static const char *pick(const struct trust_ask *ask, unsigned least, bool strongest)
{
	const char *found = NULL;

	for (const char *const *at = ask->have; *at; at++) {
		unsigned strength = strength_of(*at);

		if (strength < least || strength == 0)
			continue;
		if (!found ||
		    (strongest ? strength > strength_of(found) : strength < strength_of(found)))
			found = *at;
	}
	return found;
}

/* The highest floor; NULL: there is none. */
static int find_floor(const struct trust_ask *ask, const char **ret, struct err *err)
{
	*ret = NULL;
	for (size_t i = 0; i < ARRAY_LEN(ask->floors); i++) {
		const char *floor = ask->floors[i];

		if (!floor)
			continue;
		if (trust_check_runtime(floor, err) < 0)
			return -1;
		if (!*ret || strength_of(floor) > strength_of(*ret))
			*ret = floor;
	}
	return 0;
}

int trust_choose(const struct trust_ask *ask, const char **ret, struct err *err)
{
	const char *floor, *chosen;
	unsigned least;

	if (find_floor(ask, &floor, err) < 0 ||
	    (ask->wanted && trust_check_runtime(ask->wanted, err) < 0))
		return -1;
	least = floor ? strength_of(floor) : 0;
	if (ask->trust != TRUST_SIGNED) {
		chosen = pick(ask, least, true);
	} else if (ask->wanted && strength_of(ask->wanted) >= least) {
		if (!is_here(ask, ask->wanted))
			return err_set(err, ERR_MISSING, "this machine has no runtime '%s'",
			               ask->wanted);
		chosen = ask->wanted;
	} else {
		chosen = pick(ask, least, false);
	}
	if (!chosen)
		return err_set(err, ERR_MISSING,
		               "isolation must be at least that of runtime '%s' here, and this "
		               "machine has none so strong",
		               floor ? floor : "native");
	*ret = chosen;
	return 0;
}

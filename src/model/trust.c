#include "model/trust.h"

#include "base/str.h"
#include "model/backend.h"

static const char *const trust_names[] = {
#define TRUST(id, text, about) text,
#include "model/trusts.def"
#undef TRUST
};

const char *trust_name(enum trust trust)
{
	return trust_names[trust];
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
		unsigned strength = backend_strength(*at);

		if (strength < least || strength == 0)
			continue;
		if (!found || (strongest ? strength > backend_strength(found)
		                         : strength < backend_strength(found)))
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
		if (backend_check_name(floor, err) < 0)
			return -1;
		if (!*ret || backend_strength(floor) > backend_strength(*ret))
			*ret = floor;
	}
	return 0;
}

int trust_choose(const struct trust_ask *ask, const char **ret, struct err *err)
{
	const char *floor, *chosen;
	unsigned least;

	if (find_floor(ask, &floor, err) < 0 ||
	    (ask->wanted && backend_check_name(ask->wanted, err) < 0))
		return -1;
	least = floor ? backend_strength(floor) : 0;
	if (ask->trust != TRUST_SIGNED) {
		chosen = pick(ask, least, true);
	} else if (ask->wanted && backend_strength(ask->wanted) >= least) {
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
		               floor ? floor : BACKEND_DEFAULT);
	*ret = chosen;
	return 0;
}

#include "model/backend.h"

#include <stdio.h>

#include "base/opt.h"
#include "base/str.h"

static const struct {
	const char *name;
	unsigned strength;
	enum backend backend;
} runtimes[] = {
#define RUNTIME(name, strength, backend, about) {name, strength, BACKEND_##backend},
#include "model/runtimes.def"
#undef RUNTIME
};

const char *const *backend_names(void)
{
	static const char *names[ARRAY_LEN(runtimes) + 1];
	size_t count = 0;

	for (size_t i = 0; i < ARRAY_LEN(runtimes); i++) {
		if (runtimes[i].backend != BACKEND_NONE)
			names[count++] = runtimes[i].name;
	}
	return names;
}

unsigned backend_strength(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(runtimes); i++) {
		if (str_eq(runtimes[i].name, name))
			return runtimes[i].strength;
	}
	return 0;
}

static void list_here(char *out, size_t size)
{
	size_t used = 0;

	out[0] = '\0';
	for (const char *const *at = backend_names(); *at && used < size; at++)
		used += (size_t)snprintf(out + used, size - used, "%s%s", used ? ", " : "", *at);
}

int backend_of(const char *what, const char *name, enum backend *ret, struct err *err)
{
	char here[64], shown[64];

	for (size_t i = 0; i < ARRAY_LEN(runtimes); i++) {
		if (runtimes[i].backend == BACKEND_NONE || !str_eq(runtimes[i].name, name))
			continue;
		*ret = runtimes[i].backend;
		return 0;
	}
	list_here(here, sizeof(here));
	str_escape(shown, sizeof(shown), name, strlen(name));
	return err_set(err, ERR_INVALID, "%s '%s' is not known here, which has: %s", what, shown,
	               here);
}

int backend_check_name(const char *name, struct err *err)
{
	const char *names[ARRAY_LEN(runtimes) + 1] = {0};
	const char *near;
	char shown[64];

	if (backend_strength(name) > 0)
		return 0;
	for (size_t i = 0; i < ARRAY_LEN(runtimes); i++)
		names[i] = runtimes[i].name;
	near = opt_nearest(name, names);
	str_escape(shown, sizeof(shown), name, strlen(name));
	return err_set(err, ERR_INVALID, "there is no runtime '%s'%s%s%s", shown,
	               near ? " (did you mean '" : "", near ? near : "", near ? "'?)" : "");
}

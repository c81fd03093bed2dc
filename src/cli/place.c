#include "cli/place.h"

#include <errno.h>
#include <unistd.h>

#include "base/mem.h"

#define SYSTEM_STATE "/var/lib/cloche"

const char *place_env(const char *name)
{
	const char *value = getenv(name); /* NOLINT(concurrency-mt-unsafe): one thread */

	return value != NULL && *value != '\0' ? value : NULL;
}

static bool has_socket(const char *dir)
{
	auto_free char *path = mem_printf("%s/cloche.sock", dir);

	return access(path, W_OK) == 0;
}

static char *of_user(struct err *err)
{
	const char *xdg = place_env("XDG_STATE_HOME");
	const char *home = place_env("HOME");

	if (xdg != NULL && *xdg == '/')
		return mem_printf("%s/cloche", xdg);
	if (home != NULL && *home == '/')
		return mem_printf("%s/.local/state/cloche", home);
	err_set(err, ERR_CONFIG, "HOME is not set: name a state directory with --state");
	return NULL;
}

static char *make_absolute(const char *path, struct err *err)
{
	if (*path == '/')
		return mem_strdup(path);
	auto_free char *cwd = getcwd(NULL, 0);

	if (cwd == NULL) {
		err_sys(err, errno, "find the current folder");
		return NULL;
	}
	return mem_printf("%s/%s", cwd, path);
}

char *place_resolve(const char *given, struct err *err)
{
	if (given != NULL)
		return make_absolute(given, err);
	if (geteuid() == 0)
		return mem_strdup(SYSTEM_STATE);
	char *own = of_user(err);

	if (own != NULL && !has_socket(own) && has_socket(SYSTEM_STATE)) {
		free(own);
		own = mem_strdup(SYSTEM_STATE);
	}
	return own;
}

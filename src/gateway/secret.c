#include "gateway/secret.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/str.h"

void gateway_secret_wipe(char **secret)
{
	if (*secret)
		mem_wipe_free(*secret, strlen(*secret));
	*secret = NULL;
}

static int read_env(const struct service *service, const char *name, char **ret, struct err *err)
{
	/* NOLINTNEXTLINE(concurrency-mt-unsafe): nobody here ever sets one */
	const char *value = getenv(name);

	if (!value)
		return err_set(err, ERR_UNAVAILABLE,
		               "the secret of service %s is not there: the daemon has no variable "
		               "of that name",
		               service->name);
	*ret = mem_strdup(value);
	return 0;
}

static int read_path(const struct service *service, const char *path, char **ret, struct err *err)
{
	char *text = NULL;
	size_t len = 0;
	int r = io_read_file(AT_FDCWD, path, SERVICE_SECRET, &text, &len);

	if (r < 0)
		return err_sys(err, -r, "the secret of service %s cannot be read", service->name);
	/* An editor's last line ends, a secret does not. */
	while (len > 0 && (text[len - 1] == '\n' || text[len - 1] == '\r'))
		text[--len] = '\0';
	*ret = text;
	return 0;
}

int gateway_secret_read(const struct service *service, gateway_unseal unseal, void *ctx, char **ret,
                        struct err *err)
{
	const char *reference = service->secret;
	int r = 0;

	*ret = NULL;
	if (!reference)
		return 0;
	if (str_has_prefix(reference, "env:"))
		r = read_env(service, reference + 4, ret, err);
	else if (str_has_prefix(reference, "file:"))
		r = read_path(service, reference + 5, ret, err);
	else
		r = unseal(service, ret, err, ctx);
	if (r < 0)
		return -1;
	if (**ret && strlen(*ret) <= SERVICE_SECRET && service_is_value(*ret))
		return 0;
	gateway_secret_wipe(ret);
	return err_set(err, ERR_UNAVAILABLE,
	               "the secret of service %s is empty, too long or has more than one line",
	               service->name);
}

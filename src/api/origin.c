#include "api/origin.h"

#include <strings.h>

#include "base/addr.h"
#include "base/str.h"

enum { HOST_MAX = 255 };

/* The name or address without port and brackets; false: it is no host. */
static bool split_host(const char *text, char out[HOST_MAX + 1])
{
	size_t len = strcspn(text, ":");
	const char *rest = text + len;

	if (text[0] == '[') {
		len = strcspn(text, "]");
		if (text[len] != ']')
			return false;
		rest = text + len + 1;
		text++;
		len--;
	}
	if (len == 0 || len > HOST_MAX)
		return false;
	if (*rest == ':' && (rest[1] == '\0' || strspn(rest + 1, "0123456789") != strlen(rest + 1)))
		return false;
	if (*rest != ':' && *rest != '\0')
		return false;
	memcpy(out, text, len);
	out[len] = '\0';
	return true;
}

bool origin_host_is_ours(const char *host, const struct strings *hosts)
{
	char name[HOST_MAX + 1];
	struct addr addr;

	if (!split_host(host, name))
		return false;
	if (addr_parse(name, &addr) || strcasecmp(name, "localhost") == 0)
		return true;
	for (size_t i = 0; i < hosts->count; i++) {
		if (strcasecmp(hosts->items[i], name) == 0)
			return true;
	}
	return false;
}

static bool is_listed(const char *origin, const struct strings *origins)
{
	for (size_t i = 0; i < origins->count; i++) {
		if (strcasecmp(origins->items[i], origin) == 0)
			return true;
	}
	return false;
}

enum origin origin_of(const char *origin, const char *site, const char *host,
                      const struct strings *origins)
{
	const char *authority = origin ? strstr(origin, "://") : NULL;

	if (origin && is_listed(origin, origins))
		return ORIGIN_ALLOWED;
	if (origin)
		return authority && host && strcasecmp(authority + 3, host) == 0 ? ORIGIN_SAME
		                                                                 : ORIGIN_FOREIGN;
	/* A page of another site that loads an image, or a form: no Origin, but this. */
	if (site && !str_eq(site, "same-origin") && !str_eq(site, "none"))
		return ORIGIN_FOREIGN;
	return ORIGIN_NONE;
}

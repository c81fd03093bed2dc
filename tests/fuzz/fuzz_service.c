/*
 * Services: whatever the bytes, an upstream has one form or is refused, and a second look changes
 * nothing; a target that is passed on is plain; a Host names at most one service. The first byte
 * chooses what the rest is.
 */
#include <string.h>

#include "base/mem.h"
#include "base/must.h"
#include "base/str.h"
#include "model/service.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static void try_upstream(const char *text)
{
	struct service *service = service_new("fuzz");
	struct err err = {0};

	service->upstream = mem_strdup(text);
	if (service_normalise(service, &err) < 0) {
		must(err.code == ERR_INVALID && err.msg[0]);
		service_free(service);
		return;
	}
	auto_free char *first = mem_strdup(service->upstream);
	size_t authority = strcspn(strstr(first, "://") + 3, "/");

	must(!memchr(first, '@', strlen(first) - strlen(strstr(first, "://") + 3 + authority)));
	must(!strpbrk(first, "?# \r\n\\") && first[strlen(first) - 1] != '/');
	must(service_normalise(service, &err) == 0 && str_eq(service->upstream, first));
	service_free(service);
}

/* A segment of dots alone, plain or encoded: what a server would climb by. */
static bool climbs(const char *path)
{
	while (*path) {
		size_t dots = 0;
		path += *path == '/';
		const char *at = path;
		while (*at == '.' || strncasecmp(at, "%2e", 3) == 0) {
			at += *at == '.' ? 1 : 3;
			dots++;
		}
		if ((dots == 1 || dots == 2) && (*at == '/' || *at == '\0'))
			return true;
		path += strcspn(path, "/");
	}
	return false;
}

static void try_target(const char *text)
{
	static const char *const patterns[] = {"/v1/*", "/files/**", "/a*b", NULL};
	struct service *service = service_new("fuzz");
	struct err err = {0};
	auto_free char *path = service_path(text);

	for (size_t i = 0; patterns[i]; i++)
		strings_add(&service->paths, patterns[i]);
	if (service_allows(service, "GET", text, &err) == 0) {
		must(text[0] == '/' && !climbs(path) && !strstr(path, "//"));
		must(!strcasestr(path, "%2f") && !strchr(path, ' '));
	} else {
		must(err.code == ERR_FORBIDDEN || err.code == ERR_INVALID);
	}
	service_free(service);
}

static void try_host(const char *text)
{
	char name[SERVICE_LABEL], again[SERVICE_LABEL];
	struct err err = {0};

	if (!service_of_host(text, name) || service_check_name(name, &err) < 0)
		return;
	auto_free char *host = mem_printf("%s" SERVICE_DOMAIN, name);

	must(service_of_host(host, again) && str_eq(name, again));
}

static void try_placeholder(const char *text)
{
	const char *found = service_foreign_placeholder(text, "fuzz");
	auto_free char *filled = service_fill(text, SERVICE_PLACEHOLDER "fuzz", "s3cret-value");

	must(!found || (found >= text && found < text + strlen(text)));
	/* With none of another service's, nothing that looks like one is left. */
	must(found || !strstr(filled, SERVICE_PLACEHOLDER));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	static void (*const tries[])(const char *text) = {try_upstream, try_target, try_host,
	                                                  try_placeholder};
	if (len == 0 || len > 64 * 1024)
		return 0;
	auto_free char *text = mem_strndup((const char *)bytes + 1, len - 1);

	tries[bytes[0] % ARRAY_LEN(tries)](text);
	return 0;
}

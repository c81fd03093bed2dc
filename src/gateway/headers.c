#include "gateway/headers.h"

#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/str.h"
#include "http/request.h"

/* RFC 9110, 7.6.1, and what we say ourselves. */
static const char *const hop_by_hop[] = {
	"Connection", "Keep-Alive",        "Proxy-Connection", "Proxy-Authenticate", "TE",
	"Trailer",    "Transfer-Encoding", "Upgrade",          "Content-Length",     NULL,
};

/* Credentials, and what tells where a request comes from. The encoding, because an answer that is
 * packed cannot be searched for what must not be in it. */
static const char *const kept_inside[] = {
	"Host",      "Expect",    "Authorization",   "Proxy-Authorization",
	"Cookie",    "X-Api-Key", "Accept-Encoding", "Forwarded",
	"X-Real-IP", "Via",       "X-Goog-Api-Key",  NULL,
};

/* Cookies are credentials, too; the others speak about a host that the sandbox does not know. */
static const char *const kept_outside[] = {
	"Set-Cookie", "Set-Cookie2",     "Strict-Transport-Security",
	"Alt-Svc",    "Clear-Site-Data", NULL,
};

static bool is_in(const char *const *list, const char *name)
{
	for (; *list; list++) {
		if (strcasecmp(*list, name) == 0)
			return true;
	}
	return false;
}

/* Whether the comma list of the Connection header names it. */
static bool is_nominated(const char *connection, const char *name)
{
	size_t len = strlen(name);

	for (const char *at = connection; at && *at;) {
		at += strspn(at, " \t,");
		size_t word = strcspn(at, " \t,");

		if (word == len && strncasecmp(at, name, len) == 0)
			return true;
		at += word;
	}
	return false;
}

static bool is_of_service(const struct service *service, const char *name)
{
	size_t len = strlen(name);

	for (size_t i = 0; i < service->headers.count; i++) {
		const char *own = service->headers.items[i];

		if (strncasecmp(own, name, len) == 0 && own[len] == ':')
			return true;
	}
	return false;
}

struct building {
	const struct service *service;
	const char *secret, *placeholder, *connection;
	struct strings *ret;
};

static bool may_go(const struct building *building, const char *name, const char *value)
{
	if (is_in(hop_by_hop, name) || is_nominated(building->connection, name) ||
	    is_of_service(building->service, name) || strncasecmp(name, "X-Forwarded-", 12) == 0 ||
	    strncasecmp(name, "Cloche-", 7) == 0)
		return false;
	/* A credential goes on only as the service's own secret. */
	if (is_in(kept_inside, name))
		return building->secret && strstr(value, building->placeholder) &&
		       strcasecmp(name, "Host") != 0;
	return service_is_value(name) && service_is_value(value);
}

static bool on_header(const char *name, const char *value, void *ctx)
{
	struct building *building = ctx;
	char *filled;

	if (!may_go(building, name, value))
		return true;
	filled = building->secret ? service_fill(value, building->placeholder, building->secret)
	                          : mem_strdup(value);
	strings_take(building->ret, mem_printf("%s: %s", name, filled));
	mem_wipe_free(filled, strlen(filled));
	return true;
}

void headers_build(const struct service *service, const char *secret, struct request *request,
                   struct strings *ret)
{
	auto_free char *placeholder = mem_printf("%s%s", SERVICE_PLACEHOLDER, service->name);
	struct building building = {service, secret, placeholder,
	                            request ? request_header(request, "Connection") : NULL, ret};

	for (size_t i = 0; i < service->headers.count; i++) {
		const char *text = service->headers.items[i];

		strings_take(ret,
		             secret ? service_fill(text, SERVICE_SLOT, secret) : mem_strdup(text));
	}
	strings_add(ret, "Accept-Encoding: identity");
	if (request)
		request_each_header(request, on_header, &building);
}

struct looking {
	const char *name;
	bool is_foreign;
};

static bool look(const char *name, const char *value, void *ctx)
{
	struct looking *looking = ctx;

	looking->is_foreign =
		looking->is_foreign || service_foreign_placeholder(value, looking->name) != NULL;
	return !looking->is_foreign;
}

int headers_check_placeholders(struct request *request, const char *name, struct err *err)
{
	struct looking looking = {name, false};

	request_each_header(request, look, &looking);
	if (!looking.is_foreign && !service_foreign_placeholder(request_target(request), name))
		return 0;
	return err_set(err, ERR_FORBIDDEN,
	               "the placeholder of one service was sent to another; nothing was passed on");
}

bool headers_may_go(const char *name, const char *connection)
{
	return !is_in(hop_by_hop, name) && !is_nominated(connection, name) &&
	       !is_in(kept_inside, name) && strncasecmp(name, "X-Forwarded-", 12) != 0 &&
	       strncasecmp(name, "Cloche-", 7) != 0;
}

bool headers_may_return(const char *name)
{
	return !is_in(hop_by_hop, name) && !is_in(kept_outside, name);
}

char *headers_translate(const struct service *service, const char *name, const char *value)
{
	size_t len = strlen(service->upstream);

	if (strcasecmp(name, "Location") != 0 && strcasecmp(name, "Content-Location") != 0)
		return NULL;
	if (strncmp(value, service->upstream, len) != 0 ||
	    (value[len] != '/' && value[len] != '\0' && value[len] != '?'))
		return NULL;
	return mem_printf("%s%s", value[len] == '/' ? "" : "/", value + len);
}

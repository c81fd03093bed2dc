#include "gateway/inbound.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/str.h"
#include "gateway/headers.h"
#include "gateway/relay.h"
#include "gateway/tunnel.h"
#include "gateway/upstream.h"
#include "http/request.h"
#include "model/service.h"

enum { CALL_MS = 60 * 60 * 1000 };

static const char *const kept_outside[] = {
	"Host",       "Authorization",  "Proxy-Authorization", "Cookie", "Expect",
	"Connection", "Content-Length", "Transfer-Encoding",   NULL};

/* These would speak for the API's own place. */
static const char *const kept_inside[] = {"Service-Worker-Allowed", "Content-Security-Policy",
                                          "X-Content-Type-Options", "WWW-Authenticate", NULL};

static bool is_in(const char *const *list, const char *name)
{
	for (; *list; list++) {
		if (strcasecmp(*list, name) == 0)
			return true;
	}
	return false;
}

bool inbound_may_return(const char *name)
{
	return headers_may_return(name) && !is_in(kept_inside, name) &&
	       strncasecmp(name, "Access-Control-", 15) != 0;
}

/* A list of protocols without those that are a key (api/identify.c); NULL: no other is in it. */
static char *without_keys(const char *list)
{
	char *rest = NULL;

	while (*list) {
		size_t len = strcspn(list, ",");
		const char *item = list + strspn(list, " \t");

		if (item < list + len && !str_has_prefix(item, "cloche.bearer.")) {
			char *longer = mem_printf("%s%s%.*s", rest ? rest : "", rest ? ", " : "",
			                          (int)(list + len - item), item);
			free(rest);
			rest = longer;
		}
		list += len + (list[len] == ',');
	}
	return rest;
}

struct building {
	bool is_upgrade;
	struct strings *ret;
};

static bool on_header(const char *name, const char *value, void *ctx)
{
	struct building *building = ctx;
	bool is_hop = !headers_may_return(name);
	auto_free char *offered = NULL;

	if (is_in(kept_outside, name) || strncasecmp(name, "Cloche-", 7) == 0 ||
	    !service_is_value(name) || !service_is_value(value))
		return true;
	if (strcasecmp(name, "Sec-WebSocket-Protocol") == 0) {
		offered = without_keys(value);
		if (!offered)
			return true;
		value = offered;
	}
	if (!is_hop || (building->is_upgrade && strcasecmp(name, "Upgrade") == 0))
		strings_take(building->ret, mem_printf("%s: %s", name, value));
	return true;
}

void inbound_headers(struct request *request, uint16_t port, bool is_upgrade, struct strings *ret)
{
	struct building building = {is_upgrade, ret};

	strings_take(ret, mem_printf("Host: localhost:%u", port));
	if (is_upgrade)
		strings_add(ret, "Connection: Upgrade");
	request_each_header(request, on_header, &building);
}

static char *on_answer_header(const char *name, const char *value, void *ctx)
{
	return inbound_may_return(name) ? mem_strdup(value) : NULL;
}

static void on_over(const struct relay_sum *sum, void *ctx)
{
}

void inbound_serve(struct upstreams *upstreams, struct request *request, int fd, uint16_t port,
                   const char *target)
{
	static const struct relay_ops ops = {.header = on_answer_header, .over = on_over};
	auto_free char *url = mem_printf("http://127.0.0.1:%u%s", port, target);
	struct strings headers = {0};
	struct upstream_call call = {.url = url,
	                             .headers = &headers,
	                             .fd = fd,
	                             .timeout_ms = CALL_MS,
	                             .is_anywhere = true};

	if (request_is_local(request)) /* all others have it already */
		request_add_header(request, "X-Content-Type-Options", "nosniff");
	if (request_header(request, "Upgrade")) {
		tunnel_serve(request, fd, port, target);
		return;
	}
	inbound_headers(request, port, false, &headers);
	relay_go(relay_new(request, &ops, NULL), upstreams, &call, NULL, UINT64_MAX / 2);
	strings_done(&headers);
}

/* A port inside a sandbox, as a part of the API: everything below it goes inside. */
#include "api/ports.h"

#include <string.h>

#include "api/agent_server.h"
#include "api/call.h"
#include "base/mem.h"
#include "base/str.h"
#include "http/request.h"

/* What follows the first `count` segments of the target, as it was sent; always begins with '/'. */
static char *tail_of(const char *target, size_t count)
{
	for (size_t i = 0; i < count && *target; i++)
		target += 1 + strcspn(target + 1, "/?");
	return mem_printf("%s%s", *target == '/' ? "" : "/", target);
}

char *port_target(const struct call *call)
{
	/* "/api/v1/sandboxes/ID/ports/PORT" are six. */
	return tail_of(request_target(call->request), 6);
}

void handle_port(struct call *call)
{
	auto_(sandbox_freep) struct sandbox *sandbox = NULL;
	struct engine *engine = call->api->engine;
	auto_free char *target = NULL;
	struct err err = {0};
	uint64_t port;

	if (str_to_u64(call->params[1], &port) < 0 || port < 1 || port > UINT16_MAX) {
		err_set(&err, ERR_INVALID, "a port is a number of 1 to 65535");
		call_fail(call, &err);
		return;
	}
	if (call_sandbox(call, &sandbox) < 0)
		return;
	target = port_target(call);
	if (port == AGENT_SERVER_PORT && agent_server_take(call, sandbox->id.text, target))
		return;
	engine->ops->serve_port(engine, sandbox->id.text, (uint16_t)port, call->request, target);
	call_done(call);
}

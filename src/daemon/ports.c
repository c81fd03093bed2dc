#include "daemon/ports.h"

#include <sys/socket.h>

#include "api/api.h"
#include "base/mem.h"
#include "daemon/fleet.h"
#include "daemon/services.h"
#include "gateway/inbound.h"
#include "gateway/proxy.h"
#include "http/request.h"

enum { OPEN_MS = 10 * 1000 };

/* A request that waits for its connection. */
struct waiting {
	struct fleet *fleet;
	struct request *request;
	uint16_t port;
	char *target;
};

static void waiting_free(struct waiting *waiting)
{
	request_unref(waiting->request);
	mem_freep(&waiting->target);
	mem_freep(&waiting);
}

/* What came from inside is what we asked for, and nothing else. */
static bool is_stream(int fd)
{
	int type = 0, domain = 0;
	socklen_t len = sizeof(type);

	return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0 && type == SOCK_STREAM &&
	       getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) == 0 &&
	       (domain == AF_INET || domain == AF_INET6);
}

static void on_port(struct wire_msg *msg, const struct err *err, void *ctx)
{
	struct waiting *waiting = ctx;
	auto_close int fd = msg ? wire_take_fd(msg, 0) : -1;

	if (!msg)
		api_on_refuse(waiting->request, err->code, err->msg, NULL);
	else if (fd < 0 || !is_stream(fd))
		api_on_refuse(waiting->request, ERR_PROTOCOL, "the sandbox gave no connection",
		              NULL);
	else if (!request_is_gone(waiting->request) && waiting->fleet->services->proxy)
		inbound_serve(proxy_upstreams(waiting->fleet->services->proxy), waiting->request,
		              take_fd(&fd), waiting->port, waiting->target);
	waiting_free(waiting);
}

void ports_serve(struct fleet *fleet, const char *sandbox, uint16_t port, struct request *request,
                 const char *target)
{
	struct member *member = fleet_find(fleet, sandbox);
	auto_wire_out struct wire_out out = {0};
	struct waiting *waiting;
	uint64_t number;

	if (!member || !member->peer || member->row->state != SANDBOX_RUNNING) {
		api_on_refuse(request, ERR_CONFLICT, "the sandbox does not run", NULL);
		return;
	}
	waiting = mem_new(struct waiting);
	*waiting = (struct waiting){fleet, request_ref(request), port, mem_strdup(target)};
	number = peer_begin(member->peer, &out, WIRE_K_PORT);
	wire_put_u64(&out, FIELD_PORT, port);
	peer_call(member->peer, number, &out, OPEN_MS, on_port, waiting);
}

#include "daemon/inner.h"

#include "base/io.h"
#include "base/log.h"
#include "base/str.h"
#include "daemon/fleet.h"
#include "http/request.h"
#include "http/server.h"
#include "model/sandbox.h"
#include "model/service.h"

enum { CONNECTIONS = 1024, OF_SANDBOX = 64 };

static void on_request(struct request *request, void *ctx)
{
	struct inner *inner = ctx;
	const char *host = request_header(request, "Host");
	char name[SERVICE_LABEL];

	if (inner->on_service && host && service_of_host(host, name))
		inner->on_service(request, name, inner->ctx);
	else
		inner->on_api(request, inner->ctx);
}

static void on_refuse(struct request *request, enum err_code code, const char *detail, void *ctx)
{
	struct inner *inner = ctx;

	inner->on_refuse(request, code, detail, inner->ctx);
}

static void on_guest(const struct sandbox *sandbox, int fd, void *ctx)
{
	struct inner *inner = ctx;
	struct err err = {0};

	if (!inner->server)
		fd_closep(&fd); /* the daemon ends */
	else if (server_adopt(inner->server, fd, sandbox->id.text, OF_SANDBOX, &err) < 0)
		log_debug("a connection from inside is refused", LOG_ERR(&err));
}

int inner_serve(struct inner *inner, struct fleet *fleet, const struct server_config *base,
                struct err *err)
{
	struct server_config config = *base;

	config.listen_fd = -1;
	config.max_connections = CONNECTIONS;
	config.on_request = on_request;
	config.ctx = inner;
	config.on_refuse = on_refuse;
	if (server_new(fleet->loop, &config, &inner->server, err) < 0)
		return -1;
	fleet->on_guest = on_guest;
	fleet->guest_ctx = inner;
	return 0;
}

void inner_stop(struct inner *inner)
{
	server_free(inner->server);
	inner->server = NULL;
}

#include "keeper/port.h"

#include <stdlib.h>

#include "base/mem.h"
#include "keeper/state.h"

/* Tells these requests to init from others. */
#define PORT_BIT (UINT64_C(1) << 61)

enum { ASKS = 64, PORT_MOST = 65535 };

struct port_ask {
	struct port_ask *next;
	uint64_t number;
	struct conn *conn;
	uint64_t request;
};

int port_open(struct keeper *keeper, struct conn *conn, const struct wire_msg *msg, struct err *err)
{
	uint64_t port = wire_u64(msg, FIELD_PORT, 0);
	size_t count = 0;
	for (const struct port_ask *ask = keeper->port_asks; ask; ask = ask->next)
		count++;
	if (port == 0 || port > PORT_MOST)
		return err_set(err, ERR_INVALID, "a port is a number of 1 to %d", PORT_MOST);
	if (count >= ASKS)
		return err_set(err, ERR_LIMITED, "too many connections are being made");
	if (keeper->launch.control[0] < 0)
		return err_set(err, ERR_CONFLICT, "the sandbox is ending");
	auto_wire_out struct wire_out out;
	uint64_t number = PORT_BIT | ++keeper->last_port_ask;
	wire_begin(&out, WIRE_I_PORT, number);
	wire_put_u64(&out, FIELD_PORT, port);
	int r = wire_send(keeper->launch.control[0], &out);
	if (r < 0)
		return err_sys(err, -r, "ask init");
	struct port_ask *ask = mem_new(struct port_ask);
	*ask = (struct port_ask){keeper->port_asks, number, conn, msg->request};
	keeper->port_asks = ask;
	return 0;
}

static void answer(struct keeper *keeper, const struct port_ask *ask, struct wire_msg *msg)
{
	struct err err = {0};
	auto_close int fd = -1;
	if (wire_get_err(msg, &err) == 0) {
		fd = wire_take_fd(msg, 0);
		if (fd < 0)
			err_set(&err, ERR_PROTOCOL, "init made no connection");
	}
	if (fd >= 0) {
		auto_wire_out struct wire_out out;
		wire_begin(&out, WIRE_OK, ask->request);
		wire_put_fd(&out, fd);
		if (serve_give(ask->conn, &out) >= 0)
			return;
		err_set(&err, ERR_UNAVAILABLE, "the daemon takes no descriptor now");
	}
	serve_error(keeper, ask->conn, ask->request, &err);
}

bool port_init_said(struct keeper *keeper, struct wire_msg *msg)
{
	if (msg->request >> 61 != PORT_BIT >> 61)
		return false;
	for (struct port_ask **at = &keeper->port_asks; *at; at = &(*at)->next) {
		struct port_ask *ask = *at;
		if (ask->number != msg->request)
			continue;
		*at = ask->next;
		answer(keeper, ask, msg);
		free(ask);
		break;
	}
	return true;
}

/* conn NULL: all of them. */
static void forget(struct keeper *keeper, const struct conn *conn)
{
	for (struct port_ask **at = &keeper->port_asks; *at;) {
		struct port_ask *ask = *at;
		if (conn && ask->conn != conn) {
			at = &ask->next;
			continue;
		}
		*at = ask->next;
		free(ask);
	}
}

void port_conn_gone(struct keeper *keeper, const struct conn *conn)
{
	forget(keeper, conn);
}

void port_done(struct keeper *keeper)
{
	forget(keeper, NULL);
}

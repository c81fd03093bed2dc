/*
 * An upgraded connection (WebSocket) between a caller of the API and a port inside: the request is
 * written out, the answer's head read, and from the 101 on bytes go both ways unread.
 */
#pragma once

#include "base/base.h"

struct request;

/* Takes fd. */
void tunnel_serve(struct request *request, int fd, uint16_t port, const char *target);

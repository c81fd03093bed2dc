/*
 * The agent server of a session, for clients that drive one from outside: /health, /events and
 * /command of port 8080 of the sandbox where its agent works.
 *
 * It is the daemon that answers there, as long as the session is under way, and no process inside:
 * whoever listens on that port inside sees neither token nor message, and can give no answer in the
 * session's name. All other paths of the port lead inside as ever.
 */
#pragma once

#include "base/base.h"

struct api;
struct call;
struct task;

enum { AGENT_SERVER_PORT = 8080 };

/* The session that is under way in a sandbox; the caller frees it. */
bool agent_server_session(struct api *api, const char *sandbox, struct task **ret) NODISCARD;
/* target: path and query on that port. true: the call is its own now, and ended. */
bool agent_server_take(struct call *call, const char *sandbox, const char *target) NODISCARD;
/* A call with a token of connect.h, which opens this one door and no other. Ends it. */
void agent_server_enter(struct call *call);

/* A port inside a sandbox, as a part of the API. */
#pragma once

struct call;

/* Path and query behind the port, as they were sent; begins with '/'. The caller frees it. */
char *port_target(const struct call *call);

/* Namespaces for tests of what needs rights, also for an ordinary user. */
#pragma once

#include <stdbool.h>

/* Unshares these namespaces, as root of a new user namespace where needed. False: not allowed. */
bool own_ns(int flags);

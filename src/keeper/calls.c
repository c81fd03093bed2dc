#include "keeper/calls.h"

#include <stdio.h>
#include <sys/socket.h>
#include <sys/syscall.h>

enum { SOCK_TYPE = 15, SOCK_PACKED = 10 };

enum kind { KIND_FAMILY, KIND_NETLINK, KIND_PROTOCOL, KIND_OPTION };

/* level: of options alone, else 0. */
static const struct name {
	enum kind kind;
	uint32_t level, number;
	const char *text;
} names[] = {
#define FAMILY(number, text)        {KIND_FAMILY, 0, number, text},
#define NETLINK(number, text)       {KIND_NETLINK, 0, number, text},
#define PROTOCOL(number, text)      {KIND_PROTOCOL, 0, number, text},
#define OPTION(level, number, text) {KIND_OPTION, level, number, text},
#include "keeper/calls.def"
#undef FAMILY
#undef NETLINK
#undef PROTOCOL
#undef OPTION
};

/* The kernel takes 32 bits of each of these, and so did the filter. Numbers without a name are one
 * kind: there are many, and a program that tries them all has one thing in mind. */
static const char *find(enum kind kind, uint64_t level, uint64_t number)
{
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		const struct name *name = &names[i];
		if (name->kind == kind && name->level == (uint32_t)level &&
		    name->number == (uint32_t)number)
			return name->text;
	}
	return "no name is known";
}

static void describe_socket(const uint64_t *args, char *out, size_t size)
{
	uint32_t family = (uint32_t)args[0], type = (uint32_t)args[1] & SOCK_TYPE;
	if (family == AF_NETLINK)
		(void)snprintf(out, size, "netlink sockets but for routes (%s)",
		               find(KIND_NETLINK, 0, args[2]));
	else if (family != AF_INET && family != AF_INET6)
		(void)snprintf(out, size, "sockets of this family (%s)",
		               find(KIND_FAMILY, 0, family));
	else if (type == SOCK_RAW || type == SOCK_PACKED)
		(void)snprintf(out, size, "raw sockets");
	else
		(void)snprintf(out, size, "IP sockets but for TCP and UDP (%s)",
		               find(KIND_PROTOCOL, 0, args[2]));
}

void calls_describe(uint64_t call, const uint64_t args[CALLS_ARGS], struct judgement *ret)
{
	char what[64] = "such call";
	const char *remedy = "use TCP, UDP or local sockets";
	if (call == SYS_socket || call == SYS_socketpair)
		describe_socket(args, what, sizeof(what));
	else if (call == SYS_setsockopt) {
		(void)snprintf(what, sizeof(what), "socket options of this kind (%s)",
		               find(KIND_OPTION, args[1], args[2]));
		remedy = "leave the option out";
	} else if (call == SYS_io_uring_setup) {
		(void)snprintf(what, sizeof(what), "io_uring");
		remedy = "use the calls it stands for";
	}
	*ret = (struct judgement){.answer = POLICY_DENY};
	(void)snprintf(ret->rule, sizeof(ret->rule), "a sandbox has no %s", what);
	(void)snprintf(ret->remedy, sizeof(ret->remedy), "%s", remedy);
}

bool calls_is_common(uint64_t call)
{
	return call == SYS_io_uring_setup;
}

/*
 * The keeper: one process per sandbox, forked by the launch zygote. It builds the sandbox, drops
 * every privilege, and from then on stands between the daemon and what runs inside: execs,
 * terminals, output, meters, deadlines. It outlives daemon and broker.
 */
#pragma once

#include "base/base.h"
#include "wire/wire.h"

/* The fds of a SLOT message, in this order; layers and then mounts follow. */
enum keeper_fd {
	KEEPER_FD_RESULT,    /* SLOT_READY or ERROR is answered here, once */
	KEEPER_FD_SANDBOX,   /* sandboxes/<id> */
	KEEPER_FD_RUN,       /* run/, where <id>.sock is made */
	KEEPER_FD_PROGRAM,   /* the sealed copy of this program that goes inside */
	KEEPER_FD_TEMPLATES, /* templates/, where empty loop images are kept */
	KEEPER_FD_DIALER,    /* on which connections are asked for */
	KEEPER_FD_LAYERS,    /* first layer, lowest first */
	/* Of a BIND message, after RUN: the first mount. */
	KEEPER_FD_BIND_MOUNTS = KEEPER_FD_PROGRAM,
};

/* Looks at the machine once, in the zygote, so that every keeper forked later knows it already. */
void keeper_warm(void);
/* The whole life of a keeper; returns its exit status. Takes the fds of the message. Privileged
 * on entry, unprivileged before it looks at the first byte from inside. */
int keeper_run(struct wire_msg *msg);
/* Changes a parked sandbox (BIND) and answers: a process of its own, privileged to its end. Returns
 * its exit status. Takes the fds of the message. */
int keeper_bind(struct wire_msg *msg);

/*
 * How init becomes what its keeper wants it to be: the part of a launch that happens in init
 * itself, after it was executed and before it serves. Runs as pid 1 of the new namespaces, root of
 * the user namespace cloche serves in; main.c gives these to init, which knows nothing of images.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"
#include "wire/wire.h"

struct slot;

/* From I_SLOT: builds the root and enters it. The slot is what isolate_init needs, in this process
 * and in a child that was forked before; slot_done is to be called, after a failure too. */
int birth_build(struct wire_msg *msg, struct slot *ret, struct err *err) NODISCARD;

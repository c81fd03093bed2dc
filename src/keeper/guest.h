/*
 * Streams that begin inside and end in the daemon: connections to /run/cloche/api.sock, and to port
 * 80 of the gateway's own address (*.cloche.internal). The keeper hands the socket on without
 * reading a byte of it; who is asked, and for what, is the daemon's to find out. While no daemon
 * listens it answers 503 itself.
 */
#pragma once

#include "base/base.h"

struct guests;
struct keeper;

/* Part of the launch: the socket `api` in the file system fs; ret_listener is to accept from. */
int guest_make(int fs, int *ret_listener) NODISCARD;
int guest_start(struct keeper *keeper) NODISCARD;
void guest_done(struct keeper *keeper);
/* Takes fd. */
void guest_take(struct keeper *keeper, int fd);

/*
 * Messages between our own processes, over SOCK_SEQPACKET: one message is one packet, so there
 * is nothing to reassemble. A message is a header {version, type, request} and tagged fields;
 * tags are append-only (fields.def), a reader ignores tags it does not know, a repeated tag is a
 * list. All numbers little-endian. Lengths are checked once, in wire_parse; the getters can then
 * not fail. Used by every role, so: no allocation while parsing, libc only.
 */
#pragma once

#include <sys/types.h>

#include "base/base.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/limits.h"

enum { WIRE_VERSION = 1 };

enum wire_type {
#define MESSAGE(name, number, about) WIRE_##name = (number),
#include "wire/messages.def"
#undef MESSAGE
};

enum wire_field {
#define FIELD(name, number, about) FIELD_##name = (number),
#include "wire/fields.def"
#undef FIELD
};

/* A parsed view into bytes the caller keeps. */
struct wire_msg {
	enum wire_type type;
	uint64_t request; /* echoed in the answer; 0 for notifications */
	const uint8_t *fields;
	size_t fields_len;
	int fds[LIMIT_WIRE_FDS]; /* received; owned by the message until taken (set to -1) */
	size_t fd_count;
	pid_t sender; /* as we see it; 0 unless wire_know_sender was asked for on this socket */
};

/* --- writing: wire_begin, any number of wire_put_*, then wire_send --- */
struct wire_out {
	struct buf buf;
	int fds[LIMIT_WIRE_FDS]; /* not owned */
	size_t fd_count;
	bool overflow; /* a put did not fit; wire_send then fails with -EMSGSIZE */
};

void wire_begin(struct wire_out *out, enum wire_type type, uint64_t request);
void wire_done(struct wire_out *out);
#define auto_wire_out auto_(wire_done)
void wire_put_u64(struct wire_out *out, enum wire_field field, uint64_t value);
void wire_put_str(struct wire_out *out, enum wire_field field, const char *value);
void wire_put_bytes(struct wire_out *out, enum wire_field field, const void *bytes, size_t len);
/* Attaches an fd; the receiver finds it at the same index. */
void wire_put_fd(struct wire_out *out, int fd);
/* The fields of an err. */
void wire_put_err(struct wire_out *out, const struct err *err);
/* One sendmsg with MSG_NOSIGNAL. 0 or -errno (-EAGAIN on a full non-blocking socket). */
int wire_send(int sock, const struct wire_out *out) NODISCARD;
/* The message as bytes, for queues: owned by out. */
const uint8_t *wire_bytes(const struct wire_out *out, size_t *ret_len);

/* --- reading --- */
/* One recvmsg into `bytes` (LIMIT_WIRE_BYTES large), then wire_parse. 1: a message; 0: the peer
 * is gone; -EAGAIN; -EPROTO: malformed. Received fds are close-on-exec. */
int wire_recv(int sock, uint8_t *bytes, size_t size, struct wire_msg *ret) NODISCARD;
int wire_parse(const uint8_t *bytes, size_t len, struct wire_msg *ret) NODISCARD;
/* Closes the fds that nobody took. */
void wire_msg_done(struct wire_msg *msg);
int wire_take_fd(struct wire_msg *msg, size_t index); /* -1 when there is none */

bool wire_has(const struct wire_msg *msg, enum wire_field field);
uint64_t wire_u64(const struct wire_msg *msg, enum wire_field field, uint64_t otherwise);
/* NUL-terminated inside the message; `otherwise` when absent. Strings with a NUL in the middle
 * were refused by wire_parse only if asked for as strings: wire_str returns `otherwise`. */
const char *wire_str(const struct wire_msg *msg, enum wire_field field, const char *otherwise);
const uint8_t *wire_blob(const struct wire_msg *msg, enum wire_field field, size_t *ret_len);
/* Iterates a repeated string field: start with *at = 0; NULL at the end. */
const char *wire_next_str(const struct wire_msg *msg, enum wire_field field, size_t *at);
size_t wire_count(const struct wire_msg *msg, enum wire_field field);
/* Fills *err from the fields; returns -1 if the message carries an error, else 0. */
int wire_get_err(const struct wire_msg *msg, struct err *err);

/* --- sockets --- */
/* A SEQPACKET listener at dir_fd/name (name only, short); mode is applied before it listens. */
int wire_listen(int dir_fd, const char *name, mode_t mode) NODISCARD;
int wire_connect(int dir_fd, const char *name) NODISCARD;
int wire_pair(int ret_fds[2]) NODISCARD;
/* From now on each received message says which process sent it. */
int wire_know_sender(int sock) NODISCARD;
/* Peer's uid and pid by SO_PEERCRED. */
int wire_peer(int sock, uid_t *ret_uid, pid_t *ret_pid) NODISCARD;
/* Blocking call on a blocking socket: send, wait at most timeout_ms for the answer with the same
 * request number. bytes holds LIMIT_WIRE_BYTES. For short-lived clients and tests, not for loops.
 */
int wire_call(int sock, const struct wire_out *out, uint8_t *bytes, int timeout_ms,
              struct wire_msg *ret, struct err *err) NODISCARD;

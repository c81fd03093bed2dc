/*
 * One HTTP request and its answer, as handlers see it. Lives in the daemon, on the loop's thread;
 * knows nothing of what is served.
 *
 * A handler is called when the headers are there. It then either answers, or asks for the body
 * (whole or as a stream), or keeps a reference and does one of these later: until then the
 * connection is suspended and costs nothing. Whoever keeps a request across callbacks holds a
 * reference; every call on a request whose client has gone is harmless and does nothing.
 */
#pragma once

#include <sys/types.h>

#include "base/base.h"
#include "base/err.h"

struct loop;
struct request;

struct request *request_ref(struct request *request);
void request_unref(struct request *request);
void request_unrefp(struct request **request);

const char *request_method(const struct request *request);
/* Path and query as they were sent. */
const char *request_target(const struct request *request);
/* Decoded, without the query. */
const char *request_path(const struct request *request);
/* NULL when absent or when the client has gone; copy what must outlive the callback. */
const char *request_header(const struct request *request, const char *name);
const char *request_query(const struct request *request, const char *name);
/* Calls each query parameter; stops when `each` returns false. */
typedef bool (*request_on_query)(const char *name, const char *value, void *ctx);
void request_each_query(const struct request *request, request_on_query each, void *ctx);
/* The same for headers, as they were sent. */
void request_each_header(const struct request *request, request_on_query each, void *ctx);
/* How many headers of that name there are: two that say different things are an attempt. */
size_t request_count_header(const struct request *request, const char *name);
bool request_is_gone(const struct request *request);
struct loop *request_loop(const struct request *request);

/* --- who asks --- */
/* On a Unix socket; then uid and pid are the peer's. Both are false and -1 when it has gone. */
bool request_is_local(const struct request *request);
uid_t request_uid(const struct request *request);
pid_t request_pid(const struct request *request);
/* Whom server_adopt named; "" for whoever came in by the door, and when it has gone. */
const char *request_guest(const struct request *request);
/* "uid 1000" or "192.0.2.7", for people; "" when it has gone. */
const char *request_source(const struct request *request);
/* A number the application keeps with the connection, 0 until it is set: what it found out about
 * the peer need not be found out again for the next request. */
int request_memo(const struct request *request);
void request_set_memo(struct request *request, int memo);
/* A text the application keeps with the request, for server_each_request. "" until it is set. */
enum { REQUEST_TAG = 72 };
void request_set_tag(struct request *request, const char *tag);
const char *request_tag(const struct request *request);
/* Ends the connection, whatever flows on it: as if the client had gone. At once, or (once a
 * request) at a time of the boot clock. */
void request_disconnect(struct request *request);
void request_disconnect_at(struct request *request, uint64_t boot_ms);

/* --- body --- */
/* The whole body, at most max bytes (a larger one is refused with 413 and on_body never called).
 * bytes is valid during the call and has a NUL behind it. */
typedef void (*request_on_body)(struct request *request, const char *bytes, size_t len, void *ctx);
void request_read_body(struct request *request, size_t max, request_on_body on_body, void *ctx);
/* Within on_body: its bytes become the caller's, with a NUL behind them. */
char *request_take_body(struct request *request) NODISCARD;
/* The body as it comes. Returns how many bytes were taken; fewer than len stops the client until
 * request_body_more. The end is one call with len 0. */
typedef size_t (*request_on_chunk)(struct request *request, const uint8_t *bytes, size_t len,
                                   void *ctx);
void request_stream_body(struct request *request, request_on_chunk on_chunk, void *ctx);
void request_body_more(struct request *request);
/* The announced length, or UINT64_MAX when unknown (chunked). */
uint64_t request_body_length(const struct request *request);

/* --- answer: exactly one of these, later ones are ignored --- */
/* Before the answer; both strings are copied. */
void request_add_header(struct request *request, const char *name, const char *value);
/* bytes are copied; type may be NULL when there is no body. An answer given while a body still
 * arrives is sent after the rest of it was read and dropped; an error is sent earlier when the rest
 * is long, and the connection closed. */
void request_answer(struct request *request, int status, const char *type, const void *bytes,
                    size_t len);
/* After an answer: it is sent before this returns, not in the next round of the loop, for who goes
 * on with work that the client need not wait for. Whatever the end of a request brings about
 * happens meanwhile. */
void request_flush(struct request *request);

enum { REQUEST_STREAM_END = -1, REQUEST_STREAM_ABORT = -2 };
/* Fills at most max bytes; 0: nothing yet (call request_more when there is), or one of the above.
 * ABORT cuts the connection, so that the client cannot take the part for the whole. */
typedef ssize_t (*request_on_pull)(struct request *request, uint8_t *to, size_t max, void *ctx);
/* length UINT64_MAX: unknown, sent in chunks. */
void request_answer_stream(struct request *request, int status, const char *type, uint64_t length,
                           request_on_pull on_pull, void *ctx);
void request_more(struct request *request);

/* 101; the socket (non-blocking) and what the client already sent on it come to on_open, and stay
 * valid until request_upgraded_close, which must be called exactly once. */
typedef void (*request_on_open)(struct request *request, int fd, const void *early,
                                size_t early_len, void *ctx);
void request_upgrade(struct request *request, const char *protocol, request_on_open on_open,
                     void *ctx);
void request_upgraded_close(struct request *request);

/* Called exactly once when the request is over: answered in full (gone false), or its client went
 * away (gone true). May be set once, any time before that. */
typedef void (*request_on_end)(struct request *request, bool gone, void *ctx);
void request_set_on_end(struct request *request, request_on_end on_end, void *ctx);

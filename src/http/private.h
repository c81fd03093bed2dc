/*
 * What server.c and request.c share: the request's inside. Not for other folders.
 */
#pragma once

#include <microhttpd.h>

#include "base/base.h"
#include "base/buf.h"
#include "base/loop.h"
#include "http/request.h"
#include "http/server.h"

enum request_phase {
	REQUEST_HEADERS, /* handler was called, body not begun */
	REQUEST_BODY,    /* body arrives */
	REQUEST_READ,    /* everything read, answer may be queued */
	REQUEST_QUEUED,  /* answer is with the library */
};

enum request_body_mode { REQUEST_UNDECIDED, REQUEST_WHOLE, REQUEST_CHUNKS };

struct request_pair {
	char *name;
	char *value;
};

/* One socket, with what is known about who is at its other end. */
struct connection {
	struct server *server;
	uint64_t due_ms;  /* until its headers, or a body, must be here */
	uint64_t look_ms; /* until it is looked whether anybody is there */
	struct connection *next, *prev;
	struct loop_timer timer; /* for the headers, or for a whole body */
	int fd;
	bool is_awaited; /* headers or a body: the timer runs */
	bool is_cut;     /* its end is on the way to the library */
	bool is_local;   /* a Unix socket: uid and pid are the peer's */
	uid_t uid;
	pid_t pid;
	char source[64];          /* "uid 0", "192.0.2.7" */
	char guest[SERVER_GUEST]; /* whom server_adopt named; "" for everybody else */
	char *target;             /* as it was sent, of the request that begins */
	int memo;                 /* the application's; see request_memo */
};

struct request {
	uint32_t magic;
	unsigned refs;
	struct server *server;
	struct MHD_Connection *connection; /* NULL when it is over, and of a virtual one */
	struct virtual *virtual;           /* of one that no client sent; NULL: of others */
	bool is_over;
	struct connection *conn;     /* valid until it is over */
	struct request *next, *prev; /* the server's live requests */
	int fd;
	char tag[REQUEST_TAG];
	struct loop_timer until; /* cut off then */
	char *method;
	char *path;
	char *target;

	enum request_phase phase;
	enum request_body_mode mode;
	bool suspended;
	bool cut;                 /* to be closed without an answer at the next call */
	bool ended;               /* on_end was called */
	struct loop_source watch; /* hang-up of a suspended connection */

	struct buf body;
	size_t dropped;             /* bytes of it that nobody wants any more */
	bool is_early;              /* the answer came before the end of the body: early.h */
	bool is_told;               /* and was sent without the library */
	struct buf early;           /* its document */
	struct loop_timer patience; /* with the rest of the body */
	request_on_body on_body;
	request_on_chunk on_chunk;
	void *body_ctx;

	struct request_pair *headers;
	size_t header_count;
	struct MHD_Response *response; /* made, not yet queued */
	int status;
	request_on_pull on_pull;
	void *pull_ctx;
	request_on_open on_open;
	void *open_ctx;
	struct MHD_UpgradeResponseHandle *upgraded;

	request_on_end on_end;
	void *end_ctx;
};

struct server {
	struct loop *loop;
	struct server_config config;
	struct MHD_Daemon *daemon;
	struct loop_source source;
	struct loop_timer timer;
	bool is_driving; /* the library is at work */
	bool is_woken;   /* there is something to run for, whatever the library says */
	struct request *requests;
	struct connection *connections;
	struct adopted *adopted; /* with the library, which has not said so yet */
	size_t connection_count;
	uint64_t looked_ms;       /* when it was last looked for those who have left */
	struct loop_source queue; /* the listening socket; paused while nobody can be taken */
	struct loop_timer again;
};

/* The whole body must come within the time of the headers; and it has. */
void server_await_body(struct request *request);
void server_body_came(struct request *request);
/* An answer with this status was sent. */
void server_count_answer(struct server *server, int status);
/* A resumed connection waits for the next MHD_run, and the library has no way to ask for it. */
void server_wake(struct server *server);
/* Does now what it was woken for. */
void server_flush(struct server *server);

struct request *request_begin(struct server *server, struct MHD_Connection *connection,
                              const char *method, const char *path);
/* One call of the library's access handler after the first. */
enum MHD_Result request_step(struct request *request, const char *bytes, size_t *len);
/* Suspends or queues, whichever the state asks for. */
enum MHD_Result request_settle(struct request *request);
/* The client is gone or served: on_end once, then the connection is forgotten. */
void request_over(struct request *request, bool gone);
/* Ends it as gone and makes the library close the connection. */
void request_cut(struct request *request);

/* --- virtual.c: what a request without a connection does instead --- */
const char *virtual_lookup(const struct request *request, bool is_header, const char *name);
void virtual_each(const struct request *request, bool is_header, request_on_query each, void *ctx);
uint64_t virtual_body_length(const struct request *request);
char *virtual_take_body(struct request *request) NODISCARD;
/* Something can go on: body, answer or stream. */
void virtual_wake(struct request *request);
/* It is answered; by the bytes taken before, or by what on_pull gives. */
void virtual_take_answer(struct request *request, int status, const char *type);
void virtual_take_bytes(struct request *request, const void *bytes, size_t len);
void virtual_done(struct request *request);

/*
 * A service: a name inside (http://NAME.cloche.internal) for a place outside, with credentials that
 * are added on the way and never go inside. What may be asked of it (methods, paths, sizes) and by
 * whose sandboxes is part of it. Pure.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"
#include "base/id.h"
#include "model/access.h"
#include "model/strings.h"

enum {
	SERVICE_NAME = 63,
	SERVICE_URL = 1024,
	SERVICE_LIST = 32, /* headers, methods, paths */
	SERVICE_VALUE = 1024,
	SERVICE_SECRET = 4096, /* the longest */
	SERVICE_LABEL = 80,    /* room for what stands before SERVICE_DOMAIN */
};
#define SERVICE_RESPONSE_BYTES (UINT64_C(256) * 1024 * 1024)
#define SERVICE_TIMEOUT_MS     (UINT64_C(15) * 60 * 1000)
#define SERVICE_DOMAIN         ".cloche.internal"
#define SERVICE_API            "api" /* the API itself is there */
#define SERVICE_SLOT           "{secret}"
#define SERVICE_SEALED         "sealed"
#define SERVICE_VARIABLE       "CLOCHE_" /* others do not reach cloched */
/* What a sandbox holds in the place of a secret: this and the name of the service. */
#define SERVICE_PLACEHOLDER "cloche_placeholder_"

struct service {
	struct id id; /* sv_…; "" for those of config.toml */
	char *name;
	char *origin;           /* "config" (read-only) or "api" */
	char *upstream;         /* "https://host[:port][/path]", no slash at the end */
	struct strings headers; /* "Name: value", where {secret} stands for the secret */
	char *secret;           /* "env:NAME", "file:PATH", "sealed"; NULL: it has none */
	struct strings methods; /* empty: every one */
	struct strings paths;   /* patterns; empty: every path */
	uint64_t response_bytes;
	uint64_t timeout_ms; /* of one call, all in all */
	enum visibility visibility;
	char *owner, *team; /* ids; NULL: the machine's own */
	uint64_t created_ms, updated_ms;
};

/* How much of it was used. */
struct service_use {
	uint64_t calls;          /* denied ones, too */
	uint64_t denied;         /* by its own rules */
	uint64_t sent, received; /* bytes */
	uint64_t last_ms;        /* 0: never */
};

struct service *service_new(const char *name);
struct service *service_copy(const struct service *service);
/* Accepts NULL and half-built. */
void service_free(struct service *service);
void service_freep(struct service **service);

/* One label of letters, digits and "-"; "api" is taken. */
int service_check_name(const char *name, struct err *err) NODISCARD;
/* What a Host header names before SERVICE_DOMAIN, in lower case; a port and a last dot do not
 * count. It need not be the name of a service. False: another domain, or the API. */
bool service_of_host(const char *host, char ret[SERVICE_LABEL]);
/* Brings it to its normal form, or says what is wrong with it: ERR_INVALID. */
int service_normalise(struct service *service, struct err *err) NODISCARD;

/* Parts of that: a URL to its normal form, and a reference to a secret. `what` begins the message.
 */
int service_check_url(const char *what, char **url, struct err *err) NODISCARD;
int service_check_secret(const char *secret, struct err *err) NODISCARD;

struct ownership service_ownership(const struct service *service);
/* Whether a sandbox of this owner and team (NULL: the operator's, the default one) may use it. */
bool service_serves(const struct service *service, const char *owner, const char *team);

/* Whether this may be asked of it. target is path and query as they were sent: what could mean
 * another path to somebody else (dot segments, encoded slashes) is refused. ERR_FORBIDDEN,
 * ERR_INVALID. */
int service_allows(const struct service *service, const char *method, const char *target,
                   struct err *err) NODISCARD;
/* The path of a target alone, as it was sent. The caller frees. */
char *service_path(const char *target);
/* The value with the secret in the place of what stands for it. The caller wipes and frees. */
char *service_fill(const char *value, const char *slot, const char *secret);
/* A text that can be a header's value and ends no line. */
bool service_is_value(const char *text);
/* The placeholder in a text that belongs to another service than `name`; NULL: there is none.
 * name NULL: any. */
const char *service_foreign_placeholder(const char *text, const char *name);

/*
 * What a sandbox is made from: a profile's values, then the request's on top. The same struct is
 * the template in a profile and the part of a sandbox that never changes by itself.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"
#include "model/access.h"
#include "model/limits.h"
#include "model/strings.h"

struct mount {
	char *source; /* host path as its owner wrote it: for people, never opened by the daemon */
	char *grant;  /* id gr_… the broker gave for it */
	char *target; /* absolute, inside */
	bool read_only;
};

/* Strings are owned; NULL or "" means "not given". */
struct spec {
	char *name; /* unique among the team's sandboxes; NULL: known by id only */
	char *profile;
	char *runtime;        /* "native" */
	char *image;          /* "host" or the name of an imported one */
	char *user;           /* see model/user.h */
	char *cwd;            /* absolute */
	char *hostname;       /* NULL: derived from name or id by whoever launches */
	char *disk_backend;   /* "auto", "quota", "loop", "tmpfs", "sampled" */
	char *network;        /* name of an environment; "none" */
	char *network_mode;   /* "enforce", "record", "ask"; NULL: the environment's */
	struct strings allow; /* domains on top of the environment's */
	struct strings allow_cidrs;
	struct strings labels; /* key=value */
	struct strings env;    /* NAME=value */
	struct limits limits;
	uint64_t ttl_ms;   /* 0: none */
	bool is_ephemeral; /* its maker stays and removes it; answers need not wait for the disk.
	                      Not stored */
	bool is_single;    /* its maker starts one command in it and keeps what that says itself:
	                      nothing is made ready for another. Not stored */
	bool degraded;     /* a missing mechanism is shown instead of refused */
	struct mount *mounts;
	size_t mount_count;
	char *owner, *team; /* ids of principal and team; NULL: those of model/access.h */
	char *made_by;      /* credentials it was made on, the last one its maker's; NULL: none */
	enum visibility visibility;
	uint64_t audit; /* ticket of the record of who asked for it (store/audit.h). Not stored */
};

/* Cloche's own values: profile "default", image "host", user "agent", cwd "/workspace". */
void spec_init(struct spec *spec);
void spec_done(struct spec *spec);
/* Initialises *to with copies; *to must not hold anything. */
void spec_copy(struct spec *to, const struct spec *from);
/* Replaces one of the spec's strings by a copy; "" and NULL clear it. */
void spec_set(char **field, const char *text);
/* Adds a mount; strings are copied. */
void spec_add_mount(struct spec *spec, const char *source, const char *grant, const char *target,
                    bool read_only);
/* A label by which a sandbox made for one command is known, also to the next daemon. */
void spec_mark_for_one_command(struct spec *spec);
bool spec_is_for_one_command(const struct spec *spec);

/* Everything that can be known without looking at the machine: names, user form, absolute and
 * clean paths, mount targets, env, labels, limits, ttl. ERR_INVALID (ERR_UNSUPPORTED for a
 * runtime this version does not have) with the member and the reason. Whether there is such an
 * image or environment is not known here. */
int spec_validate(const struct spec *spec, struct err *err) NODISCARD;
/* Brings the lists of domains and ranges to their normal forms. ERR_INVALID with the positions. */
int spec_normalise(struct spec *spec, struct err *err) NODISCARD;
/* Parts of it, for requests that change one thing. name: also refuses what looks like an id. */
int spec_check_name(const char *name, struct err *err) NODISCARD;
int spec_check_ttl(uint64_t ttl_ms, struct err *err) NODISCARD;
/* Absolute, no empty, "." or ".." component, no control characters, not too long. */
int spec_check_path(const char *what, const char *path, struct err *err) NODISCARD;
/* Where a mount may go: such a path, and none that would hide what a sandbox needs. */
int spec_check_target(const char *target, struct err *err) NODISCARD;

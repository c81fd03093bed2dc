/*
 * A job: something a zygote's child does for us, and what happens with its answer. The child holds
 * the other end of the job's socket, so its death is an answer, too.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"
#include "base/limits.h"
#include "base/loop.h"
#include "broker/wish.h"
#include "wire/wire.h"

struct broker;
struct job;
struct zygote;

enum { JOB_MAX = 512 };

/* answer is NULL when err says why there is none; a job that was refused (ERROR) has err, too. The
 * job is freed afterwards. */
typedef void (*job_on_done)(struct job *job, struct wire_msg *answer, const struct err *err);

struct job {
	struct job *next;
	struct broker *broker;
	int sock;
	int child_sock; /* to be put as fd 0 of the message; -1 once it is sent */
	struct loop_source source;
	struct loop_timer timer;
	job_on_done on_done;

	enum wire_type type;            /* what was asked for */
	uint64_t request;               /* of the daemon; 0: nobody waits */
	char sandbox[LIMIT_ID_LEN + 1]; /* "" when it is about none */
	int slot;                       /* the sandbox's; -1: none */
	bool keep_files;                /* launch: the directory was there before */
	bool is_blank;                  /* launch: what is made waits for an image */
	struct err *cause;              /* undoing a launch: why it failed; owned */
	struct wish_mounts mounts;      /* bind: given back if it fails; owned */
};

/* ERR_LIMITED when too many wait. */
int job_new(struct broker *broker, enum wire_type type, uint64_t request, struct job **ret,
            struct err *err) NODISCARD;
/* As job_new, about a process that is there and answers on `sock`, which is taken, also by a
 * failure.
 */
int job_new_on(struct broker *broker, enum wire_type type, uint64_t request, int sock,
               struct job **ret, struct err *err) NODISCARD;
/* Sends the message to that process. On failure the job is gone. */
int job_ask(struct job *job, const struct wire_out *out, uint64_t timeout_ms, job_on_done on_done,
            struct err *err) NODISCARD;
/* Hands the message to the zygote and waits for the answer. On failure the job is gone. */
int job_send(struct job *job, struct zygote *zygote, const struct wire_out *out,
             uint64_t timeout_ms, job_on_done on_done, struct err *err) NODISCARD;
/* Without calling on_done. */
void job_free(struct job *job);
void job_free_all(struct broker *broker);

/* How many of a type wait. */
size_t job_count_of(const struct broker *broker, enum wire_type type);
/* Something is under way for this sandbox. */
bool job_is_busy(const struct broker *broker, const char *sandbox);

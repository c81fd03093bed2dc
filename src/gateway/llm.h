/*
 * The model gateway: calls to models, of sandboxes (http://llm.cloche.internal) and of callers of
 * the API, go to the providers that have them. The provider's key is added here and nowhere else,
 * the answer is passed on as it comes, and what it used is counted on the way. Lives in the daemon,
 * on the loop's thread.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"
#include "gateway/llm_usage.h"
#include "gateway/secret.h"
#include "gateway/trial.h"
#include "model/config.h"
#include "model/provider.h"

struct llm;
struct loop;
struct request;
struct upstreams;

/* Whose call it is; copied. No text is NULL. */
struct llm_who {
	char account[72];           /* whose limits count: a credential, or a user of the machine */
	char run[LIMIT_ID_LEN + 1]; /* that pays; "": none */
	char sandbox[LIMIT_ID_LEN + 1];    /* where it comes from; "": outside */
	char credential[LIMIT_ID_LEN + 1]; /* "": a user of the machine */
	const char *chain; /* ids of it and those above it, with spaces between; "": none */
	char owner[LIMIT_ID_LEN + 1], team[LIMIT_ID_LEN + 1];
};

/* One call: told when figures are final or it is over, each time with what is new. */
struct llm_report {
	const struct llm_who *who;
	const char *provider, *model; /* as the provider calls it; "": it came to none */
	const char *api;              /* path of the API, without a model */
	int status;                   /* that the caller was given; 0: none */
	const char *denied;           /* why it was refused or ended; NULL: it was not */
	struct llm_tokens tokens;     /* since the last report */
	uint64_t cost;                /* of these, millionths of a dollar */
	uint64_t held;                /* of what was kept back, no longer needed */
	bool is_priced;               /* somebody said what the model costs */
	bool is_over;                 /* no other report follows */
	struct llm_tokens total;      /* of the whole call */
	uint64_t total_cost;
	uint64_t took_ms;
};

struct llm_config {
	struct loop *loop;
	struct upstreams *upstreams;
	const struct config_llm *config;
	/* The index-th provider there is; NULL after the last. Valid until the loop goes on. */
	const struct provider *(*provider_at)(size_t index, void *ctx);
	/* Opens what was sealed for the provider; the caller wipes *ret. */
	int (*unseal)(const struct provider *provider, char **ret, struct err *err, void *ctx);
	/* Before a call: keeps back what it may cost, `most` or what there is of it, until reports
	 * return that. <0: not even `least` is there, or nothing; err says why. */
	int (*hold)(const struct llm_who *who, uint64_t least, uint64_t most, uint64_t *ret_held,
	            struct err *err, void *ctx);
	/* Whether the caller may have spent so much more than was reported and kept back. <0: no,
	 * and err says why. */
	int (*may_spend)(const struct llm_who *who, uint64_t cost, struct err *err, void *ctx);
	void (*told)(const struct llm_report *report, void *ctx);
	void *ctx;
};

struct llm *llm_new(const struct llm_config *config);
/* Every request must have ended. Accepts NULL. */
void llm_free(struct llm *llm);
/* Answers a request; target is path and query below the gateway's own root. */
void llm_serve(struct llm *llm, struct request *request, const char *target,
               const struct llm_who *who);
/* A run is about to be over: its calls end, and what they used is told before this returns. */
void llm_settle(struct llm *llm, const char *run);
/* Answers with an error in the form of the API that was meant. */
void llm_refuse(struct request *request, const char *target, int status, const char *message);

/* Asks the provider for its list of models, with its key. on_tested is called once, never before
 * this returns. */
void llm_test(struct llm *llm, const struct provider *provider, trial_on_end on_tested, void *ctx);

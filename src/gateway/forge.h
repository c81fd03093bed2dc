/*
 * Forges from outside: git over HTTP for sandboxes (http://git.cloche.internal), pull requests by
 * the forge's API, and the credentials for both, which are added here and nowhere else. A token of
 * a GitHub App is made for one run and one repository, kept in memory alone, and revoked when the
 * run is over. Lives in the daemon, on the loop's thread.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"
#include "gateway/proxy.h"
#include "gateway/trial.h"
#include "model/forge.h"

struct forgeway;
struct loop;
struct request;
struct upstreams;

struct forgeway_config {
	struct loop *loop;
	struct upstreams *upstreams;
	/* Opens what was sealed for a forge; the caller wipes *ret. */
	int (*unseal)(const struct forge *forge, char **ret, struct err *err, void *ctx);
	/* A call of a sandbox is over; its service is "git". */
	void (*told)(const struct proxy_report *report, void *ctx);
	void *ctx;
};

struct forgeway *forgeway_new(const struct forgeway_config *config);
/* Requests of sandboxes must have ended; whatever else is under way is dropped untold. Accepts
 * NULL. */
void forgeway_free(struct forgeway *forgeway);

/* Answers git inside. */
void forgeway_serve(struct forgeway *forgeway, struct request *request,
                    const struct forge_grant *grant);
/* Answers it with an error that git shows. */
void forgeway_refuse(struct request *request, int status, const char *text);

/* Sees to it that there is one open pull request from branch to base: asks first, so that asking
 * twice makes one. */
void forgeway_pull(struct forgeway *forgeway, const struct forge_pull *pull,
                   forge_on_pulled on_pulled, void *ctx);
/* The run is over: its token goes, and what asks for it. */
void forgeway_forget(struct forgeway *forgeway, const char *run);
/* Asks the forge who we are, with the credential. */
void forgeway_test(struct forgeway *forgeway, const struct forge *forge, trial_on_end on_tested,
                   void *ctx);

/*
 * config.toml, strictly: an unknown key, a wrong type or a value out of range is an error that
 * names file and line. Keys come from config.def and limits.def. Values go on top of what the
 * struct already holds, so built-in, user and workspace files are applied in that order.
 */
#pragma once

#include "base/addr.h"
#include "base/base.h"
#include "base/err.h"
#include "base/log.h"
#include "model/budget.h"
#include "model/capability.h"
#include "model/environment.h"
#include "model/forge.h"
#include "model/provider.h"
#include "model/service.h"
#include "model/spec.h"
#include "model/strings.h"

struct profile {
	struct spec spec; /* spec.profile is the profile's name */
	uint64_t pool;    /* sandboxes kept ready; 0: none */
	enum visibility visibility;
	char *team, *owner; /* names, for a visibility that needs them; NULL: none */
	char *trust_floor;  /* a runtime; NULL: any */
};

struct config_server {
	char *listen;    /* see model/listen.h */
	bool has_listen; /* the file says so: then it must work */
	char *tls_cert;  /* files; NULL: no TLS */
	char *tls_key;
	bool plain; /* beyond loopback without TLS */
	struct strings hosts, origins;
	uint64_t rate_limit, rate_burst; /* requests of one caller; a limit of 0 is none */
};

/* An agent of the operator's: a program that speaks the Agent Client Protocol. */
struct config_agent {
	char *name;
	char *about;    /* may be NULL */
	char *manifest; /* path of its manifest; may be NULL */
	struct strings command, env;
};

struct config_tasks {
	uint64_t timeout_ms, timeout_max_ms;
	uint64_t concurrency, team_concurrency;
	uint64_t resume_ttl_ms, resume_most, resume_bytes;
	uint64_t artifact_ttl_ms;
	struct strings origin_products;
	char *image; /* of tasks whose profile has none; NULL: see task/agent.h */
};

struct config_sessions {
	uint64_t timeout_ms, idle_ms, turn_ms;
	uint64_t concurrency, team_concurrency;
};

/* In millionths of a dollar. */
struct config_rates {
	uint64_t sandbox_second, cpu_second, memory_gib_second, disk_gib_hour, network_gib;
};

/* Money: what holds for budgets that do not say, and for teams that have none. */
struct config_budgets {
	uint64_t team_amount; /* of every team without a budget of its own; 0: no limit */
	enum budget_period period;
	enum budget_action action;
	uint64_t freeze_ms; /* what stands still for want of money ends after this */
};

/* Models for agents, by way of the gateway. */
struct config_llm {
	struct provider **providers; /* in the order of the file */
	size_t provider_count;
	struct strings cidrs; /* never-list ranges that providers of the API may lead to */
	uint64_t requests_per_minute, tokens_per_minute; /* of one caller; 0: no limit */
	uint64_t request_bytes, response_bytes;
	uint64_t answer_tokens; /* kept back for an answer whose length nobody names */
	uint64_t timeout_ms, idle_ms;
};

struct config {
	char *daemon_user;    /* account cloched runs as when the broker is root */
	bool has_daemon_user; /* the file names it: then it must exist */
	enum log_level log_level;
	struct profile *profiles; /* "default" is always there, first */
	size_t profile_count;
	uint64_t blanks; /* sandboxes kept ready without an image; 0: none */
	struct environment **environments;
	size_t environment_count;
	struct config_server server;
	struct strings scope_objects; /* name=about: what operators add to scopes.def */
	struct capabilities capabilities;
	uint64_t delegation_depth, delegation_children;
	uint64_t audit_keep_ms; /* 0: for ever */
	struct config_tasks tasks;
	struct config_sessions sessions;
	struct config_rates rates;
	struct config_budgets budgets;
	struct strings webhook_cidrs; /* private ranges that webhooks may reach */
	uint64_t webhook_retry_ms;
	struct config_agent *agents;
	size_t agent_count;
	struct service **services;
	size_t service_count;
	struct strings service_cidrs; /* never-list ranges that services of the API may lead to */
	char *service_ca;             /* PEM file of who is trusted; NULL: those of the system */
	struct config_llm llm;
	char *commands_dir, *skills_dir; /* in the state directory, or absolute */
	struct strings mcp_asks;         /* tools whose calls wait for a person */
	uint64_t mcp_ask_ms;
	struct config_git git;
	struct strings resolvers; /* "ADDRESS" or "ADDRESS:PORT"; empty: those of this machine */
	uint64_t ask_timeout_ms;  /* until a question that no person answered is denied */
};

/* The built-in values. */
void config_init(struct config *config);
void config_done(struct config *config);
/* Applies a file's text; `name` is what messages call it ("config.toml"). ERR_CONFIG; *config
 * may then be half-changed and is only good for config_done. A profile that is not there yet
 * starts from the built-in default, not from the file's [sandboxes.default]. */
int config_parse(struct config *config, const char *name, const char *text, size_t len,
                 struct err *err) NODISCARD;
/* Reads dir_fd/name (AT_FDCWD allowed) and applies it. A missing file is no error. */
int config_load(struct config *config, int dir_fd, const char *path, struct err *err) NODISCARD;
/* NULL when there is none of that name. */
const struct profile *config_profile(const struct config *config, const char *name);
/* As config_profile, but ERR_NOT_FOUND with the nearest name. */
int config_find_profile(const struct config *config, const char *name, const struct profile **ret,
                        struct err *err) NODISCARD;
/* An entry of `resolvers`; port 53 without one. */
bool config_parse_resolver(const char *text, struct addr *ret_addr, uint16_t *ret_port) NODISCARD;
/* An environment of the file, or a built-in one; NULL when there is none of that name. */
const struct environment *config_environment(const struct config *config, const char *name);
/* A service of the file; NULL when there is none of that name. */
const struct service *config_service(const struct config *config, const char *name);
/* A provider of the file; NULL when there is none of that name. */
const struct provider *config_provider(const struct config *config, const char *name);
/* A commented file that changes nothing, for `cloche setup`; the caller frees. */
char *config_default_text(void) NODISCARD;

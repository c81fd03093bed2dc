/*
 * What the API asks of whoever runs the sandboxes: the daemon implements it, tests fake it. The
 * folder rules forbid api/ to include daemon/, so the verbs stand here as a table.
 *
 * All on the loop's thread. Callbacks are called exactly once and never before the call that took
 * them returns. `err` is never NULL; its code is ERR_OK on success. What a callback is given is
 * valid during the call. Whatever changes a state is committed before its callback is called.
 */
#pragma once

#include "api/engine_exec.h"
#include "api/engine_forges.h"
#include "base/base.h"
#include "base/err.h"
#include "model/approval.h"
#include "model/command.h"
#include "model/environment.h"
#include "model/exec.h"
#include "model/host.h"
#include "model/image.h"
#include "model/provider.h"
#include "model/sandbox.h"
#include "model/service.h"
#include "model/spec.h"
#include "model/strings.h"

struct caller;
struct engine;
struct request;
struct skill_ops;
struct store_result;
struct store_write;

typedef void (*engine_on_done)(const struct err *err, void *ctx);
/* The object is NULL on failure. */
typedef void (*engine_on_sandbox)(const struct sandbox *sandbox, const struct err *err, void *ctx);
typedef void (*engine_on_exec)(const struct exec *exec, const struct err *err, void *ctx);
typedef void (*engine_on_image)(const struct image *image, const struct err *err, void *ctx);
typedef void (*engine_on_hosts)(const struct host_uses *hosts, const struct err *err, void *ctx);
typedef void (*engine_on_strings)(const struct strings *list, const struct err *err, void *ctx);

/* result is NULL on failure. */
typedef void (*engine_on_command)(const struct command_result *result, const struct err *err,
                                  void *ctx);

struct sandbox_change {
	const char *name;             /* NULL: as it is; "": none */
	const struct strings *labels; /* NULL: as they are */
	const char *made_by;          /* credentials; NULL: as they are */
	bool has_visibility;
	enum visibility visibility;
	bool has_ttl;
	uint64_t ttl_ms; /* from now; 0: none */
};

struct network_change {
	const char *network;         /* an environment; NULL: as it is */
	const char *mode;            /* NULL: as it is; "": the environment's */
	const struct strings *allow; /* NULL: as they are */
	const struct strings *allow_cidrs;
	const struct strings *approved;
};

struct environment_change {
	const struct environment *environment; /* as it shall be, in its normal form */
	const struct strings *variables;       /* NAME=value to set; NULL: none */
	const struct strings *removed;         /* names; NULL: none */
	bool is_new;
};

struct service_change {
	const struct service *service; /* as it shall be, in its normal form */
	const char *value;             /* to be sealed; NULL: what is sealed stays */
	bool is_new;
};

enum engine_remove {
	ENGINE_REMOVE_FORCE = 1 << 0,  /* also when it runs */
	ENGINE_REMOVE_DETACH = 1 << 1, /* answer once it is stored that it goes, whatever crashes */
};

struct engine_ops {
	void (*create)(struct engine *engine, const struct spec *spec, engine_on_sandbox on_created,
	               void *ctx);
	void (*start)(struct engine *engine, const char *id, engine_on_sandbox on_started,
	              void *ctx);
	void (*stop)(struct engine *engine, const char *id, uint64_t grace_ms,
	             engine_on_sandbox on_stopped, void *ctx);
	void (*remove)(struct engine *engine, const char *id, unsigned how,
	               engine_on_done on_removed, void *ctx);
	void (*change)(struct engine *engine, const char *id, const struct sandbox_change *change,
	               engine_on_sandbox on_changed, void *ctx);
	/* Answers when everything that a client was told is stored, at once if it is: the end of a
	 * run is told first and stored then. */
	void (*settle)(struct engine *engine, engine_on_done on_settled, void *ctx);
	/* Adds the removal of an ephemeral sandbox to a write of the caller's: both are stored or
	 * none is. False: it is not added, because it does not run or ends already. After true,
	 * given_up must follow with what became of the write; only then is it taken down. write
	 * NULL: whether it would be. */
	bool (*give_up)(struct engine *engine, const char *id, struct store_write *write);
	void (*given_up)(struct engine *engine, const char *id, const struct store_result *result);
	/* As it is now, which the store may not know yet; SANDBOX_NONE: there is none. */
	enum sandbox_state (*state)(struct engine *engine, const char *id);
	/* The sandbox with what it has used up to now. */
	void (*meters)(struct engine *engine, const char *id, engine_on_sandbox on_meters,
	               void *ctx);
	/* Nothing in it runs (on) until it is thawed or ends. ERR_CONFLICT, ERR_UNSUPPORTED. */
	void (*freeze)(struct engine *engine, const char *id, bool on, const char *why,
	               engine_on_done on_done, void *ctx);
	/* Stops it if it runs, for want of money: its end_reason is "budget", its detail why. */
	void (*cut)(struct engine *engine, const char *id, const char *why);
	/* A new policy, answered once it is in force; on failure the old one stays. One that does
	 * not run has it from its next start on. */
	void (*set_network)(struct engine *engine, const char *id,
	                    const struct network_change *change, engine_on_sandbox on_changed,
	                    void *ctx);
	void (*hosts)(struct engine *engine, const char *id, engine_on_hosts on_hosts, void *ctx);
	/* ERR_CONFLICT when the sandbox does not run; ERR_NO_PROGRAM, ERR_NOT_PROGRAM.
	 * On failure the watch is not registered. */
	void (*exec)(struct engine *engine, const struct exec_start *start, engine_on_exec on_exec,
	             void *ctx);
	/* ERR_NOT_FOUND: it is not live (any more). ERR_CONFLICT: it has a writer already. */
	int (*watch)(struct engine *engine, const char *sandbox, const char *exec,
	             struct exec_watch *watch, struct err *err);
	/* How much output one that runs has made; 0: it does not run. */
	uint64_t (*written)(struct engine *engine, const char *sandbox, const char *exec);
	/* How much input it was sent since its start, by whomever; 0: it does not run. */
	uint64_t (*fed)(struct engine *engine, const char *sandbox, const char *exec);
	/* Harmless when it is not registered. */
	void (*unwatch)(struct engine *engine, struct exec_watch *watch);
	/* Bytes of output up to offset are done with; only for holders. */
	void (*ack)(struct engine *engine, struct exec_watch *watch, uint64_t offset);
	/* Bytes taken (fewer: wait for on_room); <0: it has no input. eof comes with the last. */
	ssize_t (*input)(struct engine *engine, struct exec_watch *watch, const void *bytes,
	                 size_t len, bool eof);
	/* Ends a live exec that nobody wants. */
	void (*abandon)(struct engine *engine, const char *sandbox, const char *exec);
	/* The output of an internal one that is over was read, or nobody wants it. One that is over
	 * while nobody watches needs no release. */
	void (*release)(struct engine *engine, const char *sandbox, const char *exec);
	void (*resize)(struct engine *engine, const char *sandbox, const char *exec,
	               struct exec_size size, engine_on_done on_done, void *ctx);
	void (*signal)(struct engine *engine, const char *sandbox, const char *exec, int signal,
	               engine_on_done on_done, void *ctx);
	void (*kill)(struct engine *engine, const char *sandbox, const char *exec,
	             engine_on_done on_done, void *ctx);
	/* Row and output of an ended one. ERR_CONFLICT while it runs. */
	void (*forget)(struct engine *engine, const char *sandbox, const char *exec,
	               engine_on_done on_done, void *ctx);
	/* Takes the image, of which name, format, owner and team are filled in; archive_fd is not
	 * taken. */
	void (*image_import)(struct engine *engine, struct image *image, int archive_fd,
	                     engine_on_image on_imported, void *ctx);
	void (*image_remove)(struct engine *engine, const char *id, engine_on_done on_removed,
	                     void *ctx);
	/* By id, or by name in that team. The caller frees *ret. ERR_NOT_FOUND. */
	int (*environment_get)(struct engine *engine, const char *team, const char *name,
	                       struct environment **ret, struct err *err);
	void (*environment_put)(struct engine *engine, const struct environment_change *change,
	                        engine_on_done on_done, void *ctx);
	void (*environment_remove)(struct engine *engine, const struct environment *environment,
	                           engine_on_done on_removed, void *ctx);
	/* Those that wait, oldest first; NULL after the last. Valid until the loop goes on. */
	const struct approval *(*approval_at)(struct engine *engine, size_t index);
	/* Answered once it is in force. ERR_NOT_FOUND, ERR_CONFLICT, ERR_GONE. */
	void (*approval_answer)(struct engine *engine, const char *id,
	                        const struct approval_answer *answer, engine_on_done on_done,
	                        void *ctx);
	/* Asks for somebody who waits inside. *ret_id is its id. ERR_CONFLICT: the sandbox does not
	 * run; ERR_LIMITED: too many wait. */
	int (*approval_ask)(struct engine *engine, const struct approval_question *question,
	                    struct id *ret_id, struct err *err);
	/* Nobody waits any more. Harmless when it was answered. */
	void (*approval_withdraw)(struct engine *engine, const char *id);
	/* Answers the request from a port inside; target is path and query there. */
	void (*serve_port)(struct engine *engine, const char *sandbox, uint16_t port,
	                   struct request *request, const char *target);
	/* Answers a request for a model; target is path and query of the gateway. caller NULL: it
	 * is refused with err, in the form of the API that was meant. */
	void (*serve_model)(struct engine *engine, struct request *request, const char *target,
	                    const struct caller *caller, const struct err *err);
	struct engine_forges forges;
	/* Those of config.toml, then those of the API, oldest first; NULL after the last. Valid
	 * until the loop goes on. */
	const struct provider *(*provider_at)(struct engine *engine, size_t index);
	/* ERR_NOT_FOUND. */
	void (*provider_put)(struct engine *engine, const struct provider_change *change,
	                     engine_on_done on_done, void *ctx);
	void (*provider_remove)(struct engine *engine, const char *id, engine_on_done on_removed,
	                        void *ctx);
	/* Asks it for its models, with its key. */
	void (*provider_test)(struct engine *engine, const struct provider *provider,
	                      engine_on_status on_status, void *ctx);
	/* By id, or by name in that team. The caller frees *ret. ERR_NOT_FOUND. */
	int (*service_get)(struct engine *engine, const char *team, const char *name,
	                   struct service **ret, struct err *err);
	void (*service_put)(struct engine *engine, const struct service_change *change,
	                    engine_on_done on_done, void *ctx);
	void (*service_remove)(struct engine *engine, const struct service *service,
	                       engine_on_done on_removed, void *ctx);
	/* Calls it once, with its secret. */
	void (*service_test)(struct engine *engine, const struct service *service, const char *path,
	                     engine_on_status on_status, void *ctx);
	const struct skill_ops *skills; /* skills.h */
	/* Commands of the manifests, by noun and verb; NULL after the last. Keep a reference. */
	struct command *(*command_at)(struct engine *engine, size_t index);
	/* Reads the manifests anew; on failure (ERR_CONFIG) those of before stay. */
	int (*command_reload)(struct engine *engine, struct err *err);
	/* ERR_LIMITED, ERR_UNAVAILABLE, ERR_PROTOCOL, ERR_TIMEOUT, ERR_INVALID. */
	void (*command_call)(struct engine *engine, const struct command_call *call,
	                     engine_on_command on_result, void *ctx);
	void (*doctor)(struct engine *engine, engine_on_strings on_checks, void *ctx);
	/* In the text format of Prometheus; the caller frees it. */
	char *(*metrics)(struct engine *engine);
};

struct engine {
	const struct engine_ops *ops;
};

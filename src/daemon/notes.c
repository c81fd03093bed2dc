#include "daemon/notes.h"

#include <jansson.h>

#include "base/io.h"
#include "base/mem.h"
#include "model/approval.h"
#include "model/environment.h"
#include "model/exec.h"
#include "model/image.h"
#include "model/sandbox.h"
#include "model/service.h"

static void put_text(json_t *object, const char *name, const char *text)
{
	/* A text that is no UTF-8 is left out: an event is a document. */
	json_t *value = text && *text ? json_string(text) : NULL;

	if (value)
		json_object_set_new(object, name, value);
}

static void finish(struct event *ret, enum event_kind kind, const struct id *sandbox, json_t *data)
{
	*ret = (struct event){.time_ms = io_real_ms(), .kind = kind};
	if (sandbox)
		ret->sandbox = *sandbox;
	ret->data = json_dumps(data, JSON_COMPACT);
	json_decref(data);
}

void note_sandbox(struct event *ret, enum event_kind kind, const struct sandbox *sandbox)
{
	json_t *data = json_object();

	put_text(data, "name", sandbox->spec.name);
	put_text(data, "state", sandbox_state_name(sandbox->state));
	if (kind == EVENT_SANDBOX_CREATED) {
		put_text(data, "image", sandbox->spec.image);
		put_text(data, "profile", sandbox->spec.profile);
	}
	if (kind == EVENT_SANDBOX_STOPPED || kind == EVENT_SANDBOX_FAILED) {
		put_text(data, "reason", sandbox->end_reason);
		put_text(data, "detail", sandbox->detail);
	}
	if (kind == EVENT_SANDBOX_RUNNING)
		json_object_set_new(data, "degraded", json_boolean(sandbox->is_degraded));
	if (kind == EVENT_SANDBOX_RUNNING && sandbox->network.fingerprint) {
		put_text(data, "network", sandbox->spec.network);
		put_text(data, "fingerprint", sandbox->network.fingerprint);
	}
	if (kind == EVENT_SANDBOX_EXTENDED && sandbox->expires_ms) {
		char text[32];

		io_format_time(text, sizeof(text), sandbox->expires_ms);
		put_text(data, "expiresAt", text);
	}
	finish(ret, kind, &sandbox->id, data);
}

void note_limit(struct event *ret, const struct sandbox *sandbox, const char *reason,
                const char *detail)
{
	json_t *data = json_object();

	put_text(data, "name", sandbox->spec.name);
	put_text(data, "reason", reason);
	put_text(data, "detail", detail);
	finish(ret, EVENT_SANDBOX_LIMIT, &sandbox->id, data);
}

void note_network(struct event *ret, const struct sandbox *sandbox, json_t *data)
{
	finish(ret, EVENT_SANDBOX_NETWORK, &sandbox->id, data);
}

void note_policy(struct event *ret, const struct sandbox *sandbox)
{
	json_t *data = json_object();

	put_text(data, "environment", sandbox->spec.network);
	put_text(data, "level", sandbox->network.level);
	put_text(data, "mode", sandbox->network.mode);
	put_text(data, "fingerprint", sandbox->network.fingerprint);
	json_object_set_new(data, "generation",
	                    json_integer((json_int_t)sandbox->network.generation));
	finish(ret, EVENT_SANDBOX_POLICY, &sandbox->id, data);
}

void note_approval(struct event *ret, enum event_kind kind, const struct approval *approval,
                   const char *verdict, const char *by)
{
	json_t *data = json_object();

	put_text(data, "approval", approval->id.text);
	put_text(data, "kind", approval->title ? "permission" : "network");
	put_text(data, "tool", approval->title);
	put_text(data, "proto", approval->proto);
	put_text(data, "host", approval->host);
	put_text(data, "address", approval->address);
	json_object_set_new(data, "port", json_integer(approval->port));
	put_text(data, "program", approval->program);
	put_text(data, "verdict", verdict);
	put_text(data, "by", by);
	finish(ret, kind, &approval->sandbox, data);
}

void note_exec(struct event *ret, enum event_kind kind, const struct exec *exec)
{
	json_t *data = json_object();

	put_text(data, "exec", exec->id.text);
	if (kind == EVENT_EXEC_STARTED) {
		put_text(data, "program", exec->argv.count ? exec->argv.items[0] : "");
		json_object_set_new(data, "background", json_boolean(exec->background));
		json_object_set_new(data, "tty", json_boolean(exec->tty));
	} else {
		json_object_set_new(data, "exitCode",
		                    exec->signal ? json_null() : json_integer(exec->exit_code));
		json_object_set_new(data, "signal",
		                    exec->signal ? json_integer(exec->signal) : json_null());
		put_text(data, "reason", exec->reason);
	}
	finish(ret, kind, &exec->sandbox, data);
}

void note_image(struct event *ret, enum event_kind kind, const struct image *image)
{
	json_t *data = json_object();

	put_text(data, "image", image->id.text);
	put_text(data, "name", image->name);
	finish(ret, kind, NULL, data);
}

void note_call(struct event *ret, enum event_kind kind, const struct sandbox *sandbox, json_t *data)
{
	finish(ret, kind, &sandbox->id, data);
}

void note_service(struct event *ret, enum event_kind kind, const struct service *service)
{
	json_t *data = json_object();

	put_text(data, "service", service->id.text);
	put_text(data, "name", service->name);
	finish(ret, kind, NULL, data);
}

void note_provider(struct event *ret, enum event_kind kind, const char *id, const char *name)
{
	json_t *data = json_object();

	put_text(data, "provider", id);
	if (name)
		put_text(data, "name", name);
	finish(ret, kind, NULL, data);
}

void note_environment(struct event *ret, enum event_kind kind,
                      const struct environment *environment)
{
	json_t *data = json_object();

	put_text(data, "environment", environment->id.text);
	put_text(data, "name", environment->name);
	put_text(data, "level", environment_level_name(environment->level));
	finish(ret, kind, NULL, data);
}

void note_daemon(struct event *ret)
{
	json_t *data = json_object();

	put_text(data, "version", CLOCHE_VERSION);
	finish(ret, EVENT_DAEMON_STARTED, NULL, data);
}

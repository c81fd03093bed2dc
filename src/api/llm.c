/* The model gateway: for callers of the API, and for what runs inside (llm.cloche.internal). */
#include <string.h>

#include "api/call.h"
#include "api/identify.h"
#include "api/record.h"
#include "base/mem.h"
#include "http/request.h"
#include "model/access.h"

/* "/api/v1/llm" */
static const char *below(const char *target)
{
	for (int i = 0; i < 3 && *target; i++)
		target += 1 + strcspn(target + 1, "/?");
	return target;
}

/* A run has its calls among its events; those of a key are found in the audit. */
static void note_use(struct api *api, const struct request *request, const struct caller *caller)
{
	if (!caller->run.text[0] && strcmp(request_method(request), "GET") != 0)
		record_use(api, caller, "llm", scope_name(SCOPE_LLM_GATEWAY_READ));
}

void handle_llm(struct call *call)
{
	struct engine *engine = call->api->engine;

	note_use(call->api, call->request, call->caller);
	engine->ops->serve_model(engine, call->request, below(request_target(call->request)),
	                         call->caller, NULL);
	call_done(call);
}

void api_on_model(struct request *request, void *ctx)
{
	auto_(caller_unrefp) struct caller *caller = NULL;
	struct api *api = ctx;
	struct engine *engine = api->engine;
	struct err err = {0};

	if (identify_model_caller(api, request, &caller, &err) < 0) {
		record_denial(api, request, NULL, "llm", NULL,
		              err.code == ERR_LIMITED ? "rate" : "key");
	} else if (!scopes_has(&caller->scopes, SCOPE_LLM_GATEWAY_READ)) {
		record_denial(api, request, caller, "llm", NULL,
		              scope_name(SCOPE_LLM_GATEWAY_READ));
		(void)err_set(&err, ERR_FORBIDDEN, "this needs the scope %s, which you do not have",
		              scope_name(SCOPE_LLM_GATEWAY_READ)); /* always -1 */
		caller_unref(caller);
		caller = NULL;
	} else {
		note_use(api, request, caller);
	}
	engine->ops->serve_model(engine, request, request_target(request), caller, &err);
}

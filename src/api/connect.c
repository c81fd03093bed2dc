#include "api/connect.h"

#include <sodium.h>
#include <strings.h>

#include "api/agent_server.h"
#include "api/authz.h"
#include "api/call.h"
#include "api/encode.h"
#include "api/mcp.h"
#include "api/tasks.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/must.h"
#include "base/str.h"
#include "http/request.h"
#include "store/identity.h"
#include "store/task.h"

#define PREFIX "cn_"
#define LABEL  "cloche connect 1 "
/* Of the socket, who has no key that could end. */
#define BY_OPERATOR "-"

enum {
	PROOF_BYTES = 32,
	PROOF_TEXT = 2 * PROOF_BYTES + 1,
	HEAD_TEXT = 96,
	TOKEN_MS = 24 * 3600 * 1000,
	/* "rn_" and 20 characters. */
	RUN_CHARS = 23,
};

static void prove(const struct credential *credential, const char *head, char ret[PROOF_TEXT])
{
	auto_free char *said = mem_printf(LABEL "%s", head);
	uint8_t proof[PROOF_BYTES];

	must(crypto_generichash(proof, sizeof(proof), (const uint8_t *)said, strlen(said),
	                        credential->hash, sizeof(credential->hash)) == 0);
	(void)sodium_bin2hex(ret, PROOF_TEXT, proof, sizeof(proof)); /* the end of ret */
}

/* --- reading one --- */

const char *connect_token_of(const struct request *request)
{
	const char *header = request_header(request, "Authorization");

	if (!header || strncasecmp(header, "Bearer ", 7) != 0)
		return NULL;
	header += 7;
	header += strspn(header, " ");
	return str_has_prefix(header, PREFIX "rn_") ? header : NULL;
}

/* HEAD is RUN.EXPIRES.MAY.BY; *ret_proof is what follows it. */
static bool split(const char *text, char head[HEAD_TEXT], struct connect_grant *ret,
                  struct id *ret_run, const char **ret_proof)
{
	const char *last = strrchr(text, '.'), *may, *by;
	size_t len = last ? (size_t)(last - text) : 0;
	char expires[24];

	if (len <= strlen(PREFIX) + RUN_CHARS || len - strlen(PREFIX) >= HEAD_TEXT ||
	    strlen(last + 1) != PROOF_TEXT - 1)
		return false;
	(void)snprintf(head, HEAD_TEXT, "%.*s", (int)(len - strlen(PREFIX)), text + strlen(PREFIX));
	(void)snprintf(ret_run->text, sizeof(ret_run->text), "%.*s", RUN_CHARS, head);
	may = head[RUN_CHARS] == '.' ? strchr(head + RUN_CHARS + 1, '.') : NULL;
	by = may ? strchr(may + 1, '.') : NULL;
	if (!by || by - may != 2 || (may[1] != 'a' && may[1] != 's') ||
	    strlen(by + 1) >= sizeof(ret->by.text) || !id_is_valid(ret_run->text, "rn"))
		return false;
	ret->can_approve = may[1] == 'a';
	(void)snprintf(ret->by.text, sizeof(ret->by.text), "%s", by + 1);
	(void)snprintf(expires, sizeof(expires), "%.*s", (int)(may - head) - RUN_CHARS - 1,
	               head + RUN_CHARS + 1);
	*ret_proof = last + 1;
	return str_to_u64(expires, &ret->expires_ms) == 0;
}

/* Who asked for it may still drive sessions of that team. */
static bool is_still_theirs(struct api *api, const struct id *by, const struct id *team)
{
	auto_(credential_freep) struct credential *credential = NULL;
	struct membership member = {0};
	struct err none = {0};
	bool is_theirs;

	if (str_eq(by->text, BY_OPERATOR))
		return true;
	if (store_membership_get(api->store, team->text, by->text, &member, &none) == 0) {
		is_theirs = member.role >= ROLE_MEMBER;
		membership_done(&member);
		return is_theirs;
	}
	return store_credential_get(api->store, by->text, &credential, &none) == 0 &&
	       credential_is_live(credential, io_real_ms()) &&
	       (credential->is_operator ||
	        (credential->has_role && credential->role >= ROLE_MEMBER));
}

int connect_read(struct api *api, const char *text, struct connect_grant *ret, struct err *err)
{
	auto_(credential_freep) struct credential *credential = NULL;
	char head[HEAD_TEXT], proof[PROOF_TEXT];
	const char *given = NULL;
	uint64_t now_ms = io_real_ms();
	struct err none = {0};
	struct id run;

	*ret = (struct connect_grant){0};
	if (!split(text, head, ret, &run, &given) ||
	    store_credential_of_run(api->store, run.text, &credential, &none) < 0)
		return err_set(err, ERR_UNAUTHORIZED, "the token is not valid");
	must(credential);
	prove(credential, head, proof);
	if (sodium_memcmp(proof, given, PROOF_TEXT - 1) != 0 || ret->expires_ms <= now_ms ||
	    !credential_is_live(credential, now_ms) ||
	    (!credential->has_role && !credential->is_operator) ||
	    !is_still_theirs(api, &ret->by, &credential->team))
		return err_set(err, ERR_UNAUTHORIZED, "the token is not valid");
	ret->credential = take_ptr(credential);
	return 0;
}

/* --- making one --- */

static char *make(const struct call *call, const struct credential *credential,
                  uint64_t *ret_expires)
{
	uint64_t expires_ms = io_real_ms() + TOKEN_MS;
	/* What an agent asks is not for the agent to answer. */
	bool can_approve = !call->caller->run.text[0] &&
	                   scopes_has(&call->caller->scopes, SCOPE_APPROVALS_WRITE);
	const struct caller *caller = call->caller;
	const char *by = caller->is_operator ? BY_OPERATOR : caller->principal.text;
	char head[HEAD_TEXT], proof[PROOF_TEXT];

	if (credential->expires_ms)
		expires_ms = MIN(expires_ms, credential->expires_ms);
	if (caller->expires_ms)
		expires_ms = MIN(expires_ms, caller->expires_ms);
	if (caller->credential.text[0])
		by = caller->credential.text;
	(void)snprintf(head, sizeof(head), "%s.%llu.%s.%s", credential->run.text,
	               (unsigned long long)expires_ms, can_approve ? "a" : "s", by); /* fits */
	prove(credential, head, proof);
	*ret_expires = expires_ms;
	return mem_printf(PREFIX "%s.%s", head, proof);
}

static int check_session(struct call *call, const struct task *task, struct err *err)
{
	struct ownership whose = task_ownership(call, task);

	return authz_change(call, &whose, "session", task->id.text, err);
}

void handle_sandbox_connect(struct call *call)
{
	auto_(sandbox_freep) struct sandbox *sandbox = NULL;
	auto_(credential_freep) struct credential *credential = NULL;
	auto_(task_freep) struct task *task = NULL;
	auto_free char *base = NULL, *token = NULL, *url = NULL;
	struct err err = {0};
	uint64_t expires_ms;

	if (call_sandbox(call, &sandbox) < 0)
		return;
	if (!agent_server_session(call->api, sandbox->id.text, &task))
		(void)err_set(&err, ERR_CONFLICT, "no session is under way in this sandbox");
	if (err.code != ERR_OK || check_session(call, task, &err) < 0 ||
	    store_credential_of_run(call->api->store, task->run.text, &credential, &err) < 0) {
		call_fail(call, &err);
		return;
	}
	base = mcp_base(call->api, call->request);
	url = mem_printf("%s/api/v1/sandboxes/%s/ports/%d", base, sandbox->id.text,
	                 AGENT_SERVER_PORT);
	token = make(call, credential, &expires_ms);
	call_answer(call, 200,
	            json_pack("{s:s, s:s, s:o, s:s, s:s}", "url", url, "token", token, "expiresAt",
	                      encode_time(expires_ms), "session", task->id.text, "run",
	                      task->run.text));
}

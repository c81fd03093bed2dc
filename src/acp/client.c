#include "acp/client.h"

#include <stdio.h>

#include "base/must.h"
#include "base/str.h"

static const char *const phases[] = {
#define PHASE(id, text) text,
#include "acp/phases.def"
#undef PHASE
};

const char *acp_phase_name(enum acp_phase phase)
{
	return phases[phase];
}

bool acp_phase_from(const char *name, enum acp_phase *ret)
{
	for (size_t i = 0; i < ARRAY_LEN(phases); i++) {
		if (str_eq(phases[i], name)) {
			*ret = (enum acp_phase)i;
			return true;
		}
	}
	return false;
}

static void ask(struct acp_client *client, const char *method, json_t *params)
{
	client->awaited = client->next_id++;
	client->ops->send(client, acp_request(client->awaited, method, params), client->ctx);
}

static void break_off(struct acp_client *client, const struct err *why)
{
	client->phase = ACP_BROKEN;
	client->ops->broken(client, why, client->ctx);
}

void acp_client_start(struct acp_client *client)
{
	client->phase = ACP_STARTING;
	ask(client, "initialize",
	    json_pack("{s:i, s:{s:{s:b, s:b}, s:b}, s:{s:s, s:s}}", "protocolVersion", ACP_VERSION,
	              "clientCapabilities", "fs", "readTextFile", client->has_tools,
	              "writeTextFile", client->has_tools, "terminal", client->has_tools,
	              "clientInfo", "name", "cloche", "version", CLOCHE_VERSION));
}

/* --- the answers that lead from one phase to the next --- */

/* One that would be left out in silence; NULL: none. */
static const char *unreachable(const struct acp_client *client)
{
	json_t *server;
	size_t i;

	json_array_foreach (client->servers, i, server) {
		const char *type = acp_text(server, "type");

		if ((str_eq(type, "http") && !client->has_http) ||
		    (str_eq(type, "sse") && !client->has_sse))
			return acp_text(server, "name");
	}
	return NULL;
}

static void open_session(struct acp_client *client)
{
	const char *left_out = unreachable(client);
	struct err err = {0};

	if (left_out) {
		(void)err_set(&err, ERR_PROTOCOL,
		              "the agent says that it cannot reach the MCP server '%s'",
		              left_out); /* always -1 */
		break_off(client, &err);
		return;
	}
	json_t *servers = client->servers ? json_deep_copy(client->servers) : json_array();
	json_t *params = json_pack("{s:s, s:o}", "cwd", client->cwd, "mcpServers", servers);

	client->phase = ACP_OPENING;
	if (client->session[0] && client->can_load) {
		json_object_set_new(params, "sessionId", json_string(client->session));
		ask(client, "session/load", params);
	} else {
		client->session[0] = '\0';
		ask(client, "session/new", params);
	}
}

static void take_agent(struct acp_client *client, const json_t *result)
{
	const json_t *info = json_object_get(result, "agentInfo");
	const json_t *can = json_object_get(result, "agentCapabilities");
	const json_t *servers = json_object_get(can, "mcpCapabilities");
	const char *name = acp_text(info, "name"), *version = acp_text(info, "version");
	char shown[48], number[16]; /* with a blank between them just what client->agent holds */

	str_escape(shown, sizeof(shown), name, strlen(name));
	str_escape(number, sizeof(number), version, strlen(version));
	(void)snprintf(client->agent, sizeof(client->agent), "%s %s", shown, number);
	client->can_load = json_is_true(json_object_get(can, "loadSession"));
	client->has_http = json_is_true(json_object_get(servers, "http"));
	client->has_sse = json_is_true(json_object_get(servers, "sse"));
}

static int take_session(struct acp_client *client, const json_t *result, struct err *err)
{
	const char *session = acp_text(result, "sessionId");

	if (client->session[0])
		return 0; /* it was loaded */
	if (!*session || !str_copy(client->session, sizeof(client->session), session))
		return err_set(err, ERR_PROTOCOL, "the agent named no usable session");
	return 0;
}

static bool offers_mode(const json_t *result, const char *mode)
{
	const json_t *modes = json_object_get(json_object_get(result, "modes"), "availableModes");
	size_t i;
	json_t *item;

	json_array_foreach (modes, i, item) {
		if (str_eq(acp_text(item, "id"), mode))
			return true;
	}
	return false;
}

static void become_ready(struct acp_client *client)
{
	client->phase = ACP_READY;
	client->ops->ready(client, client->ctx);
}

static void opened(struct acp_client *client, const json_t *result)
{
	struct err err = {0};

	if (take_session(client, result, &err) < 0) {
		break_off(client, &err);
	} else if (client->mode && offers_mode(result, client->mode)) {
		client->phase = ACP_TUNING;
		ask(client, "session/set_mode",
		    json_pack("{s:s, s:s}", "sessionId", client->session, "modeId", client->mode));
	} else {
		become_ready(client);
	}
}

static void stop(struct acp_client *client, const json_t *result)
{
	static const char *const known[] = {"end_turn", "max_tokens", "max_turn_requests",
	                                    "refusal", "cancelled"};
	const char *reason = acp_text(result, "stopReason");
	struct acp_stop end = {.usage = json_object_get(result, "usage")};
	struct err err = {0};

	for (size_t i = 0; i < ARRAY_LEN(known); i++) {
		if (str_eq(known[i], reason))
			end.reason = known[i];
	}
	if (!end.reason) {
		(void)err_set(&err, ERR_PROTOCOL,
		              "the agent ended the turn without a known reason"); /* always -1 */
		end.err = &err;
	}
	client->phase = ACP_READY;
	client->ops->stopped(client, &end, client->ctx);
}

/* What an agent says about a failure, for people: foreign bytes. */
static void failure(const struct acp_message *message, struct err *err)
{
	const char *text = acp_text(message->error, "message");
	const char *more = acp_text(json_object_get(message->error, "data"), "details");
	char shown[100], details[100];

	str_escape(shown, sizeof(shown), text, strlen(text));
	str_escape(details, sizeof(details), more, strlen(more));
	(void)err_set(err, ERR_PROTOCOL, "the agent answered: %s%s%s",
	              *shown ? shown : "an error without a text", *details ? ": " : "", details);
}

static void refused(struct acp_client *client, const struct acp_message *message)
{
	struct acp_stop end = {0};
	struct err err = {0};

	failure(message, &err);
	if (client->phase == ACP_PROMPTING) {
		end.err = &err;
		client->phase = ACP_READY;
		client->ops->stopped(client, &end, client->ctx);
	} else if (client->phase == ACP_TUNING) {
		become_ready(client); /* a mode is a wish */
	} else if (client->phase == ACP_OPENING && client->session[0]) {
		client->can_load = false; /* the session is not there any more */
		open_session(client);
	} else {
		break_off(client, &err);
	}
}

static void answered(struct acp_client *client, const struct acp_message *message)
{
	if (!json_is_integer(message->id) ||
	    (uint64_t)json_integer_value(message->id) != client->awaited ||
	    client->phase == ACP_READY)
		return; /* to nothing that was asked, or once more */
	if (message->error) {
		refused(client, message);
		return;
	}
	switch (client->phase) {
	case ACP_STARTING:
		take_agent(client, message->result);
		open_session(client);
		break;
	case ACP_OPENING:
		opened(client, message->result);
		break;
	case ACP_TUNING:
		become_ready(client);
		break;
	case ACP_PROMPTING:
		stop(client, message->result);
		break;
	case ACP_READY:
	case ACP_BROKEN:
	case ACP_PHASE_COUNT_:
		break;
	}
}

/* --- what comes by itself --- */

static void notified(struct acp_client *client, const struct acp_message *message)
{
	const json_t *update = json_object_get(message->params, "update");
	const char *kind = acp_text(update, "sessionUpdate");

	if (!str_eq(message->method, "session/update") || !*kind)
		return; /* newer agents say more */
	client->ops->update(client, kind, update, client->phase == ACP_OPENING, client->ctx);
}

void acp_client_line(struct acp_client *client, const char *line, size_t len)
{
	struct acp_message message;
	struct err err = {0};

	if (client->phase == ACP_BROKEN)
		return;
	if (acp_parse(line, len, &message, &err) < 0) {
		/* Some print a greeting on the wrong stream; once they talk, they are held to it.
		 */
		if (client->phase != ACP_STARTING || *line == '{')
			break_off(client, &err);
		return;
	}
	switch (message.kind) {
	case ACP_RESPONSE:
		answered(client, &message);
		break;
	case ACP_NOTIFICATION:
		notified(client, &message);
		break;
	case ACP_REQUEST:
		client->ops->ask(client, &message, client->ctx);
		break;
	}
	acp_message_done(&message);
}

/* --- what the caller wants --- */

void acp_client_prompt(struct acp_client *client, json_t *content)
{
	must(client->phase == ACP_READY);
	client->phase = ACP_PROMPTING;
	ask(client, "session/prompt",
	    json_pack("{s:s, s:o}", "sessionId", client->session, "prompt", content));
}

void acp_client_cancel(struct acp_client *client)
{
	if (client->phase == ACP_PROMPTING)
		client->ops->send(client,
		                  acp_notification("session/cancel", json_pack("{s:s}", "sessionId",
		                                                               client->session)),
		                  client->ctx);
}

void acp_client_answer(struct acp_client *client, const json_t *id, json_t *result, int code,
                       const char *error)
{
	char *line = result ? acp_result(id, result) : acp_error(id, code, error);

	client->ops->send(client, line, client->ctx);
}

/* --- permissions --- */

const char *acp_choose(const json_t *params, bool allows)
{
	static const char *const kinds[2][2] = {{"reject_once", "reject_always"},
	                                        {"allow_once", "allow_always"}};
	const json_t *options = json_object_get(params, "options");
	json_t *option;
	size_t i;

	for (size_t k = 0; k < 2; k++) {
		json_array_foreach (options, i, option) {
			if (str_eq(acp_text(option, "kind"), kinds[allows][k]) &&
			    *acp_text(option, "optionId"))
				return acp_text(option, "optionId");
		}
	}
	return NULL;
}

json_t *acp_outcome(const char *option)
{
	return option ? json_pack("{s:{s:s, s:s}}", "outcome", "outcome", "selected", "optionId",
	                          option)
	              : json_pack("{s:{s:s}}", "outcome", "outcome", "cancelled");
}

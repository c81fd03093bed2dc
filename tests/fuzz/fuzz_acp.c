/* What an agent prints: no bytes of it may do more than end its turn with a reason. The first byte
 * is how far the talk has come when they are heard. */
#include "acp/client.h"
#include "acp/transcript.h"
#include "base/mem.h"
#include "base/must.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static void on_send(struct acp_client *client, char *line, void *ctx)
{
	must(strchr(line, '\n') == line + strlen(line) - 1); /* one line each */
	free(line);
}

static void on_update(struct acp_client *client, const char *kind, const json_t *update,
                      bool is_replay, void *ctx)
{
	must(*kind && json_is_object(update));
}

static void on_ask(struct acp_client *client, const struct acp_message *message, void *ctx)
{
	acp_client_answer(client, message->id, acp_outcome(acp_choose(message->params, true)), 0,
	                  NULL);
}

static void on_ready(struct acp_client *client, void *ctx)
{
	acp_client_prompt(client, json_array());
}

static void on_stopped(struct acp_client *client, const struct acp_stop *stop, void *ctx)
{
	must(stop->reason || stop->err->msg[0]);
}

static void on_broken(struct acp_client *client, const struct err *why, void *ctx)
{
	must(why->msg[0] && client->phase == ACP_BROKEN);
}

static void on_line(const char *line, size_t len, void *ctx)
{
	acp_client_line(ctx, line, len);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	static const struct acp_client_ops ops = {on_send,  on_update,  on_ask,
	                                          on_ready, on_stopped, on_broken};
	struct acp_client client = {.ops = &ops, .cwd = "/", .mode = "m"};
	struct transcript transcript;
	struct acp_lines lines;

	if (len == 0)
		return 0;
	acp_client_start(&client);
	client.phase = (enum acp_phase)(bytes[0] % ACP_PHASE_COUNT_);
	acp_lines_init(&lines);
	transcript_init(&transcript);
	must(acp_lines_feed(&lines, 0, bytes + 1, len - 1, on_line, &client) == 0);
	transcript_feed(&transcript, bytes + 1, len - 1);
	transcript_done(&transcript);
	acp_lines_done(&lines);
	return 0;
}

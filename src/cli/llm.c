/* `cloche llm`: one question to a model, no sandbox. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/commands.h"
#include "cli/output.h"

enum { INPUT_MOST = 16 * 1024 * 1024, PIECE = 64 * 1024, TOKENS_MOST = 4096 };

struct question {
	const char *model, *role;
	uint64_t max_tokens;
	char *prompt;
};

/* Each API's own words: a question, and where the text of its answer is. */
static json_t *ask_chat(const struct question *question)
{
	json_t *messages = json_array();

	if (question->role)
		json_array_append_new(messages, json_pack("{s:s, s:s}", "role", "system", "content",
		                                          question->role));
	json_array_append_new(messages,
	                      json_pack("{s:s, s:s}", "role", "user", "content", question->prompt));
	return json_pack("{s:s, s:o}", "model", question->model, "messages", messages);
}

static json_t *ask_messages(const struct question *question)
{
	json_t *body = json_pack("{s:s, s:I, s:[{s:s, s:s}]}", "model", question->model,
	                         "max_tokens", (json_int_t)question->max_tokens, "messages", "role",
	                         "user", "content", question->prompt);

	if (question->role)
		json_object_set_new(body, "system", json_string(question->role));
	return body;
}

static json_t *ask_gemini(const struct question *question)
{
	json_t *body = json_pack("{s:[{s:s, s:[{s:s}]}]}", "contents", "role", "user", "parts",
	                         "text", question->prompt);

	if (question->role)
		json_object_set_new(body, "systemInstruction",
		                    json_pack("{s:[{s:s}]}", "parts", "text", question->role));
	return body;
}

static char *target_chat(const char *model)
{
	return client_target("/llm/v1/chat/completions");
}

static char *target_messages(const char *model)
{
	return client_target("/llm/v1/messages");
}

static char *target_gemini(const char *model)
{
	return client_target("/llm/v1beta/models/%s:generateContent", model);
}

static const struct dialect {
	const char *kind;
	char *(*target)(const char *model);
	json_t *(*ask)(const struct question *question);
	const char *steps[6]; /* to the text; "" is the first of a list */
} dialects[] = {
	{"openai", target_chat, ask_chat, {"choices", "", "message", "content"}},
	{"anthropic", target_messages, ask_messages, {"content", "", "text"}},
	{"gemini", target_gemini, ask_gemini, {"candidates", "", "content", "parts", "", "text"}},
};

static const char *text_of(const json_t *answer, const struct dialect *dialect)
{
	for (size_t i = 0; i < ARRAY_LEN(dialect->steps) && dialect->steps[i]; i++)
		answer = *dialect->steps[i] ? json_object_get(answer, dialect->steps[i])
		                            : json_array_get(answer, 0);
	return json_string_value(answer);
}

/* Which API has the model: the list of models says so. Without a name the first one it has. */
static const struct dialect *choose(const json_t *models, const char **model)
{
	size_t index;
	json_t *item;

	json_array_foreach (json_object_get(models, "data"), index, item) {
		const char *id = client_str(item, "id");

		if (**model && !str_eq(*model, id))
			continue;
		for (size_t i = 0; i < ARRAY_LEN(dialects); i++) {
			if (!str_eq(dialects[i].kind, client_str(item, "kind")))
				continue;
			*model = id;
			return &dialects[i];
		}
	}
	return &dialects[0];
}

/* What is piped in stands behind the question. */
static int read_prompt(const char *words, char **ret, struct err *err)
{
	struct buf buf;
	ssize_t n = 1;

	buf_init(&buf, INPUT_MOST);
	if (buf_puts(&buf, words) < 0)
		n = -1;
	if (!isatty(STDIN_FILENO) && n > 0 && buf_puts(&buf, "\n\n") == 0) {
		while (n > 0)
			n = buf_read_fd(&buf, STDIN_FILENO, PIECE);
	}
	*ret = n < 0 ? NULL : buf_take_string(&buf);
	buf_done(&buf);
	if (!*ret)
		return err_set(err, ERR_TOO_LARGE, "the question is longer than 16 MiB");
	if (str_is_utf8(*ret, strlen(*ret)))
		return 0;
	mem_freep(ret);
	return err_set(err, ERR_INVALID, "the question is not valid UTF-8");
}

static int ask(struct cli *cli, struct question *question)
{
	auto_free char *list = client_target("/llm/v1/models");
	auto_json json_t *models = NULL;
	auto_json json_t *body = NULL;
	auto_json json_t *answer = NULL;
	auto_free char *target = NULL;
	const struct dialect *dialect;
	const char *text;

	if (client_get(cli, list, &models) < 0)
		return -1;
	dialect = choose(models, &question->model);
	if (!*question->model)
		return err_set(&cli->err, ERR_NOT_FOUND,
		               "no provider has a model with a name: say which with --model, or "
		               "add one with `cloche provider add`");
	target = dialect->target(question->model);
	body = dialect->ask(question);
	if (!body)
		return err_set(&cli->err, ERR_INVALID, "the question is not valid UTF-8");
	if (client_json(cli, "POST", target, body, &answer) < 0)
		return -1;
	if (output_json(cli, answer))
		return 0;
	text = text_of(answer, dialect);
	if (!text)
		return err_set(&cli->err, ERR_PROTOCOL, "the model answered without a text");
	(void)puts(text); /* a closed pipe is the reader's choice */
	return 0;
}

int cmd_llm(struct cli *cli)
{
	struct question question = {.model = "", .max_tokens = TOKENS_MOST};
	const struct opt opts[] = {
		{"model", 'm', OPT_STR, &question.model, "MODEL",
	         "name, alias or PROVIDER/MODEL; by default the first one there is"},
		{"system", 0, OPT_STR, &question.role, "TEXT", "what the model shall be"},
		{"max-tokens", 0, OPT_U64, &question.max_tokens, "COUNT",
	         "longest answer, where the API asks for it (4096)"},
		{0}};
	int r = cli_parse(cli, opts, 1, 1);

	if (r <= 0)
		return r;
	r = read_prompt(cli->argv[0], &question.prompt, &cli->err);
	if (r == 0)
		r = ask(cli, &question);
	mem_freep(&question.prompt);
	return r;
}

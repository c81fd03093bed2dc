#include "cli/client.h"

#include <errno.h>
#include <stdarg.h>

#include "base/id.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/must.h"
#include "base/str.h"
#include "cli/encode.h"
#include "cli/remote.h"

enum { ANSWER_MAX = 32 * 1024 * 1024, TARGET_MAX = 16 * 1024 };

char *client_target(const char *fmt, ...)
{
	auto_(buf_done) struct buf buf;
	va_list args;

	buf_init(&buf, TARGET_MAX);
	int r = buf_puts(&buf, "/api/v1");

	va_start(args, fmt);
	for (; *fmt != '\0' && r >= 0; fmt++) {
		if (fmt[0] == '%' && fmt[1] == 's') {
			r = encode_url(&buf, va_arg(args, const char *), "");
			fmt++;
		} else {
			r = buf_put(&buf, fmt, 1);
		}
	}
	va_end(args);
	/* Too long for any server: cut, and refused by it. */
	return buf_take_string(&buf);
}

void client_query(char **target, const char *name, const char *value)
{
	auto_(buf_done) struct buf buf;

	buf_init(&buf, TARGET_MAX);
	if (value == NULL)
		return;
	if (encode_url(&buf, value, "/") < 0)
		buf_reset(&buf);
	auto_free char *escaped = buf_take_string(&buf);
	char *longer = mem_printf("%s%c%s=%s", *target, strchr(*target, '?') == NULL ? '?' : '&',
	                          name, escaped);

	free(*target);
	*target = longer;
}

void client_query_u64(char **target, const char *name, uint64_t value)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "%llu", (unsigned long long)value); /* fits */
	client_query(target, name, text);
}

void client_json_freep(json_t **json)
{
	json_decref(*json);
	*json = NULL;
}

const char *client_str(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text == NULL ? "" : text;
}

uint64_t client_u64(const json_t *object, const char *key)
{
	const json_t *value = json_object_get(object, key);

	return json_is_integer(value) && json_integer_value(value) > 0
	               ? (uint64_t)json_integer_value(value)
	               : 0;
}

int client_connect(struct cli *cli)
{
	if (cli->http.fd >= 0 && http_can_reuse(&cli->http))
		return 0;
	http_close(&cli->http);
	return remote_open(cli, &cli->http);
}

/* The rest of the answer's body as text; bounded. */
static int read_answer(struct cli *cli, struct buf *to)
{
	auto_free uint8_t *bytes = mem_zalloc(LIMIT_CHUNK_BYTES);
	ssize_t got;

	while ((got = http_read(&cli->http, bytes, LIMIT_CHUNK_BYTES, &cli->err)) > 0)
		if (buf_put(to, bytes, (size_t)got) < 0)
			return err_set(&cli->err, ERR_TOO_LARGE, "the daemon's answer is too long");
	return (int)got;
}

static enum err_code code_from_name(const char *name)
{
	for (int code = 0; code < ERR_COUNT_; code++)
		if (str_eq(err_name((enum err_code)code), name))
			return (enum err_code)code;
	return ERR_INTERNAL;
}

int client_set_problem(struct cli *cli, const json_t *problem)
{
	const char *detail = client_str(problem, "detail");

	if (*detail == '\0')
		detail = client_str(problem, "title");
	/* As the APIs of models say it. */
	if (*detail == '\0')
		detail = client_str(json_object_get(problem, "error"), "message");
	if (*detail == '\0')
		return 0;
	return err_set(&cli->err, code_from_name(client_str(problem, "code")), "%s", detail);
}

int client_problem(struct cli *cli)
{
	auto_(buf_done) struct buf buf;
	int status = cli->http.head.status;
	struct err ignored = cli->err;

	buf_init(&buf, ANSWER_MAX);
	/* A broken error answer is still an error: what can be read of it is told. */
	(void)!read_answer(cli, &buf);
	cli->err = ignored;
	auto_json json_t *problem = json_loadb((const char *)buf_head(&buf), buf_len(&buf),
	                                       JSON_REJECT_DUPLICATES, NULL);

	if (client_set_problem(cli, problem) < 0)
		return -1;
	return err_set(&cli->err, ERR_PROTOCOL, "the daemon answered with status %d", status);
}

static int check_status(struct cli *cli)
{
	if (cli->http.head.status >= 200 && cli->http.head.status < 300)
		return 0;
	return client_problem(cli);
}

int client_send(struct cli *cli, const struct http_request *request)
{
	for (int tries = 3;;) {
		if (client_connect(cli) < 0)
			return -1;
		cli->err = (struct err){0};
		if (http_begin(&cli->http, request, &cli->err) >= 0 &&
		    http_finish(&cli->http, &cli->err) >= 0)
			return check_status(cli);
		/* The broker listens while the daemon starts again: asking again waits for it. */
		if (cli->err.code != ERR_UNAVAILABLE || cli->err.sys == ECANCELED || --tries == 0)
			return -1;
	}
}

int client_upload(struct cli *cli, const struct http_request *request, client_source source,
                  void *ctx)
{
	auto_free uint8_t *bytes = mem_zalloc(LIMIT_CHUNK_BYTES);
	ssize_t got = 0;
	int r = 1;

	if (client_connect(cli) < 0 || http_begin(&cli->http, request, &cli->err) < 0)
		return -1;
	while (r > 0 && (got = source(ctx, bytes, LIMIT_CHUNK_BYTES, &cli->err)) > 0)
		r = http_send(&cli->http, bytes, (size_t)got, &cli->err);
	if (r < 0 || got < 0) {
		http_close(&cli->http);
		return -1;
	}
	return http_finish(&cli->http, &cli->err) < 0 ? -1 : check_status(cli);
}

int client_read_json(struct cli *cli, json_t **ret)
{
	auto_(buf_done) struct buf buf;

	buf_init(&buf, ANSWER_MAX);
	*ret = NULL;
	if (read_answer(cli, &buf) < 0)
		return -1;
	if (buf_len(&buf) == 0)
		return 0;
	*ret = json_loadb((const char *)buf_head(&buf), buf_len(&buf), JSON_REJECT_DUPLICATES,
	                  NULL);
	return *ret == NULL ? err_set(&cli->err, ERR_PROTOCOL, "the daemon's answer is not JSON")
	                    : 0;
}

int client_json(struct cli *cli, const char *method, const char *target, const json_t *body,
                json_t **ret)
{
	auto_free char *text = body == NULL ? NULL : json_dumps(body, JSON_COMPACT);
	const struct id key = id_new("ik");
	auto_free char *headers = mem_printf("Idempotency-Key: %s\r\n", key.text);
	const struct http_request request = {
		.method = method,
		.target = target,
		.content_type = body == NULL ? NULL : "application/json",
		.body = text,
		.body_len = text == NULL ? 0 : strlen(text),
		.headers = str_eq(method, "POST") ? headers : NULL,
	};
	auto_json json_t *ignored = NULL;

	if (client_send(cli, &request) < 0)
		return -1;
	return client_read_json(cli, ret == NULL ? &ignored : ret);
}

int client_next_event(struct cli *cli, struct sse *sse, struct sse_event *ret)
{
	auto_free uint8_t *bytes = NULL;

	for (;;) {
		int r = sse_next(sse, ret);

		if (r > 0)
			return r;
		if (r < 0)
			break;
		if (bytes == NULL)
			bytes = mem_zalloc(LIMIT_CHUNK_BYTES);
		ssize_t got = http_read(&cli->http, bytes, LIMIT_CHUNK_BYTES, &cli->err);

		if (got <= 0)
			return (int)got;
		if (sse_feed(sse, bytes, (size_t)got) < 0)
			break;
	}
	return err_set(&cli->err, ERR_PROTOCOL, "the daemon's event stream is malformed");
}

int client_remove_each(struct cli *cli, const char *collection)
{
	int r = cli_parse(cli, NULL, 1, -1);

	if (r <= 0)
		return r;
	for (int i = 0; i < cli->argc; i++) {
		auto_free char *target = client_target("/%s/%s", collection, cli->argv[i]);

		if (client_json(cli, "DELETE", target, NULL, NULL) < 0)
			return err_wrap(&cli->err, "remove %s", cli->argv[i]);
	}
	return 0;
}

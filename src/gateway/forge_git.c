/*
 * Git over HTTP for a sandbox. There are four requests, and each has one form: anything else, of
 * whatever repository, is refused before anything is asked outside. Both bodies stream.
 */
#include <string.h>
#include <strings.h>

#include <sodium.h>

#include "base/mem.h"
#include "base/str.h"
#include "gateway/forge_impl.h"
#include "gateway/relay.h"
#include "http/request.h"
#include "model/git_push.h"
#include "model/service.h"

/* Which headers go on and which come back: what git needs and nothing else. */
static const char *const go_on[] = {"Accept",       "Content-Type", "Content-Encoding",
                                    "Git-Protocol", "User-Agent",   NULL};
static const char *const come_back[] = {"Content-Type", "Cache-Control", "Expires", "Pragma", NULL};

struct passage {
	struct forgeway *forgeway;
	struct relay *relay;
	const struct forge *forge;
	char *sandbox, *method, *path, *url;
	char *branch; /* of a push; NULL: it is none */
	struct forge_waiter waiter;
};

static bool is_in(const char *const *list, const char *name)
{
	for (; *list; list++) {
		if (strcasecmp(*list, name) == 0)
			return true;
	}
	return false;
}

static void on_over(const struct relay_sum *sum, void *ctx)
{
	struct passage *passage = ctx;
	const struct forgeway_config *config = &passage->forgeway->config;
	struct proxy_report report = {.sandbox = passage->sandbox,
	                              .service = "git",
	                              .method = passage->method,
	                              .path = passage->path,
	                              .status = sum->status,
	                              .denied = sum->denied,
	                              .sent = sum->sent,
	                              .received = sum->received,
	                              .took_ms = sum->took_ms};

	forge_token_unwait(&passage->waiter);
	config->told(&report, config->ctx);
	mem_freep(&passage->sandbox);
	mem_freep(&passage->method);
	mem_freep(&passage->path);
	mem_freep(&passage->url);
	mem_freep(&passage->branch);
	mem_freep(&passage);
}

static char *on_header(const char *name, const char *value, void *ctx)
{
	return is_in(come_back, name) ? mem_strdup(value) : NULL;
}

/* Git inside could do nothing with these but ask a person, or follow to where it may not go. */
static const char *on_status(int status, void *ctx)
{
	if (status >= 300 && status < 400)
		return "the forge leads to another place: is the repository renamed?";
	if (status == 401)
		return "the forge does not accept the credential it was configured with";
	return NULL;
}

/* A push says first what it wants to change. */
static int on_beginning(const uint8_t *bytes, size_t len, struct err *err, void *ctx)
{
	const struct passage *passage = ctx;

	return passage->branch ? git_push_read(bytes, len, passage->branch, err) : 1;
}

/* Git shows no text of an error to a push. What it shows is the third band of an answer, which is
 * for what ends it (gitprotocol-pack(5)). */
static bool on_refused(struct request *request, const struct err *err, void *ctx)
{
	auto_free char *line = NULL;

	if (err->code != ERR_FORBIDDEN)
		return false;
	line = mem_printf("%04zx\3%s\n0000", strlen(err->msg) + 6, err->msg);
	request_answer(request, 200, "application/x-git-receive-pack-result", line, strlen(line));
	return true;
}

static const struct relay_ops passage_ops = {.header = on_header,
                                             .look = on_beginning,
                                             .tell = on_refused,
                                             .over = on_over,
                                             .refuse = on_status,
                                             .is_plain = true};

/* --- with the credential --- */

static bool put_header(const char *name, const char *value, void *ctx)
{
	if (is_in(go_on, name) && service_is_value(value))
		strings_take(ctx, mem_printf("%s: %s", name, value));
	return true;
}

static char *basic(const char *token)
{
	char *pair = mem_printf("x-access-token:%s", token);
	size_t len = strlen(pair);
	size_t size = sodium_base64_encoded_len(len, sodium_base64_VARIANT_ORIGINAL);
	char *coded = mem_zalloc(size);
	char *header;

	sodium_bin2base64(coded, size, (const uint8_t *)pair, len, sodium_base64_VARIANT_ORIGINAL);
	header = mem_printf("Authorization: Basic %s", coded);
	mem_wipe_free(coded, size);
	mem_wipe_free(pair, len);
	return header;
}

static void on_token(const char *token, const struct err *err, void *ctx)
{
	struct passage *passage = ctx;
	struct strings headers = {0};
	struct upstream_call call = {
		.url = passage->url, .headers = &headers, .timeout_ms = passage->forge->timeout_ms};

	if (!token) {
		relay_fail(passage->relay, err, "no credential");
		return;
	}
	if (*token)
		strings_take(&headers, basic(token));
	strings_add(&headers, "Accept-Encoding: identity");
	request_each_header(relay_request(passage->relay), put_header, &headers);
	forge_call_fill(passage->forge, &call);
	relay_go(passage->relay, passage->forgeway->config.upstreams, &call, *token ? token : NULL,
	         INT64_MAX);
	explicit_bzero(headers.items[0], strlen(headers.items[0]));
	strings_done(&headers);
}

/* --- whether it may --- */

static int check(const struct forge_grant *grant, const struct request *request,
                 const char **ret_rest, const char **denied, struct err *err)
{
	enum git_ask ask = git_ask_read(grant->path, request_method(request),
	                                request_target(request), ret_rest);

	*denied = "another repository, or not git's smart protocol";
	if (ask == GIT_NOTHING)
		return err_set(err, ERR_FORBIDDEN,
		               "this run has http://git.cloche.internal/%s.git and nothing else "
		               "(neither other repositories nor LFS)",
		               grant->path);
	*denied = "no scope repositories:write";
	if (git_ask_writes(ask) && !grant->may_write)
		return err_set(err, ERR_FORBIDDEN,
		               "this run may read %s and not push to it: it has no scope "
		               "repositories:write",
		               grant->path);
	*denied = NULL;
	return 0;
}

void forgeway_serve(struct forgeway *forgeway, struct request *request,
                    const struct forge_grant *grant)
{
	struct passage *passage = mem_new(struct passage);
	const char *denied = NULL, *rest = NULL;
	struct err err = {0};

	passage->forgeway = forgeway;
	passage->forge = grant->forge;
	passage->sandbox = mem_strdup(grant->sandbox);
	passage->method = mem_strdup(request_method(request));
	passage->path = service_path(request_target(request));
	passage->waiter = (struct forge_waiter){.on_token = on_token, .ctx = passage};
	passage->relay = relay_new(request, &passage_ops, passage);
	if (check(grant, request, &rest, &denied, &err) < 0) {
		relay_fail(passage->relay, &err, denied);
		return;
	}
	if (str_eq(rest, "/git-receive-pack"))
		passage->branch = mem_strdup(grant->branch);
	passage->url = mem_printf("%s/%s.git%s", grant->forge->base_url, grant->path, rest);
	forge_token_get(forgeway, grant, &passage->waiter);
}

void forgeway_refuse(struct request *request, int status, const char *text)
{
	auto_free char *line = mem_printf("%s\n", text);

	request_answer(request, status, "text/plain", line, strlen(line));
}

/* `cloche service`: add, list, show, set, rm, test. */
#include <jansson.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/verbs.h"

enum { SECRET_MOST = 4096 };

struct wish {
	const char *secret, *visibility, *timeout, *response_bytes, *upstream;
	struct opt_list headers, methods, paths;
};

#define OPTIONS(wish)                                                                              \
	{"header",        'H',                                                                     \
	 OPT_LIST,        &(wish).headers,                                                         \
	 "'NAME: VALUE'", "add to each call; {secret} stands for the secret"},                     \
		{"secret",                                                                         \
	         0,                                                                                \
	         OPT_STR,                                                                          \
	         &(wish).secret,                                                                   \
	         "WHERE",                                                                          \
	         "env:CLOCHE_NAME or file:/PATH of the daemon, or - to seal standard input"},      \
		{"method", 0, OPT_LIST, &(wish).methods, "METHOD", "take only these"},             \
		{"path",    0,                                                                     \
	         OPT_LIST,  &(wish).paths,                                                         \
	         "PATTERN", "take only these: * is any text without a slash, ** any text"},        \
		{"timeout", 0, OPT_STR, &(wish).timeout, "TIME", "longest call (15m)"},            \
		{"response-bytes",       0,      OPT_STR,                                          \
	         &(wish).response_bytes, "SIZE", "longest answer (256M)"},                         \
	{                                                                                          \
		"visibility", 0, OPT_STR, &(wish).visibility, "WHO",                               \
			"whose sandboxes may use it: private, team, global"                        \
	}

static void wish_done(struct wish *wish)
{
	opt_list_done(&wish->headers);
	opt_list_done(&wish->methods);
	opt_list_done(&wish->paths);
}

static int put_text(json_t *body, const char *key, const char *text, struct err *err)
{
	if (text && json_object_set_new(body, key, json_string(text)) < 0)
		return err_set(err, ERR_INVALID, "%s is not valid UTF-8", key);
	return 0;
}

static int put_list(json_t *body, const char *key, const struct opt_list *list, struct err *err)
{
	json_t *items;

	if (list->count == 0)
		return 0;
	items = json_array();
	(void)json_object_set_new(body, key, items); /* only fails without memory */
	for (size_t i = 0; i < list->count; i++) {
		if (json_array_append_new(items, json_string(list->items[i])) < 0)
			return err_set(err, ERR_INVALID, "%s: an entry is not valid UTF-8", key);
	}
	return 0;
}

/* A secret on the command line would be everybody's: it comes by standard input. */
static int put_secret(json_t *body, const char *secret, struct err *err)
{
	char text[SECRET_MOST + 2];
	ssize_t len;
	int r;

	if (!secret || !str_eq(secret, "-"))
		return put_text(body, "secret", secret, err);
	len = io_read_full(STDIN_FILENO, text, sizeof(text) - 1);
	if (len < 0)
		return err_sys(err, (int)-len, "read the secret from standard input");
	while (len > 0 && (text[len - 1] == '\n' || text[len - 1] == '\r'))
		len--;
	text[len] = '\0';
	r = len == 0 || len > SECRET_MOST
	            ? err_set(err, ERR_INVALID, "standard input has no secret, or too long a one")
	            : put_text(body, "secretValue", text, err);
	explicit_bzero(text, sizeof(text));
	return r < 0 ? r : put_text(body, "secret", "sealed", err);
}

static int put_wish(json_t *body, const struct wish *wish, struct err *err)
{
	uint64_t bytes;

	if (wish->response_bytes) {
		if (str_to_bytes(wish->response_bytes, &bytes) < 0 || bytes > INT64_MAX)
			return err_set(err, ERR_INVALID, "--response-bytes is a size such as 64M");
		(void)json_object_set_new(body, "responseBytes", json_integer((json_int_t)bytes));
	}
	if (put_text(body, "visibility", wish->visibility, err) < 0 ||
	    put_text(body, "timeout", wish->timeout, err) < 0 ||
	    put_text(body, "upstream", wish->upstream, err) < 0 ||
	    put_list(body, "headers", &wish->headers, err) < 0 ||
	    put_list(body, "methods", &wish->methods, err) < 0 ||
	    put_list(body, "paths", &wish->paths, err) < 0)
		return -1;
	return put_secret(body, wish->secret, err);
}

static void print_list(const char *name, const json_t *list)
{
	size_t index;
	json_t *item;

	json_array_foreach (list, index, item)
		output_fact(name, "%s", json_string_value(item));
}

static void print_meter(const json_t *meter)
{
	char sent[32], received[32];

	str_format_bytes(sent, sizeof(sent), client_u64(meter, "sentBytes"));
	str_format_bytes(received, sizeof(received), client_u64(meter, "receivedBytes"));
	output_fact("used", "%llu calls, %llu denied, %s out, %s in",
	            (unsigned long long)client_u64(meter, "calls"),
	            (unsigned long long)client_u64(meter, "denied"), sent, received);
}

static void print_service(const struct cli *cli, const json_t *service)
{
	char text[32];

	if (output_json(cli, service))
		return;
	output_fact("name", "%s", client_str(service, "name"));
	output_fact("inside", "%s", client_str(service, "url"));
	output_fact("upstream", "%s", client_str(service, "upstream"));
	output_fact("origin", "%s", client_str(service, "origin"));
	output_fact("secret", "%s", client_str(service, "secret"));
	output_fact("placeholder", "%s", client_str(service, "placeholder"));
	print_list("header", json_object_get(service, "headers"));
	print_list("method", json_object_get(service, "methods"));
	print_list("path", json_object_get(service, "paths"));
	str_format_bytes(text, sizeof(text), client_u64(service, "responseBytes"));
	output_fact("answer", "%s at most", text);
	str_format_ms(text, sizeof(text), client_u64(service, "timeoutMs"));
	output_fact("call", "%s at most", text);
	output_fact("visibility", "%s", client_str(service, "visibility"));
	print_meter(json_object_get(service, "meter"));
}

static int send_wish(struct cli *cli, const char *method, const char *target, json_t *body)
{
	auto_json json_t *service = NULL;

	if (client_json(cli, method, target, body, &service) < 0)
		return -1;
	print_service(cli, service);
	return 0;
}

int cmd_service_add(struct cli *cli)
{
	struct wish wish = {0};
	const struct opt opts[] = {OPTIONS(wish), {0}};
	auto_free char *target = client_target("/services");
	auto_json json_t *body = json_object();
	int r = cli_parse(cli, opts, 2, 2);

	if (r > 0) {
		wish.upstream = cli->argv[1];
		r = put_text(body, "name", cli->argv[0], &cli->err);
		if (r == 0)
			r = put_wish(body, &wish, &cli->err);
		if (r == 0)
			r = send_wish(cli, "POST", target, body);
	}
	wish_done(&wish);
	return r;
}

int cmd_service_set(struct cli *cli)
{
	struct wish wish = {0};
	const struct opt opts[] = {
		OPTIONS(wish),
		{"upstream", 0, OPT_STR, &wish.upstream, "URL", "where it leads"},
		{0}};
	auto_json json_t *body = json_object();
	int r = cli_parse(cli, opts, 1, 1);

	if (r > 0) {
		auto_free char *target = client_target("/services/%s", cli->argv[0]);

		r = put_wish(body, &wish, &cli->err);
		if (r == 0)
			r = send_wish(cli, "PATCH", target, body);
	}
	wish_done(&wish);
	return r;
}

int cmd_service_list(struct cli *cli)
{
	static const struct verbs_column columns[] = {
		{"NAME", "name"},         {"UPSTREAM", "upstream"},
		{"SECRET", "secret"},     {"VISIBILITY", "visibility"},
		{"CALLS", "meter.calls"}, {0}};

	return verbs_list(cli, "services", true, columns);
}

int cmd_service_show(struct cli *cli)
{
	return verbs_show(cli, "services", print_service);
}

int cmd_service_rm(struct cli *cli)
{
	return client_remove_each(cli, "services");
}

int cmd_service_test(struct cli *cli)
{
	const struct opt opts[] = {{0}};
	auto_json json_t *body = json_object();
	auto_json json_t *answer = NULL;
	int r = cli_parse(cli, opts, 1, 2);

	if (r <= 0)
		return r;
	auto_free char *target = client_target("/services/%s/test", cli->argv[0]);

	if (cli->argc > 1 && put_text(body, "path", cli->argv[1], &cli->err) < 0)
		return -1;
	if (client_json(cli, "POST", target, body, &answer) < 0)
		return -1;
	if (!output_json(cli, answer))
		output_fact("status", "%llu", (unsigned long long)client_u64(answer, "status"));
	return 0;
}

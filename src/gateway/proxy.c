#include "gateway/proxy.h"

#include <string.h>

#include "base/addr.h"
#include "base/io.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/must.h"
#include "base/str.h"
#include "gateway/headers.h"
#include "gateway/relay.h"
#include "gateway/upstream.h"
#include "http/request.h"

enum { GRANTS = 128, TEST_MS = 20 * 1000 };

struct proxy {
	struct proxy_config config;
	struct upstreams *upstreams;
	struct addr_cidr granted[GRANTS];
	size_t granted_count;
};

/* One call of a sandbox. */
struct passage {
	struct proxy *proxy;
	struct relay *relay;
	char *sandbox, *name, *path, *method;
	struct service *service;
	char *secret; /* until it is passed on */
};

static void take_grants(struct proxy *proxy, const struct strings *cidrs)
{
	for (size_t i = 0; i < cidrs->count && proxy->granted_count < GRANTS; i++) {
		/* Checked when the file was read. */
		if (addr_parse_cidr(cidrs->items[i], &proxy->granted[proxy->granted_count]))
			proxy->granted_count++;
	}
}

struct proxy *proxy_new(const struct proxy_config *config)
{
	struct proxy *proxy = mem_new(struct proxy);

	proxy->config = *config;
	proxy->upstreams = upstreams_new(config->loop, config->config->service_ca);
	take_grants(proxy, &config->config->service_cidrs);
	return proxy;
}

struct upstreams *proxy_upstreams(struct proxy *proxy)
{
	return proxy->upstreams;
}

void proxy_free(struct proxy *proxy)
{
	if (!proxy)
		return;
	upstreams_free(proxy->upstreams);
	mem_freep(&proxy);
}

/* --- the end --- */

static void on_over(const struct relay_sum *sum, void *ctx)
{
	struct passage *passage = ctx;
	const struct proxy_config *config = &passage->proxy->config;
	struct proxy_report report = {.sandbox = passage->sandbox,
	                              .service = passage->name,
	                              .method = passage->method,
	                              .path = passage->path,
	                              .status = sum->status,
	                              .denied = sum->denied,
	                              .sent = sum->sent,
	                              .received = sum->received,
	                              .took_ms = sum->took_ms};

	config->told(&report, config->ctx);
	service_free(passage->service);
	gateway_secret_wipe(&passage->secret);
	mem_freep(&passage->sandbox);
	mem_freep(&passage->name);
	mem_freep(&passage->path);
	mem_freep(&passage->method);
	mem_freep(&passage);
}

static char *on_header(const char *name, const char *value, void *ctx)
{
	const struct passage *passage = ctx;
	char *shown;

	if (!headers_may_return(name))
		return NULL;
	shown = headers_translate(passage->service, name, value);
	return shown ? shown : mem_strdup(value);
}

static const struct relay_ops passage_ops = {.header = on_header, .over = on_over};

/* --- the beginning --- */

static void wipe_list(struct strings *list)
{
	for (size_t i = 0; i < list->count; i++)
		explicit_bzero(list->items[i], strlen(list->items[i]));
	strings_done(list);
}

static void fill_call(const struct proxy *proxy, const struct service *service,
                      struct upstream_call *call)
{
	call->timeout_ms = service->timeout_ms;
	/* Who writes config.toml may name every place; who asks the API may not. */
	call->is_anywhere = str_eq(service->origin, "config");
	call->granted = proxy->granted;
	call->granted_count = proxy->granted_count;
}

/* What is sent, or why it is not; *denied is for the event. */
static int prepare(struct passage *passage, struct strings *headers, const char **denied,
                   struct err *err)
{
	struct request *request = relay_request(passage->relay);
	const struct proxy_config *config = &passage->proxy->config;

	*denied = "no such service";
	if (config->find(passage->sandbox, passage->name, &passage->service, err, config->ctx) < 0)
		return -1;
	*denied = "method or path";
	if (service_allows(passage->service, passage->method, request_target(request), err) < 0)
		return -1;
	*denied = "placeholder of another service";
	if (headers_check_placeholders(request, passage->name, err) < 0)
		return -1;
	*denied = NULL;
	if (gateway_secret_read(passage->service, config->unseal, config->ctx, &passage->secret,
	                        err) < 0) {
		log_warn("the secret of a service is not there", LOG_STR("service", passage->name),
		         LOG_ERR(err));
		return err_set(err, ERR_UNAVAILABLE, "the secret of service %s cannot be read",
		               passage->name);
	}
	headers_build(passage->service, passage->secret, request, headers);
	return 0;
}

void proxy_serve(struct proxy *proxy, struct request *request, const char *name)
{
	struct passage *passage = mem_new(struct passage);
	struct strings headers = {0};
	const char *denied = NULL;
	struct err err = {0};

	passage->proxy = proxy;
	passage->sandbox = mem_strdup(request_guest(request));
	passage->name = mem_strdup(name);
	passage->path = service_path(request_target(request));
	passage->method = mem_strdup(request_method(request));
	passage->relay = relay_new(request, &passage_ops, passage);
	if (prepare(passage, &headers, &denied, &err) < 0) {
		relay_fail(passage->relay, &err, denied);
	} else {
		auto_free char *url =
			mem_printf("%s%s", passage->service->upstream, request_target(request));
		struct upstream_call call = {.url = url, .headers = &headers, .fd = -1};

		fill_call(proxy, passage->service, &call);
		relay_go(passage->relay, proxy->upstreams, &call, passage->secret,
		         passage->service->response_bytes);
		gateway_secret_wipe(&passage->secret);
	}
	wipe_list(&headers);
}

void proxy_test(struct proxy *proxy, const struct service *service, const char *path,
                trial_on_end on_tested, void *ctx)
{
	auto_free char *url = mem_printf("%s%s", service->upstream, path);
	struct strings headers = {0};
	struct upstream_call call = {.method = "GET", .url = url, .headers = &headers, .fd = -1};
	struct err err = {0};
	char *secret = NULL;

	fill_call(proxy, service, &call);
	call.timeout_ms = MIN(call.timeout_ms, (uint64_t)TEST_MS);
	if (service_allows(service, "GET", path, &err) < 0 ||
	    gateway_secret_read(service, proxy->config.unseal, proxy->config.ctx, &secret, &err) <
	            0) {
		trial_fail(proxy->config.loop, &err, on_tested, ctx);
	} else {
		headers_build(service, secret, NULL, &headers);
		trial_start(proxy->upstreams, &call, on_tested, ctx);
	}
	gateway_secret_wipe(&secret);
	wipe_list(&headers);
}

static void add_header(struct strings *headers, const char *name, const char *value)
{
	strings_take(headers, mem_printf("%s: %s", name, value));
}

void proxy_fetch(struct proxy *proxy, const struct service *service, const struct proxy_call *asked,
                 fetch_on_end on_end, void *ctx)
{
	auto_free char *url = mem_printf("%s%s", service->upstream, asked->target);
	struct strings headers = {0};
	struct upstream_call call = {
		.method = asked->method, .url = url, .headers = &headers, .fd = -1};
	struct fetch_wish wish = {.call = &call,
	                          .body = asked->type ? asked->body : NULL,
	                          .body_len = asked->body_len,
	                          .most = service->response_bytes};
	struct err err = {0};
	char *secret = NULL;

	fill_call(proxy, service, &call);
	if (service_allows(service, asked->method, asked->target, &err) < 0) {
		fetch_fail(proxy->config.loop, &err, on_end, ctx);
	} else if (gateway_secret_read(service, proxy->config.unseal, proxy->config.ctx, &secret,
	                               &err) < 0) {
		log_warn("the secret of a command is not there", LOG_STR("command", service->name),
		         LOG_ERR(&err));
		(void)err_set(&err, ERR_UNAVAILABLE, "the secret of this command cannot be read");
		fetch_fail(proxy->config.loop, &err, on_end, ctx);
	} else {
		headers_build(service, secret, NULL, &headers);
		if (asked->type)
			add_header(&headers, "Content-Type", asked->type);
		add_header(&headers, "Accept", "application/json, text/plain;q=0.9, */*;q=0.1");
		wish.secret = secret;
		fetch_start(proxy->upstreams, &wish, on_end, ctx);
	}
	gateway_secret_wipe(&secret);
	wipe_list(&headers);
}

#include "model/service.h"

#include <stdio.h>

#include "base/base.h"
#include "base/mem.h"
#include "harness/test.h"
#include "model/config.h"

static struct service *make(const char *upstream)
{
	struct service *service = service_new("main");

	service->upstream = mem_strdup(upstream);
	return service;
}

static const char *normal(const char *upstream)
{
	static char text[2048];
	auto_(service_freep) struct service *service = make(upstream);
	struct err err = {0};

	if (service_normalise(service, &err) < 0)
		return NULL;
	(void)snprintf(text, sizeof(text), "%s", service->upstream);
	return text;
}

TEST(upstreams_have_one_form)
{
	CHECK_STR(normal("HTTPS://Api.Example.ORG:8443/v1/"), "https://api.example.org:8443/v1");
	CHECK_STR(normal("http://127.0.0.1:80"), "http://127.0.0.1:80");
	CHECK_STR(normal("http://[::1]:8080/a%20b"), "http://[::1]:8080/a%20b");
	CHECK_STR(normal("http://[2001:DB8::1]"), "http://[2001:db8::1]");
	CHECK_STR(normal("http://localhost"), "http://localhost");
	const char *bad[] = {"",
	                     "ftp://example.org",
	                     "example.org",
	                     "http://",
	                     "http:///x",
	                     "http://user:pw@example.org",
	                     "http://user@example.org/",
	                     "http://example.org/?q=1",
	                     "http://example.org/#x",
	                     "http://example.org:0",
	                     "http://example.org:99999",
	                     "http://example.org:",
	                     "http://exa mple.org",
	                     "http://example.org/a b",
	                     "http://example.org/\r\nX: y",
	                     "http://[::1",
	                     "http://::1/",
	                     "http://[127.0.0.1]/",
	                     "file:///etc/passwd"};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		CHECK(normal(bad[i]) == NULL);
}

static int try_header(const char *header, const char *secret)
{
	auto_(service_freep) struct service *service = make("http://example.org");
	struct err err = {0};

	strings_add(&service->headers, header);
	service->secret = secret ? mem_strdup(secret) : NULL;
	return service_normalise(service, &err);
}

TEST(headers_are_checked)
{
	CHECK(try_header("Authorization: Bearer {secret}", "env:CLOCHE_KEY") == 0);
	CHECK(try_header("X-Plain: yes", NULL) == 0);
	CHECK(try_header("Authorization: Bearer {secret}", NULL) < 0);
	/* Others do not reach the daemon, and would fail at each call. */
	CHECK(try_header("Authorization: Bearer {secret}", "env:KEY") < 0);
	CHECK(try_header("Authorization", "env:CLOCHE_KEY") < 0);
	CHECK(try_header(": x", "env:CLOCHE_KEY") < 0);
	CHECK(try_header("A b: x", "env:CLOCHE_KEY") < 0);
	CHECK(try_header("A: x\r\nB: y", "env:CLOCHE_KEY") < 0);
	CHECK(try_header("Host: other", "env:CLOCHE_KEY") < 0);
	CHECK(try_header("transfer-encoding: chunked", "env:CLOCHE_KEY") < 0);
}

TEST(a_bad_reference_is_not_repeated)
{
	auto_(service_freep) struct service *service = make("http://example.org");
	struct err err = {0};

	service->secret = mem_strdup("sk-live-1234567890");
	CHECK(service_normalise(service, &err) < 0);
	CHECK(strstr(err.msg, "1234567890") == NULL);
}

static enum err_code asks(struct service *service, const char *method, const char *target)
{
	struct err err = {0};

	return service_allows(service, method, target, &err) < 0 ? err.code : ERR_OK;
}

TEST(paths_and_methods)
{
	auto_(service_freep) struct service *service = make("http://example.org");

	CHECK(asks(service, "GET", "/anything?x=/../..") == ERR_OK);
	CHECK(asks(service, "TRACE", "/") == ERR_FORBIDDEN);
	CHECK(asks(service, "CONNECT", "/") == ERR_FORBIDDEN);
	strings_add(&service->methods, "POST");
	strings_add(&service->paths, "/v1/messages");
	strings_add(&service->paths, "/v1/models/*");
	strings_add(&service->paths, "/files/**/raw");
	CHECK(asks(service, "POST", "/v1/messages") == ERR_OK);
	CHECK(asks(service, "POST", "/v1/m%65ssages") == ERR_OK);
	CHECK(asks(service, "GET", "/v1/messages") == ERR_FORBIDDEN);
	CHECK(asks(service, "post", "/v1/messages") == ERR_FORBIDDEN);
	CHECK(asks(service, "POST", "/v1/models/a") == ERR_OK);
	CHECK(asks(service, "POST", "/v1/models/a/b") == ERR_FORBIDDEN);
	CHECK(asks(service, "POST", "/files/a/b/c/raw") == ERR_OK);
	CHECK(asks(service, "POST", "/files/a/raw/b") == ERR_FORBIDDEN);
	CHECK(asks(service, "POST", "/v1/messagesx") == ERR_FORBIDDEN);
	const char *tricks[] = {"/v1/messages/../admin", "/v1/models/..",    "/v1/models/%2e%2e",
	                        "/v1/models/a%2fb",      "/v1/models/a%5cb", "/v1/models/%252e",
	                        "/v1/models/.",          "/v1//models/a",    "/v1/models/a%00",
	                        "/v1/models/a%0d%0aX",   "/v1/models/a\\b",  "*",
	                        "http://example.com/v1", "/v1/models/..;/x", "/v1/models/%zz",
	                        "/v1/models/a b",        "/v1/models/a\tb"};
	for (size_t i = 0; i < ARRAY_LEN(tricks); i++)
		CHECK(asks(service, "POST", tricks[i]) == ERR_INVALID);
}

TEST(who_may_use_it)
{
	auto_(service_freep) struct service *service = make("http://example.org");

	CHECK(service_serves(service, NULL, NULL));
	CHECK(!service_serves(service, "pr_other", NULL));
	CHECK(!service_serves(service, NULL, "tm_other"));
	service->visibility = VISIBILITY_TEAM;
	CHECK(service_serves(service, "pr_other", NULL));
	CHECK(!service_serves(service, "pr_other", "tm_other"));
	service->visibility = VISIBILITY_GLOBAL;
	CHECK(service_serves(service, "pr_other", "tm_other"));
}

TEST(secrets_are_filled_in)
{
	auto_free char *one = service_fill("Bearer {secret}", "{secret}", "abc");
	auto_free char *two = service_fill("{secret}:{secret}", "{secret}", "");
	auto_free char *none = service_fill("plain", "{secret}", "abc");

	CHECK_STR(one, "Bearer abc");
	CHECK_STR(two, ":");
	CHECK_STR(none, "plain");
}

TEST(placeholders_belong_to_one_service)
{
	CHECK(service_foreign_placeholder("Bearer x", "main") == NULL);
	CHECK(service_foreign_placeholder("Bearer cloche_placeholder_main", "main") == NULL);
	CHECK(service_foreign_placeholder("Bearer cloche_placeholder_main2", "main") != NULL);
	CHECK(service_foreign_placeholder("Bearer cloche_placeholder_git", "main") != NULL);
	CHECK(service_foreign_placeholder("cloche_placeholder_main cloche_placeholder_git",
	                                  "main"));
	CHECK(service_foreign_placeholder("CLOCHE_PLACEHOLDER_llm", NULL) != NULL);
}

TEST(names)
{
	struct err err = {0};

	CHECK(service_check_name("main", &err) == 0);
	CHECK(service_check_name("llm", &err) < 0);
	CHECK(service_check_name("my-main-2", &err) == 0);
	const char *bad[] = {"", "api", "a.b", "A", "-a", "a-", "a_b", "a b"};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		CHECK(service_check_name(bad[i], &err) < 0);
}

static int configure(const char *text, struct config *config, struct err *err)
{
	config_init(config);
	return config_parse(config, "config.toml", text, strlen(text), err);
}

TEST(config)
{
	struct config config;
	struct err err = {0};

	CHECK(configure("[services]\nallow_cidrs = [\"10.1.0.0/16\"]\n[services.main]\n"
	                "upstream = \"https://example.org/v1/\"\nsecret = \"env:CLOCHE_KEY\"\n"
	                "headers = [\"X-Key: {secret}\"]\nmethods = [\"post\"]\n"
	                "timeout = \"30s\"\nresponse_bytes = \"1M\"\n",
	                &config, &err) == 0);
	const struct service *service = config_service(&config, "main");
	CHECK(service && service->timeout_ms == 30000 && service->response_bytes == 1048576);
	CHECK_STR(service->upstream, "https://example.org/v1");
	CHECK_STR(service->methods.items[0], "POST");
	CHECK(service->visibility == VISIBILITY_GLOBAL && config.service_cidrs.count == 1);
	config_done(&config);
	const char *bad[] = {
		"[services.main]\nsecret = \"env:CLOCHE_KEY\"\n",
		"[services.main]\nupstream = \"https://example.org\"\nsecret = \"sealed\"\n",
		"[services.main]\nupstream = \"https://example.org\"\nuser = \"x\"\n",
		"[services.api]\nupstream = \"https://example.org\"\n",
		"[services]\nallow_cidrs = [\"10.1.0.1/16\"]\n",
		"[services]\nother = 1\n",
	};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		CHECK(configure(bad[i], &config, &err) < 0);
		config_done(&config);
	}
}

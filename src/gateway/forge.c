#include "gateway/forge.h"

#include <string.h>

#include "base/io.h"
#include "base/mem.h"
#include "gateway/forge_impl.h"

enum { TEST_MS = 20 * 1000 };

struct forgeway *forgeway_new(const struct forgeway_config *config)
{
	struct forgeway *forgeway = mem_new(struct forgeway);

	forgeway->config = *config;
	return forgeway;
}

void forgeway_free(struct forgeway *forgeway)
{
	if (!forgeway)
		return;
	forge_pull_drop_all(forgeway);
	forge_token_drop_all(forgeway);
	forge_call_drop_all(forgeway);
	mem_freep(&forgeway);
}

void forgeway_forget(struct forgeway *forgeway, const char *run)
{
	forge_pull_forget(forgeway, run);
	forge_token_forget(forgeway, run);
}

static int test_auth(const struct forgeway *forgeway, const struct forge *forge, char **ret,
                     struct err *err)
{
	char *token = NULL;
	int r = forge->app_id ? forge_app_jwt(forge, io_real_ms(), &token, err)
	                      : forge_secret_read(forgeway, forge, &token, err);

	if (r == 0)
		*ret = forge_auth(forge, token ? token : "", forge->app_id != NULL);
	forge_wipe(&token);
	return r;
}

void forgeway_test(struct forgeway *forgeway, const struct forge *forge, trial_on_end on_tested,
                   void *ctx)
{
	auto_free char *url = mem_printf("%s/%s", forge->api_url, forge->app_id ? "app" : "user");
	struct strings headers = {0};
	struct upstream_call call = {
		.method = "GET", .url = url, .headers = &headers, .timeout_ms = TEST_MS};
	struct err err = {0};
	char *auth = NULL;

	forge_call_fill(forge, &call);
	if (test_auth(forgeway, forge, &auth, &err) < 0) {
		trial_fail(forgeway->config.loop, &err, on_tested, ctx);
		return;
	}
	strings_take(&headers, mem_printf("Authorization: %s", auth));
	strings_add(&headers, "Accept: application/json");
	strings_add(&headers, "User-Agent: cloche");
	trial_start(forgeway->config.upstreams, &call, on_tested, ctx);
	forge_wipe(&auth);
	explicit_bzero(headers.items[0], strlen(headers.items[0]));
	strings_done(&headers);
}

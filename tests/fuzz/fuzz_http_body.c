/* Bodies of POST /sandboxes, /environments and execs: whatever the bytes, they are read or refused
 * as invalid, and what was read is valid. The first byte chooses the body. */
#include "api/decode.h"
#include "api/environments.h"
#include "api/schema.h"
#include "base/must.h"
#include "model/policy.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static void try_sandbox(const json_t *body, const struct config *config)
{
	struct spec spec;
	struct err err = {0};

	if (decode_spec(body, config, &spec, &err) < 0) {
		must(err.code != ERR_OK && err.code != ERR_INTERNAL && err.msg[0]);
		return;
	}
	must(spec_validate(&spec, &err) == 0);
	spec_done(&spec);
}

static void try_exec(const json_t *body, const struct config *config)
{
	const struct id sandbox = {"sb_00000000000000000000"};
	struct decode_exec decoded;
	struct err err = {0};

	if (decode_exec(body, &sandbox, &config->profiles[0].spec, &decoded, &err) < 0) {
		must(err.code != ERR_OK && err.code != ERR_INTERNAL && err.msg[0]);
		return;
	}
	must(decoded.exec->argv.count > 0);
	decode_exec_done(&decoded);
}

static void try_environment(const json_t *body, const struct config *config)
{
	auto_(environment_freep) struct environment *environment = environment_new("fuzz");
	struct policy policy;
	struct err err = {0};

	environment->level = ENVIRONMENT_CUSTOM;
	if (environment_decode(body, environment, &err) < 0) {
		must(err.code != ERR_OK && err.code != ERR_INTERNAL && err.msg[0]);
		return;
	}
	if (policy_compile(environment, NULL, &policy, &err) < 0)
		must(err.code == ERR_TOO_LARGE);
	else
		policy_done(&policy);
	json_decref(environment_encode(environment));
}

static const struct {
	char mark;
	const char *schema;
	void (*try)(const json_t *body, const struct config *config);
} bodies[] = {
	{'e', "ExecRequest", try_exec},
	{'n', "EnvironmentRequest", try_environment},
	{'\0', "SandboxRequest", try_sandbox}, /* every other mark */
};

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	size_t kind = 0;
	struct config config;
	struct err err = {0};
	json_t *body = NULL;

	if (len == 0)
		return 0;
	while (bodies[kind].mark != '\0' && bodies[kind].mark != (char)bytes[0])
		kind++;
	config_init(&config);
	if (schema_read(schema_find(bodies[kind].schema), (const char *)bytes + 1, len - 1, &body,
	                &err) < 0)
		must(err.code == ERR_INVALID && err.msg[0]);
	else
		bodies[kind].try(body, &config);
	json_decref(body);
	config_done(&config);
	return 0;
}

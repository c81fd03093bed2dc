/* Bodies of POST /sandboxes and POST execs: whatever the bytes, they are read or refused as
 * invalid, and what was read is valid. The first byte chooses the body. */
#include "api/decode.h"
#include "api/schema.h"
#include "base/must.h"

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

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	bool is_exec = len > 0 && bytes[0] == 'e';
	const char *schema = is_exec ? "ExecRequest" : "SandboxRequest";
	struct config config;
	struct err err = {0};
	json_t *body = NULL;

	if (len == 0)
		return 0;
	config_init(&config);
	if (schema_read(schema_find(schema), (const char *)bytes + 1, len - 1, &body, &err) < 0)
		must(err.code == ERR_INVALID && err.msg[0]);
	else if (is_exec)
		try_exec(body, &config);
	else
		try_sandbox(body, &config);
	json_decref(body);
	config_done(&config);
	return 0;
}

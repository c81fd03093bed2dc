#include "api/decode.h"
#include "api/schema.h"
#include "harness/test.h"

static struct err err;

static json_t *body_of(const char *schema, const char *text)
{
	json_t *body = NULL;

	CHECK_INT(schema_read(schema_find(schema), text, strlen(text), &body, &err), 0);
	return body;
}

static int decode(const char *text, struct spec *ret)
{
	json_t *body = body_of("SandboxRequest", text);
	struct config config;
	int r;

	err = (struct err){0};
	config_init(&config);
	r = decode_spec(body, &config, ret, &err);
	config_done(&config);
	json_decref(body);
	return r;
}

TEST(a_request_goes_on_top_of_the_profile)
{
	struct spec spec;

	CHECK_INT(decode("{\"name\":\"a\",\"limits\":{\"memory\":\"64M\",\"cpu\":0.5},"
	                 "\"labels\":{\"k\":\"v\"},\"env\":{\"A\":\"b\"},\"ttl\":\"1m\"}",
	                 &spec),
	          0);
	CHECK_STR(spec.name, "a");
	CHECK_STR(spec.image, "host");
	CHECK_INT(spec.limits.memory, 64 << 20);
	CHECK_INT(spec.limits.cpu_milli, 500);
	CHECK_INT(spec.limits.pids, 512);
	CHECK_STR(strings_value(&spec.labels, "k"), "v");
	CHECK_STR(strings_value(&spec.env, "A"), "b");
	CHECK_INT(spec.ttl_ms, 60000);
	spec_done(&spec);
}

TEST(mounts_are_read_only_unless_said_otherwise)
{
	struct spec spec;

	CHECK_INT(decode("{\"mounts\":[{\"grant\":\"gr_0123456789abcdefghjk\",\"target\":\"/a\"},"
	                 "{\"grant\":\"gr_0123456789abcdefghjk\",\"target\":\"/b\","
	                 "\"readOnly\":false}]}",
	                 &spec),
	          0);
	CHECK_INT(spec.mount_count, 2);
	CHECK(spec.mounts[0].read_only);
	CHECK(!spec.mounts[1].read_only);
	spec_done(&spec);
}

TEST(impossible_values_are_refused)
{
	static const char *const bodies[] = {
		"{\"limits\":{\"memory\":1}}",
		"{\"limits\":{\"memory\":-5}}",
		"{\"limits\":{\"cpu\":\"x\"}}",
		"{\"env\":{\"A=B\":\"x\"}}",
		"{\"env\":{\"1A\":\"x\"}}",
		"{\"labels\":{\"UP\":\"x\"}}",
		"{\"name\":\"Not A Name\"}",
		"{\"cwd\":\"relative\"}",
		"{\"user\":\"-\"}",
		"{\"ttl\":\"soon\"}",
	};
	struct spec spec;

	for (size_t i = 0; i < ARRAY_LEN(bodies); i++) {
		CHECK(decode(bodies[i], &spec) < 0);
		CHECK_INT(err.code, ERR_INVALID);
	}
	CHECK(decode("{\"profile\":\"defualt\"}", &spec) < 0);
	CHECK_INT(err.code, ERR_NOT_FOUND);
	CHECK_HAS(err.msg, "default");
}

static int decode_command(const char *text, struct decode_exec *ret)
{
	json_t *body = body_of("ExecRequest", text);
	const struct id sandbox = {"sb_0123456789abcdefghjk"};
	struct spec spec = {0};
	int r;

	err = (struct err){0};
	spec_init(&spec);
	strings_set(&spec.env, "A", "of the sandbox");
	r = decode_exec(body, &sandbox, &spec, ret, &err);
	spec_done(&spec);
	json_decref(body);
	return r;
}

TEST(a_command_takes_what_it_leaves_out_from_the_sandbox)
{
	struct decode_exec decoded;

	CHECK_INT(decode_command("{\"shell\":\"echo\",\"env\":{\"B\":\"c\"}}", &decoded), 0);
	CHECK_INT(decoded.exec->argv.count, 3);
	CHECK_STR(decoded.exec->argv.items[0], "/bin/sh");
	CHECK_STR(decoded.exec->user, "agent");
	CHECK_STR(decoded.exec->cwd, "/workspace");
	CHECK_STR(strings_value(&decoded.env, "A"), "of the sandbox");
	CHECK_STR(strings_value(&decoded.env, "B"), "c");
	CHECK_INT(decoded.rows, 24);
	CHECK(!decoded.has_stdin);
	decode_exec_done(&decoded);
}

TEST(impossible_commands_are_refused)
{
	static const char *const bodies[] = {
		"{}",
		"{\"argv\":[]}",
		"{\"argv\":[\"\"]}",
		"{\"argv\":[\"a\"],\"shell\":\"a\"}",
		"{\"argv\":[\"a\"],\"cwd\":\"x\"}",
		"{\"argv\":[\"a\"],\"user\":\"a b\"}",
		"{\"argv\":[\"a\"],\"rows\":70000}",
		"{\"argv\":[\"a\"],\"background\":true,\"attach\":true}",
		"{\"argv\":[\"a\"],\"input\":\"x\",\"attach\":true}",
	};
	struct decode_exec decoded;

	for (size_t i = 0; i < ARRAY_LEN(bodies); i++) {
		CHECK(decode_command(bodies[i], &decoded) < 0);
		CHECK_INT(err.code, ERR_INVALID);
	}
}

TEST(signals_have_names_and_numbers)
{
	int number = 0;

	CHECK_INT(decode_signal("TERM", &number, &err), 0);
	CHECK_INT(number, 15);
	CHECK_INT(decode_signal("sigkill", &number, &err), 0);
	CHECK_INT(number, 9);
	CHECK_INT(decode_signal("64", &number, &err), 0);
	CHECK_INT(number, 64);
	CHECK(decode_signal("0", &number, &err) < 0);
	CHECK(decode_signal("65", &number, &err) < 0);
	CHECK(decode_signal("SIGNOTHING", &number, &err) < 0);
	CHECK(decode_signal("", &number, &err) < 0);
}

#include "api/schema.h"
#include "harness/test.h"

static struct err err;

/* The error message, or "" when it is accepted. */
static const char *refused(const char *schema, const char *text)
{
	json_t *body = NULL;

	err = (struct err){0};
	if (schema_read(schema_find(schema), text, strlen(text), &body, &err) == 0) {
		CHECK(json_is_object(body));
		json_decref(body);
		return "";
	}
	CHECK_INT(err.code, ERR_INVALID);
	return err.msg;
}

TEST(good_bodies_are_read)
{
	CHECK_STR(refused("SandboxRequest", ""), "");
	CHECK_STR(refused("SandboxRequest", "{}"), "");
	CHECK_STR(refused("SandboxRequest", "{\"name\":null,\"ttl\":null}"), "");
	CHECK_STR(refused("SandboxRequest", "{\"limits\":{\"memory\":\"64M\",\"cpu\":1.5}}"), "");
	CHECK_STR(refused("ExecRequest", "{\"argv\":[\"a\"],\"env\":{\"A\":\"b\"}}"), "");
}

TEST(an_unknown_field_is_named_with_its_place_and_the_nearest)
{
	CHECK_STR(refused("SandboxRequest", "{\"lables\":{}}"),
	          "unknown field 'lables' (did you mean 'labels'?)");
	CHECK_STR(refused("SandboxRequest", "{\"limits\":{\"memroy\":1}}"),
	          "unknown field 'limits.memroy' (did you mean 'limits.memory'?)");
	CHECK_HAS(refused("SandboxRequest",
	                  "{\"mounts\":[{\"grant\":\"g\",\"target\":\"/a\",\"readonly\":true}]}"),
	          "did you mean 'mounts[0].readOnly'?");
	CHECK_STR(refused("SandboxRequest", "{\"zzzzzzzzzz\":1}"), "unknown field 'zzzzzzzzzz'");
}

TEST(wrong_types_and_missing_fields_are_named)
{
	CHECK_STR(refused("SandboxRequest", "{\"name\":1}"), "'name' must be a text");
	CHECK_STR(refused("SandboxRequest", "{\"env\":{\"A\":1}}"),
	          "'env' must be an object of texts");
	CHECK_STR(refused("SandboxRequest", "{\"degraded\":\"yes\"}"),
	          "'degraded' must be true or false");
	CHECK_STR(refused("SandboxRequest", "{\"limits\":null}"), "'limits' must be an object");
	CHECK_STR(refused("SandboxRequest", "{\"mounts\":[{\"target\":\"/a\"}]}"),
	          "'mounts[0].grant' is missing");
	CHECK_STR(refused("SandboxRequest", "{\"mounts\":[7]}"),
	          "'mounts' must be a list of objects");
	CHECK_STR(refused("ExecRequest", "{\"rows\":-1}"),
	          "'rows' must be a whole number, 0 or more");
	CHECK_STR(refused("ExecRequest", "{\"argv\":[1]}"), "'argv' must be a list of texts");
	CHECK_STR(refused("SignalRequest", "{}"), "'signal' is missing");
}

TEST(what_is_not_one_strict_json_object_is_refused)
{
	CHECK_HAS(refused("SandboxRequest", "{\"name\":\"a\",\"name\":\"b\"}"), "not valid JSON");
	CHECK_HAS(refused("SandboxRequest", "{} {}"), "not valid JSON");
	CHECK_HAS(refused("SandboxRequest", "{\"name\":\"\xff\"}"), "not valid JSON");
	CHECK_HAS(refused("SandboxRequest", "{'name':1}"), "not valid JSON");
	CHECK_STR(refused("SandboxRequest", "[]"), "the body must be a JSON object");
	CHECK_STR(refused("SandboxRequest", "{\"name\":\"a\\u0000b\"}"), "'name' contains a NUL");
	CHECK_STR(refused("SandboxRequest", "{\"env\":{\"A\":\"a\\u0000b\"}}"),
	          "'env' contains a NUL");
}

TEST(depth_is_bounded_outside_of_texts)
{
	char deep[512] = "{\"x\":";
	char text[512] = "{\"name\":\"";

	memset(deep + 5, '[', 200);
	CHECK_STR(refused("SandboxRequest", deep), "the JSON is nested too deeply");
	memset(text + 9, '[', 200);
	memcpy(text + 209, "\"}", 3);
	CHECK_STR(refused("SandboxRequest", text), "");
}

TEST(durations_are_milliseconds_or_texts)
{
	json_t *number = json_integer(1500), *text = json_string("30s"), *bad = json_string("soon");
	uint64_t ms = 0;

	CHECK_INT(schema_ms(number, "ttl", &ms, &err), 0);
	CHECK_INT(ms, 1500);
	CHECK_INT(schema_ms(text, "ttl", &ms, &err), 0);
	CHECK_INT(ms, 30000);
	CHECK(schema_ms(bad, "ttl", &ms, &err) < 0);
	json_decref(number);
	json_decref(text);
	json_decref(bad);
}

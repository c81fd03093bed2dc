#include "api/encode.h"
#include "api/inside_run.h"
#include "api/tail.h"
#include "harness/test.h"
#include "http/base64.h"

TEST(bytes_become_valid_text_and_exact_base64)
{
	json_t *object = json_object();

	encode_put_bytes(object, "plain", "h\xc3\xa9", 3);
	encode_put_bytes(object, "broken", "a\xff\xc3(\xe2\x82", 6);
	encode_put_bytes(object, "nul", "a\0b", 3);
	CHECK_STR(json_string_value(json_object_get(object, "plain")), "h\xc3\xa9");
	CHECK(!json_object_get(object, "plainBase64"));
	CHECK_STR(json_string_value(json_object_get(object, "broken")),
	          "a\xef\xbf\xbd\xef\xbf\xbd(\xef\xbf\xbd\xef\xbf\xbd");
	CHECK_STR(json_string_value(json_object_get(object, "brokenBase64")), "Yf/DKOKC");
	CHECK_INT(json_string_length(json_object_get(object, "nul")), 3);
	json_decref(object);
}

TEST(base64_pads)
{
	char out[BASE64_SIZE(3)];

	base64_encode(out, "", 0);
	CHECK_STR(out, "");
	base64_encode(out, "f", 1);
	CHECK_STR(out, "Zg==");
	base64_encode(out, "fo", 2);
	CHECK_STR(out, "Zm8=");
	base64_encode(out, "foo", 3);
	CHECK_STR(out, "Zm9v");
}

TEST(a_line_of_doctor_becomes_an_object)
{
	json_t *check = encode_check("cgroup\tok\tv1\t");

	CHECK_STR(json_string_value(json_object_get(check, "name")), "cgroup");
	CHECK_STR(json_string_value(json_object_get(check, "status")), "ok");
	CHECK(json_is_null(json_object_get(check, "remedy")));
	json_decref(check);
	check = encode_check("short");
	CHECK_STR(json_string_value(json_object_get(check, "detail")), "");
	json_decref(check);
}

static struct tail_exit exit_of(const char *text)
{
	struct outlog_record record = {.stream = OUTLOG_EXIT,
	                               .bytes = (const uint8_t *)text,
	                               .len = (uint32_t)strlen(text)};
	struct tail_exit ret;

	tail_parse_exit(&record, &ret);
	return ret;
}

TEST(exit_records_are_read_or_count_as_lost)
{
	struct tail_exit end = exit_of("code=7 reason=exited");

	CHECK_INT(end.signal, 0);
	CHECK_INT(end.code, 7);
	CHECK_STR(end.reason, "exited");
	end = exit_of("signal=9 reason=oom");
	CHECK_INT(end.signal, 9);
	CHECK_STR(end.reason, "oom");
	end = exit_of("code=1");
	CHECK_STR(end.reason, "exited");
	end = exit_of("garbage \x01");
	CHECK_INT(end.signal, 9);
	CHECK_STR(end.reason, "lost");
	end = exit_of("");
	CHECK_STR(end.reason, "lost");
}

static struct err complaint(const char *text)
{
	struct err err = {0};

	inside_parse_error(text, strlen(text), &err);
	return err;
}

TEST(what_a_file_operation_complains_of_becomes_an_error)
{
	struct err err = complaint("not_found\t/a: No such file\nmore");

	CHECK_INT(err.code, ERR_NOT_FOUND);
	CHECK_STR(err.msg, "/a: No such file");
	err = complaint("no_space\tfull");
	CHECK_INT(err.code, ERR_NO_SPACE);
	err = complaint("ok\tnot an error");
	CHECK_INT(err.code, ERR_IO);
	err = complaint("nonsense");
	CHECK_INT(err.code, ERR_IO);
	err = complaint("");
	CHECK_INT(err.code, ERR_IO);
	CHECK(err.msg[0]);
	err = complaint("invalid\t\x1b[2J");
	CHECK(!strchr(err.msg, 0x1b));
}

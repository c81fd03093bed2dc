/*
 * The validator against Debian's json-schema-test-suite (every required test of draft 7, and of
 * draft 2020-12 where the suite has it; CLOCHE_JSON_SCHEMA_SUITE names another copy), and against
 * vectors of our own for every keyword of draft 2020-12.
 */
#include <dirent.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/str.h"
#include "harness/test.h"
#include "model/jsonschema.h"
#include "model/jsonvalue.h"

#include "jsonschema_vectors.h"

static struct jsonschema_report report;

/* --- a value as text again --- */

static void put(struct buf *out, const char *text, size_t len)
{
	CHECK_INT(buf_put(out, text, len), 0);
}

static void put_string(struct buf *out, const char *text, size_t len)
{
	put(out, "\"", 1);
	for (size_t i = 0; i < len; i++) {
		char escape[8];

		if ((unsigned char)text[i] >= 0x20 && text[i] != '"' && text[i] != '\\') {
			put(out, &text[i], 1);
			continue;
		}
		snprintf(escape, sizeof(escape), "\\u%04x", (unsigned)text[i]);
		put(out, escape, 6);
	}
	put(out, "\"", 1);
}

static void put_number(struct buf *out, const struct decimal *number)
{
	if (number->is_negative)
		put(out, "-", 1);
	put(out, number->len > 0 ? number->digits : "0", MAX(number->len, (size_t)1));
	CHECK_INT(buf_printf(out, "e%lld", (long long)number->exponent), 0);
}

static void put_value(struct buf *out, const struct jsonvalue *value)
{
	bool is_object = value->type == JSONVALUE_OBJECT;

	if (value->type == JSONVALUE_NULL)
		put(out, "null", 4);
	else if (value->type == JSONVALUE_BOOLEAN)
		put(out, value->is_true ? "true" : "false", value->is_true ? 4 : 5);
	else if (value->type == JSONVALUE_NUMBER)
		put_number(out, &value->number);
	else if (value->type == JSONVALUE_STRING)
		put_string(out, value->text, value->count);
	if (value->type < JSONVALUE_ARRAY)
		return;
	put(out, is_object ? "{" : "[", 1);
	for (size_t i = 0; i < value->count; i++) {
		if (i > 0)
			put(out, ",", 1);
		if (is_object) {
			put_string(out, value->members[i].name, value->members[i].len);
			put(out, ":", 1);
		}
		put_value(out, is_object ? &value->members[i].value : &value->items[i]);
	}
	put(out, is_object ? "}" : "]", 1);
}

static char *text_of(const struct jsonvalue *value)
{
	struct buf out;
	char *text;

	buf_init(&out, 1 << 20);
	put_value(&out, value);
	text = buf_take_string(&out);
	buf_done(&out);
	return text;
}

/* --- suites --- */

static struct jsonschema_document documents[400];
static struct jsonschema_options options = {.documents = documents};
static size_t remotes_len;
static unsigned passed, failed;

static void tell_counts(const char *what)
{
	test_note("%s: %u passed, %u failed", what, passed, failed);
}

static char *read_whole(const char *path, size_t *ret_len)
{
	FILE *file = fopen(path, "re");
	char *text;
	struct stat stat;

	CHECK(file != NULL);
	CHECK_INT(fstat(fileno(file), &stat), 0);
	text = mem_zalloc((size_t)stat.st_size + 1);
	*ret_len = fread(text, 1, (size_t)stat.st_size, file);
	fclose(file);
	return text;
}

static int add_remote(const char *path, const struct stat *stat, int type, struct FTW *ftw)
{
	struct jsonschema_document *document = &documents[options.document_count];

	if (type != FTW_F || !str_has_suffix(path, ".json"))
		return 0;
	CHECK(options.document_count < ARRAY_LEN(documents));
	document->uri = mem_printf("http://localhost:1234%s", path + remotes_len);
	document->text = read_whole(path, &document->len);
	options.document_count++;
	return 0;
}

static void run_case(const char *where, struct jsonschema *schema, const struct jsonvalue *test)
{
	auto_free char *text = text_of(jsonvalue_get(test, "data"));
	bool wanted = jsonvalue_get(test, "valid")->is_true;
	struct err err = {0};
	int r = jsonschema_validate(schema, text, strlen(text), &report, &err);

	if (r == 0 && report.is_valid == wanted) {
		CHECK(report.is_valid == (report.count == 0));
		passed++;
		return;
	}
	failed++;
	fprintf(stderr, "%s: %s: wanted %s; %s %s\n", where,
	        jsonvalue_get(test, "description")->text, wanted ? "valid" : "invalid", err.msg,
	        report.count ? report.errors[0].reason : "");
}

static void run_group(const char *file, const struct jsonvalue *group)
{
	auto_free char *text = text_of(jsonvalue_get(group, "schema"));
	auto_free char *where =
		mem_printf("%s: %s", file, jsonvalue_get(group, "description")->text);
	const struct jsonvalue *tests = jsonvalue_get(group, "tests");
	struct jsonschema *schema = NULL;
	struct err err = {0};

	if (jsonschema_compile(text, strlen(text), &options, &schema, &err) < 0) {
		fprintf(stderr, "%s: %s\n", where, err.msg);
		failed += (unsigned)tests->count;
		return;
	}
	for (size_t i = 0; i < tests->count; i++)
		run_case(where, schema, &tests->items[i]);
	jsonschema_free(schema);
}

static void run_text(const char *name, const char *text, size_t len)
{
	struct jsontree tree;
	struct err err = {0};

	if (jsontree_parse(text, len, &tree, &err) < 0)
		test_fail(__FILE__, __LINE__, "%s: %s", name, err.msg);
	for (size_t i = 0; i < tree.root.count; i++)
		run_group(name, &tree.root.items[i]);
	jsontree_done(&tree);
}

static void run_folder(const char *folder)
{
	struct dirent **names;
	int count = scandir(folder, &names, NULL, alphasort);

	CHECK(count > 0);
	for (int i = 0; i < count; i++) {
		auto_free char *path = mem_printf("%s/%s", folder, names[i]->d_name);
		size_t len;

		if (str_has_suffix(path, ".json")) {
			auto_free char *text = read_whole(path, &len);

			run_text(names[i]->d_name, text, len);
		}
		free(names[i]);
	}
	free(names);
}

static const char *suite(void)
{
	const char *own = getenv("CLOCHE_JSON_SCHEMA_SUITE");

	return own ? own : "/usr/share/json-schema-test-suite";
}

static void run_suite(const char *draft, enum jsonschema_draft number)
{
	auto_free char *folder = mem_printf("%s/tests/%s", suite(), draft);
	auto_free char *remotes = mem_printf("%s/remotes", suite());
	struct stat stat_;

	if (stat(folder, &stat_) < 0)
		SKIP("%s is not here", folder);
	remotes_len = strlen(remotes);
	CHECK_INT(nftw(remotes, add_remote, 8, FTW_PHYS), 0);
	options.draft = number;
	run_folder(folder);
	for (size_t i = 0; i < options.document_count; i++) {
		free((void *)documents[i].uri);
		free((void *)documents[i].text);
	}
	tell_counts(folder);
	CHECK_INT(failed, 0);
}

TEST(required_tests_of_draft_7)
{
	run_suite("draft7", JSONSCHEMA_DRAFT7);
}

TEST(required_tests_of_draft_2020_12)
{
	run_suite("draft2020-12", JSONSCHEMA_2020_12);
}

TEST(own_vectors_of_draft_2020_12)
{
	options.draft = JSONSCHEMA_2020_12;
	run_text("vectors", (const char *)jsonschema_vectors, jsonschema_vectors_LEN);
	tell_counts("own vectors of draft 2020-12");
	CHECK_INT(failed, 0);
}

/* --- what is refused, and how it is told --- */

static void check_refused(const char *text, const char *why)
{
	struct jsonschema *schema = NULL;
	struct err err = {0};

	CHECK_INT(jsonschema_compile(text, strlen(text), NULL, &schema, &err), -1);
	CHECK_HAS(err.msg, why);
}

TEST(a_wrong_schema_is_refused_with_its_place)
{
	check_refused("{\"type\": \"strin\"}", "'#/type' is none of null");
	check_refused("{\"properties\": {\"a/b\": {\"minLength\": -1}}}",
	              "'#/properties/a~1b/minLength' is no whole number");
	check_refused("{\"allOf\": [true, 3]}", "'#/allOf/1' is no schema");
	check_refused("{\"pattern\": \"(a\"}", "'#/pattern' the pattern '(a'");
	check_refused("{\"pattern\": \"(a)\\\\1\"}", "back references");
	check_refused("{\"$ref\": \"#/nowhere\"}", "'#/$ref' leads to nothing");
	check_refused("{\"$ref\": \"http://elsewhere.example/x\"}", "none is fetched");
	check_refused("{\"$schema\": \"http://json-schema.org/draft-04/schema#\"}",
	              "neither draft 2020-12 nor draft 7");
	check_refused("{\"multipleOf\": 0}", "not above 0");
	check_refused("{\"$defs\": {\"a\": {\"$id\": \"x\"}, \"b\": {\"$id\": \"x\"}}}",
	              "of another, too");
	check_refused("{\"$id\": \"http://a.example/b#c\"}", "use \"$anchor\"");
	check_refused("{\"a\": 1,\n \"a\": 2}", "a name twice");
	check_refused("{\"a\": ,}", "line 1, column 7");
	check_refused("[]", "is no schema");
}

static struct jsonschema *compiled(const char *text)
{
	struct jsonschema *schema = NULL;
	struct err err = {0};

	if (jsonschema_compile(text, strlen(text), NULL, &schema, &err) < 0)
		test_fail(__FILE__, __LINE__, "%s", err.msg);
	return schema;
}

TEST(an_error_says_where_in_both_and_why)
{
	struct jsonschema *schema =
		compiled("{\"properties\": {\"list\": {\"items\": {\"$ref\": \"#/$defs/n\"}}},"
	                 " \"required\": [\"name\"], \"$defs\": {\"n\": {\"type\": \"number\"}}}");
	static const char value[] = "{\"list\": [1, \"x\"]}";
	struct err err = {0};
	char text[400];

	CHECK_INT(jsonschema_validate(schema, value, strlen(value), &report, &err), 0);
	CHECK(!report.is_valid);
	CHECK_INT(report.count, 2);
	CHECK_STR(report.errors[0].instance_path, "");
	CHECK_STR(report.errors[0].schema_path, "#/required");
	CHECK_STR(report.errors[0].reason, "has no 'name'");
	CHECK_STR(report.errors[1].instance_path, "/list/1");
	CHECK_STR(report.errors[1].schema_path, "#/$defs/n/type");
	jsonschema_error_text(&report.errors[1], text, sizeof(text));
	CHECK_STR(text, "'/list/1' is not of the type number (#/$defs/n/type)");
	jsonschema_free(schema);
}

TEST(errors_are_bounded)
{
	struct jsonschema *schema = compiled("{\"items\": {\"type\": \"string\"}}");
	struct err err = {0};
	char value[2002] = "[";

	for (size_t i = 0; i < 999; i++)
		memcpy(value + 1 + 2 * i, "1,", 2);
	memcpy(value + 1999, "1]", 3);
	CHECK_INT(jsonschema_validate(schema, value, strlen(value), &report, &err), 0);
	CHECK_INT(report.count, JSONSCHEMA_ERRORS);
	CHECK(report.is_cut);
	jsonschema_free(schema);
}

static void check_limit(const char *schema_text, const char *value, const char *why)
{
	struct jsonschema *schema = compiled(schema_text);
	struct err err = {0};

	CHECK_INT(jsonschema_validate(schema, value, strlen(value), &report, &err), -1);
	CHECK_INT(err.code, ERR_TOO_LARGE);
	CHECK_HAS(err.msg, why);
	jsonschema_free(schema);
}

TEST(hostile_schemas_end)
{
	check_limit("{\"$ref\": \"#\"}", "1", "without end");
	check_limit("{\"$defs\": {\"a\": {\"$ref\": \"#/$defs/b\"}, \"b\": {\"$ref\": "
	            "\"#/$defs/a\"}}, \"$ref\": \"#/$defs/a\"}",
	            "1", "without end");
	/* every level doubles the work: 2^40 */
	char text[8192] = "{\"$defs\": {\"l0\": {\"not\": {\"const\": 2}}";
	size_t at = strlen(text);

	for (int i = 1; i <= 40; i++)
		at += (size_t)snprintf(text + at, sizeof(text) - at,
		                       ", \"l%d\": {\"allOf\": [{\"$ref\": \"#/$defs/l%d\"}, "
		                       "{\"$ref\": \"#/$defs/l%d\"}]}",
		                       i, i - 1, i - 1);
	snprintf(text + at, sizeof(text) - at, "}, \"$ref\": \"#/$defs/l40\"}");
	check_limit(text, "1", "steps");
}

TEST(deep_and_broken_values_are_no_json)
{
	static const char *const broken[] = {"",
	                                     "{",
	                                     "[1,]",
	                                     "{\"a\":1,}",
	                                     "01",
	                                     "1.",
	                                     "+1",
	                                     "\"\\x\"",
	                                     "\"\xff\"",
	                                     "nul",
	                                     "1 2",
	                                     "\"a",
	                                     "\"\\",
	                                     "[1 2]",
	                                     "{1:2}",
	                                     "1e9999999999999999999",
	                                     "\"\\ud800\"",
	                                     "\"\n\""};
	struct jsonschema *schema = compiled("true");
	struct err err = {0};
	char deep[400];

	for (size_t i = 0; i < ARRAY_LEN(broken); i++) {
		if (jsonschema_validate(schema, broken[i], strlen(broken[i]), &report, &err) == 0)
			test_fail(__FILE__, __LINE__, "accepted: %s", broken[i]);
	}
	memset(deep, '[', sizeof(deep));
	CHECK_INT(jsonschema_validate(schema, deep, sizeof(deep), &report, &err), -1);
	CHECK_HAS(err.msg, "too many levels");
	jsonschema_free(schema);
}

/* Scopes: what people write, what roles have, and that sets only shrink. */
#include "harness/test.h"

#include "base/mem.h"
#include "base/str.h"
#include "model/scope.h"

static struct strings objects;
static struct err err;

static void define(const char *name)
{
	strings_set(&objects, name, "for the test");
}

static void words(struct strings *list, const char *text)
{
	while (*text != '\0') {
		size_t len = strcspn(text, " ");

		strings_take(list, mem_strndup(text, len));
		text += len;
		text += strspn(text, " ");
	}
}

/* The message of a refusal; "" when it was taken. */
static const char *parse(const char *text, struct scopes *ret)
{
	struct strings list = {0};
	struct scopes own = {0};
	int r;

	err = (struct err){0};
	words(&list, text);
	r = scopes_parse(&list, &objects, ret ? ret : &own, &err);
	strings_done(&list);
	scopes_done(&own);
	if (r < 0)
		CHECK_INT(err.code, ERR_INVALID);
	return r < 0 ? err.msg : "";
}

static void check_text(const char *written, const char *meant)
{
	struct scopes scopes = {0};
	auto_free char *text = NULL;

	CHECK_STR(parse(written, &scopes), "");
	text = scopes_format(&scopes);
	CHECK_STR(text, meant);
	scopes_done(&scopes);
}

TEST(what_is_written_is_what_is_meant)
{
	define("contacts");
	check_text("sandboxes:read", "sandboxes:read");
	check_text("sandboxes:write", "sandboxes:read sandboxes:write");
	check_text("keys:*", "keys:read keys:write");
	check_text("obs:*", "obs:read");
	check_text("contacts:write", "contacts:read contacts:write");
	check_text("contacts:read sandboxes:read", "sandboxes:read contacts:read");
	check_text("sandboxes:read sandboxes:read", "sandboxes:read");
	strings_done(&objects);
}

TEST(an_unknown_scope_names_the_nearest)
{
	define("contacts");
	CHECK_HAS(parse("sandbox:read", NULL), "did you mean 'sandboxes:read'");
	CHECK_HAS(parse("sandboxes:wrte", NULL), "did you mean 'sandboxes:write'");
	CHECK_HAS(parse("contact:read", NULL), "did you mean 'contacts:read'");
	CHECK_HAS(parse("readonly", NULL), "did you mean 'read_only'");
	CHECK_HAS(parse("sandboxes", NULL), "unknown scope 'sandboxes'");
	CHECK_HAS(parse("sandboxes:", NULL), "unknown scope");
	CHECK_HAS(parse(":read", NULL), "unknown scope");
	CHECK_HAS(parse("*:*", NULL), "unknown scope");
	CHECK_HAS(parse("logs:write", NULL), "can only be read");
	CHECK_HAS(parse("", NULL), "empty list");
	strings_done(&objects);
}

TEST(what_is_minted_cannot_be_asked_for)
{
	struct scopes full = {0};

	CHECK_HAS(parse("task:write", NULL), "only given to runs");
	scopes_preset(false, NULL, &full);
	CHECK(!scopes_has(&full, SCOPE_TASK_WRITE));
	CHECK(scopes_has(&full, SCOPE_LLM_GATEWAY_READ));
	scopes_preset(true, NULL, &full);
	CHECK(!scopes_has(&full, SCOPE_LLM_GATEWAY_READ));
	scopes_preset(false, NULL, &full);
	CHECK(!scopes_has(&full, SCOPE_LOGS_WRITE));
	CHECK(scopes_has(&full, SCOPE_AUDIT_READ));
	scopes_done(&full);
}

TEST(presets_are_everything_that_reads_and_everything)
{
	struct scopes read = {0}, full = {0};
	const char *extra = NULL;

	define("contacts");
	scopes_preset(true, &objects, &read);
	scopes_preset(false, &objects, &full);
	for (int scope = 0; scope < SCOPE_COUNT_; scope++)
		CHECK(!scopes_has(&read, (enum scope)scope) || scope % 2 == 0);
	CHECK(scopes_has_text(&read, "contacts:read"));
	CHECK(!scopes_has_text(&read, "contacts:write"));
	CHECK(scopes_within(&read, &full, &extra));
	CHECK(!scopes_within(&full, &read, &extra));
	CHECK_STR(extra, "sandboxes:write");
	scopes_done(&read);
	scopes_done(&full);
	strings_done(&objects);
}

TEST(each_role_has_what_the_lesser_has)
{
	struct scopes roles[ROLE_COUNT_] = {{0}};

	define("contacts");
	for (int role = 0; role < ROLE_COUNT_; role++)
		scopes_of_role((enum role)role, &objects, &roles[role]);
	CHECK(scopes_within(&roles[ROLE_VIEWER], &roles[ROLE_MEMBER], NULL));
	CHECK(scopes_within(&roles[ROLE_MEMBER], &roles[ROLE_ADMIN], NULL));
	CHECK(!scopes_has(&roles[ROLE_VIEWER], SCOPE_SANDBOXES_WRITE));
	CHECK(scopes_has(&roles[ROLE_VIEWER], SCOPE_SANDBOXES_READ));
	CHECK(!scopes_has(&roles[ROLE_MEMBER], SCOPE_TEAMS_WRITE));
	CHECK(!scopes_has(&roles[ROLE_MEMBER], SCOPE_AUDIT_READ));
	CHECK(scopes_has(&roles[ROLE_ADMIN], SCOPE_AUDIT_READ));
	CHECK(!scopes_has_text(&roles[ROLE_VIEWER], "contacts:write"));
	CHECK(scopes_has_text(&roles[ROLE_MEMBER], "contacts:write"));
	for (int role = 0; role < ROLE_COUNT_; role++)
		scopes_done(&roles[role]);
	strings_done(&objects);
}

TEST(a_run_has_its_own_two_and_no_credentials)
{
	struct scopes scopes = {0};

	scopes_preset(false, NULL, &scopes);
	scopes_make_run(&scopes);
	CHECK(scopes_has(&scopes, SCOPE_TASK_WRITE));
	CHECK(scopes_has(&scopes, SCOPE_LLM_GATEWAY_READ));
	CHECK(scopes_has(&scopes, SCOPE_SANDBOXES_WRITE));
	CHECK(!scopes_has(&scopes, SCOPE_KEYS_READ));
	CHECK(!scopes_has(&scopes, SCOPE_APPROVALS_WRITE));
	CHECK(!scopes_has(&scopes, SCOPE_TEAMS_WRITE));
	scopes_done(&scopes);
}

TEST(objects_of_ones_own_have_names_of_their_own)
{
	CHECK_INT(scope_check_object("contacts", &err), 0);
	CHECK_INT(scope_check_object("deal_stages2", &err), 0);
	CHECK(scope_check_object("sandboxes", &err) < 0);
	CHECK(scope_check_object("task", &err) < 0);
	CHECK(scope_check_object("", &err) < 0);
	CHECK(scope_check_object("Contacts", &err) < 0);
	CHECK(scope_check_object("2x", &err) < 0);
	CHECK(scope_check_object("a:b", &err) < 0);
}

TEST(texts_of_a_store_come_back)
{
	struct scopes scopes = {0}, back = {0};
	auto_free char *text = NULL, *again = NULL;

	define("contacts");
	CHECK_STR(parse("full", &scopes), "");
	text = scopes_format(&scopes);
	scopes_load(text, &back);
	again = scopes_format(&back);
	CHECK_STR(again, text);
	CHECK(scopes_within(&scopes, &back, NULL) && scopes_within(&back, &scopes, NULL));
	scopes_done(&scopes);
	scopes_done(&back);
	/* Of a newer version: kept, and of no use to anybody. */
	scopes_load("sandboxes:read rockets:write", &back);
	CHECK_INT(back.bits, 1 << SCOPE_SANDBOXES_READ);
	CHECK(scopes_has_text(&back, "rockets:write"));
	scopes_done(&back);
	strings_done(&objects);
}

/* A set of random scopes, closed as scopes_parse makes them. */
static void random_scopes(uint64_t *seed, struct scopes *ret)
{
	static const char *const defined[] = {"a", "b", "c"};
	struct strings list = {0};
	const char *about;
	bool writable;

	for (size_t i = 0; scope_object_at(i, &about, &writable); i++) {
		const char *object = scope_object_at(i, &about, &writable);

		*seed = *seed * 6364136223846793005ULL + 1442695040888963407ULL;
		if ((*seed >> 33) % 3 == 0)
			strings_take(&list, mem_printf("%s:read", object));
		if ((*seed >> 35) % 3 == 0 && writable)
			strings_take(&list, mem_printf("%s:write", object));
	}
	for (size_t i = 0; i < ARRAY_LEN(defined); i++) {
		*seed = *seed * 6364136223846793005ULL + 1442695040888963407ULL;
		if ((*seed >> 33) % 2 == 0)
			strings_take(&list, mem_printf("%s:%s", defined[i],
			                               (*seed >> 35) % 2 ? "read" : "write"));
	}
	*ret = (struct scopes){0};
	if (list.count > 0)
		CHECK_INT(scopes_parse(&list, &objects, ret, &err), 0);
	strings_done(&list);
}

TEST(what_is_in_both_is_in_each)
{
	uint64_t seed = 1;

	define("a");
	define("b");
	define("c");
	for (int i = 0; i < 5000; i++) {
		struct scopes one = {0}, other = {0}, both = {0};

		random_scopes(&seed, &one);
		random_scopes(&seed, &other);
		scopes_copy(&both, &one);
		scopes_intersect(&both, &other);
		CHECK(scopes_within(&both, &one, NULL));
		CHECK(scopes_within(&both, &other, NULL));
		/* Still closed: whoever writes reads. */
		CHECK_INT(both.bits >> 1 & 0x5555555555555555ULL & ~both.bits, 0);
		scopes_done(&one);
		scopes_done(&other);
		scopes_done(&both);
	}
	strings_done(&objects);
}

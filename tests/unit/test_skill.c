#include "model/skill.h"

#include "base/base.h"
#include "base/mem.h"
#include "base/str.h"
#include "harness/test.h"

static const char *about_of(const char *text)
{
	static char kept[4096];
	auto_free char *name = NULL, *about = NULL;
	struct err err = {0};
	if (skill_read_front(text, strlen(text), &name, &about, &err) < 0)
		return NULL;
	CHECK_STR(name, "a-b");
	CHECK(str_copy(kept, sizeof(kept), about));
	return kept;
}

#define FRONT(value) "---\nname: a-b\ndescription: " value "\n---\nrest\n"

TEST(descriptions_in_every_form)
{
	CHECK_STR(about_of(FRONT("plain: with colon")), "plain: with colon");
	CHECK_STR(about_of(FRONT("\"a \\\"b\\\" c\"")), "a \"b\" c");
	CHECK_STR(about_of(FRONT("'it''s'")), "it's");
	CHECK_STR(about_of(FRONT(">\n  one\n  two")), "one two");
	CHECK_STR(about_of(FRONT("|\n  one\n\n  two")), "one\ntwo");
	CHECK_STR(about_of(FRONT("first\n  and on")), "first and on");
	CHECK_STR(about_of("---\r\nname: a-b\r\ndescription: x\r\n---\r\n"), "x");
	CHECK_STR(about_of("---\nmetadata:\n  name: other\nname: \"a-b\"\ndescription: y\n---"),
	          "y");
}

TEST(what_is_no_front_matter)
{
	CHECK(!about_of(""));
	CHECK(!about_of("---"));
	CHECK(!about_of("name: a-b\n"));
	CHECK(!about_of("---\nname: a-b\n---\n"));
	CHECK(!about_of("---\ndescription: x\n---\n"));
	CHECK(!about_of("---\nname: a-b\nname: a-b\ndescription: x\n---\n"));
	CHECK(!about_of("---\nname: -a\ndescription: x\n---\n"));
	CHECK(!about_of("---\nname: ../a\ndescription: x\n---\n"));
	CHECK(!about_of(FRONT("\xff")));
	CHECK(!about_of(FRONT("")));
}

TEST(files_stay_in_their_folder)
{
	static const char *const bad[] = {"",     "/x", "../x", "a/../b", "./a", ".git/x",
	                                  "a//b", "a/", "a b",  "a\\b",   "-x",  "a\nb"};
	auto_(skill_freep) struct skill *skill = mem_new(struct skill);
	struct err err = {0};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		CHECK_INT(skill_add(skill, bad[i], mem_strdup(""), 0, false, &err), -1);
	CHECK_INT(skill_add(skill, "a/b/c.md", mem_strdup("x"), 1, false, &err), 0);
	CHECK_INT(skill_add(skill, "a/b/c.md", mem_strdup("x"), 1, false, &err), -1);
	CHECK_INT(skill_add(skill, "big", mem_zalloc(SKILL_BYTES), SKILL_BYTES, false, &err), -1);
	CHECK_INT(err.code, ERR_TOO_LARGE);
	CHECK_INT(skill_check(skill, NULL, &err), -1);
	const char text[] = "---\nname: s\ndescription: d\n---\n";
	CHECK_INT(skill_add(skill, SKILL_FILE, mem_strdup(text), strlen(text), false, &err), 0);
	CHECK_INT(skill_check(skill, "other", &err), -1);
	CHECK_INT(skill_check(skill, "s", &err), 0);
}

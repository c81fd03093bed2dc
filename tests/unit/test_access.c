/* Who sees and changes which object: every role, team, owner and visibility. */
#include "harness/test.h"

#include "base/str.h"
#include "model/access.h"

static struct caller *make(const char *principal, const char *team, enum role role)
{
	struct caller *caller = caller_new();

	CHECK(str_copy(caller->principal.text, sizeof(caller->principal.text), principal));
	CHECK(str_copy(caller->team.text, sizeof(caller->team.text), team));
	caller->role = role;
	return caller;
}

/* Rows: own object, of the same team, of another team; columns: private, team, global. */
struct expected {
	enum role role;
	enum access own[3], same[3], other[3];
};

static const struct expected table[] = {
	{ROLE_VIEWER,
         {ACCESS_CHANGE, ACCESS_CHANGE, ACCESS_CHANGE},
         {ACCESS_HIDDEN, ACCESS_LOOK, ACCESS_LOOK},
         {ACCESS_HIDDEN, ACCESS_HIDDEN, ACCESS_LOOK}},
	{ROLE_MEMBER,
         {ACCESS_CHANGE, ACCESS_CHANGE, ACCESS_CHANGE},
         {ACCESS_HIDDEN, ACCESS_CHANGE, ACCESS_CHANGE},
         {ACCESS_HIDDEN, ACCESS_HIDDEN, ACCESS_LOOK}},
	{ROLE_ADMIN,
         {ACCESS_CHANGE, ACCESS_CHANGE, ACCESS_CHANGE},
         {ACCESS_CHANGE, ACCESS_CHANGE, ACCESS_CHANGE},
         {ACCESS_HIDDEN, ACCESS_HIDDEN, ACCESS_LOOK}},
};

TEST(every_role_meets_every_object)
{
	for (size_t i = 0; i < ARRAY_LEN(table); i++) {
		struct caller *caller = make("pr_a", "tm_a", table[i].role);

		for (int v = 0; v < VISIBILITY_COUNT_; v++) {
			struct ownership own = {"pr_a", "tm_a", (enum visibility)v};
			struct ownership same = {"pr_b", "tm_a", (enum visibility)v};
			struct ownership other = {"pr_b", "tm_b", (enum visibility)v};

			CHECK_INT(access_to(caller, &own), table[i].own[v]);
			CHECK_INT(access_to(caller, &same), table[i].same[v]);
			CHECK_INT(access_to(caller, &other), table[i].other[v]);
		}
		caller_unref(caller);
	}
}

TEST(a_credential_of_one_team_does_not_reach_ones_objects_in_another)
{
	struct caller *caller = make("pr_a", "tm_a", ROLE_ADMIN);
	struct ownership elsewhere = {"pr_a", "tm_b", VISIBILITY_TEAM};

	CHECK_INT(access_to(caller, &elsewhere), ACCESS_HIDDEN);
	caller_unref(caller);
}

TEST(the_operator_has_no_walls)
{
	struct caller *caller = make(ACCESS_OPERATOR, ACCESS_TEAM, ROLE_ADMIN);
	struct ownership hidden = {"pr_b", "tm_b", VISIBILITY_PRIVATE};

	caller->is_operator = true;
	CHECK_INT(access_to(caller, &hidden), ACCESS_CHANGE);
	caller_unref(caller);
}

TEST(words_come_and_go)
{
	enum visibility visibility;
	enum role role;
	struct err err = {0};

	CHECK(visibility_from("global", &visibility) && visibility == VISIBILITY_GLOBAL);
	CHECK_INT(visibility_parse("public", &visibility, &err), -1);
	CHECK_HAS(err.msg, "private, team or global");
	CHECK(role_from("member", &role) && role == ROLE_MEMBER);
	CHECK(!role_from("owner", &role));
}

/* The JSON in what agents answer, and the words of turns. */
#include "harness/test.h"

#include <string.h>

#include "model/answer.h"
#include "model/turn.h"

static const struct {
	const char *text;
	enum answer_kind kind;
	const char *json;
} rows[] = {
	{"", ANSWER_EMPTY, NULL},
	{" \n\t ", ANSWER_EMPTY, NULL},
	{"{\"a\": 1}", ANSWER_JSON, "{\"a\": 1}"},
	{"  [1, 2]\n", ANSWER_JSON, "[1, 2]"},
	{"42", ANSWER_JSON, "42"},
	{"Here:\n```json\n{\"a\": 1}\n```\nDone.", ANSWER_JSON, "{\"a\": 1}"},
	{"```\n{\"a\": 1}\n```", ANSWER_JSON, "{\"a\": 1}"},
	{"```json\n{\"a\": 1}\n```\nbetter:\n```json\n{\"a\": 2}\n```", ANSWER_JSON, "{\"a\": 2}"},
	{"```sh\nls\n```\n```json\n{\"a\": 1}\n```\n```\nbye\n```", ANSWER_JSON, "{\"a\": 1}"},
	{"```json\n{\"a\": 1}", ANSWER_JSON, "{\"a\": 1}"},
	{"The answer is {\"a\": {\"b\": 2}} as you see.", ANSWER_JSON, "{\"a\": {\"b\": 2}}"},
	{"As a list: [1, 2].", ANSWER_JSON, "[1, 2]"},
	/* A fence within a text is none. */
	{"{\"md\": \"```json\\n1\\n```\"}", ANSWER_JSON, "{\"md\": \"```json\\n1\\n```\"}"},
	{"```json\n{\"a\": }\n```", ANSWER_BROKEN, NULL},
	{"{\"a\": 1", ANSWER_PROSE, NULL},
	{"{a: 1}", ANSWER_BROKEN, NULL},
	{"I cannot do that.", ANSWER_PROSE, NULL},
	{"```", ANSWER_PROSE, NULL},
	{"``````", ANSWER_PROSE, NULL},
	{"} {", ANSWER_PROSE, NULL},
};

TEST(json_is_found_in_what_is_around_it)
{
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct err err = {0};
		struct answer answer;

		answer_find(rows[i].text, strlen(rows[i].text), &answer, &err);
		if (answer.kind != rows[i].kind)
			test_fail(__FILE__, __LINE__, "'%s' is %d", rows[i].text, answer.kind);
		if (rows[i].json && answer.kind == ANSWER_JSON &&
		    (answer.len != strlen(rows[i].json) ||
		     memcmp(answer.json, rows[i].json, answer.len) != 0))
			test_fail(__FILE__, __LINE__, "'%.*s' of '%s'", (int)answer.len,
			          answer.json, rows[i].text);
		if (answer.kind > ANSWER_EMPTY)
			CHECK(err.msg[0] != '\0');
	}
}

TEST(words_of_turns_lead_both_ways)
{
	for (int i = 0; i < TURN_END_COUNT_; i++) {
		struct turn turn = {.state = turn_end_state((enum turn_end)i)};

		CHECK_INT(turn_end_from(turn_end_name((enum turn_end)i)), i);
		CHECK(turn_is_over(&turn));
	}
	CHECK_INT(turn_end_from("nonsense"), TURN_END_NONE);
	CHECK_INT(turn_end_from(NULL), TURN_END_NONE);
	for (int i = 0; i <= TURN_CANCELLED; i++) {
		enum turn_state state;

		CHECK(turn_state_from(turn_state_name((enum turn_state)i), &state));
		CHECK_INT(state, i);
	}
}

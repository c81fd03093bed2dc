/* Secrets are found wherever a stream is cut, and nothing else is changed. */
#include "harness/test.h"

#include <stdio.h>

#include "base/buf.h"
#include "base/mem.h"
#include "task/redact.h"

static int put(void *ctx, const void *bytes, size_t len)
{
	return buf_put(ctx, bytes, len);
}

/* What comes out when the text comes in two pieces. */
static void check_cut(const char *text, size_t at, const char *wanted)
{
	struct redact *redact = redact_new();
	struct buf out;
	char *got;

	buf_init(&out, 4096);
	redact_add(redact, "correct-horse");
	redact_add(redact, "correct-horse-battery");
	redact_add(redact, "open sesame!");
	redact_add(redact, "short");
	CHECK_INT(redact_feed(redact, 0, text, at, put, &out), 0);
	CHECK_INT(redact_feed(redact, 1, "correct-", 8, put, &out), 0);
	CHECK_INT(redact_feed(redact, 0, text + at, strlen(text) - at, put, &out), 0);
	CHECK_INT(redact_end(redact, 0, put, &out), 0);
	got = buf_take_string(&out);
	CHECK_STR(got, wanted);
	free(got);
	buf_done(&out);
	redact_free(redact);
}

static void check(const char *text, const char *wanted)
{
	for (size_t at = 0; at <= strlen(text); at++)
		check_cut(text, at, wanted);
}

TEST(known_values_are_found_wherever_they_are_cut)
{
	check("a correct-horse b", "a [REDACTED] b");
	check("correct-horse-battery", "[REDACTED]");
	check("correct-horse-batter", "[REDACTED]-batter");
	check("ccorrect-horsecorrect-horse", "c[REDACTED][REDACTED]");
	check("correct-hors", "correct-hors");
	check("", "");
}

TEST(who_logs_in_is_left_out_of_addresses)
{
	check("git clone https://me:hunter2@example.org/x.git",
	      "git clone https://[REDACTED]@example.org/x.git");
	check("https://0123456789abcdefghij@example.org/", "https://[REDACTED]@example.org/");
	check("ssh://git@example.org/x", "ssh://git@example.org/x");
	check("see http://example.org/a:b@c", "see http://example.org/a:b@c");
	check("a://b", "a://b");
}

TEST(tokens_in_addresses_and_headers_go_and_their_names_stay)
{
	check("GET /x?access_token=0123456789abcdef&y=1", "GET /x?access_token=[REDACTED]&y=1");
	check("'https://h/?a=1&token=0123456789.abcdef%2B/=='",
	      "'https://h/?a=1&token=[REDACTED]'");
	check("client_secret=0123456789abcdef", "client_secret=[REDACTED]");
	check("?X-Amz-Signature=0123456789abcdef#x", "?X-Amz-Signature=[REDACTED]#x");
	check("x-api-key: 0123456789abcdef\n", "x-api-key: [REDACTED]\n");
	check("token=short&token=", "token=short&token=");
	check("token=0123456789abcdefopen sesame! x", "token=[REDACTED] x");
	check("Bearer 0123456789abcdef/open sesam", "[REDACTED] sesam");
	check("Authorization: Basic bWU6aHVudGVyMjI=", "Authorization: Basic [REDACTED]");
}

/* All three parts: the first says nothing, the second who, the third is the key. */
TEST(signed_tokens_go_as_a_whole)
{
	check("Authorization: Bearer 0123456789abcdef.x~y+z/w=", "Authorization: [REDACTED]");
	check("jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl,", "jwt [REDACTED],");
	check("eyJhIjoxfQ== is no token", "eyJhIjoxfQ== is no token");
}

TEST(short_values_are_left_alone)
{
	check("short and shorter", "short and shorter");
}

TEST(tokens_are_known_by_their_beginning)
{
	check("x ghp_0123456789abcdefghij y", "x [REDACTED] y");
	check("ghp_0123456789abcdefghij", "[REDACTED]");
	check("ghp_tooshort", "ghp_tooshort");
	check("ghp_tooshort ", "ghp_tooshort ");
	check("key=sk-ant-api03-AAAAAAAAAAAAAAAAAAAA\n", "key=[REDACTED]\n");
	check("ghghp_0123456789abcdefghij", "gh[REDACTED]");
}

TEST(a_text_as_a_whole)
{
	struct redact *redact = redact_new();
	char *text;

	redact_add(redact, "https://user:pass");
	text = redact_text(redact, "GET https://user:pass@host failed");
	CHECK_STR(text, "GET [REDACTED]@host failed");
	free(text);
	CHECK(redact_text(redact, NULL) == NULL);
	redact_free(redact);
}

TEST(names_that_hold_secrets)
{
	CHECK(redact_is_secret_name("GITHUB_TOKEN"));
	CHECK(redact_is_secret_name("db_password"));
	CHECK(redact_is_secret_name("SIGNING_KEY"));
	CHECK(!redact_is_secret_name("KEYBOARD"));
	CHECK(!redact_is_secret_name("PATH"));
}

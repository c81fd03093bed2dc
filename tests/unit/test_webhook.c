/* The parts of webhooks that need no network. */
#include "harness/test.h"

#include "base/mem.h"
#include "hook/sign.h"
#include "model/webhook.h"

/* The example of the Standard Webhooks specification's reference implementations. */
TEST(signature_is_that_of_the_specification)
{
	char *text =
		sign_message("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
	                     "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, "{\"test\": 2432232314}");

	CHECK_STR(text, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
	free(text);
	CHECK(sign_message("secret", "m", 1, "x") == NULL);
	CHECK(sign_message("whsec_!!", "m", 1, "x") == NULL);
}

TEST(secrets_differ_and_sign)
{
	char *one = sign_make_secret(), *two = sign_make_secret();
	char *text = sign_message(one, "m", 1, "x");

	CHECK(strcmp(one, two) != 0);
	CHECK(text != NULL);
	free(text);
	free(one);
	free(two);
}

static bool wants(const char *event, const char *kind)
{
	struct webhook webhook = {0};
	bool is_wanted;

	strings_add(&webhook.events, event);
	is_wanted = webhook_wants(&webhook, kind);
	webhook_done(&webhook);
	return is_wanted;
}

TEST(events_are_chosen_by_kind_and_by_word)
{
	CHECK(wants("*", "task.completed"));
	CHECK(wants("task.*", "task.completed"));
	CHECK(wants("task.completed", "task.completed"));
	CHECK(!wants("task.completed", "task.failed"));
	CHECK(!wants("task.*", "taskmaster.x"));
	CHECK(!wants("sandbox.*", "task.completed"));
}

TEST(pauses_grow_and_end)
{
	CHECK_INT(webhook_pause_ms(5000, 1), 5000);
	CHECK_INT(webhook_pause_ms(5000, 2), 15000);
	CHECK_INT(webhook_pause_ms(5000, 50), WEBHOOK_PAUSE_MOST_MS);
}

TEST(urls)
{
	struct err err = {0};

	CHECK_INT(webhook_check_url("https://example.org/a?b=c", &err), 0);
	CHECK_INT(webhook_check_url("http://[::1]:80/", &err), 0);
	CHECK_INT(webhook_check_url("https://", &err), -1);
	CHECK_INT(webhook_check_url("https:///x", &err), -1);
	CHECK_INT(webhook_check_url("gopher://x", &err), -1);
	CHECK_INT(webhook_check_url("https://a@b/", &err), -1);
	CHECK_INT(webhook_check_url("https://b/a@b", &err), 0);
	CHECK_INT(webhook_check_url("https://b/\r\nX: y", &err), -1);
}

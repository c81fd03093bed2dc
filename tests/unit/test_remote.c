/* Where --url leads, and how lists of words are written and shown. */
#include "harness/test.h"

#include "base/mem.h"
#include "cli/remote.h"
#include "cli/words.h"

static struct err err;

static void check(const char *url, bool is_tls, const char *authority)
{
	struct remote remote;

	if (remote_parse(url, &remote, &err) < 0)
		test_fail(__FILE__, __LINE__, "%s: %s", url, err.msg);
	CHECK_INT(remote.is_tls, is_tls);
	CHECK_STR(remote.authority, authority);
}

TEST(urls_lead_to_a_host_and_a_port)
{
	check("http://127.0.0.1:7070", false, "127.0.0.1:7070");
	check("http://127.0.0.1", false, "127.0.0.1:7070");
	check("http://localhost/", false, "localhost:7070");
	check("https://box.example.org", true, "box.example.org:443");
	check("https://box.example.org:8443/", true, "box.example.org:8443");
	check("http://[::1]:80", false, "[::1]:80");
	check("http://[fd00::1]", false, "[fd00::1]:7070");
}

TEST(what_is_no_url_is_refused)
{
	static const char *const bad[] = {
		"",
		"http://",
		"https://",
		"http:///",
		"127.0.0.1:7070",
		"ftp://host",
		"http://host/path",
		"http://host:0",
		"http://host:65536",
		"http://host:",
		"http://host:x",
		"http://a b",
		"http://user@host",
		"http://[::1",
		"http://[]",
		"http://host\r\nX: y",
		"http://host?x",
	};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct remote remote;

		if (remote_parse(bad[i], &remote, &err) == 0)
			test_fail(__FILE__, __LINE__, "'%s' was taken", bad[i]);
		CHECK_INT(err.code, ERR_INVALID);
	}
}

TEST(lists_are_written_with_commas_or_repeated)
{
	const char *items[] = {"a:read,b:write", "c:*", ",,"};
	struct opt_list list = {items, ARRAY_LEN(items)};
	json_t *body = json_object();
	auto_free char *text = NULL;

	CHECK_INT(words_put_list(body, "scopes", &list, &err), 0);
	CHECK_INT(words_put_list(body, "none", &(struct opt_list){0}, &err), 0);
	text = json_dumps(body, JSON_COMPACT);
	CHECK_STR(text, "{\"scopes\":[\"a:read\",\"b:write\",\"c:*\"]}");
	json_decref(body);
}

TEST(scopes_are_shown_short)
{
	json_t *list = json_pack("[s,s,s]", "logs:read", "sandboxes:read", "sandboxes:write");
	auto_free char *text = words_shorten(list);

	CHECK_STR(text, "logs:read sandboxes:*");
	json_decref(list);
}

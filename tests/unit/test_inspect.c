#include "net/inspect.h"

#include "harness/test.h"

struct fixture {
	struct inspect inspect;
	struct buf held;
	char passed[4096]; /* what went on */
	size_t passed_len;
};

static void setup(struct fixture *f, enum inspect_kind kind)
{
	*f = (struct fixture){0};
	inspect_start(&f->inspect, kind);
	buf_init(&f->held, INSPECT_HELD);
}

/* Gives it these bytes and takes what may go on, agreeing to every name; the last result. */
static enum inspect_result feed(struct fixture *f, const void *bytes, size_t len)
{
	enum inspect_result result;
	size_t pass;
	CHECK_INT(buf_put(&f->held, bytes, len), 0);
	for (;;) {
		result = inspect_step(&f->inspect, &f->held, &pass);
		if (result == INSPECT_NAME) {
			inspect_agree(&f->inspect);
			continue;
		}
		if (result != INSPECT_PASS)
			return result;
		CHECK(f->passed_len + pass < sizeof(f->passed));
		if (pass > 0)
			memcpy(f->passed + f->passed_len, buf_head(&f->held), pass);
		f->passed_len += pass;
		buf_consume(&f->held, pass);
	}
}

static enum inspect_result feed_text(struct fixture *f, const char *text)
{
	return feed(f, text, strlen(text));
}

TEST(nothing_is_passed_before_it_is_agreed_to)
{
	struct fixture f;
	size_t pass = 1;
	static const char text[] = "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n";
	setup(&f, INSPECT_HTTP);
	CHECK_INT(buf_put(&f.held, text, sizeof(text) - 1), 0);
	CHECK_INT(inspect_step(&f.inspect, &f.held, &pass), INSPECT_NAME);
	CHECK_INT(pass, 0);
	CHECK_STR(f.inspect.name, "a.test");
	/* and asks again as long as nobody agrees */
	CHECK_INT(inspect_step(&f.inspect, &f.held, &pass), INSPECT_NAME);
	CHECK_INT(pass, 0);
	buf_done(&f.held);
}

TEST(every_request_names_its_host)
{
	struct fixture f;
	static const char first[] = "POST /a HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\n\r\n";
	setup(&f, INSPECT_HTTP);
	CHECK_INT(feed_text(&f, first), INSPECT_MORE);
	CHECK_INT(f.passed_len, sizeof(first) - 1);
	CHECK_INT(feed_text(&f, "hel"), INSPECT_MORE);
	CHECK_INT(feed_text(&f, "loGET / HTTP/1.1\r\nHost: b"), INSPECT_MORE);
	CHECK_INT(f.passed_len, sizeof(first) - 1 + 5);
	CHECK_STR(f.inspect.name, "a.test");
	CHECK_INT(feed_text(&f, ".test\r\n\r\n"), INSPECT_MORE);
	CHECK_STR(f.inspect.name, "b.test");
	CHECK_INT(feed_text(&f, "nonsense\n"), INSPECT_BAD);
	buf_done(&f.held);
}

TEST(requests_in_one_piece_need_no_more_bytes)
{
	struct fixture f;
	static const char text[] = "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n"
				   "GET / HTTP/1.1\r\nHost: b.test\r\n\r\n";
	size_t pass = 0;
	setup(&f, INSPECT_HTTP);
	CHECK_INT(buf_put(&f.held, text, sizeof(text) - 1), 0);
	CHECK_INT(inspect_step(&f.inspect, &f.held, &pass), INSPECT_NAME);
	inspect_agree(&f.inspect);
	CHECK_INT(inspect_step(&f.inspect, &f.held, &pass), INSPECT_PASS);
	buf_consume(&f.held, pass);
	CHECK_INT(inspect_step(&f.inspect, &f.held, &pass), INSPECT_NAME);
	CHECK_STR(f.inspect.name, "b.test");
	buf_done(&f.held);
}

TEST(a_stripped_request_keeps_what_follows)
{
	struct fixture f;
	setup(&f, INSPECT_HTTP);
	CHECK_INT(feed_text(&f, "POST / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\n"
	                        "Upgrade: h2c\r\nContent-Length: 2\r\n\r\nhi"),
	          INSPECT_MORE);
	f.passed[f.passed_len] = '\0';
	CHECK_STR(f.passed, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi");
	buf_done(&f.held);
}

static void ask_for_websocket(struct fixture *f)
{
	setup(f, INSPECT_HTTP);
	CHECK_INT(feed_text(f, "GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\n"
	                       "Connection: Upgrade\r\n\r\n"),
	          INSPECT_WAIT);
	size_t len = f->passed_len;
	CHECK_INT(feed_text(f, "GET / HTTP/1.1\r\nHost: other\r\n\r\n"), INSPECT_WAIT);
	CHECK_INT(f->passed_len, len);
}

TEST(a_websocket_is_free_once_the_server_agrees)
{
	struct fixture f;
	ask_for_websocket(&f);
	inspect_server_said(&f.inspect, (const uint8_t *)"HTTP/1.1 101 Switching", 22);
	CHECK_INT(feed_text(&f, ""), INSPECT_OVER);
	buf_done(&f.held);
	ask_for_websocket(&f);
	inspect_server_said(&f.inspect, (const uint8_t *)"HTTP/1.1 200 OK", 15);
	CHECK_INT(feed_text(&f, ""), INSPECT_MORE);
	CHECK_STR(f.inspect.name, "other"); /* a request like any */
	buf_done(&f.held);
}

TEST(perhaps_is_decided_by_the_first_byte)
{
	struct fixture f;
	setup(&f, INSPECT_PERHAPS_TLS);
	CHECK_INT(feed_text(&f, ""), INSPECT_MORE);
	CHECK_INT(feed_text(&f, "QUIT\r\n"), INSPECT_OVER);
	buf_done(&f.held);
	setup(&f, INSPECT_PERHAPS_TLS);
	CHECK_INT(feed(&f, "\x16\x03\x01", 3), INSPECT_MORE);
	CHECK_INT(f.inspect.kind, INSPECT_TLS);
	buf_done(&f.held);
	setup(&f, INSPECT_NOTHING);
	CHECK_INT(feed_text(&f, ""), INSPECT_OVER);
	buf_done(&f.held);
}

/* A hello without extensions, as long as one with a name: enough for the order of things. */
TEST(tls_is_watched_and_then_free)
{
	static const uint8_t hello[] = {22, 3, 1, 0, 45, 1, 0, 0, 41, 3, 3, 0, 0,    0, 0, 0, 0,
	                                0,  0, 0, 0, 0,  0, 0, 0, 0,  0, 0, 0, 0,    0, 0, 0, 0,
	                                0,  0, 0, 0, 0,  0, 0, 0, 0,  0, 0, 2, 0x13, 1, 1, 0};
	static const uint8_t change[] = {20, 3, 3, 0, 1, 1}, data[] = {23, 3, 3, 0, 2, 9, 9};
	struct fixture f;
	setup(&f, INSPECT_TLS);
	CHECK_INT(feed(&f, hello, sizeof(hello)), INSPECT_MORE);
	CHECK_STR(f.inspect.name, "");
	CHECK_INT(f.passed_len, sizeof(hello));
	CHECK_INT(feed(&f, change, sizeof(change)), INSPECT_MORE);
	CHECK_INT(f.passed_len, sizeof(hello) + sizeof(change));
	CHECK_INT(feed(&f, data, sizeof(data)), INSPECT_OVER);
	CHECK_INT(feed(&f, hello, 1), INSPECT_OVER);
	buf_done(&f.held);
	setup(&f, INSPECT_TLS);
	CHECK_INT(feed_text(&f, "GET / HTTP/1.1\r\n"), INSPECT_BAD);
	buf_done(&f.held);
}

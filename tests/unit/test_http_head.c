#include "net/http_head.h"

#include <errno.h>

#include "harness/test.h"

static enum http_head_result parse(const char *text, struct http_head *ret)
{
	return http_head_parse((const uint8_t *)text, strlen(text), ret);
}

TEST(a_request_names_its_host)
{
	struct http_head head;
	CHECK_INT(parse("GET /x HTTP/1.1\r\nHost: Example.TEST:8080 \r\nA: b\r\n\r\nmore", &head),
	          HTTP_HEAD_WHOLE);
	CHECK_STR(head.host, "example.test");
	CHECK_INT(head.port, 8080);
	CHECK_INT(head.len, 51);
	CHECK_INT(head.body, HTTP_BODY_NONE);
	CHECK_INT(parse("GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n", &head),
	          HTTP_HEAD_WHOLE);
	CHECK_INT(parse("OPTIONS * HTTP/1.1\r\nHost: a.test\r\n\r\n", &head), HTTP_HEAD_WHOLE);
	CHECK_INT(parse("GET / HTTP/1.0\r\nHost: a.test\r\n\r\n", &head), HTTP_HEAD_WHOLE);
}

TEST(pieces_are_waited_for)
{
	static const char text[] = "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 3\r\n\r\n";
	struct http_head head;
	for (size_t i = 0; i < sizeof(text) - 1; i++)
		CHECK_INT(http_head_parse((const uint8_t *)text, i, &head), HTTP_HEAD_MORE);
	CHECK_INT(http_head_parse((const uint8_t *)text, sizeof(text) - 1, &head), HTTP_HEAD_WHOLE);
	CHECK_INT(head.body, HTTP_BODY_LENGTH);
	CHECK_INT(head.length, 3);
}

TEST(what_has_two_meanings_is_refused)
{
	static const char *const texts[] = {
		"GET / HTTP/1.1\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a.test\r\nHost: a.test\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a.test, b.test\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a.test.\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a.test:\r\n\r\n",
		"GET / HTTP/1.1\r\nHost : a.test\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a.test\r\n X: y\r\n\r\n",
		"GET / HTTP/1.1\r\n Host: a.test\r\n\r\n",
		"GET / HTTP/1.1\nHost: a.test\n\n",
		"GET / HTTP/1.1\r\nHost: a.test\nHost: b.test\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a.test\rX: y\r\n\r\n",
		"GET http://b.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n",
		"GET http://b.test@a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n",
		"GET https://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n",
		"CONNECT b.test:443 HTTP/1.1\r\nHost: a.test\r\n\r\n",
		"GET / HTTP/2.0\r\nHost: a.test\r\n\r\n",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"GET /\r\nHost: a.test\r\n\r\n",
		"GET  / HTTP/1.1\r\nHost: a.test\r\n\r\n",
		"GET /a b HTTP/1.1\r\nHost: a.test\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: +1\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 99999999999999999999\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1\r\n"
		"Transfer-Encoding: chunked\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: xchunked\r\n\r\n",
		"POST / HTTP/1.0\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n",
		"\r\nGET / HTTP/1.1\r\nHost: a.test\r\n\r\n",
		"\x16\x03\x01",
	};
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		struct http_head head;
		if (parse(texts[i], &head) != HTTP_HEAD_BAD)
			test_fail(__FILE__, __LINE__, "%s", texts[i]);
	}
}

TEST(a_wish_for_another_protocol_is_taken_out)
{
	static const char text[] = "GET / HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade, "
				   "HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMA\r\n"
				   "Accept: x\r\n\r\n";
	struct http_head head;
	uint8_t out[sizeof(text)];
	CHECK_INT(parse(text, &head), HTTP_HEAD_WHOLE);
	CHECK(head.has_upgrade && !head.is_websocket);
	size_t len = http_head_strip(&head, (const uint8_t *)text, out);
	static const char wanted[] = "GET / HTTP/1.1\r\nHost: a.test\r\nAccept: x\r\n\r\n";
	CHECK_INT(len, sizeof(wanted) - 1);
	CHECK_MEM(out, wanted, len);
	CHECK_INT(parse("GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\n\r\n", &head),
	          HTTP_HEAD_WHOLE);
	CHECK(head.is_websocket);
	CHECK_INT(parse("GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nUpgrade: h2c\r\n\r\n",
	                &head),
	          HTTP_HEAD_WHOLE);
	CHECK(!head.is_websocket && head.has_upgrade);
}

TEST(too_long_a_head_is_refused)
{
	static char text[HTTP_HEAD_MOST + 1];
	struct http_head head;
	memset(text, 'a', HTTP_HEAD_MOST);
	memcpy(text, "GET / HTTP/1.1\r\nHost: ", 22);
	CHECK_INT(parse(text, &head), HTTP_HEAD_BAD);
}

static ssize_t take(const char *head_text, const char *text, bool *ret_is_over)
{
	struct http_head head;
	struct http_body body;
	CHECK_INT(parse(head_text, &head), HTTP_HEAD_WHOLE);
	http_body_start(&body, &head);
	return http_body_take(&body, (const uint8_t *)text, strlen(text), ret_is_over);
}

#define CHUNKED "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"

TEST(bodies_end_where_they_say)
{
	bool is_over;
	CHECK_INT(take("GET / HTTP/1.1\r\nHost: a\r\n\r\n", "GET /", &is_over), 0);
	CHECK(is_over);
	static const char five[] = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n";
	CHECK_INT(take(five, "helloGET /", &is_over), 5);
	CHECK(is_over);
	CHECK_INT(take(five, "hell", &is_over), 4);
	CHECK(!is_over);
	CHECK_INT(take(CHUNKED, "5\r\nhello\r\nA\r\n0123456789\r\n0\r\n\r\nGET /", &is_over), 30);
	CHECK(is_over);
	CHECK_INT(take(CHUNKED, "5\r\nhel", &is_over), 6);
	CHECK(!is_over);
}

TEST(odd_chunks_are_refused)
{
	static const char *const texts[] = {
		"\r\n",   "5;a=b\r\nhello\r\n", "5\nhello\n",    "-1\r\n",  "0x5\r\n",
		"5 \r\n", "5\r\nhelloX",        "0\r\nA: b\r\n", "0\r\n\n", "1234567890abcdef\r\n"};
	bool is_over;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		if (take(CHUNKED, texts[i], &is_over) != -EBADMSG)
			test_fail(__FILE__, __LINE__, "%s", texts[i]);
	}
}

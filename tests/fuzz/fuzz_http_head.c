/* Requests one after the other: heads and bodies end where they end however the bytes arrive. */
#include <stdlib.h>
#include <string.h>

#include "net/http_head.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static void check(bool is_true)
{
	if (!is_true)
		abort();
}

/* The length of a body taken in one piece and byte by byte; -1: malformed or not at its end. */
static ssize_t body_length(const struct http_head *head, const uint8_t *bytes, size_t len)
{
	struct http_body at_once, slowly;
	bool is_over = false, is_slowly_over = false;
	http_body_start(&at_once, head);
	http_body_start(&slowly, head);
	ssize_t whole = http_body_take(&at_once, bytes, len, &is_over);
	size_t at = 0;
	ssize_t r = 0;
	while (r >= 0 && at < len && !is_slowly_over) {
		r = http_body_take(&slowly, bytes + at, 1, &is_slowly_over);
		at += r > 0 ? (size_t)r : 0;
		if (r == 0)
			break;
	}
	check((whole < 0) == (r < 0));
	check(whole < 0 || (size_t)whole == at);
	return whole >= 0 && is_over ? whole : -1;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	uint8_t out[HTTP_HEAD_MOST];
	struct http_head head, again;
	while (http_head_parse(bytes, len, &head) == HTTP_HEAD_WHOLE) {
		check(head.len <= len && head.host[0] != '\0');
		for (size_t i = 0; i < head.len; i += 1 + head.len / 64)
			check(http_head_parse(bytes, i, &again) != HTTP_HEAD_WHOLE);
		size_t stripped = http_head_strip(&head, bytes, out);
		check(stripped <= head.len);
		check(http_head_parse(out, stripped, &again) == HTTP_HEAD_WHOLE);
		check(again.len == stripped && !again.has_upgrade && !again.is_websocket &&
		      strcmp(again.host, head.host) == 0 && again.body == head.body);
		ssize_t body = body_length(&head, bytes + head.len, len - head.len);
		if (body < 0)
			break;
		bytes += head.len + (size_t)body;
		len -= head.len + (size_t)body;
	}
	return 0;
}

#include "net/inspect.h"

#include <string.h>

#include "base/must.h"

enum { HANDSHAKE = 22 }; /* the first byte of TLS */

static_assert((int)TLS_HELLO_NAME == (int)HTTP_HEAD_NAME, "one buffer holds both");

void inspect_start(struct inspect *inspect, enum inspect_kind kind)
{
	*inspect = (struct inspect){.kind = kind};
}

void inspect_agree(struct inspect *inspect)
{
	inspect->state = INSPECT_AGREED;
	inspect->is_first_done = true;
}

static enum inspect_result refuse(struct inspect *inspect, const char *why)
{
	inspect->why = why;
	return INSPECT_BAD;
}

/* --- TLS --- */

static enum inspect_result name_of_hello(struct inspect *inspect, const struct tls_hello *hello)
{
	memcpy(inspect->name, hello->name, sizeof(inspect->name));
	inspect->has_ech = hello->has_ech;
	inspect->watch.has_early_data = hello->has_early_data;
	inspect->pass = hello->len;
	return INSPECT_NAME;
}

static enum inspect_result first_hello(struct inspect *inspect, const struct buf *held)
{
	struct tls_hello hello;
	switch (tls_hello_parse(buf_head(held), buf_len(held), &hello)) {
	case TLS_HELLO_WHOLE:
		return name_of_hello(inspect, &hello);
	case TLS_HELLO_MORE:
		return INSPECT_MORE;
	case TLS_HELLO_BAD:
	default:
		return refuse(inspect, "this is no TLS hello");
	}
}

static enum inspect_result step_tls(struct inspect *inspect, struct buf *held, size_t *ret_pass)
{
	struct tls_hello hello;
	if (buf_len(held) == 0)
		return INSPECT_MORE;
	if (!inspect->is_first_done)
		return first_hello(inspect, held);
	switch (tls_watch(&inspect->watch, buf_head(held), buf_len(held), ret_pass, &hello)) {
	case TLS_WATCH_OVER:
		inspect->kind = INSPECT_NOTHING;
		return INSPECT_OVER;
	case TLS_WATCH_PASS:
		return INSPECT_PASS;
	case TLS_WATCH_MORE:
		return INSPECT_MORE;
	case TLS_WATCH_HELLO:
		return name_of_hello(inspect, &hello);
	case TLS_WATCH_BAD:
	default:
		return refuse(inspect, "this is no TLS hello");
	}
}

/* --- HTTP --- */

/* Takes the wish for another protocol out of the head at the front of held. */
static void strip(struct buf *held, struct http_head *head)
{
	uint8_t out[HTTP_HEAD_MOST];
	size_t len = http_head_strip(head, buf_head(held), out);
	size_t shrunk = head->len - len;
	buf_consume(held, shrunk);
	memcpy(held->bytes + held->start, out, len);
	head->len = len;
}

static enum inspect_result next_head(struct inspect *inspect, struct buf *held)
{
	struct http_head head;
	if (buf_len(held) == 0)
		return INSPECT_MORE;
	switch (http_head_parse(buf_head(held), buf_len(held), &head)) {
	case HTTP_HEAD_MORE:
		return INSPECT_MORE;
	case HTTP_HEAD_BAD:
		return refuse(inspect, head.why);
	case HTTP_HEAD_WHOLE:
	default:
		break;
	}
	if (head.has_upgrade)
		strip(held, &head);
	memcpy(inspect->name, head.host, sizeof(inspect->name));
	inspect->port = head.port;
	inspect->pass = head.len;
	inspect->is_websocket = head.is_websocket;
	http_body_start(&inspect->body, &head);
	return INSPECT_NAME;
}

static enum inspect_result body_step(struct inspect *inspect, struct buf *held, size_t *ret_pass)
{
	bool is_over = false;
	if (inspect->body.kind != HTTP_BODY_NONE && buf_len(held) == 0)
		return INSPECT_MORE;
	ssize_t len = http_body_take(&inspect->body, buf_head(held), buf_len(held), &is_over);
	if (len < 0)
		return refuse(inspect, "the body of the request is malformed");
	if (is_over)
		inspect->state = INSPECT_AT_HEAD;
	/* No body at all: what follows may be here already. */
	if (is_over && len == 0)
		return next_head(inspect, held);
	*ret_pass = (size_t)len;
	return INSPECT_PASS;
}

static enum inspect_result step_http(struct inspect *inspect, struct buf *held, size_t *ret_pass)
{
	switch (inspect->state) {
	case INSPECT_AT_SERVER:
		return INSPECT_WAIT;
	case INSPECT_IN_BODY:
		return body_step(inspect, held, ret_pass);
	case INSPECT_AT_HEAD:
	case INSPECT_AGREED:
	default:
		return next_head(inspect, held);
	}
}

enum inspect_result inspect_step(struct inspect *inspect, struct buf *held, size_t *ret_pass)
{
	*ret_pass = 0;
	if (inspect->kind == INSPECT_PERHAPS_TLS) {
		if (buf_len(held) == 0)
			return INSPECT_MORE;
		inspect->kind = buf_head(held)[0] == HANDSHAKE ? INSPECT_TLS : INSPECT_NOTHING;
	}
	if (inspect->kind == INSPECT_NOTHING)
		return INSPECT_OVER;
	if (inspect->state == INSPECT_AGREED) {
		must(inspect->pass <=
		     buf_len(held)); /* the caller took bytes it had not been given */
		*ret_pass = inspect->pass;
		if (inspect->kind == INSPECT_TLS)
			inspect->state = INSPECT_AT_HEAD;
		else
			inspect->state =
				inspect->is_websocket ? INSPECT_AT_SERVER : INSPECT_IN_BODY;
		return INSPECT_PASS;
	}
	return inspect->kind == INSPECT_TLS ? step_tls(inspect, held, ret_pass)
	                                    : step_http(inspect, held, ret_pass);
}

void inspect_server_said(struct inspect *inspect, const uint8_t *bytes, size_t len)
{
	static const char switching[] = "HTTP/1.1 101";
	if (inspect->state != INSPECT_AT_SERVER)
		return;
	/* It agreed to leave HTTP: what follows is between the two. Otherwise the next bytes of the
	 * client are a request like any other. */
	if (len >= INSPECT_STATUS && memcmp(bytes, switching, INSPECT_STATUS) == 0)
		inspect->kind = INSPECT_NOTHING;
	else
		inspect->state = INSPECT_AT_HEAD;
}

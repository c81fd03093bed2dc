#include "cli/sse.h"

#include <errno.h>

#include "base/str.h"

void sse_init(struct sse *sse)
{
	*sse = (struct sse){0};
	buf_init(&sse->in, SSE_EVENT_MAX + 128 * 1024);
	buf_init(&sse->data, SSE_EVENT_MAX + 1);
}

void sse_done(struct sse *sse)
{
	buf_done(&sse->in);
	buf_done(&sse->data);
}

int sse_feed(struct sse *sse, const void *bytes, size_t len)
{
	return buf_put(&sse->in, bytes, len) < 0 ? -EPROTO : 0;
}

static int add_data(struct sse *sse, const char *value)
{
	if (sse->has_data && buf_put(&sse->data, "\n", 1) < 0)
		return -EPROTO;
	sse->has_data = true;
	return buf_put(&sse->data, value, strlen(value)) < 0 ? -EPROTO : 0;
}

static int on_field(struct sse *sse, char *line)
{
	char *colon = strchr(line, ':');
	const char *value = "";

	if (colon == line)
		return 0;
	if (colon != NULL) {
		*colon = '\0';
		value = colon[1] == ' ' ? colon + 2 : colon + 1;
	}
	if (str_eq(line, "data"))
		return add_data(sse, value);
	/* Names and ids longer than ours are none of ours: then they stay empty. */
	if (str_eq(line, "event"))
		(void)!str_copy(sse->event, sizeof(sse->event), value);
	if (str_eq(line, "id"))
		(void)!str_copy(sse->id, sizeof(sse->id), value);
	return 0;
}

static int complete(struct sse *sse, struct sse_event *ret)
{
	if (buf_put(&sse->data, "", 1) < 0)
		return -EPROTO;
	*ret = (struct sse_event){
		.event = *sse->event == '\0' ? "message" : sse->event,
		.id = sse->id,
		.data = (const char *)buf_head(&sse->data),
		.len = buf_len(&sse->data) - 1,
	};
	sse->has_data = false;
	sse->is_told = true;
	return 1;
}

int sse_next(struct sse *sse, struct sse_event *ret)
{
	if (sse->is_told) {
		buf_reset(&sse->data);
		sse->event[0] = '\0';
		sse->is_told = false;
	}
	for (;;) {
		size_t len = buf_len(&sse->in);
		char *line = (char *)sse->in.bytes + sse->in.start;
		char *end = len == 0 ? NULL : memchr(line, '\n', len);

		if (end == NULL)
			return len > SSE_EVENT_MAX ? -EPROTO : 0;
		size_t line_len = (size_t)(end - line);

		if (memchr(line, '\0', line_len) != NULL)
			return -EPROTO;
		if (line_len > 0 && line[line_len - 1] == '\r')
			line[line_len - 1] = '\0';
		*end = '\0';
		bool is_end = *line == '\0';
		int r = is_end ? 0 : on_field(sse, line);

		buf_consume(&sse->in, line_len + 1);
		if (r < 0)
			return r;
		if (is_end && sse->has_data)
			return complete(sse, ret);
		if (is_end)
			sse->event[0] = '\0';
	}
}

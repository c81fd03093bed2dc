#include "api/capture.h"

#include "api/call.h"
#include "api/encode.h"

enum { CAPTURE_BYTES = 1024 * 1024 };

void capture_init(struct capture *capture, struct api *api, const struct decode_exec *decoded,
                  unsigned flags, const struct tail_ops *ops, void *ctx)
{
	*capture = (struct capture){.is_input_done = !decoded->input};
	buf_init(&capture->input, decoded->input_len);
	if (decoded->input && buf_put(&capture->input, decoded->input, decoded->input_len) < 0)
		capture->is_input_done = true;
	buf_init(&capture->out, CAPTURE_BYTES);
	buf_init(&capture->err, CAPTURE_BYTES);
	tail_init(&capture->tail, api,
	          &(struct tail_target){decoded->exec->sandbox.text, decoded->exec->id.text, flags,
	                                0},
	          ops, ctx);
}

void capture_done(struct capture *capture)
{
	tail_done(&capture->tail);
	buf_done(&capture->input);
	buf_done(&capture->out);
	buf_done(&capture->err);
}

void capture_feed(struct capture *capture)
{
	struct engine *engine = capture->tail.api->engine;
	ssize_t taken;

	if (capture->is_input_done)
		return;
	taken = engine->ops->input(engine, &capture->tail.watch, buf_head(&capture->input),
	                           buf_len(&capture->input), true);
	if (taken >= 0)
		buf_consume(&capture->input, (size_t)taken);
	if (taken < 0 || buf_len(&capture->input) == 0)
		capture->is_input_done = true; /* what it does not read is not our failure */
}

static void collect(struct capture *capture, const struct outlog_record *record)
{
	struct buf *to = record->stream == OUTLOG_STDOUT ? &capture->out : &capture->err;
	size_t take = MIN((size_t)record->len, buf_room(to));

	if (record->stream == OUTLOG_EXIT) {
		tail_parse_exit(record, &capture->end);
		capture->has_end = true;
	}
	if (record->stream != OUTLOG_STDOUT && record->stream != OUTLOG_STDERR) {
		capture->truncated |= record->stream == OUTLOG_GAP;
		return;
	}
	if (buf_put(to, record->bytes, take) < 0 || take < record->len)
		capture->truncated = true;
}

int capture_read(struct capture *capture, struct err *err)
{
	struct outlog_record record;
	int r;

	while ((r = tail_next(&capture->tail, &record, err)) == TAIL_RECORD)
		collect(capture, &record);
	tail_ack(&capture->tail);
	return MIN(r, 0);
}

json_t *capture_result(const struct capture *capture, const struct tail_exit *end)
{
	json_t *object = json_pack("{s:s, s:s, s:b}", "id", capture->tail.exec, "reason",
	                           end->reason, "truncated", capture->truncated);

	json_object_set_new(object, "exitCode",
	                    end->signal ? json_null() : json_integer(end->code));
	json_object_set_new(object, "signal",
	                    end->signal ? json_integer(end->signal) : json_null());
	encode_put_bytes(object, "stdout", buf_head(&capture->out), buf_len(&capture->out));
	encode_put_bytes(object, "stderr", buf_head(&capture->err), buf_len(&capture->err));
	return object;
}

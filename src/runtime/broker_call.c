#include "runtime/broker_call.h"

#include "base/mem.h"

enum {
	IMPORT_MS = 3600 * 1000,
	REMOVE_MS = 600 * 1000,
	DOCTOR_MS = 120 * 1000,
	RUN_MS = 60 * 1000
};

struct broker_call {
	struct peer *peer;
	void (*on_gone)(void *ctx);
	void *ctx;
};

static void on_message(struct wire_msg *msg, void *ctx)
{
	/* The broker has nothing to tell unasked. */
}

static void on_closed(void *ctx)
{
	struct broker_call *call = ctx;

	call->on_gone(call->ctx);
}

int broker_call_new(struct loop *loop, int fd, void (*on_gone)(void *ctx), void *ctx,
                    struct broker_call **ret, struct err *err)
{
	struct broker_call *call = mem_new(struct broker_call);
	struct peer_config config = {
		.role = "broker", .on_message = on_message, .on_closed = on_closed, .ctx = call};

	call->on_gone = on_gone;
	call->ctx = ctx;
	if (peer_new(loop, fd, &config, &call->peer, err) < 0) {
		mem_freep(&call);
		return -1;
	}
	*ret = call;
	return 0;
}

void broker_call_free(struct broker_call *call)
{
	if (!call)
		return;
	peer_free(call->peer);
	mem_freep(&call);
}

struct peer *broker_call_peer(struct broker_call *call)
{
	return call->peer;
}

/* What an answer needs to find its way; one per call. */
struct waiter {
	broker_on_imported on_imported;
	broker_on_done on_done;
	broker_on_doctor on_doctor;
	broker_on_ran on_ran;
	void *ctx;
};

static void take_strings(const struct wire_msg *msg, enum wire_field field, struct strings *ret)
{
	size_t at = 0;
	const char *text;

	while ((text = wire_next_str(msg, field, &at)))
		strings_add(ret, text);
}

static void on_imported(struct wire_msg *msg, const struct err *err, void *ctx)
{
	auto_free struct waiter *waiter = ctx;
	struct broker_imported result = {0};
	const uint8_t *config;
	size_t len = 0;

	if (!msg) {
		waiter->on_imported(NULL, err, waiter->ctx);
		return;
	}
	take_strings(msg, FIELD_LAYER, &result.layers);
	config = wire_blob(msg, FIELD_CONFIG_JSON, &len);
	if (config && len > 0)
		result.config = mem_strndup((const char *)config, len);
	result.format = wire_str(msg, FIELD_FORMAT, "");
	result.bytes = wire_u64(msg, FIELD_BYTES_COUNT, 0);
	result.entries = wire_u64(msg, FIELD_ENTRIES, 0);
	waiter->on_imported(&result, err, waiter->ctx);
	strings_done(&result.layers);
	mem_freep(&result.config);
}

void broker_call_import(struct broker_call *call, const char *image_id, const char *format,
                        int archive_fd, broker_on_imported on_imported_, void *ctx)
{
	auto_wire_out struct wire_out out = {0};
	uint64_t number = peer_begin(call->peer, &out, WIRE_OP_IMPORT);
	struct waiter *waiter = mem_new(struct waiter);

	waiter->on_imported = on_imported_;
	waiter->ctx = ctx;
	wire_put_str(&out, FIELD_IMAGE, image_id);
	wire_put_str(&out, FIELD_FORMAT, format);
	wire_put_fd(&out, archive_fd);
	peer_call(call->peer, number, &out, IMPORT_MS, on_imported, waiter);
}

static void on_done(struct wire_msg *msg, const struct err *err, void *ctx)
{
	auto_free struct waiter *waiter = ctx;

	waiter->on_done(err, waiter->ctx);
}

void broker_call_layer_rm(struct broker_call *call, const char *layer, broker_on_done on_done_,
                          void *ctx)
{
	auto_wire_out struct wire_out out = {0};
	uint64_t number = peer_begin(call->peer, &out, WIRE_OP_LAYER_RM);
	struct waiter *waiter = mem_new(struct waiter);

	waiter->on_done = on_done_;
	waiter->ctx = ctx;
	wire_put_str(&out, FIELD_LAYER, layer);
	peer_call(call->peer, number, &out, REMOVE_MS, on_done, waiter);
}

static void on_doctor(struct wire_msg *msg, const struct err *err, void *ctx)
{
	auto_free struct waiter *waiter = ctx;
	struct strings checks = {0};

	if (msg)
		take_strings(msg, FIELD_CHECK, &checks);
	waiter->on_doctor(msg ? &checks : NULL, err, waiter->ctx);
	strings_done(&checks);
}

void broker_call_doctor(struct broker_call *call, broker_on_doctor on_doctor_, void *ctx)
{
	auto_wire_out struct wire_out out = {0};
	uint64_t number = peer_begin(call->peer, &out, WIRE_OP_DOCTOR);
	struct waiter *waiter = mem_new(struct waiter);

	waiter->on_doctor = on_doctor_;
	waiter->ctx = ctx;
	peer_call(call->peer, number, &out, DOCTOR_MS, on_doctor, waiter);
}

static void on_ran(struct wire_msg *msg, const struct err *err, void *ctx)
{
	auto_free struct waiter *waiter = ctx;
	struct broker_ran result = {0};

	if (!msg) {
		waiter->on_ran(NULL, err, waiter->ctx);
		return;
	}
	result.exit_code = (int)wire_u64(msg, FIELD_EXIT_CODE, 0);
	result.signal = (int)wire_u64(msg, FIELD_SIGNAL, 0);
	result.timed_out = wire_has(msg, FIELD_REASON);
	result.is_cut = wire_u64(msg, FIELD_MORE, 0) != 0;
	result.output = (const char *)wire_blob(msg, FIELD_BYTES, &result.output_len);
	result.errors = (const char *)wire_blob(msg, FIELD_ERRORS, &result.errors_len);
	waiter->on_ran(&result, err, waiter->ctx);
}

void broker_call_run(struct broker_call *call, const struct broker_program *program,
                     broker_on_ran on_ran_, void *ctx)
{
	auto_wire_out struct wire_out out = {0};
	uint64_t number = peer_begin(call->peer, &out, WIRE_OP_RUN);
	struct waiter *waiter = mem_new(struct waiter);

	waiter->on_ran = on_ran_;
	waiter->ctx = ctx;
	wire_put_str(&out, FIELD_ENTRY, program->manifest);
	wire_put_str(&out, FIELD_FINGERPRINT, program->digest);
	for (size_t i = 0; i < program->values->count; i++)
		wire_put_str(&out, FIELD_ARGUMENT, program->values->items[i]);
	if (program->input)
		wire_put_bytes(&out, FIELD_BYTES, program->input, strlen(program->input));
	peer_call(call->peer, number, &out, program->timeout_ms + RUN_MS, on_ran, waiter);
}

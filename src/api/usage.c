/* What was used and what it cost, summed up over runs and sandboxes. */
#include "api/call.h"
#include "api/encode.h"
#include "base/str.h"
#include "store/task.h"
#include "task/meter.h"

static json_t *number_of(uint64_t number)
{
	return json_integer((json_int_t)number);
}

static json_t *encode(const struct usage_row *row)
{
	json_t *object = json_object();

	json_object_set_new(object, "key", encode_text(row->key));
	json_object_set_new(object, "runs", json_integer((json_int_t)row->runs));
	json_object_set_new(object, "sandboxes", number_of(row->sandboxes));
	json_object_set_new(object, "cost", json_real((double)row->cost / 1e6));
	json_object_set_new(object, "inputTokens", json_integer((json_int_t)row->input_tokens));
	json_object_set_new(object, "outputTokens", json_integer((json_int_t)row->output_tokens));
	json_object_set_new(object, "cachedTokens", number_of(row->cached_tokens));
	json_object_set_new(object, "cpuSeconds", json_real((double)row->cpu_us / 1e6));
	json_object_set_new(object, "sandboxSeconds", json_real((double)row->uptime_ms / 1e3));
	json_object_set_new(object, "memoryByteSeconds", number_of(row->memory_byte_seconds));
	json_object_set_new(object, "diskByteSeconds", number_of(row->disk_byte_seconds));
	json_object_set_new(object, "networkBytes", number_of(row->network_bytes));
	return object;
}

static void answer(void *ctx)
{
	struct call *call = ctx;
	struct usage_filter filter = {.viewer = call->caller,
	                              .by = call_query(call, "by", "task"),
	                              .since_ms = call_query_u64(call, "since", 0)};
	struct usage_list list = {0};
	struct err err = {0};
	json_t *items;

	if (store_usage(call->api->store, &filter, &list, &err) < 0) {
		call_fail(call, &err);
		return;
	}
	items = json_array();
	for (size_t i = 0; i < list.count; i++)
		json_array_append_new(items, encode(&list.items[i]));
	call_answer(call, 200, json_pack("{s:o}", "items", items));
	usage_list_done(&list);
}

void handle_usage(struct call *call)
{
	meter_refresh(call->api->tasks, answer, call);
}

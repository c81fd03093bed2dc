/*
 * The native runtime is the broker's: this file only puts its questions into messages.
 */
#include "base/mem.h"
#include "base/str.h"
#include "runtime/broker_call.h"
#include "runtime/gate.h"
#include "runtime/runtime.h"

enum { LAUNCH_MS = 60 * 1000, REAP_MS = 120 * 1000, LIST_MS = 30 * 1000 };

/* Below what the broker allows (broker/ops.def). */
enum { LAUNCHES = 32, REAPS = 64 };

struct native {
	struct runtime runtime; /* first */
	struct broker_call *broker;
	struct gate launches, reaps;
};

static struct native *native_of(struct runtime *runtime)
{
	return (struct native *)runtime;
}

static struct peer *peer_of(struct runtime *runtime)
{
	return broker_call_peer(native_of(runtime)->broker);
}

/* --- launch --- */

struct launch {
	runtime_on_launched on_launched;
	void *ctx;
};

static void put_limits(struct wire_out *out, const struct limits *limits)
{
	static const struct {
		const char *name;
		enum wire_field field;
	} fields[] = {
		{"memory", FIELD_MEMORY},
		{"cpu", FIELD_CPU_MILLI},
		{"pids", FIELD_PIDS},
		{"disk", FIELD_DISK},
		{"inodes", FIELD_INODES},
		{"nofile", FIELD_NOFILE},
		{"output_rate", FIELD_OUTPUT_RATE},
	};

	for (size_t i = 0; i < ARRAY_LEN(fields); i++)
		wire_put_u64(out, fields[i].field, limits_get(limits, limits_find(fields[i].name)));
}

static void put_hostname(struct wire_out *out, const struct sandbox *sandbox)
{
	const char *name = sandbox->spec.hostname;

	if (!name || !*name)
		name = sandbox->spec.name;
	wire_put_str(out, FIELD_HOSTNAME, name && *name ? name : sandbox->id.text);
}

static void put_mounts(struct wire_out *out, const struct spec *spec)
{
	for (size_t i = 0; i < spec->mount_count; i++) {
		const struct mount *mount = &spec->mounts[i];
		auto_free char *text = mem_printf("%s\t%s\t%s", mount->grant, mount->target,
		                                  mount->read_only ? "ro" : "rw");

		wire_put_str(out, FIELD_MOUNT, text);
	}
}

static void on_launched(struct wire_msg *msg, const struct err *err, void *ctx)
{
	auto_free struct launch *launch = ctx;
	struct strings mechanisms = {0};
	const char *text;
	size_t at = 0;

	while (msg && (text = wire_next_str(msg, FIELD_MECHANISM, &at)))
		strings_add(&mechanisms, text);
	launch->on_launched(&mechanisms, err, launch->ctx);
	strings_done(&mechanisms);
}

static void native_launch(struct runtime *runtime, const struct sandbox *sandbox,
                          const struct strings *layers, bool is_parked,
                          runtime_on_launched on_launched_, void *ctx)
{
	struct peer *peer = peer_of(runtime);
	auto_wire_out struct wire_out out = {0};
	uint64_t number = peer_begin(peer, &out, WIRE_OP_LAUNCH);
	struct launch *launch = mem_new(struct launch);

	launch->on_launched = on_launched_;
	launch->ctx = ctx;
	wire_put_str(&out, FIELD_SANDBOX, sandbox->id.text);
	for (size_t i = 0; i < layers->count; i++)
		wire_put_str(&out, FIELD_LAYER, layers->items[i]);
	put_limits(&out, &sandbox->spec.limits);
	put_mounts(&out, &sandbox->spec);
	put_hostname(&out, sandbox);
	if (sandbox->spec.disk_backend)
		wire_put_str(&out, FIELD_DISK_BACKEND, sandbox->spec.disk_backend);
	wire_put_u64(&out, FIELD_DEGRADED, sandbox->spec.degraded);
	wire_put_u64(&out, FIELD_PARKED, is_parked);
	gate_call(&native_of(runtime)->launches, number, &out, LAUNCH_MS, on_launched, launch);
}

/* --- reap --- */

struct reap {
	runtime_on_reaped on_reaped;
	void *ctx;
};

static void on_reaped(struct wire_msg *msg, const struct err *err, void *ctx)
{
	auto_free struct reap *reap = ctx;

	reap->on_reaped(err, reap->ctx);
}

static void native_reap(struct runtime *runtime, const char *id, bool keep_files,
                        runtime_on_reaped on_reaped_, void *ctx)
{
	struct peer *peer = peer_of(runtime);
	auto_wire_out struct wire_out out = {0};
	uint64_t number = peer_begin(peer, &out, WIRE_OP_REAP);
	struct reap *reap = mem_new(struct reap);

	reap->on_reaped = on_reaped_;
	reap->ctx = ctx;
	wire_put_str(&out, FIELD_SANDBOX, id);
	wire_put_u64(&out, FIELD_KEEP_FILES, keep_files);
	gate_call(&native_of(runtime)->reaps, number, &out, REAP_MS, on_reaped, reap);
}

/* --- list: page by page --- */

struct list {
	struct runtime *runtime;
	struct strings ids;
	bool *alive;
	runtime_on_listed on_listed;
	void *ctx;
};

static void list_page(struct list *list);

static void list_finish(struct list *list, const struct err *err)
{
	auto_free struct runtime_entry *entries =
		mem_zalloc((list->ids.count + 1) * sizeof(*entries));

	for (size_t i = 0; i < list->ids.count; i++)
		entries[i] = (struct runtime_entry){list->ids.items[i], list->alive[i]};
	list->on_listed(entries, list->ids.count, err, list->ctx);
	strings_done(&list->ids);
	mem_freep(&list->alive);
	mem_freep(&list);
}

/* "id alive": the id, a blank, 1 or 0. */
static void list_add(struct list *list, const char *entry)
{
	size_t len = strcspn(entry, " \t");

	strings_take(&list->ids, mem_strndup(entry, len));
	list->alive = mem_resize(list->alive, list->ids.count, sizeof(bool));
	list->alive[list->ids.count - 1] = entry[len] && entry[len + 1] == '1';
}

static void on_list_page(struct wire_msg *msg, const struct err *err, void *ctx)
{
	struct list *list = ctx;
	size_t before = list->ids.count;
	size_t at = 0;
	const char *entry;

	while (msg && (entry = wire_next_str(msg, FIELD_ENTRY, &at)))
		list_add(list, entry);
	if (msg && wire_u64(msg, FIELD_MORE, 0) && list->ids.count > before)
		list_page(list);
	else
		list_finish(list, err);
}

static void list_page(struct list *list)
{
	struct peer *peer = peer_of(list->runtime);
	auto_wire_out struct wire_out out = {0};
	uint64_t number = peer_begin(peer, &out, WIRE_OP_LIST);

	if (list->ids.count > 0)
		wire_put_str(&out, FIELD_SANDBOX, list->ids.items[list->ids.count - 1]);
	peer_call(peer, number, &out, LIST_MS, on_list_page, list);
}

static void native_list(struct runtime *runtime, runtime_on_listed on_listed, void *ctx)
{
	struct list *list = mem_new(struct list);

	list->runtime = runtime;
	list->on_listed = on_listed;
	list->ctx = ctx;
	list_page(list);
}

static void native_free(struct runtime *runtime)
{
	struct native *native = native_of(runtime);

	mem_freep(&native);
}

static const struct runtime_ops native_ops = {
	.name = "native",
	.launch = native_launch,
	.reap = native_reap,
	.list = native_list,
	.free = native_free,
};

struct runtime *runtime_native_new(struct broker_call *broker)
{
	struct native *native = mem_new(struct native);

	native->runtime.ops = &native_ops;
	native->broker = broker;
	gate_init(&native->launches, broker_call_peer(broker), LAUNCHES);
	gate_init(&native->reaps, broker_call_peer(broker), REAPS);
	return &native->runtime;
}

void runtime_free(struct runtime *runtime)
{
	if (runtime)
		runtime->ops->free(runtime);
}
/* --- measure --- */

struct measure {
	runtime_on_measured on_measured;
	void *ctx;
};

static void on_measured(struct wire_msg *msg, const struct err *err, void *ctx)
{
	auto_free struct measure *measure = ctx;
	struct runtime_size size = {0};

	if (msg)
		size = (struct runtime_size){wire_u64(msg, FIELD_BYTES_COUNT, 0),
		                             wire_u64(msg, FIELD_ENTRIES, 0)};
	measure->on_measured(msg ? &size : NULL, err, measure->ctx);
}

static void native_measure(struct runtime *runtime, const char *id,
                           runtime_on_measured on_measured_, void *ctx)
{
	struct peer *peer = peer_of(runtime);
	auto_wire_out struct wire_out out = {0};
	uint64_t number = peer_begin(peer, &out, WIRE_OP_DISK);
	struct measure *measure = mem_new(struct measure);

	measure->on_measured = on_measured_;
	measure->ctx = ctx;
	wire_put_str(&out, FIELD_SANDBOX, id);
	peer_call(peer, number, &out, DISK_MS, on_measured, measure);
}

	.measure = native_measure,

/*
 * The native runtime is the broker's: this file only puts its questions into messages.
 */
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "runtime/broker_call.h"
#include "runtime/gate.h"
#include "runtime/runtime.h"

enum {
	LAUNCH_MS = 60 * 1000,
	BIND_MS = 15 * 1000,
	EGRESS_MS = 15 * 1000,
	REAP_MS = 120 * 1000,
	LIST_MS = 30 * 1000,
	DISK_MS = 180 * 1000
};

/* Below what the broker allows (broker/ops.def). */
enum { LAUNCHES = 32, BINDS = 32, REAPS = 64, EGRESSES = 8 };

struct native {
	struct runtime runtime; /* first */
	struct broker_call *broker;
	struct gate launches, binds, reaps, egresses;
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

static const struct {
	const char *name;
	enum wire_field field;
} limit_fields[] = {
	{"memory", FIELD_MEMORY},
	{"cpu", FIELD_CPU_MILLI},
	{"pids", FIELD_PIDS},
	{"disk", FIELD_DISK},
	{"inodes", FIELD_INODES},
	{"nofile", FIELD_NOFILE},
	{"output_rate", FIELD_OUTPUT_RATE},
};

static void put_limits(struct wire_out *out, const struct limits *limits)
{
	for (size_t i = 0; i < ARRAY_LEN(limit_fields); i++)
		wire_put_u64(out, limit_fields[i].field,
		             limits_get(limits, limits_find(limit_fields[i].name)));
}

uint64_t runtime_once(const struct spec *spec)
{
	if (spec_is_for_one_command(spec))
		return 2;
	return spec->is_single; /* what a task left may be kept for another */
}

const char *runtime_hostname(const struct spec *spec, const char *id)
{
	const char *name = spec->hostname;

	if (!name || !*name)
		name = spec->name;
	return name && *name ? name : id;
}

static void put_hostname(struct wire_out *out, const struct sandbox *sandbox)
{
	wire_put_str(out, FIELD_HOSTNAME, runtime_hostname(&sandbox->spec, sandbox->id.text));
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
                          const struct strings *layers, enum runtime_launch how,
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
	wire_put_u64(&out, FIELD_PARKED, how);
	/* Its time begins when it runs, and is told then; this is for when nobody lives to do so.
	 */
	if (how == RUNTIME_START && sandbox->spec.ttl_ms)
		wire_put_u64(&out, FIELD_DEADLINE_MS,
		             io_boot_ms() + LAUNCH_MS + sandbox->spec.ttl_ms);
	if (how == RUNTIME_START)
		wire_put_u64(&out, FIELD_ONCE, runtime_once(&sandbox->spec));
	if (how == RUNTIME_START)
		wire_put_u64(&out, FIELD_LASTING, !sandbox->spec.is_ephemeral);
	gate_call(&native_of(runtime)->launches, number, &out, LAUNCH_MS, on_launched, launch);
}

/* --- bind --- */

struct bind {
	runtime_on_bound on_bound;
	void *ctx;
};

static void on_bound(struct wire_msg *msg, const struct err *err, void *ctx)
{
	auto_free struct bind *bind = ctx;

	bind->on_bound(err, bind->ctx);
}

/* Only what differs: each costs a write to a control file. Memory and disk go together, because of
 * disks that are in memory. */
static void put_changes(struct wire_out *out, const struct limits *made,
                        const struct limits *wanted)
{
	if (made->cpu_milli != wanted->cpu_milli)
		wire_put_u64(out, FIELD_CPU_MILLI, wanted->cpu_milli);
	if (made->pids != wanted->pids)
		wire_put_u64(out, FIELD_PIDS, wanted->pids);
	if (made->memory == wanted->memory && made->disk == wanted->disk &&
	    made->inodes == wanted->inodes)
		return;
	wire_put_u64(out, FIELD_MEMORY, wanted->memory);
	wire_put_u64(out, FIELD_DISK, wanted->disk);
	wire_put_u64(out, FIELD_INODES, wanted->inodes);
}

static void native_bind(struct runtime *runtime, const struct spec *made,
                        const struct sandbox *wanted, runtime_on_bound on_bound_, void *ctx)
{
	struct peer *peer = peer_of(runtime);
	auto_wire_out struct wire_out out = {0};
	uint64_t number = peer_begin(peer, &out, WIRE_OP_BIND);
	struct bind *bind = mem_new(struct bind);
	const char *id = wanted->id.text;

	bind->on_bound = on_bound_;
	bind->ctx = ctx;
	wire_put_str(&out, FIELD_SANDBOX, id);
	if (!str_eq(runtime_hostname(made, id), runtime_hostname(&wanted->spec, id)))
		put_hostname(&out, wanted);
	put_changes(&out, &made->limits, &wanted->spec.limits);
	put_mounts(&out, &wanted->spec);
	wire_put_u64(&out, FIELD_LASTING, !wanted->spec.is_ephemeral);
	gate_call(&native_of(runtime)->binds, number, &out, BIND_MS, on_bound, bind);
}

static void on_unbound(struct wire_msg *msg, const struct err *err, void *ctx)
{
	/* Whoever misses what it had is told so. */
	if (err->code != ERR_OK && err->code != ERR_UNAVAILABLE)
		log_warn("the grants of a parked sandbox are lost with it", LOG_ERR(err));
}

/* Through no gate: it is there before any launch that is asked for later. */
static void native_unbind(struct runtime *runtime, const char *id)
{
	struct peer *peer = peer_of(runtime);
	auto_wire_out struct wire_out out = {0};
	uint64_t number = peer_begin(peer, &out, WIRE_OP_UNBIND);

	wire_put_str(&out, FIELD_SANDBOX, id);
	peer_call(peer, number, &out, BIND_MS, on_unbound, NULL);
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

/* --- egress --- */

static void native_egress(struct runtime *runtime, const char *id, uint64_t generation,
                          const struct strings *cidrs, runtime_on_reaped on_done, void *ctx)
{
	auto_wire_out struct wire_out out = {0};
	uint64_t number = peer_begin(peer_of(runtime), &out, WIRE_OP_EGRESS);
	struct reap *told = mem_new(struct reap);

	*told = (struct reap){on_done, ctx};
	wire_put_str(&out, FIELD_SANDBOX, id);
	wire_put_u64(&out, FIELD_GENERATION, generation);
	for (size_t i = 0; i < cidrs->count; i++)
		wire_put_str(&out, FIELD_CIDR, cidrs->items[i]);
	gate_call(&native_of(runtime)->egresses, number, &out, EGRESS_MS, on_reaped, told);
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

static void native_free(struct runtime *runtime)
{
	struct native *native = native_of(runtime);

	mem_freep(&native);
}

static const struct runtime_ops native_ops = {
	.name = "native",
	.launch = native_launch,
	.bind = native_bind,
	.unbind = native_unbind,
	.reap = native_reap,
	.list = native_list,
	.measure = native_measure,
	.egress = native_egress,
	.free = native_free,
};

struct runtime *runtime_native_new(struct broker_call *broker)
{
	struct native *native = mem_new(struct native);

	native->runtime.ops = &native_ops;
	native->broker = broker;
	gate_init(&native->launches, broker_call_peer(broker), LAUNCHES);
	gate_init(&native->binds, broker_call_peer(broker), BINDS);
	gate_init(&native->reaps, broker_call_peer(broker), REAPS);
	gate_init(&native->egresses, broker_call_peer(broker), EGRESSES);
	return &native->runtime;
}

void runtime_free(struct runtime *runtime)
{
	if (runtime)
		runtime->ops->free(runtime);
}

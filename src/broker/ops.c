/*
 * Who: the broker's loop, root (or root of its user namespace). Capabilities: all of the broker's,
 * used by the zygotes it asks. Bytes: messages of cloched, only through wire getters; no path, no
 * program, no filter, no id range ever comes from them. Gone at the end: descriptors no handler
 * took.
 */
#include "broker/ops.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/id.h"
#include "base/mem.h"
#include "base/str.h"
#include "broker/box.h"
#include "broker/context.h"
#include "broker/job.h"
#include "broker/layer.h"
#include "broker/tasks.h"

enum op_needs {
	NEEDS_NOTHING = 0,
	NEEDS_SANDBOX = 1 << 0,
	NEEDS_LAYERS = 1 << 1, /* one or more */
	NEEDS_LAYER = 1 << 2,  /* exactly one */
	NEEDS_IMAGE = 1 << 3,
	NEEDS_FORMAT = 1 << 4,
	NEEDS_MANIFEST = 1 << 5, /* its file and fingerprint */
};

enum {
	OPS_REAP_MS = 15 * 60 * 1000,
	OPS_IMPORT_MS = 3600 * 1000,
	OPS_LAYER_RM_MS = 15 * 60 * 1000,
	OPS_QUERY_MS = 3 * 60 * 1000,
	OPS_LIST_PAGE = 500,
};

static const struct op {
	enum wire_type type;
	const char *name;
	int (*handler)(struct broker *broker, struct wire_msg *msg, struct err *err);
	enum op_needs needs;
	size_t fds;
	size_t most;
} ops[] = {
#define OP(message, handler, needs, fds, most)                                                     \
	{WIRE_##message, #message, op_##handler, (enum op_needs)(needs), fds, most},
#include "broker/ops.def"
#undef OP
};

/* Fields that must be there once, and the prefix of the id they hold (NULL: not an id). */
static const struct {
	enum op_needs need;
	enum wire_field field;
	const char *prefix;
	const char *name;
} single_fields[] = {
	{NEEDS_SANDBOX, FIELD_SANDBOX, "sb", "sandbox"},
	{NEEDS_LAYER, FIELD_LAYER, "ly", "layer"},
	{NEEDS_IMAGE, FIELD_IMAGE, "im", "image"},
	{NEEDS_FORMAT, FIELD_FORMAT, NULL, "format"},
	{NEEDS_MANIFEST, FIELD_ENTRY, NULL, "manifest"},
	{NEEDS_MANIFEST, FIELD_FINGERPRINT, NULL, "fingerprint"},
};

static const struct op *find_op(enum wire_type type)
{
	for (size_t i = 0; i < ARRAY_LEN(ops); i++)
		if (ops[i].type == type)
			return &ops[i];
	return NULL;
}

/* What no honest daemon gets wrong. */
static int check_structure(const struct op *op, const struct wire_msg *msg, struct err *err)
{
	if (msg->request == 0)
		return err_set(err, ERR_PROTOCOL, "%s without a request number", op->name);
	if (msg->fd_count != op->fds)
		return err_set(err, ERR_PROTOCOL, "%s with %zu descriptors", op->name,
		               msg->fd_count);
	for (size_t i = 0; i < ARRAY_LEN(single_fields); i++)
		if ((op->needs & single_fields[i].need) &&
		    wire_count(msg, single_fields[i].field) != 1)
			return err_set(err, ERR_PROTOCOL, "%s without its %s", op->name,
			               single_fields[i].name);
	if ((op->needs & NEEDS_LAYERS) && wire_count(msg, FIELD_LAYER) == 0)
		return err_set(err, ERR_PROTOCOL, "%s without layers", op->name);
	return 0;
}

static int check_ids(const struct op *op, const struct wire_msg *msg, struct err *err)
{
	for (size_t i = 0; i < ARRAY_LEN(single_fields); i++) {
		if (!(op->needs & single_fields[i].need) || !single_fields[i].prefix)
			continue;
		if (!id_is_valid(wire_str(msg, single_fields[i].field, ""),
		                 single_fields[i].prefix))
			return err_set(err, ERR_INVALID, "malformed %s id", single_fields[i].name);
	}
	return 0;
}

/* Why this is safe: the worst it can bring about is that we end, and sandboxes go on. */
static int take_refusal(struct broker *broker, const struct wire_msg *msg, struct err *err)
{
	struct err why = {0};
	if (msg->fd_count != 0 || msg->request != 0 || wire_get_err(msg, &why) == 0)
		return err_set(err, ERR_PROTOCOL, "an error that answers nothing");
	supervise_refused(&broker->supervise, &why);
	return 0;
}

static int check_hello(const struct wire_msg *msg, struct err *err)
{
	if (msg->fd_count == 0 && wire_u64(msg, FIELD_VERSION_MIN, 1) <= WIRE_VERSION &&
	    wire_u64(msg, FIELD_VERSION_MAX, UINT64_MAX) >= WIRE_VERSION)
		return 0;
	return err_set(err, ERR_PROTOCOL, "cloched speaks another version");
}

int ops_dispatch(struct broker *broker, struct wire_msg *msg, struct err *err)
{
	if (msg->type == WIRE_ERROR)
		return take_refusal(broker, msg, err);
	if (msg->type == WIRE_HELLO) {
		broker->supervise.has_served = true;
		return check_hello(msg, err);
	}
	const struct op *op = find_op(msg->type);
	if (!op)
		return err_set(err, ERR_PROTOCOL, "unknown message %d", (int)msg->type);
	if (check_structure(op, msg, err) < 0)
		return -1;
	struct err refusal = {0};
	int r = check_ids(op, msg, &refusal);
	if (r == 0 && job_count_of(broker, op->type) >= op->most)
		r = err_set(&refusal, ERR_LIMITED, "%zu of these are under way already", op->most);
	if (r == 0)
		r = op->handler(broker, msg, &refusal);
	if (r < 0)
		line_answer_result(&broker->line, msg->request, &refusal);
	return 0;
}

/* The fields of an answer that cloched gets, whatever else the process put there. */
static const struct {
	enum wire_field field;
	enum { RELAY_NUMBER, RELAY_STRINGS, RELAY_BYTES } kind;
} relayed[] = {
	{FIELD_BYTES_COUNT, RELAY_NUMBER}, {FIELD_ENTRIES, RELAY_NUMBER},
	{FIELD_LAYER, RELAY_STRINGS},      {FIELD_CHECK, RELAY_STRINGS},
	{FIELD_FORMAT, RELAY_STRINGS},     {FIELD_CONFIG_JSON, RELAY_BYTES},
	{FIELD_EXIT_CODE, RELAY_NUMBER},   {FIELD_SIGNAL, RELAY_NUMBER},
	{FIELD_MORE, RELAY_NUMBER},        {FIELD_REASON, RELAY_STRINGS},
	{FIELD_BYTES, RELAY_BYTES},        {FIELD_ERRORS, RELAY_BYTES},
};

static void relay_field(struct wire_out *out, const struct wire_msg *answer, size_t i)
{
	enum wire_field field = relayed[i].field;
	size_t at = 0, len = 0;
	const char *text;
	if (!wire_has(answer, field))
		return;
	if (relayed[i].kind == RELAY_NUMBER) {
		wire_put_u64(out, field, wire_u64(answer, field, 0));
	} else if (relayed[i].kind == RELAY_STRINGS) {
		while ((text = wire_next_str(answer, field, &at)))
			wire_put_str(out, field, text);
	} else {
		/* On a line of its own: arguments are evaluated in any order. */
		const uint8_t *bytes = wire_blob(answer, field, &len);
		wire_put_bytes(out, field, bytes, len);
	}
}

void ops_relay(struct job *job, struct wire_msg *answer, const struct err *err)
{
	if (job->request == 0)
		return;
	if (!answer) {
		line_answer_result(&job->broker->line, job->request, err);
		return;
	}
	auto_wire_out struct wire_out out;
	wire_begin(&out, WIRE_OK, job->request);
	for (size_t i = 0; i < ARRAY_LEN(relayed); i++)
		relay_field(&out, answer, i);
	if (out.overflow) {
		/* Whoever asked must not wait for an answer that does not fit. */
		struct err large = {0};
		err_set(&large, ERR_TOO_LARGE, "the answer is too large");
		line_answer_result(&job->broker->line, job->request, &large);
		return;
	}
	line_answer(&job->broker->line, &out);
}

/* A job of the tasks zygote whose answer is relayed; out has the message but not yet the socket. */
static int start_task(struct broker *broker, const struct wire_msg *msg, struct job **ret,
                      struct wire_out *out, struct err *err)
{
	if (job_new(broker, msg->type, msg->request, ret, err) < 0)
		return -1;
	wire_begin(out, msg->type, msg->request);
	wire_put_fd(out, (*ret)->child_sock);
	return 0;
}

static void on_reaped(struct job *job, struct wire_msg *answer, const struct err *err)
{
	if (answer && job->slot >= 0)
		slots_free(&job->broker->slots, (unsigned)job->slot);
	ops_relay(job, answer, err);
}

/*
 * Why this is safe: the id has the shape of an id, so it names nothing outside sandboxes/; what is
 * killed is what root itself wrote down as this sandbox's keeper (checked by start time and boot
 * id) and what sits in the cgroup of that name; files of a sandbox are walked by a worker. The
 * worst a hostile daemon does is to end and delete sandboxes, which it may.
 */
int op_reap(struct broker *broker, struct wire_msg *msg, struct err *err)
{
	const char *id = wire_str(msg, FIELD_SANDBOX, "");
	if (job_is_busy(broker, id))
		return err_set(err, ERR_CONFLICT, "something is under way for %s: ask again", id);
	blanks_drop(broker, id);
	struct box_meta meta = {.slot = -1};
	auto_close int box = box_open(broker->site.state.sandboxes_fd, id);
	if (box >= 0 && box_read_meta(box, &meta) < 0)
		meta.slot = -1;
	/* Who reaped it before may have died after the last file and before the answer. */
	if (meta.slot < 0)
		meta.slot = slots_find(&broker->slots, id);
	struct job *job;
	auto_wire_out struct wire_out out = {0};
	if (start_task(broker, msg, &job, &out, err) < 0)
		return -1;
	wire_put_str(&out, FIELD_SANDBOX, id);
	wire_put_u64(&out, FIELD_KEEP_FILES, wire_u64(msg, FIELD_KEEP_FILES, 0) != 0);
	(void)!str_copy(job->sandbox, sizeof(job->sandbox), id); /* a valid id fits */
	job->slot = meta.slot;
	return job_send(job, &broker->tasks, &out, OPS_REAP_MS, on_reaped, err);
}

struct listing {
	struct broker *broker;
	char (*ids)[LIMIT_ID_LEN + 1];
	size_t count;
	const char *after;
};

static int collect_id(const char *id, void *ctx)
{
	struct listing *listing = ctx;
	if (strcmp(id, listing->after) <= 0)
		return 0;
	listing->ids = mem_resize(listing->ids, listing->count + 1, sizeof(*listing->ids));
	(void)!str_copy(listing->ids[listing->count++], sizeof(*listing->ids), id); /* fits */
	return 0;
}

static int compare_ids(const void *a, const void *b)
{
	return strcmp(a, b);
}

/*
 * Why this is safe: it only reads, and only names in sandboxes/ that have the shape of an id. The
 * cursor is compared, never opened.
 */
int op_list(struct broker *broker, struct wire_msg *msg, struct err *err)
{
	struct listing listing = {.broker = broker, .after = wire_str(msg, FIELD_SANDBOX, "")};
	int r = box_each(broker->site.state.sandboxes_fd, collect_id, &listing);
	if (r < 0) {
		mem_freep(&listing.ids);
		return err_sys(err, -r, "list the sandboxes");
	}
	if (listing.count)
		qsort(listing.ids, listing.count, sizeof(*listing.ids), compare_ids);
	auto_wire_out struct wire_out out;
	wire_begin(&out, WIRE_OK, msg->request);
	for (size_t i = 0; i < listing.count && i < OPS_LIST_PAGE; i++) {
		auto_close int box = box_open(broker->site.state.sandboxes_fd, listing.ids[i]);
		bool is_alive = box >= 0 && box_is_alive(box);
		auto_free char *entry = mem_printf("%s %d", listing.ids[i], is_alive);
		wire_put_str(&out, FIELD_ENTRY, entry);
	}
	wire_put_u64(&out, FIELD_MORE, listing.count > OPS_LIST_PAGE);
	mem_freep(&listing.ids);
	line_answer(&broker->line, &out);
	return 0;
}

/*
 * Why this is safe: the archive is a descriptor the daemon could read itself, must be a regular
 * file, and is read by a worker in a jail that reaches nothing but a fresh directory. The layer ids
 * are ours.
 */
void ops_layers_made(struct job *job, bool has_answered)
{
	struct broker *broker = job->broker;
	size_t makers =
		job_count_of(broker, WIRE_OP_IMPORT) + job_count_of(broker, WIRE_OP_HOST_IMAGE);
	broker->has_half_layers |= !has_answered;
	if (!broker->has_half_layers || makers > 1) /* the one is this job */
		return;
	int r = layer_sweep(&broker->site);
	if (r < 0)
		log_warn("left-over layers stay", LOG_INT("errno", -r));
	broker->has_half_layers = r < 0;
}

static void on_imported(struct job *job, struct wire_msg *answer, const struct err *err)
{
	ops_layers_made(job, answer != NULL);
	ops_relay(job, answer, err);
}

int op_import(struct broker *broker, struct wire_msg *msg, struct err *err)
{
	static const char *const formats[] = {"auto", "tar", "oci-layout", "docker-archive"};
	const char *format = wire_str(msg, FIELD_FORMAT, "");
	size_t i = 0;
	while (i < ARRAY_LEN(formats) && !str_eq(formats[i], format))
		i++;
	if (i == ARRAY_LEN(formats))
		return err_set(err, ERR_INVALID, "unknown archive format");
	struct stat st;
	if (fstat(msg->fds[0], &st) < 0 || !S_ISREG(st.st_mode))
		return err_set(err, ERR_INVALID, "the archive is not a regular file");
	struct job *job;
	auto_wire_out struct wire_out out = {0};
	if (start_task(broker, msg, &job, &out, err) < 0)
		return -1;
	wire_put_fd(&out, msg->fds[0]);
	wire_put_str(&out, FIELD_FORMAT, formats[i]);
	return job_send(job, &broker->tasks, &out, OPS_IMPORT_MS, on_imported, err);
}

/*
 * Why this is safe: the id has the shape of a layer id, so nothing outside layers/ is named; a
 * layer a running sandbox stands on stays; the tree is emptied by a worker.
 */
int op_layer_rm(struct broker *broker, struct wire_msg *msg, struct err *err)
{
	const char *id = wire_str(msg, FIELD_LAYER, "");
	struct job *job;
	auto_wire_out struct wire_out out = {0};
	if (start_task(broker, msg, &job, &out, err) < 0)
		return -1;
	wire_put_str(&out, FIELD_LAYER, id);
	return job_send(job, &broker->tasks, &out, OPS_LAYER_RM_MS, ops_relay, err);
}

/* Why this is safe: it tells an id the broker chose. */
int op_host_image(struct broker *broker, struct wire_msg *msg, struct err *err)
{
	auto_wire_out struct wire_out out;
	wire_begin(&out, WIRE_OK, msg->request);
	wire_put_str(&out, FIELD_LAYER, broker->site.host_layer);
	line_answer(&broker->line, &out);
	return 0;
}

/* Why this is safe: a worker counts; the answer is two numbers. */
int op_disk(struct broker *broker, struct wire_msg *msg, struct err *err)
{
	struct job *job;
	auto_wire_out struct wire_out out = {0};
	if (start_task(broker, msg, &job, &out, err) < 0)
		return -1;
	wire_put_str(&out, FIELD_SANDBOX, wire_str(msg, FIELD_SANDBOX, ""));
	return job_send(job, &broker->tasks, &out, OPS_QUERY_MS, ops_relay, err);
}

/* Why this is safe: it takes no argument; every try happens in a child and leaves nothing. */
int op_doctor(struct broker *broker, struct wire_msg *msg, struct err *err)
{
	struct job *job;
	auto_wire_out struct wire_out out = {0};
	if (start_task(broker, msg, &job, &out, err) < 0)
		return -1;
	return job_send(job, &broker->tasks, &out, OPS_QUERY_MS, ops_relay, err);
}

/*
 * Who: children of the tasks zygote, root (or root of the broker's user namespace) with its
 * capabilities: they kill, unmount nothing, chown and start workers. Bytes: messages the broker has
 * checked. Gone at the end: the process; it does one thing.
 */
#include "broker/tasks.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "broker/box.h"
#include "broker/doctor.h"
#include "broker/hostimage.h"
#include "broker/layer.h"
#include "broker/reap.h"
#include "broker/run.h"
#include "broker/worker.h"
#include "os/path.h"
#include "os/proc.h"

enum { TASK_USAGE_MS = 120 * 1000, TASK_GRACE_MS = 5000 };

typedef int (*task_fn)(const struct site *site, struct wire_msg *msg, struct wire_out *answer,
                       struct err *err);

static int task_reap(const struct site *site, struct wire_msg *msg, struct wire_out *answer,
                     struct err *err)
{
	return reap_run(site, wire_str(msg, FIELD_SANDBOX, ""),
	                wire_u64(msg, FIELD_KEEP_FILES, 0) != 0, err);
}

static int task_import(const struct site *site, struct wire_msg *msg, struct wire_out *answer,
                       struct err *err)
{
	auto_close int archive = wire_take_fd(msg, TASK_FD_FIRST);
	return layer_import(site, archive, wire_str(msg, FIELD_FORMAT, "auto"), answer, err);
}

static int task_layer_rm(const struct site *site, struct wire_msg *msg, struct wire_out *answer,
                         struct err *err)
{
	return layer_remove(site, wire_str(msg, FIELD_LAYER, ""), err);
}

/* Adds what a tree of a sandbox's ids holds; one that is not there holds nothing. */
static int add_usage(const struct site *site, int box, const char *path, uint64_t *used,
                     uint64_t *entries, struct err *err)
{
	auto_close int tree = path_open_plain(box, path, O_PATH | O_DIRECTORY, 0);
	struct worker worker;
	if (tree < 0)
		return 0;
	worker_init(&worker);
	int r = worker_start(&worker, site, tree, err);
	if (r == 0) {
		auto_free uint8_t *bytes = mem_zalloc(LIMIT_WIRE_BYTES);
		auto_wire_out struct wire_out out;
		struct wire_msg usage;
		wire_begin(&out, WIRE_W_USAGE, 1);
		wire_put_fd(&out, worker.tree);
		r = worker_call(&worker, &out, TASK_USAGE_MS, bytes, &usage, err);
		if (r == 0) {
			*used += wire_u64(&usage, FIELD_BYTES_COUNT, 0);
			*entries += wire_u64(&usage, FIELD_ENTRIES, 0);
			wire_msg_done(&usage);
		}
	}
	worker_stop(&worker);
	return r;
}

/* Nothing stored as files (tmpfs, loop, never started) counts as nothing used. */
static int task_disk(const struct site *site, struct wire_msg *msg, struct wire_out *answer,
                     struct err *err)
{
	static const char *const trees[] = {"disk/upper", "disk/workspace"};
	const char *id = wire_str(msg, FIELD_SANDBOX, "");
	auto_close int box = box_open(site->state.sandboxes_fd, id);
	if (box < 0)
		return err_set(err, ERR_NOT_FOUND, "there is no sandbox %s", id);
	uint64_t used = 0, entries = 0;
	int r = 0;
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(trees); i++)
		r = add_usage(site, box, trees[i], &used, &entries, err);
	wire_put_u64(answer, FIELD_BYTES_COUNT, used);
	wire_put_u64(answer, FIELD_ENTRIES, entries);
	return r;
}

static void put_check(const struct doctor_check *check, void *ctx)
{
	auto_free char *text =
		mem_printf("%s\t%s\t%s\t%s", check->name, doctor_status_name(check->status),
	                   check->detail, check->remedy);
	wire_put_str(ctx, FIELD_CHECK, text);
}

static int task_doctor(const struct site *site, struct wire_msg *msg, struct wire_out *answer,
                       struct err *err)
{
	struct doctor_options options = {.sandboxes_fd = site->state.sandboxes_fd,
	                                 .is_rootless = site->is_rootless,
	                                 .id_count = site_worker_count(site)};
	doctor_run(&options, put_check, answer);
	return 0;
}

static int task_host_image(const struct site *site, struct wire_msg *msg, struct wire_out *answer,
                           struct err *err)
{
	struct id id;
	if (hostimage_refresh(site, &id, err) < 0)
		return -1;
	wire_put_str(answer, FIELD_LAYER, id.text);
	return 0;
}

static int task_stop_all(const struct site *site, struct wire_msg *msg, struct wire_out *answer,
                         struct err *err)
{
	size_t count;
	if (reap_stop_all(site, wire_u64(msg, FIELD_GRACE_MS, TASK_GRACE_MS), &count, err) < 0)
		return -1;
	wire_put_u64(answer, FIELD_ENTRIES, count);
	return 0;
}

static const struct {
	enum wire_type type;
	task_fn run;
} tasks[] = {
	{WIRE_OP_REAP, task_reap},
	{WIRE_OP_IMPORT, task_import},
	{WIRE_OP_LAYER_RM, task_layer_rm},
	{WIRE_OP_DISK, task_disk},
	{WIRE_OP_DOCTOR, task_doctor},
	{WIRE_STOP_ALL, task_stop_all},
	{WIRE_OP_HOST_IMAGE, task_host_image},
	{WIRE_OP_RUN, run_command},
};

void tasks_warm(void)
{
	char boot[37];
	(void)!proc_boot_id(boot); /* remembered; whoever needs it says when it fails */
}

int tasks_run(struct wire_msg *msg, void *ctx)
{
	auto_close int result = wire_take_fd(msg, TASK_FD_RESULT);
	auto_wire_out struct wire_out answer;
	struct err err = {0};
	wire_begin(&answer, WIRE_OK, msg->request);
	int r = err_set(&err, ERR_INTERNAL, "no task for message %d", (int)msg->type);
	for (size_t i = 0; i < ARRAY_LEN(tasks); i++)
		if (tasks[i].type == msg->type)
			r = tasks[i].run(ctx, msg, &answer, &err);
	if (r < 0) {
		wire_done(&answer);
		wire_begin(&answer, WIRE_ERROR, msg->request);
		wire_put_err(&answer, &err);
	}
	wire_msg_done(msg);
	r = wire_send(result, &answer);
	if (r < 0 && r != -EPIPE)
		log_warn("a task could not answer", LOG_INT("message", msg->type),
		         LOG_INT("errno", -r));
	return r < 0;
}

/*
 * OP_LAUNCH: from a half-trusted request to a SLOT message for the launch zygote.
 *
 * Who: the broker's loop. Capabilities: CHOWN for the new directory. Bytes: the daemon's message.
 * Gone at the end: descriptors of layers and grants (the message carries copies).
 *
 * Why this is safe: the daemon chooses an id, limits within the table's ranges, layers and grants
 * by id, targets inside. Everything with power over the host (id range, keeper uid, program,
 * directories, descriptors, cgroup name) is chosen here. A SLOT message is written field by field
 * from checked values; nothing of the request is copied unseen.
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/id.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "broker/box.h"
#include "broker/context.h"
#include "broker/job.h"
#include "broker/layer.h"
#include "broker/ops.h"
#include "broker/wish.h"
#include "keeper/keeper.h"
#include "os/disk.h"

enum { LAUNCH_MS = 45 * 1000, UNDO_MS = 15 * 60 * 1000 };

/* A launch while it is being put together. */
struct launching {
	struct broker *broker;
	const struct wire_msg *msg;
	const char *id;
	struct wish_limits limits;
	int layers[LIMIT_LAYERS];
	bool is_host[LIMIT_LAYERS];
	struct box_meta meta;
	struct wish_mounts mounts;
	int box;
	bool is_new;
	bool is_blank; /* to be made without an image */
};

static void launching_done(struct launching *launching)
{
	for (size_t i = 0; i < launching->meta.layer_count; i++)
		fd_closep(&launching->layers[i]);
	wish_mounts_done(&launching->mounts);
	fd_closep(&launching->box);
}

static int check_words(const struct launching *launching, struct err *err)
{
	enum disk_backend backend;
	if (wish_check_hostname(wire_str(launching->msg, FIELD_HOSTNAME, "cloche"), err) < 0)
		return -1;
	if (!disk_parse(wire_str(launching->msg, FIELD_DISK_BACKEND, "auto"), &backend))
		return err_set(err, ERR_INVALID, "unknown disk backend");
	return 0;
}

static int add_layer(struct launching *launching, const char *id, struct err *err)
{
	struct box_meta *meta = &launching->meta;
	const struct site *site = &launching->broker->site;
	bool is_host = str_eq(id, "host");
	if (is_host)
		id = site->host_layer;
	else if (!id_is_valid(id, "ly"))
		return err_set(err, ERR_INVALID, "malformed layer id");
	if (meta->layer_count == LIMIT_LAYERS)
		return err_set(err, ERR_INVALID, "more than %d layers", LIMIT_LAYERS);
	/* The host image is what /usr is bound onto: it can only be the lowest. */
	if (is_host && meta->layer_count > 0)
		return err_set(err, ERR_INVALID, "the host image must be the lowest layer");
	int fd = layer_open_tree(site, id, err);
	if (fd < 0)
		return -1;
	launching->layers[meta->layer_count] = fd;
	launching->is_host[meta->layer_count] = is_host;
	(void)!str_copy(meta->layers[meta->layer_count++], sizeof(meta->layers[0]), id); /* fits */
	return 0;
}

static int open_layers(struct launching *launching, struct err *err)
{
	size_t at = 0;
	const char *id;
	if (launching->is_blank)
		return 0;
	while ((id = wire_next_str(launching->msg, FIELD_LAYER, &at)))
		if (add_layer(launching, id, err) < 0)
			return -1;
	return launching->meta.layer_count ? 0 : err_set(err, ERR_INVALID, "malformed layer id");
}

/* Directory, meta without a slot, slot, meta with it: see slot.c for why in this order. */
static int take_slot(struct launching *launching, struct err *err)
{
	struct broker *broker = launching->broker;
	struct box_meta *meta = &launching->meta;
	unsigned slot;
	meta->slot = -1;
	meta->created_ms = io_real_ms();
	int r = box_write_meta(launching->box, meta);
	if (r < 0)
		return err_sys(err, -r, "write meta of %s", launching->id);
	if (slots_take(&broker->slots, launching->id, &slot, err) < 0)
		return -1;
	bool alone = broker->site.is_rootless;
	meta->slot = (int)slot;
	meta->range_base = alone ? broker->site.shared_base : slot_range_base(slot);
	meta->range_count = alone ? broker->site.shared_count : SLOT_RANGE_COUNT;
	meta->keeper_uid = alone ? 0 : slot_keeper_uid(slot);
	r = box_write_meta(launching->box, meta);
	if (r < 0) {
		slots_free(&broker->slots, slot);
		meta->slot = -1;
		return err_sys(err, -r, "write meta of %s", launching->id);
	}
	return wish_mounts_record(&launching->mounts, launching->box, err);
}

/* 0: it starts; 1: parked; 2: blank. */
static uint64_t parked_as(const struct wire_msg *msg)
{
	return MIN(wire_u64(msg, FIELD_PARKED, 0), UINT64_C(2));
}

static void put_slot(const struct launching *launching, struct wire_out *out)
{
	const struct site *site = &launching->broker->site;
	const struct wire_msg *msg = launching->msg;
	wire_put_str(out, FIELD_SANDBOX, launching->id);
	wire_put_str(out, FIELD_CGROUP, launching->id);
	wire_put_str(out, FIELD_HOSTNAME, wire_str(msg, FIELD_HOSTNAME, "cloche"));
	const char *backend = wire_str(msg, FIELD_DISK_BACKEND, "auto");
	wire_put_str(out, FIELD_DISK_BACKEND,
	             str_eq(backend, "auto") ? disk_name(site->disk_backend) : backend);
	wire_put_u64(out, FIELD_DEGRADED, wire_u64(msg, FIELD_DEGRADED, 0) != 0);
	wire_put_u64(out, FIELD_PARKED, parked_as(msg));
	wire_put_u64(out, FIELD_DEADLINE_MS, wire_u64(msg, FIELD_DEADLINE_MS, 0));
	wire_put_u64(out, FIELD_ONCE, MIN(wire_u64(msg, FIELD_ONCE, 0), UINT64_C(2)));
	wire_put_u64(out, FIELD_LASTING, wire_u64(msg, FIELD_LASTING, 0) != 0);
	wire_put_u64(out, FIELD_RANGE_BASE, launching->meta.range_base);
	wire_put_u64(out, FIELD_RANGE_COUNT, launching->meta.range_count);
	wire_put_u64(out, FIELD_KEEPER_UID, launching->meta.keeper_uid);
	wire_put_u64(out, FIELD_DAEMON_UID, site->daemon.uid);
	wire_put_u64(out, FIELD_DAEMON_GID, site->daemon.gid);
	wish_put_limits(&launching->limits, true, out);
	for (size_t i = 0; i < launching->meta.layer_count; i++)
		wire_put_str(out, FIELD_LAYER,
		             launching->is_host[i] ? "host" : launching->meta.layers[i]);
	wish_mounts_put(&launching->mounts, out);
}

static void put_sources(const struct launching *launching, struct wire_out *out)
{
	for (size_t i = 0; i < launching->meta.layer_count; i++)
		wire_put_fd(out, launching->layers[i]);
	wish_mounts_put_fds(&launching->mounts, out);
}

/* In the order of enum keeper_fd. */
static void put_fds(const struct launching *launching, int result, int dialer, struct wire_out *out)
{
	const struct site *site = &launching->broker->site;
	wire_put_fd(out, result);
	wire_put_fd(out, launching->box);
	wire_put_fd(out, site->state.run_fd);
	wire_put_fd(out, site->program_fd);
	wire_put_fd(out, site->templates_fd);
	wire_put_fd(out, dialer);
	put_sources(launching, out);
}

static void on_undone(struct job *job, struct wire_msg *answer, const struct err *err)
{
	if (answer && job->slot >= 0)
		slots_free(&job->broker->slots, (unsigned)job->slot);
	if (!answer)
		log_warn("a failed launch is not undone yet", LOG_STR("sandbox", job->sandbox),
		         LOG_ERR(err));
	/* What the launch itself said, kept until its leftovers were gone. */
	line_answer_result(&job->broker->line, job->request, job->cause);
}

/* One clean-up path: what a failed launch left is reaped like any dead sandbox, then refused. */
static void undo(struct job *failed, const struct err *cause)
{
	struct broker *broker = failed->broker;
	struct job *job;
	struct err err = {0};
	auto_wire_out struct wire_out out = {0};
	if (job_new(broker, WIRE_OP_REAP, failed->request, &job, &err) < 0) {
		line_answer_result(&broker->line, failed->request, cause);
		return;
	}
	memcpy(job->sandbox, failed->sandbox, sizeof(job->sandbox));
	job->slot = failed->slot;
	job->cause = mem_new(struct err);
	*job->cause = *cause;
	wire_begin(&out, WIRE_OP_REAP, 1);
	wire_put_fd(&out, job->child_sock);
	wire_put_str(&out, FIELD_SANDBOX, job->sandbox);
	wire_put_u64(&out, FIELD_KEEP_FILES, failed->keep_files);
	if (job_send(job, &broker->tasks, &out, UNDO_MS, on_undone, &err) < 0)
		line_answer_result(&broker->line, failed->request, cause);
}

static void answer_ready(struct job *job, struct wire_msg *answer)
{
	auto_wire_out struct wire_out out;
	wire_begin(&out, WIRE_OK, job->request);
	wire_put_u64(&out, FIELD_PID, wire_u64(answer, FIELD_PID, 0));
	wire_put_u64(&out, FIELD_START_TIME, wire_u64(answer, FIELD_START_TIME, 0));
	size_t at = 0;
	const char *mechanism;
	while ((mechanism = wire_next_str(answer, FIELD_MECHANISM, &at)))
		wire_put_str(&out, FIELD_MECHANISM, mechanism);
	line_answer(&job->broker->line, &out);
}

static void on_launched(struct job *job, struct wire_msg *answer, const struct err *err)
{
	if (!answer || answer->type != WIRE_SLOT_READY) {
		struct err cause = *err;
		if (answer)
			err_set(&cause, ERR_PROTOCOL, "the keeper answered something else");
		/* A keeper names the step that failed; one that died could not. */
		if (!str_has_prefix(cause.msg, "start the sandbox"))
			err_wrap(&cause, "start the sandbox (keeper)");
		undo(job, &cause);
		return;
	}
	if (job->is_blank)
		blanks_add(job->broker, job);
	answer_ready(job, answer);
}

/* Whoever could not be finished is taken down, and the same request goes the long way: with the
 * same grants. */
static void on_finished(struct job *job, struct wire_msg *answer, const struct err *err)
{
	if (answer && answer->type == WIRE_SLOT_READY) {
		answer_ready(job, answer);
		return;
	}
	struct err cause = *err;
	if (answer)
		err_set(&cause, ERR_PROTOCOL, "the keeper answered something else");
	wish_mounts_give_back(&job->mounts, &job->broker->grants);
	line_answer_result(&job->broker->line, job->request, &cause);
}

static int send_slot(struct launching *launching, struct err *err)
{
	struct broker *broker = launching->broker;
	struct job *job;
	if (job_new(broker, WIRE_OP_LAUNCH, launching->msg->request, &job, err) < 0)
		return -1;
	memcpy(job->sandbox, launching->id, strlen(launching->id) + 1);
	job->slot = launching->meta.slot;
	job->keep_files = !launching->is_new;
	job->is_blank = launching->is_blank;
	/* What it may reach is said anew for each start. */
	(void)unlinkat(launching->box, "egress", 0);
	auto_close int dialer = egress_socket(&broker->egress, launching->id, err);
	if (dialer < 0) {
		job_free(job);
		return -1;
	}
	auto_wire_out struct wire_out out;
	wire_begin(&out, WIRE_SLOT, 1);
	put_slot(launching, &out);
	put_fds(launching, job->child_sock, dialer, &out);
	return job_send(job, &broker->launch, &out, LAUNCH_MS, on_launched, err);
}

/* Takes back what was made before the zygote was asked. */
static void take_back(struct launching *launching)
{
	if (launching->meta.slot >= 0)
		slots_free(&launching->broker->slots, (unsigned)launching->meta.slot);
	launching->meta.slot = -1;
	if (!launching->is_new) {
		(void)!box_write_meta(launching->box,
		                      &launching->meta); /* it says "no slot" or is stale */
		return;
	}
	/* What stays is found by the next start. */
	(void)unlinkat(launching->box, "meta", 0);
	(void)unlinkat(launching->box, "grants", 0);
	(void)unlinkat(launching->broker->site.state.sandboxes_fd, launching->id, AT_REMOVEDIR);
}

static int make_and_send(struct launching *launching, struct err *err)
{
	const struct site *site = &launching->broker->site;
	if (box_make(site->state.sandboxes_fd, launching->id, site->daemon.gid, &launching->box,
	             &launching->is_new, err) < 0)
		return -1;
	if (!launching->is_new && box_is_alive(launching->box))
		return err_set(err, ERR_CONFLICT, "sandbox %s runs already", launching->id);
	/* One that died and was not reaped still has its range. */
	struct box_meta old;
	if (!launching->is_new && box_read_meta(launching->box, &old) == 0 && old.slot >= 0)
		return err_set(err, ERR_CONFLICT, "sandbox %s must be reaped first", launching->id);
	if (wish_mounts_open(launching->broker, launching->msg, launching->box, &launching->mounts,
	                     err) < 0 ||
	    take_slot(launching, err) < 0 || send_slot(launching, err) < 0) {
		take_back(launching);
		return -1;
	}
	return 0;
}

/* The image, the limits and all else for one that has been waiting; where it sits it was told when
 * it was made. From here on it is used or ends. */
static int send_rest(struct launching *launching, struct err *err)
{
	struct broker *broker = launching->broker;
	struct job *job;
	int sock = blanks_take(broker, launching->id);
	if (job_new_on(broker, WIRE_OP_LAUNCH, launching->msg->request, sock, &job, err) < 0)
		return -1;
	memcpy(job->sandbox, launching->id, strlen(launching->id) + 1);
	auto_wire_out struct wire_out out;
	wire_begin(&out, WIRE_SLOT, 1);
	put_slot(launching, &out);
	put_sources(launching, &out);
	if (job_ask(job, &out, LAUNCH_MS, on_finished, err) < 0)
		return -1;
	job->mounts = launching->mounts;
	launching->mounts = (struct wish_mounts){0};
	return 0;
}

static int finish_blank(struct launching *launching, struct err *err)
{
	struct broker *broker = launching->broker;
	struct box_meta made;
	launching->box = box_open(broker->site.state.sandboxes_fd, launching->id);
	int r = launching->box < 0 ? launching->box : box_read_meta(launching->box, &made);
	if (r < 0)
		return err_sys(err, -r, "read meta of %s", launching->id);
	struct box_meta *meta = &launching->meta;
	meta->slot = made.slot;
	meta->range_base = made.range_base;
	meta->range_count = made.range_count;
	meta->keeper_uid = made.keeper_uid;
	meta->created_ms = io_real_ms();
	/* Before anything of a layer is in use: who removes layers looks here. */
	r = box_write_meta(launching->box, meta);
	if (r < 0)
		return err_sys(err, -r, "write meta of %s", launching->id);
	r = wish_mounts_open(broker, launching->msg, launching->box, &launching->mounts, err);
	if (r == 0 && launching->mounts.count > 0)
		r = wish_mounts_record(&launching->mounts, launching->box, err);
	if (r == 0)
		r = send_rest(launching, err);
	if (r < 0)
		wish_mounts_give_back(&launching->mounts, &broker->grants);
	return r;
}

int op_launch(struct broker *broker, struct wire_msg *msg, struct err *err)
{
	auto_free struct launching *launching = mem_new(struct launching);
	launching->broker = broker;
	launching->msg = msg;
	launching->id = wire_str(msg, FIELD_SANDBOX, "");
	launching->box = -1;
	launching->meta.slot = -1;
	int r = 0;
	if (broker->is_stopping)
		r = err_set(err, ERR_UNAVAILABLE, "cloche is stopping");
	else if (job_is_busy(broker, launching->id))
		r = err_set(err, ERR_CONFLICT, "something is under way for %s: ask again",
		            launching->id);
	launching->is_blank = parked_as(msg) == 2;
	if (r == 0 && launching->is_blank && wire_count(msg, FIELD_MOUNT) > 0)
		r = err_set(err, ERR_INVALID, "a blank sandbox has no mounts yet");
	bool has_waited = !launching->is_blank && blanks_has(broker, launching->id);
	if (r == 0 && wish_limits(msg, &launching->limits, err) == 0 &&
	    check_words(launching, err) == 0 && open_layers(launching, err) == 0)
		r = has_waited ? finish_blank(launching, err) : make_and_send(launching, err);
	else
		r = -1;
	if (r < 0 && err->sys != 0)
		err_wrap(err, "start the sandbox (prepare)");
	launching_done(launching);
	return r;
}

/*
 * OP_BIND: from a half-trusted request to a BIND message for the launch zygote.
 *
 * Who: the broker's loop. Capabilities: none beyond reading the box. Bytes: the daemon's message,
 * files root wrote. Gone at the end: descriptors of grants, or they are back in the list.
 *
 * Why this is safe: the daemon chooses what it may choose at a launch, checked by the same code:
 * limits within the table's ranges, grants by id, targets inside. Which process is entered comes
 * from a file root wrote, by pid, start time and boot id; it exists only for sandboxes made in
 * advance. Whether something runs in there already is the keeper's to know: it refuses to be bound
 * once it is claimed, or twice. So no root process ever enters a namespace that a tenant has seen.
 *
 * OP_UNBIND is for one that dies between the bind and the claim: its grants go to whoever is made
 * instead.
 */
#include <errno.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"
#include "broker/box.h"
#include "broker/context.h"
#include "broker/job.h"
#include "broker/ops.h"
#include "broker/wish.h"
#include "keeper/keeper.h"
#include "os/proc.h"

enum { BIND_MS = 10 * 1000 };

struct asked {
	struct broker *broker;
	const struct wire_msg *msg;
	const char *id;
	const char *hostname; /* NULL: stays */
	struct wish_limits limits;
	struct box_meta meta;
	struct box_process init;
	int box;
};

/* A disk in memory is measured by both, so they come together. */
static bool has_whole_disk(const struct wire_msg *msg)
{
	return wire_has(msg, FIELD_DISK) == wire_has(msg, FIELD_INODES) &&
	       (!wire_has(msg, FIELD_DISK) || wire_has(msg, FIELD_MEMORY));
}

static int check_request(struct asked *asked, struct err *err)
{
	asked->hostname = wire_str(asked->msg, FIELD_HOSTNAME, NULL);
	if (asked->hostname && wish_check_hostname(asked->hostname, err) < 0)
		return -1;
	if (!has_whole_disk(asked->msg))
		return err_set(err, ERR_INVALID, "disk, inodes and memory change together");
	return wish_limits(asked->msg, &asked->limits, err);
}

static int find_parked(struct asked *asked, struct err *err)
{
	char boot[37];
	asked->box = box_open(asked->broker->site.state.sandboxes_fd, asked->id);
	if (asked->box < 0)
		return err_set(err, ERR_NOT_FOUND, "there is no sandbox %s", asked->id);
	if (box_read_meta(asked->box, &asked->meta) < 0 || asked->meta.slot < 0 ||
	    box_read_process(asked->box, "init", &asked->init) < 0 || proc_boot_id(boot) < 0 ||
	    !str_eq(boot, asked->init.boot))
		return err_set(err, ERR_CONFLICT, "sandbox %s is not parked", asked->id);
	return 0;
}

static void put_bind(const struct asked *asked, const struct wish_mounts *mounts, int result,
                     struct wire_out *out)
{
	wire_put_str(out, FIELD_SANDBOX, asked->id);
	if (asked->hostname)
		wire_put_str(out, FIELD_HOSTNAME, asked->hostname);
	wire_put_u64(out, FIELD_RANGE_BASE, asked->meta.range_base);
	wire_put_u64(out, FIELD_RANGE_COUNT, asked->meta.range_count);
	wire_put_u64(out, FIELD_KEEPER_UID, asked->meta.keeper_uid);
	wire_put_u64(out, FIELD_PID, (uint64_t)asked->init.pid);
	wire_put_u64(out, FIELD_START_TIME, asked->init.start_time);
	wire_put_u64(out, FIELD_LASTING, wire_u64(asked->msg, FIELD_LASTING, 0) != 0);
	wish_put_limits(&asked->limits, false, out);
	wish_mounts_put(mounts, out);
	/* In the order of enum keeper_fd. */
	wire_put_fd(out, result);
	wire_put_fd(out, asked->box);
	wire_put_fd(out, asked->broker->site.state.run_fd);
	wish_mounts_put_fds(mounts, out);
}

/* Whoever could not be bound is taken down, and the same request goes the long way: with the same
 * grants. */
static void on_bound(struct job *job, struct wire_msg *answer, const struct err *err)
{
	if (!answer)
		wish_mounts_give_back(&job->mounts, &job->broker->grants);
	ops_relay(job, answer, err);
}

static int send_bind(const struct asked *asked, struct wish_mounts *mounts, struct err *err)
{
	struct broker *broker = asked->broker;
	struct job *job;
	if (job_new(broker, WIRE_OP_BIND, asked->msg->request, &job, err) < 0)
		return -1;
	memcpy(job->sandbox, asked->id, strlen(asked->id) + 1);
	auto_wire_out struct wire_out out;
	wire_begin(&out, WIRE_BIND, 1);
	put_bind(asked, mounts, job->child_sock, &out);
	if (job_send(job, &broker->launch, &out, BIND_MS, on_bound, err) < 0)
		return -1;
	job->mounts = *mounts;
	*mounts = (struct wish_mounts){0};
	return 0;
}

int op_bind(struct broker *broker, struct wire_msg *msg, struct err *err)
{
	struct asked asked = {
		.broker = broker, .msg = msg, .id = wire_str(msg, FIELD_SANDBOX, ""), .box = -1};
	struct wish_mounts mounts = {0};
	if (broker->is_stopping)
		return err_set(err, ERR_UNAVAILABLE, "cloche is stopping");
	if (job_is_busy(broker, asked.id))
		return err_set(err, ERR_CONFLICT, "something is under way for %s: ask again",
		               asked.id);
	int r = check_request(&asked, err);
	if (r == 0)
		r = find_parked(&asked, err);
	if (r == 0)
		r = wish_mounts_open(broker, msg, asked.box, &mounts, err);
	if (r == 0)
		r = wish_mounts_record(&mounts, asked.box, err);
	if (r == 0)
		r = send_bind(&asked, &mounts, err);
	wish_mounts_give_back(&mounts, &broker->grants);
	fd_closep(&asked.box);
	return r;
}

/*
 * Why this is safe: what comes back is what root wrote down for this very sandbox, opened with the
 * checks of a new start, and the sandbox can no longer be started with it. A daemon that says so of
 * one that is claimed moves a folder from one sandbox of its own to another, no more.
 */
int op_unbind(struct broker *broker, struct wire_msg *msg, struct err *err)
{
	const char *id = wire_str(msg, FIELD_SANDBOX, "");
	struct err none = {0};
	if (job_is_busy(broker, id))
		return err_set(err, ERR_CONFLICT, "something is under way for %s: ask again", id);
	auto_close int box = box_open(broker->site.state.sandboxes_fd, id);
	if (box < 0)
		return err_set(err, ERR_NOT_FOUND, "there is no sandbox %s", id);
	if (grants_return(&broker->grants, &broker->site.state, box, err) < 0)
		return -1;
	line_answer_result(&broker->line, msg->request, &none);
	return 0;
}

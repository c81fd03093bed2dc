/*
 * The parent only receives, forks, waits and, when a child died without an answer, cleans up and
 * answers for it. It never reads a byte of an archive or a tree.
 */
#include "worker/worker.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "os/proc.h"
#include "wire/wire.h"
#include "worker/hostimage.h"
#include "worker/jail.h"
#include "worker/name.h"
#include "worker/remove.h"
#include "worker/unpack.h"
#include "worker/usage.h"

enum { MAX_FDS = 2, FALLBACK_FILE_BYTES = 64 * 1024 * 1024 };

/* One request as its child sees it. */
struct request {
	const struct wire_msg *msg;
	int fds[MAX_FDS]; /* the message's */
	struct wire_out *answer;
};

struct op {
	enum wire_type type;
	bool builds; /* the tree was empty and is emptied after a crash */
	bool is_read_only;
	bool reads_host;   /* fd 1 is "/" of the machine */
	bool parses;       /* foreign bytes: never without Landlock unless the request says so */
	const char *about; /* "unpack the archive", for messages */
	size_t fd_count;
	size_t dir_at; /* which fd is the tree worked on */
	int (*run)(struct request *request, struct err *err);
};

static struct layer_limits limits_of(const struct wire_msg *msg)
{
	struct layer_limits limits = unpack_default_limits;

	limits.bytes = wire_u64(msg, FIELD_DISK, limits.bytes);
	limits.entries = wire_u64(msg, FIELD_INODES, limits.entries);
	limits.file_bytes = wire_u64(msg, FIELD_FILE_BYTES, limits.file_bytes);
	limits.file_bytes = MIN(limits.file_bytes, (uint64_t)INT64_MAX);
	limits.ratio = wire_u64(msg, FIELD_RATIO, limits.ratio);
	limits.ids = (uint32_t)MIN(wire_u64(msg, FIELD_RANGE_COUNT, limits.ids),
	                           (uint64_t)unpack_default_limits.ids);
	return limits;
}

/* What was left out, for people. */
static void put_detail(struct wire_out *answer, const struct layer_counts *counts)
{
	auto_free char *text = mem_printf(
		"devices skipped: %" PRIu64 ", set-id bits cleared: %" PRIu64
		", extended attributes dropped: %" PRIu64 ", owners changed to root: %" PRIu64,
		counts->devices, counts->set_ids, counts->xattrs, counts->owners);

	wire_put_str(answer, FIELD_DETAIL, text);
}

static int run_unpack(struct request *request, struct err *err)
{
	auto_unpack struct unpack_result result = {0};
	struct layer_limits limits = limits_of(request->msg);
	const char *format_name = wire_str(request->msg, FIELD_FORMAT, "auto");
	enum bundle_format format;

	if (!bundle_parse_format(format_name, &format))
		return err_set(err, ERR_INVALID, "unknown archive format \"%s\"",
		               name_show(format_name).text);
	if (unpack_image(request->fds[0], request->fds[1], format, &limits, &result, err) < 0)
		return -1;
	for (size_t i = 0; i < result.layer_count; i++)
		wire_put_str(request->answer, FIELD_LAYER, unpack_layer_name(i).text);
	wire_put_str(request->answer, FIELD_FORMAT, bundle_format_name(result.format));
	wire_put_u64(request->answer, FIELD_BYTES_COUNT, result.counts.bytes);
	wire_put_u64(request->answer, FIELD_ENTRIES, result.counts.entries);
	wire_put_bytes(request->answer, FIELD_CONFIG_JSON, result.config, strlen(result.config));
	put_detail(request->answer, &result.counts);
	return 0;
}

static int run_remove(struct request *request, struct err *err)
{
	return remove_below(request->fds[0], err);
}

static int run_usage(struct request *request, struct err *err)
{
	struct usage usage;

	if (usage_measure(request->fds[0], &usage, err) < 0)
		return -1;
	wire_put_u64(request->answer, FIELD_BYTES_COUNT, usage.bytes);
	wire_put_u64(request->answer, FIELD_ENTRIES, usage.inodes);
	return 0;
}

static int run_host_image(struct request *request, struct err *err)
{
	const char *known = wire_str(request->msg, FIELD_FINGERPRINT, "");
	uint64_t ids = wire_u64(request->msg, FIELD_RANGE_COUNT, unpack_default_limits.ids);
	struct digest_text print;

	if (hostimage_fingerprint(request->fds[1], &print, err) < 0)
		return -1;
	wire_put_str(request->answer, FIELD_FINGERPRINT, print.text);
	if (str_eq(known, print.text)) {
		wire_put_u64(request->answer, FIELD_KEEP, 1);
		return 0;
	}
	return hostimage_build(request->fds[0], request->fds[1], ids, err);
}

static const struct op ops[] = {
	{.type = WIRE_W_UNPACK,
         .about = "unpack the archive",
         .fd_count = 2,
         .dir_at = 1,
         .builds = true,
         .parses = true,
         .run = run_unpack},
	{.type = WIRE_W_REMOVE, .about = "remove the tree", .fd_count = 1, .run = run_remove},
	{.type = WIRE_W_USAGE,
         .about = "measure the tree",
         .fd_count = 1,
         .is_read_only = true,
         .run = run_usage},
	{.type = WIRE_W_HOST_IMAGE,
         .about = "build the host image",
         .fd_count = 2,
         .builds = true,
         .reads_host = true,
         .run = run_host_image},
};

static const struct op *find_op(enum wire_type type)
{
	for (size_t i = 0; i < ARRAY_LEN(ops); i++) {
		if (ops[i].type == type)
			return &ops[i];
	}
	return NULL;
}

static int enter_jail(const struct op *op, const struct wire_msg *msg, struct err *err)
{
	const struct jail jail = {
		.dir_fd = msg->fds[op->dir_at],
		.host_fd = op->reads_host ? msg->fds[1] : -1,
		.is_read_only = op->is_read_only,
		.file_bytes =
			op->type == WIRE_W_UNPACK ? limits_of(msg).file_bytes : FALLBACK_FILE_BYTES,
		.is_degraded = !op->parses || wire_u64(msg, FIELD_DEGRADED, 0) != 0,
	};

	return jail_enter(&jail, err);
}

/* --- the child --- */

static int run_op(const struct op *op, const struct wire_msg *msg)
{
	struct err err = {0};
	auto_wire_out struct wire_out answer = {0};
	struct request request = {.msg = msg, .answer = &answer};

	for (size_t i = 0; i < op->fd_count; i++)
		request.fds[i] = msg->fds[i];
	wire_begin(&answer, WIRE_OK, msg->request);
	if (enter_jail(op, msg, &err) < 0 || op->run(&request, &err) < 0) {
		wire_done(&answer);
		wire_begin(&answer, WIRE_ERROR, msg->request);
		wire_put_err(&answer, &err);
	}
	return wire_send(WORKER_SOCKET_FD, &answer) < 0 ? 1 : 0;
}

/* What a crashed child had begun to build. */
static int run_sweep(const struct op *op, const struct wire_msg *msg)
{
	struct err err = {0};

	if (enter_jail(op, msg, &err) < 0 || remove_below(msg->fds[op->dir_at], &err) < 0)
		return 1;
	return 0;
}

/* --- the parent --- */

/* The exit status, 0 for a child that did its work, -1 and the signal for one that was killed. It
 * is killed here when watch_fd (-1: none) hangs up before it is done. */
static int wait_child(pid_t pid, int watch_fd, int *ret_signal)
{
	auto_close int child_fd = proc_pidfd_open(pid);
	struct pollfd fds[] = {
		{.fd = child_fd, .events = POLLIN},
		{.fd = watch_fd, .events = POLLRDHUP},
	};
	siginfo_t info = {0};

	while (child_fd >= 0 && poll(fds, ARRAY_LEN(fds), -1) < 0 && errno == EINTR)
		;
	if (fds[1].revents && !fds[0].revents)
		(void)kill(pid, SIGKILL); /* our own child, not yet waited for */
	while (waitid(P_PID, (id_t)pid, &info, WEXITED) < 0 && errno == EINTR)
		;
	*ret_signal = info.si_code == CLD_EXITED ? 0 : info.si_status;
	return info.si_code == CLD_EXITED ? info.si_status : -1;
}

static int fork_and_wait(const struct op *op, const struct wire_msg *msg,
                         int (*run)(const struct op *op, const struct wire_msg *msg), int watch_fd,
                         struct err *err)
{
	int signal_number = 0;
	pid_t pid = fork();

	if (pid < 0)
		return err_sys(err, errno, "start a worker process");
	if (pid == 0)
		_exit(run(op, msg));
	int status = wait_child(pid, watch_fd, &signal_number);
	if (status == 0)
		return 0;
	return err_set(err, ERR_INTERNAL, "%s: the worker process died (signal %d)", op->about,
	               signal_number);
}

static int answer_error(const struct wire_msg *msg, const struct err *err)
{
	auto_wire_out struct wire_out answer = {0};

	wire_begin(&answer, WIRE_ERROR, msg->request);
	wire_put_err(&answer, err);
	return wire_send(WORKER_SOCKET_FD, &answer);
}

static int answer_hello(const struct wire_msg *msg)
{
	auto_wire_out struct wire_out answer = {0};

	wire_begin(&answer, WIRE_HELLO, msg->request);
	wire_put_u64(&answer, FIELD_VERSION_MIN, WIRE_VERSION);
	wire_put_u64(&answer, FIELD_VERSION_MAX, WIRE_VERSION);
	wire_put_str(&answer, FIELD_ROLE, "worker");
	return wire_send(WORKER_SOCKET_FD, &answer);
}

static int serve(const struct wire_msg *msg)
{
	struct err err = {0};
	struct err swept = {0};
	const struct op *op = find_op(msg->type);

	if (msg->type == WIRE_HELLO)
		return answer_hello(msg);
	if (!op || msg->fd_count < op->fd_count) {
		(void)err_set(&err, ERR_PROTOCOL, "not a request to a worker: type %d with %zu fds",
		              (int)msg->type, msg->fd_count);
		return answer_error(msg, &err);
	}
	if (fork_and_wait(op, msg, run_op, WORKER_SOCKET_FD, &err) == 0)
		return 0;
	log_error("request failed", LOG_ERR(&err));
	if (op->builds && fork_and_wait(op, msg, run_sweep, -1, &swept) < 0)
		log_error("cannot clean up after it", LOG_ERR(&swept));
	return answer_error(msg, &err);
}

int worker_main(int argc, char **argv)
{
	auto_free uint8_t *bytes = mem_zalloc(LIMIT_WIRE_BYTES);
	struct wire_msg msg;
	int r;

	log_setup("worker", LOG_LEVEL_INFO);
	if (argc > 1) {
		log_error("takes no arguments", LOG_STR("got", argv[1]));
		return 64;
	}
	if (io_set_nonblock(WORKER_SOCKET_FD, false) < 0)
		return 70;
	while ((r = wire_recv(WORKER_SOCKET_FD, bytes, LIMIT_WIRE_BYTES, &msg)) > 0) {
		r = serve(&msg);
		wire_msg_done(&msg);
		if (r < 0)
			break;
	}
	return r < 0 && r != -EPIPE && r != -ECONNRESET ? 70 : 0;
}

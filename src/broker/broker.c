/*
 * The role main of `cloche serve`.
 *
 * Who: root, or root of a user namespace (rootless.c). Capabilities: all it has; workers, keepers
 * and cloched are given less. Bytes: options, config.toml (the operator's file, read before the
 * loop starts), messages of cloched (ops.c) and of the command line (control.c). No HTTP, no JSON,
 * no byte from inside a sandbox. Gone at the end: cloched, zygotes, our two sockets; sandboxes
 * stay.
 *
 * Order at start, and why: lock (nothing else touches the directory), namespace, mounts, then the
 * zygotes while this process is small, then the loop, then cloched, which may ask at once.
 */
#include "broker/broker.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/id.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "broker/adopt.h"
#include "broker/context.h"
#include "broker/hostimage.h"
#include "broker/layer.h"
#include "broker/ops.h"
#include "broker/rootless.h"
#include "broker/tasks.h"
#include "keeper/keeper.h"
#include "model/config.h"
#include "os/path.h"

enum { HOST_IMAGE_MS = 10 * 60 * 1000 };

struct start {
	struct broker *broker;
	const char *log_level; /* as given; NULL: not */
	const char *listen;    /* likewise */
};

void broker_shutdown(struct broker *broker, int status)
{
	broker->is_stopping = true;
	supervise_end(&broker->supervise, status);
}

static int run_keeper(struct wire_msg *msg, void *ctx)
{
	return msg->type == WIRE_BIND ? keeper_bind(msg) : keeper_run(msg);
}

static void on_signal(int signal, void *ctx)
{
	struct broker *broker = ctx;
	if (signal == SIGCHLD) {
		/* Zygotes, cloched and, as subreaper, keepers whose zygote died. */
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
		return;
	}
	if (signal == SIGHUP)
		return; /* a closed terminal: keep serving */
	log_info("ending, sandboxes keep running", LOG_INT("signal", signal));
	broker_shutdown(broker, 0);
}

/* Many sandboxes mean many sockets; never above what we are allowed. */
static void raise_nofile(void)
{
	struct rlimit limit;
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
		limit.rlim_cur = limit.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &limit); /* then we go on with fewer */
	}
}

static int prepare_state(struct site *site, struct err *err)
{
	struct state_owner owner = {site->daemon.uid, site->daemon.gid, site->is_rootless};
	if (state_confine(&site->state, err) < 0)
		return -1;
	return state_prepare(&site->state, &owner, err);
}

static int prepare_site(struct site *site, struct err *err)
{
	int r = cgroup_detect(&site->cgroups);
	if (r == 0)
		r = cgroup_enter_leaf(&site->cgroups);
	if (r < 0) {
		/* Not fatal here: launches are refused by name unless their profile allows it. */
		log_warn("no usable cgroup", LOG_INT("errno", -r));
		site->cgroups.version = 0;
	}
	site->cloched_fd = site_find_cloched();
	if (site->cloched_fd < 0)
		return err_set(err, ERR_MISSING, "cloched is neither beside cloche nor installed");
	if (site_seal_program(site, err) < 0)
		return -1;
	site->templates_fd = path_dir(site->state.dir_fd, "templates", 0700);
	if (site->templates_fd < 0)
		return err_sys(err, -site->templates_fd, "open templates/ of the state directory");
	site->disk_backend = disk_choose(site->state.sandboxes_fd);
	return hostimage_prepare(site, err);
}

static int prepare_slots(struct broker *broker, struct err *err)
{
	int registry = -1;
	if (!broker->site.is_rootless) {
		registry = slots_open_registry();
		if (registry < 0)
			return err_sys(err, -registry, "open /run/cloche/slots");
	}
	slots_init(&broker->slots, registry, broker->site.state.path);
	struct adopted adopted;
	if (adopt_run(&broker->site, &broker->slots, &adopted, err) < 0)
		return -1;
	if (adopted.alive || adopted.dead)
		log_info("sandboxes found", LOG_INT("alive", adopted.alive),
		         LOG_INT("dead", adopted.dead));
	int r = layer_sweep(&broker->site);
	if (r < 0)
		log_warn("left-over layers stay", LOG_INT("errno", -r));
	return 0;
}

/* Roles live as long as their zygotes: in the broker's frame, see serve(). */
struct roles {
	int task_fds[6];
	struct zygote_role launch;
	struct zygote_role tasks;
};

static int start_zygotes(struct broker *broker, struct roles *roles, struct err *err)
{
	const struct site *site = &broker->site;
	*roles = (struct roles){
		.task_fds = {site->state.dir_fd, site->state.run_fd, site->state.layers_fd,
	                     site->state.sandboxes_fd, site->cloched_fd, site->program_fd},
		.launch = {.name = "cloche:launch",
	                   .outlives = true,
	                   .warm = keeper_warm,
	                   .run = run_keeper},
		.tasks = {.name = "cloche:tasks",
	                  .warm = tasks_warm,
	                  .run = tasks_run,
	                  .ctx = &broker->site},
	};
	roles->tasks.keep = roles->task_fds;
	roles->tasks.keep_count = ARRAY_LEN(roles->task_fds);
	if (zygote_start(&broker->launch, &roles->launch, err) < 0)
		return -1;
	return zygote_start(&broker->tasks, &roles->tasks, err);
}

static void on_host_image(struct job *job, struct wire_msg *answer, const struct err *err)
{
	struct site *site = &job->broker->site;
	const char *id = answer ? wire_str(answer, FIELD_LAYER, "") : "";
	ops_layers_made(job, answer != NULL);
	if (!answer)
		log_warn("cannot see whether the host image is current", LOG_ERR(err));
	else if (!str_eq(id, site->host_layer) && id_is_valid(id, "host") &&
	         str_copy(site->host_layer, sizeof(site->host_layer), id))
		log_info("host image built anew", LOG_STR("layer", id));
}

/* The machine's /etc may have changed since: looked at while we serve, for sandboxes to come. */
static int refresh_host_image(struct broker *broker, struct err *err)
{
	struct job *job;
	auto_wire_out struct wire_out out;
	if (job_new(broker, WIRE_OP_HOST_IMAGE, 0, &job, err) < 0)
		return -1;
	wire_begin(&out, WIRE_OP_HOST_IMAGE, 1);
	wire_put_fd(&out, job->child_sock);
	return job_send(job, &broker->tasks, &out, HOST_IMAGE_MS, on_host_image, err);
}

static int start_loop(struct broker *broker, struct err *err)
{
	static const int signals[] = {SIGTERM, SIGINT, SIGHUP, SIGCHLD, 0};
	int r = loop_new(&broker->loop);
	if (r == 0)
		r = loop_signals(broker->loop, signals, on_signal, broker);
	if (r < 0)
		return err_sys(err, -r, "make the event loop");
	if (control_start(&broker->control, err) < 0 ||
	    supervise_start(&broker->supervise, err) < 0)
		return -1;
	egress_start(&broker->egress);
	return refresh_host_image(broker, err);
}

static void broker_done(struct broker *broker)
{
	if (broker->loop) {
		supervise_done(&broker->supervise);
		control_done(&broker->control);
		egress_done(&broker->egress);
		line_close(&broker->line);
		blanks_drop_all(broker);
		job_free_all(broker);
	}
	zygote_stop(&broker->launch);
	zygote_stop(&broker->tasks);
	grants_done(&broker->grants);
	slots_done(&broker->slots);
	loop_free(broker->loop);
	site_done(&broker->site);
}

/* What holds files of ids only we can act for: a caller without them removes the rest. */
static void purge(const struct broker *broker)
{
	const struct state *state = &broker->site.state;
	if (path_remove_below(state->sandboxes_fd) < 0 || path_remove_below(state->layers_fd) < 0)
		log_warn("not everything could be removed");
}

static int serve(struct broker *broker, const struct start *start, int starter_sock,
                 struct err *err)
{
	struct roles roles;
	line_init(&broker->line, broker);
	control_init(&broker->control, broker);
	supervise_init(&broker->supervise, broker, starter_sock, start->log_level);
	egress_init(&broker->egress, broker);
	slots_init(&broker->slots, -1, "");
	(void)umask(022);
	raise_nofile();
	signal(SIGPIPE, SIG_IGN);
	(void)prctl(PR_SET_NAME, "cloche:broker", 0, 0, 0);
	if (chdir("/") < 0 || prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
		return err_sys(err, errno, "become a supervisor");
	if (prepare_state(&broker->site, err) < 0 ||
	    supervise_listen(&broker->supervise, start->listen, err) < 0 ||
	    prepare_site(&broker->site, err) < 0)
		return -1;
	slots_done(&broker->slots);
	if (prepare_slots(broker, err) < 0 || start_zygotes(broker, &roles, err) < 0 ||
	    start_loop(broker, err) < 0)
		return -1;
	log_info("serving", LOG_STR("state", broker->site.state.path),
	         LOG_STR("as", broker->site.is_rootless ? "ordinary user" : "root"));
	int r = loop_run(broker->loop);
	if (broker->purges)
		purge(broker);
	return r < 0 ? err_sys(err, -r, "run the event loop") : r;
}

/* The whole broker from a site that is opened and locked; the exit status. */
static int serve_and_report(void *ctx, int starter_sock)
{
	struct start *start = ctx;
	struct err err = {0};
	int status = serve(start->broker, start, starter_sock, &err);
	if (status < 0) {
		log_error("cannot serve", LOG_ERR(&err));
		status = err_exit(err.code);
	}
	broker_done(start->broker);
	return status;
}

static int read_config(struct site *site, const char *log_level, struct err *err)
{
	struct config config;
	enum log_level level;
	config_init(&config);
	int r = config_load(&config, site->state.dir_fd, "config.toml", err);
	level = config.log_level;
	if (r == 0 && log_level && !log_parse_level(log_level, &level))
		r = err_set(err, ERR_INVALID, "unknown log level '%s'", log_level);
	if (r == 0 && geteuid() == 0)
		r = userdb_for_daemon(config.daemon_user, config.has_daemon_user, &site->daemon,
		                      err);
	if (r == 0) {
		log_setup("broker", level);
		strings_copy(&site->resolvers, &config.resolvers);
		site->commands = take_ptr(config.commands_dir);
	}
	config_done(&config);
	return r;
}

static int open_site(struct site *site, const struct broker_options *options, struct err *err)
{
	auto_free char *path = state_path(options->state);
	if (state_open(&site->state, path, true, err) < 0 || state_lock(&site->state, err) < 0)
		return -1;
	return read_config(site, options->log_level, err);
}

int broker_serve(const struct broker_options *options)
{
	struct broker *broker = mem_new(struct broker);
	struct start start = {broker, options->log_level, options->listen};
	struct err err = {0};
	int status = -1;
	log_setup("broker", LOG_LEVEL_INFO);
	site_init(&broker->site);
	broker->slots.registry_fd = -1;
	if (open_site(&broker->site, options, &err) == 0) {
		if (geteuid() == 0) {
			status = serve_and_report(&start, -1);
		} else {
			struct rootless rootless = {&broker->site, options->log_level,
			                            serve_and_report, &start};
			status = rootless_serve(&rootless, &err);
		}
	}
	if (status < 0) {
		log_error("cannot serve", LOG_ERR(&err));
		status = err_exit(err.code);
	}
	site_done(&broker->site);
	mem_freep(&broker);
	return status;
}

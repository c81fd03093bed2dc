/*
 * Order of the start: everything that can fail without a sandbox noticing (options, folders,
 * configuration, store), then the broker's line, then reconcile, and only then HTTP: clients that
 * came early wait in the listening socket's queue.
 */
#include "daemon/daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sodium.h>

#include "api/api.h"
#include "api/tasks.h"
#include "base/io.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/opt.h"
#include "base/str.h"
#include "daemon/commands.h"
#include "daemon/engine.h"
#include "daemon/environments.h"
#include "daemon/fleet.h"
#include "daemon/forges.h"
#include "daemon/gallery.h"
#include "daemon/guests.h"
#include "daemon/inner.h"
#include "daemon/keys.h"
#include "daemon/notes.h"
#include "daemon/pool.h"
#include "daemon/providers.h"
#include "daemon/reconcile.h"
#include "daemon/sampler.h"
#include "daemon/services.h"
#include "daemon/skills.h"
#include "daemon/sweep.h"
#include "daemon/tcp.h"
#include "daemon/vault.h"
#include "gateway/proxy.h"
#include "hook/hooks.h"
#include "http/server.h"
#include "model/config.h"
#include "runtime/broker_call.h"
#include "runtime/runtime.h"
#include "store/store.h"
#include "task/tasks.h"
#include "wire/wire.h"

enum { CONNECTIONS = 2048, HEADER_MS = 30 * 1000, FILL_AFTER_MS = 250, TIDY_MS = 10 * 60 * 1000 };

struct daemon {
	const char *state;
	const char *log_level;
	uint64_t broker_fd, listen_fd, owner_uid;
	uint64_t tcp_fd; /* 0: none */
	struct config config;
	struct keys keys;
	struct guests guests;
	int run_fd, sandboxes_fd, tmp_fd;
	struct loop *loop;
	struct store *store;
	struct loop_source store_source;
	struct broker_call *broker;
	struct runtime *runtime;
	struct environments environments;
	struct services services;
	struct commands commands;
	struct skills skills;
	struct providers providers;
	struct forges forges;
	struct fleet *fleet;
	struct gallery *gallery;
	struct engine *engine;
	struct tasks *tasks;
	struct hooks *hooks;
	struct api *api;
	struct server *server;
	struct tcp tcp;
	struct inner inner;
	struct loop_timer fill;
	struct loop_timer tidy;
};

/* --- start --- */

static int parse_options(struct daemon *daemon, int argc, char **argv, struct err *err)
{
	const struct opt opts[] = {
		{"state", 0, OPT_STR, &daemon->state, "DIR", "state directory"},
		{"broker-fd", 0, OPT_U64, &daemon->broker_fd, "FD", "wire socket to the broker"},
		{"listen-fd", 0, OPT_U64, &daemon->listen_fd, "FD", "listening API socket"},
		{"tcp-fd", 0, OPT_U64, &daemon->tcp_fd, "FD", "listening API socket on TCP"},
		{"owner-uid", 0, OPT_U64, &daemon->owner_uid, "UID", "user this daemon works for"},
		{"log-level", 0, OPT_STR, &daemon->log_level, "LEVEL", "debug, info, warn, error"},
		{0},
	};

	daemon->broker_fd = 3;
	daemon->listen_fd = 4;
	daemon->owner_uid = getuid();
	if (opt_parse(opts, argc, argv, false, &argc, err) < 0)
		return -1;
	if (argc > 0 || !daemon->state)
		return err_set(err, ERR_INVALID,
		               "cloched is started by `cloche serve`; it needs --state DIR and a "
		               "broker behind --broker-fd");
	return 0;
}

/* Root of a user namespace that maps it to an ordinary user is not root. */
static bool is_real_root(void)
{
	auto_free char *map = NULL;
	unsigned inside, outside, count;
	size_t len;

	if (geteuid() != 0)
		return false;
	return io_read_file(AT_FDCWD, "/proc/self/uid_map", 4096, &map, &len) < 0 ||
	       sscanf(map, "%u %u %u", &inside, &outside, &count) != 3 || outside == 0;
}

static int open_folder(const char *state, const char *name, int flags, struct err *err)
{
	auto_free char *path = mem_printf("%s/%s", state, name);
	int fd = open(path, flags | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 ? err_sys(err, errno, "open %s", path) : fd;
}

static int prepare_folders(struct daemon *daemon, struct err *err)
{
	auto_close int keys_fd = -1;

	/* O_PATH: we may pass through these two, not list them. */
	daemon->run_fd = open_folder(daemon->state, "run", O_PATH, err);
	if (daemon->run_fd < 0)
		return -1;
	daemon->sandboxes_fd = open_folder(daemon->state, "sandboxes", O_PATH, err);
	if (daemon->sandboxes_fd < 0)
		return -1;
	daemon->tmp_fd = open_folder(daemon->state, "tmp", O_RDONLY, err);
	if (daemon->tmp_fd < 0)
		return -1;
	keys_fd = open_folder(daemon->state, "keys", O_RDONLY, err);
	return keys_fd < 0 ? -1 : keys_load(&daemon->keys, keys_fd, err);
}

static int load_config(struct daemon *daemon, struct err *err)
{
	auto_free char *path = mem_printf("%s/config.toml", daemon->state);
	enum log_level level;

	if (config_load(&daemon->config, AT_FDCWD, path, err) < 0)
		return -1;
	level = daemon->config.log_level;
	if (daemon->log_level && !log_parse_level(daemon->log_level, &level))
		return err_set(err, ERR_INVALID, "--log-level is debug, info, warn or error");
	log_setup("daemon", level);
	daemon->commands.config = &daemon->config;
	daemon->commands.state = daemon->state;
	return commands_load(&daemon->commands, err);
}

static void on_signal(int signal, void *ctx)
{
	struct daemon *daemon = ctx;

	log_info("asked to end; sandboxes stay", LOG_INT("signal", signal));
	loop_stop(daemon->loop, 0);
}

static void on_store(struct loop_source *source, uint32_t events, void *ctx)
{
	struct daemon *daemon = ctx;

	store_dispatch(daemon->store);
}

static int open_store(struct daemon *daemon, struct err *err)
{
	auto_free char *path = mem_printf("%s/store/cloche.db", daemon->state);
	struct store_options options = {
		.path = path, .audit_key = daemon->keys.audit, .sealing_key = daemon->keys.sealing};
	int r;

	if (store_open(&options, &daemon->store, err) < 0)
		return -1;
	r = loop_add(daemon->loop, &daemon->store_source, store_event_fd(daemon->store), EPOLLIN,
	             on_store, daemon);
	return r < 0 ? err_sys(err, -r, "watch the store") : 0;
}

static void on_broker_gone(void *ctx)
{
	struct daemon *daemon = ctx;

	log_warn("the broker ended, so do I; sandboxes stay");
	loop_stop(daemon->loop, 0);
}

static bool is_operator(uid_t uid, pid_t pid, void *ctx)
{
	struct daemon *daemon = ctx;

	return guests_allow(&daemon->guests, uid, pid);
}

static void each_request(void (*each)(struct request *request, void *ctx), void *each_ctx,
                         void *ctx)
{
	struct daemon *daemon = ctx;

	if (daemon->server)
		server_each_request(daemon->server, each, each_ctx);
	if (daemon->tcp.server)
		server_each_request(daemon->tcp.server, each, each_ctx);
	if (daemon->inner.server)
		server_each_request(daemon->inner.server, each, each_ctx);
}

/* What cannot be opened was not given to the sandbox either. */
static void secrets_of(const struct spec *spec, struct strings *ret, void *ctx)
{
	struct daemon *daemon = ctx;
	struct err err = {0};

	(void)!environments_open(&daemon->environments, spec, ret, &err);
}

static void settle(const char *run, void *ctx)
{
	struct daemon *daemon = ctx;

	providers_settle(&daemon->providers, run);
}

static int show_skills(const struct tasks_skills *asked, struct spec *spec, void *ctx,
                       struct err *err)
{
	const struct daemon *daemon = ctx;

	return skills_mount(&daemon->skills, asked, spec, err);
}

static int fill_skills(const char *bundle, struct skill *const *list, size_t count, void *ctx,
                       struct err *err)
{
	const struct daemon *daemon = ctx;

	return skills_fill(&daemon->skills, bundle, list, count, err);
}

/* Logs and artifacts of runs are files beside the store. */
static int make_tasks(struct daemon *daemon, struct err *err)
{
	auto_free char *path = mem_printf("%s/store/runs", daemon->state);
	struct tasks_config config = {.loop = daemon->loop,
	                              .store = daemon->store,
	                              .config = &daemon->config,
	                              .engine = daemon->engine,
	                              .sandboxes_fd = daemon->sandboxes_fd,
	                              .make_spec = task_make_spec,
	                              .secrets = secrets_of,
	                              .settle = settle,
	                              .show_skills = show_skills,
	                              .fill_skills = fill_skills,
	                              .ctx = daemon};

	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return err_sys(err, errno, "make %s", path);
	config.files_fd = open_folder(daemon->state, "store/runs", O_RDONLY, err);
	if (config.files_fd < 0)
		return -1;
	daemon->tasks = tasks_new(&config);
	return 0;
}

static char *seal(const char *purpose, const char *value, void *ctx)
{
	const struct daemon *daemon = ctx;

	return vault_seal(&daemon->keys, purpose, value);
}

static int open_sealed(const char *purpose, const char *sealed, char **ret, void *ctx,
                       struct err *err)
{
	const struct daemon *daemon = ctx;

	return vault_open(&daemon->keys, purpose, sealed, ret, err);
}

static int make_hooks(struct daemon *daemon, struct err *err)
{
	struct hooks_config config = {.loop = daemon->loop,
	                              .store = daemon->store,
	                              .config = &daemon->config,
	                              .seal = seal,
	                              .open = open_sealed,
	                              .ctx = daemon};

	return hooks_new(&config, &daemon->hooks, err);
}

static void on_event(const struct event *event, void *ctx)
{
	struct daemon *daemon = ctx;

	api_on_event(event, daemon->api);
	hooks_on_event(daemon->hooks, event);
}

static int assemble(struct daemon *daemon, struct err *err)
{
	struct fleet parts;
	struct api_config api;

	if (broker_call_new(daemon->loop, (int)daemon->broker_fd, on_broker_gone, daemon,
	                    &daemon->broker, err) < 0)
		return -1;
	daemon->runtime = runtime_native_new(daemon->broker);
	daemon->environments = (struct environments){daemon->store, &daemon->config, &daemon->keys};
	daemon->services = (struct services){
		.store = daemon->store, .config = &daemon->config, .keys = &daemon->keys};
	daemon->providers = (struct providers){
		.store = daemon->store, .config = &daemon->config, .keys = &daemon->keys};
	parts = (struct fleet){.loop = daemon->loop,
	                       .environments = &daemon->environments,
	                       .services = &daemon->services,
	                       .providers = &daemon->providers,
	                       .commands = &daemon->commands,
	                       .forges = &daemon->forges,
	                       .skills = &daemon->skills,
	                       .store = daemon->store,
	                       .runtime = daemon->runtime,
	                       .run_fd = daemon->run_fd,
	                       .sandboxes_fd = daemon->sandboxes_fd};
	daemon->fleet = fleet_new(&parts);
	daemon->services.fleet = daemon->fleet;
	services_start(&daemon->services, daemon->loop);
	daemon->skills = (struct skills){&daemon->config, daemon->state, daemon->store};
	daemon->commands.loop = daemon->loop;
	daemon->commands.broker = daemon->broker;
	daemon->commands.services = &daemon->services;
	daemon->forges.services = &daemon->services;
	forges_start(&daemon->forges, daemon->loop, proxy_upstreams(daemon->services.proxy));
	daemon->providers.fleet = daemon->fleet;
	if (providers_start(&daemon->providers, daemon->loop,
	                    proxy_upstreams(daemon->services.proxy), err) < 0)
		return -1;
	daemon->fleet->pool = pool_new(daemon->fleet, &daemon->config);
	daemon->gallery = gallery_new(daemon->loop, daemon->store, daemon->broker);
	daemon->engine = engine_new(daemon->fleet, daemon->gallery, daemon->broker);
	if (make_tasks(daemon, err) < 0 || make_hooks(daemon, err) < 0)
		return -1;
	daemon->providers.tasks = daemon->tasks;
	daemon->fleet->tasks = daemon->tasks;
	api = (struct api_config){.loop = daemon->loop,
	                          .tasks = daemon->tasks,
	                          .hooks = daemon->hooks,
	                          .store = daemon->store,
	                          .config = &daemon->config,
	                          .engine = daemon->engine,
	                          .sandboxes_fd = daemon->sandboxes_fd,
	                          .spool_fd = daemon->tmp_fd,
	                          .state_path = daemon->state,
	                          .peers = {is_operator, each_request, daemon},
	                          .listen = daemon->tcp.fd >= 0 ? daemon->tcp.name : NULL,
	                          .sign_public = daemon->keys.public,
	                          .sign_secret = daemon->keys.secret};
	daemon->api = api_new(&api);
	store_listen(daemon->store, on_event, daemon);
	return 0;
}

/* --- serving --- */

static void on_request(struct request *request, void *ctx)
{
	struct daemon *daemon = ctx;

	api_on_request(request, daemon->api);
}

static void on_service(struct request *request, const char *name, void *ctx)
{
	struct daemon *daemon = ctx;

	if (str_eq(name, "llm"))
		api_on_model(request, daemon->api);
	else if (str_eq(name, "git"))
		api_on_git(request, daemon->api);
	else
		services_serve(&daemon->services, request, name);
}

static void on_refuse(struct request *request, enum err_code code, const char *detail, void *ctx)
{
	struct daemon *daemon = ctx;

	api_on_refuse(request, code, detail, daemon->api);
}

static void on_fill(struct loop_timer *timer, void *ctx)
{
	struct daemon *daemon = ctx;

	pool_fill(daemon->fleet->pool);
}

static void on_tidy(struct loop_timer *timer, void *ctx)
{
	struct daemon *daemon = ctx;

	skills_sweep(&daemon->skills);
	loop_timer_in(daemon->loop, &daemon->tidy, TIDY_MS, on_tidy, daemon);
}

static void on_ready(const struct err *err, void *ctx)
{
	struct daemon *daemon = ctx;
	struct server_config config = {
		.listen_fd = (int)daemon->listen_fd,
		.on_request = on_request,
		.on_refuse = on_refuse,
		.ctx = daemon,
		.max_connections = CONNECTIONS,
		.header_timeout_ms = HEADER_MS,
		.answered = daemon->fleet->metrics.answered,
	};
	struct err failed = *err;
	struct event event;

	daemon->inner = (struct inner){.on_api = on_request,
	                               .on_service = on_service,
	                               .on_refuse = on_refuse,
	                               .ctx = daemon};
	if (err->code != ERR_OK || hooks_start(daemon->hooks, &failed) < 0 ||
	    tasks_start(daemon->tasks, &failed) < 0 ||
	    server_new(daemon->loop, &config, &daemon->server, &failed) < 0 ||
	    tcp_serve(&daemon->tcp, daemon->loop, &config, &failed) < 0 ||
	    inner_serve(&daemon->inner, daemon->fleet, &config, &failed) < 0) {
		log_error("cannot serve", LOG_ERR(&failed));
		loop_stop(daemon->loop, err_exit(failed.code));
		return;
	}
	note_daemon(&event);
	store_event_put(daemon->store, &event, NULL, NULL);
	event_done(&event);
	gallery_sweep(daemon->gallery);
	on_tidy(&daemon->tidy, daemon);
	sweep_start(daemon->fleet);
	sampler_start(daemon->fleet);
	/* Not at once: a daemon that was started for one job has it done before it makes a stock.
	 */
	loop_timer_in(daemon->loop, &daemon->fill, FILL_AFTER_MS, on_fill, daemon);
	log_info("serving", LOG_STR("state", daemon->state), LOG_INT("pid", getpid()),
	         LOG_STR("tcp", daemon->tcp.fd >= 0 ? daemon->tcp.name : "none"));
}

static int start(struct daemon *daemon, int argc, char **argv, struct err *err)
{
	static const int signals[] = {SIGTERM, SIGINT, 0};
	int r;

	if (parse_options(daemon, argc, argv, err) < 0)
		return -1;
	if (is_real_root())
		return err_set(
			err, ERR_FORBIDDEN,
			"cloched does not run as root: `cloche serve` starts it as another user");
	if (sodium_init() < 0)
		return err_set(err, ERR_INTERNAL, "libsodium does not start");
	daemon->guests = (struct guests){getuid(), (uid_t)daemon->owner_uid};
	if (load_config(daemon, err) < 0 || prepare_folders(daemon, err) < 0 ||
	    tcp_open(&daemon->tcp, daemon->tcp_fd ? (int)daemon->tcp_fd : -1,
	             &daemon->config.server, err) < 0)
		return -1;
	r = loop_new(&daemon->loop);
	if (r == 0)
		r = loop_signals(daemon->loop, signals, on_signal, daemon);
	if (r < 0)
		return err_sys(err, -r, "make the loop");
	if (open_store(daemon, err) < 0 || assemble(daemon, err) < 0)
		return -1;
	reconcile_run(daemon->fleet, on_ready, daemon);
	return 0;
}

/* The broker must know whether it makes sense to start us again. */
static void tell_broker(struct daemon *daemon, const struct err *err)
{
	auto_wire_out struct wire_out out = {0};
	int r;

	if (daemon->broker) /* it has greeted us: it knows that we came that far */
		return;
	wire_begin(&out, WIRE_ERROR, 0);
	wire_put_err(&out, err);
	r = wire_send((int)daemon->broker_fd, &out);
	if (r < 0)
		log_warn("cannot tell the broker", LOG_INT("errno", -r));
}

/* Requests first, then what they wait for; commits that are under way still find their owners. */
static void finish(struct daemon *daemon)
{
	if (daemon->api)
		api_shut(daemon->api);
	server_free(daemon->server);
	tcp_stop(&daemon->tcp);
	inner_stop(&daemon->inner);
	providers_stop(&daemon->providers);
	forges_stop(&daemon->forges);
	services_stop(&daemon->services);
	if (daemon->tasks)
		tasks_shut(daemon->tasks);
	if (daemon->hooks)
		hooks_shut(daemon->hooks);
	if (daemon->fleet) {
		sweep_stop(daemon->fleet);
		sampler_stop(daemon->fleet);
		fleet_shut(daemon->fleet);
	}
	loop_timer_stop(&daemon->fill);
	loop_timer_stop(&daemon->tidy);
	broker_call_free(daemon->broker);
	runtime_free(daemon->runtime);
	loop_remove(&daemon->store_source);
	store_close(daemon->store);
	tasks_free(daemon->tasks);
	hooks_free(daemon->hooks);
	if (daemon->fleet)
		pool_free(daemon->fleet->pool);
	fleet_free(daemon->fleet);
	engine_free(daemon->engine);
	gallery_free(daemon->gallery);
	api_free(daemon->api);
	loop_free(daemon->loop);
	tcp_done(&daemon->tcp);
	commands_done(&daemon->commands);
	config_done(&daemon->config);
	keys_done(&daemon->keys);
	fd_closep(&daemon->run_fd);
	fd_closep(&daemon->sandboxes_fd);
	fd_closep(&daemon->tmp_fd);
}

int daemon_main(int argc, char **argv)
{
	struct daemon daemon = {.run_fd = -1, .sandboxes_fd = -1, .tmp_fd = -1};
	struct err err = {0};
	int status;

	log_setup("daemon", LOG_LEVEL_INFO);
	/* Threads come and go (task/keep.c): a heap for each would keep what it once had. No thread
	 * runs yet. */
	(void)mallopt(M_ARENA_MAX, 2); /* NOLINT(concurrency-mt-unsafe); without it: heavier */
	config_init(&daemon.config);
	(void)signal(SIGPIPE, SIG_IGN); /* SIGPIPE is a known signal */
	(void)umask(077);
	if (start(&daemon, argc, argv, &err) < 0) {
		log_error("cannot start", LOG_ERR(&err));
		tell_broker(&daemon, &err);
		status = err_exit(err.code);
	} else {
		status = loop_run(daemon.loop);
	}
	finish(&daemon);
	return status < 0 ? 1 : status;
}

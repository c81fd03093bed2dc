#include "daemon/engine.h"

#include "api/skills.h"
#include "base/mem.h"
#include "base/str.h"
#include "daemon/approvals.h"
#include "daemon/commands.h"
#include "daemon/environments.h"
#include "daemon/fleet.h"
#include "daemon/forges.h"
#include "daemon/gallery.h"
#include "daemon/lifecycle.h"
#include "daemon/live.h"
#include "daemon/network.h"
#include "daemon/ports.h"
#include "daemon/providers.h"
#include "daemon/services.h"
#include "daemon/skills.h"
#include "gateway/forge.h"
#include "model/entry.h"
#include "runtime/broker_call.h"
#include "store/store.h"

enum { KEEPER_MS = 15 * 1000 };

struct daemon_engine {
	struct engine engine; /* first */
	struct fleet *fleet;
	struct gallery *gallery;
	struct broker_call *broker;
};

static struct daemon_engine *of(struct engine *engine)
{
	return (struct daemon_engine *)engine;
}

/* --- sandboxes --- */

static void do_create(struct engine *engine, const struct spec *spec, engine_on_sandbox on_created,
                      void *ctx)
{
	lifecycle_create(of(engine)->fleet, spec, on_created, ctx);
}

static void do_start(struct engine *engine, const char *id, engine_on_sandbox on_started, void *ctx)
{
	lifecycle_start(of(engine)->fleet, id, on_started, ctx);
}

static void do_stop(struct engine *engine, const char *id, uint64_t grace_ms,
                    engine_on_sandbox on_stopped, void *ctx)
{
	lifecycle_stop(of(engine)->fleet, id, grace_ms, on_stopped, ctx);
}

static void do_remove(struct engine *engine, const char *id, unsigned how,
                      engine_on_done on_removed, void *ctx)
{
	lifecycle_remove(of(engine)->fleet, id, how, on_removed, ctx);
}

static bool do_give_up(struct engine *engine, const char *id, struct store_write *write)
{
	return lifecycle_give_up(of(engine)->fleet, id, write);
}

static void do_given_up(struct engine *engine, const char *id, const struct store_result *result)
{
	lifecycle_given_up(of(engine)->fleet, id, result);
}

static enum sandbox_state do_state(struct engine *engine, const char *id)
{
	struct fleet *fleet = of(engine)->fleet;
	const struct member *member = fleet_find(fleet, id);
	struct err err = {0};

	return member ? member->row->state : store_sandbox_state(fleet->store, id, &err);
}

static void do_settle(struct engine *engine, engine_on_done on_settled, void *ctx)
{
	lifecycle_settle(of(engine)->fleet, on_settled, ctx);
}

static void do_change(struct engine *engine, const char *id, const struct sandbox_change *change,
                      engine_on_sandbox on_changed, void *ctx)
{
	lifecycle_change(of(engine)->fleet, id, change, on_changed, ctx);
}

static void do_meters(struct engine *engine, const char *id, engine_on_sandbox on_meters, void *ctx)
{
	lifecycle_meters(of(engine)->fleet, id, on_meters, ctx);
}

static void do_freeze(struct engine *engine, const char *id, bool on, const char *why,
                      engine_on_done on_done, void *ctx)
{
	lifecycle_freeze(of(engine)->fleet, id, on, why, on_done, ctx);
}

static void do_cut(struct engine *engine, const char *id, const char *why)
{
	lifecycle_cut(of(engine)->fleet, id, why);
}

static void do_set_network(struct engine *engine, const char *id,
                           const struct network_change *change, engine_on_sandbox on_changed,
                           void *ctx)
{
	network_set(of(engine)->fleet, id, change, on_changed, ctx);
}

static void do_hosts(struct engine *engine, const char *id, engine_on_hosts on_hosts, void *ctx)
{
	network_hosts(of(engine)->fleet, id, on_hosts, ctx);
}

/* --- execs --- */

struct late {
	struct loop_timer timer;
	engine_on_exec on_exec;
	void *ctx;
	struct err err;
};

static void on_late(struct loop_timer *timer, void *ctx)
{
	auto_free struct late *late = ctx;

	late->on_exec(NULL, &late->err, late->ctx);
}

/* Takes late on success only. */
static int start_exec(struct member *member, const struct exec_start *start, struct late *late)
{
	struct exec_start full = *start;
	struct strings env = {0};
	int r = 0;

	/* Only environments of the store have variables: the others cost nothing here. */
	if (!start->is_internal && !environment_builtin(member->row->spec.network)) {
		strings_copy(&env, start->env);
		r = network_add_variables(member, &env, &late->err);
		if (r == 0)
			r = entry_check_env_list(&env, &late->err);
		full.env = &env;
	}
	if (r == 0) {
		live_start(member, &full, late->on_exec, late->ctx);
		mem_freep(&late);
	}
	environments_wipe(&env);
	return r;
}

static void do_exec(struct engine *engine, const struct exec_start *start, engine_on_exec on_exec,
                    void *ctx)
{
	struct fleet *fleet = of(engine)->fleet;
	struct member *member = fleet_find(fleet, start->exec->sandbox.text);
	struct late *late;

	late = mem_new(struct late);
	late->on_exec = on_exec;
	late->ctx = ctx;
	if (member && member->row->state == SANDBOX_RUNNING && peer_is_open(member->peer)) {
		if (start_exec(member, start, late) == 0)
			return;
	} else {
		(void)err_set(&late->err, ERR_CONFLICT, "the sandbox does not run%s%s",
		              member ? ": it is " : "",
		              member ? sandbox_state_name(member->row->state) : ""); /* always -1 */
	}
	loop_timer_in(fleet->loop, &late->timer, 0, on_late, late);
}

static struct live *find_live(struct engine *engine, const char *sandbox, const char *exec)
{
	struct member *member = fleet_find(of(engine)->fleet, sandbox);

	return member ? live_find(member, exec) : NULL;
}

static int do_watch(struct engine *engine, const char *sandbox, const char *exec,
                    struct exec_watch *watch, struct err *err)
{
	struct live *live = find_live(engine, sandbox, exec);

	if (!live)
		return err_set(err, ERR_NOT_FOUND, "the command does not run");
	return live_watch(live, watch, err);
}

static uint64_t do_written(struct engine *engine, const char *sandbox, const char *exec)
{
	struct live *live = find_live(engine, sandbox, exec);

	return live ? live_written(live) : 0;
}

static uint64_t do_fed(struct engine *engine, const char *sandbox, const char *exec)
{
	struct live *live = find_live(engine, sandbox, exec);

	return live ? live_fed(live) : 0;
}

static void do_unwatch(struct engine *engine, struct exec_watch *watch)
{
	live_unwatch(watch);
}

static void do_ack(struct engine *engine, struct exec_watch *watch, uint64_t offset)
{
	live_ack(watch, offset);
}

static ssize_t do_input(struct engine *engine, struct exec_watch *watch, const void *bytes,
                        size_t len, bool eof)
{
	return live_input(watch, bytes, len, eof);
}

static void do_abandon(struct engine *engine, const char *sandbox, const char *exec)
{
	struct live *live = find_live(engine, sandbox, exec);

	if (live)
		live_abandon(live);
}

static void do_release(struct engine *engine, const char *sandbox, const char *exec)
{
	struct member *member = fleet_find(of(engine)->fleet, sandbox);

	if (member)
		live_release(member, exec);
}

/* --- requests to a keeper about one exec --- */

struct ask {
	struct fleet *fleet;
	struct id sandbox, exec;
	bool is_forget;
	bool is_kill;
	engine_on_done on_done;
	void *ctx;
	struct loop_timer timer; /* an answer without a question */
	struct err err;
};

static struct ask *ask_new(struct engine *engine, const char *sandbox, const char *exec,
                           engine_on_done on_done, void *ctx)
{
	struct ask *ask = mem_new(struct ask);

	ask->fleet = of(engine)->fleet;
	ask->on_done = on_done;
	ask->ctx = ctx;
	if (!str_copy(ask->sandbox.text, sizeof(ask->sandbox.text), sandbox) ||
	    !str_copy(ask->exec.text, sizeof(ask->exec.text), exec))
		(void)err_set(&ask->err, ERR_INVALID, "malformed id"); /* always -1 */
	return ask;
}

static void ask_done(struct ask *ask, const struct err *err)
{
	ask->on_done(err, ask->ctx);
	mem_freep(&ask);
}

static void on_row_deleted(const struct store_result *result, void *ctx)
{
	static const struct err none = {0};

	ask_done(ctx, result->ok ? &none : &result->err);
}

static void delete_row(struct ask *ask)
{
	struct store_write *write = store_write_new(ask->fleet->store);

	store_delete_exec(write, ask->exec.text);
	store_write_submit(write, on_row_deleted, ask);
}

static void on_keeper_answer(struct wire_msg *msg, const struct err *err, void *ctx)
{
	struct ask *ask = ctx;

	/* It made room for others since. */
	if (ask->is_kill && err->code == ERR_NOT_FOUND) {
		(void)err_set(&ask->err, ERR_CONFLICT, "the command has ended"); /* always -1 */
		ask_done(ask, &ask->err);
		return;
	}
	/* A keeper that does not know it any more has nothing to forget. */
	if (ask->is_forget && (msg || err->code == ERR_NOT_FOUND))
		delete_row(ask);
	else
		ask_done(ask, err);
}

static void on_ask_late(struct loop_timer *timer, void *ctx)
{
	struct ask *ask = ctx;

	if (ask->err.code == ERR_OK)
		delete_row(ask);
	else
		ask_done(ask, &ask->err);
}

static void ask_late(struct ask *ask)
{
	loop_timer_in(ask->fleet->loop, &ask->timer, 0, on_ask_late, ask);
}

/* The exec must be live; else the answer is a conflict. NULL then. */
static struct peer *peer_for(struct ask *ask)
{
	struct member *member = fleet_find(ask->fleet, ask->sandbox.text);

	if (member && peer_is_open(member->peer) && live_find(member, ask->exec.text))
		return member->peer;
	(void)err_set(&ask->err, ERR_CONFLICT, "the command has ended"); /* always -1 */
	ask_late(ask);
	return NULL;
}

static uint64_t begin(struct peer *peer, struct wire_out *out, enum wire_type type,
                      const struct ask *ask)
{
	uint64_t number = peer_begin(peer, out, type);

	wire_put_str(out, FIELD_EXEC, ask->exec.text);
	return number;
}

static void do_resize(struct engine *engine, const char *sandbox, const char *exec,
                      struct exec_size size, engine_on_done on_done, void *ctx)
{
	struct ask *ask = ask_new(engine, sandbox, exec, on_done, ctx);
	struct peer *peer = peer_for(ask);
	auto_wire_out struct wire_out out = {0};
	uint64_t number;

	if (!peer)
		return;
	number = begin(peer, &out, WIRE_K_RESIZE, ask);
	wire_put_u64(&out, FIELD_ROWS, size.rows);
	wire_put_u64(&out, FIELD_COLS, size.cols);
	peer_call(peer, number, &out, KEEPER_MS, on_keeper_answer, ask);
}

static void do_signal(struct engine *engine, const char *sandbox, const char *exec, int signal,
                      engine_on_done on_done, void *ctx)
{
	struct ask *ask = ask_new(engine, sandbox, exec, on_done, ctx);
	struct peer *peer = peer_for(ask);
	auto_wire_out struct wire_out out = {0};
	uint64_t number;

	if (!peer)
		return;
	number = begin(peer, &out, WIRE_K_SIGNAL, ask);
	wire_put_u64(&out, FIELD_SIGNAL, (uint64_t)signal);
	peer_call(peer, number, &out, KEEPER_MS, on_keeper_answer, ask);
}

static void do_kill(struct engine *engine, const char *sandbox, const char *exec,
                    engine_on_done on_done, void *ctx)
{
	struct ask *ask = ask_new(engine, sandbox, exec, on_done, ctx);
	struct member *member = fleet_find(ask->fleet, sandbox);
	auto_wire_out struct wire_out out = {0};
	uint64_t number;

	/* An ended one may have left something behind: its keeper knows. */
	if (!member || !peer_is_open(member->peer)) {
		(void)err_set(&ask->err, ERR_CONFLICT, "the command has ended"); /* always -1 */
		ask_late(ask);
		return;
	}
	ask->is_kill = true;
	number = begin(member->peer, &out, WIRE_K_KILL, ask);
	peer_call(member->peer, number, &out, KEEPER_MS, on_keeper_answer, ask);
}

static void do_forget(struct engine *engine, const char *sandbox, const char *exec,
                      engine_on_done on_done, void *ctx)
{
	struct ask *ask = ask_new(engine, sandbox, exec, on_done, ctx);
	struct member *member = fleet_find(ask->fleet, sandbox);
	auto_wire_out struct wire_out out = {0};
	uint64_t number;

	ask->is_forget = true;
	if (member && live_find(member, exec)) {
		(void)err_set(&ask->err, ERR_CONFLICT,
		              "the command still runs: kill it first"); /* always -1 */
		ask_late(ask);
	} else if (member && peer_is_open(member->peer)) {
		number = begin(member->peer, &out, WIRE_K_FORGET, ask);
		peer_call(member->peer, number, &out, KEEPER_MS, on_keeper_answer, ask);
	} else {
		ask_late(ask); /* its output goes with the sandbox */
	}
}

/* --- images and the machine --- */

static void do_import(struct engine *engine, struct image *image, int archive_fd,
                      engine_on_image on_imported, void *ctx)
{
	gallery_import(of(engine)->gallery, image, archive_fd, on_imported, ctx);
}

static void do_image_remove(struct engine *engine, const char *id, engine_on_done on_removed,
                            void *ctx)
{
	gallery_remove(of(engine)->gallery, id, on_removed, ctx);
}

static int do_environment_get(struct engine *engine, const char *team, const char *name,
                              struct environment **ret, struct err *err)
{
	return environments_get(of(engine)->fleet->environments, team, name, ret, err);
}

static void do_environment_put(struct engine *engine, const struct environment_change *change,
                               engine_on_done on_done, void *ctx)
{
	environments_put(of(engine)->fleet->environments, change, on_done, ctx);
}

static void do_environment_remove(struct engine *engine, const struct environment *environment,
                                  engine_on_done on_removed, void *ctx)
{
	environments_remove(of(engine)->fleet->environments, environment, on_removed, ctx);
}

static int do_service_get(struct engine *engine, const char *team, const char *name,
                          struct service **ret, struct err *err)
{
	return services_get(of(engine)->fleet->services, team, name, ret, err);
}

static void do_service_put(struct engine *engine, const struct service_change *change,
                           engine_on_done on_done, void *ctx)
{
	services_put(of(engine)->fleet->services, change, on_done, ctx);
}

static void do_service_remove(struct engine *engine, const struct service *service,
                              engine_on_done on_removed, void *ctx)
{
	services_remove(of(engine)->fleet->services, service, on_removed, ctx);
}

static void do_service_test(struct engine *engine, const struct service *service, const char *path,
                            engine_on_status on_status, void *ctx)
{
	services_test(of(engine)->fleet->services, service, path, on_status, ctx);
}

static void do_serve_model(struct engine *engine, struct request *request, const char *target,
                           const struct caller *caller, const struct err *err)
{
	providers_serve(of(engine)->fleet->providers, request, target, caller, err);
}

static const struct provider *do_provider_at(struct engine *engine, size_t index)
{
	return providers_at(of(engine)->fleet->providers, index);
}

static void do_provider_put(struct engine *engine, const struct provider_change *change,
                            engine_on_done on_done, void *ctx)
{
	providers_put(of(engine)->fleet->providers, change, on_done, ctx);
}

static void do_provider_remove(struct engine *engine, const char *id, engine_on_done on_removed,
                               void *ctx)
{
	providers_remove(of(engine)->fleet->providers, id, on_removed, ctx);
}

static void do_provider_test(struct engine *engine, const struct provider *provider,
                             engine_on_status on_status, void *ctx)
{
	providers_test(of(engine)->fleet->providers, provider, on_status, ctx);
}

static void do_serve_git(struct engine *engine, struct request *request,
                         const struct forge_grant *grant, const struct err *err)
{
	forges_serve(of(engine)->fleet->forges, request, grant, err);
}

static void do_pull_open(struct engine *engine, const struct forge_pull *pull,
                         forge_on_pulled on_pulled, void *ctx)
{
	forgeway_pull(of(engine)->fleet->forges->forgeway, pull, on_pulled, ctx);
}

static void do_forge_forget(struct engine *engine, const char *run)
{
	if (of(engine)->fleet->forges->forgeway)
		forgeway_forget(of(engine)->fleet->forges->forgeway, run);
}

static void do_forge_test(struct engine *engine, const struct forge *forge,
                          engine_on_status on_status, void *ctx)
{
	forgeway_test(of(engine)->fleet->forges->forgeway, forge, on_status, ctx);
}

static void do_forge_seal(struct engine *engine, const struct forge *forge, const char *value,
                          engine_on_done on_done, void *ctx)
{
	forges_seal(of(engine)->fleet->forges, forge, value, on_done, ctx);
}

static void do_serve_port(struct engine *engine, const char *sandbox, uint16_t port,
                          struct request *request, const char *target)
{
	ports_serve(of(engine)->fleet, sandbox, port, request, target);
}

static const struct approval *do_approval_at(struct engine *engine, size_t index)
{
	return approvals_at(of(engine)->fleet->approvals, index);
}

static void do_approval_answer(struct engine *engine, const char *id,
                               const struct approval_answer *answer, engine_on_done on_done,
                               void *ctx)
{
	approvals_answer(of(engine)->fleet->approvals, id, answer, on_done, ctx);
}

static int do_approval_ask(struct engine *engine, const struct approval_question *question,
                           struct id *ret_id, struct err *err)
{
	return approvals_ask(of(engine)->fleet->approvals, question, ret_id, err);
}

static void do_approval_withdraw(struct engine *engine, const char *id)
{
	approvals_withdraw(of(engine)->fleet->approvals, id);
}

static int do_skill_list(struct engine *engine, const char *team, struct strings *ret,
                         struct err *err)
{
	return skills_list(of(engine)->fleet->skills, team, ret, err);
}

static int do_skill_get(struct engine *engine, const char *team, const char *name,
                        struct skill **ret, struct err *err)
{
	return skills_get(of(engine)->fleet->skills, team, name, ret, err);
}

static int do_skill_put(struct engine *engine, const char *team, const struct skill *skill,
                        struct err *err)
{
	return skills_put(of(engine)->fleet->skills, team, skill, err);
}

static int do_skill_remove(struct engine *engine, const char *team, const char *name,
                           struct err *err)
{
	return skills_remove(of(engine)->fleet->skills, team, name, err);
}

static const struct skill_ops skill_ops = {
	.list = do_skill_list,
	.get = do_skill_get,
	.put = do_skill_put,
	.remove = do_skill_remove,
};

static struct command *do_command_at(struct engine *engine, size_t index)
{
	return commands_at(of(engine)->fleet->commands, index);
}

static int do_command_reload(struct engine *engine, struct err *err)
{
	return commands_load(of(engine)->fleet->commands, err);
}

static void do_command_call(struct engine *engine, const struct command_call *call,
                            engine_on_command on_result, void *ctx)
{
	commands_call(of(engine)->fleet->commands, call, on_result, ctx);
}

static void do_doctor(struct engine *engine, engine_on_strings on_checks, void *ctx)
{
	broker_call_doctor(of(engine)->broker, on_checks, ctx);
}

static char *do_metrics(struct engine *engine)
{
	return metrics_text(of(engine)->fleet);
}

static const struct engine_ops ops = {
	.create = do_create,
	.start = do_start,
	.stop = do_stop,
	.remove = do_remove,
	.give_up = do_give_up,
	.given_up = do_given_up,
	.state = do_state,
	.settle = do_settle,
	.change = do_change,
	.meters = do_meters,
	.cut = do_cut,
	.freeze = do_freeze,
	.set_network = do_set_network,
	.hosts = do_hosts,
	.exec = do_exec,
	.watch = do_watch,
	.written = do_written,
	.fed = do_fed,
	.unwatch = do_unwatch,
	.ack = do_ack,
	.input = do_input,
	.abandon = do_abandon,
	.release = do_release,
	.resize = do_resize,
	.signal = do_signal,
	.kill = do_kill,
	.forget = do_forget,
	.image_import = do_import,
	.image_remove = do_image_remove,
	.serve_port = do_serve_port,
	.serve_model = do_serve_model,
	.forges = {do_serve_git, do_pull_open, do_forge_forget, do_forge_test, do_forge_seal},
	.provider_at = do_provider_at,
	.provider_put = do_provider_put,
	.provider_remove = do_provider_remove,
	.provider_test = do_provider_test,
	.service_get = do_service_get,
	.service_put = do_service_put,
	.service_remove = do_service_remove,
	.service_test = do_service_test,
	.environment_get = do_environment_get,
	.environment_put = do_environment_put,
	.environment_remove = do_environment_remove,
	.approval_at = do_approval_at,
	.approval_answer = do_approval_answer,
	.approval_ask = do_approval_ask,
	.approval_withdraw = do_approval_withdraw,
	.skills = &skill_ops,
	.command_at = do_command_at,
	.command_reload = do_command_reload,
	.command_call = do_command_call,
	.doctor = do_doctor,
	.metrics = do_metrics,
};

struct engine *engine_new(struct fleet *fleet, struct gallery *gallery, struct broker_call *broker)
{
	struct daemon_engine *engine = mem_new(struct daemon_engine);

	*engine = (struct daemon_engine){{&ops}, fleet, gallery, broker};
	return &engine->engine;
}

void engine_free(struct engine *engine)
{
	mem_freep(&engine);
}

#include "daemon/commands.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/str.h"
#include "daemon/services.h"
#include "gateway/proxy.h"
#include "model/scope.h"
#include "runtime/broker_call.h"

/* --- reading --- */

/* The names of manifests, sorted: messages must not depend on a disk's order. */
static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int list_files(const char *path, struct strings *ret, struct err *err)
{
	DIR *dir = opendir(path);
	const struct dirent *entry;

	if (!dir && errno == ENOENT)
		return 0;
	if (!dir) {
		err_sys(err, errno, "read %s", path);
		err->code = ERR_CONFIG;
		return -1;
	}
	/* NOLINTNEXTLINE(concurrency-mt-unsafe): a stream of our own */
	while ((entry = readdir(dir))) {
		if (str_has_suffix(entry->d_name, ".toml") && entry->d_name[0] != '.')
			strings_add(ret, entry->d_name);
	}
	closedir(dir);
	if (ret->count > 1)
		qsort(ret->items, ret->count, sizeof(*ret->items), compare_names);
	if (ret->count > COMMAND_MOST)
		return err_set(err, ERR_CONFIG, "%s has more than %d manifests", path,
		               COMMAND_MOST);
	return 0;
}

static int compare_commands(const void *a, const void *b)
{
	const struct command *x = *(struct command *const *)a, *y = *(struct command *const *)b;
	int r = strcmp(x->noun, y->noun);

	return r ? r : strcmp(x->verb, y->verb);
}

static void list_free(struct command **items, size_t count)
{
	for (size_t i = 0; i < count; i++)
		command_unref(items[i]);
	mem_freep(&items);
}

/* What is no object of ours and of no [scopes] becomes one: a manifest is all it takes. */
static int take_scope(struct strings *objects, const struct command *command, struct err *err)
{
	auto_free char *object = mem_strndup(command->scope, strcspn(command->scope, ":"));
	struct strings words = {0};
	struct scopes scopes = {0};
	int r;

	strings_add(&words, command->scope);
	r = scopes_parse(&words, objects, &scopes, &(struct err){0});
	scopes_done(&scopes);
	strings_done(&words);
	if (r == 0)
		return 0;
	if (scope_check_object(object, err) < 0) {
		err->code = ERR_CONFIG;
		return err_wrap(err, "%s: scope", command->file);
	}
	if (objects->count >= SCOPES_OBJECTS)
		return err_set(err, ERR_CONFIG, "%s: more than %d objects of scopes", command->file,
		               SCOPES_OBJECTS);
	strings_set(objects, object, "commands of manifests");
	return 0;
}

static int load_all(int dir_fd, const struct strings *files, struct command **items,
                    struct strings *objects, struct err *err)
{
	for (size_t i = 0; i < files->count; i++) {
		if (command_load(dir_fd, files->items[i], &items[i], err) < 0 ||
		    command_compile(items[i], err) < 0 || take_scope(objects, items[i], err) < 0)
			return -1;
	}
	if (files->count > 1)
		qsort(items, files->count, sizeof(struct command *), compare_commands);
	for (size_t i = 1; i < files->count; i++) {
		if (compare_commands(&items[i - 1], &items[i]) == 0)
			return err_set(err, ERR_CONFIG, "%s and %s both define '%s %s'",
			               items[i - 1]->file, items[i]->file, items[i]->noun,
			               items[i]->verb);
	}
	return 0;
}

int commands_load(struct commands *commands, struct err *err)
{
	const char *dir = commands->config->commands_dir;
	auto_free char *path =
		dir[0] == '/' ? mem_strdup(dir) : mem_printf("%s/%s", commands->state, dir);
	auto_close int dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct strings files = {0}, objects = {0};
	struct command **items = NULL;
	int r = list_files(path, &files, err);

	if (r == 0) {
		items = mem_resize(NULL, files.count + 1, sizeof(struct command *));
		memset(items, 0, (files.count + 1) * sizeof(struct command *));
		strings_copy(&objects, &commands->config->scope_objects);
		r = load_all(dir_fd, &files, items, &objects, err);
	}
	if (r == 0) {
		list_free(commands->items, commands->count);
		commands->items = take_ptr(items);
		commands->count = files.count;
		strings_copy(&commands->config->scope_objects, &objects);
		log_info("commands read", LOG_INT("count", commands->count));
	}
	list_free(items, items ? files.count : 0);
	strings_done(&files);
	strings_done(&objects);
	return r;
}

void commands_done(struct commands *commands)
{
	list_free(commands->items, commands->count);
	commands->items = NULL;
	commands->count = 0;
}

struct command *commands_at(const struct commands *commands, size_t index)
{
	return index < commands->count ? commands->items[index] : NULL;
}

/* --- calling --- */

struct calling {
	struct command *command;
	struct loop_timer timer; /* of one that is refused */
	struct err err;
	engine_on_command on_result;
	void *ctx;
};

static void finish(struct calling *calling, const struct command_result *result,
                   const struct err *err)
{
	calling->command->under_way--;
	calling->on_result(result, err, calling->ctx);
	command_unref(calling->command);
	mem_freep(&calling);
}

static void on_refused(struct loop_timer *timer, void *ctx)
{
	struct calling *calling = ctx;
	struct err err = calling->err;

	finish(calling, NULL, &err);
}

static void on_fetched(const struct fetch_answer *answer, const struct err *err, void *ctx)
{
	struct command_result result = {.status = answer->status,
	                                .type = answer->type,
	                                .output = answer->bytes,
	                                .output_len = answer->len,
	                                .errors = "",
	                                .is_cut = answer->is_cut};

	finish(ctx, answer->status ? &result : NULL, err);
}

static void on_ran(const struct broker_ran *ran, const struct err *err, void *ctx)
{
	struct command_result result = {.type = ""};

	if (!ran) {
		finish(ctx, NULL, err);
		return;
	}
	result.exit_code = ran->exit_code;
	result.signal = ran->signal;
	result.timed_out = ran->timed_out;
	result.is_cut = ran->is_cut;
	result.output = ran->output ? ran->output : "";
	result.output_len = ran->output_len;
	result.errors = ran->errors ? ran->errors : "";
	result.errors_len = ran->errors_len;
	finish(ctx, &result, err);
}

static int start_http(struct commands *commands, const struct command_call *call,
                      struct calling *calling)
{
	const struct command *command = call->command;
	auto_free char *target = NULL;
	struct proxy_call asked = {.method = command->method};

	if (command_target(command, call->values, &target, &calling->err) < 0)
		return -1;
	asked.target = target;
	if (command->sends_json) {
		asked.type = "application/json";
		asked.body = call->arguments;
		asked.body_len = strlen(call->arguments);
	}
	proxy_fetch(commands->services->proxy, command->service, &asked, on_fetched, calling);
	return 0;
}

/* The broker fills the words in by itself; here the caller learns what is wrong with them. */
static int start_program(struct commands *commands, const struct command_call *call,
                         struct calling *calling)
{
	const struct command *command = call->command;
	struct broker_program program = {.manifest = command->file,
	                                 .digest = command->digest,
	                                 .values = call->values,
	                                 .input = command->has_stdin ? call->arguments : NULL,
	                                 .timeout_ms = command->timeout_ms};
	struct strings argv = {0};
	int r = command_argv(command, call->values, &argv, &calling->err);

	strings_done(&argv);
	if (r == 0)
		broker_call_run(commands->broker, &program, on_ran, calling);
	return r;
}

void commands_call(struct commands *commands, const struct command_call *call,
                   engine_on_command on_result, void *ctx)
{
	struct command *command = call->command;
	struct calling *calling = mem_new(struct calling);
	int r;

	calling->command = command_ref(command);
	calling->on_result = on_result;
	calling->ctx = ctx;
	if (command->under_way++ >= command->at_once)
		r = err_set(&calling->err, ERR_LIMITED,
		            "%llu calls of '%s %s' are under way: try again when one has ended",
		            (unsigned long long)command->at_once, command->noun, command->verb);
	else
		r = command->service ? start_http(commands, call, calling)
		                     : start_program(commands, call, calling);
	if (r < 0)
		loop_timer_in(commands->loop, &calling->timer, 0, on_refused, calling);
}

#include "cli/exec.h"

#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/client.h"
#include "cli/output.h"
#include "cli/place.h"
#include "cli/spec.h"
#include "cli/term.h"

enum { INPUT_MAX = 512 * 1024 };

int exec_check(struct cli *cli, const struct exec_options *options)
{
	if (options->tty && options->no_tty)
		return err_set(&cli->err, ERR_INVALID, "--tty and --no-tty exclude each other");
	if (options->input && options->no_input)
		return err_set(&cli->err, ERR_INVALID,
		               "--interactive and --no-input exclude each other");
	return 0;
}

static bool wants_tty(const struct exec_options *options)
{
	if (options->no_tty)
		return false;
	return options->tty || term_is_interactive();
}

static json_t *argv_json(char *const *argv, struct err *err)
{
	auto_json json_t *array = json_array();

	for (; *argv != NULL; argv++) {
		if (json_array_append_new(array, json_string(*argv)) < 0) {
			err_set(err, ERR_INVALID, "an argument is not valid UTF-8");
			return NULL;
		}
	}
	return take_ptr(array);
}

/* What a program needs to know about the terminal it is shown on. */
static int add_terminal(json_t *body, json_t *env)
{
	static const char *const names[] = {"TERM", "COLORTERM"};
	struct term_size size = term_size();

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		const char *value = place_env(names[i]);

		if (value != NULL && json_object_get(env, names[i]) == NULL)
			/* One that is no UTF-8 is no terminal's name: left out. */
			(void)json_object_set_new(env, names[i], json_string(value));
	}
	return json_object_set_new(body, "tty", json_true()) |
	       json_object_set_new(body, "rows", json_integer(size.rows)) |
	       json_object_set_new(body, "cols", json_integer(size.cols));
}

/* The body of POST /execs; NULL with err. */
static json_t *request_body(const struct exec_options *options, char *const *argv, bool tty,
                            struct err *err)
{
	auto_json json_t *body = json_object();
	auto_json json_t *env = json_object();
	json_t *words = argv_json(argv, err);
	int r = 0;

	if (words == NULL || json_object_set_new(body, "argv", words) < 0)
		return NULL;
	if (cli_spec_add_env(env, &options->env, err) < 0)
		return NULL;
	if (options->cwd != NULL)
		r |= json_object_set_new(body, "cwd", json_string(options->cwd));
	if (options->user != NULL)
		r |= json_object_set_new(body, "user", json_string(options->user));
	if (options->timeout_ms > 0)
		r |= json_object_set_new(body, "timeoutMs",
		                         json_integer((json_int_t)options->timeout_ms));
	if (tty)
		r |= add_terminal(body, env);
	if (json_object_size(env) > 0)
		r |= json_object_set(body, "env", env);
	if (r < 0) {
		err_set(err, ERR_INVALID, "an option is not valid UTF-8");
		return NULL;
	}
	return take_ptr(body);
}

static int post(struct cli *cli, const char *sandbox, const json_t *body, json_t **ret)
{
	auto_free char *target = client_target("/sandboxes/%s/execs", sandbox);

	if (client_json(cli, "POST", target, body, ret) < 0)
		return -1;
	if (*client_str(*ret, "id") != '\0')
		return 0;
	json_decref(*ret);
	return err_set(&cli->err, ERR_PROTOCOL, "the daemon's answer has no id");
}

int exec_background(struct cli *cli, const char *sandbox, const struct exec_options *options,
                    char *const *argv, json_t **ret)
{
	auto_json json_t *body = request_body(options, argv, options->tty, &cli->err);

	if (body == NULL)
		return -1;
	if (json_object_set_new(body, "background", json_true()) < 0)
		return err_set(&cli->err, ERR_INTERNAL, "out of memory");
	return post(cli, sandbox, body, ret);
}

static void explain_limit(const char *what, const json_t *limits, const char *key, bool is_bytes)
{
	char limit[32];
	uint64_t value = client_u64(limits, key);

	if (is_bytes)
		str_format_bytes(limit, sizeof(limit), value);
	else
		(void)snprintf(limit, sizeof(limit), "%llu", (unsigned long long)value);
	if (value == 0)
		cli_note("%s", what);
	else
		cli_note("%s (limit %s)", what, limit);
}

void exec_explain(const char *reason, const json_t *limits, uint64_t timeout_ms)
{
	static const struct {
		const char *reason;
		const char *text;
		const char *limit; /* NULL: none to name */
		bool is_bytes;
	} rows[] = {
		{"oom", "the command was killed: out of memory", "memory", true},
		{"disk", "the command ran out of disk space", "disk", true},
		{"inodes", "the command ran out of files", "inodes", false},
		{"pids", "the command ran out of processes", "pids", false},
		{"stopped", "the command was killed: its sandbox was stopped", NULL, false},
		{"ttl", "the command was killed: its sandbox's time to live is over", NULL, false},
		{"lost", "the command was lost with its sandbox", NULL, false},
	};
	char time[32];

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		if (!str_eq(rows[i].reason, reason))
			continue;
		if (rows[i].limit == NULL)
			cli_note("%s", rows[i].text);
		else
			explain_limit(rows[i].text, limits, rows[i].limit, rows[i].is_bytes);
	}
	if (!str_eq(reason, "timeout"))
		return;
	str_format_ms(time, sizeof(time), timeout_ms);
	cli_note("the command was killed: it ran longer than %s", time);
}

/* With -o json: the answer of the API, input at hand. */
static int wait_and_print(struct cli *cli, const char *sandbox, const struct exec_options *options,
                          char *const *argv)
{
	auto_json json_t *body = request_body(options, argv, false, &cli->err);
	auto_json json_t *answer = NULL;
	auto_free char *input = NULL;

	if (body == NULL)
		return -1;
	if (options->input) {
		input = mem_zalloc(INPUT_MAX + 1);
		ssize_t len = io_read_full(STDIN_FILENO, input, INPUT_MAX + 1);

		if (len < 0 || len > INPUT_MAX)
			return err_set(&cli->err, ERR_TOO_LARGE,
			               "input is too long to be sent with -o json");
		if (json_object_set_new(body, "input", json_stringn(input, (size_t)len)) < 0)
			return err_set(&cli->err, ERR_INVALID, "input is not valid UTF-8");
	}
	if (post(cli, sandbox, body, &answer) < 0)
		return -1;
	struct attach_result result = {
		.exit_code = (int)(client_u64(answer, "exitCode") & 0xff),
		.signal = (int)(client_u64(answer, "signal") & 0x7f),
	};

	(void)!str_copy(result.reason, sizeof(result.reason), client_str(answer, "reason"));
	(void)output_json(cli, answer);
	return attach_status(&result);
}

/* The body for a command somebody stays with. */
static json_t *attached_body(struct cli *cli, const struct exec_options *options, char *const *argv,
                             bool tty)
{
	auto_json json_t *body = request_body(options, argv, tty, &cli->err);

	if (body == NULL)
		return NULL;
	if (json_object_set_new(body, "attach", json_true()) < 0 ||
	    json_object_set_new(body, "stdin", json_boolean(!options->no_input)) < 0) {
		err_set(&cli->err, ERR_INTERNAL, "out of memory");
		return NULL;
	}
	return take_ptr(body);
}

/* Asks for what spec says and stays with it to its end. The caller frees ret->limits. */
static int stay(struct cli *cli, const struct attach_spec *spec, const struct exec_options *options,
                struct attach_result *ret)
{
	int r = attach_run(cli, spec, ret);

	if (r < 0)
		return -1;
	if (ret->detached) {
		cli_note("detached; again with: cloche sandbox attach %s --exec %s", ret->sandbox,
		         ret->exec);
		return 0;
	}
	if (ret->interrupted == 0)
		exec_explain(ret->reason, ret->limits, options->timeout_ms);
	return attach_status(ret);
}

int exec_stay(struct cli *cli, const char *sandbox, const struct exec_options *options,
              char *const *argv)
{
	const char *keys = options->detach_keys == NULL ? "ctrl-p,ctrl-q" : options->detach_keys;

	if (cli->output != CLI_HUMAN)
		return wait_and_print(cli, sandbox, options, argv);
	bool tty = wants_tty(options);
	auto_json json_t *body = attached_body(cli, options, argv, tty);
	auto_free char *text = body == NULL ? NULL : json_dumps(body, JSON_COMPACT);
	struct attach_spec spec = {
		.ask = text, .sandbox = sandbox, .tty = tty, .input = !options->no_input};
	struct attach_result result;

	if (body == NULL)
		return -1;
	if (text == NULL)
		return err_set(&cli->err, ERR_INTERNAL, "out of memory");
	if (options->can_detach && term_keys_parse(keys, &spec.detach, &cli->err) < 0)
		return -1;
	int status = stay(cli, &spec, options, &result);

	json_decref(result.limits);
	return status;
}

int exec_run(struct cli *cli, json_t *sandbox, const struct exec_options *options,
             char *const *argv, char ret_ours[LIMIT_ID_LEN + 1])
{
	bool tty = wants_tty(options);
	json_t *body = attached_body(cli, options, argv, tty);
	auto_json json_t *wish = json_pack("{s:O, s:o}", "sandbox", sandbox, "exec", body);
	auto_free char *text = wish == NULL ? NULL : json_dumps(wish, JSON_COMPACT);
	struct attach_spec spec = {.ask = text, .tty = tty, .input = !options->no_input};
	struct attach_result result;

	ret_ours[0] = '\0';
	if (body == NULL)
		return -1;
	if (text == NULL)
		return err_set(&cli->err, ERR_INTERNAL, "out of memory");
	int status = stay(cli, &spec, options, &result);

	if (result.is_ours)
		memcpy(ret_ours, result.sandbox, sizeof(result.sandbox));
	json_decref(result.limits);
	return status;
}

char *exec_newest(struct cli *cli, const char *sandbox, bool only_running)
{
	auto_free char *target = client_target("/sandboxes/%s/execs", sandbox);
	auto_free char *newest = NULL;
	auto_free char *cursor = NULL;

	/* Oldest first: the newest is the last of the last page. */
	do {
		auto_json json_t *page = NULL;
		auto_free char *paged = mem_strdup(target);

		client_query(&paged, "limit", "1000");
		client_query(&paged, "running", only_running ? "true" : NULL);
		client_query(&paged, "cursor", cursor);
		if (client_get(cli, paged, &page) < 0)
			return NULL;
		const json_t *items = json_object_get(page, "items");
		const json_t *last = json_array_get(items, json_array_size(items) - 1);
		const char *next = client_str(page, "nextCursor");

		if (last != NULL) {
			free(newest);
			newest = mem_strdup(client_str(last, "id"));
		}
		free(cursor);
		cursor = *next == '\0' ? NULL : mem_strdup(next);
	} while (cursor != NULL);
	if (newest == NULL)
		err_set(&cli->err, ERR_NOT_FOUND, "sandbox %s has no command%s", sandbox,
		        only_running ? " that runs" : "");
	return take_ptr(newest);
}

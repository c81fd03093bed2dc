#include "cli/domain.h"

#include <jansson.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "model/command.h"

enum { DOMAIN_OPTIONS = 36, DOMAIN_INPUT = 128 * 1024, EXIT_SIGNAL = 128, EXIT_TIMEOUT = 124 };

/* Where the value of one argument is parsed to. */
struct slot {
	char *option; /* "query", or "arg-url" where the command line has that name itself */
	const char *name;
	const char *type; /* of JSON Schema; "" when it says none, or several */
	const char *item;
	char *help;
	bool flag;
	const char *text;
	struct opt_list list;
};

struct domain {
	struct cli_command row;
	char *words, *args, *about, *example;
	struct slot slots[DOMAIN_OPTIONS];
	size_t count;
	const char *json;
	struct opt opts[DOMAIN_OPTIONS + 2];
};

static void domain_done(struct domain *domain)
{
	for (size_t i = 0; i < domain->count; i++) {
		free(domain->slots[i].option);
		free(domain->slots[i].help);
		opt_list_done(&domain->slots[i].list);
	}
	free(domain->words);
	free(domain->args);
	free(domain->about);
	free(domain->example);
}

/* Bytes of a manifest, for a terminal. */
static char *clean(const char *text)
{
	size_t size = 4 * strlen(text) + 8;
	char *shown = mem_zalloc(size);

	str_escape(shown, size, text, strlen(text));
	return shown;
}

/* --- options of a schema --- */

static bool is_own_option(const char *name)
{
	static const char *const own[] = {"output", "state", "url", "help", "json"};

	for (size_t i = 0; i < ARRAY_LEN(own); i++) {
		if (str_eq(own[i], name))
			return true;
	}
	return false;
}

static bool is_required(const json_t *schema, const char *name)
{
	size_t index;
	json_t *item;

	json_array_foreach (json_object_get(schema, "required"), index, item) {
		if (str_eq(json_string_value(item) ? json_string_value(item) : "", name))
			return true;
	}
	return false;
}

static void add_option(struct domain *domain, const json_t *schema, const char *name,
                       const json_t *property)
{
	struct slot *slot = &domain->slots[domain->count];
	struct opt *opt = &domain->opts[domain->count++];
	auto_free char *about = clean(client_str(property, "description"));
	bool required = is_required(schema, name);

	slot->name = name;
	slot->option = mem_printf("%s%s", is_own_option(name) ? "arg-" : "", name);
	slot->type = client_str(property, "type");
	slot->item = client_str(json_object_get(property, "items"), "type");
	slot->help = mem_printf("%s%s%s", about, required && *about ? "; " : "",
	                        required ? "required" : "");
	*opt = (struct opt){slot->option, 0, OPT_STR, &slot->text, "VALUE", slot->help};
	if (str_eq(slot->type, "boolean")) {
		opt->kind = OPT_FLAG;
		opt->value = &slot->flag;
		opt->arg = NULL;
	} else if (str_eq(slot->type, "array")) {
		opt->kind = OPT_LIST;
		opt->value = &slot->list;
		opt->arg = "VALUE...";
	} else if (str_eq(slot->type, "integer") || str_eq(slot->type, "number")) {
		opt->arg = "NUMBER";
	} else if (str_eq(slot->type, "object")) {
		opt->arg = "JSON";
	}
}

static void describe(struct domain *domain, const json_t *command)
{
	const json_t *schema = json_object_get(command, "arguments");
	const char *name, *scope = client_str(command, "scope");
	auto_free char *about = clean(client_str(command, "description"));
	json_t *property;

	json_object_foreach (json_object_get(schema, "properties"), name, property) {
		if (domain->count < DOMAIN_OPTIONS)
			add_option(domain, schema, name, property);
	}
	domain->opts[domain->count] = (struct opt){
		"json",        0,      OPT_STR,
		&domain->json, "TEXT", "all arguments as one JSON object; -: from standard input"};
	domain->words =
		mem_printf("%s %s", client_str(command, "noun"), client_str(command, "verb"));
	domain->args = mem_strdup("[options]");
	domain->about = mem_printf("%s (needs the scope %s%s)", about, scope,
	                           *client_str(command, "approval") ? ", and a person's yes" : "");
	domain->example = mem_printf("cloche %s --json '{}'", domain->words);
	if (domain->count > 0) {
		free(domain->example);
		domain->example =
			mem_printf("cloche %s --%s%s", domain->words, domain->slots[0].option,
		                   domain->opts[0].kind == OPT_FLAG ? "" : " VALUE");
	}
	domain->row = (struct cli_command){.words = domain->words,
	                                   .args = domain->args,
	                                   .about = domain->about,
	                                   .example = domain->example,
	                                   .passes_status = true};
}

/* --- values --- */

/* A word as the type says; what is none of it stays a text, and the schema refuses it by name. */
static json_t *value_of(const char *type, const char *text)
{
	json_t *value = NULL;

	if (!str_eq(type, "string") && *type)
		value = json_loads(text, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, NULL);
	return value ? value : json_string(text);
}

static int put_slot(const struct slot *slot, json_t *arguments, struct err *err)
{
	json_t *value = NULL;

	if (slot->flag)
		value = json_true();
	else if (slot->text)
		value = value_of(slot->type, slot->text);
	else if (slot->list.count > 0)
		value = json_array();
	else
		return 0;
	for (size_t i = 0; i < slot->list.count; i++) {
		json_t *item = value_of(slot->item, slot->list.items[i]);

		if (!item) {
			json_decref(value);
			value = NULL;
			break;
		}
		json_array_append_new(value, item);
	}
	if (!value)
		return err_set(err, ERR_INVALID, "--%s is not valid UTF-8", slot->option);
	json_object_set_new(arguments, slot->name, value);
	return 0;
}

static int read_input(char **ret, struct err *err)
{
	struct buf buf;
	ssize_t len;

	buf_init(&buf, DOMAIN_INPUT);
	do
		len = buf_room(&buf) ? buf_read_fd(&buf, STDIN_FILENO, buf_room(&buf)) : -1;
	while (len > 0);
	if (len == 0)
		*ret = buf_take_string(&buf);
	buf_done(&buf);
	return len < 0 ? err_set(err, ERR_INVALID, "cannot read standard input, or it is too long")
	               : 0;
}

static int read_json(const char *text, json_t **ret, struct err *err)
{
	auto_free char *input = NULL;
	json_error_t why;

	if (str_eq(text, "-") && read_input(&input, err) < 0)
		return -1;
	*ret = json_loads(input ? input : text, JSON_REJECT_DUPLICATES, &why);
	if (json_is_object(*ret))
		return 0;
	json_decref(*ret);
	*ret = NULL;
	return err_set(err, ERR_INVALID, "--json is no JSON object");
}

static int collect(struct domain *domain, json_t **ret, struct err *err)
{
	if (domain->json && read_json(domain->json, ret, err) < 0)
		return -1;
	if (!*ret)
		*ret = json_object();
	for (size_t i = 0; i < domain->count; i++) {
		if (put_slot(&domain->slots[i], *ret, err) < 0)
			return -1;
	}
	return 0;
}

/* --- the call --- */

struct sending {
	const char *text;
	size_t left;
};

static ssize_t give(void *ctx, void *bytes, size_t size, struct err *err)
{
	struct sending *sending = ctx;
	size_t len = MIN(size, sending->left);

	memcpy(bytes, sending->text, len);
	sending->text += len;
	sending->left -= len;
	return (ssize_t)len;
}

/* As a stream: a call that may have been done must not be done again by itself. */
static int post(struct cli *cli, const char *target, const json_t *arguments, json_t **ret)
{
	json_t *body = json_pack("{s:O}", "arguments", arguments);
	auto_free char *text = json_dumps(body, JSON_COMPACT);
	struct sending sending = {text, strlen(text)};
	const struct http_request request = {.method = "POST",
	                                     .target = target,
	                                     .content_type = "application/json",
	                                     .has_stream = true,
	                                     .stream_len = sending.left};

	json_decref(body);
	if (client_upload(cli, &request, give, &sending) < 0)
		return -1;
	return client_read_json(cli, ret);
}

/* Bytes of somebody else: as they are in a pipe, escaped on a terminal. */
static void print(const char *text, FILE *to)
{
	if (!isatty(fileno(to))) {
		(void)fputs(text, to); /* a failure shows at exit */
		return;
	}
	for (const char *at = text; *at;) {
		size_t len = strcspn(at, "\n");
		auto_free char *line = mem_strndup(at, len);
		auto_free char *shown = clean(line);

		(void)fprintf(to, "%s\n", shown);
		at += len + (at[len] == '\n');
	}
}

static int report(struct cli *cli, const json_t *result)
{
	const json_t *signal = json_object_get(result, "signal");
	bool ok = json_is_true(json_object_get(result, "ok"));

	if (!output_json(cli, result)) {
		print(client_str(result, "output"), stdout);
		print(client_str(result, "errors"), stderr);
		if (json_is_true(json_object_get(result, "truncated")))
			cli_note("there was more than a command may say");
		if (!ok && json_is_integer(json_object_get(result, "status")))
			cli_note("the server answered %llu",
			         (unsigned long long)client_u64(result, "status"));
	}
	if (ok)
		return 0;
	if (json_is_true(json_object_get(result, "timedOut")))
		return EXIT_TIMEOUT;
	if (json_is_integer(signal))
		return EXIT_SIGNAL + (int)json_integer_value(signal);
	return client_u64(result, "exitCode") ? (int)client_u64(result, "exitCode") : 1;
}

static int call(struct cli *cli, const char *target, const json_t *command)
{
	struct domain domain = {0};
	auto_json json_t *arguments = NULL;
	auto_json json_t *result = NULL;
	int r;

	describe(&domain, command);
	cli->command = &domain.row;
	r = cli_parse(cli, domain.opts, 0, 0);
	if (r > 0) {
		r = collect(&domain, &arguments, &cli->err) < 0 ||
		                    post(cli, target, arguments, &result) < 0
		            ? -1
		            : report(cli, result);
	}
	cli->command = NULL;
	domain_done(&domain);
	return r;
}

/* "cloche contacts": what it has. False: nothing. */
static bool list(struct cli *cli, const char *noun)
{
	static const char *const titles[] = {"COMMAND", "DESCRIPTION", NULL};
	auto_json json_t *answer = NULL;
	struct output_table table;
	size_t index, count = 0;
	json_t *item;

	if (client_get(cli, "/api/v1/commands", &answer) < 0)
		return false;
	output_table_init(&table, titles);
	json_array_foreach (json_object_get(answer, "items"), index, item) {
		if (!str_eq(client_str(item, "noun"), noun))
			continue;
		auto_free char *words = mem_printf("%s %s", noun, client_str(item, "verb"));

		output_cell(&table, words);
		output_cell(&table, client_str(item, "description"));
		count++;
	}
	output_table_print(&table);
	return count > 0;
}

bool domain_run(struct cli *cli, int *ret_status)
{
	const char *noun = cli->argv[0], *verb = cli->argc > 1 ? cli->argv[1] : "";
	auto_json json_t *command = NULL;
	auto_free char *target = NULL;

	if (!command_is_noun(noun) || (*verb && *verb != '-' && !command_is_verb(verb)) ||
	    cli_prepare(cli) < 0)
		return false;
	if (!*verb || *verb == '-') {
		*ret_status = 0;
		return list(cli, noun);
	}
	target = mem_printf("/api/v1/commands/%s/%s", noun, verb);
	if (client_get(cli, target, &command) < 0) {
		*ret_status = -1;
		return cli->err.code == ERR_FORBIDDEN;
	}
	cli->argc -= 2;
	cli->argv += 2;
	*ret_status = call(cli, target, command);
	return true;
}

/* --- cloche command --- */

int cmd_command_list(struct cli *cli)
{
	static const char *const titles[] = {"COMMAND",  "SCOPE",       "KIND",
	                                     "APPROVAL", "DESCRIPTION", NULL};
	int r = cli_parse(cli, NULL, 0, 0);
	struct output_table table;
	auto_json json_t *answer = NULL;
	size_t index;
	json_t *item;

	if (r <= 0)
		return r;
	if (client_get(cli, "/api/v1/commands", &answer) < 0)
		return -1;
	const json_t *items = json_object_get(answer, "items");

	if (output_json(cli, items))
		return 0;
	output_table_init(&table, titles);
	json_array_foreach (items, index, item) {
		auto_free char *words =
			mem_printf("%s %s", client_str(item, "noun"), client_str(item, "verb"));

		output_cell(&table, words);
		output_cell(&table, client_str(item, "scope"));
		output_cell(&table, client_str(item, "kind"));
		output_cell(&table, client_str(item, "approval"));
		output_cell(&table, client_str(item, "description"));
	}
	output_table_print(&table);
	return 0;
}

int cmd_command_show(struct cli *cli)
{
	int r = cli_parse(cli, NULL, 2, 2);
	auto_json json_t *answer = NULL;

	if (r <= 0)
		return r;
	if (!command_is_noun(cli->argv[0]) || !command_is_verb(cli->argv[1]))
		return err_set(&cli->err, ERR_INVALID, "usage: cloche command show NOUN VERB");
	auto_free char *target = client_target("/commands/%s", cli->argv[0]);
	auto_free char *whole = mem_printf("%s/%s", target, cli->argv[1]);

	if (client_get(cli, whole, &answer) < 0)
		return -1;
	if (output_json(cli, answer))
		return 0;
	output_fact("command", "%s %s", cli->argv[0], cli->argv[1]);
	output_fact("description", "%s", client_str(answer, "description"));
	output_fact("scope", "%s", client_str(answer, "scope"));
	output_fact("tool", "%s", client_str(answer, "tool"));
	output_fact("kind", "%s", client_str(answer, "kind"));
	output_fact("approval", "%s", client_str(answer, "approval"));
	auto_free char *schema =
		json_dumps(json_object_get(answer, "arguments"), JSON_COMPACT | JSON_ENSURE_ASCII);

	output_fact("arguments", "%s", schema ? schema : "");
	return 0;
}

int cmd_command_reload(struct cli *cli)
{
	int r = cli_parse(cli, NULL, 0, 0);
	auto_json json_t *answer = NULL;

	if (r <= 0)
		return r;
	if (client_json(cli, "POST", "/api/v1/commands/reload", NULL, &answer) < 0)
		return -1;
	const json_t *items = json_object_get(answer, "items");

	if (!output_json(cli, items))
		output_fact("commands", "%zu", json_array_size(items));
	return 0;
}

/*
 * The manifest of a command. Every key is a row of a table, everything else is refused with its
 * line; what a part says about another (a {name} that is no argument) is looked at in the end.
 */
#include "base/io.h"
#include "base/mem.h"
#include "base/sha256.h"
#include "base/str.h"
#include "model/command.h"
#include "model/command_json.h"
#include "model/config_impl.h"
#include "model/scope.h"
#include "model/spec.h"

/* What is read, besides the command itself. */
struct manifest {
	struct command *command;
	struct config_place place;
	char *url, *secret, *body;
	struct strings headers;
	const struct toml *schema; /* [arguments]; NULL: none */
	int http_line, exec_line;  /* 0: not there */
	bool is_blamed;            /* the error names its place already */
};

typedef int (*read_key)(struct manifest *manifest, void *field, const struct toml *node,
                        struct err *err);

struct key {
	const char *name;
	read_key read;
	size_t offset; /* in struct command, or in struct manifest */
	bool is_own;   /* of the manifest */
};

/* --- values --- */

static int read_text(struct manifest *manifest, void *field, const struct toml *node,
                     struct err *err)
{
	if (node->kind != TOML_STRING || config_has_nul(node))
		return config_refuse_kind(node, "a string", err);
	if (node->str_len == 0)
		return err_set(err, ERR_CONFIG, "'%s' is empty", node->key);
	*(char **)field = mem_strdup(node->str);
	return 0;
}

static int read_noun(struct manifest *manifest, void *field, const struct toml *node,
                     struct err *err)
{
	if (read_text(manifest, field, node, err) < 0)
		return -1;
	if (command_is_noun(node->str))
		return 0;
	return err_set(
		err, ERR_CONFIG,
		"'noun' must be at most %d of a-z 0-9 -, the first a letter, the last no '-'",
		COMMAND_WORD);
}

static int read_verb(struct manifest *manifest, void *field, const struct toml *node,
                     struct err *err)
{
	if (read_text(manifest, field, node, err) < 0)
		return -1;
	if (command_is_verb(node->str))
		return 0;
	return err_set(err, ERR_CONFIG,
	               "'verb' must be at most %d of a-z 0-9 - _, the first a letter, the last no "
	               "'-'",
	               COMMAND_WORD);
}

static int read_list(struct manifest *manifest, void *field, const struct toml *node,
                     struct err *err)
{
	return config_read_strings(field, node, err);
}

static int read_ms(struct manifest *manifest, void *field, const struct toml *node, struct err *err)
{
	uint64_t *ms = field;

	if (node->kind == TOML_STRING && !config_has_nul(node) && str_to_ms(node->str, ms) == 0 &&
	    *ms > 0)
		return 0;
	return err_set(err, ERR_CONFIG, "'%s' is not a time such as \"30s\"", node->key);
}

static int read_bytes(struct manifest *manifest, void *field, const struct toml *node,
                      struct err *err)
{
	uint64_t *bytes = field;

	if (node->kind == TOML_STRING && !config_has_nul(node) &&
	    str_to_bytes(node->str, bytes) == 0 && *bytes > 0)
		return 0;
	return err_set(err, ERR_CONFIG, "'%s' is not a size such as \"64K\"", node->key);
}

static int read_count(struct manifest *manifest, void *field, const struct toml *node,
                      struct err *err)
{
	if (node->kind != TOML_INT || node->num < 1 || node->num > COMMAND_AT_ONCE_MOST)
		return err_set(err, ERR_CONFIG, "'%s' is a number from 1 to %d", node->key,
		               COMMAND_AT_ONCE_MOST);
	*(uint64_t *)field = (uint64_t)node->num;
	return 0;
}

/* A flag that is written as the one word it can be. */
static int read_flag(bool *flag, const struct toml *node, const char *word, struct err *err)
{
	if (node->kind != TOML_STRING || !str_eq(node->str, word))
		return err_set(err, ERR_CONFIG, "'%s' can be \"%s\", or left out", node->key, word);
	*flag = true;
	return 0;
}

static int read_approval(struct manifest *manifest, void *field, const struct toml *node,
                         struct err *err)
{
	return read_flag(field, node, "ask", err);
}

static int read_json(struct manifest *manifest, void *field, const struct toml *node,
                     struct err *err)
{
	return read_flag(field, node, "json", err);
}

static int read_method(struct manifest *manifest, void *field, const struct toml *node,
                       struct err *err)
{
	static const char *const methods[] = {"GET", "POST", "PUT", "PATCH", "DELETE"};

	if (read_text(manifest, field, node, err) < 0)
		return -1;
	for (size_t i = 0; i < ARRAY_LEN(methods); i++) {
		if (str_eq(methods[i], node->str))
			return 0;
	}
	return err_set(err, ERR_CONFIG, "'method' is GET, POST, PUT, PATCH or DELETE");
}

/* --- sections --- */

#define OF_COMMAND(field)  offsetof(struct command, field), false
#define OF_MANIFEST(field) offsetof(struct manifest, field), true

static int read_keys(struct manifest *manifest, const struct key *keys, size_t count,
                     const struct toml *table, struct err *err)
{
	const char *names[24] = {NULL};

	for (size_t i = 0; i < count; i++)
		names[i] = keys[i].name;
	for (const struct toml *node = table->child; node; node = node->next) {
		const struct key *key = NULL;
		void *field;

		for (size_t i = 0; i < count && !key; i++)
			key = str_eq(keys[i].name, node->key) ? &keys[i] : NULL;
		if (!key) {
			manifest->is_blamed = true;
			return config_refuse_unknown(&manifest->place, node, names, err);
		}
		field = (key->is_own ? (char *)manifest : (char *)manifest->command) + key->offset;
		if (key->read(manifest, field, node, err) == 0)
			continue;
		if (!manifest->is_blamed)
			(void)config_blame(&manifest->place, node->line, err); /* always -1 */
		manifest->is_blamed = true;
		return -1;
	}
	return 0;
}

static int want_table(const struct toml *node, struct err *err)
{
	return node->kind == TOML_TABLE ? 0 : config_refuse_kind(node, "a table", err);
}

static int read_http(struct manifest *manifest, void *field, const struct toml *node,
                     struct err *err)
{
	static const struct key keys[] = {
		{"method", read_method, OF_COMMAND(method)},
		{"url", read_text, OF_MANIFEST(url)},
		{"query", read_list, OF_COMMAND(query)},
		{"headers", read_list, OF_MANIFEST(headers)},
		{"secret", read_text, OF_MANIFEST(secret)},
		{"body", read_json, OF_COMMAND(sends_json)},
	};
	int r;

	if (want_table(node, err) < 0)
		return -1;
	manifest->http_line = node->line;
	manifest->place.section = "[http]";
	r = read_keys(manifest, keys, ARRAY_LEN(keys), node, err);
	if (r == 0)
		manifest->place.section = "";
	return r;
}

static int read_exec(struct manifest *manifest, void *field, const struct toml *node,
                     struct err *err)
{
	static const struct key keys[] = {
		{"argv", read_list, OF_COMMAND(argv)},
		{"user", read_text, OF_COMMAND(user)},
		{"stdin", read_json, OF_COMMAND(has_stdin)},
	};
	int r;

	if (want_table(node, err) < 0)
		return -1;
	manifest->exec_line = node->line;
	manifest->place.section = "[exec]";
	r = read_keys(manifest, keys, ARRAY_LEN(keys), node, err);
	if (r == 0)
		manifest->place.section = "";
	return r;
}

static int read_schema(struct manifest *manifest, void *field, const struct toml *node,
                       struct err *err)
{
	manifest->schema = node;
	return want_table(node, err);
}

static const struct key keys[] = {
	{"noun", read_noun, OF_COMMAND(noun)},
	{"verb", read_verb, OF_COMMAND(verb)},
	{"description", read_text, OF_COMMAND(about)},
	{"scope", read_text, OF_COMMAND(scope)},
	{"approval", read_approval, OF_COMMAND(asks)},
	{"approval_timeout", read_ms, OF_COMMAND(ask_ms)},
	{"timeout", read_ms, OF_COMMAND(timeout_ms)},
	{"output", read_bytes, OF_COMMAND(output_bytes)},
	{"concurrency", read_count, OF_COMMAND(at_once)},
	{"arguments", read_schema, 0, true},
	{"http", read_http, 0, true},
	{"exec", read_exec, 0, true},
};

/* --- the schema --- */

/* What is not named is refused, unless the schema says otherwise: a name written wrong must not
 * look like one that was left out. */
static int take_schema(struct manifest *manifest, struct err *err)
{
	const struct toml *schema = manifest->schema;
	const struct toml *type = schema ? toml_get(schema, "type") : NULL;
	const struct toml *properties = schema ? toml_get(schema, "properties") : NULL;
	bool is_open = schema && (toml_get(schema, "additionalProperties") ||
	                          toml_get(schema, "unevaluatedProperties"));
	struct command *command = manifest->command;
	auto_free char *text = NULL;
	struct buf buf;
	int r = 0;

	if (type && (type->kind != TOML_STRING || !str_eq(type->str, "object")))
		return err_set(err, ERR_CONFIG, "[arguments]: 'type' must be \"object\"");
	if (properties && properties->kind != TOML_TABLE)
		return err_set(err, ERR_CONFIG, "[arguments]: 'properties' must be a table");
	buf_init(&buf, COMMAND_MANIFEST);
	if (schema)
		r = command_put_json(&buf, schema, err);
	text = buf_take_string(&buf);
	buf_done(&buf);
	if (r < 0)
		return -1;
	for (const struct toml *at = properties ? properties->child : NULL; at; at = at->next)
		strings_add(&command->properties, at->key);
	if (!schema || !schema->child)
		command->schema_text = mem_strdup("{\"type\":\"object\",\"properties\":{},"
		                                  "\"additionalProperties\":false}");
	else
		command->schema_text = mem_printf("{%s%s%s%s", type ? "" : "\"type\":\"object\",",
		                                  is_open ? "" : "\"additionalProperties\":false,",
		                                  properties ? "" : "\"properties\":{},", text + 1);
	return 0;
}

/* --- what belongs together --- */

static int check_slots(const struct command *command, const char *text, struct err *err)
{
	for (const char *at = strchr(text, '{'); at; at = strchr(at + 1, '{')) {
		size_t len = strspn(at + 1, "abcdefghijklmnopqrstuvwxyz"
		                            "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-");
		auto_free char *name = NULL;

		if (len == 0 || at[1 + len] != '}')
			continue;
		name = mem_strndup(at + 1, len);
		if (str_eq(name, "secret"))
			return err_set(
				err, ERR_CONFIG,
				"{secret} stands in 'headers' alone: elsewhere it would be seen");
		if (!strings_has(&command->properties, name))
			return err_set(err, ERR_CONFIG,
			               "{%.40s} is no argument: list it in [arguments.properties]",
			               name);
	}
	return 0;
}

static int check_list(const struct command *command, const struct strings *list, struct err *err)
{
	for (size_t i = 0; i < list->count; i++) {
		if (check_slots(command, list->items[i], err) < 0)
			return -1;
	}
	return 0;
}

/* "https://host/v1/contacts/{id}" is an upstream and a path on it. */
static int take_url(struct manifest *manifest, struct err *err)
{
	struct command *command = manifest->command;
	const char *host = manifest->url ? strstr(manifest->url, "://") : NULL;
	const char *path;

	if (!host)
		return err_set(err, ERR_CONFIG,
		               "'url' is missing, or not of the form https://HOST/PATH");
	path = host + 3 + strcspn(host + 3, "/?#");
	if (strpbrk(path, "?# \t"))
		return err_set(
			err, ERR_CONFIG,
			"'url' has no blank, '?' or '#': what is asked for stands in 'query'");
	command->service->upstream = mem_strndup(manifest->url, (size_t)(path - manifest->url));
	command->target = mem_strdup(*path ? path : "/");
	if (strchr(command->service->upstream, '{'))
		return err_set(err, ERR_CONFIG, "the host of 'url' cannot be an argument");
	return check_slots(command, command->target, err);
}

static int take_http(struct manifest *manifest, struct err *err)
{
	struct command *command = manifest->command;
	auto_free char *name = mem_printf("%.30s-%.30s", command->noun, command->verb);

	command->service = service_new(name);
	spec_set(&command->service->origin, "config");
	command->service->visibility = VISIBILITY_GLOBAL;
	command->service->secret = take_ptr(manifest->secret);
	strings_copy(&command->service->headers, &manifest->headers);
	if (take_url(manifest, err) < 0 || check_list(command, &command->query, err) < 0)
		return -1;
	if (!command->method)
		command->method = mem_strdup(command->sends_json ? "POST" : "GET");
	if (command->sends_json && str_eq(command->method, "GET"))
		return err_set(err, ERR_CONFIG, "a GET has no body");
	command->service->timeout_ms = command->timeout_ms;
	command->service->response_bytes = command->output_bytes;
	if (service_normalise(command->service, err) < 0)
		return -1;
	if (command->service->secret && str_eq(command->service->secret, SERVICE_SEALED))
		return err_set(err, ERR_CONFIG, "'secret' is env:CLOCHE_NAME or file:/PATH");
	return 0;
}

static int take_exec(struct manifest *manifest, struct err *err)
{
	struct command *command = manifest->command;

	if (command->argv.count == 0 || command->argv.items[0][0] != '/' ||
	    strchr(command->argv.items[0], '{'))
		return err_set(err, ERR_CONFIG,
		               "'argv' begins with the absolute path of a program: "
		               "[\"/usr/bin/contacts\", \"list\", \"{query}\"]");
	if (command->argv.count > 128)
		return err_set(err, ERR_CONFIG, "'argv' has more than 128 words");
	if (command->user && str_eq(command->user, "root"))
		return err_set(err, ERR_CONFIG, "'user' cannot be root");
	return check_list(command, &command->argv, err);
}

static int check_words(struct command *command, struct err *err)
{
	const char *colon;

	if (!command->noun || !command->verb || !command->about || !command->scope)
		return err_set(err, ERR_CONFIG, "'%s' is missing",
		               !command->noun    ? "noun"
		               : !command->verb  ? "verb"
		               : !command->about ? "description"
		                                 : "scope");
	if (command_is_taken(command->noun))
		return err_set(err, ERR_CONFIG, "noun '%s' is a word of cloche's own",
		               command->noun);
	if (strlen(command->about) > 1000)
		return err_set(err, ERR_CONFIG, "'description' is longer than 1000 bytes");
	colon = strchr(command->scope, ':');
	if (!colon || (!str_eq(colon, ":read") && !str_eq(colon, ":write")))
		return err_set(err, ERR_CONFIG, "'scope' is \"OBJECT:read\" or \"OBJECT:write\"");
	command->tool = mem_printf("%s_%s", command->noun, command->verb);
	return 0;
}

static int check_limits(struct manifest *manifest, struct err *err)
{
	struct command *command = manifest->command;
	uint64_t most = manifest->exec_line ? COMMAND_PROGRAM_OUT : COMMAND_HTTP_OUT;

	if (!manifest->http_line == !manifest->exec_line)
		return err_set(err, ERR_CONFIG, "a command has either [http] or [exec]");
	if (command->timeout_ms > COMMAND_TIMEOUT_MOST_MS)
		return err_set(err, ERR_CONFIG, "'timeout' is at most 10m");
	if (command->ask_ms > COMMAND_ASK_MOST_MS)
		return err_set(err, ERR_CONFIG, "'approval_timeout' is at most 1h");
	if (command->output_bytes > most)
		return err_set(err, ERR_CONFIG, "'output' is at most %s",
		               manifest->exec_line ? "64K" : "1M");
	if (command->output_bytes == 0)
		command->output_bytes = most;
	return 0;
}

/* Names the line of the section it is about. */
static int blame(struct manifest *manifest, const char *section, int line, struct err *err)
{
	manifest->place.section = section;
	if (err && err->code == ERR_INVALID)
		err->code = ERR_CONFIG;
	return config_blame(&manifest->place, line, err);
}

static int read_whole(struct manifest *manifest, const struct toml *root, struct err *err)
{
	if (read_keys(manifest, keys, ARRAY_LEN(keys), root, err) < 0)
		return -1;
	if (check_words(manifest->command, err) < 0 || check_limits(manifest, err) < 0)
		return blame(manifest, "", 1, err);
	if (take_schema(manifest, err) < 0)
		return blame(manifest, "", manifest->schema ? manifest->schema->line : 1, err);
	if (manifest->http_line && take_http(manifest, err) < 0)
		return blame(manifest, "[http]", manifest->http_line, err);
	if (manifest->exec_line && take_exec(manifest, err) < 0)
		return blame(manifest, "[exec]", manifest->exec_line, err);
	return 0;
}

int command_parse(const char *file, const char *text, size_t len, struct command **ret,
                  struct err *err)
{
	auto_(toml_freep) struct toml *root = NULL;
	auto_(command_unrefp) struct command *command = mem_new(struct command);
	struct manifest manifest = {.command = command, .place = {file, ""}};
	int r = toml_parse(file, text, len, &root, err);

	command->refs = 1;
	command->file = mem_strdup(file);
	command->timeout_ms = COMMAND_TIMEOUT_MS;
	command->ask_ms = COMMAND_ASK_MS;
	command->at_once = COMMAND_AT_ONCE;
	sha256_hex(command->digest, text, len);
	if (r == 0)
		r = read_whole(&manifest, root, err);
	free(manifest.url);
	free(manifest.secret);
	strings_done(&manifest.headers);
	if (r == 0)
		*ret = take_ptr(command);
	return r;
}

int command_load(int dir_fd, const char *file, struct command **ret, struct err *err)
{
	auto_free char *text = NULL;
	size_t len;
	int r;

	if (!command_is_file(file))
		return err_set(err, ERR_CONFIG,
		               "'%.60s' is no name of a manifest: letters, digits, '.', '_', '-', "
		               "and .toml at the end",
		               file);
	r = io_read_file(dir_fd, file, COMMAND_MANIFEST, &text, &len);
	if (r < 0) {
		err_sys(err, -r, "read %s", file);
		if (err)
			err->code = ERR_CONFIG;
		return -1;
	}
	return command_parse(file, text, len, ret, err);
}

#include "task/servers.h"

#include <string.h>
#include <strings.h>

#include "base/str.h"

enum { SERVERS_MOST = 20, NAME_MOST = 64, ITEMS_MOST = 64, TEXT_MOST = 4096 };

#define NAME_BYTES "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"

static bool is_text(const json_t *value)
{
	return json_is_string(value) && json_string_length(value) <= TEXT_MOST &&
	       strlen(json_string_value(value)) == json_string_length(value);
}

/* It would be inside, for everything that runs there. */
static bool is_credential(const char *header)
{
	static const char *const names[] = {"authorization", "proxy-authorization", "cookie",
	                                    "x-api-key",     "x-auth-token",        "api-key",
	                                    "x-goog-api-key"};

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		if (strcasecmp(names[i], header) == 0)
			return true;
	}
	return false;
}

/* {"name": value, …} or [{"name", "value"}, …] to the latter. */
static int take_pairs(const char *server, const char *what, const json_t *from, json_t *ret,
                      struct err *err)
{
	const char *name;
	json_t *value;
	size_t i;

	if (json_array_size(from) + json_object_size(from) > ITEMS_MOST ||
	    (from && !json_is_array(from) && !json_is_object(from)))
		return err_set(err, ERR_INVALID,
		               "'mcpServers' %s: '%s' is at most %d texts by name", server, what,
		               ITEMS_MOST);
	json_array_foreach (from, i, value) {
		if (!is_text(json_object_get(value, "name")) ||
		    !is_text(json_object_get(value, "value")))
			return err_set(err, ERR_INVALID,
			               "'mcpServers' %s: '%s' %zu needs 'name' and 'value'", server,
			               what, i + 1);
		json_array_append_new(ret, json_pack("{s:O, s:O}", "name",
		                                     json_object_get(value, "name"), "value",
		                                     json_object_get(value, "value")));
	}
	json_object_foreach ((json_t *)(json_is_object(from) ? from : NULL), name, value) {
		if (!is_text(value))
			return err_set(err, ERR_INVALID, "'mcpServers' %s: '%s' has only texts",
			               server, what);
		json_array_append_new(ret, json_pack("{s:s, s:O}", "name", name, "value", value));
	}
	return 0;
}

static int take_remote(const char *name, const char *type, const json_t *from, json_t *server,
                       struct err *err)
{
	const json_t *url = json_object_get(from, "url");
	json_t *headers = json_array(), *header;
	size_t i;

	json_object_set_new(server, "type", json_string(type));
	json_object_set_new(server, "headers", headers);
	if (!is_text(url) || (!str_has_prefix(json_string_value(url), "http://") &&
	                      !str_has_prefix(json_string_value(url), "https://")))
		return err_set(err, ERR_INVALID, "'mcpServers' %s: 'url' is http:// or https://",
		               name);
	json_object_set(server, "url", (json_t *)url);
	if (strchr(json_string_value(url), '@'))
		return err_set(
			err, ERR_INVALID,
			"'mcpServers' %s: a password in 'url' would be readable inside: make "
			"a service (cloche service add) and give its address",
			name);
	if (take_pairs(name, "headers", json_object_get(from, "headers"), headers, err) < 0)
		return -1;
	json_array_foreach (headers, i, header) {
		const char *text = json_string_value(json_object_get(header, "name"));

		if (is_credential(text))
			return err_set(
				err, ERR_INVALID,
				"'mcpServers' %s: the header %.40s would be readable inside: "
				"make a service (cloche service add) and give its address",
				name, text);
	}
	return 0;
}

static int take_local(const char *name, const json_t *from, json_t *server, struct err *err)
{
	json_t *args = json_object_get(from, "args"), *env = json_array(), *arg;
	const json_t *command = json_object_get(from, "command");
	size_t i;

	json_object_set_new(server, "env", env);
	if (!is_text(command) || !*json_string_value(command))
		return err_set(err, ERR_INVALID,
		               "'mcpServers' %s: give 'url' or 'command', a program inside", name);
	json_object_set(server, "command", (json_t *)command);
	json_object_set_new(server, "args", args ? json_deep_copy(args) : json_array());
	if ((args && !json_is_array(args)) || json_array_size(args) > ITEMS_MOST)
		return err_set(err, ERR_INVALID, "'mcpServers' %s: 'args' is a list of texts",
		               name);
	json_array_foreach (args, i, arg) {
		if (!is_text(arg))
			return err_set(err, ERR_INVALID,
			               "'mcpServers' %s: 'args' is a list of texts", name);
	}
	return take_pairs(name, "env", json_object_get(from, "env"), env, err);
}

static int take_server(const char *name, const json_t *from, json_t *list, struct err *err)
{
	static const char *const known[] = {"name",    "type", "url", "headers",
	                                    "command", "args", "env"};
	const char *type = json_string_value(json_object_get(from, "type"));
	json_t *server, *value;
	const char *member;
	size_t i;

	if (!name || !*name || strlen(name) > NAME_MOST || strspn(name, NAME_BYTES) != strlen(name))
		return err_set(err, ERR_INVALID,
		               "'mcpServers': a name is at most %d letters, digits, _ and -",
		               NAME_MOST);
	json_object_foreach ((json_t *)from, member, value) {
		for (i = 0; i < ARRAY_LEN(known) && !str_eq(known[i], member);)
			i++;
		if (i == ARRAY_LEN(known))
			return err_set(err, ERR_INVALID, "'mcpServers' %s: no member '%.40s'", name,
			               member);
	}
	json_array_foreach (list, i, value) {
		if (str_eq(json_string_value(json_object_get(value, "name")), name))
			return err_set(err, ERR_INVALID, "'mcpServers': two are called %s", name);
	}
	server = json_pack("{s:s}", "name", name);
	json_array_append_new(list, server);
	if (type && !str_eq(type, "http") && !str_eq(type, "sse") && !str_eq(type, "stdio"))
		return err_set(err, ERR_INVALID, "'mcpServers' %s: 'type' is http, sse or stdio",
		               name);
	if (json_object_get(from, "url") && !str_eq(type ? type : "", "stdio"))
		return take_remote(name, type ? type : "http", from, server, err);
	return take_local(name, from, server, err);
}

int servers_parse(const json_t *wish, json_t **ret, struct err *err)
{
	json_t *list = json_array(), *server;
	const char *name;
	size_t i;
	int r = 0;

	if ((!json_is_array(wish) && !json_is_object(wish)) ||
	    json_array_size(wish) + json_object_size(wish) > SERVERS_MOST)
		r = err_set(err, ERR_INVALID, "'mcpServers' is at most %d servers by name",
		            SERVERS_MOST);
	for (i = 0; r == 0 && i < json_array_size(wish); i++) {
		server = json_array_get(wish, i);
		r = take_server(json_string_value(json_object_get(server, "name")), server, list,
		                err);
	}
	json_object_foreach ((json_t *)(json_is_object(wish) ? wish : NULL), name, server) {
		if (r == 0)
			r = take_server(name, server, list, err);
	}
	if (r == 0 && ret)
		*ret = list;
	else
		json_decref(list);
	return r;
}

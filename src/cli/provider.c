/* `cloche provider`: add, list, show, set, rm, test. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/verbs.h"

enum { SECRET_MOST = 4096 };

struct wish {
	const char *secret, *visibility, *model, *url;
	struct opt_list models, aliases, prices;
};

static int put_text(json_t *body, const char *key, const char *text, struct err *err)
{
	if (text && json_object_set_new(body, key, json_string(text)) < 0)
		return err_set(err, ERR_INVALID, "%s is not valid UTF-8", key);
	return 0;
}

/* A key on the command line would be everybody's: it comes by standard input. */
static int put_secret(json_t *body, const char *secret, struct err *err)
{
	char text[SECRET_MOST + 2];
	ssize_t len;
	int r;

	if (!secret || !str_eq(secret, "-"))
		return put_text(body, "secret", secret, err);
	len = io_read_full(STDIN_FILENO, text, sizeof(text) - 1);
	if (len < 0)
		return err_sys(err, (int)-len, "read the key from standard input");
	while (len > 0 && (text[len - 1] == '\n' || text[len - 1] == '\r'))
		len--;
	text[len] = '\0';
	r = len == 0 || len > SECRET_MOST
	            ? err_set(err, ERR_INVALID, "standard input has no key, or too long a one")
	            : put_text(body, "secretValue", text, err);
	explicit_bzero(text, sizeof(text));
	return r;
}

static int put_aliases(json_t *body, const struct opt_list *list, struct err *err)
{
	json_t *aliases;

	if (list->count == 0)
		return 0;
	aliases = json_object();
	(void)json_object_set_new(body, "aliases", aliases); /* only fails without memory */
	for (size_t i = 0; i < list->count; i++) {
		const char *text = list->items[i], *equals = strchr(text, '=');
		auto_free char *name = mem_strndup(text, equals ? (size_t)(equals - text) : 0);

		if (!equals || json_object_set_new(aliases, name, json_string(equals + 1)) < 0)
			return err_set(err, ERR_INVALID, "--alias is NAME=MODEL");
	}
	return 0;
}

/* INPUT/OUTPUT[/CACHED]; NULL: it is something else. */
static json_t *read_price(const char *text)
{
	static const char *const keys[] = {"input", "output", "cached"};
	json_t *price = json_object();
	char *end = NULL;

	for (size_t i = 0; i < ARRAY_LEN(keys); i++, text = end + 1) {
		double number = strtod(text, &end);

		if (end == text || (*end != '/' && *end != '\0'))
			break;
		(void)json_object_set_new(price, keys[i], json_real(number));
		if (*end == '\0' && i > 0)
			return price;
		if (*end == '\0')
			break;
	}
	json_decref(price);
	return NULL;
}

static int put_prices(json_t *body, const struct opt_list *list, struct err *err)
{
	json_t *prices;

	if (list->count == 0)
		return 0;
	prices = json_object();
	(void)json_object_set_new(body, "prices", prices); /* only fails without memory */
	for (size_t i = 0; i < list->count; i++) {
		const char *text = list->items[i], *equals = strrchr(text, '=');
		auto_free char *name = mem_strndup(text, equals ? (size_t)(equals - text) : 0);
		json_t *price = equals ? read_price(equals + 1) : NULL;

		if (!price || json_object_set_new(prices, name, price) < 0)
			return err_set(err, ERR_INVALID,
			               "--price is MODEL=INPUT/OUTPUT[/CACHED], dollars for a "
			               "million tokens");
	}
	return 0;
}

static int put_models(json_t *body, const struct opt_list *list, struct err *err)
{
	json_t *models;

	if (list->count == 0)
		return 0;
	models = json_array();
	(void)json_object_set_new(body, "models", models); /* only fails without memory */
	for (size_t i = 0; i < list->count; i++) {
		if (json_array_append_new(models, json_string(list->items[i])) < 0)
			return err_set(err, ERR_INVALID, "--serve: not valid UTF-8");
	}
	return 0;
}

static void print_provider(const struct cli *cli, const json_t *provider)
{
	const char *name;
	size_t index;
	json_t *item;

	if (output_json(cli, provider))
		return;
	output_fact("name", "%s", client_str(provider, "name"));
	output_fact("kind", "%s", client_str(provider, "kind"));
	output_fact("base URL", "%s", client_str(provider, "baseUrl"));
	output_fact("origin", "%s", client_str(provider, "origin"));
	output_fact("key", "%s", client_str(provider, "secret"));
	output_fact("default model", "%s", client_str(provider, "defaultModel"));
	json_array_foreach (json_object_get(provider, "models"), index, item)
		output_fact(index == 0 ? "models" : "", "%s", json_string_value(item));
	json_object_foreach (json_object_get(provider, "aliases"), name, item)
		output_fact("alias", "%s = %s", name, json_string_value(item));
	json_object_foreach (json_object_get(provider, "prices"), name, item)
		output_fact("price", "%s: $%g in, $%g out, $%g cached for a million tokens", name,
		            json_number_value(json_object_get(item, "input")),
		            json_number_value(json_object_get(item, "output")),
		            json_number_value(json_object_get(item, "cached")));
	output_fact("visibility", "%s", client_str(provider, "visibility"));
}

enum { OPTIONS = 6 };

/* What a new one and one that changes can be told. */
static void put_options(struct opt opts[OPTIONS], struct wish *wish)
{
	const struct opt all[OPTIONS] = {
		{"secret", 0, OPT_STR, &wish->secret, "WHERE",
	         "env:CLOCHE_NAME or file:/PATH of the daemon, or - to seal standard input"},
		{"default-model", 0, OPT_STR, &wish->model, "MODEL", "for requests that name none"},
		{"serve", 0, OPT_LIST, &wish->models, "MODEL",
	         "a model it has, NAME-* for all that begin so; without any: every one"},
		{"alias", 0, OPT_LIST, &wish->aliases, "NAME=MODEL", "another name for a model"},
		{"price", 0, OPT_LIST, &wish->prices, "MODEL=IN/OUT[/CACHED]",
	         "dollars for a million tokens; * for the rest"},
		{"visibility", 0, OPT_STR, &wish->visibility, "WHO",
	         "who may use it: private, team, global"},
	};

	memcpy(opts, all, sizeof(all));
}

static void wish_done(struct wish *wish)
{
	opt_list_done(&wish->models);
	opt_list_done(&wish->aliases);
	opt_list_done(&wish->prices);
}

static int send_wish(struct cli *cli, const struct wish *wish, const char *method, char *target,
                     json_t *body)
{
	auto_json json_t *provider = NULL;
	struct err *err = &cli->err;

	if (put_text(body, "baseUrl", wish->url, err) < 0 ||
	    put_text(body, "defaultModel", wish->model, err) < 0 ||
	    put_text(body, "visibility", wish->visibility, err) < 0 ||
	    put_models(body, &wish->models, err) < 0 ||
	    put_aliases(body, &wish->aliases, err) < 0 ||
	    put_prices(body, &wish->prices, err) < 0 || put_secret(body, wish->secret, err) < 0 ||
	    client_json(cli, method, target, body, &provider) < 0)
		return -1;
	print_provider(cli, provider);
	return 0;
}

int cmd_provider_add(struct cli *cli)
{
	struct wish wish = {0};
	struct opt opts[OPTIONS + 1] = {0};
	auto_free char *target = client_target("/providers");
	auto_json json_t *body = json_object();
	int r;

	put_options(opts, &wish);
	r = cli_parse(cli, opts, 3, 3);
	if (r > 0) {
		wish.url = cli->argv[2];
		r = put_text(body, "name", cli->argv[0], &cli->err);
		if (r == 0)
			r = put_text(body, "kind", cli->argv[1], &cli->err);
		if (r == 0)
			r = send_wish(cli, &wish, "POST", target, body);
	}
	wish_done(&wish);
	return r;
}

int cmd_provider_set(struct cli *cli)
{
	struct wish wish = {0};
	struct opt opts[OPTIONS + 2] = {[OPTIONS] = {"url", 0, OPT_STR, &wish.url, "URL",
	                                             "where it is; a sealed key is needed again"}};
	auto_json json_t *body = json_object();
	int r;

	put_options(opts, &wish);
	r = cli_parse(cli, opts, 1, 1);
	if (r > 0) {
		auto_free char *target = client_target("/providers/%s", cli->argv[0]);

		r = send_wish(cli, &wish, "PATCH", target, body);
	}
	wish_done(&wish);
	return r;
}

int cmd_provider_list(struct cli *cli)
{
	static const struct verbs_column columns[] = {{"NAME", "name"},
	                                              {"KIND", "kind"},
	                                              {"BASE URL", "baseUrl"},
	                                              {"KEY", "secret"},
	                                              {"DEFAULT MODEL", "defaultModel"},
	                                              {0}};

	return verbs_list(cli, "providers", false, columns);
}

int cmd_provider_show(struct cli *cli)
{
	return verbs_show(cli, "providers", print_provider);
}

int cmd_provider_rm(struct cli *cli)
{
	return client_remove_each(cli, "providers");
}

int cmd_provider_test(struct cli *cli)
{
	return verbs_test(cli, "providers", "the provider did not accept it");
}

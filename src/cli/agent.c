/* `cloche agent`: keys and signatures of manifests, whom to trust, what a manifest is worth. */
#include <fcntl.h>
#include <jansson.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/words.h"

enum { FILE_MAX = 64 * 1024 };

int cmd_agent_keygen(struct cli *cli)
{
	int r = cli_parse(cli, NULL, 1, 1);

	if (r <= 0)
		return r;
	return cli->roles->become_cloched(
		(const char *const[]){"agent", "keygen", cli->argv[0], NULL}, &cli->err);
}

int cmd_agent_sign(struct cli *cli)
{
	const char *key = NULL;
	const struct opt opts[] = {
		{"key", 'k', OPT_STR, &key, "FILE", "private key of `cloche agent keygen`"},
		{0},
	};
	int r = cli_parse(cli, opts, 1, 1);

	if (r <= 0)
		return r;
	if (key == NULL)
		return err_set(&cli->err, ERR_INVALID, "--key FILE is needed");
	return cli->roles->become_cloched(
		(const char *const[]){"agent", "sign", cli->argv[0], key, NULL}, &cli->err);
}

/* A file's text without the newline at its end. */
static int read_text(const char *path, char **ret, struct err *err)
{
	size_t len;
	int r = io_read_file(AT_FDCWD, path, FILE_MAX, ret, &len);

	return r < 0 ? err_sys(err, -r, "read %s", path) : 0;
}

int cmd_agent_trust(struct cli *cli)
{
	const char *team = NULL;
	const struct opt opts[] = {
		{"team", 0, OPT_STR, &team, "TEAM", "that trusts it (all of them)"},
		{0},
	};
	int r = cli_parse(cli, opts, 2, 2);
	auto_json json_t *body = json_object();
	auto_json json_t *trusted = NULL;
	auto_free char *key = NULL;

	if (r <= 0)
		return r;
	/* The key itself, or the .pub file with it. */
	if (strlen(cli->argv[1]) == 64 && strspn(cli->argv[1], "0123456789abcdef") == 64)
		key = mem_strdup(cli->argv[1]);
	else if (read_text(cli->argv[1], &key, &cli->err) < 0)
		return -1;
	key[strcspn(key, "\n")] = '\0';
	if (words_put(body, "name", cli->argv[0], &cli->err) < 0 ||
	    words_put(body, "publicKey", key, &cli->err) < 0 ||
	    words_put(body, "team", team, &cli->err) < 0 ||
	    client_json(cli, "POST", "/api/v1/trusted-keys", body, &trusted) < 0)
		return -1;
	if (!output_json(cli, trusted))
		output_line(client_str(trusted, "name"));
	return 0;
}

int cmd_agent_distrust(struct cli *cli)
{
	int r = cli_parse(cli, NULL, 1, 1);

	if (r <= 0)
		return r;
	auto_free char *target = client_target("/trusted-keys/%s", cli->argv[0]);

	return client_json(cli, "DELETE", target, NULL, NULL);
}

int cmd_agent_trusted(struct cli *cli)
{
	static const char *const titles[] = {"NAME", "KEY", "TEAM", "ADDED", NULL};
	int r = cli_parse(cli, NULL, 0, 0);
	auto_json json_t *list = NULL;
	struct output_table table;
	size_t index;
	json_t *key;

	if (r <= 0)
		return r;
	if (client_get(cli, "/api/v1/trusted-keys", &list) < 0)
		return -1;
	if (output_json(cli, json_object_get(list, "items")))
		return 0;
	output_table_init(&table, titles);
	json_array_foreach (json_object_get(list, "items"), index, key) {
		output_cell(&table, client_str(key, "name"));
		output_cell(&table, client_str(key, "publicKey"));
		output_cell(&table, *client_str(key, "team") ? client_str(key, "team") : "all");
		output_cell_ago(&table, output_parse_time(client_str(key, "createdAt")));
	}
	output_table_print(&table);
	return 0;
}

static void print_list(const char *name, const json_t *list)
{
	size_t index;
	json_t *item;

	json_array_foreach (list, index, item)
		output_fact(name, "%s", json_is_string(item) ? json_string_value(item) : "");
}

int cmd_agent_verify(struct cli *cli)
{
	static const char *const facts[] = {"name",     "version", "trust",
	                                    "signedBy", "runtime", "refusal"};
	int r = cli_parse(cli, NULL, 1, 1);
	auto_json json_t *body = json_object();
	auto_json json_t *report = NULL;
	auto_free char *manifest = NULL, *signature = NULL;

	if (r <= 0)
		return r;
	auto_free char *signature_path = mem_printf("%s.sig", cli->argv[0]);

	if (read_text(cli->argv[0], &manifest, &cli->err) < 0)
		return -1;
	/* Without one it is unsigned, which is an answer. */
	if (read_text(signature_path, &signature, NULL) < 0)
		signature = NULL;
	if (words_put(body, "manifest", manifest, &cli->err) < 0 ||
	    words_put(body, "signature", signature, &cli->err) < 0 ||
	    client_json(cli, "POST", "/api/v1/agents/verify", body, &report) < 0)
		return -1;
	if (output_json(cli, report))
		return 0;
	for (size_t i = 0; i < ARRAY_LEN(facts); i++)
		output_fact(facts[i], "%s", client_str(report, facts[i]));
	print_list("capability", json_object_get(report, "capabilities"));
	print_list("network", json_object_get(report, "network"));
	print_list("tool", json_object_get(report, "tools"));
	print_list("repository", json_object_get(report, "repositories"));
	return 0;
}

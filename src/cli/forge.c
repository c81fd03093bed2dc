/* `cloche forge`: list, test, seal. */
#include <jansson.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/commands.h"
#include "cli/output.h"

enum { SECRET_MOST = 4096 };

int cmd_forge_list(struct cli *cli)
{
	static const char *const titles[] = {"NAME",       "KIND",    "BASE URL",
	                                     "CREDENTIAL", "DEFAULT", NULL};
	static const char *const keys[] = {"name", "kind", "baseUrl", "credential"};
	const struct opt opts[] = {{0}};
	auto_json json_t *list = NULL;
	auto_free char *target = client_target("/forges");
	struct output_table table;
	size_t index;
	json_t *item;
	int r = cli_parse(cli, opts, 0, 0);

	if (r <= 0)
		return r;
	if (client_get(cli, target, &list) < 0)
		return -1;
	if (output_json(cli, json_object_get(list, "items")))
		return 0;
	output_table_init(&table, titles);
	json_array_foreach (json_object_get(list, "items"), index, item) {
		for (size_t i = 0; i < ARRAY_LEN(keys); i++)
			output_cell(&table, client_str(item, keys[i]));
		output_cell(&table,
		            json_is_true(json_object_get(item, "isDefault")) ? "yes" : "no");
	}
	output_table_print(&table);
	return 0;
}

int cmd_forge_test(struct cli *cli)
{
	const struct opt opts[] = {{0}};
	auto_json json_t *answer = NULL;
	int r = cli_parse(cli, opts, 1, 1);

	if (r <= 0)
		return r;
	auto_free char *target = client_target("/forges/%s/test", cli->argv[0]);

	if (client_json(cli, "POST", target, NULL, &answer) < 0)
		return -1;
	if (!output_json(cli, answer))
		output_fact("status", "%llu", (unsigned long long)client_u64(answer, "status"));
	return client_u64(answer, "status") < 300
	               ? 0
	               : err_set(&cli->err, ERR_PROTOCOL,
	                         "the forge does not accept the credential");
}

/* On the command line it would be everybody's: it comes by standard input. */
int cmd_forge_seal(struct cli *cli)
{
	const struct opt opts[] = {{0}};
	auto_json json_t *body = json_object();
	char text[SECRET_MOST + 2];
	ssize_t len;
	int r = cli_parse(cli, opts, 1, 1);

	if (r <= 0)
		return r;
	auto_free char *target = client_target("/forges/%s/secret", cli->argv[0]);

	len = io_read_full(STDIN_FILENO, text, sizeof(text) - 1);
	if (len < 0)
		return err_sys(&cli->err, (int)-len, "read the credential from standard input");
	while (len > 0 && (text[len - 1] == '\n' || text[len - 1] == '\r'))
		len--;
	r = json_object_set_new(body, "value", json_stringn(text, (size_t)len));
	explicit_bzero(text, sizeof(text));
	if (len == 0 || r < 0)
		return err_set(&cli->err, ERR_INVALID, "standard input has no credential");
	return client_json(cli, "PUT", target, body, NULL);
}

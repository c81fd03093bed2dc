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
#include "cli/verbs.h"

enum { SECRET_MOST = 4096 };

int cmd_forge_list(struct cli *cli)
{
	static const struct verbs_column columns[] = {
		{"NAME", "name"},         {"KIND", "kind"},
		{"BASE URL", "baseUrl"},  {"CREDENTIAL", "credential"},
		{"DEFAULT", "isDefault"}, {0}};

	return verbs_list(cli, "forges", false, columns);
}

int cmd_forge_test(struct cli *cli)
{
	return verbs_test(cli, "forges", "the forge does not accept the credential");
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

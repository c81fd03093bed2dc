/* `cloche sandbox port`: where the API has a port of a sandbox. */
#include <jansson.h>

#include "base/mem.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/commands.h"
#include "cli/output.h"

int cmd_sandbox_port(struct cli *cli)
{
	const struct opt opts[] = {{0}};
	auto_json json_t *sandbox = NULL, *version = NULL, *facts = NULL;
	const char *listen;
	uint64_t port;
	int r = cli_parse(cli, opts, 2, 2);

	if (r <= 0)
		return r;
	if (str_to_u64(cli->argv[1], &port) < 0 || port < 1 || port > UINT16_MAX)
		return err_set(&cli->err, ERR_INVALID, "a port is a number of 1 to 65535");
	auto_free char *target = client_target("/sandboxes/%s", cli->argv[0]);
	auto_free char *about = client_target("/version");

	if (client_get(cli, target, &sandbox) < 0 || client_get(cli, about, &version) < 0)
		return -1;
	auto_free char *path = mem_printf("/api/v1/sandboxes/%s/ports/%u/",
	                                  client_str(sandbox, "id"), (unsigned)port);
	auto_free char *socket = mem_printf("%s/cloche.sock", cli->state_dir);

	listen = client_str(version, "listen");
	facts = json_pack("{s:s, s:s, s:s?}", "path", path, "socket", socket, "listen",
	                  *listen ? listen : NULL);
	if (output_json(cli, facts))
		return 0;
	output_fact("path", "%s", path);
	output_fact("on the socket", "curl --unix-socket %s http://localhost%s", socket, path);
	if (*listen)
		output_fact("on TCP", "curl -H \"Authorization: Bearer $KEY\" http://%s%s", listen,
		            path);
	return 0;
}

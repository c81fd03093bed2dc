#include "cli/agent_build.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"
#include "cli/attach.h"
#include "cli/client.h"
#include "cli/exec.h"
#include "cli/files.h"
#include "cli/term.h"

enum { BUILD_MS = 15 * 60 * 1000, TTL_MS = 20 * 60 * 1000 };

#define LAYER "/workspace/layer"

/* The words come from the daemon, not from a shell's reader. */
static const char script[] =
	"set -eu\n"
	"command -v npm >/dev/null || { echo 'there is no npm in this image' >&2; exit 1; }\n"
	"mkdir -p \"" LAYER "/$1\"\n"
	"cd \"" LAYER "/$1\"\n"
	"shift\n"
	"npm install --prefix . --cache /tmp/npm --no-audit --no-fund --no-save "
	"--no-update-notifier --fetch-retry-mintimeout 1000 --fetch-retry-maxtimeout 5000 "
	"--loglevel=error \"$@\" >&2\n"
	"test -d node_modules/.bin\n";

/* A failure to clean up is told and changes nothing: the sandbox has its time to live. */
static void remove_sandbox(struct cli *cli, const char *id)
{
	auto_free char *target = client_target("/sandboxes/%s?force=true&detach=true", id);
	struct err first = cli->err;

	(void)cli_is_interrupted(cli); /* the signal is taken: cleaning up waits again */
	cli->err = (struct err){0};
	if (client_json(cli, "DELETE", target, NULL, NULL) < 0)
		cli_note("sandbox %s could not be removed: %s", id, cli->err.msg);
	cli->err = first;
}

static int install(struct cli *cli, const char *id, const char *root, const char *packages)
{
	enum { WORDS_MOST = 32 };
	const struct exec_options options = {
		.no_tty = true, .no_input = true, .timeout_ms = BUILD_MS};
	auto_free char *words = mem_strdup(packages);
	char *argv[WORDS_MOST + 1] = {"sh", "-c", (char *)script, "install", (char *)root};
	char *rest = words, *word;
	size_t count = 5;
	int status;

	while ((word = strsep(&rest, " ")) && count < WORDS_MOST) {
		if (*word)
			argv[count++] = word;
	}
	status = exec_stay(cli, id, &options, argv);
	if (status > 0)
		return err_set(
			&cli->err, ERR_INVALID,
			"npm could not install %.80s (status %d), and said why above; a registry "
			"that 'trusted' does not reach needs --network, --allow or "
			"--allow-cidr",
			packages, status);
	return status;
}

/* To a file without a name: an upload can be repeated, a stream cannot. */
static int fetch(struct cli *cli, const char *id, int *ret_fd)
{
	const char *folder = getenv("TMPDIR");
	auto_free char *target = files_target(id, "archive", LAYER, NULL);
	const struct http_request request = {
		.method = "GET", .target = target, .accept = "application/x-tar"};
	auto_close int fd = open(folder && *folder ? folder : "/tmp",
	                         O_TMPFILE | O_RDWR | O_EXCL | O_CLOEXEC, 0600);

	if (fd < 0)
		return err_sys(&cli->err, errno, "make a temporary file");
	if (client_send(cli, &request) < 0 ||
	    http_read_to_fd(&cli->http, fd, NULL, NULL, &cli->err) < 0)
		return -1;
	if (lseek(fd, 0, SEEK_SET) < 0)
		return err_sys(&cli->err, errno, "read a temporary file");
	*ret_fd = take_fd(&fd);
	return 0;
}

static json_t *list_of(const struct opt_list *list)
{
	json_t *items = json_array();

	for (size_t i = 0; i < list->count; i++)
		json_array_append_new(items, json_string(list->items[i]));
	return items;
}

int agent_build(struct cli *cli, const struct agent_build *build, int *ret_fd)
{
	enum cli_output output = cli->output;
	auto_json json_t *body =
		json_pack("{s:s, s:s, s:I, s:{s:s}, s:o, s:o}", "image", "host", "network",
	                  build->network ? build->network : "trusted", "ttl", (json_int_t)TTL_MS,
	                  "labels", "purpose", "agent-install", "allow", list_of(&build->allow),
	                  "allowCidrs", list_of(&build->cidrs));
	auto_json json_t *sandbox = NULL;
	int r;

	if (attach_guard(cli) < 0 ||
	    client_json(cli, "POST", "/api/v1/sandboxes", body, &sandbox) < 0)
		return -1;
	const char *id = client_str(sandbox, "id");

	cli_note("installing %s in sandbox %s", build->packages, id);
	cli->output = CLI_HUMAN; /* what npm says is for people in any case */
	r = install(cli, id, build->root, build->packages);
	cli->output = output;
	if (r == 0)
		r = fetch(cli, id, ret_fd);
	remove_sandbox(cli, id);
	return r;
}

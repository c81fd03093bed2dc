/* `cloche agent list|install|test`: what works on tasks, and bringing it into an image. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"
#include "cli/agent_build.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/commands.h"
#include "cli/files.h"
#include "cli/output.h"
#include "cli/task.h"

/* As task/agent.h has them: where a layer has the agent, and what its image is called. */
#define ROOT  "opt/cloche/agents"
#define IMAGE "agent-"

static const char *installed(const json_t *agent)
{
	const json_t *is = json_object_get(agent, "installed");

	return json_is_true(is) ? "yes" : json_is_false(is) ? "no" : "?";
}

int cmd_agent_list(struct cli *cli)
{
	static const char *const titles[] = {"NAME", "INSTALLED", "IMAGE", "ABOUT", NULL};
	int r = cli_parse(cli, NULL, 0, 0);
	auto_json json_t *list = NULL;
	struct output_table table;
	size_t index;
	json_t *agent;

	if (r <= 0)
		return r;
	if (client_get(cli, "/api/v1/agents", &list) < 0)
		return -1;
	if (output_json(cli, json_object_get(list, "items")))
		return 0;
	output_table_init(&table, titles);
	json_array_foreach (json_object_get(list, "items"), index, agent) {
		output_cell(&table, client_str(agent, "name"));
		output_cell(&table, installed(agent));
		output_cell(&table, client_str(agent, "image"));
		output_cell(&table, client_str(agent, "about"));
	}
	output_table_print(&table);
	return 0;
}

/* --- install --- */

struct upload {
	struct cli *cli;
	uint64_t sent;
	struct term_progress progress;
};

static int send_piece(void *ctx, const void *bytes, size_t len)
{
	struct upload *upload = ctx;

	upload->sent += len;
	term_progress(&upload->progress, upload->sent);
	return http_send(&upload->cli->http, bytes, len, &upload->cli->err) > 0 ? 0 : -EPIPE;
}

/* The folder as a layer, below the place where the agent is looked for. */
static int send_layer(struct upload *upload, int dir_fd, const char *name)
{
	struct cli *cli = upload->cli;
	auto_free char *as = mem_printf(ROOT "/%s", name);
	auto_free char *target = client_target("/images?name=" IMAGE "%s", name);
	struct err pack_err = {0};

	client_query(&target, "format", "host-layer");
	const struct http_request request = {.method = "POST",
	                                     .target = target,
	                                     .content_type = "application/x-tar",
	                                     .has_stream = true,
	                                     .stream_len = UINT64_MAX};

	if (client_connect(cli) < 0 || http_begin(&cli->http, &request, &cli->err) < 0)
		return -1;
	if (cli->roles->pack(dir_fd, ".", as, send_piece, upload, &pack_err) < 0 &&
	    !cli->http.is_cut) {
		http_close(&cli->http);
		if (cli->err.code == ERR_OK)
			cli->err = pack_err;
		return -1;
	}
	if (http_finish(&cli->http, &cli->err) < 0)
		return -1;
	return cli->http.head.status / 100 == 2 ? 0 : client_problem(cli);
}

/* The layer as it came out of a sandbox. */
static int send_tar(struct upload *upload, int fd, const char *name)
{
	struct files_source source = {.fd = fd, .progress = upload->progress};
	auto_free char *target = client_target("/images?name=" IMAGE "%s", name);

	client_query(&target, "format", "host-layer");
	const struct http_request request = {.method = "POST",
	                                     .target = target,
	                                     .content_type = "application/x-tar",
	                                     .has_stream = true,
	                                     .stream_len = UINT64_MAX};

	return client_upload(upload->cli, &request, files_read_source, &source);
}

static const json_t *find(const json_t *list, const char *name)
{
	json_t *agent;
	size_t index;

	json_array_foreach (json_object_get(list, "items"), index, agent) {
		if (str_eq(client_str(agent, "name"), name))
			return agent;
	}
	return NULL;
}

/* Whether there is something to install: *ret are its packages, NULL when a folder is given. */
static int check(struct cli *cli, const char *name, const char *from, char **ret)
{
	auto_json json_t *list = NULL;
	const json_t *agent;
	const char *packages;

	if (client_get(cli, "/api/v1/agents", &list) < 0)
		return -1;
	agent = find(list, name);
	if (!agent)
		return err_set(&cli->err, ERR_NOT_FOUND, "no agent '%.63s'", name);
	if (json_is_true(json_object_get(agent, "installed")) && !*client_str(agent, "image"))
		return err_set(&cli->err, ERR_INVALID, "'%s' comes with Cloche", name);
	packages = client_str(agent, "packages");
	if (!from && !*packages)
		return err_set(&cli->err, ERR_INVALID,
		               "'%s' is of config.toml: give its npm install with --from DIR",
		               name);
	*ret = from ? NULL : mem_strdup(packages);
	return 0;
}

/* The layer of before goes: sandboxes that still stand on it are in the way, and say so. */
static int remove_before(struct cli *cli, const char *name)
{
	auto_free char *target = client_target("/images/" IMAGE "%s", name);
	int r = client_json(cli, "DELETE", target, NULL, NULL);

	if (r < 0 && cli->err.code == ERR_NOT_FOUND) {
		cli->err = (struct err){0};
		return 0;
	}
	return r;
}

static int open_folder(struct cli *cli, const char *from, int *ret)
{
	auto_close int dir = open(from, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct stat st;

	if (dir < 0)
		return err_sys(&cli->err, errno, "open %s", from);
	if (faccessat(dir, "node_modules/.bin", X_OK, 0) < 0)
		return err_set(&cli->err, ERR_INVALID, "%s has no node_modules/.bin", from);
	/* The layer would have the link, and it leads nowhere in a sandbox. */
	if (fstatat(dir, "node_modules", &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(st.st_mode))
		return err_set(&cli->err, ERR_INVALID,
		               "%s/node_modules is a link: give the folder that it leads to", from);
	*ret = take_fd(&dir);
	return 0;
}

static void build_done(struct agent_build *build)
{
	opt_list_done(&build->allow);
	opt_list_done(&build->cidrs);
}

int cmd_agent_install(struct cli *cli)
{
	auto_(build_done) struct agent_build build = {0};
	const char *from = NULL;
	const struct opt opts[] = {
		{"from", 0, OPT_STR, &from, "DIR",
	         "folder of an npm install that has it (npm runs in a sandbox)"},
		{"network", 'n', OPT_STR, &build.network, "ENV", "of that sandbox (trusted)"},
		{"allow", 'a', OPT_LIST, &build.allow, "DOMAIN[:PORT]",
	         "that it may reach, too; may repeat"},
		{"allow-cidr", 0, OPT_LIST, &build.cidrs, "RANGE",
	         "addresses that it may reach, too; may repeat"},
		{0},
	};
	struct upload upload = {.cli = cli, .progress = {.what = "sent", .total = UINT64_MAX}};
	int r = cli_parse(cli, opts, 1, 1);
	auto_json json_t *image = NULL;
	auto_free char *packages = NULL;
	auto_close int fd = -1;

	if (r <= 0)
		return r;
	const char *name = cli->argv[0];
	auto_free char *root = mem_printf(ROOT "/%s", name);

	if (check(cli, name, from, &packages) < 0)
		return -1;
	build.root = root;
	build.packages = packages;
	if ((from ? open_folder(cli, from, &fd) : agent_build(cli, &build, &fd)) < 0 ||
	    remove_before(cli, name) < 0)
		return -1;
	r = from ? send_layer(&upload, fd, name) : send_tar(&upload, fd, name);
	term_progress_done(&upload.progress);
	if (r < 0 || client_read_json(cli, &image) < 0)
		return -1;
	if (!output_json(cli, image))
		output_line(client_str(image, "name"));
	return 0;
}

/* --- test --- */

int cmd_agent_test(struct cli *cli)
{
	const char *model = NULL;
	const struct opt opts[] = {
		{"model", 0, OPT_STR, &model, "NAME", "to ask (the provider's default)"},
		{0},
	};
	int r = cli_parse(cli, opts, 1, 1);
	auto_json json_t *body = json_object();
	auto_json json_t *answer = NULL;

	if (r <= 0)
		return r;
	json_object_set_new(body, "agent", json_string(cli->argv[0]));
	json_object_set_new(body, "instruction",
	                    json_string(str_eq(cli->argv[0], "shell")
	                                        ? "echo ready"
	                                        : "Answer with the one word: ready"));
	json_object_set_new(body, "originProduct", json_string("cli"));
	if (model)
		json_object_set_new(body, "model", json_string(model));
	if (client_json(cli, "POST", "/api/v1/tasks/run", body, &answer) < 0)
		return -1;
	const char *id = client_str(json_object_get(answer, "task"), "id");

	return task_follow(cli, id, 0) < 0 ? -1 : task_show_end(cli, id);
}

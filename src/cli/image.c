/* `cloche image`: import, list, info, rm. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/commands.h"
#include "cli/files.h"
#include "cli/output.h"

struct import {
	struct cli *cli;
	const char *source;
	const char *format;
	uint64_t sent;
	struct term_progress progress;
};

static int send_piece(void *ctx, const void *bytes, size_t len)
{
	struct import *import = ctx;

	import->sent += len;
	term_progress(&import->progress, import->sent);
	return http_send(&import->cli->http, bytes, len, &import->cli->err) > 0 ? 0 : -EPIPE;
}

/* An OCI layout is a folder; it travels as tar. */
static int send_folder(struct import *import, int fd, const struct http_request *request)
{
	struct cli *cli = import->cli;
	struct err pack_err = {0};

	if (client_connect(cli) < 0 || http_begin(&cli->http, request, &cli->err) < 0)
		return -1;
	int r = cli->roles->pack(fd, ".", "", send_piece, import, &pack_err);

	if (r < 0 && !cli->http.is_cut) {
		http_close(&cli->http);
		if (cli->err.code == ERR_OK)
			cli->err = pack_err;
		return -1;
	}
	if (http_finish(&cli->http, &cli->err) < 0)
		return -1;
	return cli->http.head.status / 100 == 2 ? 0 : client_problem(cli);
}

static int send_archive(struct import *import, int fd, uint64_t size, struct http_request *request)
{
	struct files_source source = {.fd = fd, .progress = {.what = "sent", .total = size}};

	request->stream_len = size;
	int r = client_upload(import->cli, request, files_read_source, &source);

	term_progress_done(&source.progress);
	return r;
}

static int import_image(struct import *import, const char *name)
{
	struct cli *cli = import->cli;
	bool is_stdin = str_eq(import->source, "-");
	auto_close int opened = is_stdin ? -1 : open(import->source, O_RDONLY | O_CLOEXEC);
	int fd = is_stdin ? STDIN_FILENO : opened;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_sys(&cli->err, errno, "open %s", import->source);
	bool is_folder = S_ISDIR(st.st_mode);
	auto_free char *target = client_target("/images?name=%s", name);

	client_query(&target, "format",
	             import->format == NULL && is_folder ? "oci-layout" : import->format);
	struct http_request request = {
		.method = "POST",
		.target = target,
		.content_type = is_folder ? "application/x-tar" : "application/octet-stream",
		.has_stream = true,
		.stream_len = UINT64_MAX,
	};

	if (is_folder)
		return send_folder(import, fd, &request);
	bool has_size = S_ISREG(st.st_mode) && lseek(fd, 0, SEEK_CUR) == 0;

	return send_archive(import, fd, has_size ? (uint64_t)st.st_size : UINT64_MAX, &request);
}

int cmd_image_import(struct cli *cli)
{
	struct import import = {.cli = cli, .progress = {.what = "sent", .total = UINT64_MAX}};
	const struct opt opts[] = {
		{"format", 'f', OPT_STR, &import.format, "KIND",
	         "tar, oci-layout or docker-archive (looks by itself)"},
		{0},
	};
	int r = cli_parse(cli, opts, 2, 2);
	auto_json json_t *image = NULL;

	if (r <= 0)
		return r;
	import.source = cli->argv[1];
	r = import_image(&import, cli->argv[0]);
	term_progress_done(&import.progress);
	if (r < 0 || client_read_json(cli, &image) < 0)
		return -1;
	if (!output_json(cli, image))
		output_line(client_str(image, "name"));
	return 0;
}

int cmd_image_list(struct cli *cli)
{
	static const char *const titles[] = {"NAME", "FORMAT", "SIZE", "FILES", "CREATED", NULL};
	int r = cli_parse(cli, NULL, 0, 0);
	struct output_table table;
	auto_json json_t *page = NULL;
	size_t index;
	json_t *image;

	if (r <= 0)
		return r;
	if (client_get(cli, "/api/v1/images?limit=1000", &page) < 0)
		return -1;
	const json_t *items = json_object_get(page, "items");

	if (output_json(cli, items))
		return 0;
	output_table_init(&table, titles);
	json_array_foreach (items, index, image) {
		auto_free char *entries =
			mem_printf("%llu", (unsigned long long)client_u64(image, "entries"));

		output_cell(&table, client_str(image, "name"));
		output_cell(&table, client_str(image, "format"));
		output_cell_bytes(&table, client_u64(image, "bytes"));
		output_cell(&table, entries);
		output_cell_ago(&table, output_parse_time(client_str(image, "createdAt")));
	}
	output_table_print(&table);
	return 0;
}

int cmd_image_info(struct cli *cli)
{
	static const char *const facts[] = {"name", "id", "format", "createdAt"};
	int r = cli_parse(cli, NULL, 1, 1);
	auto_json json_t *image = NULL;
	char size[32];
	size_t index;
	json_t *layer;

	if (r <= 0)
		return r;
	auto_free char *target = client_target("/images/%s", cli->argv[0]);

	if (client_get(cli, target, &image) < 0)
		return -1;
	if (output_json(cli, image))
		return 0;
	for (size_t i = 0; i < ARRAY_LEN(facts); i++)
		output_fact(facts[i], "%s", client_str(image, facts[i]));
	str_format_bytes(size, sizeof(size), client_u64(image, "bytes"));
	output_fact("size", "%s in %llu files", size,
	            (unsigned long long)client_u64(image, "entries"));
	json_array_foreach (json_object_get(image, "layers"), index, layer) {
		output_fact("layer", "%s",
		            json_string_value(layer) == NULL ? "" : json_string_value(layer));
	}
	return 0;
}

int cmd_image_rm(struct cli *cli)
{
	return client_remove_each(cli, "images");
}

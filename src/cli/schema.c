/* `cloche schema check`: JSON Schema without a daemon, for people and for test suites. */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <jansson.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/client.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "model/jsonschema.h"

enum { FILE_MOST = 64 * 1024 * 1024, EXIT_INVALID = 1, EXIT_UNUSABLE = 2 };

static int read_text(const char *path, char **ret, size_t *ret_len, struct err *err)
{
	struct buf text;
	ssize_t r;

	if (!str_eq(path, "-")) {
		r = io_read_file(AT_FDCWD, path, FILE_MOST, ret, ret_len);
		return r < 0 ? err_sys(err, (int)-r, "read %s", path) : 0;
	}
	buf_init(&text, FILE_MOST);
	while ((r = buf_read_fd(&text, STDIN_FILENO, 64 * 1024)) > 0)
		;
	*ret_len = buf_len(&text);
	*ret = buf_take_string(&text);
	buf_done(&text);
	return r < 0 ? err_sys(err, (int)-r, "read standard input") : 0;
}

static json_t *report_json(const struct jsonschema_report *report)
{
	json_t *errors = json_array();

	for (size_t i = 0; i < report->count; i++) {
		const struct jsonschema_error *at = &report->errors[i];

		json_array_append_new(errors,
		                      json_pack("{s:s, s:s, s:s}", "instance", at->instance_path,
		                                "schema", at->schema_path, "reason", at->reason));
	}
	return json_pack("{s:b, s:b, s:o}", "valid", report->is_valid, "truncated", report->is_cut,
	                 "errors", errors);
}

static int show(struct cli *cli, const struct jsonschema_report *report)
{
	auto_json json_t *json = report_json(report);
	char text[2 * JSONSCHEMA_PATH + 256], shown[sizeof(text)];

	if (output_json(cli, json))
		return report->is_valid ? 0 : EXIT_INVALID;
	if (report->is_valid)
		output_line("valid");
	for (size_t i = 0; i < report->count; i++) {
		jsonschema_error_text(&report->errors[i], text, sizeof(text));
		str_escape(shown, sizeof(shown), text, strlen(text));
		output_line(shown);
	}
	if (report->is_cut)
		cli_note("there may be more");
	return report->is_valid ? 0 : EXIT_INVALID;
}

static int check(struct cli *cli, const struct jsonschema_options *options)
{
	auto_(jsonschema_freep) struct jsonschema *schema = NULL;
	auto_free struct jsonschema_report *report = mem_new(struct jsonschema_report);
	auto_free char *text = NULL;
	auto_free char *instance = NULL;
	size_t len = 0;

	report->is_valid = true;
	if (read_text(cli->argv[0], &text, &len, &cli->err) < 0)
		return -1;
	if (jsonschema_compile(text, len, options, &schema, &cli->err) < 0)
		return err_wrap(&cli->err, "%s", cli->argv[0]);
	if (cli->argc > 1) {
		if (read_text(cli->argv[1], &instance, &len, &cli->err) < 0)
			return -1;
		if (jsonschema_validate(schema, instance, len, report, &cli->err) < 0)
			return err_wrap(&cli->err, "%s", cli->argv[1]);
	}
	return show(cli, report);
}

int cmd_schema_check(struct cli *cli)
{
	struct jsonschema_options options = {0};
	const char *draft = NULL;
	const struct opt opts[] = {
		{"draft", 0, OPT_STR, &draft, "NAME",
	         "2020-12 or 7, where $schema does not say (2020-12)"},
		{0},
	};
	int r = cli_parse(cli, opts, 1, 2);

	if (r <= 0)
		return r;
	if (draft && str_eq(draft, "7"))
		options.draft = JSONSCHEMA_DRAFT7;
	else if (draft && !str_eq(draft, "2020-12"))
		r = err_set(&cli->err, ERR_INVALID, "--draft is 2020-12 or 7");
	if (r > 0)
		r = check(cli, &options);
	if (r >= 0)
		return r;
	cli_report(cli, &cli->err);
	return EXIT_UNUSABLE;
}

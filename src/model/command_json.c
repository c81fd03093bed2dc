#include "model/command_json.h"

#include <math.h>

#include "base/str.h"

static int full(struct err *err)
{
	return err_set(err, ERR_CONFIG, "the schema is too long");
}

static int put_text(struct buf *buf, const char *text, size_t len, struct err *err)
{
	int r = buf_puts(buf, "\"");

	for (size_t i = 0; i < len && r == 0; i++) {
		unsigned char c = (unsigned char)text[i];

		if (c == '"' || c == '\\')
			r = buf_printf(buf, "\\%c", c);
		else if (c < 0x20 || c == 0x7f)
			r = buf_printf(buf, "\\u%04x", c);
		else
			r = buf_put(buf, &c, 1);
	}
	if (r == 0)
		r = buf_puts(buf, "\"");
	return r < 0 ? full(err) : 0;
}

/* NOLINTNEXTLINE(misc-no-recursion): as deep as the reader of TOML allows */
static int put_list(struct buf *buf, const struct toml *node, struct err *err)
{
	bool is_table = node->kind == TOML_TABLE;

	if (buf_puts(buf, is_table ? "{" : "[") < 0)
		return full(err);
	for (const struct toml *at = node->child; at; at = at->next) {
		if (at != node->child && buf_puts(buf, ",") < 0)
			return full(err);
		if (is_table &&
		    (put_text(buf, at->key, strlen(at->key), err) < 0 || buf_puts(buf, ":") < 0))
			return full(err);
		if (command_put_json(buf, at, err) < 0)
			return -1;
	}
	return buf_puts(buf, is_table ? "}" : "]") < 0 ? full(err) : 0;
}

/* NOLINTNEXTLINE(misc-no-recursion): see put_list */
int command_put_json(struct buf *buf, const struct toml *node, struct err *err)
{
	int r = 0;

	switch (node->kind) {
	case TOML_STRING:
		return put_text(buf, node->str, node->str_len, err);
	case TOML_INT:
		r = buf_printf(buf, "%lld", (long long)node->num);
		break;
	case TOML_FLOAT:
		if (!isfinite(node->real))
			return err_set(err, ERR_CONFIG, "'%s' is no number of JSON",
			               node->key ? node->key : "");
		r = buf_printf(buf, "%.17g", node->real);
		break;
	case TOML_BOOL:
		r = buf_puts(buf, node->num ? "true" : "false");
		break;
	case TOML_DATETIME:
		return err_set(err, ERR_CONFIG, "line %d: a date is not JSON: write it as a string",
		               node->line);
	case TOML_ARRAY:
	case TOML_TABLE:
		return put_list(buf, node, err);
	}
	return r < 0 ? full(err) : 0;
}

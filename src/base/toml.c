/*
 * Statements and the tree. A table remembers how it came to be, because TOML says how it may
 * still grow: one named in a header only once, one made by dotted keys not by a header, one
 * written inline never again. Depth is counted at the one place where nodes are made.
 */
#include "base/toml.h"

#include "base/buf.h"
#include "base/mem.h"
#include "base/must.h"
#include "base/str.h"
#include "base/toml_scan.h"

enum { DEPTH_MAX = 32, KEYS_MAX = 4096, KEY_PARTS_MAX = 32 };

enum table_flags {
	MADE_BY_HEADER = 1 << 0, /* [name] was seen */
	MADE_BY_DOTS = 1 << 1,   /* name.other = … was seen */
	CLOSED = 1 << 2,         /* inline table or array: complete */
	ARRAY_OF_TABLES = 1 << 3,
};

struct key {
	char *parts[KEY_PARTS_MAX];
	size_t count;
	int line;
};

static const char *last_part(const struct key *key)
{
	must(key->count > 0 && key->parts[key->count - 1]);
	return key->parts[key->count - 1];
}

static void key_done(struct key *key)
{
	for (size_t i = 0; i < key->count; i++)
		free(key->parts[i]);
	key->count = 0;
}

const char *toml_kind_name(enum toml_kind kind)
{
	static const char *const names[] = {
		[TOML_STRING] = "a string", [TOML_INT] = "an integer",
		[TOML_FLOAT] = "a number",  [TOML_BOOL] = "true or false",
		[TOML_DATETIME] = "a date", [TOML_ARRAY] = "a list",
		[TOML_TABLE] = "a table",
	};
	return names[kind];
}

void toml_free(struct toml *root)
{
	while (root) {
		struct toml *node = root;
		if (node->child) {
			node->last->next = node->next;
			node->next = node->child;
		}
		root = node->next;
		free(node->key);
		free(node->str);
		free(node);
	}
}

void toml_freep(struct toml **root)
{
	toml_free(*root);
	*root = NULL;
}

static struct toml *find(const struct toml *table, const char *key)
{
	struct toml *node = table->child;
	while (node && (!node->key || !str_eq(node->key, key)))
		node = node->next;
	return node;
}

const struct toml *toml_get(const struct toml *table, const char *key)
{
	return table->kind == TOML_TABLE ? find(table, key) : NULL;
}

/* A new last child; key may be NULL (in arrays). */
static struct toml *add_child(struct toml_scan *scan, struct toml *parent, const char *key)
{
	if (parent->depth + 1 > DEPTH_MAX) {
		(void)toml_scan_fail(scan, "nested deeper than %d levels", DEPTH_MAX);
		return NULL;
	}
	if (key && parent->count >= KEYS_MAX) {
		(void)toml_scan_fail(scan, "more than %d keys in one table", KEYS_MAX);
		return NULL;
	}
	struct toml *node = mem_new(struct toml);
	node->line = scan->line;
	node->depth = parent->depth + 1;
	node->key = key ? mem_strdup(key) : NULL;
	if (parent->last)
		parent->last->next = node;
	else
		parent->child = node;
	parent->last = node;
	parent->count++;
	return node;
}

static struct toml *add_table(struct toml_scan *scan, struct toml *parent, const char *key,
                              uint32_t flags)
{
	struct toml *node = add_child(scan, parent, key);
	if (node) {
		node->kind = TOML_TABLE;
		node->flags = flags;
	}
	return node;
}

/* --- keys --- */

static bool is_bare(int c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '_' || c == '-';
}

static int parse_key_part(struct toml_scan *scan, struct key *key)
{
	int c = toml_scan_peek(scan, 0);
	if (key->count == KEY_PARTS_MAX)
		return toml_scan_fail(scan, "key has more than %d parts", KEY_PARTS_MAX);
	if (c == '"' || c == '\'') {
		struct buf text;
		buf_init(&text, (size_t)(scan->end - scan->at));
		int r = toml_scan_string(scan, false, &text);
		if (r == 0 && buf_len(&text) > 0 && memchr(buf_head(&text), '\0', buf_len(&text)))
			r = toml_scan_fail(scan, "key with a NUL in it");
		if (r == 0)
			key->parts[key->count++] = buf_take_string(&text);
		buf_done(&text);
		return r;
	}
	size_t len = 0;
	while (is_bare(toml_scan_peek(scan, len)))
		len++;
	if (len == 0)
		return toml_scan_fail(scan, "a key is missing");
	key->parts[key->count++] = mem_strndup(scan->at, len);
	scan->at += len;
	return 0;
}

static int parse_key(struct toml_scan *scan, struct key *ret)
{
	*ret = (struct key){.line = scan->line};
	do {
		toml_scan_blanks(scan);
		if (parse_key_part(scan, ret) < 0)
			return -1;
		toml_scan_blanks(scan);
	} while (toml_scan_take(scan, "."));
	return 0;
}

static int refuse(struct toml_scan *scan, const struct key *key, size_t at, const char *why)
{
	char name[120] = "";
	size_t used = 0;
	for (size_t i = 0; i <= at && used < sizeof(name) - 1; i++) {
		if (i > 0)
			name[used++] = '.';
		str_escape(name + used, sizeof(name) - used, key->parts[i], strlen(key->parts[i]));
		used = strlen(name);
	}
	scan->line = key->line;
	return toml_scan_fail(scan, "'%s' %s", name, why);
}

/* --- values --- */

static int parse_value(struct toml_scan *scan, struct toml *node);
static int parse_assignment(struct toml_scan *scan, struct toml *table);

/* NOLINTNEXTLINE(misc-no-recursion): bounded by DEPTH_MAX in add_child */
static int parse_array(struct toml_scan *scan, struct toml *array)
{
	array->kind = TOML_ARRAY;
	array->flags = CLOSED;
	for (;;) {
		if (toml_scan_lines(scan) < 0)
			return -1;
		if (toml_scan_take(scan, "]"))
			return 0;
		struct toml *item = add_child(scan, array, NULL);
		if (!item || parse_value(scan, item) < 0 || toml_scan_lines(scan) < 0)
			return -1;
		if (toml_scan_take(scan, "]"))
			return 0;
		if (!toml_scan_take(scan, ","))
			return toml_scan_fail(scan, "expected ',' or ']' in a list");
	}
}

/* NOLINTNEXTLINE(misc-no-recursion): bounded by DEPTH_MAX in add_child */
static int parse_inline_table(struct toml_scan *scan, struct toml *table)
{
	table->kind = TOML_TABLE;
	toml_scan_blanks(scan);
	bool empty = toml_scan_take(scan, "}");
	while (!empty) {
		if (parse_assignment(scan, table) < 0)
			return -1;
		toml_scan_blanks(scan);
		if (toml_scan_take(scan, "}"))
			break;
		if (!toml_scan_take(scan, ","))
			return toml_scan_fail(scan, "expected ',' or '}' in an inline table");
	}
	table->flags = CLOSED;
	return 0;
}

/* NOLINTNEXTLINE(misc-no-recursion): bounded by DEPTH_MAX in add_child */
static int parse_value(struct toml_scan *scan, struct toml *node)
{
	int c = toml_scan_peek(scan, 0);
	node->line = scan->line;
	if (toml_scan_take(scan, "["))
		return parse_array(scan, node);
	if (toml_scan_take(scan, "{"))
		return parse_inline_table(scan, node);
	if (c != '"' && c != '\'')
		return toml_scan_plain(scan, node);
	struct buf text;
	buf_init(&text, (size_t)(scan->end - scan->at));
	int r = toml_scan_string(scan, true, &text);
	if (r == 0) {
		node->kind = TOML_STRING;
		node->str_len = buf_len(&text);
		node->str = buf_take_string(&text);
	}
	buf_done(&text);
	return r;
}

/* The table that a dotted key's last part goes into. */
static struct toml *walk_dots(struct toml_scan *scan, struct toml *table, const struct key *key)
{
	for (size_t i = 0; i + 1 < key->count; i++) {
		struct toml *next = find(table, key->parts[i]);
		if (!next)
			next = add_table(scan, table, key->parts[i], MADE_BY_DOTS);
		if (!next)
			return NULL;
		if (next->kind != TOML_TABLE || (next->flags & (CLOSED | MADE_BY_HEADER))) {
			(void)refuse(scan, key, i, "was defined before and cannot be added to");
			return NULL;
		}
		next->flags |= MADE_BY_DOTS;
		table = next;
	}
	return table;
}

/* NOLINTNEXTLINE(misc-no-recursion): bounded by DEPTH_MAX in add_child */
static int assign(struct toml_scan *scan, struct toml *table, const struct key *key)
{
	const char *last = last_part(key);
	if (!toml_scan_take(scan, "="))
		return toml_scan_fail(scan, "expected '=' after a key");
	toml_scan_blanks(scan);
	table = walk_dots(scan, table, key);
	if (!table)
		return -1;
	if (find(table, last))
		return refuse(scan, key, key->count - 1, "is defined twice");
	struct toml *node = add_child(scan, table, last);
	return node ? parse_value(scan, node) : -1;
}

/* NOLINTNEXTLINE(misc-no-recursion): bounded by DEPTH_MAX in add_child */
static int parse_assignment(struct toml_scan *scan, struct toml *table)
{
	auto_(key_done) struct key key = {0};
	if (parse_key(scan, &key) < 0)
		return -1;
	return assign(scan, table, &key);
}

/* --- headers --- */

/* The table a header's last part belongs to; the newest element of an array of tables counts. */
static struct toml *walk_header(struct toml_scan *scan, struct toml *table, const struct key *key)
{
	for (size_t i = 0; i + 1 < key->count; i++) {
		struct toml *next = find(table, key->parts[i]);
		if (!next)
			next = add_table(scan, table, key->parts[i], 0);
		if (!next)
			return NULL;
		if (next->flags & ARRAY_OF_TABLES)
			next = next->last;
		if (next->kind != TOML_TABLE || (next->flags & CLOSED)) {
			(void)refuse(scan, key, i, "was defined before and cannot be added to");
			return NULL;
		}
		table = next;
	}
	return table;
}

static struct toml *enter_table(struct toml_scan *scan, struct toml *parent, const struct key *key)
{
	const char *last = last_part(key);
	struct toml *table = find(parent, last);
	if (!table)
		return add_table(scan, parent, last, MADE_BY_HEADER);
	if (table->kind != TOML_TABLE || table->flags) {
		(void)refuse(scan, key, key->count - 1, "is defined twice");
		return NULL;
	}
	table->flags |= MADE_BY_HEADER;
	table->line = key->line;
	return table;
}

static struct toml *enter_array(struct toml_scan *scan, struct toml *parent, const struct key *key)
{
	const char *last = last_part(key);
	struct toml *array = find(parent, last);
	if (!array) {
		array = add_child(scan, parent, last);
		if (!array)
			return NULL;
		array->kind = TOML_ARRAY;
		array->flags = ARRAY_OF_TABLES;
	}
	if (!(array->flags & ARRAY_OF_TABLES)) {
		(void)refuse(scan, key, key->count - 1, "is not a list of tables");
		return NULL;
	}
	return add_table(scan, array, NULL, MADE_BY_HEADER);
}

static struct toml *parse_header(struct toml_scan *scan, struct toml *root)
{
	auto_(key_done) struct key key = {0};
	bool array = toml_scan_take(scan, "[[");
	if (!array)
		scan->at++;
	if (parse_key(scan, &key) < 0)
		return NULL;
	if (!toml_scan_take(scan, array ? "]]" : "]")) {
		(void)toml_scan_fail(scan, "expected '%s' after a table's name",
		                     array ? "]]" : "]");
		return NULL;
	}
	struct toml *parent = walk_header(scan, root, &key);
	if (!parent)
		return NULL;
	return array ? enter_array(scan, parent, &key) : enter_table(scan, parent, &key);
}

static int parse_document(struct toml_scan *scan, struct toml *root)
{
	struct toml *table = root;
	for (;;) {
		if (toml_scan_lines(scan) < 0)
			return -1;
		if (scan->at == scan->end)
			return 0;
		if (toml_scan_peek(scan, 0) == '[') {
			table = parse_header(scan, root);
			if (!table)
				return -1;
		} else if (parse_assignment(scan, table) < 0) {
			return -1;
		}
		if (toml_scan_line_end(scan) < 0)
			return -1;
	}
}

/* Says which line; the rest of the reader then never meets a broken sequence. */
static int check_encoding(struct toml_scan *scan)
{
	if (str_is_utf8(scan->at, (size_t)(scan->end - scan->at)))
		return 0;
	for (const char *s = scan->at; s < scan->end; scan->line++) {
		const char *newline = memchr(s, '\n', (size_t)(scan->end - s));
		const char *stop = newline ? newline + 1 : scan->end;
		if (!str_is_utf8(s, (size_t)(stop - s)))
			break;
		s = stop;
	}
	return toml_scan_fail(scan, "not valid UTF-8");
}

int toml_parse(const char *name, const char *text, size_t len, struct toml **ret, struct err *err)
{
	struct toml_scan scan = {
		.name = name,
		.at = text,
		.end = text + len,
		.line = 1,
		.err = err,
	};
	if (check_encoding(&scan) < 0)
		return -1;
	(void)toml_scan_take(&scan, "\xef\xbb\xbf"); /* a byte order mark may come first */
	auto_(toml_freep) struct toml *root = mem_new(struct toml);
	root->kind = TOML_TABLE;
	root->line = 1;
	if (parse_document(&scan, root) < 0)
		return -1;
	*ret = take_ptr(root);
	return 0;
}

/*
 * One pass of recursive descent. Children are gathered on a stack shared by all depths and copied
 * to the arena when their parent ends, so no vector grows inside the tree.
 */
#include "model/jsonvalue.h"

#include "base/mem.h"
#include "base/str.h"

enum { CHUNK_BYTES = 16 * 1024 };

struct jsonchunk {
	struct jsonchunk *next;
	size_t used, size;
	_Alignas(16) char bytes[];
};

struct parser {
	const char *text;
	size_t len, at;
	int depth;
	struct jsonchunk *chunks;
	struct jsonmember *stack;
	size_t stack_count, stack_size;
	struct err *err;
};

static void *take(struct parser *parser, size_t size)
{
	struct jsonchunk *chunk = parser->chunks;
	void *bytes;

	size = (size + 15) & ~(size_t)15;
	if (!chunk || chunk->size - chunk->used < size) {
		size_t room = MAX(size, (size_t)CHUNK_BYTES);

		chunk = mem_zalloc(sizeof(*chunk) + room);
		chunk->size = room;
		chunk->next = parser->chunks;
		parser->chunks = chunk;
	}
	bytes = chunk->bytes + chunk->used;
	chunk->used += size;
	return bytes;
}

static void free_chunks(struct jsonchunk *chunk)
{
	while (chunk) {
		struct jsonchunk *next = chunk->next;

		free(chunk);
		chunk = next;
	}
}

static int fail(struct parser *parser, const char *what)
{
	size_t line = 1, column = 1;

	for (size_t i = 0; i < MIN(parser->at, parser->len); i++) {
		column++;
		if (parser->text[i] == '\n') {
			line++;
			column = 1;
		}
	}
	return err_set(parser->err, ERR_INVALID, "no JSON: %s at line %zu, column %zu", what, line,
	               column);
}

static char peek(const struct parser *parser)
{
	return parser->at < parser->len ? parser->text[parser->at] : '\0';
}

static void skip_blanks(struct parser *parser)
{
	while (parser->at < parser->len && strchr(" \t\r\n", parser->text[parser->at]) &&
	       parser->text[parser->at])
		parser->at++;
}

static int expect_word(struct parser *parser, const char *word)
{
	size_t len = strlen(word);

	if (parser->len - parser->at < len || memcmp(parser->text + parser->at, word, len) != 0)
		return fail(parser, "an unknown word");
	parser->at += len;
	return 0;
}

/* --- numbers --- */

static size_t skip_digits(struct parser *parser)
{
	size_t start = parser->at;

	while (peek(parser) >= '0' && peek(parser) <= '9')
		parser->at++;
	return parser->at - start;
}

static int parse_number(struct parser *parser, struct jsonvalue *ret)
{
	size_t start = parser->at;
	size_t len;

	if (peek(parser) == '-')
		parser->at++;
	if (peek(parser) == '0')
		parser->at++;
	else if (skip_digits(parser) == 0)
		return fail(parser, "a value is missing");
	if (peek(parser) == '.') {
		parser->at++;
		if (skip_digits(parser) == 0)
			return fail(parser, "a number without digits behind its point");
	}
	if (peek(parser) == 'e' || peek(parser) == 'E') {
		parser->at++;
		if (peek(parser) == '+' || peek(parser) == '-')
			parser->at++;
		if (skip_digits(parser) == 0)
			return fail(parser, "a number without digits in its exponent");
	}
	len = parser->at - start;
	ret->type = JSONVALUE_NUMBER;
	if (decimal_parse(parser->text + start, len, take(parser, len), &ret->number) < 0)
		return fail(parser, "a number whose exponent is too large");
	return 0;
}

/* --- strings --- */

static int parse_hex(struct parser *parser, unsigned *ret)
{
	unsigned value = 0;

	for (int i = 0; i < 4; i++, parser->at++) {
		char c = peek(parser);

		if (c >= '0' && c <= '9')
			value = value * 16 + (unsigned)(c - '0');
		else if ((c | 32) >= 'a' && (c | 32) <= 'f')
			value = value * 16 + (unsigned)((c | 32) - 'a') + 10;
		else
			return fail(parser, "\\u without four hexadecimal digits");
	}
	*ret = value;
	return 0;
}

static size_t put_utf8(char *to, unsigned c)
{
	if (c < 0x80) {
		to[0] = (char)c;
		return 1;
	}
	if (c < 0x800) {
		to[0] = (char)(0xc0 | c >> 6);
		to[1] = (char)(0x80 | (c & 0x3f));
		return 2;
	}
	if (c < 0x10000) {
		to[0] = (char)(0xe0 | c >> 12);
		to[1] = (char)(0x80 | (c >> 6 & 0x3f));
		to[2] = (char)(0x80 | (c & 0x3f));
		return 3;
	}
	to[0] = (char)(0xf0 | c >> 18);
	to[1] = (char)(0x80 | (c >> 12 & 0x3f));
	to[2] = (char)(0x80 | (c >> 6 & 0x3f));
	to[3] = (char)(0x80 | (c & 0x3f));
	return 4;
}

static int parse_code_point(struct parser *parser, unsigned *ret)
{
	unsigned low;

	if (parse_hex(parser, ret) < 0)
		return -1;
	if (*ret < 0xd800 || *ret > 0xdfff)
		return 0;
	if (*ret > 0xdbff || peek(parser) != '\\')
		return fail(parser, "half a surrogate pair");
	parser->at++;
	if (peek(parser) != 'u')
		return fail(parser, "half a surrogate pair");
	parser->at++;
	if (parse_hex(parser, &low) < 0)
		return -1;
	if (low < 0xdc00 || low > 0xdfff)
		return fail(parser, "half a surrogate pair");
	*ret = 0x10000 + ((*ret - 0xd800) << 10) + (low - 0xdc00);
	return 0;
}

static int parse_escape(struct parser *parser, char *to, size_t *used)
{
	static const char names[] = "\"\\/bfnrt";
	static const char meant[] = "\"\\/\b\f\n\r\t";
	char c = peek(parser);
	const char *found = c ? strchr(names, c) : NULL;
	unsigned code;

	if (found) {
		to[(*used)++] = meant[found - names];
		parser->at++;
		return 0;
	}
	if (c != 'u')
		return fail(parser, "an unknown escape");
	parser->at++;
	if (parse_code_point(parser, &code) < 0)
		return -1;
	*used += put_utf8(to + *used, code);
	return 0;
}

/* An escape is never shorter than what it stands for, so the source's length is room enough. */
static int parse_string(struct parser *parser, const char **ret, size_t *ret_len)
{
	size_t end = ++parser->at;
	size_t used = 0;
	char *to;

	while (end < parser->len && parser->text[end] != '"')
		end += parser->text[end] == '\\' ? 2 : 1;
	if (end >= parser->len) {
		parser->at = parser->len;
		return fail(parser, "a string without end");
	}
	if (!str_is_utf8(parser->text + parser->at, end - parser->at))
		return fail(parser, "a string that is no UTF-8");
	to = take(parser, end - parser->at + 1);
	while (parser->at < end) {
		char c = parser->text[parser->at];

		if ((unsigned char)c < 0x20)
			return fail(parser, "a control character in a string");
		parser->at++;
		if (c != '\\')
			to[used++] = c;
		else if (parse_escape(parser, to, &used) < 0)
			return -1;
	}
	parser->at++;
	to[used] = '\0';
	*ret = to;
	*ret_len = used;
	return 0;
}

/* --- arrays and objects --- */

static void push(struct parser *parser, const struct jsonmember *member)
{
	if (parser->stack_count == parser->stack_size) {
		parser->stack_size = parser->stack_size ? parser->stack_size * 2 : 64;
		parser->stack =
			mem_resize(parser->stack, parser->stack_size, sizeof(parser->stack[0]));
	}
	parser->stack[parser->stack_count++] = *member;
}

static int compare_names(const char *a, size_t a_len, const char *b, size_t b_len)
{
	int r = memcmp(a, b, MIN(a_len, b_len));

	return r != 0 ? r : (a_len > b_len) - (a_len < b_len);
}

static int compare_members(const void *a, const void *b)
{
	const struct jsonmember *x = a, *y = b;

	return compare_names(x->name, x->len, y->name, y->len);
}

static int end_object(struct parser *parser, size_t bottom, struct jsonvalue *ret)
{
	size_t count = parser->stack_count - bottom;
	struct jsonmember *members = take(parser, count * sizeof(members[0]));

	if (count > 0)
		memcpy(members, parser->stack + bottom, count * sizeof(members[0]));
	parser->stack_count = bottom;
	if (count > 1)
		qsort(members, count, sizeof(members[0]), compare_members);
	for (size_t i = 1; i < count; i++) {
		if (compare_members(&members[i - 1], &members[i]) == 0)
			return fail(parser, "a name twice in the object that ends");
	}
	ret->members = members;
	ret->count = count;
	return 0;
}

static void end_array(struct parser *parser, size_t bottom, struct jsonvalue *ret)
{
	size_t count = parser->stack_count - bottom;
	struct jsonvalue *items = take(parser, count * sizeof(items[0]));

	for (size_t i = 0; i < count; i++)
		items[i] = parser->stack[bottom + i].value;
	parser->stack_count = bottom;
	ret->items = items;
	ret->count = count;
}

static int parse_value(struct parser *parser, struct jsonvalue *ret);

static int parse_name(struct parser *parser, struct jsonmember *member)
{
	skip_blanks(parser);
	if (peek(parser) != '"')
		return fail(parser, "a name is missing");
	if (parse_string(parser, &member->name, &member->len) < 0)
		return -1;
	skip_blanks(parser);
	if (peek(parser) != ':')
		return fail(parser, "a colon is missing");
	parser->at++;
	return 0;
}

/* NOLINTNEXTLINE(misc-no-recursion): JSONVALUE_DEPTH ends it */
static int parse_children(struct parser *parser, char close, struct jsonvalue *ret)
{
	size_t bottom = parser->stack_count;
	bool is_object = close == '}';

	parser->at++;
	skip_blanks(parser);
	while (peek(parser) != close || parser->stack_count > bottom) {
		struct jsonmember member = {0};

		if (is_object && parse_name(parser, &member) < 0)
			return -1;
		if (parse_value(parser, &member.value) < 0)
			return -1;
		push(parser, &member);
		skip_blanks(parser);
		if (peek(parser) == close)
			break;
		if (peek(parser) != ',')
			return fail(parser, "a comma or the end is missing");
		parser->at++;
	}
	parser->at++;
	ret->type = is_object ? JSONVALUE_OBJECT : JSONVALUE_ARRAY;
	if (is_object)
		return end_object(parser, bottom, ret);
	end_array(parser, bottom, ret);
	return 0;
}

/* NOLINTNEXTLINE(misc-no-recursion): JSONVALUE_DEPTH ends it */
static int parse_nested(struct parser *parser, char close, struct jsonvalue *ret)
{
	int r;

	if (++parser->depth > JSONVALUE_DEPTH)
		return fail(parser, "too many levels");
	r = parse_children(parser, close, ret);
	parser->depth--;
	return r;
}

/* NOLINTNEXTLINE(misc-no-recursion): JSONVALUE_DEPTH ends it */
static int parse_value(struct parser *parser, struct jsonvalue *ret)
{
	skip_blanks(parser);
	switch (peek(parser)) {
	case '{':
		return parse_nested(parser, '}', ret);
	case '[':
		return parse_nested(parser, ']', ret);
	case '"':
		ret->type = JSONVALUE_STRING;
		return parse_string(parser, &ret->text, &ret->count);
	case 't':
	case 'f':
		ret->type = JSONVALUE_BOOLEAN;
		ret->is_true = peek(parser) == 't';
		return expect_word(parser, ret->is_true ? "true" : "false");
	case 'n':
		ret->type = JSONVALUE_NULL;
		return expect_word(parser, "null");
	default:
		return parse_number(parser, ret);
	}
}

int jsontree_parse(const char *text, size_t len, struct jsontree *ret, struct err *err)
{
	struct parser parser = {.text = text, .len = len, .err = err};
	struct jsontree tree = {0};
	int r;

	if (len > JSONVALUE_BYTES)
		return err_set(err, ERR_INVALID, "no JSON: more than %d bytes", JSONVALUE_BYTES);
	r = parse_value(&parser, &tree.root);
	if (r == 0) {
		skip_blanks(&parser);
		if (parser.at < len)
			r = fail(&parser, "more text behind the value");
	}
	free(parser.stack);
	if (r < 0) {
		free_chunks(parser.chunks);
		return r;
	}
	tree.chunks = parser.chunks;
	*ret = tree;
	return 0;
}

void jsontree_done(struct jsontree *tree)
{
	free_chunks(tree->chunks);
	*tree = (struct jsontree){0};
}

/* --- looking --- */

struct jsonmember *jsonvalue_member(const struct jsonvalue *object, const char *name, size_t len)
{
	struct jsonmember key = {.name = name, .len = len};

	if (object->type != JSONVALUE_OBJECT || object->count == 0)
		return NULL;
	return bsearch(&key, object->members, object->count, sizeof(key), compare_members);
}

struct jsonvalue *jsonvalue_get(const struct jsonvalue *object, const char *name)
{
	struct jsonmember *member = jsonvalue_member(object, name, strlen(name));

	return member ? &member->value : NULL;
}

bool jsonvalue_is(const struct jsonvalue *value, enum jsonvalue_type type)
{
	return value->type == type;
}

/* NOLINTNEXTLINE(misc-no-recursion): no tree is deeper than JSONVALUE_DEPTH */
static int compare_children(const struct jsonvalue *a, const struct jsonvalue *b, uint64_t *cost)
{
	bool is_object = a->type == JSONVALUE_OBJECT;

	for (size_t i = 0; i < a->count; i++) {
		int r = is_object ? compare_members(&a->members[i], &b->members[i]) : 0;

		if (r == 0)
			r = is_object ? jsonvalue_compare(&a->members[i].value,
			                                  &b->members[i].value, cost)
			              : jsonvalue_compare(&a->items[i], &b->items[i], cost);
		if (r != 0)
			return r;
	}
	return 0;
}

/* NOLINTNEXTLINE(misc-no-recursion): no tree is deeper than JSONVALUE_DEPTH */
int jsonvalue_compare(const struct jsonvalue *a, const struct jsonvalue *b, uint64_t *cost)
{
	++*cost;
	if (a->type != b->type)
		return a->type < b->type ? -1 : 1;
	switch (a->type) {
	case JSONVALUE_NULL:
		return 0;
	case JSONVALUE_BOOLEAN:
		return a->is_true - b->is_true;
	case JSONVALUE_NUMBER:
		*cost += MIN(a->number.len, b->number.len) / 16;
		return decimal_compare(&a->number, &b->number);
	case JSONVALUE_STRING:
		*cost += MIN(a->count, b->count) / 16;
		return compare_names(a->text, a->count, b->text, b->count);
	case JSONVALUE_ARRAY:
	case JSONVALUE_OBJECT:
		break;
	}
	if (a->count != b->count)
		return a->count < b->count ? -1 : 1;
	return compare_children(a, b, cost);
}

/*
 * Text to tree (recursive descent), tree to program. Repetitions are written out, so the tree is
 * needed; PATTERN_CODE bounds what comes of it.
 */
#include <errno.h>

#include "base/mem.h"
#include "base/str.h"
#include "model/pattern_impl.h"

enum { REPEAT_FOREVER = -1, REPEAT_MOST = PATTERN_CODE };

enum node_kind {
	NODE_ATOM, /* one instruction */
	NODE_ALL,  /* children one after the other */
	NODE_ANY,  /* one of the children */
	NODE_REPEAT,
	NODE_LOOK,
};

struct node {
	enum node_kind kind;
	enum pattern_op op;
	uint32_t operand; /* of an atom; negated, of a look */
	int least, most;
	struct node *child, *last, *next;
	struct node *made_before; /* all nodes, to free them */
};

struct parser {
	const char *text;
	size_t len, at;
	int depth;
	struct node *nodes;
	struct pattern *pattern;
	struct err *err;
};

static int fail(struct parser *parser, const char *what)
{
	char shown[120];

	str_escape(shown, sizeof(shown), parser->text, parser->len);
	return err_set(parser->err, ERR_INVALID, "the pattern '%s': %s at byte %zu", shown, what,
	               MIN(parser->at, parser->len));
}

static struct node *new_node(struct parser *parser, enum node_kind kind)
{
	struct node *node = mem_new(struct node);

	node->kind = kind;
	node->made_before = parser->nodes;
	parser->nodes = node;
	return node;
}

static struct node *new_atom(struct parser *parser, enum pattern_op op, uint32_t operand)
{
	struct node *node = new_node(parser, NODE_ATOM);

	node->op = op;
	node->operand = operand;
	return node;
}

static void append(struct node *parent, struct node *child)
{
	if (parent->last)
		parent->last->next = child;
	else
		parent->child = child;
	parent->last = child;
}

static bool is_next(const struct parser *parser, const char *word)
{
	size_t len = strlen(word);

	return parser->len - parser->at >= len && memcmp(parser->text + parser->at, word, len) == 0;
}

static bool skip(struct parser *parser, const char *word)
{
	if (!is_next(parser, word))
		return false;
	parser->at += strlen(word);
	return true;
}

static char peek(const struct parser *parser)
{
	return parser->at < parser->len ? parser->text[parser->at] : '\0';
}

/* The set is the pattern's from then on. */
static struct node *new_set(struct parser *parser, struct pattern_set *set)
{
	struct pattern *pattern = parser->pattern;

	pattern->sets = mem_resize(pattern->sets, pattern->set_count + 1, sizeof(*set));
	pattern->sets[pattern->set_count] = *set;
	return new_atom(parser, PATTERN_OP_SET, (uint32_t)pattern->set_count++);
}

/* --- escapes --- */

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if ((c | 32) >= 'a' && (c | 32) <= 'f')
		return (c | 32) - 'a' + 10;
	return -1;
}

static int parse_hex(struct parser *parser, int digits, uint32_t *ret)
{
	*ret = 0;
	for (int i = 0; i < digits; i++, parser->at++) {
		int digit = hex_digit(peek(parser));

		if (digit < 0)
			return fail(parser, "hexadecimal digits are missing");
		*ret = *ret * 16 + (uint32_t)digit;
	}
	return 0;
}

static int parse_braced_hex(struct parser *parser, uint32_t *ret)
{
	*ret = 0;
	do {
		int digit = hex_digit(peek(parser));

		if (digit < 0)
			return fail(parser, "hexadecimal digits are missing");
		*ret = *ret * 16 + (uint32_t)digit;
		if (*ret >= PATTERN_CODE_POINTS)
			return fail(parser, "no character has so high a number");
		parser->at++;
	} while (peek(parser) != '}');
	parser->at++;
	return 0;
}

/* Behind "\u". */
static int parse_unicode(struct parser *parser, uint32_t *ret)
{
	uint32_t low;
	size_t mark;

	if (skip(parser, "{"))
		return parse_braced_hex(parser, ret);
	if (parse_hex(parser, 4, ret) < 0)
		return -1;
	mark = parser->at;
	if (*ret < 0xd800 || *ret > 0xdbff || !skip(parser, "\\u") || peek(parser) == '{')
		return 0;
	if (parse_hex(parser, 4, &low) < 0)
		return -1;
	if (low >= 0xdc00 && low <= 0xdfff)
		*ret = 0x10000 + ((*ret - 0xd800) << 10) + (low - 0xdc00);
	else
		parser->at = mark;
	return 0;
}

/* Behind "\c". */
static int parse_control(struct parser *parser, uint32_t *ret)
{
	char c = peek(parser);

	if ((c | 32) < 'a' || (c | 32) > 'z')
		return fail(parser, "\\c without a letter");
	*ret = (uint32_t)c % 32;
	parser->at++;
	return 0;
}

/* An escape that stands for one character; `at` is behind the backslash. */
static int parse_char_escape(struct parser *parser, uint32_t *ret)
{
	static const char names[] = "tnvfr0";
	static const char meant[] = "\t\n\v\f\r\0";
	char c = peek(parser);
	const char *found = c ? strchr(names, c) : NULL;

	if (parser->at >= parser->len)
		return fail(parser, "a backslash ends it");
	if (c >= '1' && c <= '9')
		return fail(parser, "back references are not supported");
	if (c == 'k')
		return fail(parser, "references to groups are not supported");
	if ((unsigned char)c >= 0x80) {
		*ret = pattern_next(parser->text, parser->len, &parser->at);
		return 0;
	}
	parser->at++;
	if (found) {
		*ret = (uint32_t)meant[found - names];
		return 0;
	}
	if (c == 'x')
		return parse_hex(parser, 2, ret);
	if (c == 'u')
		return parse_unicode(parser, ret);
	if (c == 'c')
		return parse_control(parser, ret);
	if ((c | 32) >= 'a' && (c | 32) <= 'z') {
		parser->at--;
		return fail(parser, "an unknown escape");
	}
	/* punctuation: ECMA-262 has fewer of these with `u`, schemas have more */
	*ret = (uint32_t)c;
	return 0;
}

/* \d and \p{…}; 1 when it was one of these, 0 when it is not. */
static int parse_class_escape(struct parser *parser, struct pattern_set *set)
{
	char c = peek(parser);
	const char *end;

	if (c && strchr("dDwWsS", c)) {
		pattern_set_add_class(set, c);
		parser->at++;
		return 1;
	}
	if (c != 'p' && c != 'P')
		return 0;
	parser->at++;
	if (!skip(parser, "{"))
		return fail(parser, "\\p without {…}");
	end = memchr(parser->text + parser->at, '}', parser->len - parser->at);
	if (!end ||
	    pattern_set_add_property(set, parser->text + parser->at,
	                             (size_t)(end - parser->text) - parser->at, c == 'P') < 0)
		return fail(parser, "a property other than a general category, ASCII or Any");
	parser->at = (size_t)(end - parser->text) + 1;
	return 1;
}

static int parse_escape(struct parser *parser, struct node **ret)
{
	struct pattern_set set = {0};
	uint32_t c;
	int r;

	parser->at++;
	if (peek(parser) == 'b' || peek(parser) == 'B') {
		*ret = new_atom(
			parser,
			peek(parser) == 'b' ? PATTERN_OP_WORD_EDGE : PATTERN_OP_NO_WORD_EDGE, 0);
		parser->at++;
		return 0;
	}
	r = parse_class_escape(parser, &set);
	if (r > 0) {
		pattern_set_finish(&set, false);
		*ret = new_set(parser, &set);
		return 0;
	}
	free(set.ranges);
	if (r < 0 || parse_char_escape(parser, &c) < 0)
		return -1;
	*ret = new_atom(parser, PATTERN_OP_CHAR, c);
	return 0;
}

/* --- [classes] --- */

/* One member of a class; *ret_single is false for \d and the like, already added then. */
static int parse_class_atom(struct parser *parser, struct pattern_set *set, uint32_t *ret,
                            bool *ret_single)
{
	int r;

	*ret_single = true;
	if (peek(parser) != '\\') {
		*ret = pattern_next(parser->text, parser->len, &parser->at);
		return 0;
	}
	parser->at++;
	if (peek(parser) == 'b') {
		parser->at++;
		*ret = '\b';
		return 0;
	}
	r = parse_class_escape(parser, set);
	if (r == 0)
		return parse_char_escape(parser, ret);
	*ret_single = false;
	return MIN(r, 0);
}

static int parse_class_members(struct parser *parser, struct pattern_set *set)
{
	while (parser->at < parser->len && peek(parser) != ']') {
		uint32_t first = 0, last;
		bool is_single, is_last_single = true;

		if (parse_class_atom(parser, set, &first, &is_single) < 0)
			return -1;
		last = first;
		if (is_next(parser, "-") && !is_next(parser, "-]")) {
			parser->at++;
			if (parser->at >= parser->len)
				break;
			if (parse_class_atom(parser, set, &last, &is_last_single) < 0)
				return -1;
			if (!is_single || !is_last_single)
				return fail(parser, "a range whose end is no character");
			if (last < first)
				return fail(parser, "a range that ends before it begins");
		}
		if (is_single)
			pattern_set_add(set, first, last);
	}
	return skip(parser, "]") ? 0 : fail(parser, "a class without its ]");
}

static int parse_class(struct parser *parser, struct node **ret)
{
	struct pattern_set set = {0};
	bool is_negated;

	parser->at++;
	is_negated = skip(parser, "^");
	if (parse_class_members(parser, &set) < 0) {
		free(set.ranges);
		return -1;
	}
	pattern_set_finish(&set, is_negated);
	*ret = new_set(parser, &set);
	return 0;
}

static struct node *new_dot(struct parser *parser)
{
	struct pattern_set set = {0};

	pattern_set_add(&set, '\n', '\n');
	pattern_set_add(&set, '\r', '\r');
	pattern_set_add(&set, 0x2028, 0x2029);
	pattern_set_finish(&set, true);
	return new_set(parser, &set);
}

/* --- groups, quantifiers, alternatives --- */

static int parse_choice(struct parser *parser, struct node **ret);

static int skip_group_name(struct parser *parser)
{
	const char *end = memchr(parser->text + parser->at, '>', parser->len - parser->at);

	if (!end || end == parser->text + parser->at)
		return fail(parser, "a group without the end of its name");
	parser->at = (size_t)(end - parser->text) + 1;
	return 0;
}

/* NOLINTNEXTLINE(misc-no-recursion): PATTERN_DEPTH ends it */
static int parse_group(struct parser *parser, struct node **ret)
{
	static const struct {
		const char *word;
		enum pattern_op op;
		uint32_t is_negated;
	} looks[] = {
		{"?=", PATTERN_OP_AHEAD, 0},
		{"?!", PATTERN_OP_AHEAD, 1},
		{"?<=", PATTERN_OP_BEHIND, 0},
		{"?<!", PATTERN_OP_BEHIND, 1},
	};
	struct node *around = NULL;

	parser->at++;
	if (++parser->depth > PATTERN_DEPTH)
		return fail(parser, "too many groups inside groups");
	for (size_t i = 0; i < ARRAY_LEN(looks) && !around; i++) {
		if (skip(parser, looks[i].word)) {
			around = new_node(parser, NODE_LOOK);
			around->op = looks[i].op;
			around->operand = looks[i].is_negated;
		}
	}
	if (!around && skip(parser, "?<")) {
		if (skip_group_name(parser) < 0)
			return -1;
	} else if (!around && !skip(parser, "?:") && is_next(parser, "?")) {
		return fail(parser, "a kind of group that ECMA-262 does not have");
	}
	if (parse_choice(parser, ret) < 0)
		return -1;
	if (!skip(parser, ")"))
		return fail(parser, "a group without its )");
	parser->depth--;
	if (around) {
		append(around, *ret);
		*ret = around;
	}
	return 0;
}

/* NOLINTNEXTLINE(misc-no-recursion): PATTERN_DEPTH ends it */
static int parse_atom(struct parser *parser, struct node **ret)
{
	switch (peek(parser)) {
	case '(':
		return parse_group(parser, ret);
	case '[':
		return parse_class(parser, ret);
	case '\\':
		return parse_escape(parser, ret);
	case '*':
	case '+':
	case '?':
		return fail(parser, "nothing to repeat");
	case '.':
		parser->at++;
		*ret = new_dot(parser);
		return 0;
	case '^':
	case '$':
		*ret = new_atom(parser, peek(parser) == '^' ? PATTERN_OP_START : PATTERN_OP_END, 0);
		parser->at++;
		return 0;
	default:
		*ret = new_atom(parser, PATTERN_OP_CHAR,
		                pattern_next(parser->text, parser->len, &parser->at));
		return 0;
	}
}

/* Digits; REPEAT_MOST + 1 for anything larger. */
static bool parse_count(struct parser *parser, int *ret)
{
	size_t start = parser->at;

	*ret = 0;
	for (; peek(parser) >= '0' && peek(parser) <= '9'; parser->at++)
		*ret = MIN(*ret * 10 + (peek(parser) - '0'), REPEAT_MOST + 1);
	return parser->at > start;
}

/* "{n}", "{n,}", "{n,m}"; anything else in braces stands for itself. */
static bool parse_braces(struct parser *parser, int *least, int *most)
{
	size_t start = parser->at;

	if (skip(parser, "{") && parse_count(parser, least)) {
		*most = *least;
		if (skip(parser, ",") && !parse_count(parser, most))
			*most = REPEAT_FOREVER;
		if (skip(parser, "}"))
			return true;
	}
	parser->at = start;
	return false;
}

static bool parse_quantifier(struct parser *parser, int *least, int *most)
{
	*least = 0;
	*most = REPEAT_FOREVER;
	if (skip(parser, "*"))
		return true;
	if (skip(parser, "+")) {
		*least = 1;
		return true;
	}
	if (skip(parser, "?")) {
		*most = 1;
		return true;
	}
	return parse_braces(parser, least, most);
}

static int repeat(struct parser *parser, struct node **atom)
{
	struct node *node;
	int least, most;

	if (!parse_quantifier(parser, &least, &most))
		return 0;
	skip(parser, "?"); /* lazy or not: whether it matches is the same */
	if (least > REPEAT_MOST || most > REPEAT_MOST)
		return fail(parser, "too many repetitions");
	if (most != REPEAT_FOREVER && most < least)
		return fail(parser, "a repetition whose most is below its least");
	if (is_next(parser, "*") || is_next(parser, "+") || is_next(parser, "?"))
		return fail(parser, "nothing to repeat");
	node = new_node(parser, NODE_REPEAT);
	node->least = least;
	node->most = most;
	append(node, *atom);
	*atom = node;
	return 0;
}

/* NOLINTNEXTLINE(misc-no-recursion): PATTERN_DEPTH ends it */
static int parse_sequence(struct parser *parser, struct node **ret)
{
	*ret = new_node(parser, NODE_ALL);
	while (parser->at < parser->len && peek(parser) != '|' && peek(parser) != ')') {
		struct node *atom = NULL;

		if (parse_atom(parser, &atom) < 0 || repeat(parser, &atom) < 0)
			return -1;
		append(*ret, atom);
	}
	return 0;
}

/* NOLINTNEXTLINE(misc-no-recursion): PATTERN_DEPTH ends it */
static int parse_choice(struct parser *parser, struct node **ret)
{
	struct node *choice = new_node(parser, NODE_ANY);

	do {
		struct node *sequence = NULL;

		if (parse_sequence(parser, &sequence) < 0)
			return -1;
		append(choice, sequence);
	} while (skip(parser, "|"));
	*ret = choice;
	return 0;
}

/* --- the program --- */

static int emit_node(struct pattern *pattern, const struct node *node);

static int emit(struct pattern *pattern, enum pattern_op op, uint32_t a, uint32_t b)
{
	if (pattern->count >= PATTERN_CODE)
		return -E2BIG;
	if (pattern->count == pattern->size) {
		pattern->size = pattern->size ? pattern->size * 2 : 32;
		pattern->code = mem_resize(pattern->code, pattern->size, sizeof(pattern->code[0]));
	}
	pattern->code[pattern->count++] = (struct pattern_inst){op, a, b};
	return 0;
}

static uint32_t here(const struct pattern *pattern)
{
	return (uint32_t)pattern->count;
}

/* Each but the last: split to it or behind it, it, jump to the end. */
/* NOLINTNEXTLINE(misc-no-recursion): PATTERN_DEPTH ended the tree */
static int emit_any(struct pattern *pattern, const struct node *node)
{
	uint32_t jumps = UINT32_MAX; /* chained through what they will point at */

	for (const struct node *child = node->child; child; child = child->next) {
		uint32_t split = here(pattern);

		if (child->next && emit(pattern, PATTERN_OP_SPLIT, split + 1, 0) < 0)
			return -E2BIG;
		if (emit_node(pattern, child) < 0)
			return -E2BIG;
		if (!child->next)
			break;
		if (emit(pattern, PATTERN_OP_JUMP, jumps, 0) < 0)
			return -E2BIG;
		jumps = here(pattern) - 1;
		pattern->code[split].b = here(pattern);
	}
	while (jumps != UINT32_MAX) {
		uint32_t before = pattern->code[jumps].a;

		pattern->code[jumps].a = here(pattern);
		jumps = before;
	}
	return 0;
}

/* NOLINTNEXTLINE(misc-no-recursion): PATTERN_DEPTH ended the tree */
static int emit_star(struct pattern *pattern, const struct node *child)
{
	uint32_t split = here(pattern);

	if (emit(pattern, PATTERN_OP_SPLIT, split + 1, 0) < 0 || emit_node(pattern, child) < 0 ||
	    emit(pattern, PATTERN_OP_JUMP, split, 0) < 0)
		return -E2BIG;
	pattern->code[split].b = here(pattern);
	return 0;
}

/* NOLINTNEXTLINE(misc-no-recursion): PATTERN_DEPTH ended the tree */
static int emit_repeat(struct pattern *pattern, const struct node *node)
{
	for (int i = 0; i < node->least; i++) {
		uint32_t before = here(pattern);

		if (emit_node(pattern, node->child) < 0)
			return -E2BIG;
		if (here(pattern) == before) /* nothing, however often */
			return 0;
	}
	if (node->most == REPEAT_FOREVER)
		return emit_star(pattern, node->child);
	for (int i = node->least; i < node->most; i++) {
		uint32_t split = here(pattern);

		if (emit(pattern, PATTERN_OP_SPLIT, split + 1, 0) < 0 ||
		    emit_node(pattern, node->child) < 0)
			return -E2BIG;
		pattern->code[split].b = here(pattern);
	}
	return 0;
}

/* NOLINTNEXTLINE(misc-no-recursion): PATTERN_DEPTH ended the tree */
static int emit_look(struct pattern *pattern, const struct node *node)
{
	uint32_t look = here(pattern);

	if (emit(pattern, node->op, 0, node->operand) < 0 || emit_node(pattern, node->child) < 0 ||
	    emit(pattern, PATTERN_OP_MATCH, 0, 0) < 0)
		return -E2BIG;
	pattern->code[look].a = here(pattern);
	return 0;
}

static bool consumes(enum pattern_op op)
{
	return op == PATTERN_OP_CHAR || op == PATTERN_OP_SET;
}

/* NOLINTNEXTLINE(misc-no-recursion): PATTERN_DEPTH ended the tree */
static int emit_node(struct pattern *pattern, const struct node *node)
{
	switch (node->kind) {
	case NODE_ATOM:
		return emit(pattern, node->op,
		            consumes(node->op) ? node->operand : here(pattern) + 1, 0);
	case NODE_ALL:
		for (const struct node *child = node->child; child; child = child->next) {
			if (emit_node(pattern, child) < 0)
				return -E2BIG;
		}
		return 0;
	case NODE_ANY:
		return emit_any(pattern, node);
	case NODE_REPEAT:
		return emit_repeat(pattern, node);
	case NODE_LOOK:
		return emit_look(pattern, node);
	}
	return 0;
}

static void free_nodes(struct node *node)
{
	while (node) {
		struct node *before = node->made_before;

		free(node);
		node = before;
	}
}

static int compile(struct parser *parser)
{
	struct node *root = NULL;

	if (parse_choice(parser, &root) < 0)
		return -1;
	if (parser->at < parser->len)
		return fail(parser, "a ) without its group");
	if (emit_node(parser->pattern, root) < 0 ||
	    emit(parser->pattern, PATTERN_OP_MATCH, 0, 0) < 0)
		return fail(parser, "too large once its repetitions are written out");
	return 0;
}

int pattern_compile(const char *text, size_t len, struct pattern **ret, struct err *err)
{
	struct parser parser = {.text = text, .len = len, .err = err};
	int r;

	if (len > PATTERN_BYTES)
		return err_set(err, ERR_INVALID, "a pattern of more than %d bytes", PATTERN_BYTES);
	if (!str_is_utf8(text, len))
		return err_set(err, ERR_INVALID, "a pattern that is no UTF-8");
	parser.pattern = mem_new(struct pattern);
	r = compile(&parser);
	free_nodes(parser.nodes);
	if (r < 0) {
		pattern_free(parser.pattern);
		return r;
	}
	*ret = parser.pattern;
	return 0;
}

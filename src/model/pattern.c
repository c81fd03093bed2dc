/*
 * The automaton: two lists of program counters, the states at this character and at the next one.
 * A state is in a list at most once, which bounds the work of a character by the program's
 * length. Assertions are decided when a state is entered; a look around runs the program behind it
 * in lists of its own.
 */
#include "model/pattern.h"

#include <errno.h>

#include "base/mem.h"
#include "model/pattern_impl.h"

enum run_mode { RUN_SEARCH, RUN_FROM_HERE, RUN_UP_TO_HERE };

struct input {
	const struct pattern *pattern;
	uint32_t *text;
	size_t len;
	uint64_t *steps;
};

struct states {
	uint32_t *list;
	size_t count;
	size_t *entered; /* per instruction: 1 + the position where it was entered last */
};

struct run {
	struct input *input;
	struct states now, next;
	uint32_t *stack;
	size_t here; /* of RUN_UP_TO_HERE */
	enum run_mode mode;
	bool is_matched;
};

static int run_program(struct input *input, uint32_t start, size_t from, enum run_mode mode,
                       bool *ret);

uint32_t pattern_next(const char *text, size_t len, size_t *at)
{
	const unsigned char *s = (const unsigned char *)text + *at;
	size_t left = len - *at;

	if (s[0] >= 0xf0 && left >= 4) {
		*at += 4;
		return (s[0] & 7u) << 18 | (s[1] & 0x3fu) << 12 | (s[2] & 0x3fu) << 6 |
		       (s[3] & 0x3fu);
	}
	if (s[0] >= 0xe0 && left >= 3) {
		*at += 3;
		return (s[0] & 15u) << 12 | (s[1] & 0x3fu) << 6 | (s[2] & 0x3fu);
	}
	if (s[0] >= 0xc0 && left >= 2) {
		*at += 2;
		return (s[0] & 31u) << 6 | (s[1] & 0x3fu);
	}
	*at += 1;
	return s[0];
}

static bool spend(struct input *input, uint64_t steps)
{
	if (*input->steps < steps) {
		*input->steps = 0;
		return false;
	}
	*input->steps -= steps;
	return true;
}

static bool is_word(const struct input *input, size_t at)
{
	uint32_t c = at < input->len ? input->text[at] : 0;

	return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
	       c == '_';
}

static bool is_word_edge(const struct input *input, size_t at)
{
	return (at > 0 && is_word(input, at - 1)) != is_word(input, at);
}

/* NOLINTNEXTLINE(misc-no-recursion): as deep as groups may be */
static int look(struct input *input, uint32_t pc, size_t at, bool *ret)
{
	const struct pattern_inst *inst = &input->pattern->code[pc];
	enum run_mode mode = inst->op == PATTERN_OP_AHEAD ? RUN_FROM_HERE : RUN_UP_TO_HERE;
	bool is_found;

	if (run_program(input, pc + 1, at, mode, &is_found) < 0)
		return -E2BIG;
	*ret = is_found != (inst->b != 0);
	return 0;
}

/* Whether a state that consumes nothing lets pass. */
/* NOLINTNEXTLINE(misc-no-recursion): as deep as groups may be */
static int is_open(struct input *input, uint32_t pc, size_t at, bool *ret)
{
	enum pattern_op op = input->pattern->code[pc].op;

	if (op == PATTERN_OP_START)
		*ret = at == 0;
	else if (op == PATTERN_OP_END)
		*ret = at == input->len;
	else if (op == PATTERN_OP_WORD_EDGE || op == PATTERN_OP_NO_WORD_EDGE)
		*ret = is_word_edge(input, at) == (op == PATTERN_OP_WORD_EDGE);
	else
		return look(input, pc, at, ret);
	return 0;
}

static void push(struct run *run, struct states *states, size_t *depth, uint32_t pc, size_t at)
{
	if (states->entered[pc] == at + 1)
		return;
	states->entered[pc] = at + 1;
	run->stack[(*depth)++] = pc;
}

/* Enters a state and all that follow without a character. */
/* NOLINTNEXTLINE(misc-no-recursion): as deep as groups may be */
static int enter(struct run *run, struct states *states, uint32_t start, size_t at)
{
	size_t depth = 0;

	push(run, states, &depth, start, at);
	while (depth > 0) {
		uint32_t pc = run->stack[--depth];
		const struct pattern_inst *inst = &run->input->pattern->code[pc];
		bool opens = true;

		if (!spend(run->input, 1))
			return -E2BIG;
		if (inst->op == PATTERN_OP_CHAR || inst->op == PATTERN_OP_SET) {
			states->list[states->count++] = pc;
		} else if (inst->op == PATTERN_OP_MATCH) {
			if (run->mode != RUN_UP_TO_HERE || at == run->here)
				run->is_matched = true;
		} else if (inst->op == PATTERN_OP_SPLIT || inst->op == PATTERN_OP_JUMP) {
			push(run, states, &depth, inst->a, at);
			if (inst->op == PATTERN_OP_SPLIT)
				push(run, states, &depth, inst->b, at);
		} else {
			if (is_open(run->input, pc, at, &opens) < 0)
				return -E2BIG;
			if (opens)
				push(run, states, &depth, inst->a, at);
		}
	}
	return 0;
}

/* NOLINTNEXTLINE(misc-no-recursion): as deep as groups may be */
static int advance(struct run *run, size_t at)
{
	const struct pattern *pattern = run->input->pattern;
	uint32_t c = run->input->text[at];
	struct states swap = run->now;

	run->next.count = 0;
	if (!spend(run->input, run->now.count + 1))
		return -E2BIG;
	for (size_t i = 0; i < run->now.count; i++) {
		uint32_t pc = run->now.list[i];
		const struct pattern_inst *inst = &pattern->code[pc];
		bool fits = inst->op == PATTERN_OP_CHAR
		                    ? inst->a == c
		                    : pattern_set_has(&pattern->sets[inst->a], c);

		if (fits && enter(run, &run->next, pc + 1, at + 1) < 0)
			return -E2BIG;
	}
	run->now = run->next;
	run->next = swap;
	return 0;
}

/* NOLINTNEXTLINE(misc-no-recursion): as deep as groups may be */
static int run_all(struct run *run, uint32_t start, size_t from)
{
	size_t at = run->mode == RUN_UP_TO_HERE ? 0 : from;
	size_t last = run->mode == RUN_UP_TO_HERE ? from : run->input->len;

	for (;; at++) {
		bool starts = run->mode != RUN_FROM_HERE || at == from;

		if (starts && enter(run, &run->now, start, at) < 0)
			return -E2BIG;
		if (run->is_matched || at >= last)
			return 0;
		if (run->mode == RUN_FROM_HERE && run->now.count == 0)
			return 0;
		if (advance(run, at) < 0)
			return -E2BIG;
	}
}

/* NOLINTNEXTLINE(misc-no-recursion): as deep as groups may be */
static int run_program(struct input *input, uint32_t start, size_t from, enum run_mode mode,
                       bool *ret)
{
	size_t count = input->pattern->count;
	auto_free uint32_t *lists = mem_zalloc(3 * count * sizeof(uint32_t));
	auto_free size_t *entered = mem_zalloc(2 * count * sizeof(size_t));
	struct run run = {
		.input = input,
		.now = {.list = lists, .entered = entered},
		.next = {.list = lists + count, .entered = entered + count},
		.stack = lists + 2 * count,
		.here = from,
		.mode = mode,
	};

	if (!spend(input, count / 8) || run_all(&run, start, from) < 0)
		return -E2BIG;
	*ret = run.is_matched;
	return 0;
}

int pattern_search(const struct pattern *pattern, const char *text, size_t len, uint64_t *steps,
                   bool *ret)
{
	auto_free uint32_t *points = mem_zalloc((len + 1) * sizeof(points[0]));
	struct input input = {.pattern = pattern, .text = points, .steps = steps};

	if (!spend(&input, len / 4))
		return -E2BIG;
	for (size_t at = 0; at < len;)
		points[input.len++] = pattern_next(text, len, &at);
	return run_program(&input, 0, 0, RUN_SEARCH, ret);
}

void pattern_free(struct pattern *pattern)
{
	if (!pattern)
		return;
	for (size_t i = 0; i < pattern->set_count; i++)
		free(pattern->sets[i].ranges);
	free(pattern->sets);
	free(pattern->code);
	free(pattern);
}

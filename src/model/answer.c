#include "model/answer.h"

#include <string.h>

#include "model/jsonvalue.h"

#define FENCE  "```"
#define BLANKS " \t\r\n"

static void trim(const char **text, size_t *len)
{
	while (*len > 0 && strchr(BLANKS, **text) && **text) {
		(*text)++;
		(*len)--;
	}
	while (*len > 0 && (*text)[*len - 1] && strchr(BLANKS, (*text)[*len - 1]))
		(*len)--;
}

static bool is_json(const char *text, size_t len, struct err *err)
{
	struct jsontree tree;

	if (len == 0 || jsontree_parse(text, len, &tree, err) < 0)
		return false;
	jsontree_done(&tree);
	return true;
}

static bool take(const char *text, size_t len, struct answer *ret, struct err *err)
{
	trim(&text, &len);
	if (!is_json(text, len, err))
		return false;
	*ret = (struct answer){ANSWER_JSON, text, len};
	return true;
}

/* The next fenced block from *at on; its first line says what it holds. */
static bool next_block(const char **at, const char *end, const char **ret, size_t *ret_len,
                       bool *ret_json)
{
	const char *open = memmem(*at, (size_t)(end - *at), FENCE, strlen(FENCE));
	const char *mark, *line, *close;

	if (!open)
		return false;
	mark = open + strlen(FENCE);
	line = memchr(mark, '\n', (size_t)(end - mark));
	if (!line)
		return false;
	*ret_json = (size_t)(line - mark) >= 4 &&
	            (memcmp(mark, "json", 4) == 0 || memcmp(mark, "JSON", 4) == 0);
	close = memmem(line, (size_t)(end - line), FENCE, strlen(FENCE));
	*ret = line + 1;
	*ret_len = (size_t)((close ? close : end) - line - 1);
	*at = close ? close + strlen(FENCE) : end;
	return true;
}

/* The last block that is JSON. *ret_any: there was one at all, so somebody meant to give JSON. */
static bool take_block(const char *text, size_t len, bool marked, struct answer *ret, bool *ret_any,
                       struct err *err)
{
	const char *at = text, *block;
	bool is_marked, is_found = false;
	size_t size;

	while (next_block(&at, text + len, &block, &size, &is_marked)) {
		struct err why = {0};

		if (marked && !is_marked)
			continue;
		if (take(block, size, ret, &why))
			is_found = true;
		else
			*err = why;
		*ret_any = true;
	}
	return is_found;
}

/* From the first bracket to the last that closes its like. */
static bool take_braces(const char *text, size_t len, struct answer *ret, bool *ret_any,
                        struct err *err)
{
	static const char pairs[][2] = {{'{', '}'}, {'[', ']'}};

	for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
		const char *open = memchr(text, pairs[i][0], len);
		const char *close = memrchr(text, pairs[i][1], len);
		struct err why = {0};

		if (!open || !close || close < open)
			continue;
		if (take(open, (size_t)(close - open) + 1, ret, &why))
			return true;
		if (!*ret_any)
			*err = why;
		*ret_any = true;
	}
	return false;
}

void answer_find(const char *text, size_t len, struct answer *ret, struct err *err)
{
	struct err why = {0};
	bool has_tried = false;

	*ret = (struct answer){.kind = ANSWER_EMPTY};
	trim(&text, &len);
	if (len == 0 || take(text, len, ret, &why) ||
	    take_block(text, len, true, ret, &has_tried, err) ||
	    take_block(text, len, false, ret, &has_tried, err) ||
	    take_braces(text, len, ret, &has_tried, err))
		return;
	ret->kind = has_tried ? ANSWER_BROKEN : ANSWER_PROSE;
	if (!has_tried)
		(void)err_set(err, ERR_INVALID, "there is no JSON in it"); /* always -1 */
}

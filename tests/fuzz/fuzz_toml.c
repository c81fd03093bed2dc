/* Configuration text: whatever the bytes, a tree or an error that fits its buffer. */
#include "base/must.h"
#include "base/toml.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

/* Every link of the tree is walked, none of them twice. */
static size_t count_nodes(const struct toml *node)
{
	size_t count = 0;
	const struct toml *stack[64];
	size_t depth = 0;
	for (;;) {
		count++;
		must((node->kind == TOML_STRING || node->kind == TOML_DATETIME) ==
		     (node->str != NULL));
		must(!node->str || node->str[node->str_len] == '\0');
		must(node->line >= 1);
		if (node->child) {
			must(depth < ARRAY_LEN(stack));
			stack[depth++] = node;
			node = node->child;
			continue;
		}
		while (depth > 0 && !node->next)
			node = stack[--depth];
		if (depth == 0)
			return count;
		node = node->next;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	struct toml *root = NULL;
	struct err err = {0};
	if (toml_parse("fuzz", (const char *)bytes, len, &root, &err) < 0) {
		must(!root && err.code == ERR_CONFIG && strncmp(err.msg, "fuzz:", 5) == 0);
		return 0;
	}
	must(count_nodes(root) <= len + 1);
	toml_free(root);
	return 0;
}

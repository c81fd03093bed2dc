#include <stdlib.h>

#include "base/mem.h"
#include "base/str.h"
#include "model/config_impl.h"

int config_read_number(uint64_t *ret, const struct toml *node, int most, struct err *err)
{
	if (node->kind != TOML_INT)
		return config_refuse_kind(node, "a whole number", err);
	if (node->num < 0 || node->num > most)
		return err_set(err, ERR_CONFIG, "%s %lld is not between 0 and %d", node->key,
		               (long long)node->num, most);
	*ret = (uint64_t)node->num;
	return 0;
}

int config_read_ms(uint64_t *ret, const struct toml *node, struct err *err)
{
	uint64_t ms = 0;

	if (node->kind == TOML_INT && node->num > 0 && node->num < INT32_MAX / 1000)
		ms = (uint64_t)node->num * 1000;
	else if (node->kind != TOML_STRING || config_has_nul(node) || str_to_ms(node->str, &ms) < 0)
		ms = 0;
	if (ms == 0)
		return err_set(err, ERR_CONFIG, "'%s' is not a time such as \"30s\"", node->key);
	*ret = ms;
	return 0;
}

int config_read_text(char **ret, const struct toml *node, struct err *err)
{
	if (node->kind != TOML_STRING)
		return config_refuse_kind(node, "a string", err);
	if (config_has_nul(node))
		return err_set(err, ERR_CONFIG, "'%s' holds a NUL", node->key);
	free(*ret);
	*ret = node->str_len > 0 ? mem_strdup(node->str) : NULL;
	return 0;
}

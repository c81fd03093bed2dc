#include "worker/name.h"

#include "base/str.h"

/* Appends one component; the caller has checked that it is none of "", ".", "..". */
static const char *add(struct name *name, size_t *used, const char *component, size_t len)
{
	if (len > NAME_COMPONENT_LEN)
		return "has a component longer than 255 bytes";
	if (name->depth == NAME_DEPTH)
		return "lies more than 256 directories deep";
	if (*used + 1 + len > LIMIT_PATH_LEN)
		return "is longer than 4095 bytes";
	if (name->depth > 0)
		name->path[(*used)++] = '/';
	name->base = *used;
	memcpy(name->path + *used, component, len);
	*used += len;
	name->depth++;
	return NULL;
}

const char *name_clean(struct name *ret, const char *raw)
{
	size_t used = 0;

	ret->path[0] = '\0';
	ret->base = ret->depth = 0;
	if (!raw || !*raw)
		return "is empty";
	if (*raw == '/')
		return "is absolute";
	while (*raw) {
		size_t len = strcspn(raw, "/");
		bool is_dot = len == 0 || (len == 1 && raw[0] == '.');

		if (len == 2 && raw[0] == '.' && raw[1] == '.')
			return "has a \"..\" component";
		const char *wrong = is_dot ? NULL : add(ret, &used, raw, len);
		if (wrong)
			return wrong;
		raw += len;
		raw += *raw == '/';
	}
	ret->path[used] = '\0';
	return NULL;
}

struct name_text name_show(const char *raw)
{
	struct name_text shown = {.text = ""};

	str_escape(shown.text, sizeof(shown.text), raw ? raw : "", raw ? strlen(raw) : 0);
	return shown;
}

#include "model/uri.h"

#include "base/mem.h"

struct span {
	const char *start;
	size_t len;
};

struct parts {
	struct span scheme;    /* with its ':' */
	struct span authority; /* with its "//" */
	struct span path;
	struct span query; /* with its '?' */
};

static bool is_scheme_char(char c)
{
	return ((c | 32) >= 'a' && (c | 32) <= 'z') || (c >= '0' && c <= '9') || c == '+' ||
	       c == '-' || c == '.';
}

static struct parts split(const char *text, size_t len)
{
	struct parts parts = {0};
	const char *end = text + len;
	size_t n = 0;

	while (n < len && is_scheme_char(text[n]))
		n++;
	if (n > 0 && n < len && text[n] == ':') {
		parts.scheme = (struct span){text, n + 1};
		text += n + 1;
	}
	if (end - text >= 2 && text[0] == '/' && text[1] == '/') {
		for (n = 2; text + n < end && text[n] != '/' && text[n] != '?'; n++)
			;
		parts.authority = (struct span){text, n};
		text += n;
	}
	for (n = 0; text + n < end && text[n] != '?'; n++)
		;
	parts.path = (struct span){text, n};
	parts.query = (struct span){text + n, (size_t)(end - text) - n};
	return parts;
}

/* Section 5.2.4, segment by segment; returns the new length. */
static size_t remove_dots(char *path, size_t len)
{
	size_t from = 0, to = 0;

	while (from < len) {
		size_t end = from + 1;
		size_t size;

		while (end < len && path[end] != '/')
			end++;
		size = end - from;
		if (size == 2 && memcmp(path + from, "/.", 2) == 0) {
			if (end == len)
				path[to++] = '/';
		} else if (size == 3 && memcmp(path + from, "/..", 3) == 0) {
			while (to > 0 && path[--to] != '/')
				;
			if (end == len)
				path[to++] = '/';
		} else {
			memmove(path + to, path + from, size);
			to += size;
		}
		from = end;
	}
	return to;
}

static char *join(const struct parts *parts, struct span directory)
{
	size_t head = parts->scheme.len + parts->authority.len;
	char *text = mem_zalloc(head + directory.len + parts->path.len + parts->query.len + 2);
	size_t path = 0;

	if (parts->scheme.len > 0)
		memcpy(text, parts->scheme.start, parts->scheme.len);
	if (parts->authority.len > 0)
		memcpy(text + parts->scheme.len, parts->authority.start, parts->authority.len);
	if (directory.len > 0)
		memcpy(text + head, directory.start, directory.len);
	path = directory.len;
	if (parts->authority.len > 0 && path == 0 && parts->path.len > 0 &&
	    parts->path.start[0] != '/')
		text[head + path++] = '/';
	if (parts->path.len > 0)
		memcpy(text + head + path, parts->path.start, parts->path.len);
	path = remove_dots(text + head, path + parts->path.len);
	if (parts->query.len > 0)
		memcpy(text + head + path, parts->query.start, parts->query.len);
	text[head + path + parts->query.len] = '\0';
	return text;
}

/* The base's path up to its last '/'. */
static struct span directory_of(struct span path)
{
	while (path.len > 0 && path.start[path.len - 1] != '/')
		path.len--;
	return path;
}

char *uri_resolve(const char *base, const char *reference, const char **ret_fragment)
{
	const char *hash = strchr(reference, '#');
	struct parts from = split(base, strcspn(base, "#"));
	struct parts to = split(reference, hash ? (size_t)(hash - reference) : strlen(reference));
	struct span directory = {0};

	*ret_fragment = hash ? hash + 1 : NULL;
	if (to.scheme.len > 0)
		return join(&to, directory);
	to.scheme = from.scheme;
	if (to.authority.len > 0)
		return join(&to, directory);
	to.authority = from.authority;
	if (to.path.len > 0) {
		if (to.path.start[0] != '/')
			directory = directory_of(from.path);
		return join(&to, directory);
	}
	to.path = from.path;
	if (to.query.len == 0)
		to.query = from.query;
	return join(&to, directory);
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if ((c | 32) >= 'a' && (c | 32) <= 'f')
		return (c | 32) - 'a' + 10;
	return -1;
}

bool uri_unescape(char *text)
{
	char *to = text;

	for (; *text; text++, to++) {
		int high, low;

		*to = *text;
		if (*text != '%')
			continue;
		high = hex_digit(text[1]);
		low = high < 0 ? -1 : hex_digit(text[2]);
		if (low < 0 || high * 16 + low == 0)
			return false;
		*to = (char)(high * 16 + low);
		text += 2;
	}
	*to = '\0';
	return true;
}

#include "model/domain.h"

#include <stdio.h>
#include <string.h>

#include "base/addr.h"
#include "base/str.h"
#include "model/punycode.h"

/* Names with a meaning of their own; no resolver may be asked for them. */
static const struct {
	const char *name;
	const char *why;
} own_names[] = {
	{"localhost", "means the sandbox itself, which needs no permission"},
	{"localhost.localdomain", "means the sandbox itself, which needs no permission"},
	{"cloche.internal", "holds the local services of a sandbox, which need no permission"},
};

static bool is_label_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

/* A label in lower-case ASCII; NULL: fine. */
static const char *check_label(const char *label, size_t len)
{
	if (len == 0)
		return "has an empty label (two dots, or one at the start)";
	if (len > DOMAIN_LABEL)
		return "has a label of more than 63 characters";
	if (label[0] == '-' || label[len - 1] == '-')
		return "has a label that begins or ends with '-'";
	for (size_t i = 0; i < len; i++) {
		if (!is_label_char(label[i]))
			return "holds a character that no host name has";
	}
	if (len > 4 && memcmp(label, "xn--", 4) == 0)
		return punycode_check(label, len);
	return NULL;
}

static bool is_ascii(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if ((unsigned char)text[i] >= 0x80)
			return false;
	}
	return true;
}

/* Appends one label in its normal form; NULL: done. */
static const char *add_label(char *name, size_t *used, const char *label, size_t len)
{
	char made[DOMAIN_LABEL + 1];
	const char *why;

	if (len > 4 * DOMAIN_LABEL)
		return "has a label of more than 63 characters";
	if (!is_ascii(label, len)) {
		why = punycode_from_utf8(label, len, made, sizeof(made));
		if (why != NULL)
			return why;
		len = strlen(made);
	} else {
		if (len > DOMAIN_LABEL)
			return "has a label of more than 63 characters";
		for (size_t i = 0; i < len; i++)
			made[i] = (char)(label[i] >= 'A' && label[i] <= 'Z' ? label[i] + 32
			                                                    : label[i]);
		why = check_label(made, len);
		if (why != NULL)
			return why;
	}
	if (*used + (*used > 0) + len >= DOMAIN_TEXT)
		return "has more than 253 characters";
	if (*used > 0)
		name[(*used)++] = '.';
	memcpy(name + *used, made, len);
	*used += len;
	name[*used] = '\0';
	return NULL;
}

/* "7" and "0x7f": as the last label it makes the whole an IPv4 address to some resolvers. */
static bool is_number(const char *label)
{
	if (str_has_prefix(label, "0x"))
		return label[2 + strspn(label + 2, "0123456789abcdef")] == '\0';
	return label[strspn(label, "0123456789")] == '\0';
}

static const char *check_whole(const char *name)
{
	const char *dot = strrchr(name, '.');

	if (dot == NULL)
		return "has one label only: at least two are needed";
	if (is_number(dot + 1))
		return "is not a name: it ends with a number";
	if (str_has_suffix(name, ".localhost"))
		return own_names[0].why;
	for (size_t i = 0; i < ARRAY_LEN(own_names); i++) {
		if (domain_covers(own_names[i].name, true, name))
			return own_names[i].why;
	}
	return NULL;
}

/* What people paste instead of a name, each with what to write. NULL: none of these. */
static const char *check_habits(const char *text)
{
	struct addr addr;
	struct addr_cidr cidr;

	if (addr_parse(text, &addr) || addr_parse_cidr(text, &cidr) || text[0] == '[')
		return "is an address: allow it with --allow-cidr ADDRESS/BITS (allowedCidrs)";
	if (strstr(text, "://") != NULL || strchr(text, '/') != NULL)
		return "is a URL: give the name of the host alone";
	if (strchr(text, '@') != NULL)
		return "has a user in it: give the name of the host alone";
	if (strcmp(text, "*") == 0)
		return "would allow every name: ask for --network full";
	return NULL;
}

/* Reads ":PORT" at the end; *len becomes the length before it. */
static const char *parse_port(const char *text, size_t *len, uint16_t *ret)
{
	const char *colon = strchr(text, ':');
	uint64_t port;

	*ret = 0;
	if (colon == NULL)
		return NULL;
	if (str_to_u64(colon + 1, &port) < 0 || port < 1 || port > UINT16_MAX)
		return "has no port of 1 to 65535 behind its ':'";
	*len = (size_t)(colon - text);
	*ret = (uint16_t)port;
	return NULL;
}

static const char *parse(const char *text, struct domain *ret)
{
	const char *why = check_habits(text);
	size_t used = 0, len;

	*ret = (struct domain){.is_wildcard = str_has_prefix(text, "*.")};
	if (why != NULL)
		return why;
	if (ret->is_wildcard)
		text += 2;
	if (strchr(text, '*') != NULL)
		return "may have '*' only once, as the whole first label: *.example.org";
	len = strlen(text);
	why = parse_port(text, &len, &ret->port);
	if (why != NULL)
		return why;
	if (len > 0 && text[len - 1] == '.')
		len--;
	if (len == 0)
		return "is empty";
	for (size_t at = 0; at <= len;) {
		const char *dot = memchr(text + at, '.', len - at);
		size_t label = dot != NULL ? (size_t)(dot - text) - at : len - at;

		why = add_label(ret->name, &used, text + at, label);
		if (why != NULL)
			return why;
		at += label + 1;
	}
	return check_whole(ret->name);
}

/* Copies without the blanks around it; false when nothing that long can be a name. */
static bool trim(const char *text, char *out, size_t size)
{
	size_t start = strspn(text, " \t\r\n"), len = strlen(text);

	while (len > start && strchr(" \t\r\n", text[len - 1]) != NULL)
		len--;
	if (len - start >= size)
		return false;
	memcpy(out, text + start, len - start);
	out[len - start] = '\0';
	return true;
}

static const char *parse_entry(const char *text, struct domain *ret)
{
	char trimmed[4 * DOMAIN_TEXT];

	return trim(text, trimmed, sizeof(trimmed)) ? parse(trimmed, ret)
	                                            : "has more than 253 characters";
}

int domain_parse(const char *text, struct domain *ret, struct err *err)
{
	const char *why = parse_entry(text, ret);
	char shown[80];

	if (why == NULL)
		return 0;
	str_escape(shown, sizeof(shown), text, strlen(text));
	return err_set(err, ERR_INVALID, "'%s' %s", shown, why);
}

bool domain_fold(const char *text, char ret[DOMAIN_TEXT])
{
	size_t len = strlen(text), label = 0;

	if (len > 0 && text[len - 1] == '.')
		len--;
	if (len == 0 || len >= DOMAIN_TEXT)
		return false;
	for (size_t i = 0; i < len; i++) {
		char c = (char)(text[i] >= 'A' && text[i] <= 'Z' ? text[i] + 32 : text[i]);

		if (c == '.' ? label == 0 : !is_label_char(c))
			return false;
		label = c == '.' ? 0 : label + 1;
		if (label > DOMAIN_LABEL)
			return false;
		ret[i] = c;
	}
	ret[len] = '\0';
	return label > 0;
}

bool domain_is_normal(const char *name)
{
	struct domain again;

	return strlen(name) < DOMAIN_TEXT && parse(name, &again) == NULL && !again.is_wildcard &&
	       again.port == 0 && str_eq(again.name, name);
}

bool domain_covers(const char *name, bool is_wildcard, const char *host)
{
	size_t name_len = strlen(name), host_len = strlen(host);

	if (host_len == name_len)
		return memcmp(name, host, name_len) == 0;
	return is_wildcard && host_len > name_len && host[host_len - name_len - 1] == '.' &&
	       memcmp(host + host_len - name_len, name, name_len) == 0;
}

void domain_format(char *out, size_t size, const char *name, bool is_wildcard)
{
	snprintf(out, size, "%s%s", is_wildcard ? "*." : "", name);
}

void domain_format_entry(char *out, size_t size, const struct domain *domain)
{
	domain_format(out, size, domain->name, domain->is_wildcard);
	if (domain->port != 0)
		snprintf(out + strlen(out), size - strlen(out), ":%u", domain->port);
}

/* "allowedDomains: entry 2, 7-9: 'x' why". */
static int refuse_entries(const char *what, const struct strings *list, const size_t *bad,
                          size_t count, struct err *err)
{
	char positions[STRINGS_POSITIONS], shown[40];
	struct domain ignored;

	strings_format_positions(positions, sizeof(positions), bad, count);
	str_escape(shown, sizeof(shown), list->items[bad[0]], strlen(list->items[bad[0]]));
	return err_set(err, ERR_INVALID, "%s: entry %s: '%s' %s", what, positions, shown,
	               parse_entry(list->items[bad[0]], &ignored));
}

int domain_parse_list(const char *what, const struct strings *list, struct strings *ret,
                      struct err *err)
{
	struct strings made = {0};
	size_t bad[DOMAIN_LIST], bad_count = 0;

	if (list->count > DOMAIN_LIST)
		return err_set(err, ERR_INVALID, "%s: %zu entries are more than %d", what,
		               list->count, DOMAIN_LIST);
	for (size_t i = 0; i < list->count; i++) {
		char text[DOMAIN_ENTRY_TEXT];
		struct domain domain;

		if (parse_entry(list->items[i], &domain) != NULL) {
			bad[bad_count++] = i;
			continue;
		}
		domain_format_entry(text, sizeof(text), &domain);
		if (!strings_has(&made, text))
			strings_add(&made, text);
	}
	if (bad_count > 0) {
		strings_done(&made);
		return refuse_entries(what, list, bad, bad_count, err);
	}
	strings_done(ret);
	*ret = made;
	return 0;
}

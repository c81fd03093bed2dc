#include "model/service.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/addr.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/str.h"
#include "model/domain.h"
#include "model/spec.h"

static const char *const all_methods[] = {"GET",   "HEAD",   "POST",    "PUT",
                                          "PATCH", "DELETE", "OPTIONS", NULL};

/* Whoever sets these decides where a request ends or whom it is for. */
static const char *const own_headers[] = {"Host",    "Content-Length", "Transfer-Encoding",
                                          "Upgrade", "Connection",     "Expect",
                                          "TE",      "Trailer",        NULL};

struct service *service_new(const char *name)
{
	struct service *service = mem_new(struct service);

	service->name = mem_strdup(name);
	service->origin = mem_strdup("api");
	service->response_bytes = SERVICE_RESPONSE_BYTES;
	service->timeout_ms = SERVICE_TIMEOUT_MS;
	service->visibility = VISIBILITY_PRIVATE;
	return service;
}

struct service *service_copy(const struct service *service)
{
	struct service *copy = mem_new(struct service);
	struct strings *lists[] = {&copy->headers, &copy->methods, &copy->paths};
	char **texts[] = {&copy->name,   &copy->origin, &copy->upstream,
	                  &copy->secret, &copy->owner,  &copy->team};

	*copy = *service;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		*texts[i] = *texts[i] ? mem_strdup(*texts[i]) : NULL;
	for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
		struct strings borrowed = *lists[i];

		*lists[i] = (struct strings){0};
		strings_copy(lists[i], &borrowed);
	}
	return copy;
}

void service_free(struct service *service)
{
	if (!service)
		return;
	free(service->name);
	free(service->origin);
	free(service->upstream);
	free(service->secret);
	free(service->owner);
	free(service->team);
	strings_done(&service->headers);
	strings_done(&service->methods);
	strings_done(&service->paths);
	free(service);
}

void service_freep(struct service **service)
{
	service_free(*service);
	*service = NULL;
}

/* --- checks --- */

static int lowered(char c)
{
	return tolower((unsigned char)c);
}

/* As strncasecmp would have it, whose header our own strings.h hides here. */
static bool is_same(const char *a, const char *b, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (lowered(a[i]) != lowered(b[i]))
			return false;
		if (a[i] == '\0')
			break;
	}
	return true;
}

int service_check_name(const char *name, struct err *err)
{
	size_t len = strlen(name);
	bool is_label = len > 0 && len <= SERVICE_NAME && name[0] != '-' && name[len - 1] != '-';
	char shown[80];

	for (size_t i = 0; is_label && i < len; i++)
		is_label = islower((unsigned char)name[i]) || isdigit((unsigned char)name[i]) ||
		           name[i] == '-';
	str_escape(shown, sizeof(shown), name, len);
	if (!is_label)
		return err_set(err, ERR_INVALID,
		               "'%s' is no name of a service: small letters, digits and '-', at "
		               "most %d",
		               shown, SERVICE_NAME);
	if (str_eq(name, SERVICE_API))
		return err_set(err, ERR_INVALID, "api.cloche.internal is the API itself");
	if (str_eq(name, "git"))
		return err_set(err, ERR_INVALID,
		               "git.cloche.internal is where runs reach their repository: see "
		               "[forges] of config.toml");
	if (str_eq(name, "llm"))
		return err_set(err, ERR_INVALID,
		               "llm.cloche.internal is the model gateway: see `cloche provider`");
	return 0;
}

bool service_of_host(const char *host, char ret[SERVICE_LABEL])
{
	size_t len = strcspn(host, ":"), tail = sizeof(SERVICE_DOMAIN) - 1;

	if (len > 0 && host[len - 1] == '.')
		len--;
	if (len <= tail || !is_same(host + len - tail, SERVICE_DOMAIN, tail))
		return false;
	/* No service has a longer name. */
	len = MIN(len - tail, (size_t)SERVICE_LABEL - 1);
	for (size_t i = 0; i < len; i++)
		ret[i] = (char)tolower((unsigned char)host[i]);
	ret[len] = '\0';
	return !str_eq(ret, SERVICE_API);
}

static bool is_path_char(char c)
{
	return isalnum((unsigned char)c) || strchr("-._~!$&'()*+,;=:@/%", c) != NULL;
}

/* "host", "host:port", "[v6]:port"; writes the normal form. */
static int check_authority(const char *text, size_t len, char *out, size_t size, struct err *err)
{
	char host[DOMAIN_TEXT] = "", folded[DOMAIN_TEXT];
	bool is_v6 = len > 0 && text[0] == '[';
	const char *end = is_v6 ? memchr(text, ']', len) : memchr(text, ':', len);
	size_t host_len = end ? (size_t)(end - text) - is_v6 : len;
	const char *port = end ? end + is_v6 : text + len;
	uint64_t number = 0;
	struct addr addr;

	if ((is_v6 && !end) || host_len == 0 || host_len >= sizeof(host))
		return err_set(err, ERR_INVALID, "a host is needed");
	memcpy(host, text + is_v6, host_len);
	if (port < text + len) {
		auto_free char *digits = mem_strndup(port + 1, (size_t)(text + len - port) - 1);

		if (*port != ':' || str_to_u64(digits, &number) < 0 || number < 1 ||
		    number > UINT16_MAX)
			return err_set(err, ERR_INVALID, "the port is no number");
	}
	if (addr_parse(host, &addr) ? addr_is_v4(&addr) == is_v6 : is_v6)
		return err_set(err, ERR_INVALID, "'%.80s' is no address", host);
	if (addr_parse(host, &addr))
		addr_format(folded, sizeof(folded), &addr);
	else if (!domain_fold(host, folded))
		return err_set(err, ERR_INVALID, "'%.80s' is no name of a host", host);
	(void)snprintf(out, size, is_v6 ? "[%s]" : "%s", folded); /* fits */
	if (number)
		(void)snprintf(out + strlen(out), size - strlen(out), ":%u", (unsigned)number);
	return 0;
}

static const char *scheme_of(const char *url)
{
	if (url && is_same(url, "https://", 8))
		return "https://";
	return url && is_same(url, "http://", 7) ? "http://" : NULL;
}

static int check_url(char **url, struct err *err)
{
	const char *scheme = scheme_of(*url), *text = *url;
	char authority[DOMAIN_TEXT + 16];
	const char *path;
	size_t len;

	if (!scheme || strlen(text) > SERVICE_URL)
		return err_set(err, ERR_INVALID, "an http:// or https:// URL is needed");
	text += strlen(scheme);
	len = strcspn(text, "/?#");
	path = text + len;
	if (memchr(text, '@', len))
		return err_set(err, ERR_INVALID,
		               "no name or password in the URL; use headers and secret");
	if (strpbrk(path, "?#"))
		return err_set(err, ERR_INVALID, "neither query nor fragment");
	for (const char *at = path; *at; at++) {
		if (!is_path_char(*at))
			return err_set(err, ERR_INVALID, "the path must be encoded");
	}
	if (check_authority(text, len, authority, sizeof(authority), err) < 0)
		return -1;
	len = strlen(path);
	while (len > 0 && path[len - 1] == '/')
		len--;
	char *normal = mem_printf("%s%s%.*s", scheme, authority, (int)len, path);

	free(*url);
	*url = normal;
	return 0;
}

int service_check_url(const char *what, char **url, struct err *err)
{
	return check_url(url, err) < 0 ? err_wrap(err, "%s", what) : 0;
}

bool service_is_value(const char *text)
{
	for (const unsigned char *at = (const unsigned char *)text; *at; at++) {
		if ((*at < ' ' && *at != '\t') || *at == 0x7f)
			return false;
	}
	return true;
}

static bool is_token(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (!isalnum((unsigned char)text[i]) && !strchr("!#$%&'*+-.^_`|~", text[i]))
			return false;
	}
	return len > 0;
}

static int check_headers(const struct service *service, struct err *err)
{
	for (size_t i = 0; i < service->headers.count; i++) {
		const char *text = service->headers.items[i];
		const char *colon = strchr(text, ':');
		size_t len = colon ? (size_t)(colon - text) : 0;

		if (!is_token(text, len) || !service_is_value(text) || strlen(text) > SERVICE_VALUE)
			return err_set(err, ERR_INVALID,
			               "headers: entry %zu is not \"Name: value\"", i + 1);
		for (size_t k = 0; own_headers[k]; k++) {
			if (len == strlen(own_headers[k]) && is_same(text, own_headers[k], len))
				return err_set(err, ERR_INVALID, "headers: entry %zu: %s is ours",
				               i + 1, own_headers[k]);
		}
		if (!service->secret && strstr(text, SERVICE_SLOT))
			return err_set(err, ERR_INVALID,
			               "headers: entry %zu has " SERVICE_SLOT
			               ", but there is no secret",
			               i + 1);
	}
	return 0;
}

int service_check_secret(const char *secret, struct err *err)
{
	if (!secret || str_eq(secret, SERVICE_SEALED))
		return 0;
	if (strlen(secret) > SERVICE_VALUE || !service_is_value(secret))
		return err_set(err, ERR_INVALID, "secret: not a reference");
	bool is_env = str_has_prefix(secret, "env:") && is_token(secret + 4, strlen(secret + 4));
	if (is_env && str_has_prefix(secret + 4, SERVICE_VARIABLE))
		return 0;
	if (is_env)
		return err_set(err, ERR_INVALID,
		               "secret: the daemon has those variables alone that begin "
		               "with " SERVICE_VARIABLE ": env:" SERVICE_VARIABLE "NAME");
	if (str_has_prefix(secret, "file:/"))
		return 0;
	/* It may be the secret itself: not a letter of it is repeated. */
	return err_set(err, ERR_INVALID,
	               "secret: a reference is env:" SERVICE_VARIABLE
	               "NAME, file:/PATH or " SERVICE_SEALED);
}

static void raise_case(char *text)
{
	for (; *text; text++)
		*text = (char)toupper((unsigned char)*text);
}

static int check_methods(struct strings *methods, struct err *err)
{
	for (size_t i = 0; i < methods->count; i++) {
		bool is_known = false;

		raise_case(methods->items[i]);
		for (size_t k = 0; all_methods[k]; k++)
			is_known = is_known || str_eq(all_methods[k], methods->items[i]);
		if (!is_known)
			return err_set(err, ERR_INVALID,
			               "methods: entry %zu is none of GET, HEAD, POST, PUT, PATCH, "
			               "DELETE, OPTIONS",
			               i + 1);
	}
	return 0;
}

static int check_paths(const struct strings *paths, struct err *err)
{
	for (size_t i = 0; i < paths->count; i++) {
		const char *text = paths->items[i];

		if (text[0] != '/' || strlen(text) > SERVICE_VALUE || strpbrk(text, "?#%\\") ||
		    !service_is_value(text))
			return err_set(err, ERR_INVALID,
			               "paths: entry %zu is no pattern such as /v1/* or /v1/**",
			               i + 1);
	}
	return 0;
}

int service_normalise(struct service *service, struct err *err)
{
	const struct strings *lists[] = {&service->headers, &service->methods, &service->paths};

	for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
		if (lists[i]->count > SERVICE_LIST)
			return err_set(err, ERR_INVALID, "a list has more than %d entries",
			               SERVICE_LIST);
	}
	if (service->response_bytes == 0 || service->timeout_ms == 0)
		return err_set(err, ERR_INVALID, "a limit of 0 lets nothing through");
	if (service_check_url("upstream", &service->upstream, err) < 0 ||
	    service_check_secret(service->secret, err) < 0 || check_headers(service, err) < 0 ||
	    check_methods(&service->methods, err) < 0)
		return -1;
	return check_paths(&service->paths, err);
}

/* --- whose --- */

struct ownership service_ownership(const struct service *service)
{
	return (struct ownership){service->owner ? service->owner : ACCESS_OPERATOR,
	                          service->team ? service->team : ACCESS_TEAM, service->visibility};
}

bool service_serves(const struct service *service, const char *owner, const char *team)
{
	struct ownership whose = service_ownership(service);

	if (whose.visibility == VISIBILITY_GLOBAL)
		return true;
	if (!str_eq(whose.team, team ? team : ACCESS_TEAM))
		return false;
	return whose.visibility == VISIBILITY_TEAM ||
	       str_eq(whose.owner, owner ? owner : ACCESS_OPERATOR);
}

/* --- what may be asked --- */

char *service_path(const char *target)
{
	return mem_strndup(target, strcspn(target, "?#"));
}

static int hex_of(char c)
{
	if (isdigit((unsigned char)c))
		return c - '0';
	return isxdigit((unsigned char)c) ? tolower((unsigned char)c) - 'a' + 10 : -1;
}

/* Decodes in place; false for what two readers could read in two ways. */
static bool decode_path(char *path)
{
	char *to = path;

	for (const char *from = path; *from; from++) {
		char c = *from;

		if (c == '%') {
			int high = hex_of(from[1]), low = high < 0 ? -1 : hex_of(from[2]);

			if (low < 0)
				return false;
			c = (char)(high * 16 + low);
			if (c == '/' || c == '\\' || c == '%' || (unsigned char)c < ' ' ||
			    c == 0x7f)
				return false;
			from += 2;
		} else if (!is_path_char(c) && !((unsigned char)c & 0x80) &&
		           !strchr("\"<>[]^`{|}", c)) {
			return false;
		}
		*to++ = c;
	}
	*to = '\0';
	return path[0] == '/';
}

static bool has_dots(const char *path)
{
	for (const char *at = path; (at = strchr(at, '/'));) {
		size_t len = strcspn(++at, "/;");

		if ((len == 1 && at[0] == '.') || (len == 2 && at[0] == '.' && at[1] == '.'))
			return true;
	}
	return strstr(path, "//") != NULL;
}

/* '*' is any text without a slash, "**" any text. Linear in time for each star: the last one that
 * can move is the only one that need be tried again. */
static bool matches(const char *pattern, const char *path)
{
	const char *star = NULL, *retry = NULL, *deep = NULL, *deep_retry = NULL;

	while (*path) {
		if (pattern[0] == '*' && pattern[1] == '*') {
			deep = pattern += 2;
			deep_retry = path;
			star = NULL;
		} else if (pattern[0] == '*') {
			star = ++pattern;
			retry = path;
		} else if (*pattern == *path) {
			pattern++;
			path++;
		} else if (star && *retry != '/') {
			path = ++retry;
			pattern = star;
		} else if (deep) {
			path = ++deep_retry;
			pattern = deep;
			star = NULL;
		} else {
			return false;
		}
	}
	while (*pattern == '*')
		pattern++;
	return *pattern == '\0';
}

int service_allows(const struct service *service, const char *method, const char *target,
                   struct err *err)
{
	auto_free char *path = service_path(target);
	bool is_allowed = service->paths.count == 0;
	bool is_method = false;

	for (size_t i = 0; all_methods[i]; i++)
		is_method = is_method || str_eq(all_methods[i], method);
	if (!is_method || (service->methods.count > 0 && !strings_has(&service->methods, method)))
		return err_set(err, ERR_FORBIDDEN, "service %s does not take this method",
		               service->name);
	if (strlen(target) > 8 * SERVICE_URL || !decode_path(path) || has_dots(path))
		return err_set(err, ERR_INVALID, "the path is not in its plain form");
	for (size_t i = 0; i < service->paths.count; i++)
		is_allowed = is_allowed || matches(service->paths.items[i], path);
	if (!is_allowed)
		return err_set(err, ERR_FORBIDDEN, "service %s does not have this path",
		               service->name);
	return 0;
}

char *service_fill(const char *value, const char *slot, const char *secret)
{
	size_t size = strlen(value) + 1, slot_len = strlen(slot), secret_len = strlen(secret);
	char *out, *to;

	for (const char *at = value; (at = strstr(at, slot)); at += slot_len)
		size += secret_len;
	out = to = mem_zalloc(size);
	for (const char *at; (at = strstr(value, slot)); value = at + slot_len) {
		to = (char *)mempcpy(to, value, (size_t)(at - value));
		to = (char *)mempcpy(to, secret, secret_len);
	}
	memcpy(to, value, strlen(value) + 1);
	return out;
}

const char *service_foreign_placeholder(const char *text, const char *name)
{
	size_t head = sizeof(SERVICE_PLACEHOLDER) - 1, len = name ? strlen(name) : 0;

	for (const char *at = text; (at = strcasestr(at, SERVICE_PLACEHOLDER)); at += head) {
		const char *end = at + head;

		while (islower((unsigned char)*end) || isdigit((unsigned char)*end) || *end == '-')
			end++;
		if (!name || (size_t)(end - at) != head + len || strncmp(at + head, name, len) != 0)
			return at;
	}
	return NULL;
}

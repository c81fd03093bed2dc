#include "gateway/llm_api.h"

#include <jansson.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/str.h"

enum shape { OPENAI, ANTHROPIC, GEMINI };

static const struct {
	const char *method, *path;
	enum provider_kind kind;
	enum shape shape;
	bool is_counted;
} apis[] = {
#define LLM_API(id, method, path, kind, shape, is_counted)                                         \
	{method, path, PROVIDER_##kind, shape, is_counted},
#include "gateway/llm_apis.def"
#undef LLM_API
};

static const struct {
	int status;
	const char *words[3];
} errors[] = {
#define LLM_ERROR(status, openai, anthropic, gemini) {status, {openai, anthropic, gemini}},
#include "gateway/llm_errors.def"
#undef LLM_ERROR
};

/* --- what is asked for --- */

/* The query without what could be a key. */
static char *read_query(const char *query)
{
	char *kept = mem_zalloc(strlen(query) + 2), *to = kept;

	for (const char *at = query; *at; at += *at != '\0') {
		size_t len = strcspn(at, "&");

		if (len > 0 && strncasecmp(at, "key=", 4) != 0) {
			*to = to == kept ? '?' : '&';
			to++;
			to = (char *)mempcpy(to, at, len);
		}
		at += len;
		if (!*at)
			break;
	}
	return kept;
}

static bool is_model_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       strchr("-._/", c) != NULL;
}

/* "MODEL:action" behind the path. */
static bool read_action(const char *rest, size_t len, struct llm_target *ret)
{
	static const char *const actions[] = {"generateContent", "streamGenerateContent",
	                                      "countTokens", NULL};
	const char *colon = memchr(rest, ':', len);
	size_t model_len = colon ? (size_t)(colon - rest) : 0;

	if (model_len == 0)
		return false;
	for (size_t i = 0; i < model_len; i++) {
		if (!is_model_char(rest[i]) || (rest[i] == '.' && rest[i + 1] == '.'))
			return false;
	}
	for (size_t i = 0; actions[i]; i++) {
		if (strlen(actions[i]) != len - model_len - 1 ||
		    strncmp(actions[i], colon + 1, len - model_len - 1) != 0)
			continue;
		ret->model = mem_strndup(rest, model_len);
		ret->action = mem_strdup(actions[i]);
		ret->is_counted = !str_eq(actions[i], "countTokens");
		return true;
	}
	return false;
}

void llm_target_read(const char *target, struct llm_target *ret)
{
	size_t len = strcspn(target, "?");

	*ret = (struct llm_target){.api = LLM_API_COUNT_};
	for (size_t i = 0; i < ARRAY_LEN(apis); i++) {
		size_t size = strlen(apis[i].path);

		if (len < size || strncmp(target, apis[i].path, size) != 0)
			continue;
		ret->is_counted = apis[i].is_counted;
		if (apis[i].path[size - 1] == '/' ? !read_action(target + size, len - size, ret)
		                                  : len != size)
			continue;
		ret->api = (enum llm_api)i;
		break;
	}
	ret->query = read_query(target[len] ? target + len + 1 : "");
}

void llm_target_done(struct llm_target *target)
{
	mem_freep(&target->model);
	mem_freep(&target->action);
	mem_freep(&target->query);
}

const char *llm_api_method(enum llm_api api)
{
	return api == LLM_API_COUNT_ ? "POST" : apis[api].method;
}

const char *llm_api_path(enum llm_api api)
{
	return api == LLM_API_COUNT_ ? "" : apis[api].path;
}

enum provider_kind llm_api_kind(enum llm_api api)
{
	return api == LLM_API_COUNT_ ? PROVIDER_OPENAI : apis[api].kind;
}

/* --- where it leads --- */

/* Most people write the version into the URL and some do not. */
static const char *below(const struct provider *provider, const char *path)
{
	const char *url = provider->base_url;
	const char *host = strstr(url, "://");
	const char *own = host ? strchr(host + 3, '/') : NULL;
	size_t version = 1 + strcspn(path + 1, "/");

	if (!own)
		return path;
	if (provider->kind == PROVIDER_OPENAI)
		return path + version;
	return strlen(own) >= version && strncmp(own + strlen(own) - version, path, version) == 0
	               ? path + version
	               : path;
}

char *llm_target_url(const struct llm_target *target, const struct provider *provider,
                     const char *model)
{
	const char *path = below(provider, apis[target->api].path);

	if (!target->action)
		return mem_printf("%s%s%s", provider->base_url, path, target->query);
	return mem_printf("%s%s%s:%s%s", provider->base_url, path, model, target->action,
	                  target->query);
}

char *llm_models_url(const struct provider *provider)
{
	return mem_printf("%s%s", provider->base_url,
	                  below(provider, provider->kind == PROVIDER_GEMINI ? "/v1beta/models"
	                                                                    : "/v1/models"));
}

char *llm_key_header(const struct provider *provider, const char *key)
{
	switch (provider->kind) {
	case PROVIDER_ANTHROPIC:
		return mem_printf("x-api-key: %s", key);
	case PROVIDER_GEMINI:
		return mem_printf("x-goog-api-key: %s", key);
	case PROVIDER_OPENAI:
	case PROVIDER_KIND_COUNT_:
		break;
	}
	return mem_printf("Authorization: Bearer %s", key);
}

/* --- errors --- */

static const char *word_of(int status, enum shape shape)
{
	size_t i = 0;

	while (errors[i].status != status && errors[i].status != 0)
		i++;
	return errors[i].words[shape];
}

char *llm_error(enum llm_api api, int status, const char *message, bool is_event)
{
	enum shape shape = api == LLM_API_COUNT_ ? OPENAI : apis[api].shape;
	const char *word = word_of(status, shape);
	auto_free char *text = NULL;
	json_t *json;

	if (shape == ANTHROPIC)
		json = json_pack("{s:s, s:{s:s, s:s}}", "type", "error", "error", "type", word,
		                 "message", message);
	else if (shape == GEMINI)
		json = json_pack("{s:{s:i, s:s, s:s}}", "error", "code", status, "message", message,
		                 "status", word);
	else if (is_event && api == LLM_RESPONSES)
		json = json_pack("{s:s, s:s, s:s, s:n, s:i}", "type", "error", "code", word,
		                 "message", message, "param", "sequence_number", 0);
	else
		json = json_pack("{s:{s:s, s:s, s:n, s:s}}", "error", "message", message, "type",
		                 word, "param", "code", word);
	text = json ? json_dumps(json, JSON_COMPACT) : NULL;
	json_decref(json);
	if (!is_event)
		return text ? take_ptr(text) : mem_strdup("{}");
	return mem_printf("%sdata: %s\n\n",
	                  shape == ANTHROPIC || api == LLM_RESPONSES ? "event: error\n" : "",
	                  text ? text : "{}");
}

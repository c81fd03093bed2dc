/*
 * Two readers of one text must not find two different models in it: a name that decides something
 * and comes twice is refused, and names are compared as they are decoded.
 */
#include "gateway/llm_body.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/str.h"
#include "gateway/json_scan.h"

struct reading {
	struct llm_body *body;
	const char *twice;  /* the name of a field that came again */
	bool is_object;     /* the whole */
	bool is_background; /* would be answered before it is done */
	bool has_bad_model;
	const char *alike; /* a name that comes in other letters, as some readers take it too */
	bool has_options, has_stream;
	unsigned seen;
};

static void once(struct reading *reading, bool is_again, const char *name)
{
	if (is_again)
		reading->twice = name;
}

static void find_alike(struct reading *reading, const char *path)
{
	static const char *const names[] = {"model", "stream", "stream_options"};

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		if (strcasecmp(path, names[i]) == 0 && !str_eq(path, names[i]))
			reading->alike = names[i];
	}
}

static void take_model(struct reading *reading, const struct json_scan_value *value)
{
	struct llm_body *body = reading->body;

	once(reading, body->model_at.end > 0, "model");
	body->model_at = (struct llm_span){(size_t)value->from, (size_t)value->end};
	if (value->kind == JSON_SCAN_NULL)
		return;
	reading->has_bad_model = value->kind != JSON_SCAN_STRING || !value->is_whole ||
	                         !str_copy(body->model, sizeof(body->model), value->text);
}

static void take_options(struct reading *reading, const struct json_scan_value *value)
{
	struct llm_body *body = reading->body;

	once(reading, reading->has_options, "stream_options");
	reading->has_options = true;
	body->options_at = (struct llm_span){(size_t)value->from, (size_t)value->end};
	body->is_options_object = value->kind == JSON_SCAN_OBJECT;
	body->is_options_empty = true;
}

/* What bounds an answer. Of names that mean the same the largest counts, whichever of them the
 * provider reads. */
static void take_limit(struct llm_body *body, const struct json_scan_value *value)
{
	enum { TOKENS_MOST = 100 * 1000 * 1000, ANSWERS_MOST = 1000 };
	static const struct {
		const char *path;
		size_t field;
		double most;
	} limits[] = {
		{"max_tokens", offsetof(struct llm_body, max_tokens), TOKENS_MOST},
		{"max_completion_tokens", offsetof(struct llm_body, max_tokens), TOKENS_MOST},
		{"max_output_tokens", offsetof(struct llm_body, max_tokens), TOKENS_MOST},
		{"generationConfig.maxOutputTokens", offsetof(struct llm_body, max_tokens),
	         TOKENS_MOST},
		{"generation_config.max_output_tokens", offsetof(struct llm_body, max_tokens),
	         TOKENS_MOST},
		{"n", offsetof(struct llm_body, answers), ANSWERS_MOST},
		{"generationConfig.candidateCount", offsetof(struct llm_body, answers),
	         ANSWERS_MOST},
		{"generation_config.candidate_count", offsetof(struct llm_body, answers),
	         ANSWERS_MOST},
	};

	for (size_t i = 0; i < ARRAY_LEN(limits); i++) {
		uint64_t *field = (uint64_t *)((char *)body + limits[i].field);
		double number;

		if (!str_eq(value->path, limits[i].path))
			continue;
		number = strtod(value->text, NULL);
		if (number > 0)
			*field = MAX(*field, (uint64_t)MIN(number, limits[i].most));
	}
}

static void on_value(const struct json_scan_value *value, void *ctx)
{
	struct reading *reading = ctx;
	struct llm_body *body = reading->body;

	if (value->depth == 0) {
		reading->is_object = value->kind == JSON_SCAN_OBJECT;
		body->inside = (size_t)value->end;
		body->is_empty = true;
		return;
	}
	if (value->kind == JSON_SCAN_NUMBER && value->depth <= 2)
		take_limit(body, value);
	if (value->depth == 1) {
		body->is_empty = false;
		find_alike(reading, value->path);
		if (str_eq(value->path, "model")) {
			take_model(reading, value);
		} else if (str_eq(value->path, "stream")) {
			once(reading, reading->has_stream, "stream");
			reading->has_stream = true;
			body->is_stream = value->kind == JSON_SCAN_TRUE;
		} else if (str_eq(value->path, "stream_options")) {
			take_options(reading, value);
		} else if (str_eq(value->path, "background")) {
			reading->is_background =
				reading->is_background || value->kind == JSON_SCAN_TRUE;
		}
		return;
	}
	if (value->depth == 2 && str_has_prefix(value->path, "stream_options."))
		body->is_options_empty = false;
	if (value->depth == 2 && str_eq(value->path, "stream_options.include_usage")) {
		once(reading, body->usage_at.end > 0, "stream_options.include_usage");
		body->usage_at = (struct llm_span){(size_t)value->from, (size_t)value->end};
		body->has_usage = value->kind == JSON_SCAN_TRUE;
	}
}

int llm_body_read(struct llm_body *body, enum llm_api api, const char *bytes, size_t len,
                  struct err *err)
{
	struct reading reading = {.body = body};
	struct json_scan scan;

	*body = (struct llm_body){.api = api, .bytes = bytes, .len = len};
	json_scan_init(&scan, on_value, &reading);
	if (!json_scan_feed(&scan, bytes, len) || !json_scan_end(&scan) || !reading.is_object)
		return err_set(err, ERR_INVALID, "the body is not a JSON object");
	if (reading.twice)
		return err_set(err, ERR_INVALID, "'%s' is there twice", reading.twice);
	if (reading.alike)
		return err_set(err, ERR_INVALID, "'%s' is to be written in small letters",
		               reading.alike);
	if (reading.has_bad_model)
		return err_set(err, ERR_INVALID, "'model' is not a name");
	if (api == LLM_RESPONSES && reading.is_background)
		return err_set(err, ERR_INVALID,
		               "'background' is not offered: what it uses could not be counted");
	return 0;
}

/* One change of the bytes. */
struct patch {
	struct llm_span at; /* what it stands for; of an insertion both ends are the same */
	char text[600];
};

static int quote(char *to, size_t size, const char *text)
{
	char *at = to, *end = to + size - 3;

	*at++ = '"';
	for (; *text; text++) {
		if (at >= end || (unsigned char)*text < ' ')
			return -ENOBUFS;
		if (*text == '"' || *text == '\\')
			*at++ = '\\';
		*at++ = *text;
	}
	*at++ = '"';
	*at = '\0';
	return 0;
}

static int patch_model(const struct llm_body *body, const char *model, struct patch *ret)
{
	char quoted[520];
	int r = quote(quoted, sizeof(quoted), model);

	if (r < 0)
		return r;
	if (body->model_at.end > 0) {
		ret->at = body->model_at;
		(void)snprintf(ret->text, sizeof(ret->text), "%s", quoted); /* fits */
	} else {
		ret->at = (struct llm_span){body->inside, body->inside};
		(void)snprintf(ret->text, sizeof(ret->text), "\"model\":%s%s", quoted,
		               body->is_empty ? "" : ","); /* fits */
	}
	return 1;
}

static int patch_usage(const struct llm_body *body, struct patch *ret)
{
	const char *text;

	if (body->api != LLM_CHAT || !body->is_stream || body->has_usage)
		return 0;
	if (body->usage_at.end > 0) {
		ret->at = body->usage_at;
		text = "true";
	} else if (body->is_options_object) {
		ret->at = (struct llm_span){body->options_at.end, body->options_at.end};
		text = body->is_options_empty ? "\"include_usage\":true"
		                              : "\"include_usage\":true,";
	} else if (body->options_at.end > 0) {
		ret->at = body->options_at;
		text = "{\"include_usage\":true}";
	} else {
		/* Not empty: it has "stream". */
		ret->at = (struct llm_span){body->inside, body->inside};
		text = "\"stream_options\":{\"include_usage\":true},";
	}
	(void)snprintf(ret->text, sizeof(ret->text), "%s", text); /* fits */
	return 1;
}

int llm_body_write(const struct llm_body *body, const char *model, struct buf *ret)
{
	struct patch patches[2];
	size_t count = 0, at = 0;
	int r = model && !str_eq(model, body->model) ? patch_model(body, model, &patches[0]) : 0;

	if (r < 0)
		return r;
	count = (size_t)r;
	count += (size_t)patch_usage(body, &patches[count]);
	if (count == 2 && patches[1].at.from < patches[0].at.from) {
		struct patch swap = patches[0];

		patches[0] = patches[1];
		patches[1] = swap;
	}
	for (size_t i = 0; i < count; i++) {
		if (buf_put(ret, body->bytes + at, patches[i].at.from - at) < 0 ||
		    buf_puts(ret, patches[i].text) < 0)
			return -ENOBUFS;
		at = patches[i].at.end;
	}
	return buf_put(ret, body->bytes + at, body->len - at);
}

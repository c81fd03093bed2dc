#include "api/encode.h"

#include <stdio.h>

#include "base/buf.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/must.h"
#include "base/str.h"
#include "http/base64.h"
#include "model/config.h"
#include "model/event.h"
#include "model/exec.h"
#include "model/image.h"
#include "model/sandbox.h"
#include "model/task.h"
#include "wire/record.h"

json_t *encode_text(const char *text)
{
	return text && *text ? encode_bytes(text, strlen(text), NULL) : json_null();
}

json_t *encode_time(uint64_t real_ms)
{
	char text[32];

	if (real_ms == 0)
		return json_null();
	io_format_time(text, sizeof(text), real_ms);
	return json_string(text);
}

/* Length of the valid UTF-8 sequence at the front, or 0. */
static size_t sequence_len(const uint8_t *bytes, size_t len)
{
	for (size_t n = 1; n <= 4 && n <= len; n++) {
		if (str_is_utf8(bytes, n))
			return n;
	}
	return 0;
}

static void replace_invalid(struct buf *to, const uint8_t *bytes, size_t len)
{
	for (size_t at = 0; at < len;) {
		size_t n = bytes[at] < 0x80 ? 1 : sequence_len(bytes + at, len - at);

		/* The buffer has room for three bytes each. */
		if (n > 0)
			must(buf_put(to, bytes + at, n) == 0);
		else
			must(buf_put(to, "\xef\xbf\xbd", 3) == 0);
		at += n > 0 ? n : 1;
	}
}

json_t *encode_bytes(const void *bytes, size_t len, bool *ret_exact)
{
	json_t *text = json_stringn(len ? bytes : "", len);
	struct buf buf;

	if (ret_exact)
		*ret_exact = text != NULL;
	if (text)
		return text;
	buf_init(&buf, 3 * len);
	replace_invalid(&buf, bytes, len);
	text = json_stringn((const char *)buf_head(&buf), buf_len(&buf));
	buf_done(&buf);
	must(text);
	return text;
}

json_t *encode_base64(const void *bytes, size_t len)
{
	auto_free char *text = mem_zalloc(BASE64_SIZE(len));

	base64_encode(text, bytes, len);
	return json_string(text);
}

void encode_put_bytes(json_t *object, const char *name, const void *bytes, size_t len)
{
	bool exact;

	json_object_set_new(object, name, encode_bytes(bytes, len, &exact));
	if (!exact) {
		auto_free char *other = mem_printf("%sBase64", name);

		json_object_set_new(object, other, encode_base64(bytes, len));
	}
}

static json_t *map_of(const struct strings *list)
{
	json_t *map = json_object();

	for (size_t i = 0; i < list->count; i++) {
		size_t len = strcspn(list->items[i], "=");
		auto_free char *key = mem_strndup(list->items[i], len);

		json_object_set_new(
			map, key, json_string(list->items[i][len] ? list->items[i] + len + 1 : ""));
	}
	return map;
}

static json_t *names_of(const struct strings *list)
{
	json_t *names = json_array();

	for (size_t i = 0; i < list->count; i++)
		json_array_append_new(names,
		                      json_stringn(list->items[i], strcspn(list->items[i], "=")));
	return names;
}

static json_t *list_of(const struct strings *list)
{
	json_t *items = json_array();

	for (size_t i = 0; i < list->count; i++)
		json_array_append_new(items,
		                      encode_bytes(list->items[i], strlen(list->items[i]), NULL));
	return items;
}

static json_t *number_of(uint64_t value)
{
	return json_integer((json_int_t)MIN(value, (uint64_t)INT64_MAX));
}

json_t *encode_limits(const struct limits *limits)
{
	json_t *object = json_object();

	for (const struct limit *limit = limits_table; limit->name; limit++) {
		uint64_t value = limits_get(limits, limit);

		json_object_set_new(object, limit->json,
		                    limit->kind == LIMIT_KIND_MILLI
		                            ? json_real((double)value / 1000)
		                            : number_of(value));
	}
	return object;
}

json_t *encode_meters(const struct meters *meters)
{
	json_t *object = json_object();

	for (const struct meter *meter = meters_table; meter->name; meter++) {
		uint64_t value = meters_get(meters, meter);
		bool is_micro = str_has_suffix(meter->name, "_us");

		json_object_set_new(object, meter->json,
		                    is_micro ? json_real((double)value / 1e6) : number_of(value));
	}
	return object;
}

/* "name=value" each; a value that is a number becomes one. Two may come more than once. */
static json_t *isolation_of(const struct strings *mechanisms)
{
	json_t *object = json_object();
	json_t *degraded = json_array();
	json_t *shared = json_array();

	for (size_t i = 0; i < mechanisms->count; i++) {
		const char *entry = mechanisms->items[i];
		size_t len = strcspn(entry, "=");
		const char *value = entry[len] ? entry + len + 1 : "";
		auto_free char *name = mem_strndup(entry, len);
		uint64_t number;

		if (str_eq(name, "degraded"))
			json_array_append_new(degraded, encode_text(value));
		else if (str_eq(name, "shared"))
			json_array_append_new(shared, encode_text(value));
		else if (str_to_u64(value, &number) == 0)
			json_object_set_new(object, name, number_of(number));
		else
			json_object_set_new(object, name, encode_text(value));
	}
	json_object_set_new(object, "degraded", degraded);
	json_object_set_new(object, "shared", shared);
	return object;
}

static json_t *mounts_of(const struct spec *spec)
{
	json_t *items = json_array();

	for (size_t i = 0; i < spec->mount_count; i++) {
		const struct mount *mount = &spec->mounts[i];

		json_array_append_new(items,
		                      json_pack("{s:s, s:o, s:s, s:b}", "grant", mount->grant,
		                                "source", encode_text(mount->source), "target",
		                                mount->target, "readOnly", mount->read_only));
	}
	return items;
}

static void put_network(json_t *object, const struct spec *spec)
{
	json_object_set_new(object, "network", encode_text(spec->network));
	json_object_set_new(object, "networkMode", encode_text(spec->network_mode));
	json_object_set_new(object, "allow", list_of(&spec->allow));
	json_object_set_new(object, "allowCidrs", list_of(&spec->allow_cidrs));
}

static void put_spec(json_t *object, const struct spec *spec)
{
	json_object_set_new(object, "runtime", encode_text(spec->runtime));
	json_object_set_new(object, "image", encode_text(spec->image));
	json_object_set_new(object, "user", encode_text(spec->user));
	json_object_set_new(object, "cwd", encode_text(spec->cwd));
	put_network(object, spec);
	json_object_set_new(object, "env", names_of(&spec->env));
	json_object_set_new(object, "limits", encode_limits(&spec->limits));
	json_object_set_new(object, "ttlMs", spec->ttl_ms ? number_of(spec->ttl_ms) : json_null());
}

static json_t *policy_of(const struct sandbox_network *network)
{
	if (!network->policy)
		return json_null();
	return json_pack("{s:o, s:o, s:o, s:o, s:o}", "level", encode_text(network->level), "mode",
	                 encode_text(network->mode), "fingerprint",
	                 encode_text(network->fingerprint), "generation",
	                 number_of(network->generation), "approved", list_of(&network->approved));
}

json_t *encode_sandbox(const struct sandbox *sandbox)
{
	const struct spec *spec = &sandbox->spec;
	json_t *object = json_object();

	json_object_set_new(object, "id", json_string(sandbox->id.text));
	json_object_set_new(object, "name", encode_text(spec->name));
	json_object_set_new(object, "state", json_string(sandbox_state_name(sandbox->state)));
	json_object_set_new(object, "profile", encode_text(spec->profile));
	json_object_set_new(object, "owner",
	                    json_string(spec->owner ? spec->owner : ACCESS_OPERATOR));
	json_object_set_new(object, "team", json_string(spec->team ? spec->team : ACCESS_TEAM));
	json_object_set_new(object, "visibility", json_string(visibility_name(spec->visibility)));
	put_spec(object, spec);
	json_object_set_new(object, "labels", map_of(&spec->labels));
	json_object_set_new(object, "hostname", encode_text(spec->hostname));
	json_object_set_new(object, "mounts", mounts_of(spec));
	json_object_set_new(object, "expiresAt", encode_time(sandbox->expires_ms));
	json_object_set_new(object, "createdAt", encode_time(sandbox->created_ms));
	json_object_set_new(object, "startedAt", encode_time(sandbox->started_ms));
	json_object_set_new(object, "endedAt", encode_time(sandbox->ended_ms));
	json_object_set_new(object, "endReason", encode_text(sandbox->end_reason));
	json_object_set_new(object, "detail", encode_text(sandbox->detail));
	json_object_set_new(object, "degraded", json_boolean(sandbox->is_degraded));
	json_object_set_new(object, "isolation", isolation_of(&sandbox->mechanisms));
	json_object_set_new(object, "meters", encode_meters(&sandbox->meters));
	json_object_set_new(object, "networkPolicy", policy_of(&sandbox->network));
	return object;
}

json_t *encode_network(const struct sandbox *sandbox)
{
	json_t *object = json_object();

	put_network(object, &sandbox->spec);
	json_object_set_new(object, "policy", policy_of(&sandbox->network));
	return object;
}

json_t *encode_exec(const struct exec *exec)
{
	bool ended = exec->ended_ms != 0;
	json_t *object = json_object();

	json_object_set_new(object, "id", json_string(exec->id.text));
	json_object_set_new(object, "sandbox", json_string(exec->sandbox.text));
	json_object_set_new(object, "argv", list_of(&exec->argv));
	json_object_set_new(object, "user", encode_text(exec->user));
	json_object_set_new(object, "cwd", encode_text(exec->cwd));
	json_object_set_new(object, "tty", json_boolean(exec->tty));
	json_object_set_new(object, "background", json_boolean(exec->background));
	json_object_set_new(object, "state", json_string(ended ? "ended" : "running"));
	json_object_set_new(object, "startedAt", encode_time(exec->started_ms));
	json_object_set_new(object, "endedAt", encode_time(exec->ended_ms));
	json_object_set_new(object, "exitCode",
	                    ended && !exec->signal ? json_integer(exec->exit_code) : json_null());
	json_object_set_new(object, "signal",
	                    ended && exec->signal ? json_integer(exec->signal) : json_null());
	json_object_set_new(object, "reason", encode_text(exec->reason));
	json_object_set_new(object, "outputBytes", number_of(exec->output_bytes));
	return object;
}

json_t *encode_image(const struct image *image)
{
	json_t *config = image->config ? json_loads(image->config, 0, NULL) : NULL;
	json_t *object = json_object();

	json_object_set_new(object, "id", json_string(image->id.text));
	json_object_set_new(object, "name", encode_text(image->name));
	json_object_set_new(object, "format", encode_text(image->format));
	json_object_set_new(object, "layers", list_of(&image->layers));
	json_object_set_new(object, "bytes", number_of(image->bytes));
	json_object_set_new(object, "entries", number_of(image->entries));
	json_object_set_new(object, "config", config ? config : json_null());
	json_object_set_new(object, "createdAt", encode_time(image->created_ms));
	return object;
}

json_t *encode_host_image(void)
{
	return json_pack("{s:n, s:s, s:s, s:[], s:i, s:i, s:n, s:n}", "id", "name", "host",
	                 "format", "host", "layers", "bytes", 0, "entries", 0, "config",
	                 "createdAt");
}

json_t *encode_event(const struct event *event)
{
	json_t *data = event->data ? json_loads(event->data, 0, NULL) : NULL;
	json_t *object = json_object();
	bool is_task = task_is_id(event->sandbox.text);
	bool is_sandbox = event->sandbox.text[0] && !is_task;

	json_object_set_new(object, "seq", number_of(event->seq));
	json_object_set_new(object, "sandboxSeq",
	                    is_sandbox ? number_of(event->sandbox_seq) : json_null());
	if (is_task) {
		json_object_set_new(object, "task", json_string(event->sandbox.text));
		json_object_set_new(object, "taskSeq", number_of(event->sandbox_seq));
	}
	json_object_set_new(object, "time", encode_time(event->time_ms));
	json_object_set_new(object, "kind", json_string(event_name(event->kind)));
	json_object_set_new(object, "sandbox",
	                    is_sandbox ? json_string(event->sandbox.text) : json_null());
	json_object_set_new(object, "data", data ? data : json_object());
	return object;
}

json_t *encode_profile(const struct profile *profile)
{
	json_t *object = json_object();

	json_object_set_new(object, "name", encode_text(profile->spec.profile));
	put_spec(object, &profile->spec);
	json_object_set_new(object, "diskBackend", encode_text(profile->spec.disk_backend));
	json_object_set_new(object, "pool", number_of(profile->pool));
	json_object_set_new(object, "degraded", json_boolean(profile->spec.degraded));
	return object;
}

json_t *encode_check(const char *line)
{
	static const char *const names[] = {"name", "status", "detail", "remedy"};
	json_t *object = json_object();

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		size_t len = strcspn(line, "\t");
		bool is_last = i == ARRAY_LEN(names) - 1;

		json_object_set_new(object, names[i],
		                    is_last && len == 0 ? json_null()
		                                        : encode_bytes(line, len, NULL));
		line += len;
		line += *line == '\t';
	}
	return object;
}

json_t *encode_stat(const struct record_stat *record)
{
	json_t *object = json_object();
	char mode[16];

	(void)snprintf(mode, sizeof(mode), "%04o", record->mode); /* at most 11 digits */
	encode_put_bytes(object, "name", record->name, strlen(record->name));
	json_object_set_new(object, "type", json_string(record_type_name(record->type)));
	json_object_set_new(object, "size", number_of(record->size));
	json_object_set_new(object, "mode", json_string(mode));
	json_object_set_new(object, "uid", number_of(record->uid));
	json_object_set_new(object, "gid", number_of(record->gid));
	json_object_set_new(object, "modifiedAt",
	                    encode_time(record->mtime_ms > 0 ? (uint64_t)record->mtime_ms : 1));
	json_object_set_new(object, "links", number_of(record->links));
	json_object_set_new(object, "inode", number_of(record->inode));
	if (*record->target)
		encode_put_bytes(object, "target", record->target, strlen(record->target));
	return object;
}

json_t *encode_page(json_t *items, const char *next_cursor)
{
	return json_pack("{s:o, s:o}", "items", items, "nextCursor", encode_text(next_cursor));
}

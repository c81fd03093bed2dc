#include "runtime/image.h"

#include <jansson.h>

#include "base/limits.h"
#include "base/str.h"
#include "model/entry.h"

bool image_is_host(const char *name)
{
	return str_eq(name, "host");
}

void image_layers(const struct image *image, struct strings *ret)
{
	if (!image || str_eq(image->format, IMAGE_ON_HOST))
		strings_add(ret, "host");
	for (size_t i = 0; image && i < image->layers.count; i++)
		strings_add(ret, image->layers.items[i]);
}

static void apply_env(const json_t *env, struct spec *spec)
{
	size_t i;
	json_t *item;

	json_array_foreach (env, i, item) {
		const char *entry = json_string_value(item);
		char name[256];
		size_t len;

		if (!entry || entry_check_env(entry, &(struct err){0}) < 0)
			continue;
		len = strcspn(entry, "=");
		memcpy(name, entry, len);
		name[len] = '\0';
		if (!strings_value(&spec->env, name) && spec->env.count < LIMIT_ENV)
			strings_add(&spec->env, entry);
	}
}

void image_apply(const struct image *image, struct spec *spec)
{
	json_t *config;

	if (!image || !image->config)
		return;
	config = json_loads(image->config, JSON_REJECT_DUPLICATES, NULL);
	apply_env(json_object_get(config, "env"), spec);
	json_decref(config);
}

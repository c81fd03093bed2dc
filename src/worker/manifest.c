#include "worker/manifest.h"

#include <inttypes.h>

#include "base/mem.h"
#include "base/str.h"
#include "worker/name.h"

enum { INDEX_DEPTH = 4 };

void manifest_json_freep(json_t **json)
{
	json_decref(*json);
	*json = NULL;
}

int manifest_load(const struct member *member, const char *name, json_t **ret, struct err *err)
{
	json_error_t why;

	if (!member)
		return err_set(err, ERR_INVALID, "the archive has no %s", name);
	if (!member->text)
		return err_set(err, ERR_INVALID, "%s is not JSON of a usable size", name);
	*ret = json_loadb(member->text, member->text_len, JSON_REJECT_DUPLICATES, &why);
	if (!*ret)
		return err_set(err, ERR_INVALID, "%s, line %d: %s", name, why.line,
		               name_show(why.text).text);
	return 0;
}

/* --- OCI layout --- */

/* The blob a descriptor speaks of, of the size it says. Its digest is *ret_digest, not yet checked.
 */
static const struct member *find_blob(const struct survey *survey, const json_t *descriptor,
                                      struct digest *ret_digest, struct err *err)
{
	const char *text = json_string_value(json_object_get(descriptor, "digest"));
	const json_t *size = json_object_get(descriptor, "size");
	char path[sizeof("blobs/sha256/") + sizeof(struct digest_text)];

	if (!text || !digest_parse(text, ret_digest)) {
		(void)err_set(err, ERR_INVALID, "a descriptor has no sha256 digest");
		return NULL;
	}
	struct digest_text hex = digest_show(ret_digest);
	(void)snprintf(path, sizeof(path), "blobs/sha256/%s", hex.text);
	const struct member *member = survey_find(survey, path);
	if (!member) {
		(void)err_set(err, ERR_INVALID, "the archive has no blob %s", path);
		return NULL;
	}
	if (!json_is_integer(size) || json_integer_value(size) != (json_int_t)member->size) {
		(void)err_set(err, ERR_INVALID, "blob %s has %" PRIu64 " bytes, not what was said",
		              path, member->size);
		return NULL;
	}
	return member;
}

static int load_blob(const struct survey *survey, const json_t *descriptor, json_t **ret,
                     struct err *err)
{
	struct digest wanted;
	const struct member *member = find_blob(survey, descriptor, &wanted, err);

	if (!member)
		return -1;
	if (!member->text)
		return err_set(err, ERR_INVALID, "%s is not JSON of a usable size", member->path);
	struct digest got = digest_of(member->text, member->text_len);
	if (!digest_equal(&got, &wanted))
		return err_set(err, ERR_INVALID, "%s does not match its digest", member->path);
	return manifest_load(member, member->path, ret, err);
}

enum rank { RANK_OTHER, RANK_UNSAID, RANK_OURS };

/* How well a manifest of an index fits this machine. */
static enum rank rank_of(const json_t *descriptor)
{
	const json_t *platform = json_object_get(descriptor, "platform");
	const char *os = json_string_value(json_object_get(platform, "os"));
	const char *arch = json_string_value(json_object_get(platform, "architecture"));

	if (!platform || !os || !arch)
		return RANK_UNSAID;
	return str_eq(os, "linux") && str_eq(arch, bundle_architecture()) ? RANK_OURS : RANK_OTHER;
}

static bool is_same_blob(const json_t *a, const json_t *b)
{
	return json_equal(json_object_get(a, "digest"), json_object_get(b, "digest"));
}

static int choose(const json_t *index, const json_t **ret, struct err *err)
{
	enum rank best = RANK_OTHER;
	bool has_several = false;
	const json_t *item;
	size_t i;

	json_array_foreach (json_object_get(index, "manifests"), i, item) {
		enum rank rank = rank_of(item);
		if (rank == RANK_OTHER || rank < best)
			continue;
		has_several = rank == best && (has_several || !is_same_blob(item, *ret));
		best = rank;
		*ret = item;
	}
	if (best == RANK_OTHER)
		return err_set(err, ERR_INVALID, "the archive has no image for linux/%s",
		               bundle_architecture());
	if (has_several)
		return err_set(err, ERR_INVALID,
		               "the archive has several images: export one alone");
	return 0;
}

/* From the index to the manifest, through indexes of indexes. */
static int load_manifest(const struct survey *survey, json_t **ret, struct err *err)
{
	auto_json json_t *at = NULL;

	if (manifest_load(survey_find(survey, "index.json"), "index.json", &at, err) < 0)
		return -1;
	for (int i = 0; i < INDEX_DEPTH; i++) {
		const json_t *descriptor = NULL;
		json_t *next = NULL;

		if (choose(at, &descriptor, err) < 0 ||
		    load_blob(survey, descriptor, &next, err) < 0)
			return -1;
		json_decref(at);
		at = next;
		if (!json_object_get(at, "manifests")) {
			*ret = take_ptr(at);
			return 0;
		}
	}
	return err_set(err, ERR_INVALID, "the archive's indexes are nested too deeply");
}

static struct bundle_layer *add_layer(struct bundle *bundle, struct err *err)
{
	if (bundle->layer_count < LIMIT_LAYERS)
		return &bundle->layers[bundle->layer_count++];
	(void)err_set(err, ERR_TOO_LARGE, "the image has more than %d layers", LIMIT_LAYERS);
	return NULL;
}

/* Encrypted layers and things that are no layers at all have other types. */
static bool is_layer_type(const char *type)
{
	bool is_known = str_has_prefix(type, "application/vnd.oci.image.layer.") ||
	                str_has_prefix(type, "application/vnd.docker.image.rootfs.");

	return is_known && strstr(type, ".tar") && !strstr(type, "encrypted");
}

static int add_oci_layer(struct bundle *bundle, const struct survey *survey,
                         const json_t *descriptor, struct err *err)
{
	const char *type = json_string_value(json_object_get(descriptor, "mediaType"));
	struct bundle_layer *layer = add_layer(bundle, err);

	if (!layer)
		return -1;
	if (!type || !is_layer_type(type))
		return err_set(err, ERR_UNSUPPORTED, "layer %zu is of type \"%s\"",
		               bundle->layer_count, name_show(type).text);
	const struct member *member = find_blob(survey, descriptor, &layer->digest, err);
	if (!member)
		return -1;
	layer->path = member->path;
	return 0;
}

int manifest_read_oci(struct bundle *ret, const struct survey *survey, json_t **ret_config,
                      struct err *err)
{
	auto_json json_t *manifest = NULL;
	const json_t *item;
	size_t i;

	if (load_manifest(survey, &manifest, err) < 0)
		return -1;
	json_array_foreach (json_object_get(manifest, "layers"), i, item) {
		if (add_oci_layer(ret, survey, item, err) < 0)
			return -1;
	}
	if (ret->layer_count == 0)
		return err_set(err, ERR_INVALID, "the image has no layers");
	return load_blob(survey, json_object_get(manifest, "config"), ret_config, err);
}

/* --- docker save --- */

static const struct member *find_named(const struct survey *survey, const json_t *value,
                                       struct err *err)
{
	const char *raw = json_string_value(value);
	struct name name;
	const struct member *member = NULL;

	if (raw && !name_clean(&name, raw))
		member = survey_find(survey, name.path);
	if (!member)
		(void)err_set(err, ERR_INVALID, "manifest.json names \"%s\", which is not there",
		              name_show(raw).text);
	return member;
}

/* The config is called by its digest: DIGEST.json, or a blob of the OCI layout around it. */
static int check_config_name(const struct member *member, struct err *err)
{
	const char *name = str_has_prefix(member->path, "blobs/sha256/")
	                           ? member->path + strlen("blobs/sha256/")
	                           : member->path;
	struct digest wanted;

	if (!member->text || !digest_parse_hex(name, &wanted))
		return 0;
	struct digest got = digest_of(member->text, member->text_len);
	if (digest_equal(&got, &wanted))
		return 0;
	return err_set(err, ERR_INVALID, "%s does not match its digest", name_show(name).text);
}

static int add_docker_layer(struct bundle *bundle, const struct survey *survey, const json_t *path,
                            const json_t *diff_id, struct err *err)
{
	struct bundle_layer *layer = add_layer(bundle, err);
	const struct member *member = layer ? find_named(survey, path, err) : NULL;

	if (!member)
		return -1;
	if (!json_is_string(diff_id) || !digest_parse(json_string_value(diff_id), &layer->digest))
		return err_set(err, ERR_INVALID, "the config has no diff_id for layer %zu",
		               bundle->layer_count);
	layer->path = member->path;
	layer->is_plain_digest = true;
	return 0;
}

int manifest_read_docker(struct bundle *ret, const struct survey *survey, json_t **ret_config,
                         struct err *err)
{
	auto_json json_t *list = NULL;
	const json_t *path;
	size_t i;

	if (manifest_load(survey_find(survey, "manifest.json"), "manifest.json", &list, err) < 0)
		return -1;
	if (json_array_size(list) != 1)
		return err_set(err, ERR_INVALID, "the archive has %zu images: save one alone",
		               json_array_size(list));
	const json_t *saved = json_array_get(list, 0);
	const struct member *config = find_named(survey, json_object_get(saved, "Config"), err);
	if (!config || check_config_name(config, err) < 0 ||
	    manifest_load(config, config->path, ret_config, err) < 0)
		return -1;
	const json_t *diff_ids =
		json_object_get(json_object_get(*ret_config, "rootfs"), "diff_ids");
	json_array_foreach (json_object_get(saved, "Layers"), i, path) {
		if (add_docker_layer(ret, survey, path, json_array_get(diff_ids, i), err) < 0)
			return -1;
	}
	if (ret->layer_count == 0)
		return err_set(err, ERR_INVALID, "the image has no layers");
	return 0;
}

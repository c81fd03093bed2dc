#include "worker/bundle.h"

#include "base/mem.h"
#include "base/str.h"
#include "worker/manifest.h"
#include "worker/name.h"

/* OCI's names of processor architectures. */
#if defined(__x86_64__)
static const char architecture[] = "amd64";
#elif defined(__aarch64__)
static const char architecture[] = "arm64";
#elif defined(__riscv) && __riscv_xlen == 64
static const char architecture[] = "riscv64";
#else
#error "name this architecture as OCI does"
#endif

static const char *const format_names[] = {
	[BUNDLE_AUTO] = "auto",
	[BUNDLE_TAR] = "tar",
	[BUNDLE_OCI_LAYOUT] = "oci-layout",
	[BUNDLE_DOCKER_ARCHIVE] = "docker-archive",
};

bool bundle_parse_format(const char *text, enum bundle_format *ret)
{
	for (size_t i = 0; i < ARRAY_LEN(format_names); i++) {
		if (str_eq(text, format_names[i])) {
			*ret = (enum bundle_format)i;
			return true;
		}
	}
	return false;
}

const char *bundle_format_name(enum bundle_format format)
{
	return format_names[format];
}

const char *bundle_architecture(void)
{
	return architecture;
}

/* A root file system may have a file of one of these names, hence the second look. */
static enum bundle_format detect(const struct survey *survey)
{
	const struct member *manifest = survey_find(survey, "manifest.json");

	if (survey->is_plain)
		return BUNDLE_TAR;
	if (survey_find(survey, "index.json") && survey_find(survey, "oci-layout"))
		return BUNDLE_OCI_LAYOUT;
	if (manifest && manifest->text && strstr(manifest->text, "\"Layers\""))
		return BUNDLE_DOCKER_ARCHIVE;
	return BUNDLE_TAR;
}

static int check_platform(const json_t *config, struct err *err)
{
	const char *os = json_string_value(json_object_get(config, "os"));
	const char *arch = json_string_value(json_object_get(config, "architecture"));

	if (os && *os && !str_eq(os, "linux"))
		return err_set(err, ERR_INVALID, "the image is for %s, not for linux",
		               name_show(os).text);
	if (arch && *arch && !str_eq(arch, architecture))
		return err_set(err, ERR_INVALID, "the image is for %s, this machine is %s",
		               name_show(arch).text, architecture);
	return 0;
}

static bool is_string_list(const json_t *value)
{
	size_t i;
	const json_t *item;

	if (!json_is_array(value))
		return false;
	json_array_foreach (value, i, item) {
		if (!json_is_string(item))
			return false;
	}
	return true;
}

/* The part of the config that says how to start a program, each key with the type it must have. */
static int pick_config(const json_t *config, json_t *picked, struct err *err)
{
	static const struct {
		const char *key;
		bool is_list;
	} keys[] = {
		{"Env", true},        {"User", false}, {"WorkingDir", false},
		{"Entrypoint", true}, {"Cmd", true},
	};

	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		json_t *value = json_object_get(config, keys[i].key);
		if (!value || json_is_null(value))
			continue;
		if (keys[i].is_list ? !is_string_list(value) : !json_is_string(value))
			return err_set(err, ERR_INVALID, "the image's config has a wrong \"%s\"",
			               keys[i].key);
		if (json_object_set(picked, keys[i].key, value) < 0)
			return err_set(err, ERR_UNAVAILABLE, "no memory for the image's config");
	}
	return 0;
}

static int write_config(struct bundle *bundle, const json_t *config, struct err *err)
{
	auto_json json_t *picked = json_object();

	if (check_platform(config, err) < 0 ||
	    pick_config(json_object_get(config, "config"), picked, err) < 0)
		return -1;
	bundle->config = json_dumps(picked, JSON_COMPACT);
	if (!bundle->config)
		return err_set(err, ERR_UNAVAILABLE, "no memory for the image's config");
	if (strlen(bundle->config) > BUNDLE_CONFIG_BYTES)
		return err_set(err, ERR_TOO_LARGE, "the image's config is larger than 64 KiB");
	return 0;
}

int bundle_read(struct bundle *ret, const struct survey *survey, enum bundle_format format,
                struct err *err)
{
	auto_json json_t *config = NULL;

	*ret = (struct bundle){.format = format == BUNDLE_AUTO ? detect(survey) : format};
	if (ret->format == BUNDLE_TAR) {
		ret->config = mem_strdup("{}");
		return 0;
	}
	if (survey->is_plain)
		return err_set(err, ERR_INVALID, "the archive is not an image archive (%s)",
		               format_names[ret->format]);
	int r = ret->format == BUNDLE_OCI_LAYOUT ? manifest_read_oci(ret, survey, &config, err)
	                                         : manifest_read_docker(ret, survey, &config, err);
	return r < 0 ? -1 : write_config(ret, config, err);
}

void bundle_done(struct bundle *bundle)
{
	free(bundle->config);
	*bundle = (struct bundle){0};
}

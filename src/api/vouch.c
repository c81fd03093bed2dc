#include "api/vouch.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "api/call.h"
#include "api/signature.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/str.h"
#include "model/agent.h"
#include "model/backend.h"
#include "model/spec.h"
#include "store/identity.h"

int vouch_judge(struct api *api, const char *team, const char *text, const char *signature_text,
                struct vouched *ret, struct err *err)
{
	struct trusted_list list = {0};
	struct signature signature;
	char key[2 * SIGNATURE_PUBLIC + 1];

	ret->trust = TRUST_UNSIGNED;
	if (!signature_text)
		return 0;
	ret->trust = TRUST_TAMPERED;
	if (signature_parse(signature_text, &signature, NULL) < 0 ||
	    !signature_holds(&signature, text, strlen(text)))
		return 0;
	if (store_trusted_list(api->store, team, &list, err) < 0)
		return -1;
	ret->trust = TRUST_UNKNOWN;
	signature_format_key(signature.public_key, key);
	for (size_t i = 0; i < list.count && ret->trust != TRUST_SIGNED; i++) {
		if (!str_eq(list.items[i].public_key, key))
			continue;
		ret->trust = TRUST_SIGNED;
		ret->signed_by = mem_strdup(list.items[i].name);
	}
	trusted_list_done(&list);
	return 0;
}

/* NULL: there is none. One that is there and cannot be read is as one of other bytes. */
static char *read_signature(const char *path)
{
	auto_free char *beside = mem_printf("%s.sig", path);
	char *text = NULL;
	size_t len;
	int r = io_read_file(AT_FDCWD, beside, SIGNATURE_TEXT, &text, &len);

	if (r == -ENOENT)
		return NULL;
	return r == 0 ? text : mem_strdup("");
}

int vouch_load(struct api *api, const char *team, const char *path, struct vouched *ret,
               struct err *err)
{
	auto_free char *text = NULL, *signature = NULL;
	struct agent agent = {0};
	size_t len;
	int r = io_read_file(AT_FDCWD, path, AGENT_MANIFEST_BYTES, &text, &len);

	if (r < 0) {
		(void)err_sys(err, -r, "manifest %s", path); /* always -1 */
		if (err)
			err->code = ERR_MISSING;
		return -1;
	}
	if (strlen(text) != len)
		return err_set(err, ERR_MISSING, "manifest %s: a NUL byte is in it", path);
	if (agent_parse(path, text, len, &agent, err) < 0) {
		if (err)
			err->code = ERR_MISSING;
		return -1;
	}
	signature = read_signature(path);
	r = vouch_judge(api, team, text, signature, ret, err);
	spec_set(&ret->runtime, agent.runtime);
	strings_copy(&ret->capabilities, &agent.capabilities);
	strings_copy(&ret->tools, &agent.tools);
	strings_copy(&ret->repositories, &agent.repositories);
	agent_done(&agent);
	if (r < 0)
		vouched_done(ret);
	return r;
}

void vouched_done(struct vouched *manifest)
{
	free(manifest->signed_by);
	free(manifest->runtime);
	strings_done(&manifest->capabilities);
	strings_done(&manifest->tools);
	strings_done(&manifest->repositories);
	*manifest = (struct vouched){0};
}

int vouch_runtime(const struct vouched *manifest, const char *asked, const char **ret,
                  struct err *err)
{
	const struct trust_ask ask = {
		.trust = manifest->trust,
		.wanted = asked ? asked : manifest->runtime,
		.have = backend_names(),
	};

	return trust_choose(&ask, ret, err);
}

/* What strangers and callers write: keys, scopes, network rules, rights, manifests, signatures,
 * hosts. The first byte chooses the parser. Whatever is taken comes back the same when it is
 * written again. */
#include "api/origin.h"
#include "api/signature.h"
#include "base/mem.h"
#include "base/must.h"
#include "base/str.h"
#include "model/agent.h"
#include "model/listen.h"
#include "model/rights.h"
#include "store/identity.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static void try_secret(const char *text)
{
	uint8_t hash[CREDENTIAL_HASH];
	struct id id;

	if (secret_read(text, &id, hash))
		must(id_is_valid(id.text, "ky"));
}

static void try_scopes(const char *text)
{
	struct strings words = {0}, objects = {0};
	struct scopes scopes = {0}, back = {0};
	struct err err = {0};

	strings_add(&objects, "contacts=people");
	strings_split(&words, text);
	if (scopes_parse(&words, &objects, &scopes, &err) == 0) {
		auto_free char *written = scopes_format(&scopes);

		scopes_load(written, &back);
		must(scopes_within(&scopes, &back, NULL) && scopes_within(&back, &scopes, NULL));
		must((back.bits >> 1 & 0x5555555555555555ULL & ~back.bits) == 0);
	} else {
		must(err.code == ERR_INVALID);
	}
	scopes_done(&back);
	scopes_done(&scopes);
	strings_done(&words);
	strings_done(&objects);
}

static void try_reach(const char *text)
{
	struct reach reach = {0}, again = {0};
	char written[REACH_TEXT], extra[REACH_TEXT];
	struct err err = {0};

	if (reach_add(&reach, text, &err) == 0) {
		reach_format(&reach.rules[0], written, sizeof(written));
		must(reach_add(&again, written, &err) == 0);
		must(reach_within(&reach, &again, extra, sizeof(extra)));
		must(reach_within(&again, &reach, extra, sizeof(extra)));
	}
	reach_done(&reach);
	reach_done(&again);
}

static void try_rights(const char *text)
{
	struct strings lines = {0}, again = {0};
	struct rights rights = {0}, back = {0};
	char extra[REACH_TEXT];
	struct err err = {0};

	for (const char *at = text; *at;) {
		size_t len = strcspn(at, "\n");

		strings_take(&lines, mem_strndup(at, len));
		at += len;
		at += *at == '\n';
	}
	if (rights_load(&lines, &rights, &err) == 0) {
		rights_list(&rights, &again);
		must(rights_load(&again, &back, &err) == 0);
		must(rights_within(&back, &rights, extra, sizeof(extra)));
		must(rights_within(&rights, &back, extra, sizeof(extra)));
	}
	rights_done(&rights);
	rights_done(&back);
	strings_done(&lines);
	strings_done(&again);
}

static void try_manifest(const char *text, size_t len)
{
	struct agent agent = {0};
	struct err err = {0};

	if (agent_parse("agent.toml", text, len, &agent, &err) == 0)
		must(str_is_name(agent.name));
	else
		must(err.code == ERR_INVALID);
	agent_done(&agent);
}

static void try_signature(const char *text)
{
	struct signature signature;
	char again[SIGNATURE_TEXT];
	struct err err = {0};

	if (signature_parse(text, &signature, &err) < 0)
		return;
	signature_format(&signature, again);
	must(str_eq(again, text));
}

static void try_host(const char *text)
{
	struct strings hosts = {0}, origins = {0};
	struct listen listen;
	char written[LISTEN_TEXT];
	struct err err = {0};

	strings_add(&hosts, "box.example.org");
	strings_add(&origins, "https://ui.example.org");
	(void)origin_host_is_ours(text, &hosts);
	must(origin_of(text, NULL, "box.example.org", &origins) != ORIGIN_NONE);
	if (listen_parse(text, &listen, &err) == 0) {
		listen_format(&listen, written, sizeof(written));
		must(listen_parse(written, &listen, &err) == 0);
	}
	strings_done(&hosts);
	strings_done(&origins);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	auto_free char *text = NULL;

	if (len == 0)
		return 0;
	text = mem_strndup((const char *)bytes + 1, len - 1);
	switch (bytes[0]) {
	case 'k':
		try_secret(text);
		break;
	case 's':
		try_scopes(text);
		break;
	case 'n':
		try_reach(text);
		break;
	case 'r':
		try_rights(text);
		break;
	case 'm':
		try_manifest((const char *)bytes + 1, len - 1);
		break;
	case 'g':
		try_signature(text);
		break;
	default:
		try_host(text);
		break;
	}
	return 0;
}

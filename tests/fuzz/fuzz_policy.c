/*
 * A policy's blob, which a keeper takes from a daemon it does not trust: whatever the bytes,
 * parsing stays inside them; what is accepted has one form only, and every verdict can be asked
 * for.
 */
#include "base/must.h"
#include "model/policy.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	struct addr addr = {{0}};
	struct policy policy;
	struct err err = {0};
	struct buf again;
	char text[POLICY_TEXT];

	if (policy_parse(bytes, len, &policy, &err) < 0)
		return 0;
	buf_init(&again, POLICY_BLOB_MAX);
	must(policy_write(&policy, &again, &err) == 0);
	must(buf_len(&again) == len && memcmp(buf_head(&again), bytes, len) == 0);
	buf_done(&again);
	for (size_t i = 0; i < policy.rule_count; i++) {
		struct policy_verdict verdict =
			policy_name_verdict(&policy, policy.rules[i].name, 443);

		must(!policy.rules[i].is_deny || policy.rules[i].port != 0 ||
		     verdict.answer == POLICY_DENY);
		policy_rule_text(&policy, &verdict, false, text, sizeof(text));
		policy_remedy(&verdict, policy.rules[i].name, text, sizeof(text));
	}
	memcpy(addr.bytes, bytes, MIN(len, sizeof(addr.bytes)));
	(void)policy_addr_verdict(&policy, &addr, 443);
	policy_done(&policy);
	return 0;
}

/*
 * Entries of domain lists: whatever the text, what is accepted has its normal form, is its own
 * normal form, and covers itself.
 */
#include "base/mem.h"
#include "base/must.h"
#include "model/domain.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	auto_free char *text = mem_strndup((const char *)bytes, len);
	char folded[DOMAIN_TEXT];
	struct domain domain;
	struct err err = {0};

	if (domain_fold(text, folded))
		must(strlen(folded) > 0);
	if (domain_parse(text, &domain, &err) < 0)
		return 0;
	must(domain_is_normal(domain.name));
	must(domain_fold(domain.name, folded));
	must(strcmp(folded, domain.name) == 0);
	must(domain_covers(domain.name, domain.is_wildcard, domain.name));
	return 0;
}

/* Questions and answers: whatever the bytes, what is written from them can be read again. */
#include <stdlib.h>
#include <string.h>

#include "net/dns.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static void check(bool is_true)
{
	if (!is_true)
		abort();
}

static void as_query(const uint8_t *bytes, size_t len)
{
	struct dns_query query, again;
	enum dns_rcode rcode;
	uint8_t out[DNS_MESSAGE_MOST];
	if (dns_parse_query(bytes, len, &query, &rcode) < 0)
		return;
	check(strlen(query.name) < sizeof(query.name));
	struct dns_answer answer = {.ttl_s = 60, .count = DNS_ADDRS}, parsed;
	for (size_t i = 0; i < DNS_ADDRS; i++)
		answer.addrs[i] = addr_from_v4((const uint8_t[]){93, 184, 216, (uint8_t)i});
	size_t written = dns_write_answer(&query, bytes, len, &answer, out, query.udp_size);
	check(written <= query.udp_size);
	if (!query.is_writable)
		return;
	check(dns_parse_answer(out, written, query.id, query.name, query.type, &parsed) == 0);
	check(query.type != DNS_A || parsed.is_truncated || parsed.count == DNS_ADDRS);
	written = dns_write_query(query.id, query.name, query.type, out);
	check(written > 0 && dns_parse_query(out, written, &again, &rcode) == 0);
	check(strcmp(again.name, query.name) == 0 && again.type == query.type);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	static const uint16_t types[] = {DNS_A, DNS_AAAA};
	as_query(bytes, len);
	for (size_t i = 0; i < ARRAY_LEN(types); i++) {
		struct dns_answer answer;
		char alias[DNS_NAME_TEXT];
		size_t aliases = 0;
		while (dns_alias_at(bytes, len, "example.test", types[i], aliases, alias))
			check(strlen(alias) < sizeof(alias) && ++aliases < 32);
		if (dns_parse_answer(bytes, len, 0x1234, "example.test", types[i], &answer) == 0)
			check(answer.count <= DNS_ADDRS &&
			      dns_is_answer(bytes, len, 0x1234, "example.test", types[i]));
	}
	(void)dns_is_truncated(bytes, len);
	return 0;
}

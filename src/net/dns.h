/*
 * DNS messages (RFC 1035), as far as a stub resolver and its server need them: one question, A and
 * AAAA answers, nothing invented. Questions come from a sandbox and answers from the internet:
 * every byte is hostile. Names are in normal form (lower case, no dot at the end). Pure, no
 * allocation.
 */
#pragma once

#include <sys/types.h>

#include "base/addr.h"
#include "base/base.h"

enum {
	DNS_NAME_TEXT = 254,
	DNS_UDP_PLAIN = 512,     /* what a client without EDNS takes */
	DNS_UDP_MOST = 1232,     /* what we offer and send: never fragmented */
	DNS_MESSAGE_MOST = 4096, /* over TCP; more addresses than anybody has */
	DNS_ADDRS = 32,          /* kept of one answer */
	DNS_QUERY_MOST = 512,
};

enum dns_type { DNS_A = 1, DNS_CNAME = 5, DNS_AAAA = 28, DNS_OPT = 41 };

enum dns_rcode {
	DNS_OK = 0,
	DNS_FORMAT = 1,
	DNS_FAILED = 2,
	DNS_NO_NAME = 3,
	DNS_NOT_DONE = 4,
	DNS_REFUSED = 5,
};

struct dns_query {
	uint16_t id;
	uint16_t type;
	uint16_t flags;           /* as sent; some are echoed */
	char name[DNS_NAME_TEXT]; /* "" is the root, or a name that cannot be written as text */
	size_t question_len;      /* bytes behind the header, copied into the answer */
	uint16_t udp_size;        /* what the client takes in one datagram */
	bool has_edns;
	bool is_writable; /* name is an ordinary one; else nothing can match it */
};

/* 0, or -EBADMSG: not a question; where the header is at least one of a question, *ret_rcode is
 * what to answer it with (id is valid then), else DNS_OK for: stay silent. */
int dns_parse_query(const uint8_t *bytes, size_t len, struct dns_query *ret,
                    enum dns_rcode *ret_rcode) NODISCARD;
struct dns_answer {
	enum dns_rcode rcode;
	bool is_truncated;
	uint32_t ttl_s;
	struct addr addrs[DNS_ADDRS];
	size_t count;
};
/* An answer to query (whose message is `asked`, len bytes): rcode, and the addresses of its type.
 * At most `size` bytes; what does not fit is left out and marked truncated. Its length. */
size_t dns_write_answer(const struct dns_query *query, const uint8_t *asked, size_t len,
                        const struct dns_answer *answer, uint8_t *out, size_t size);
/* A header alone with this rcode, for what could not be read. */
size_t dns_write_failure(uint16_t id, enum dns_rcode rcode, uint8_t *out, size_t size);

/* A question of our own; out has room for DNS_QUERY_MOST bytes. Its length, 0 for a bad name. */
size_t dns_write_query(uint16_t id, const char *name, uint16_t type, uint8_t *out);
/* The answer to it: the id, the question and the shape must fit. Follows the chain of CNAMEs from
 * the name; records of other names are ignored. -EBADMSG: not an answer to this. */
int dns_parse_answer(const uint8_t *bytes, size_t len, uint16_t id, const char *name, uint16_t type,
                     struct dns_answer *ret) NODISCARD;
/* The names that chain leads over, one by one: the one at `index`, or false when it is shorter. */
bool dns_alias_at(const uint8_t *bytes, size_t len, const char *name, uint16_t type, size_t index,
                  char ret[DNS_NAME_TEXT]) NODISCARD;
/* True if bytes answer this question, whatever its type. For handing on answers as they are. */
bool dns_is_answer(const uint8_t *bytes, size_t len, uint16_t id, const char *name, uint16_t type);
bool dns_is_truncated(const uint8_t *bytes, size_t len);

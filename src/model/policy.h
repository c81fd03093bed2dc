/*
 * The compiled network policy of one sandbox: the one object that daemon, keeper and tests decide
 * from. The daemon compiles it from an environment and the sandbox's own extras, stores its
 * fingerprint, and hands it to the keeper as a blob; the keeper parses the blob (which a hostile
 * daemon may have made) and asks for verdicts. There is exactly one blob for one meaning: rules are
 * sorted and unique, so the fingerprint does not depend on the order in which people wrote them.
 *
 * What this object cannot say by itself is which addresses are private: that is net/never.h, and
 * `cidrs` that allow are the grants to give it. Pure; no I/O, no clock.
 */
#pragma once

#include "base/addr.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/sha256.h"
#include "model/domain.h"
#include "model/environment.h"

enum {
	POLICY_BLOB_MAX = 96 * 1024, /* fits one message */
	POLICY_RULES = 1024,
	POLICY_CIDRS = 400,
	POLICY_TEXT = 400, /* room for any of the texts below */
};

/* Where a rule comes from. Numbers cross the wire. */
enum policy_source {
	POLICY_FROM_ENVIRONMENT,
	POLICY_FROM_TRUSTED, /* the built-in list */
	POLICY_FROM_REQUEST, /* --allow, --allow-cidr, `sandbox net set` */
	POLICY_FROM_APPROVAL,
	POLICY_SOURCE_COUNT_
};

struct policy_rule {
	char *name; /* normal form, without "*." */
	bool is_wildcard;
	bool is_deny;
	uint16_t port; /* 0: those of the policy */
	enum policy_source source;
};

struct policy_cidr {
	struct addr_cidr cidr;
	bool is_deny;
	uint16_t port; /* 0: those of the policy */
	enum policy_source source;
};

struct policy {
	enum environment_level level;
	enum environment_mode mode;
	bool names_any; /* null: every name; else only what rules allow */
	bool ports_any;
	bool udp;                  /* UDP other than DNS is relayed: level full */
	struct policy_rule *rules; /* denials first */
	size_t rule_count;
	struct policy_cidr *cidrs; /* denials first */
	size_t cidr_count;
	uint16_t ports[ENVIRONMENT_PORTS]; /* ascending */
	size_t port_count;
	uint64_t egress_bytes; /* 0: no cap */
	uint64_t egress_rate;  /* bytes per second; 0: none */
	/* Questions to resolvers, which are egress too. */
	uint32_t dns_rate;        /* a second, on average */
	uint32_t dns_burst;       /* at once */
	uint32_t dns_new_names;   /* names not asked before below one wildcard, a minute */
	uint32_t dns_label_bytes; /* bytes of new labels below one wildcard, an hour */
};

/* What a sandbox adds to its environment. */
struct policy_extra {
	const struct strings *domains;  /* may be NULL: none */
	const struct strings *cidrs;    /* may be NULL */
	const struct strings *approved; /* domains a person allowed for this sandbox; may be NULL */
	const enum environment_mode *mode; /* instead of the environment's; may be NULL */
};

/* Nothing allowed; what holds before any policy came. */
void policy_init(struct policy *policy);
void policy_done(struct policy *policy);
/* Fills *ret, which must hold nothing. Texts need not be in normal form. Anything extra under
 * level none makes it custom with that alone. extra may be NULL. ERR_INVALID as
 * environment_normalise; ERR_TOO_LARGE. */
int policy_compile(const struct environment *environment, const struct policy_extra *extra,
                   struct policy *ret, struct err *err) NODISCARD;
/* Appends the blob. ERR_TOO_LARGE. */
int policy_write(const struct policy *policy, struct buf *out, struct err *err) NODISCARD;
/* Fills *ret, which must hold nothing. Refuses (ERR_PROTOCOL) whatever policy_write would not have
 * written, unknown versions and flags included: a restriction not understood is not ignored. */
int policy_parse(const void *blob, size_t len, struct policy *ret, struct err *err) NODISCARD;
/* SHA-256 of the blob in hexadecimal. */
void policy_fingerprint(const struct policy *policy, char ret[SHA256_TEXT]);

enum policy_answer { POLICY_DENY, POLICY_ALLOW, POLICY_ASK_FIRST };

/* Why. Rows of policy_reasons.def: texts and remedies. */
enum policy_reason {
#define REASON(reason, text, remedy) POLICY_##reason,
#include "model/policy_reasons.def"
#undef REASON
	POLICY_REASON_COUNT_
};

struct policy_verdict {
	enum policy_answer answer;
	enum policy_reason reason;
	int rule;         /* index in rules (name) or cidrs (address); -1: none decided */
	bool is_recorded; /* allowed only because mode is record: count it */
};

/* May name be asked for and connected to? port 0: only the question is. Any text: what cannot be
 * a name is denied. Says nothing about the addresses it leads to: see policy_addr_denied. */
struct policy_verdict policy_name_verdict(const struct policy *policy, const char *name,
                                          uint16_t port);
/* A connection to an address that no allowed name led to. An ALLOW (and ASK_FIRST) is only good
 * together with never_reason() under the grants of policy_grants. */
struct policy_verdict policy_addr_verdict(const struct policy *policy, const struct addr *addr,
                                          uint16_t port);
/* For an address that an allowed name led to: true when a denied CIDR covers it; *ret_rule is then
 * its index. */
bool policy_addr_denied(const struct policy *policy, const struct addr *addr, uint16_t port,
                        int *ret_rule);
/* Whether the policy's own list has it; a rule may have a port of its own besides. */
bool policy_has_port(const struct policy *policy, uint16_t port);
/* The CIDRs that open private addresses, for never_reason and for the dialer; at most `most`.
 * Denied ranges are not cut out of them. */
size_t policy_grants(const struct policy *policy, struct addr_cidr *out, size_t most);

/* As an entry of a list: "*.example.org:8443"; room for DOMAIN_ENTRY_TEXT bytes. */
void policy_rule_entry(const struct policy_rule *rule, char *out, size_t size);
/* The rule that decided, for events and people: "allow *.example.org (environment)", "deny
 * 10.0.0.0/8 (environment)", "no rule allows this name". */
void policy_rule_text(const struct policy *policy, const struct policy_verdict *verdict,
                      bool is_cidr, char *out, size_t size);
/* What to do about a denial, for the program inside and its people; `what` is the name or address
 * that was refused. */
void policy_remedy(const struct policy_verdict *verdict, const char *what, char *out, size_t size);

#include "keeper/resolver.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "keeper/gateway.h"
#include "keeper/lookup.h"

enum {
	ENTRIES = 1024,
	SEARCHES = 64,
	ASKS = 16,        /* that wait for one answer */
	TTL_MOST_S = 300, /* how long an answer is kept, whatever it says */
	TTL_NONE_S = 15,  /* that there is none */
	PIN_LEAST_S = 600,
	PIN_MOST_S = 3600, /* programs keep addresses longer than they should */
	MINUTE_MS = 60 * 1000,
	HOUR_MS = 60 * MINUTE_MS,
	STAND_IN_TTL_S = 5,
	QUESTION_MORE = 18, /* bytes of a question beside the name */
};

/* An answer that is kept, also past its time: then it tells that the name is not new. */
struct resolver_entry {
	struct resolver_entry *next;
	char *name;
	uint16_t type;
	uint64_t until_ms;
	struct dns_answer answer;
};

struct waiter {
	struct waiter *next;
	struct resolver_ask ask; /* unless it is ourselves who wait */
	resolver_on_found on_found;
	void *ctx;
};

/* A question that resolvers are being asked. */
struct resolver_search {
	struct resolver_search *next;
	struct resolver *resolver;
	struct lookup *lookup;
	char name[DNS_NAME_TEXT];
	uint16_t type;
	struct waiter *waiters;
	size_t waiter_count;
};

/* A refusal that is given when it has been told. */
struct resolver_refusal {
	struct resolver_refusal *next;
	struct resolver *resolver;
	struct resolver_ask ask;
	enum dns_rcode rcode;
};

void resolver_init(struct resolver *resolver, struct gateway *gateway)
{
	*resolver = (struct resolver){.gateway = gateway};
}

static void search_free(struct resolver_search *search)
{
	struct resolver_search **at = &search->resolver->searches;
	while (*at != search)
		at = &(*at)->next;
	*at = search->next;
	search->resolver->search_count--;
	lookup_cancel(search->lookup);
	while (search->waiters) {
		struct waiter *waiter = search->waiters;
		search->waiters = waiter->next;
		free(waiter);
	}
	free(search);
}

static void entry_free(struct resolver_entry *entry)
{
	free(entry->name);
	free(entry);
}

void resolver_done(struct resolver *resolver)
{
	while (resolver->searches)
		search_free(resolver->searches);
	while (resolver->refusals) {
		struct resolver_refusal *refusal = resolver->refusals;
		resolver->refusals = refusal->next;
		decision_forget(&resolver->gateway->decisions, refusal);
		free(refusal);
	}
	while (resolver->entries) {
		struct resolver_entry *entry = resolver->entries;
		resolver->entries = entry->next;
		entry_free(entry);
	}
	client_free_all(resolver);
}

/* --- answering --- */

static void send_bytes(struct resolver *resolver, const struct resolver_ask *ask,
                       const uint8_t *bytes, size_t len)
{
	const struct uplink *uplink = resolver->gateway->uplink;
	if (ask->client != 0) {
		client_reply(resolver, ask->client, bytes, len);
		return;
	}
	/* A socket that is full loses it, as any network may. */
	(void)!transparent_send_udp(uplink->raw[uplink_family(&ask->from.addr)], &ask->to,
	                            &ask->from, bytes, len);
}

static void reply(struct resolver *resolver, const struct resolver_ask *ask,
                  const struct dns_answer *answer)
{
	uint8_t out[DNS_MESSAGE_MOST];
	size_t most = ask->client != 0 ? sizeof(out) : ask->query.udp_size;
	size_t len = dns_write_answer(&ask->query, ask->bytes, ask->len, answer, out, most);
	send_bytes(resolver, ask, out, len);
}

static void reply_empty(struct resolver *resolver, const struct resolver_ask *ask,
                        enum dns_rcode rcode)
{
	struct dns_answer answer = {.rcode = rcode};
	reply(resolver, ask, &answer);
}

static void on_told(void *ctx)
{
	struct resolver_refusal *refusal = ctx;
	struct resolver_refusal **at = &refusal->resolver->refusals;
	while (*at != refusal)
		at = &(*at)->next;
	*at = refusal->next;
	reply_empty(refusal->resolver, &refusal->ask, refusal->rcode);
	free(refusal);
}

/* The program waits for its answer while it is looked for, which takes a moment for the first
 * refusal of a kind and no time for the rest. */
static void refuse(struct resolver *resolver, const struct resolver_ask *ask,
                   const struct judgement *judgement, enum dns_rcode rcode)
{
	struct decision decision;
	struct resolver_refusal *refusal = mem_new(struct resolver_refusal);
	refusal->resolver = resolver;
	refusal->ask = *ask;
	refusal->rcode = rcode;
	refusal->next = resolver->refusals;
	resolver->refusals = refusal;
	gateway_fill(resolver->gateway, judgement, DECISION_DNS, &ask->from, &ask->to, &decision);
	if (!decision_make(&resolver->gateway->decisions, &decision, on_told, refusal))
		on_told(refusal);
}

/* --- what was learned --- */

static struct resolver_entry *find_entry(struct resolver *resolver, const char *name, uint16_t type)
{
	struct resolver_entry *entry = resolver->entries;
	while (entry && !(entry->type == type && str_eq(entry->name, name)))
		entry = entry->next;
	return entry;
}

static bool is_known(const struct resolver *resolver, const char *name)
{
	const struct resolver_entry *entry = resolver->entries;
	while (entry && !str_eq(entry->name, name))
		entry = entry->next;
	return entry != NULL;
}

static void forget_oldest(struct resolver *resolver)
{
	struct resolver_entry **at = &resolver->entries;
	while ((*at)->next)
		at = &(*at)->next;
	entry_free(*at);
	*at = NULL;
	resolver->entry_count--;
}

static void keep(struct resolver *resolver, const char *name, uint16_t type,
                 const struct dns_answer *answer, uint64_t now_ms)
{
	struct resolver_entry *entry = find_entry(resolver, name, type);
	uint32_t ttl_s = answer->count > 0 ? MIN(answer->ttl_s, (uint32_t)TTL_MOST_S) : TTL_NONE_S;
	if (!entry) {
		if (resolver->entry_count == ENTRIES)
			forget_oldest(resolver);
		entry = mem_new(struct resolver_entry);
		entry->name = mem_strdup(name);
		entry->type = type;
		entry->next = resolver->entries;
		resolver->entries = entry;
		resolver->entry_count++;
	}
	entry->answer = *answer;
	entry->until_ms = now_ms + ttl_s * UINT64_C(1000);
}

/* An answer may lead to places nobody inside may reach: those are taken out of it. */
static void filter(struct resolver *resolver, const char *name, struct dns_answer *answer)
{
	struct gateway *gateway = resolver->gateway;
	struct transparent_end to = {.port = 0};
	size_t kept = 0, dropped = 0;
	for (size_t i = 0; i < answer->count; i++) {
		if (!judge_address(&gateway->judge, &answer->addrs[i])) {
			answer->addrs[kept++] = answer->addrs[i];
			continue;
		}
		to.addr = answer->addrs[i];
		dropped++;
	}
	answer->count = kept;
	if (dropped == 0)
		return;
	struct judgement judgement = {.answer = POLICY_DENY};
	struct decision decision;
	judge_refuse(&judgement, JUDGE_REBIND, name);
	(void)!str_copy(judgement.host, sizeof(judgement.host), name); /* both are names */
	gateway_fill(gateway, &judgement, DECISION_DNS, &to, &to, &decision);
	(void)decision_make(&gateway->decisions, &decision, NULL, NULL);
	if (kept == 0)
		answer->rcode = DNS_NO_NAME;
}

/* A name that is denied must not be reached by another that leads over it. */
static void filter_aliases(struct resolver *resolver, const struct resolver_search *search,
                           const uint8_t *bytes, size_t len, struct dns_answer *answer)
{
	struct gateway *gateway = resolver->gateway;
	struct transparent_end nowhere = {.port = 0};
	char alias[DNS_NAME_TEXT];
	for (size_t i = 0; dns_alias_at(bytes, len, search->name, search->type, i, alias); i++) {
		struct policy_verdict verdict =
			policy_name_verdict(&gateway->judge.policy, alias, 0);
		struct judgement judgement;
		struct decision decision;
		if (verdict.reason != POLICY_RULE_DENY)
			continue;
		judge_question(&gateway->judge, alias, &judgement);
		gateway_fill(gateway, &judgement, DECISION_DNS, &nowhere, &nowhere, &decision);
		(void)decision_make(&gateway->decisions, &decision, NULL, NULL);
		answer->count = 0;
		answer->rcode = DNS_NO_NAME;
		return;
	}
}

static void pin(struct resolver *resolver, const char *name, const struct dns_answer *answer,
                uint64_t now_ms)
{
	uint32_t hold_s = MIN(MAX(answer->ttl_s, (uint32_t)PIN_LEAST_S), (uint32_t)PIN_MOST_S);
	for (size_t i = 0; i < answer->count; i++)
		pins_add(&resolver->gateway->judge.pins, name, &answer->addrs[i],
		         now_ms + hold_s * UINT64_C(1000), now_ms);
}

/* --- caps --- */

static bool take_token(struct resolver *resolver, uint64_t now_ms)
{
	const struct policy *policy = &resolver->gateway->judge.policy;
	if (resolver->tokens_ms == 0)
		resolver->tokens = policy->dns_burst;
	else
		resolver->tokens +=
			(double)(now_ms - resolver->tokens_ms) * policy->dns_rate / 1000.0;
	resolver->tokens_ms = now_ms;
	if (resolver->tokens > policy->dns_burst)
		resolver->tokens = policy->dns_burst;
	if (resolver->tokens < 1)
		return false;
	resolver->tokens -= 1;
	return true;
}

/* The quota of a rule; the one that rested longest is taken for a new one. */
static struct resolver_quota *find_quota(struct resolver *resolver, const char *rule)
{
	struct resolver_quota *oldest = &resolver->quotas[0];
	for (size_t i = 0; i < RESOLVER_WILDCARDS; i++) {
		struct resolver_quota *quota = &resolver->quotas[i];
		if (str_eq(quota->name, rule))
			return quota;
		if (quota->hour_ms < oldest->hour_ms)
			oldest = quota;
	}
	*oldest = (struct resolver_quota){0};
	(void)!str_copy(oldest->name, sizeof(oldest->name), rule); /* a name of the policy: fits */
	return oldest;
}

/* Labels below a wildcard reach whoever owns the zone: a way out for data, so it is a narrow one.
 */
static bool is_within_quota(struct resolver *resolver, const char *name, uint64_t now_ms)
{
	const struct policy *policy = &resolver->gateway->judge.policy;
	struct policy_verdict verdict = policy_name_verdict(policy, name, 0);
	if (verdict.rule < 0 || !policy->rules[verdict.rule].is_wildcard ||
	    is_known(resolver, name))
		return true;
	const char *rule = policy->rules[verdict.rule].name;
	size_t labels = strlen(name) - strlen(rule);
	if (labels == 0)
		return true;
	struct resolver_quota *quota = find_quota(resolver, rule);
	if (now_ms - quota->minute_ms >= MINUTE_MS) {
		quota->minute_ms = now_ms;
		quota->names = 0;
	}
	if (now_ms - quota->hour_ms >= HOUR_MS) {
		quota->hour_ms = now_ms;
		quota->label_bytes = 0;
	}
	if (quota->names + 1 > policy->dns_new_names ||
	    quota->label_bytes + labels > policy->dns_label_bytes)
		return false;
	quota->names++;
	quota->label_bytes += labels;
	return true;
}

/* --- asking --- */

/* The policy may have changed since it was asked. */
static void reply_found(struct resolver *resolver, const struct resolver_ask *ask,
                        const struct dns_answer *answer)
{
	struct judgement judgement;
	judge_question(&resolver->gateway->judge, ask->query.name, &judgement);
	if (judgement.answer == POLICY_ALLOW)
		reply(resolver, ask, answer);
	else
		reply_empty(resolver, ask, DNS_NO_NAME);
}

/* Another type than an address, handed on as it came: only where every name is allowed anyway. */
static void reply_raw(struct resolver *resolver, const struct resolver_ask *ask,
                      const uint8_t *bytes, size_t len)
{
	uint8_t out[DNS_MESSAGE_MOST];
	struct dns_answer cut = {.is_truncated = true};
	if (len > sizeof(out) || (ask->client == 0 && len > ask->query.udp_size)) {
		reply(resolver, ask, &cut);
		return;
	}
	memcpy(out, bytes, len);
	out[0] = (uint8_t)(ask->query.id >> 8);
	out[1] = (uint8_t)ask->query.id;
	send_bytes(resolver, ask, out, len);
}

static bool is_address_type(uint16_t type)
{
	return type == DNS_A || type == DNS_AAAA;
}

static void on_looked_up(void *ctx, uint16_t id, const uint8_t *bytes, size_t len)
{
	struct resolver_search *search = ctx;
	struct resolver *resolver = search->resolver;
	uint64_t now_ms = gateway_now_ms(resolver->gateway);
	struct dns_answer answer = {.rcode = DNS_FAILED};
	bool is_address = is_address_type(search->type);
	bool is_answered = bytes && (!is_address || dns_parse_answer(bytes, len, id, search->name,
	                                                             search->type, &answer) == 0);
	search->lookup = NULL;
	if (is_answered && is_address) {
		filter_aliases(resolver, search, bytes, len, &answer);
		filter(resolver, search->name, &answer);
		pin(resolver, search->name, &answer, now_ms);
		answer.ttl_s = MIN(answer.ttl_s, (uint32_t)TTL_MOST_S);
		if (answer.rcode == DNS_OK || answer.rcode == DNS_NO_NAME)
			keep(resolver, search->name, search->type, &answer, now_ms);
	}
	while (search->waiters) {
		struct waiter *waiter = search->waiters;
		search->waiters = waiter->next;
		if (waiter->on_found)
			waiter->on_found(waiter->ctx, is_answered ? &answer : NULL);
		else if (is_answered && !is_address)
			reply_raw(resolver, &waiter->ask, bytes, len);
		else
			reply_found(resolver, &waiter->ask, &answer);
		free(waiter);
	}
	search_free(search);
}

static struct resolver_search *find_search(const struct resolver *resolver, const char *name,
                                           uint16_t type)
{
	struct resolver_search *search = resolver->searches;
	while (search && !(search->type == type && str_eq(search->name, name)))
		search = search->next;
	return search;
}

/* The search for it, begun if need be. NULL: too many already. */
static struct resolver_search *search_for(struct resolver *resolver, const char *name,
                                          uint16_t type)
{
	struct resolver_search *search = find_search(resolver, name, type);
	if (search)
		return search->waiter_count < ASKS ? search : NULL;
	if (resolver->search_count == SEARCHES)
		return NULL;
	search = mem_new(struct resolver_search);
	search->resolver = resolver;
	search->type = type;
	(void)!str_copy(search->name, sizeof(search->name), name); /* as long as any name */
	search->next = resolver->searches;
	resolver->searches = search;
	resolver->search_count++;
	resolver->asked++;
	gateway_count_sent(resolver->gateway, strlen(name) + QUESTION_MORE);
	search->lookup = lookup_start(&resolver->gateway->dials, name, type, &resolver->preferred,
	                              on_looked_up, search);
	if (search->lookup)
		return search;
	search_free(search);
	return NULL;
}

static bool wait_for(struct resolver *resolver, const char *name, uint16_t type,
                     const struct waiter *like)
{
	struct resolver_search *search = search_for(resolver, name, type);
	if (!search)
		return false;
	struct waiter *waiter = mem_new(struct waiter);
	*waiter = *like;
	waiter->next = search->waiters;
	search->waiters = waiter;
	search->waiter_count++;
	return true;
}

void resolver_find(struct resolver *resolver, const char *name, resolver_on_found on_found,
                   void *ctx)
{
	struct resolver_entry *entry = find_entry(resolver, name, DNS_A);
	struct waiter waiter = {.on_found = on_found, .ctx = ctx};
	if (entry && entry->until_ms > gateway_now_ms(resolver->gateway))
		on_found(ctx, &entry->answer);
	else if (!wait_for(resolver, name, DNS_A, &waiter))
		on_found(ctx, NULL);
}

void resolver_cancel(struct resolver *resolver, void *ctx)
{
	for (struct resolver_search *search = resolver->searches; search; search = search->next) {
		struct waiter **at = &search->waiters;
		while (*at) {
			struct waiter *waiter = *at;
			if (waiter->on_found && waiter->ctx == ctx) {
				*at = waiter->next;
				free(waiter);
			} else {
				at = &waiter->next;
			}
		}
	}
}

/* --- questions --- */

static bool is_localhost(const char *name)
{
	return str_eq(name, "localhost") || str_has_suffix(name, ".localhost");
}

/* RFC 6761, 6.3. */
static void reply_localhost(struct resolver *resolver, const struct resolver_ask *ask)
{
	struct dns_answer answer = {.ttl_s = TTL_MOST_S, .count = 1};
	if (!addr_parse(ask->query.type == DNS_AAAA ? "::1" : "127.0.0.1", &answer.addrs[0]))
		answer.count = 0;
	reply(resolver, ask, &answer);
}

/* The API and the services of this machine, which every sandbox has: with us. */
static bool is_ours(const char *name)
{
	return str_has_suffix(name, ".cloche.internal");
}

static void reply_ours(struct resolver *resolver, const struct resolver_ask *ask)
{
	bool is_v6 = ask->query.type == DNS_AAAA;
	const struct uplink *uplink = resolver->gateway->uplink;
	struct dns_answer answer = {.ttl_s = TTL_MOST_S};
	if (uplink->tcp[is_v6 ? UPLINK_V6 : UPLINK_V4] >= 0 && is_address_type(ask->query.type) &&
	    addr_parse(is_v6 ? UPLINK_GATEWAY_V6 : UPLINK_GATEWAY_V4, &answer.addrs[0]))
		answer.count = 1;
	reply(resolver, ask, &answer);
}

/* A person has to decide about the name: until then nothing about it leaves. */
static void reply_stand_in(struct resolver *resolver, const struct resolver_ask *ask)
{
	struct pins *pins = &resolver->gateway->judge.pins;
	uint64_t now_ms = gateway_now_ms(resolver->gateway);
	struct dns_answer answer = {.ttl_s = STAND_IN_TTL_S};
	const struct addr *known;
	size_t at = 0;
	if (ask->query.type == DNS_A) {
		do {
			known = pins_next_addr(pins, ask->query.name, now_ms, &at);
		} while (known && !judge_is_stand_in(known));
		answer.addrs[0] = known ? *known : judge_stand_in(++resolver->last_stand_in);
		answer.count = 1;
		pins_add(pins, ask->query.name, &answer.addrs[0], now_ms + HOUR_MS, now_ms);
	}
	reply(resolver, ask, &answer);
}

/* An allowed name. */
static void find_for(struct resolver *resolver, const struct resolver_ask *ask,
                     struct judgement *judgement)
{
	struct gateway *gateway = resolver->gateway;
	const struct dns_query *query = &ask->query;
	uint64_t now_ms = gateway_now_ms(gateway);
	struct resolver_entry *entry = find_entry(resolver, query->name, query->type);
	struct waiter waiter = {.ask = *ask};
	if (!is_address_type(query->type) && !gateway->judge.policy.names_any) {
		reply_empty(resolver, ask, DNS_OK);
		return;
	}
	if (query->type == DNS_AAAA && !gateway->dials.has_v6) {
		reply_empty(resolver, ask, DNS_OK); /* it would lead nowhere */
		return;
	}
	if (entry && entry->until_ms > now_ms) {
		struct dns_answer answer = entry->answer;
		answer.ttl_s = (uint32_t)((entry->until_ms - now_ms) / 1000) + 1;
		reply(resolver, ask, &answer);
		return;
	}
	bool is_new = !find_search(resolver, query->name, query->type);
	if (is_new && gateway_is_capped(gateway)) {
		judge_refuse(judgement, JUDGE_CAP, query->name);
		refuse(resolver, ask, judgement, DNS_REFUSED);
	} else if (is_new && !is_within_quota(resolver, query->name, now_ms)) {
		judge_refuse(judgement, JUDGE_DNS_NAMES, query->name);
		refuse(resolver, ask, judgement, DNS_REFUSED);
	} else if (is_new && !take_token(resolver, now_ms)) {
		judge_refuse(judgement, JUDGE_DNS_RATE, query->name);
		refuse(resolver, ask, judgement, DNS_REFUSED);
	} else if (!wait_for(resolver, query->name, query->type, &waiter)) {
		reply_empty(resolver, ask, DNS_FAILED);
	}
}

/* A name that is only asked for must be in the policy that is learned: else it is denied there. */
static void note_recorded(struct resolver *resolver, const struct resolver_ask *ask,
                          const struct judgement *judgement)
{
	struct decision decision;
	gateway_fill(resolver->gateway, judgement, DECISION_DNS, &ask->from, &ask->to, &decision);
	decision.verdict = DECISION_ALLOW;
	(void)decision_make(&resolver->gateway->decisions, &decision, NULL, NULL);
}

void resolver_question(struct resolver *resolver, struct resolver_ask *ask)
{
	struct gateway *gateway = resolver->gateway;
	struct judgement judgement;
	enum dns_rcode rcode;
	uint8_t failure[DNS_UDP_PLAIN];
	if (dns_parse_query(ask->bytes, ask->len, &ask->query, &rcode) < 0) {
		/* An answer, or nothing that could be answered, gets nothing: no game without end.
		 */
		size_t len = rcode == DNS_OK ? 0
		                             : dns_write_failure(ask->query.id, rcode, failure,
		                                                 sizeof(failure));
		if (len > 0)
			send_bytes(resolver, ask, failure, len);
		return;
	}
	const char *name = ask->query.name;
	if (gateway->probe.is_on && str_eq(name, gateway->probe.name)) {
		gateway->probe.saw_question = true;
		reply_empty(resolver, ask, DNS_NO_NAME);
		return;
	}
	if (is_localhost(name) && is_address_type(ask->query.type)) {
		reply_localhost(resolver, ask);
		return;
	}
	if (is_ours(name) && ask->query.is_writable) {
		reply_ours(resolver, ask);
		return;
	}
	judge_question(&gateway->judge, ask->query.is_writable ? name : "?", &judgement);
	if (judgement.is_recorded)
		note_recorded(resolver, ask, &judgement);
	if (judgement.answer == POLICY_DENY)
		refuse(resolver, ask, &judgement, DNS_NO_NAME);
	else if (judgement.answer == POLICY_ASK_FIRST)
		reply_stand_in(resolver, ask);
	else
		find_for(resolver, ask, &judgement);
}

void resolver_datagram(struct resolver *resolver, const uint8_t *bytes, size_t len,
                       const struct transparent_end *from, const struct transparent_end *to)
{
	struct resolver_ask ask = {.from = *from, .to = *to, .len = len};
	if (len > sizeof(ask.bytes))
		return; /* no question is that long */
	memcpy(ask.bytes, bytes, len);
	resolver_question(resolver, &ask);
}

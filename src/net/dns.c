#include "net/dns.h"

#include <errno.h>
#include <string.h>

enum {
	HEADER = 12,
	CLASS_IN = 1,
	FLAG_ANSWER = 0x8000,
	FLAG_OPCODE = 0x7800,
	FLAG_TRUNCATED = 0x0200,
	FLAG_RECURSE = 0x0100,
	FLAG_CAN_RECURSE = 0x0080,
	RCODE = 0x000f,
	POINTER = 0xc0,
	LABEL_MOST = 63,
	NAME_MOST = 255, /* on the wire */
	CHAIN_MOST = 12, /* CNAMEs one after the other */
	RECORDS_MOST = 256,
	V4_AT = 12,
	OPT_LEN = 11,
};

struct reader {
	const uint8_t *bytes;
	size_t len, at;
	bool failed;
};

static unsigned take(struct reader *in, size_t count)
{
	unsigned value = 0;
	if (in->failed || count > in->len - in->at) {
		in->failed = true;
		return 0;
	}
	for (size_t i = 0; i < count; i++)
		value = value << 8 | in->bytes[in->at++];
	return value;
}

static uint32_t take_u32(struct reader *in)
{
	uint32_t high = take(in, 2);
	return high << 16 | take(in, 2);
}

static void skip(struct reader *in, size_t count)
{
	if (in->failed || count > in->len - in->at)
		in->failed = true;
	else
		in->at += count;
}

static bool is_name_byte(uint8_t c)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

static uint8_t lower(uint8_t c)
{
	return c >= 'A' && c <= 'Z' ? (uint8_t)(c | 0x20) : c;
}

/* A name being put together as text. */
struct name {
	char text[DNS_NAME_TEXT];
	size_t len;
	bool is_writable;
};

static void add_label(struct name *name, const uint8_t *label, size_t len)
{
	if (name->len + len + 2 > sizeof(name->text)) {
		name->is_writable = false;
		return;
	}
	if (name->len > 0)
		name->text[name->len++] = '.';
	for (size_t i = 0; i < len; i++) {
		uint8_t c = lower(label[i]);
		/* A dot inside a label, a NUL and the like would mean another name as text. */
		if (!is_name_byte(c))
			name->is_writable = false;
		name->text[name->len++] = is_name_byte(c) ? (char)c : '?';
	}
	name->text[name->len] = '\0';
}

/* A name at in->at, which moves behind it. Pointers only go backwards, so there is an end. */
static void take_name(struct reader *in, struct name *ret)
{
	size_t at = in->at, limit = at, total = 0;
	bool has_jumped = false;
	*ret = (struct name){.is_writable = true};
	for (;;) {
		if (in->failed || at >= in->len)
			break;
		uint8_t len = in->bytes[at];
		if ((len & POINTER) == POINTER) {
			if (at + 1 >= in->len)
				break;
			size_t to = (size_t)(len & ~POINTER) << 8 | in->bytes[at + 1];
			if (!has_jumped)
				in->at = at + 2;
			has_jumped = true;
			if (to >= limit)
				break;
			at = limit = to;
			continue;
		}
		total += (size_t)len + 1;
		if (len > LABEL_MOST || total > NAME_MOST || len >= in->len - at)
			break;
		if (len == 0) {
			if (!has_jumped)
				in->at = at + 1;
			return;
		}
		add_label(ret, in->bytes + at + 1, len);
		at += (size_t)len + 1;
	}
	in->failed = true;
}

struct header {
	uint16_t id, flags;
	unsigned questions, answers, authorities, additionals;
};

static struct header take_header(struct reader *in)
{
	struct header head;
	head.id = (uint16_t)take(in, 2);
	head.flags = (uint16_t)take(in, 2);
	head.questions = take(in, 2);
	head.answers = take(in, 2);
	head.authorities = take(in, 2);
	head.additionals = take(in, 2);
	return head;
}

/* --- questions of a sandbox --- */

/* The OPT record, where there is one (RFC 6891): what the client takes. */
static void take_edns(struct reader *in, struct dns_query *ret)
{
	struct name owner;
	take_name(in, &owner);
	unsigned type = take(in, 2), size = take(in, 2);
	(void)take_u32(in);
	skip(in, take(in, 2));
	if (in->failed || type != DNS_OPT || owner.len > 0)
		return;
	ret->has_edns = true;
	ret->udp_size = (uint16_t)MIN(MAX(size, (unsigned)DNS_UDP_PLAIN), (unsigned)DNS_UDP_MOST);
}

int dns_parse_query(const uint8_t *bytes, size_t len, struct dns_query *ret,
                    enum dns_rcode *ret_rcode)
{
	struct reader in = {.bytes = bytes, .len = len};
	struct header head = take_header(&in);
	*ret_rcode = DNS_OK;
	*ret = (struct dns_query){.id = head.id, .flags = head.flags, .udp_size = DNS_UDP_PLAIN};
	if (in.failed || head.flags & FLAG_ANSWER)
		return -EBADMSG; /* answering an answer could go on for ever */
	*ret_rcode = head.flags & FLAG_OPCODE ? DNS_NOT_DONE : DNS_FORMAT;
	if (head.flags & FLAG_OPCODE || head.questions != 1 || head.answers != 0 ||
	    head.authorities != 0 || head.additionals > 1)
		return -EBADMSG;
	struct name name;
	take_name(&in, &name);
	ret->type = (uint16_t)take(&in, 2);
	unsigned class = take(&in, 2);
	if (in.failed || class != CLASS_IN)
		return -EBADMSG;
	ret->question_len = in.at - HEADER;
	memcpy(ret->name, name.text, sizeof(ret->name));
	ret->is_writable = name.is_writable && name.len > 0;
	if (head.additionals == 1)
		take_edns(&in, ret);
	return in.failed || in.at != in.len ? -EBADMSG : 0;
}

/* --- writing --- */

struct writer {
	uint8_t *bytes;
	size_t size, len;
	bool is_full;
};

static void put(struct writer *out, uint64_t value, size_t count)
{
	if (out->is_full || count > out->size - out->len) {
		out->is_full = true;
		return;
	}
	for (size_t i = count; i-- > 0;)
		out->bytes[out->len++] = (uint8_t)(value >> (8 * i));
}

static void put_bytes(struct writer *out, const uint8_t *bytes, size_t count)
{
	if (out->is_full || count > out->size - out->len) {
		out->is_full = true;
		return;
	}
	memcpy(out->bytes + out->len, bytes, count);
	out->len += count;
}

static void put_header(struct writer *out, uint16_t id, unsigned flags, size_t answers,
                       size_t additionals)
{
	put(out, id, 2);
	put(out, flags, 2);
	put(out, 1, 2);
	put(out, answers, 2);
	put(out, 0, 2);
	put(out, additionals, 2);
}

size_t dns_write_failure(uint16_t id, enum dns_rcode rcode, uint8_t *out, size_t size)
{
	struct writer to = {.bytes = out, .size = size};
	put(&to, id, 2);
	put(&to, FLAG_ANSWER | FLAG_CAN_RECURSE | (unsigned)rcode, 2);
	put(&to, 0, 8);
	return to.is_full ? 0 : to.len;
}

static bool fits_type(const struct addr *addr, uint16_t type)
{
	return type == (addr_is_v4(addr) ? DNS_A : DNS_AAAA);
}

static size_t put_addresses(struct writer *to, const struct dns_query *query,
                            const struct dns_answer *answer, size_t reserve)
{
	size_t count = 0;
	for (size_t i = 0; i < answer->count; i++) {
		const struct addr *addr = &answer->addrs[i];
		size_t len = addr_is_v4(addr) ? 4 : sizeof(addr->bytes);
		if (!fits_type(addr, query->type))
			continue;
		if (HEADER + len + reserve > to->size - to->len) {
			to->is_full = true; /* the caller marks it */
			break;
		}
		put(to, POINTER << 8 | HEADER, 2); /* the name in the question */
		put(to, query->type, 2);
		put(to, CLASS_IN, 2);
		put(to, answer->ttl_s, 4);
		put(to, len, 2);
		put_bytes(to, addr->bytes + sizeof(addr->bytes) - len, len);
		count++;
	}
	return count;
}

size_t dns_write_answer(const struct dns_query *query, const uint8_t *asked, size_t len,
                        const struct dns_answer *answer, uint8_t *out, size_t size)
{
	struct writer to = {.bytes = out, .size = size};
	size_t reserve = query->has_edns ? OPT_LEN : 0;
	if (HEADER + query->question_len > len || HEADER + query->question_len + reserve > size)
		return dns_write_failure(query->id, DNS_FAILED, out, size);
	put_header(&to, query->id, 0, 0, query->has_edns);
	put_bytes(&to, asked + HEADER, query->question_len);
	size_t count = put_addresses(&to, query, answer, reserve);
	unsigned flags = FLAG_ANSWER | FLAG_CAN_RECURSE | (query->flags & FLAG_RECURSE) |
	                 ((unsigned)answer->rcode & RCODE) |
	                 (answer->is_truncated || to.is_full ? FLAG_TRUNCATED : 0);
	to.is_full = false;
	if (query->has_edns) {
		put(&to, 0, 1);
		put(&to, DNS_OPT, 2);
		put(&to, DNS_UDP_MOST, 2);
		put(&to, 0, 6);
	}
	struct writer head = {.bytes = out, .size = HEADER};
	put_header(&head, query->id, flags, count, query->has_edns);
	return to.len;
}

size_t dns_write_query(uint16_t id, const char *name, uint16_t type, uint8_t *out)
{
	struct writer to = {.bytes = out, .size = DNS_QUERY_MOST};
	put_header(&to, id, FLAG_RECURSE, 0, 1);
	for (const char *label = name; *label != '\0';) {
		const char *dot = strchr(label, '.');
		size_t len = dot ? (size_t)(dot - label) : strlen(label);
		if (len == 0 || len > LABEL_MOST)
			return 0;
		put(&to, len, 1);
		put_bytes(&to, (const uint8_t *)label, len);
		label += len + (dot != NULL);
	}
	put(&to, 0, 1);
	if (to.len - HEADER > NAME_MOST)
		return 0;
	put(&to, type, 2);
	put(&to, CLASS_IN, 2);
	put(&to, 0, 1);
	put(&to, DNS_OPT, 2);
	put(&to, DNS_UDP_MOST, 2);
	put(&to, 0, 6);
	return to.is_full ? 0 : to.len;
}

/* --- answers of resolvers --- */

/* Reads header and question; they must answer what was asked. */
static bool take_matching(struct reader *in, uint16_t id, const char *name, uint16_t type,
                          struct header *ret)
{
	struct name asked;
	*ret = take_header(in);
	if (in->failed || ret->id != id || !(ret->flags & FLAG_ANSWER) ||
	    ret->flags & FLAG_OPCODE || ret->questions != 1)
		return false;
	take_name(in, &asked);
	unsigned asked_type = take(in, 2), class = take(in, 2);
	return !in->failed && asked.is_writable && strcmp(asked.text, name) == 0 &&
	       asked_type == type && class == CLASS_IN;
}

bool dns_is_answer(const uint8_t *bytes, size_t len, uint16_t id, const char *name, uint16_t type)
{
	struct reader in = {.bytes = bytes, .len = len};
	struct header head;
	return take_matching(&in, id, name, type, &head);
}

bool dns_is_truncated(const uint8_t *bytes, size_t len)
{
	struct reader in = {.bytes = bytes, .len = len};
	struct header head = take_header(&in);
	return !in.failed && head.flags & FLAG_TRUNCATED;
}

struct record {
	struct name owner;
	unsigned type, class;
	uint32_t ttl_s;
	size_t at, len; /* of the data */
};

static bool take_record(struct reader *in, struct record *ret)
{
	take_name(in, &ret->owner);
	ret->type = take(in, 2);
	ret->class = take(in, 2);
	ret->ttl_s = take_u32(in);
	ret->len = take(in, 2);
	ret->at = in->at;
	skip(in, ret->len);
	return !in->failed;
}

static void add_address(struct dns_answer *ret, const uint8_t *data, const struct record *record)
{
	struct addr addr;
	if (ret->count == DNS_ADDRS || record->len != (record->type == DNS_A ? 4 : 16))
		return;
	if (record->type == DNS_A)
		addr = addr_from_v4(data);
	else
		memcpy(addr.bytes, data, sizeof(addr.bytes));
	/* An AAAA record that is an IPv4 address would be dialled as one. */
	if (record->type == DNS_AAAA && addr_is_v4(&addr))
		return;
	ret->ttl_s = MIN(ret->ttl_s, record->ttl_s);
	ret->addrs[ret->count++] = addr;
}

/* One walk over the records from `in`: what stands under `name`. True: it is an alias, and *name is
 * now what it stands for. */
static bool follow(struct reader in, unsigned records, uint16_t type, struct name *name,
                   struct dns_answer *ret)
{
	for (unsigned i = 0; i < records; i++) {
		struct record record;
		if (!take_record(&in, &record))
			return false;
		if (record.class != CLASS_IN || !record.owner.is_writable ||
		    strcmp(record.owner.text, name->text) != 0)
			continue;
		if (record.type == type) {
			add_address(ret, in.bytes + record.at, &record);
		} else if (record.type == DNS_CNAME && ret->count == 0) {
			struct reader data = {.bytes = in.bytes, .len = in.len, .at = record.at};
			struct name target;
			take_name(&data, &target);
			if (data.failed || !target.is_writable || data.at != record.at + record.len)
				return false;
			ret->ttl_s = MIN(ret->ttl_s, record.ttl_s);
			*name = target;
			return true;
		}
	}
	return false;
}

static bool start_chain(const char *name, struct name *ret)
{
	size_t len = strlen(name);
	*ret = (struct name){.is_writable = true};
	if (len >= sizeof(ret->text))
		return false;
	memcpy(ret->text, name, len + 1);
	return true;
}

bool dns_alias_at(const uint8_t *bytes, size_t len, const char *name, uint16_t type, size_t index,
                  char ret[DNS_NAME_TEXT])
{
	struct reader in = {.bytes = bytes, .len = len};
	struct header head = take_header(&in);
	struct dns_answer ignored = {0};
	struct name at;
	take_name(&in, &at);
	skip(&in, 4); /* type and class, which dns_parse_answer looked at */
	if (in.failed || head.answers > RECORDS_MOST || index >= CHAIN_MOST ||
	    !start_chain(name, &at))
		return false;
	for (size_t i = 0; i <= index; i++) {
		if (!follow(in, head.answers, type, &at, &ignored))
			return false;
	}
	memcpy(ret, at.text, sizeof(at.text));
	return true;
}

int dns_parse_answer(const uint8_t *bytes, size_t len, uint16_t id, const char *name, uint16_t type,
                     struct dns_answer *ret)
{
	struct reader in = {.bytes = bytes, .len = len};
	struct header head;
	*ret = (struct dns_answer){.ttl_s = UINT32_MAX};
	if (!take_matching(&in, id, name, type, &head) || head.answers > RECORDS_MOST)
		return -EBADMSG;
	ret->rcode = (enum dns_rcode)(head.flags & RCODE);
	ret->is_truncated = (head.flags & FLAG_TRUNCATED) != 0;
	struct name at;
	if (!start_chain(name, &at))
		return -EBADMSG;
	for (int i = 0; i < CHAIN_MOST && follow(in, head.answers, type, &at, ret); i++)
		;
	return 0;
}

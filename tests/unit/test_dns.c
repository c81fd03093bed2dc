#include "net/dns.h"

#include <errno.h>

#include "harness/test.h"

enum { ID = 0x1234 };

struct message {
	uint8_t bytes[1024];
	size_t len;
};

static void put(struct message *message, const void *bytes, size_t len)
{
	CHECK(message->len + len <= sizeof(message->bytes));
	memcpy(message->bytes + message->len, bytes, len);
	message->len += len;
}

static void put_u16(struct message *message, unsigned value)
{
	put(message, (const uint8_t[]){(uint8_t)(value >> 8), (uint8_t)value}, 2);
}

static void put_name(struct message *message, const char *name)
{
	for (const char *label = name; *label;) {
		size_t len = strcspn(label, ".");
		put(message, (const uint8_t[]){(uint8_t)len}, 1);
		put(message, label, len);
		label += len + (label[len] == '.');
	}
	put(message, "", 1);
}

static struct message begin(unsigned flags, unsigned answers, const char *name, unsigned type)
{
	struct message message = {.len = 0};
	put_u16(&message, ID);
	put_u16(&message, flags);
	put_u16(&message, 1);
	put_u16(&message, answers);
	put_u16(&message, 0);
	put_u16(&message, 0);
	put_name(&message, name);
	put_u16(&message, type);
	put_u16(&message, 1);
	return message;
}

static void put_record(struct message *message, const char *owner, unsigned type, const void *data,
                       size_t len)
{
	put_name(message, owner);
	put_u16(message, type);
	put_u16(message, 1);
	put_u16(message, 0);
	put_u16(message, 300);
	put_u16(message, (unsigned)len);
	put(message, data, len);
}

static void put_alias(struct message *message, const char *owner, const char *target)
{
	struct message data = {.len = 0};
	put_name(&data, target);
	put_record(message, owner, DNS_CNAME, data.bytes, data.len);
}

TEST(questions_are_read_in_one_form)
{
	struct message asked = begin(0x0100, 0, "WWW.Example.TEST", DNS_A);
	struct dns_query query;
	enum dns_rcode rcode;
	CHECK_INT(dns_parse_query(asked.bytes, asked.len, &query, &rcode), 0);
	CHECK_STR(query.name, "www.example.test");
	CHECK(query.is_writable);
	CHECK_INT(query.type, DNS_A);
	CHECK_INT(query.udp_size, DNS_UDP_PLAIN);
}

TEST(names_that_are_no_text_match_nothing)
{
	static const uint8_t odd[][8] = {
		{4, 'a', '.', 'b', 'c', 0}, {3, 'a', 0, 'b', 0}, {2, 'a', ' ', 0}, {1, 0xff, 0}};
	for (size_t i = 0; i < ARRAY_LEN(odd); i++) {
		struct message asked = begin(0x0100, 0, "", DNS_A);
		asked.len = 12;
		put(&asked, odd[i], strlen((const char *)odd[i]) + (i == 1 ? 3 : 1));
		put_u16(&asked, DNS_A);
		put_u16(&asked, 1);
		struct dns_query query;
		enum dns_rcode rcode;
		CHECK_INT(dns_parse_query(asked.bytes, asked.len, &query, &rcode), 0);
		CHECK(!query.is_writable);
	}
}

TEST(answers_are_never_answered)
{
	struct message asked = begin(0x8100, 0, "example.test", DNS_A);
	struct dns_query query;
	enum dns_rcode rcode;
	CHECK_INT(dns_parse_query(asked.bytes, asked.len, &query, &rcode), -EBADMSG);
	CHECK_INT(rcode, DNS_OK);
	asked.bytes[2] = 0x29; /* update */
	CHECK_INT(dns_parse_query(asked.bytes, asked.len, &query, &rcode), -EBADMSG);
	CHECK_INT(rcode, DNS_NOT_DONE);
	CHECK_INT(dns_parse_query(asked.bytes, 11, &query, &rcode), -EBADMSG);
	CHECK_INT(rcode, DNS_OK);
}

TEST(what_is_written_is_read)
{
	uint8_t asked[DNS_QUERY_MOST], out[DNS_UDP_MOST];
	struct dns_query query;
	struct dns_answer answer = {.ttl_s = 30, .count = 2}, got;
	enum dns_rcode rcode;
	answer.addrs[0] = addr_from_v4((const uint8_t[]){93, 184, 216, 34});
	CHECK(addr_parse("2606:2800::1", &answer.addrs[1]));
	size_t len = dns_write_query(ID, "example.test", DNS_A, asked);
	CHECK_INT(dns_parse_query(asked, len, &query, &rcode), 0);
	CHECK(query.has_edns);
	size_t written = dns_write_answer(&query, asked, len, &answer, out, query.udp_size);
	CHECK_INT(dns_parse_answer(out, written, ID, "example.test", DNS_A, &got), 0);
	CHECK_INT(got.count, 1);
	CHECK_INT(got.ttl_s, 30);
	CHECK_MEM(got.addrs[0].bytes, answer.addrs[0].bytes, 16);
	CHECK_INT(dns_parse_answer(out, written, ID + 1, "example.test", DNS_A, &got), -EBADMSG);
	CHECK_INT(dns_parse_answer(out, written, ID, "other.test", DNS_A, &got), -EBADMSG);
	CHECK_INT(dns_parse_answer(out, written, ID, "example.test", DNS_AAAA, &got), -EBADMSG);
}

TEST(too_many_addresses_are_cut_and_marked)
{
	struct message asked =
		begin(0x0100, 0, "a-long-name-that-takes-room.example.test", DNS_AAAA);
	uint8_t out[DNS_UDP_PLAIN];
	struct dns_query query;
	struct dns_answer answer = {.ttl_s = 30, .count = DNS_ADDRS}, got;
	enum dns_rcode rcode;
	for (size_t i = 0; i < DNS_ADDRS; i++)
		CHECK(addr_parse("2606:2800::1", &answer.addrs[i]));
	CHECK_INT(dns_parse_query(asked.bytes, asked.len, &query, &rcode), 0);
	size_t len = dns_write_answer(&query, asked.bytes, asked.len, &answer, out, sizeof(out));
	CHECK(len <= sizeof(out));
	CHECK(dns_is_truncated(out, len));
	CHECK_INT(dns_parse_answer(out, len, ID, query.name, DNS_AAAA, &got), 0);
	CHECK(got.count > 5 && got.count < DNS_ADDRS);
}

TEST(aliases_are_followed_and_strangers_are_not)
{
	struct message message = begin(0x8180, 4, "example.test", DNS_A);
	struct dns_answer got;
	put_record(&message, "other.test", DNS_A, "\x09\x09\x09\x09", 4);
	put_record(&message, "b.cdn.test", DNS_A, "\x01\x02\x03\x04", 4);
	put_alias(&message, "example.test", "a.cdn.test");
	put_alias(&message, "a.cdn.test", "b.cdn.test");
	CHECK_INT(dns_parse_answer(message.bytes, message.len, ID, "example.test", DNS_A, &got), 0);
	CHECK_INT(got.count, 1);
	CHECK_INT(got.addrs[0].bytes[12], 1);
	char alias[DNS_NAME_TEXT];
	CHECK(dns_alias_at(message.bytes, message.len, "example.test", DNS_A, 0, alias));
	CHECK_STR(alias, "a.cdn.test");
	CHECK(dns_alias_at(message.bytes, message.len, "example.test", DNS_A, 1, alias));
	CHECK_STR(alias, "b.cdn.test");
	CHECK(!dns_alias_at(message.bytes, message.len, "example.test", DNS_A, 2, alias));
	CHECK(!dns_alias_at(message.bytes, 5, "example.test", DNS_A, 0, alias));
}

TEST(circles_end)
{
	struct message message = begin(0x8180, 2, "a.test", DNS_A);
	struct dns_answer got;
	put_alias(&message, "a.test", "b.test");
	put_alias(&message, "b.test", "a.test");
	CHECK_INT(dns_parse_answer(message.bytes, message.len, ID, "a.test", DNS_A, &got), 0);
	CHECK_INT(got.count, 0);
	char alias[DNS_NAME_TEXT];
	CHECK(!dns_alias_at(message.bytes, message.len, "a.test", DNS_A, 1000, alias));
	struct message pointers = begin(0x8180, 1, "a.test", DNS_A);
	put_u16(&pointers, 0xc000 | (unsigned)pointers.len); /* points at itself */
	put_u16(&pointers, DNS_A);
	CHECK_INT(dns_parse_answer(pointers.bytes, pointers.len, ID, "a.test", DNS_A, &got), 0);
	CHECK_INT(got.count, 0);
}

TEST(an_ipv4_address_in_aaaa_is_none)
{
	struct message message = begin(0x8180, 1, "a.test", DNS_AAAA);
	struct addr mapped;
	struct dns_answer got;
	CHECK(addr_parse("::ffff:127.0.0.1", &mapped));
	put_record(&message, "a.test", DNS_AAAA, mapped.bytes, sizeof(mapped.bytes));
	CHECK_INT(dns_parse_answer(message.bytes, message.len, ID, "a.test", DNS_AAAA, &got), 0);
	CHECK_INT(got.count, 0);
}

TEST(names_too_long_are_not_asked)
{
	char name[300];
	uint8_t out[DNS_QUERY_MOST];
	memset(name, 'a', sizeof(name));
	name[64] = '\0';
	CHECK_INT(dns_write_query(ID, name, DNS_A, out), 0);
	CHECK_INT(dns_write_query(ID, "a..b", DNS_A, out), 0);
	for (size_t i = 0; i < 299; i++)
		name[i] = i % 50 == 49 ? '.' : 'a';
	name[299] = '\0';
	CHECK_INT(dns_write_query(ID, name, DNS_A, out), 0);
}

/*
 * One table a family. Its first chain is at prerouting, where packets that lo sent to itself come
 * by:
 *
 *	daddr is loopback           accept     the sandbox's own processes among each other
 *	daddr is own                accept     the same, and our answers
 *	mark is ours                accept     answers of ours to a source that somebody made up
 *	tproxy to gateway:port      accept     TCP and UDP, when our socket is there
 *	                            drop       everything else, by the chain's policy
 *
 * The mark comes before tproxy, so no answer of ours comes back to us; nothing inside may set one.
 * A made-up source is judged like anything else: dropped here, it would look like a dead host.
 *
 * The second is where packets leave their socket. Multicast and broadcast have no way to a socket
 * of ours, because the kernel takes them for members alone; so they are told and dropped there,
 * where whoever sends them gets an error:
 *
 *	UDP to such a group         log to us, drop
 *	everything else             accept     by the chain's policy
 */
#include "os/nft.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "os/netlink.h"
#include "os/transparent.h"

#define TABLE     "cloche"
#define CHAIN     "in"
#define CHAIN_OUT "out"

enum { V4_AT = 12, PRIORITY = -150 /* as mangle: where tproxy belongs */ };

/* Where the destination stands in the network header, and what 127.0.0.0/8 or ::1 looks like. */
struct family {
	uint8_t number;
	uint32_t len;
	uint32_t destination_at;
	uint8_t loopback[16], loopback_mask[16];
};

static const struct family families[] = {
	{NFPROTO_IPV4, 4, 16, {127}, {0xff}},
	{NFPROTO_IPV6,
         16,
         24,
         {[15] = 1},
         {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
          0xff}},
};

/* What is no address of anybody's, in the form of struct family's masks. */
static const struct group {
	uint8_t number;
	uint8_t prefix[16], mask[16];
} groups[] = {
	{NFPROTO_IPV4, {224}, {0xf0}},
	{NFPROTO_IPV4, {255, 255, 255, 255}, {255, 255, 255, 255}},
	{NFPROTO_IPV6, {0xff}, {0xff}},
};

static void begin(struct netlink_batch *batch, const struct family *family, uint16_t message,
                  uint16_t flags)
{
	struct nfgenmsg head = {.nfgen_family = family->number};
	netlink_begin(batch, (uint16_t)(NFNL_SUBSYS_NFTABLES << 8 | message), flags, &head,
	              sizeof(head));
}

static void bound(struct netlink_batch *batch, uint16_t type)
{
	struct nfgenmsg head = {.nfgen_family = AF_UNSPEC, .res_id = htons(NFNL_SUBSYS_NFTABLES)};
	netlink_begin(batch, type, 0, &head, sizeof(head));
}

/* --- expressions: each is LIST_ELEM { NAME, DATA { … } } --- */

struct open_expression {
	size_t element, data;
};

static struct open_expression expression(struct netlink_batch *batch, const char *name)
{
	struct open_expression open;
	open.element = netlink_nest(batch, NFTA_LIST_ELEM);
	netlink_put_str(batch, NFTA_EXPR_NAME, name);
	open.data = netlink_nest(batch, NFTA_EXPR_DATA);
	return open;
}

static void close_expression(struct netlink_batch *batch, struct open_expression open)
{
	netlink_unnest(batch, open.data);
	netlink_unnest(batch, open.element);
}

static void put_value(struct netlink_batch *batch, uint16_t attribute, const uint8_t *bytes,
                      size_t len)
{
	size_t nest = netlink_nest(batch, attribute);
	netlink_put(batch, NFTA_DATA_VALUE, bytes, len);
	netlink_unnest(batch, nest);
}

static void load_address(struct netlink_batch *batch, const struct family *family, uint32_t at)
{
	struct open_expression open = expression(batch, "payload");
	netlink_put_be32(batch, NFTA_PAYLOAD_DREG, NFT_REG_1);
	netlink_put_be32(batch, NFTA_PAYLOAD_BASE, NFT_PAYLOAD_NETWORK_HEADER);
	netlink_put_be32(batch, NFTA_PAYLOAD_OFFSET, at);
	netlink_put_be32(batch, NFTA_PAYLOAD_LEN, family->len);
	close_expression(batch, open);
}

static void mask(struct netlink_batch *batch, const struct family *family, const uint8_t *bits)
{
	static const uint8_t nothing[16];
	struct open_expression open = expression(batch, "bitwise");
	netlink_put_be32(batch, NFTA_BITWISE_SREG, NFT_REG_1);
	netlink_put_be32(batch, NFTA_BITWISE_DREG, NFT_REG_1);
	netlink_put_be32(batch, NFTA_BITWISE_LEN, family->len);
	put_value(batch, NFTA_BITWISE_MASK, bits, family->len);
	put_value(batch, NFTA_BITWISE_XOR, nothing, family->len);
	close_expression(batch, open);
}

static void compare(struct netlink_batch *batch, uint32_t how, const uint8_t *bytes, size_t len)
{
	struct open_expression open = expression(batch, "cmp");
	netlink_put_be32(batch, NFTA_CMP_SREG, NFT_REG_1);
	netlink_put_be32(batch, NFTA_CMP_OP, how);
	put_value(batch, NFTA_CMP_DATA, bytes, len);
	close_expression(batch, open);
}

static void load_value(struct netlink_batch *batch, uint32_t into, const uint8_t *bytes, size_t len)
{
	struct open_expression open = expression(batch, "immediate");
	netlink_put_be32(batch, NFTA_IMMEDIATE_DREG, into);
	put_value(batch, NFTA_IMMEDIATE_DATA, bytes, len);
	close_expression(batch, open);
}

static void verdict(struct netlink_batch *batch, uint32_t code)
{
	struct open_expression open = expression(batch, "immediate");
	netlink_put_be32(batch, NFTA_IMMEDIATE_DREG, NFT_REG_VERDICT);
	size_t data = netlink_nest(batch, NFTA_IMMEDIATE_DATA);
	size_t value = netlink_nest(batch, NFTA_DATA_VERDICT);
	netlink_put_be32(batch, NFTA_VERDICT_CODE, code);
	netlink_unnest(batch, value);
	netlink_unnest(batch, data);
	close_expression(batch, open);
}

/* --- rules --- */

static size_t begin_rule_in(struct netlink_batch *batch, const struct family *family,
                            const char *chain, uint16_t flags)
{
	begin(batch, family, NFT_MSG_NEWRULE, NLM_F_CREATE | NLM_F_APPEND | flags);
	netlink_put_str(batch, NFTA_RULE_TABLE, TABLE);
	netlink_put_str(batch, NFTA_RULE_CHAIN, chain);
	return netlink_nest(batch, NFTA_RULE_EXPRESSIONS);
}

static size_t begin_rule(struct netlink_batch *batch, const struct family *family, uint16_t flags)
{
	return begin_rule_in(batch, family, CHAIN, flags);
}

static const uint8_t *bytes_of(const struct family *family, const struct addr *addr)
{
	return family->len == 4 ? addr->bytes + V4_AT : addr->bytes;
}

static void put_loopback(struct netlink_batch *batch, const struct family *family)
{
	size_t rule = begin_rule(batch, family, 0);
	load_address(batch, family, family->destination_at);
	mask(batch, family, family->loopback_mask);
	compare(batch, NFT_CMP_EQ, family->loopback, family->len);
	verdict(batch, NF_ACCEPT);
	netlink_unnest(batch, rule);
}

static void put_own(struct netlink_batch *batch, const struct family *family,
                    const struct addr *own)
{
	size_t rule = begin_rule(batch, family, 0);
	load_address(batch, family, family->destination_at);
	compare(batch, NFT_CMP_EQ, bytes_of(family, own), family->len);
	verdict(batch, NF_ACCEPT);
	netlink_unnest(batch, rule);
}

static void load_meta(struct netlink_batch *batch, uint32_t key)
{
	struct open_expression open = expression(batch, "meta");
	netlink_put_be32(batch, NFTA_META_DREG, NFT_REG_1);
	netlink_put_be32(batch, NFTA_META_KEY, key);
	close_expression(batch, open);
}

static void put_mark(struct netlink_batch *batch, const struct family *family)
{
	const uint32_t mark = TRANSPARENT_MARK;
	size_t rule = begin_rule(batch, family, 0);
	load_meta(batch, NFT_META_MARK);
	compare(batch, NFT_CMP_EQ, (const uint8_t *)&mark, sizeof(mark));
	verdict(batch, NF_ACCEPT);
	netlink_unnest(batch, rule);
}

static void put_tproxy(struct netlink_batch *batch, const struct family *family,
                       const struct nft_tproxy *tproxy)
{
	uint16_t port = htons(tproxy->port);
	size_t rule = begin_rule(batch, family, NLM_F_ACK);
	load_value(batch, NFT_REG_1, bytes_of(family, &tproxy->gateway), family->len);
	load_value(batch, NFT_REG_2, (const uint8_t *)&port, sizeof(port));
	struct open_expression open = expression(batch, "tproxy");
	netlink_put_be32(batch, NFTA_TPROXY_FAMILY, family->number);
	netlink_put_be32(batch, NFTA_TPROXY_REG_ADDR, NFT_REG_1);
	netlink_put_be32(batch, NFTA_TPROXY_REG_PORT, NFT_REG_2);
	close_expression(batch, open);
	verdict(batch, NF_ACCEPT);
	netlink_unnest(batch, rule);
}

static void put_group(struct netlink_batch *batch, const struct family *family,
                      const struct group *group, uint16_t log_group)
{
	static const uint8_t udp = IPPROTO_UDP;
	uint16_t to = htons(log_group);
	size_t rule = begin_rule_in(batch, family, CHAIN_OUT, 0);
	load_address(batch, family, family->destination_at);
	mask(batch, family, group->mask);
	compare(batch, NFT_CMP_EQ, group->prefix, family->len);
	load_meta(batch, NFT_META_L4PROTO);
	compare(batch, NFT_CMP_EQ, &udp, sizeof(udp));
	if (log_group != 0) {
		struct open_expression open = expression(batch, "log");
		netlink_put(batch, NFTA_LOG_GROUP, &to, sizeof(to));
		close_expression(batch, open);
	}
	verdict(batch, NF_DROP);
	netlink_unnest(batch, rule);
}

static void put_chain(struct netlink_batch *batch, const struct family *family, const char *name,
                      uint32_t where, uint32_t policy)
{
	begin(batch, family, NFT_MSG_NEWCHAIN, NLM_F_CREATE | NLM_F_EXCL);
	netlink_put_str(batch, NFTA_CHAIN_TABLE, TABLE);
	netlink_put_str(batch, NFTA_CHAIN_NAME, name);
	size_t hook = netlink_nest(batch, NFTA_CHAIN_HOOK);
	netlink_put_be32(batch, NFTA_HOOK_HOOKNUM, where);
	netlink_put_be32(batch, NFTA_HOOK_PRIORITY, (uint32_t)PRIORITY);
	netlink_unnest(batch, hook);
	netlink_put_be32(batch, NFTA_CHAIN_POLICY, policy);
	netlink_put_str(batch, NFTA_CHAIN_TYPE, "filter");
}

static void put_table(struct netlink_batch *batch, const struct family *family,
                      const struct nft_tproxy *tproxy)
{
	begin(batch, family, NFT_MSG_NEWTABLE, NLM_F_CREATE | NLM_F_EXCL);
	netlink_put_str(batch, NFTA_TABLE_NAME, TABLE);
	put_chain(batch, family, CHAIN, NF_INET_PRE_ROUTING, NF_DROP);
	put_chain(batch, family, CHAIN_OUT, NF_INET_LOCAL_OUT, NF_ACCEPT);
	put_loopback(batch, family);
	put_own(batch, family, &tproxy->own);
	put_mark(batch, family);
	put_tproxy(batch, family, tproxy);
	for (size_t i = 0; i < ARRAY_LEN(groups); i++) {
		if (groups[i].number == family->number)
			put_group(batch, family, &groups[i], tproxy->log_group);
	}
}

int nft_tproxy_load(const struct nft_tproxy *tproxies, size_t count)
{
	struct netlink_batch batch = {0};
	bound(&batch, NFNL_MSG_BATCH_BEGIN);
	for (size_t i = 0; i < count; i++) {
		put_table(&batch, &families[addr_is_v4(&tproxies[i].own) ? 0 : 1], &tproxies[i]);
	}
	bound(&batch, NFNL_MSG_BATCH_END);
	return netlink_send(&batch, NETLINK_NETFILTER);
}

#include "base/addr.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>

#include "base/str.h"

static const uint8_t v4_prefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

struct addr addr_from_v4(const uint8_t *four)
{
	struct addr addr;

	memcpy(addr.bytes, v4_prefix, sizeof(v4_prefix));
	memcpy(addr.bytes + sizeof(v4_prefix), four, 4);
	return addr;
}

bool addr_is_v4(const struct addr *addr)
{
	return memcmp(addr->bytes, v4_prefix, sizeof(v4_prefix)) == 0;
}

bool addr_parse(const char *text, struct addr *ret)
{
	struct in_addr v4;
	struct in6_addr v6;

	if (inet_pton(AF_INET, text, &v4) == 1) {
		*ret = addr_from_v4((const uint8_t *)&v4);
		return true;
	}
	if (inet_pton(AF_INET6, text, &v6) != 1)
		return false;
	memcpy(ret->bytes, &v6, sizeof(ret->bytes));
	return true;
}

/* The first `bits` bits. */
static struct addr masked(const struct addr *addr, unsigned bits)
{
	struct addr out = {{0}};

	for (unsigned i = 0; i < 16 && bits > 8 * i; i++) {
		unsigned left = bits - 8 * i;

		out.bytes[i] =
			left >= 8 ? addr->bytes[i] : addr->bytes[i] & (uint8_t)(0xff << (8 - left));
	}
	return out;
}

bool addr_cidr_is_exact(const struct addr_cidr *cidr)
{
	struct addr clean;

	if (cidr->bits > 128)
		return false;
	clean = masked(&cidr->base, cidr->bits);
	return memcmp(clean.bytes, cidr->base.bytes, sizeof(clean.bytes)) == 0;
}

bool addr_parse_cidr(const char *text, struct addr_cidr *ret)
{
	char address[ADDR_TEXT];
	const char *slash = strchr(text, '/');
	uint64_t bits;
	bool is_v4;

	if (!slash || (size_t)(slash - text) >= sizeof(address) || str_to_u64(slash + 1, &bits) < 0)
		return false;
	memcpy(address, text, (size_t)(slash - text));
	address[slash - text] = '\0';
	if (!addr_parse(address, &ret->base))
		return false;
	is_v4 = !strchr(address, ':');
	if (bits > (is_v4 ? 32 : 128))
		return false;
	ret->bits = (unsigned)bits + (is_v4 ? ADDR_V4_BITS : 0);
	return addr_cidr_is_exact(ret);
}

bool addr_covers(const struct addr_cidr *cidr, const struct addr *addr)
{
	struct addr head;

	if (addr_is_v4(addr) && cidr->bits < ADDR_V4_BITS)
		return false;
	head = masked(addr, cidr->bits);
	return memcmp(head.bytes, cidr->base.bytes, sizeof(head.bytes)) == 0;
}

void addr_format(char *out, size_t size, const struct addr *addr)
{
	const char *text = addr_is_v4(addr)
	                           ? inet_ntop(AF_INET, addr->bytes + 12, out, (socklen_t)size)
	                           : inet_ntop(AF_INET6, addr->bytes, out, (socklen_t)size);

	if (!text && size > 0)
		out[0] = '\0';
}

void addr_format_cidr(char *out, size_t size, const struct addr_cidr *cidr)
{
	bool is_v4 = cidr->bits >= ADDR_V4_BITS && addr_is_v4(&cidr->base);
	char text[ADDR_TEXT];

	addr_format(text, sizeof(text), &cidr->base);
	snprintf(out, size, "%s/%u", text, is_v4 ? cidr->bits - ADDR_V4_BITS : cidr->bits);
}

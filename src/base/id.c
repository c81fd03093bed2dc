#include "base/id.h"

#include <sys/random.h>

#include "base/io.h"
#include "base/must.h"

enum { TIME_BITS = 48, RANDOM_BITS = 52, CHARS = 20, PREFIX_MAX = 4 };
static_assert(TIME_BITS + RANDOM_BITS == 5 * CHARS, "five bits a character");

/* Crockford's alphabet: no i, l, o, u. Ascending in ASCII, so that ids sort as numbers do. */
static const char alphabet[] = "0123456789abcdefghjkmnpqrstvwxyz";

struct id id_new(const char *prefix)
{
	size_t len = strlen(prefix);
	must(len >= 2 && len <= PREFIX_MAX);
	uint64_t random = 0;
	must(getrandom(&random, sizeof(random), 0) == sizeof(random));
	unsigned __int128 bits =
		(unsigned __int128)(io_real_ms() & ((UINT64_C(1) << TIME_BITS) - 1)) << RANDOM_BITS;
	bits |= random & ((UINT64_C(1) << RANDOM_BITS) - 1);

	struct id id = {0};
	memcpy(id.text, prefix, len);
	id.text[len] = '_';
	for (size_t i = 0; i < CHARS; i++)
		id.text[len + 1 + i] = alphabet[(bits >> (5 * (CHARS - 1 - i))) & 31];
	return id;
}

bool id_is_valid(const char *text, const char *prefix)
{
	size_t len = strlen(prefix);
	if (strncmp(text, prefix, len) != 0 || text[len] != '_')
		return false;
	const char *rest = text + len + 1;
	return strnlen(rest, CHARS + 1) == CHARS && strspn(rest, alphabet) == CHARS;
}

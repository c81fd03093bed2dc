#include "net/needle.h"

#include <string.h>

#include "harness/test.h"

/* How often it is seen in a text that comes in pieces of this size. */
static unsigned seen(const char *text, const char *in, size_t piece)
{
	struct needle needle;
	unsigned count = 0;
	size_t len = strlen(in);
	needle_init(&needle, text);
	for (size_t at = 0; at < len; at += piece)
		count += needle_look(&needle, (const uint8_t *)in + at,
		                     len - at < piece ? len - at : piece);
	return count;
}

TEST(found_however_it_comes)
{
	for (size_t piece = 1; piece < 12; piece++) {
		CHECK_INT(seen("abc", "xxabxabcab", piece), 1);
		CHECK_INT(seen("abab_", "abababab_", piece), 1);
		CHECK_INT(seen("aab", "aaaaab", piece), 1);
		CHECK_INT(seen("cloche_placeholder_", "clocloche_placecloche_placeholder_x", piece),
		          1);
		CHECK_INT(seen("cloche_placeholder_", "cloche_placeholder-", piece), 0);
		CHECK_INT(seen("x", "", piece), 0);
	}
}

TEST(once_for_each_piece_it_ends_in)
{
	CHECK_INT(seen("ab", "abxab", 3), 2);
}

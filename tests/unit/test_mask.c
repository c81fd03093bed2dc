#include "gateway/mask.h"

#include <stdio.h>
#include <stdlib.h>

#include "harness/test.h"

#define SECRET "sk-abcabcabd"

/* All of a text in pieces of `step` bytes; what came out is in `out`. */
static void pass(const char *text, size_t step, char *out, size_t size)
{
	size_t len = strlen(text), clean = 0, used = 0;
	struct buf buf;

	buf_init(&buf, 4096);
	for (size_t at = 0; at <= len; at += step) {
		size_t piece = MIN(step, len - at);

		CHECK_INT(buf_put(&buf, text + at, piece), 0);
		clean = mask_stream(&buf, clean, SECRET, at + step > len);
		CHECK(clean <= buf_len(&buf) && used + clean < size);
		memcpy(out + used, buf_head(&buf), clean);
		buf_consume(&buf, clean);
		used += clean;
		clean = 0;
	}
	CHECK_INT(buf_len(&buf), 0);
	out[used] = '\0';
	buf_done(&buf);
}

TEST(a_secret_is_found_however_it_is_split)
{
	static const char text[] = "x " SECRET " sk-abcabc " SECRET SECRET " sk-abcab";
	static const char want[] = "x ************ sk-abcabc ************************ sk-abcab";
	char out[256];

	for (size_t step = 1; step < sizeof(text); step++) {
		pass(text, step, out, sizeof(out));
		CHECK_STR(out, want);
	}
}

TEST(what_is_no_secret_is_not_held_back)
{
	struct buf buf;

	buf_init(&buf, 64);
	CHECK_INT(buf_put(&buf, "data: tick\n\n", 12), 0);
	CHECK_INT(mask_stream(&buf, 0, SECRET, false), 12);
	CHECK_INT(mask_stream(&buf, 12, NULL, false), 12);
	CHECK_INT(mask_stream(&buf, 12, "short", false), 12);
	buf_done(&buf);
}

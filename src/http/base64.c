#include "http/base64.h"

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void base64_encode(char *to, const void *bytes, size_t len)
{
	const uint8_t *from = bytes;

	for (; len >= 3; len -= 3, from += 3) {
		*to++ = alphabet[from[0] >> 2];
		*to++ = alphabet[(from[0] & 3) << 4 | from[1] >> 4];
		*to++ = alphabet[(from[1] & 15) << 2 | from[2] >> 6];
		*to++ = alphabet[from[2] & 63];
	}
	if (len > 0) {
		uint8_t second = len == 2 ? from[1] : 0;

		*to++ = alphabet[from[0] >> 2];
		*to++ = alphabet[(from[0] & 3) << 4 | second >> 4];
		*to++ = len == 2 ? alphabet[(second & 15) << 2] : '=';
		*to++ = '=';
	}
	*to = '\0';
}

/* Knuth, Morris and Pratt, but for the table: a mismatch in the middle of the text is rare enough
 * to look for the next shorter match when it happens. */
#include "net/needle.h"

#include <string.h>

void needle_init(struct needle *needle, const char *text)
{
	*needle = (struct needle){.text = text, .len = strlen(text)};
}

/* The longest beginning of the text, shorter than what matched, that what matched ends with. */
static size_t shorter(const struct needle *needle, size_t matched)
{
	for (size_t len = matched - 1; len > 0; len--) {
		if (memcmp(needle->text, needle->text + matched - len, len) == 0)
			return len;
	}
	return 0;
}

bool needle_look(struct needle *needle, const uint8_t *bytes, size_t len)
{
	size_t at = 0;
	while (at < len) {
		if (needle->matched == 0) {
			const uint8_t *first = memchr(bytes + at, needle->text[0], len - at);
			if (!first)
				return false;
			at = (size_t)(first - bytes);
		}
		if (bytes[at] == (uint8_t)needle->text[needle->matched]) {
			at++;
			needle->matched++;
		} else {
			needle->matched = shorter(needle, needle->matched);
		}
		if (needle->matched == needle->len) {
			needle->matched = 0;
			return true;
		}
	}
	return false;
}

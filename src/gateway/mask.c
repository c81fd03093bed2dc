#include "gateway/mask.h"

#include <string.h>

enum { SHORTEST = 8 }; /* less than that is found everywhere */

size_t mask_stream(struct buf *buf, size_t clean, const char *text, bool is_end)
{
	size_t len = buf_len(buf), size = text ? strlen(text) : 0, tail;
	uint8_t *bytes = buf->bytes ? buf->bytes + buf->start : NULL;
	uint8_t *at;

	if (size < SHORTEST || len == 0 || !bytes)
		return len;
	while ((at = memmem(bytes + clean, len - clean, text, size))) {
		memset(at, '*', size);
		clean = (size_t)(at - bytes) + size;
	}
	if (is_end)
		return len;
	for (tail = MIN(size - 1, len - clean); tail > 0; tail--) {
		if (memcmp(bytes + len - tail, text, tail) == 0)
			break;
	}
	return len - tail;
}

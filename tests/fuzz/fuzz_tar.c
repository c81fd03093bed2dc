/*
 * Archives: the same bytes in one piece and in small ones must give the same events, all content
 * must lie inside the input, and what was read must be writable again.
 */
#include "base/limits.h"
#include "base/must.h"
#include "base/tar.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

struct summary {
	int result;
	uint64_t entries, content, hash;
};

static void mix(struct summary *summary, const void *bytes, size_t len)
{
	const uint8_t *at = bytes;
	for (size_t i = 0; i < len; i++)
		summary->hash = (summary->hash ^ at[i]) * UINT64_C(0x100000001b3);
}

static void check_entry(const struct tar_entry *entry)
{
	char clean[LIMIT_PATH_LEN + 1];
	size_t len = strlen(entry->name);
	must(len > 0 && len <= LIMIT_PATH_LEN && entry->mtime_ns < 1000000000);
	if (tar_clean_name(entry->name, clean, sizeof(clean)) == 0)
		must(clean[0] != '/' && strlen(clean) <= len);
	if (entry->type <= TAR_HARDLINK && len < LIMIT_PATH_LEN) {
		struct buf out;
		buf_init(&out, TAR_HEADER_MAX);
		int r = tar_put_entry(&out, entry);
		must(r == 0 && buf_len(&out) % TAR_BLOCK == 0);
		buf_done(&out);
	}
}

static struct summary read_all(const uint8_t *bytes, size_t len, size_t piece)
{
	struct summary summary = {0};
	struct tar_reader reader;
	tar_reader_init(&reader);
	while (len > 0 && summary.result >= 0) {
		const uint8_t *at = bytes;
		size_t left = MIN(piece, len);
		const uint8_t *end = bytes + left;
		bytes += left;
		len -= left;
		for (;;) {
			const uint8_t *content = NULL;
			size_t content_len = 0;
			int event = tar_read(&reader, &at, &left, &content, &content_len);
			must(at + left == end);
			summary.result = event < 0 ? event : 0;
			if (event < 0 || event == TAR_MORE || event == TAR_END)
				break;
			if (event == TAR_ENTRY) {
				check_entry(&reader.entry);
				summary.entries++;
				mix(&summary, reader.entry.name, strlen(reader.entry.name));
			} else if (event == TAR_CONTENT) {
				must(content_len > 0 && content + content_len <= end);
				summary.content += content_len;
				mix(&summary, content, content_len);
			}
		}
	}
	if (summary.result >= 0)
		summary.result = tar_reader_finish(&reader);
	tar_reader_done(&reader);
	return summary;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	struct summary whole = read_all(bytes, len, SIZE_MAX);
	struct summary pieces = read_all(bytes, len, 61);
	must(whole.entries == pieces.entries && whole.content == pieces.content);
	must(whole.hash == pieces.hash && whole.result == pieces.result);
	must(whole.content <= len);
	return 0;
}

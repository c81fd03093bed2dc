/* Messages between our processes: whatever the bytes, parsing and every getter stay inside them. */
#include "wire/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	struct wire_msg msg;
	if (len > LIMIT_WIRE_BYTES || wire_parse(bytes, len, &msg) < 0)
		return 0;
	volatile size_t sum = 0;
	for (int field = 0; field < 140; field++) {
		size_t at = 0, blob_len;
		const char *text;
		while ((text = wire_next_str(&msg, (enum wire_field)field, &at)) != NULL)
			sum += strlen(text);
		const uint8_t *blob = wire_blob(&msg, (enum wire_field)field, &blob_len);
		if (blob && blob_len > 0)
			sum += blob[blob_len - 1];
		sum += wire_u64(&msg, (enum wire_field)field, 0);
	}
	struct err err = {0};
	(void)wire_get_err(&msg, &err);
	return 0;
}

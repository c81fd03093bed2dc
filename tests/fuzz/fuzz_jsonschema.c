/*
 * A schema and a value from strangers, divided by the first line that is empty: whatever they are,
 * compiling and validating ends, and the same value has the same verdict twice.
 */
#include "base/must.h"
#include "model/jsonschema.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	static struct jsonschema_report report, again;
	const char *text = (const char *)bytes;
	const char *half = len > 1 ? memmem(text, len, "\n\n", 2) : NULL;
	size_t schema_len = half ? (size_t)(half - text) : len;
	struct jsonschema *schema = NULL;
	struct err err = {0};

	if (jsonschema_compile(text, schema_len, NULL, &schema, &err) < 0) {
		must(err.msg[0]);
		return 0;
	}
	text += schema_len;
	len -= schema_len;
	if (jsonschema_validate(schema, text, len, &report, &err) == 0) {
		must(jsonschema_validate(schema, text, len, &again, &err) == 0);
		must(report.is_valid == again.is_valid && report.count == again.count);
		must(report.is_valid == (report.count == 0));
	}
	jsonschema_free(schema);
	return 0;
}

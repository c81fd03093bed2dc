/* config.toml: whatever the bytes, they are read or refused with a line, and a profile that was
 * read is valid. */
#include "base/must.h"
#include "model/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	struct config config;
	struct err err = {0};
	int r;

	config_init(&config);
	r = config_parse(&config, "config.toml", (const char *)bytes, len, &err);
	if (r < 0)
		must(err.code == ERR_CONFIG && strncmp(err.msg, "config.toml:", 12) == 0);
	for (size_t i = 0; r == 0 && i < config.profile_count; i++)
		must(spec_validate(&config.profiles[i].spec, &err) == 0);
	config_done(&config);
	return 0;
}

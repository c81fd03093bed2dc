/* The one place in model/ that touches a file, so that the reader of config.toml itself stays
 * testable with strings. */
#include <errno.h>

#include "base/io.h"
#include "base/limits.h"
#include "model/config.h"

int config_load(struct config *config, int dir_fd, const char *path, struct err *err)
{
	auto_free char *text = NULL;
	const char *slash = strrchr(path, '/');
	size_t len;
	int r;

	r = io_read_file(dir_fd, path, LIMIT_CONFIG_BYTES, &text, &len);
	if (r == -ENOENT)
		return 0;
	if (r < 0) {
		err_sys(err, -r, "read %s", path);
		if (err != NULL)
			err->code = ERR_CONFIG;
		return -1;
	}
	return config_parse(config, slash != NULL ? slash + 1 : path, text, len, err);
}

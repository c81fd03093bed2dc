#include "base/must.h"

#include <unistd.h>

void must_fail(const char *file, int line, const char *what)
{
	char text[512];
	int n = snprintf(text, sizeof(text), "cloche: %s:%d: impossible: !(%s)\n", file, line,
	                 what);
	if (n > 0)
		(void)!write(STDERR_FILENO, text, MIN((size_t)n, sizeof(text) - 1));
	abort();
}

/* A program's definition comes before a shared library's. */
#include "unit/fail_readdir.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>

#include "harness/test.h"

int readdir_error;

/* readdir64: what a program with large offsets calls, and here the same. */
struct dirent *readdir(DIR *dir)
{
	struct dirent *(*read)(DIR *) = (__typeof__(read))dlsym(RTLD_NEXT, "readdir64");

	CHECK(read);
	if (readdir_error == 0)
		return read(dir);
	errno = readdir_error;
	return NULL;
}

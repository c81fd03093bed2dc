/*
 * Debian's libjansson.a was compiled with the checks of glibc's headers, which call these. Their
 * only difference to the plain ones is the size of what is written to: larger is a bug that ends
 * the program.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int __snprintf_chk(char *out, size_t len, int flag, size_t size, const char *fmt, ...);
int __vsnprintf_chk(char *out, size_t len, int flag, size_t size, const char *fmt, va_list va);
char *__strncpy_chk(char *to, const char *from, size_t len, size_t size);

/* NOLINTBEGIN: names and signatures are the library's */
int __vsnprintf_chk(char *out, size_t len, int flag, size_t size, const char *fmt, va_list va)
{
	if (len > size)
		abort();
	return vsnprintf(out, len, fmt, va);
}

int __snprintf_chk(char *out, size_t len, int flag, size_t size, const char *fmt, ...)
{
	va_list va;
	va_start(va, fmt);
	int n = __vsnprintf_chk(out, len, flag, size, fmt, va);
	va_end(va);
	return n;
}

char *__strncpy_chk(char *to, const char *from, size_t len, size_t size)
{
	if (len > size)
		abort();
	return strncpy(to, from, len);
}
/* NOLINTEND */

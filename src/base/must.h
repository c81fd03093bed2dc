/*
 * must(): our own impossibilities, on in release. Prints the place and aborts. Never used on
 * bytes that come from a network, a guest, a disk or another process: those get an err.
 */
#pragma once

#include "base/base.h"

NORETURN void must_fail(const char *file, int line, const char *what);

#define must(cond)                                                                                 \
	do {                                                                                       \
		if (__builtin_expect(!(cond), 0))                                                  \
			must_fail(__FILE__, __LINE__, #cond);                                      \
	} while (0)

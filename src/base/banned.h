/*
 * Calls that do not compile here, each with what to use instead. Included by base.h, so
 * system headers that declare these names must come first (they do: include blocks).
 */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#pragma GCC poison strcpy strcat sprintf vsprintf gets strtok strtok_r atoi atol atoll system      \
	popen tmpnam mktemp

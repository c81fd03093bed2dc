/*
 * Strings: strict parsing of numbers, sizes and durations, and escaping of foreign bytes.
 * Nothing here allocates.
 */
#pragma once

#include "base/base.h"

static inline bool str_eq(const char *a, const char *b)
{
	return strcmp(a, b) == 0;
}

bool str_has_prefix(const char *s, const char *prefix);
bool str_has_suffix(const char *s, const char *suffix);
/* Copies with NUL; false (and an empty *to) when it does not fit. */
bool str_copy(char *to, size_t size, const char *from) NODISCARD;
/* Whole string, base 10, no sign, no blanks. -EINVAL, -ERANGE. */
int str_to_u64(const char *s, uint64_t *ret) NODISCARD;
/* "64M", "1.5G", "1024", "10KiB", "max" (UINT64_MAX). Powers of 1024. -EINVAL, -ERANGE. */
int str_to_bytes(const char *s, uint64_t *ret) NODISCARD;
/* "500ms", "30s", "10m", "2h", "7d", "90" (seconds). Result in ms. -EINVAL, -ERANGE. */
int str_to_ms(const char *s, uint64_t *ret_ms) NODISCARD;
/* Writes s to out with control bytes, quotes, backslashes and invalid UTF-8 as \xNN or \n style
 * escapes; always NUL-terminated, cut with "…" when it does not fit. For logs and terminals. */
void str_escape(char *out, size_t size, const void *s, size_t len);
/* The same for whole sentences: quotes and backslashes stay, their foreign parts were escaped. */
void str_disarm(char *out, size_t size, const void *s, size_t len);
bool str_is_utf8(const void *s, size_t len);
/* UTF-8 in which nothing but quotes and backslashes would be escaped: safe on a terminal. */
bool str_is_plain(const void *s, size_t len);
/* "1.5 GiB" and "2m 3s" for people. */
void str_format_bytes(char *out, size_t size, uint64_t bytes);
void str_format_ms(char *out, size_t size, uint64_t ms);
/* Names of sandboxes, profiles, images: [a-z0-9][a-z0-9._-]{0,62}. */
bool str_is_name(const char *s);

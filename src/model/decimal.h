/*
 * Numbers as JSON writes them: exact, of any size, never a double. Nothing here allocates; a
 * decimal points at digits that belong to somebody else.
 */
#pragma once

#include "base/base.h"

enum {
	DECIMAL_EXPONENT = 100000,   /* |exponent| of what is accepted */
	DECIMAL_DIVISOR_DIGITS = 18, /* a divisor fits 64 bits */
};

/* (-1 if is_negative) × digits × 10^exponent; no zero at either end of digits; zero has none. */
struct decimal {
	const char *digits;
	size_t len;
	int64_t exponent;
	bool is_negative;
};

/* `text` is a number by the grammar of JSON (the caller has checked). `digits` has room for len
 * bytes and stays with the decimal. -ERANGE for an exponent beyond DECIMAL_EXPONENT. */
int decimal_parse(const char *text, size_t len, char *digits, struct decimal *ret) NODISCARD;
/* <0, 0, >0 */
int decimal_compare(const struct decimal *a, const struct decimal *b);
bool decimal_is_integer(const struct decimal *number);
/* A whole number that fits. -ERANGE */
int decimal_to_u64(const struct decimal *number, uint64_t *ret) NODISCARD;
/* `divisor` is positive and has at most DECIMAL_DIVISOR_DIGITS digits. */
bool decimal_is_multiple(const struct decimal *number, const struct decimal *divisor);

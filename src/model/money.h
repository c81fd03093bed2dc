/*
 * Money: whole millionths of a dollar, never a floating-point number but where JSON wants one.
 * UINT64_MAX is "no limit". Pure.
 */
#pragma once

#include "base/base.h"

#define MONEY_UNLIMITED UINT64_MAX
#define MONEY_MOST      1000000000000ULL /* a million dollars */

enum { MONEY_TEXT = 32 };

/* "12", "0.5", "0.000151": as many digits as it has. */
const char *money_format(char out[MONEY_TEXT], uint64_t millionths);
/* "12", "$0.50": at most six digits behind the point, at most MONEY_MOST. */
bool money_parse(const char *text, uint64_t *ret) NODISCARD;
/* From dollars as JSON gives them; false: negative, above MONEY_MOST, or no number. */
bool money_from_dollars(double dollars, uint64_t *ret) NODISCARD;
/* For JSON: exact with 12 digits, which is what we print. */
double money_to_dollars(uint64_t millionths);
/* Sums that stay "no limit" and never wrap. */
uint64_t money_add(uint64_t a, uint64_t b);
/* What is left of a; 0 when b is more. */
uint64_t money_sub(uint64_t a, uint64_t b);

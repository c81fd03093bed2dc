#include "model/decimal.h"

#include <errno.h>

#include "base/must.h"

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* The exponent behind 'e'; beyond what is accepted it only stays beyond. */
static int64_t parse_exponent(const char *text, size_t len)
{
	int64_t value = 0;
	bool is_negative = len > 0 && text[0] == '-';

	for (size_t i = len > 0 && !is_digit(text[0]) ? 1 : 0; i < len; i++) {
		if (value <= DECIMAL_EXPONENT * 100LL)
			value = value * 10 + (text[i] - '0');
	}
	return is_negative ? -value : value;
}

int decimal_parse(const char *text, size_t len, char *digits, struct decimal *ret)
{
	struct decimal number = {.digits = digits};
	bool is_fraction = false;
	size_t i = 0;

	if (len > 0 && text[0] == '-') {
		number.is_negative = true;
		i++;
	}
	for (; i < len && text[i] != 'e' && text[i] != 'E'; i++) {
		if (text[i] == '.') {
			is_fraction = true;
			continue;
		}
		number.exponent -= is_fraction;
		if (number.len > 0 || text[i] != '0')
			digits[number.len++] = text[i];
	}
	if (i < len)
		number.exponent += parse_exponent(text + i + 1, len - i - 1);
	while (number.len > 0 && digits[number.len - 1] == '0') {
		number.len--;
		number.exponent++;
	}
	if (number.len == 0) {
		number.exponent = 0;
		number.is_negative = false;
	}
	if (number.exponent > DECIMAL_EXPONENT || number.exponent < -DECIMAL_EXPONENT)
		return -ERANGE;
	*ret = number;
	return 0;
}

static int compare_magnitude(const struct decimal *a, const struct decimal *b)
{
	int64_t a_size = (int64_t)a->len + a->exponent;
	int64_t b_size = (int64_t)b->len + b->exponent;
	int r;

	if (a->len == 0 || b->len == 0)
		return (a->len > 0) - (b->len > 0);
	if (a_size != b_size)
		return a_size < b_size ? -1 : 1;
	r = memcmp(a->digits, b->digits, MIN(a->len, b->len));
	if (r != 0)
		return r;
	return (a->len > b->len) - (a->len < b->len);
}

int decimal_compare(const struct decimal *a, const struct decimal *b)
{
	if (a->is_negative != b->is_negative)
		return a->is_negative ? -1 : 1;
	return a->is_negative ? compare_magnitude(b, a) : compare_magnitude(a, b);
}

bool decimal_is_integer(const struct decimal *number)
{
	return number->exponent >= 0;
}

static uint64_t digits_value(const struct decimal *number)
{
	uint64_t value = 0;

	for (size_t i = 0; i < number->len; i++)
		value = value * 10 + (uint64_t)(number->digits[i] - '0');
	return value;
}

int decimal_to_u64(const struct decimal *number, uint64_t *ret)
{
	uint64_t value;

	if (number->is_negative || number->exponent < 0)
		return -ERANGE;
	if ((int64_t)number->len + number->exponent > DECIMAL_DIVISOR_DIGITS)
		return -ERANGE;
	value = digits_value(number);
	for (int64_t i = 0; i < number->exponent; i++)
		value *= 10;
	*ret = value;
	return 0;
}

static uint64_t power_of_ten_mod(int64_t exponent, uint64_t modulus)
{
	unsigned __int128 base = 10 % modulus;
	unsigned __int128 result = 1 % modulus;

	for (; exponent > 0; exponent >>= 1) {
		if (exponent & 1)
			result = result * base % modulus;
		base = base * base % modulus;
	}
	return (uint64_t)result;
}

/*
 * With number = A × 10^a and divisor = B × 10^b: for a < b it would take a factor ten in A, and A
 * does not end in zero. Otherwise B must divide A × 10^(a-b).
 */
bool decimal_is_multiple(const struct decimal *number, const struct decimal *divisor)
{
	uint64_t modulus = digits_value(divisor);
	unsigned __int128 rest = 0;

	must(divisor->len > 0 && divisor->len <= DECIMAL_DIVISOR_DIGITS);
	if (number->len == 0)
		return true;
	if (number->exponent < divisor->exponent)
		return false;
	for (size_t i = 0; i < number->len; i++)
		rest = (rest * 10 + (unsigned)(number->digits[i] - '0')) % modulus;
	return rest * power_of_ten_mod(number->exponent - divisor->exponent, modulus) % modulus ==
	       0;
}

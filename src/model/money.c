#include "model/money.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define DOLLAR 1000000ULL

const char *money_format(char out[MONEY_TEXT], uint64_t millionths)
{
	unsigned long long whole = millionths / DOLLAR, part = millionths % DOLLAR;
	int len = snprintf(out, MONEY_TEXT, part ? "%llu.%06llu" : "%llu", whole, part);

	while (part && out[len - 1] == '0')
		out[--len] = '\0';
	return out;
}

/* Digits up to the point or the end; false: too many, or none. */
static bool read_digits(const char **at, size_t most, uint64_t *ret)
{
	size_t len = strspn(*at, "0123456789");

	if (len == 0 || len > most)
		return false;
	*ret = 0;
	for (size_t i = 0; i < len; i++)
		*ret = *ret * 10 + (uint64_t)((*at)[i] - '0');
	for (size_t i = len; i < most; i++)
		*ret *= 10;
	*at += len;
	return true;
}

bool money_parse(const char *text, uint64_t *ret)
{
	uint64_t whole = 0, part = 0;
	size_t len;

	text += *text == '$';
	len = strspn(text, "0123456789");
	if (!read_digits(&text, MIN(len, (size_t)7), &whole))
		return false;
	if (*text == '.') {
		text++;
		if (!read_digits(&text, 6, &part))
			return false;
	}
	if (*text != '\0' || whole * DOLLAR + part > MONEY_MOST)
		return false;
	*ret = whole * DOLLAR + part;
	return true;
}

bool money_from_dollars(double dollars, uint64_t *ret)
{
	if (!isfinite(dollars) || dollars < 0 || dollars > (double)MONEY_MOST / (double)DOLLAR)
		return false;
	*ret = (uint64_t)(dollars * (double)DOLLAR + 0.5);
	return true;
}

double money_to_dollars(uint64_t millionths)
{
	return (double)millionths / (double)DOLLAR;
}

uint64_t money_add(uint64_t a, uint64_t b)
{
	return a > MONEY_UNLIMITED - b ? MONEY_UNLIMITED : a + b;
}

uint64_t money_sub(uint64_t a, uint64_t b)
{
	if (a == MONEY_UNLIMITED)
		return a;
	return a > b ? a - b : 0;
}

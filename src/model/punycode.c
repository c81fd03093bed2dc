/*
 * RFC 3492, section 6. Both directions exist so that "xn--" labels, which people paste, are held
 * to the same rules as the letters they stand for: a label is fine when decoding it, checking the
 * code points and encoding them again gives the same text.
 */
#include "model/punycode.h"

#include <stdio.h>
#include <string.h>

enum {
	BASE = 36,
	T_MIN = 1,
	T_MAX = 26,
	SKEW = 38,
	DAMP = 700,
	INITIAL_BIAS = 72,
	INITIAL_N = 128,
};

static const char PREFIX[] = "xn--";
static const char TOO_LONG[] = "is too long";
static const char NO_PUNYCODE[] = "is no name in punycode";

struct points {
	uint32_t code[PUNYCODE_POINTS];
	size_t count;
};

/* Scripts that hold look-alikes of each other; others may be mixed with Latin, as Japanese is. */
enum script { SCRIPT_NONE, SCRIPT_LATIN, SCRIPT_GREEK, SCRIPT_CYRILLIC, SCRIPT_OTHER };

/* What needs tables to be right, or is no letter or digit in any script. */
static const struct {
	uint32_t first, last;
	const char *why;
} refused[] = {
	{0x80, 0xb6, "holds a sign that is no letter"},
	{0xb8, 0xbf, "holds a sign that is no letter"},
	{0xd7, 0xd7, "holds a sign that is no letter"},
	{0xf7, 0xf7, "holds a sign that is no letter"},
	{0x132, 0x133, "holds a ligature: write its letters"},
	{0x13f, 0x140, "holds a compatibility letter"},
	{0x149, 0x149, "holds a compatibility letter"},
	{0x17f, 0x17f, "holds a compatibility letter"},
	{0x1c4, 0x1cc, "holds a compatibility letter"},
	{0x1f1, 0x1f3, "holds a compatibility letter"},
	{0x2b0, 0x36f, "holds an accent of its own: write the accented letter as one character"},
	{0x1ab0, 0x1aff, "holds an accent of its own: write the accented letter as one character"},
	{0x1dc0, 0x1dff, "holds an accent of its own: write the accented letter as one character"},
	{0x2000, 0x2bff, "holds a sign that is no letter"},
	{0x2e00, 0x2e7f, "holds a sign that is no letter"},
	{0x2ff0, 0x3004, "holds a sign that is no letter"},
	{0x3008, 0x3029, "holds a sign that is no letter"},
	{0x302e, 0x303b, "holds a sign that is no letter"},
	{0x303d, 0x3040, "holds a sign that is no letter"},
	{0x3200, 0x33ff, "holds a sign that is no letter"},
	{0xd800, 0xfaff, "holds a character without a meaning in names"},
	{0xfb00, 0xfb4f, "holds a ligature: write its letters"},
	{0xfb50, 0xffff, "holds a compatibility character"},
	{0x1d000, 0x1d7ff, "holds a sign that is no letter"},
	{0x1f000, 0x1faff, "holds a sign that is no letter"},
	{0xe0000, 0x10ffff, "holds a character without a meaning in names"},
};

/* Upper case: a run that lies a constant below its lower case, or (by = 1) pairs of neighbours. */
static const struct {
	uint32_t first, last;
	uint32_t by;
} capitals[] = {
	{0xc0, 0xd6, 32},   {0xd8, 0xde, 32},   {0x100, 0x12f, 1},   {0x134, 0x137, 1},
	{0x14a, 0x177, 1},  {0x386, 0x386, 38}, {0x388, 0x38a, 37},  {0x38c, 0x38c, 64},
	{0x38e, 0x38f, 63}, {0x391, 0x3a1, 32}, {0x3a3, 0x3ab, 32},  {0x400, 0x40f, 80},
	{0x410, 0x42f, 32}, {0x460, 0x481, 1},  {0x48a, 0x4bf, 1},   {0x4c0, 0x4c0, 15},
	{0x4d0, 0x52f, 1},  {0x531, 0x556, 48}, {0x1e00, 0x1e95, 1}, {0x1ea0, 0x1eff, 1},
};

/* Latin pairs whose upper case is the odd one. */
static bool is_odd_pair(uint32_t code)
{
	return (code >= 0x139 && code <= 0x148) || (code >= 0x179 && code <= 0x17e) ||
	       (code >= 0x4c1 && code <= 0x4ce);
}

static uint32_t lower(uint32_t code)
{
	if (code < 0x80)
		return code >= 'A' && code <= 'Z' ? code + 32 : code;
	if (is_odd_pair(code))
		return code + (code & 1);
	if (code == 0x178)
		return 0xff;
	for (size_t i = 0; i < ARRAY_LEN(capitals); i++) {
		if (code < capitals[i].first || code > capitals[i].last)
			continue;
		return capitals[i].by == 1 ? code | 1 : code + capitals[i].by;
	}
	return code;
}

static enum script script_of(uint32_t code)
{
	if (code < 0x80)
		return code >= 'a' && code <= 'z' ? SCRIPT_LATIN : SCRIPT_NONE;
	if (code < 0x250 || (code >= 0x1e00 && code <= 0x1eff))
		return SCRIPT_LATIN;
	if ((code >= 0x370 && code <= 0x3ff) || (code >= 0x1f00 && code <= 0x1fff))
		return SCRIPT_GREEK;
	if (code >= 0x400 && code <= 0x52f)
		return SCRIPT_CYRILLIC;
	return SCRIPT_OTHER;
}

static const char *check_point(uint32_t code)
{
	if (code < 0x80) {
		bool letter = (code >= 'a' && code <= 'z') || (code >= '0' && code <= '9');

		return letter || code == '-' ? NULL : "holds a sign that is no letter";
	}
	for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
		if (code >= refused[i].first && code <= refused[i].last)
			return refused[i].why;
	}
	return NULL;
}

static const char *check_points(const struct points *points)
{
	bool seen[SCRIPT_OTHER + 1] = {false};
	bool ascii = true;

	for (size_t i = 0; i < points->count; i++) {
		const char *why = check_point(points->code[i]);

		if (why)
			return why;
		if (points->code[i] != lower(points->code[i]))
			return "holds an upper-case letter in punycode";
		seen[script_of(points->code[i])] = true;
		ascii = ascii && points->code[i] < 0x80;
	}
	if (ascii)
		return NO_PUNYCODE;
	if (seen[SCRIPT_LATIN] + seen[SCRIPT_GREEK] + seen[SCRIPT_CYRILLIC] > 1 ||
	    (seen[SCRIPT_OTHER] && (seen[SCRIPT_GREEK] || seen[SCRIPT_CYRILLIC])))
		return "mixes scripts whose letters look alike";
	if (points->count == 0 || points->code[0] == '-' || points->code[points->count - 1] == '-')
		return "begins or ends with '-'";
	return NULL;
}

/* The length of the UTF-8 sequence at `at` and its code point; 0 when it is malformed. */
static size_t next_point(const uint8_t *at, size_t len, uint32_t *ret)
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	size_t need = at[0] < 0x80 ? 1 : at[0] < 0xc0 ? 0 : at[0] < 0xe0 ? 2 : at[0] < 0xf0 ? 3 : 4;
	uint32_t code = need == 1 ? at[0] : need == 0 ? 0 : at[0] & (0x7fU >> need);

	if (need == 0 || need > len || at[0] > 0xf4)
		return 0;
	for (size_t i = 1; i < need; i++) {
		if ((at[i] & 0xc0) != 0x80)
			return 0;
		code = code << 6 | (at[i] & 0x3f);
	}
	if (code < least[need] || code > 0x10ffff)
		return 0;
	*ret = code;
	return need;
}

static uint32_t adapt(uint32_t delta, uint32_t count, bool first)
{
	uint32_t k = 0;

	delta = first ? delta / DAMP : delta / 2;
	delta += delta / count;
	for (; delta > (BASE - T_MIN) * T_MAX / 2; k += BASE)
		delta /= BASE - T_MIN;
	return k + (BASE - T_MIN + 1) * delta / (delta + SKEW);
}

static uint32_t threshold(uint32_t k, uint32_t bias)
{
	if (k <= bias)
		return T_MIN;
	return k >= bias + T_MAX ? T_MAX : k - bias;
}

static char digit_char(uint32_t digit)
{
	return (char)(digit < 26 ? 'a' + digit : '0' + (digit - 26));
}

/* One number of variable length; false when there is no room. */
static bool put_number(uint32_t number, uint32_t bias, char *out, size_t size, size_t *len)
{
	for (uint32_t k = BASE;; k += BASE) {
		uint32_t t = threshold(k, bias);
		bool last = number < t;

		if (*len + 1 >= size)
			return false;
		out[(*len)++] = digit_char(last ? number : t + (number - t) % (BASE - t));
		if (last)
			return true;
		number = (number - t) / (BASE - t);
	}
}

static uint32_t next_larger(const struct points *points, uint32_t n)
{
	uint32_t least = UINT32_MAX;

	for (size_t i = 0; i < points->count; i++) {
		if (points->code[i] >= n && points->code[i] < least)
			least = points->code[i];
	}
	return least;
}

/* 63 points of at most 0x10ffff keep every sum below 2^32. */
static bool encode(const struct points *points, char *out, size_t size)
{
	uint32_t n = INITIAL_N, delta = 0, bias = INITIAL_BIAS, done = 0, basic;
	size_t len = 0;

	for (size_t i = 0; i < points->count; i++) {
		if (points->code[i] >= 0x80)
			continue;
		if (len + 2 >= size)
			return false;
		out[len++] = (char)points->code[i];
	}
	basic = done = (uint32_t)len;
	if (len > 0)
		out[len++] = '-';
	while (done < points->count) {
		uint32_t next = next_larger(points, n);

		delta += (next - n) * (done + 1);
		n = next;
		for (size_t i = 0; i < points->count; i++) {
			if (points->code[i] < n)
				delta++;
			if (points->code[i] != n)
				continue;
			if (!put_number(delta, bias, out, size, &len))
				return false;
			bias = adapt(delta, done + 1, done == basic);
			delta = 0;
			done++;
		}
		delta++;
		n++;
	}
	out[len] = '\0';
	return true;
}

static bool get_number(const char *text, size_t len, size_t *at, uint32_t bias, uint32_t *ret)
{
	uint64_t value = 0, weight = 1;

	for (uint32_t k = BASE; *at < len; k += BASE) {
		char c = text[(*at)++];
		uint32_t t = threshold(k, bias);
		uint32_t digit;

		if (c >= 'a' && c <= 'z')
			digit = (uint32_t)(c - 'a');
		else if (c >= '0' && c <= '9')
			digit = (uint32_t)(c - '0') + 26;
		else
			return false;
		value += digit * weight;
		weight *= BASE - t;
		if (value > INT32_MAX || weight > INT32_MAX)
			return false;
		if (digit < t) {
			*ret = (uint32_t)value;
			return true;
		}
	}
	return false;
}

/* The part behind "xn--". */
static bool decode(const char *text, size_t len, struct points *ret)
{
	const char *dash = memrchr(text, '-', len);
	size_t basic = dash ? (size_t)(dash - text) : 0;
	uint32_t n = INITIAL_N, i = 0, bias = INITIAL_BIAS;
	size_t at = dash ? basic + 1 : 0;

	ret->count = 0;
	for (size_t k = 0; k < basic; k++)
		ret->code[ret->count++] = (uint8_t)text[k];
	while (at < len) {
		uint32_t count = (uint32_t)ret->count + 1;
		uint32_t number;

		if (ret->count == PUNYCODE_POINTS || !get_number(text, len, &at, bias, &number))
			return false;
		bias = adapt(number, count, i == 0);
		i += number;
		n += i / count;
		i %= count;
		if (n > 0x10ffff)
			return false;
		memmove(ret->code + i + 1, ret->code + i, (ret->count - i) * sizeof(ret->code[0]));
		ret->code[i++] = n;
		ret->count++;
	}
	return true;
}

const char *punycode_from_utf8(const char *label, size_t len, char *out, size_t size)
{
	const uint8_t *at = (const uint8_t *)label;
	size_t prefix = sizeof(PREFIX) - 1;
	struct points points = {.count = 0};
	const char *why;

	while (len > 0) {
		uint32_t code = 0;
		size_t used = next_point(at, len, &code);

		if (used == 0)
			return "is not UTF-8";
		if (points.count == PUNYCODE_POINTS)
			return TOO_LONG;
		points.code[points.count++] = lower(code);
		at += used;
		len -= used;
	}
	why = check_points(&points);
	if (why)
		return why;
	if (size <= prefix)
		return TOO_LONG;
	memcpy(out, PREFIX, prefix);
	return encode(&points, out + prefix, size - prefix) ? NULL : TOO_LONG;
}

const char *punycode_check(const char *label, size_t len)
{
	size_t prefix = sizeof(PREFIX) - 1;
	struct points points;
	char again[PUNYCODE_POINTS + 1];
	const char *why;

	if (len <= prefix || len > PUNYCODE_POINTS || memcmp(label, PREFIX, prefix) != 0 ||
	    !decode(label + prefix, len - prefix, &points))
		return NO_PUNYCODE;
	why = check_points(&points);
	if (why)
		return why;
	if (!encode(&points, again, sizeof(again)) || strlen(again) != len - prefix ||
	    memcmp(again, label + prefix, len - prefix) != 0)
		return NO_PUNYCODE;
	return NULL;
}

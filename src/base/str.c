#include "base/str.h"

#include <errno.h>

bool str_has_prefix(const char *s, const char *prefix)
{
	return strncmp(s, prefix, strlen(prefix)) == 0;
}

bool str_has_suffix(const char *s, const char *suffix)
{
	size_t len = strlen(s);
	size_t suffix_len = strlen(suffix);
	return len >= suffix_len && memcmp(s + len - suffix_len, suffix, suffix_len) == 0;
}

bool str_copy(char *to, size_t size, const char *from)
{
	size_t len = strlen(from);
	if (len >= size) {
		if (size > 0)
			to[0] = '\0';
		return false;
	}
	memcpy(to, from, len + 1);
	return true;
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Digits at *at, which moves behind them. -EINVAL when there is none. */
static int take_u64(const char **at, uint64_t *ret)
{
	uint64_t value = 0;
	const char *s = *at;
	if (!is_digit(*s))
		return -EINVAL;
	for (; is_digit(*s); s++) {
		if (__builtin_mul_overflow(value, 10u, &value) ||
		    __builtin_add_overflow(value, (uint64_t)(*s - '0'), &value))
			return -ERANGE;
	}
	*at = s;
	*ret = value;
	return 0;
}

int str_to_u64(const char *s, uint64_t *ret)
{
	uint64_t value = 0;
	int r = take_u64(&s, &value);
	if (r < 0)
		return r;
	if (*s)
		return -EINVAL;
	*ret = value;
	return 0;
}

/* A decimal number with an optional fraction, kept exact: value = whole + part / scale. */
struct decimal {
	uint64_t whole;
	uint64_t part;
	uint64_t scale;
};

static int take_decimal(const char **at, struct decimal *ret)
{
	*ret = (struct decimal){.scale = 1};
	int r = take_u64(at, &ret->whole);
	if (r < 0)
		return r;
	if (**at != '.')
		return 0;
	const char *s = ++*at;
	if (!is_digit(*s))
		return -EINVAL;
	for (; is_digit(*s); s++) {
		if (s - *at >= 9)
			return -EINVAL;
		ret->part = ret->part * 10 + (uint64_t)(*s - '0');
		ret->scale *= 10;
	}
	*at = s;
	return 0;
}

static int scale_decimal(const struct decimal *number, uint64_t unit, uint64_t *ret)
{
	unsigned __int128 value = (unsigned __int128)number->whole * unit +
	                          (unsigned __int128)number->part * unit / number->scale;
	if (value > UINT64_MAX)
		return -ERANGE;
	*ret = (uint64_t)value;
	return 0;
}

int str_to_bytes(const char *s, uint64_t *ret)
{
	static const char letters[] = "KMGTPE";
	if (str_eq(s, "max")) {
		*ret = UINT64_MAX;
		return 0;
	}
	struct decimal number;
	int r = take_decimal(&s, &number);
	if (r < 0)
		return r;
	uint64_t unit = 1;
	char upper = *s == 'k' ? 'K' : *s;
	const char *letter = upper ? strchr(letters, upper) : NULL;
	if (letter) {
		unit = UINT64_C(1) << (10 * (letter - letters + 1));
		s++;
		if (*s == 'i' && s[1] == 'B')
			s++;
	}
	if (*s == 'B')
		s++;
	/* half a byte is a typing mistake */
	if (*s || (unit == 1 && number.scale != 1))
		return -EINVAL;
	return scale_decimal(&number, unit, ret);
}

int str_to_ms(const char *s, uint64_t *ret_ms)
{
	static const struct {
		const char *suffix;
		uint64_t ms;
	} units[] = {
		{"ms", 1}, {"s", 1000}, {"", 1000}, {"m", 60000}, {"h", 3600000}, {"d", 86400000},
	};
	struct decimal number;
	int r = take_decimal(&s, &number);
	if (r < 0)
		return r;
	for (size_t i = 0; i < ARRAY_LEN(units); i++) {
		if (str_eq(s, units[i].suffix))
			return scale_decimal(&number, units[i].ms, ret_ms);
	}
	return -EINVAL;
}

/* Length of the well-formed UTF-8 sequence at s (RFC 3629: no surrogates, no overlong forms,
 * nothing above U+10FFFF) and its code point; 0 when there is none. */
static size_t utf8_at(const uint8_t *s, size_t len, uint32_t *ret)
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	size_t n = s[0] < 0x80             ? 1
	           : (s[0] & 0xe0) == 0xc0 ? 2
	           : (s[0] & 0xf0) == 0xe0 ? 3
	           : (s[0] & 0xf8) == 0xf0 ? 4
	                                   : 0;
	if (n == 0 || n > len)
		return 0;
	uint32_t code = n == 1 ? s[0] : s[0] & (0xffu >> (n + 1));
	for (size_t i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		code = code << 6 | (s[i] & 0x3f);
	}
	if (code < least[n] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
		return 0;
	*ret = code;
	return n;
}

bool str_is_utf8(const void *s, size_t len)
{
	const uint8_t *at = s;
	while (len > 0) {
		uint32_t code = 0;
		size_t n = utf8_at(at, len, &code);
		if (n == 0)
			return false;
		at += n;
		len -= n;
	}
	return true;
}

/* What a terminal would obey rather than show: C0, DEL, C1, and the marks that reorder text. */
static bool is_unsafe(uint32_t code)
{
	return code < 0x20 || (code >= 0x7f && code < 0xa0) || (code >= 0x200e && code <= 0x200f) ||
	       (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069) ||
	       code == 0xfeff;
}

bool str_is_plain(const void *s, size_t len)
{
	const uint8_t *at = s;
	while (len > 0) {
		uint32_t code = 0;
		size_t n = utf8_at(at, len, &code);
		if (n == 0 || is_unsafe(code))
			return false;
		at += n;
		len -= n;
	}
	return true;
}

/* Escapes for both, then those for what stands in quotes. */
#define NAMED "\nn\tt\rr"
static const char named_quoted[] = NAMED "\"\"\\\\", named_plain[] = NAMED;

/* The escape of one character into piece; how many bytes of it were eaten. */
static size_t escape_one(const uint8_t *s, size_t len, const char *named, char piece[20])
{
	uint32_t code = 0;
	size_t n = utf8_at(s, len, &code);
	for (size_t i = 0; n == 1 && named[i] != '\0'; i += 2) {
		if (s[0] == (uint8_t)named[i]) {
			(void)snprintf(piece, 20, "\\%c", named[i + 1]);
			return 1;
		}
	}
	if (n > 0 && !is_unsafe(code)) {
		memcpy(piece, s, n);
		piece[n] = '\0';
		return n;
	}
	n = MAX(n, (size_t)1);
	for (size_t i = 0; i < n; i++)
		(void)snprintf(piece + 4 * i, 20 - 4 * i, "\\x%02x", s[i]);
	return n;
}

static void escape(char *out, size_t size, const void *s, size_t len, const char *named)
{
	static const char more[] = "…";
	const uint8_t *at = s;
	size_t used = 0;
	size_t cut = 0; /* the last place where the mark for "cut" still fits */
	if (size == 0)
		return;
	while (len > 0) {
		char piece[20];
		size_t eaten = escape_one(at, len, named, piece);
		size_t n = strlen(piece);
		if (used + sizeof(more) <= size)
			cut = used;
		if (used + n >= size) {
			used = cut;
			if (cut + sizeof(more) <= size) {
				memcpy(out + cut, more, sizeof(more) - 1);
				used += sizeof(more) - 1;
			}
			break;
		}
		memcpy(out + used, piece, n);
		used += n;
		at += eaten;
		len -= eaten;
	}
	out[used] = '\0';
}

void str_escape(char *out, size_t size, const void *s, size_t len)
{
	escape(out, size, s, len, named_quoted);
}

void str_disarm(char *out, size_t size, const void *s, size_t len)
{
	escape(out, size, s, len, named_plain);
}

void str_format_bytes(char *out, size_t size, uint64_t bytes)
{
	static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
	if (bytes == UINT64_MAX) {
		(void)snprintf(out, size, "max");
		return;
	}
	size_t unit = 0;
	double value = (double)bytes;
	/* 1023.95 would print as "1024.0" of the smaller unit */
	while (value >= (unit ? 1023.95 : 1024) && unit + 1 < ARRAY_LEN(units)) {
		value /= 1024;
		unit++;
	}
	uint64_t tenths = (uint64_t)(value * 10 + 0.5);
	if (tenths % 10 == 0)
		(void)snprintf(out, size, "%llu %s", (unsigned long long)(tenths / 10),
		               units[unit]);
	else
		(void)snprintf(out, size, "%llu.%llu %s", (unsigned long long)(tenths / 10),
		               (unsigned long long)(tenths % 10), units[unit]);
}

void str_format_ms(char *out, size_t size, uint64_t ms)
{
	unsigned long long s = ms / 1000;
	if (ms < 1000)
		(void)snprintf(out, size, "%llums", (unsigned long long)ms);
	else if (s < 10 && ms % 1000 >= 100)
		(void)snprintf(out, size, "%llu.%llus", s, (unsigned long long)(ms % 1000 / 100));
	else if (s < 60)
		(void)snprintf(out, size, "%llus", s);
	else if (s < 3600)
		(void)snprintf(out, size, "%llum %llus", s / 60, s % 60);
	else if (s < 86400)
		(void)snprintf(out, size, "%lluh %llum", s / 3600, s / 60 % 60);
	else
		(void)snprintf(out, size, "%llud %lluh", s / 86400, s / 3600 % 24);
}

bool str_is_name(const char *s)
{
	size_t len = strlen(s);
	if (len == 0 || len > 63 || strchr("._-", s[0]))
		return false;
	return strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789._-") == len;
}

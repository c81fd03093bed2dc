#include "base/toml_scan.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>

#include "base/mem.h"
#include "base/must.h"
#include "base/str.h"

enum { PLAIN_MAX = 128 };

int toml_scan_fail(struct toml_scan *scan, const char *fmt, ...)
{
	char what[160];
	va_list va;
	va_start(va, fmt);
	(void)vsnprintf(what, sizeof(what), fmt, va);
	va_end(va);
	return err_set(scan->err, ERR_CONFIG, "%s:%d: %s", scan->name, scan->line, what);
}

int toml_scan_peek(const struct toml_scan *scan, size_t ahead)
{
	return (size_t)(scan->end - scan->at) > ahead ? (uint8_t)scan->at[ahead] : -1;
}

bool toml_scan_take(struct toml_scan *scan, const char *text)
{
	size_t len = strlen(text);
	if ((size_t)(scan->end - scan->at) < len || memcmp(scan->at, text, len) != 0)
		return false;
	scan->at += len;
	return true;
}

void toml_scan_blanks(struct toml_scan *scan)
{
	while (toml_scan_peek(scan, 0) == ' ' || toml_scan_peek(scan, 0) == '\t')
		scan->at++;
}

static bool take_newline(struct toml_scan *scan)
{
	if (!toml_scan_take(scan, "\n") && !toml_scan_take(scan, "\r\n"))
		return false;
	scan->line++;
	return true;
}

static bool is_control(int c)
{
	return (c >= 0 && c < 0x20 && c != '\t') || c == 0x7f;
}

static int skip_comment(struct toml_scan *scan)
{
	if (!toml_scan_take(scan, "#"))
		return 0;
	while (scan->at < scan->end && *scan->at != '\n') {
		if (toml_scan_peek(scan, 0) == '\r' && toml_scan_peek(scan, 1) == '\n')
			break;
		if (is_control(toml_scan_peek(scan, 0)))
			return toml_scan_fail(scan, "control character in a comment");
		scan->at++;
	}
	return 0;
}

int toml_scan_line_end(struct toml_scan *scan)
{
	toml_scan_blanks(scan);
	if (skip_comment(scan) < 0)
		return -1;
	if (scan->at == scan->end || take_newline(scan))
		return 0;
	return toml_scan_fail(scan, "unexpected text before the end of the line");
}

int toml_scan_lines(struct toml_scan *scan)
{
	do {
		toml_scan_blanks(scan);
		if (skip_comment(scan) < 0)
			return -1;
	} while (take_newline(scan));
	return 0;
}

/* --- strings --- */

static void append(struct buf *out, const void *bytes, size_t len)
{
	int r = buf_put(out, bytes, len);
	must(r == 0); /* a value is never longer than its text */
}

static void append_code(struct buf *out, uint32_t code)
{
	uint8_t bytes[4];
	size_t len = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
	static const uint8_t first[] = {0, 0, 0xc0, 0xe0, 0xf0};
	for (size_t i = len; i-- > 1; code >>= 6)
		bytes[i] = (uint8_t)(0x80 | (code & 0x3f));
	bytes[0] = (uint8_t)(first[len] | code);
	append(out, bytes, len);
}

static int hex_value(int c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static int unicode_escape(struct toml_scan *scan, int digits, struct buf *out)
{
	uint32_t code = 0;
	for (int i = 0; i < digits; i++) {
		int value = hex_value(toml_scan_peek(scan, 0));
		if (value < 0)
			return toml_scan_fail(scan, "a \\%c escape needs %d hex digits",
			                      digits == 4 ? 'u' : 'U', digits);
		code = code << 4 | (uint32_t)value;
		scan->at++;
	}
	if (code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
		return toml_scan_fail(scan, "escape is not a Unicode character");
	append_code(out, code);
	return 0;
}

/* Behind the backslash. */
static int escape(struct toml_scan *scan, struct buf *out)
{
	static const char from[] = "btnfr\"\\";
	static const char to[] = "\b\t\n\f\r\"\\";
	int c = toml_scan_peek(scan, 0);
	if (toml_scan_take(scan, "u"))
		return unicode_escape(scan, 4, out);
	if (toml_scan_take(scan, "U"))
		return unicode_escape(scan, 8, out);
	const char *known = c > 0 ? strchr(from, c) : NULL;
	if (!known)
		return toml_scan_fail(scan, "unknown escape in a string");
	append(out, &to[known - from], 1);
	scan->at++;
	return 0;
}

/* A backslash that ends its line takes the following blanks and line ends with it. */
static bool take_folded_line(struct toml_scan *scan)
{
	struct toml_scan ahead = *scan;
	toml_scan_blanks(&ahead);
	if (!take_newline(&ahead))
		return false;
	do
		toml_scan_blanks(&ahead);
	while (take_newline(&ahead));
	*scan = ahead;
	return true;
}

static int one_line(struct toml_scan *scan, char quote, struct buf *out)
{
	for (;;) {
		int c = toml_scan_peek(scan, 0);
		if (c < 0 || c == '\n' || c == '\r')
			return toml_scan_fail(scan, "string has no closing quote");
		if (is_control(c))
			return toml_scan_fail(scan, "control character in a string");
		scan->at++;
		if (c == quote)
			return 0;
		if (c == '\\' && quote == '"') {
			if (escape(scan, out) < 0)
				return -1;
		} else {
			append(out, scan->at - 1, 1);
		}
	}
}

/* At a quote within a multi-line string. 1: it was the end; up to two quotes may precede it. */
static int closing_quotes(struct toml_scan *scan, char quote, struct buf *out)
{
	size_t count = 0;
	while (count < 6 && toml_scan_peek(scan, count) == quote)
		count++;
	if (count > 5)
		return toml_scan_fail(scan, "too many quotes at the end of a string");
	append(out, scan->at, count >= 3 ? count - 3 : count);
	scan->at += count;
	return count >= 3;
}

static int many_lines(struct toml_scan *scan, char quote, struct buf *out)
{
	int first_line = scan->line;
	(void)take_newline(scan); /* one right behind the quotes is not part of the value */
	for (;;) {
		int c = toml_scan_peek(scan, 0);
		const char *before = scan->at;
		int r = 0;
		if (c < 0) {
			scan->line = first_line;
			return toml_scan_fail(scan, "string has no closing quotes");
		}
		if (c == quote) {
			r = closing_quotes(scan, quote, out);
			if (r != 0)
				return r < 0 ? r : 0;
		} else if (take_newline(scan)) {
			append(out, before, (size_t)(scan->at - before));
		} else if (is_control(c)) {
			return toml_scan_fail(scan, "control character in a string");
		} else if (c == '\\' && quote == '"') {
			scan->at++;
			if (!take_folded_line(scan) && escape(scan, out) < 0)
				return -1;
		} else {
			append(out, scan->at++, 1);
		}
	}
}

int toml_scan_string(struct toml_scan *scan, bool multiline_allowed, struct buf *out)
{
	char quote = (char)toml_scan_peek(scan, 0);
	const char triple[] = {quote, quote, quote, '\0'};
	must(quote == '"' || quote == '\'');
	if (toml_scan_take(scan, triple)) {
		if (!multiline_allowed)
			return toml_scan_fail(scan, "a key cannot be a multi-line string");
		return many_lines(scan, quote, out);
	}
	scan->at++;
	return one_line(scan, quote, out);
}

/* --- numbers and dates --- */

/* Decimal digits with single underscores between them, copied without; how many bytes of text
 * that was, 0 if they are malformed or missing. */
static size_t take_digits(const char *text, int base, char *out)
{
	size_t used = strlen(out);
	size_t i = 0;
	for (;; i++) {
		int value = hex_value((uint8_t)text[i]);
		if (value >= 0 && value < base) {
			out[used++] = text[i];
			continue;
		}
		int before = i > 0 ? hex_value((uint8_t)text[i - 1]) : -1;
		int after = text[i] ? hex_value((uint8_t)text[i + 1]) : -1;
		if (text[i] != '_' || before < 0 || before >= base || after < 0 || after >= base)
			break;
	}
	out[used] = '\0';
	return i;
}

static bool to_integer(const char *digits, int base, struct toml *node)
{
	char *end = NULL;
	errno = 0;
	long long value = strtoll(digits, &end, base);
	if (errno != 0 || *end || end == digits)
		return false;
	node->kind = TOML_INT;
	node->num = value;
	return true;
}

static bool is_prefixed_integer(const char *text, struct toml *node)
{
	static const struct {
		const char *prefix;
		int base;
	} bases[] = {{"0x", 16}, {"0o", 8}, {"0b", 2}};
	char digits[PLAIN_MAX + 1] = "";
	for (size_t i = 0; i < ARRAY_LEN(bases); i++) {
		if (str_has_prefix(text, bases[i].prefix)) {
			size_t n = take_digits(text + 2, bases[i].base, digits);
			return n > 0 && text[2 + n] == '\0' &&
			       to_integer(digits, bases[i].base, node);
		}
	}
	return false;
}

static bool is_special_float(const char *text, struct toml *node)
{
	const char *body = text + (*text == '+' || *text == '-');
	double value = 0;
	if (str_eq(body, "inf"))
		value = INFINITY;
	else if (str_eq(body, "nan"))
		value = NAN;
	else
		return false;
	node->kind = TOML_FLOAT;
	node->real = *text == '-' ? -value : value;
	return true;
}

static bool is_number(const char *text, struct toml *node)
{
	char digits[PLAIN_MAX + 8] = "";
	const char *s = text;
	if (*s == '+' || *s == '-')
		digits[0] = *s++;
	if (s[0] == '0' && s[1] != '\0' && !strchr(".eE", s[1]))
		return false;
	size_t n = take_digits(s, 10, digits);
	s += n;
	if (n == 0)
		return false;
	if (*s == '\0')
		return to_integer(digits, 10, node);
	static const char *const marks[] = {".", "eE"};
	for (size_t i = 0; i < ARRAY_LEN(marks); i++) {
		if (*s == '\0' || !strchr(marks[i], *s))
			continue;
		size_t used = strlen(digits);
		digits[used++] = *s++;
		if (i == 1 && (*s == '+' || *s == '-'))
			digits[used++] = *s++;
		digits[used] = '\0';
		n = take_digits(s, 10, digits);
		s += n;
		if (n == 0)
			return false;
	}
	node->kind = TOML_FLOAT;
	node->real = strtod(digits, NULL);
	return *s == '\0';
}

/* Exactly `count` digits at *s as a number within bounds; moves *s behind them. */
static bool date_part(const char **s, int count, int least, int most, int *ret)
{
	int value = 0;
	for (int i = 0; i < count; i++, (*s)++) {
		if (**s < '0' || **s > '9')
			return false;
		value = value * 10 + (**s - '0');
	}
	*ret = value;
	return value >= least && value <= most;
}

static bool date_mark(const char **s, const char *marks)
{
	return **s && strchr(marks, **s) && (*s)++;
}

static bool is_date(const char **s)
{
	static const int days[] = {31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
	int year = 0;
	int month = 0;
	int day = 0;
	if (!date_part(s, 4, 0, 9999, &year) || !date_mark(s, "-") ||
	    !date_part(s, 2, 1, 12, &month) || !date_mark(s, "-") ||
	    !date_part(s, 2, 1, days[month - 1], &day))
		return false;
	bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
	return month != 2 || day < 29 || leap;
}

static bool is_time(const char **s)
{
	int value = 0;
	if (!date_part(s, 2, 0, 23, &value) || !date_mark(s, ":") ||
	    !date_part(s, 2, 0, 59, &value) || !date_mark(s, ":") ||
	    !date_part(s, 2, 0, 60, &value))
		return false;
	if (!date_mark(s, "."))
		return true;
	size_t digits = strspn(*s, "0123456789");
	*s += digits;
	return digits > 0;
}

static bool is_datetime(const char *text)
{
	const char *s = text;
	int value = 0;
	if (text[0] && text[1] && text[2] == ':')
		return is_time(&s) && *s == '\0';
	if (!is_date(&s))
		return false;
	if (*s == '\0')
		return true;
	if (!date_mark(&s, "Tt ") || !is_time(&s))
		return false;
	if (*s == '\0' || (date_mark(&s, "Zz") && *s == '\0'))
		return true;
	return date_mark(&s, "+-") && date_part(&s, 2, 0, 23, &value) && date_mark(&s, ":") &&
	       date_part(&s, 2, 0, 59, &value) && *s == '\0';
}

/* The word at the cursor; with one blank inside where a date is followed by a time. */
static size_t plain_length(const struct toml_scan *scan)
{
	size_t n = 0;
	for (;; n++) {
		int c = toml_scan_peek(scan, n);
		bool word = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
		            (c >= 'A' && c <= 'Z') || (c > 0 && strchr("+-_.:", c));
		bool date_gap = c == ' ' && n == 10 && scan->at[4] == '-' &&
		                toml_scan_peek(scan, 11) >= '0' && toml_scan_peek(scan, 11) <= '9';
		if (!word && !date_gap)
			return n;
	}
}

int toml_scan_plain(struct toml_scan *scan, struct toml *node)
{
	char text[PLAIN_MAX + 1];
	size_t len = plain_length(scan);
	if (len == 0)
		return toml_scan_fail(scan, "a value is missing");
	if (len > PLAIN_MAX)
		return toml_scan_fail(scan, "value is too long to be a number");
	memcpy(text, scan->at, len);
	text[len] = '\0';
	if (str_eq(text, "true") || str_eq(text, "false")) {
		node->kind = TOML_BOOL;
		node->num = text[0] == 't';
	} else if (is_datetime(text)) {
		node->kind = TOML_DATETIME;
		node->str = mem_strdup(text);
		node->str_len = len;
	} else if (!is_prefixed_integer(text, node) && !is_special_float(text, node) &&
	           !is_number(text, node)) {
		return toml_scan_fail(scan, "'%.40s' is not a value (strings need quotes)", text);
	}
	scan->at += len;
	return 0;
}

#include <errno.h>

#include "base/mem.h"
#include "base/str.h"
#include "model/pattern_impl.h"

struct category_range {
	uint32_t first, last;
	char name[3];
};

static const struct category_range category_ranges[] = {
#define GC(first, last, name) {first, last, #name},
#include "model/pattern_categories.def"
#undef GC
};

static const struct {
	const char *name, *category; /* a category of one letter is all that begin with it */
} long_names[] = {
	{"Other", "C"},
	{"Control", "Cc"},
	{"cntrl", "Cc"},
	{"Format", "Cf"},
	{"Private_Use", "Co"},
	{"Letter", "L"},
	{"Lowercase_Letter", "Ll"},
	{"Modifier_Letter", "Lm"},
	{"Other_Letter", "Lo"},
	{"Titlecase_Letter", "Lt"},
	{"Uppercase_Letter", "Lu"},
	{"Mark", "M"},
	{"Combining_Mark", "M"},
	{"Spacing_Mark", "Mc"},
	{"Enclosing_Mark", "Me"},
	{"Nonspacing_Mark", "Mn"},
	{"Number", "N"},
	{"Decimal_Number", "Nd"},
	{"digit", "Nd"},
	{"Letter_Number", "Nl"},
	{"Other_Number", "No"},
	{"Punctuation", "P"},
	{"punct", "P"},
	{"Connector_Punctuation", "Pc"},
	{"Dash_Punctuation", "Pd"},
	{"Close_Punctuation", "Pe"},
	{"Final_Punctuation", "Pf"},
	{"Initial_Punctuation", "Pi"},
	{"Other_Punctuation", "Po"},
	{"Open_Punctuation", "Ps"},
	{"Symbol", "S"},
	{"Currency_Symbol", "Sc"},
	{"Modifier_Symbol", "Sk"},
	{"Math_Symbol", "Sm"},
	{"Other_Symbol", "So"},
	{"Separator", "Z"},
	{"Line_Separator", "Zl"},
	{"Paragraph_Separator", "Zp"},
	{"Space_Separator", "Zs"},
};

void pattern_set_add(struct pattern_set *set, uint32_t first, uint32_t last)
{
	if (set->count == set->size) {
		set->size = set->size ? set->size * 2 : 4;
		set->ranges = mem_resize(set->ranges, set->size, sizeof(set->ranges[0]));
	}
	set->ranges[set->count++] = (struct pattern_range){first, last};
}

static int compare_ranges(const void *a, const void *b)
{
	const struct pattern_range *x = a, *y = b;

	return (x->first > y->first) - (x->first < y->first);
}

static void negate(struct pattern_set *set)
{
	struct pattern_set other = {0};
	uint32_t next = 0;

	for (size_t i = 0; i < set->count; i++) {
		if (set->ranges[i].first > next)
			pattern_set_add(&other, next, set->ranges[i].first - 1);
		next = set->ranges[i].last + 1;
	}
	if (next < PATTERN_CODE_POINTS)
		pattern_set_add(&other, next, PATTERN_CODE_POINTS - 1);
	free(set->ranges);
	*set = other;
}

void pattern_set_finish(struct pattern_set *set, bool is_negated)
{
	size_t kept = 0;

	if (set->count > 1)
		qsort(set->ranges, set->count, sizeof(set->ranges[0]), compare_ranges);
	for (size_t i = 0; i < set->count; i++) {
		struct pattern_range range = set->ranges[i];

		if (kept > 0 && range.first <= set->ranges[kept - 1].last + 1)
			set->ranges[kept - 1].last = MAX(set->ranges[kept - 1].last, range.last);
		else
			set->ranges[kept++] = range;
	}
	set->count = kept;
	if (is_negated)
		negate(set);
}

bool pattern_set_has(const struct pattern_set *set, uint32_t c)
{
	size_t low = 0, high = set->count;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (c < set->ranges[middle].first)
			high = middle;
		else if (c > set->ranges[middle].last)
			low = middle + 1;
		else
			return true;
	}
	return false;
}

static void add_all(struct pattern_set *set, struct pattern_set *other, bool is_negated)
{
	pattern_set_finish(other, is_negated);
	for (size_t i = 0; i < other->count; i++)
		pattern_set_add(set, other->ranges[i].first, other->ranges[i].last);
	free(other->ranges);
}

void pattern_set_add_class(struct pattern_set *set, char name)
{
	static const struct pattern_range digits[] = {{'0', '9'}};
	static const struct pattern_range words[] = {
		{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
	/* ECMA-262: WhiteSpace and LineTerminator */
	static const struct pattern_range spaces[] = {
		{0x9, 0xd},       {0x20, 0x20},     {0xa0, 0xa0},     {0x1680, 0x1680},
		{0x2000, 0x200a}, {0x2028, 0x2029}, {0x202f, 0x202f}, {0x205f, 0x205f},
		{0x3000, 0x3000}, {0xfeff, 0xfeff}};
	struct pattern_set other = {0};
	const struct pattern_range *ranges = digits;
	size_t count = ARRAY_LEN(digits);
	char kind = (char)(name | 32);

	if (kind == 'w') {
		ranges = words;
		count = ARRAY_LEN(words);
	} else if (kind == 's') {
		ranges = spaces;
		count = ARRAY_LEN(spaces);
	}
	for (size_t i = 0; i < count; i++)
		pattern_set_add(&other, ranges[i].first, ranges[i].last);
	add_all(set, &other, name != kind);
}

static size_t add_category(struct pattern_set *set, const char *name)
{
	size_t len = strlen(name);
	size_t found = 0;

	for (size_t i = 0; i < ARRAY_LEN(category_ranges); i++) {
		if (strncmp(category_ranges[i].name, name, len) == 0) {
			pattern_set_add(set, category_ranges[i].first, category_ranges[i].last);
			found++;
		}
	}
	return found;
}

static int add_unassigned(struct pattern_set *set)
{
	struct pattern_set assigned = {0};

	add_category(&assigned, "");
	add_all(set, &assigned, true);
	return 0;
}

static int add_named(struct pattern_set *set, const char *name)
{
	if (str_eq(name, "Any") || str_eq(name, "ASCII")) {
		pattern_set_add(set, 0, name[1] == 'n' ? PATTERN_CODE_POINTS - 1 : 0x7f);
		return 0;
	}
	for (size_t i = 0; i < ARRAY_LEN(long_names); i++) {
		if (str_eq(name, long_names[i].name))
			name = long_names[i].category;
	}
	if (str_eq(name, "Cn") || str_eq(name, "Unassigned"))
		return add_unassigned(set);
	if (name[0] == '\0' || strlen(name) > 2 || add_category(set, name) == 0)
		return -ENOENT;
	return str_eq(name, "C") ? add_unassigned(set) : 0;
}

int pattern_set_add_property(struct pattern_set *set, const char *name, size_t len, bool is_negated)
{
	auto_free char *copy = mem_strndup(name, len);
	struct pattern_set other = {0};
	const char *start = copy;

	if (str_has_prefix(copy, "gc="))
		start += strlen("gc=");
	else if (str_has_prefix(copy, "General_Category="))
		start += strlen("General_Category=");
	if (add_named(&other, start) < 0) {
		free(other.ranges);
		return -ENOENT;
	}
	add_all(set, &other, is_negated);
	return 0;
}

#include "model/limits.h"

#include <errno.h>

#include "base/str.h"

#define LIMIT(field, name, json, kind, otherwise, least, most, about)                              \
	{name,                                                                                     \
	 json,                                                                                     \
	 LIMIT_KIND_##kind,                                                                        \
	 otherwise,                                                                                \
	 least,                                                                                    \
	 most,                                                                                     \
	 about,                                                                                    \
	 offsetof(struct limits, field)},
const struct limit limits_table[] = {
#include "model/limits.def"
	{0},
};
#undef LIMIT

static uint64_t *slot(struct limits *limits, const struct limit *limit)
{
	return (uint64_t *)((char *)limits + limit->offset);
}

void limits_init(struct limits *limits)
{
	for (const struct limit *limit = limits_table; limit->name != NULL; limit++)
		*slot(limits, limit) = limit->otherwise;
}

const struct limit *limits_find(const char *name)
{
	for (const struct limit *limit = limits_table; limit->name != NULL; limit++) {
		if (str_eq(limit->name, name))
			return limit;
	}
	return NULL;
}

const struct limit *limits_find_json(const char *json)
{
	for (const struct limit *limit = limits_table; limit->name != NULL; limit++) {
		if (str_eq(limit->json, json))
			return limit;
	}
	return NULL;
}

uint64_t limits_get(const struct limits *limits, const struct limit *limit)
{
	return *(const uint64_t *)((const char *)limits + limit->offset);
}

static void format_bytes(uint64_t value, char *out, size_t size)
{
	static const char units[] = "\0KMGT";
	size_t unit = 0;

	while (unit + 1 < sizeof(units) - 1 && value != 0 && value % 1024 == 0) {
		value /= 1024;
		unit++;
	}
	snprintf(out, size, "%llu%.1s", (unsigned long long)value, &units[unit]);
}

static void format_milli(uint64_t value, char *out, size_t size)
{
	int len = snprintf(out, size, "%llu.%03u", (unsigned long long)(value / 1000),
	                   (unsigned)(value % 1000));

	while (out[len - 1] == '0')
		out[--len] = '\0';
	if (out[len - 1] == '.')
		out[--len] = '\0';
}

void limits_format(const struct limit *limit, uint64_t value, char *out, size_t size)
{
	switch (limit->kind) {
	case LIMIT_KIND_COUNT:
		snprintf(out, size, "%llu", (unsigned long long)value);
		break;
	case LIMIT_KIND_MILLI:
		format_milli(value, out, size);
		break;
	case LIMIT_KIND_RATE: {
		char bytes[28];

		format_bytes(value, bytes, sizeof(bytes));
		snprintf(out, size, "%s/s", bytes);
		break;
	}
	case LIMIT_KIND_BYTES:
		format_bytes(value, out, size);
		break;
	}
}

/* `shown` is the value as its writer wrote it. */
static int set_shown(struct limits *limits, const struct limit *limit, uint64_t value,
                     const char *shown, struct err *err)
{
	char bound[32];

	if (value < limit->least) {
		limits_format(limit, limit->least, bound, sizeof(bound));
		return err_set(err, ERR_INVALID, "%s %s is below the least of %s", limit->name,
		               shown, bound);
	}
	if (value > limit->most) {
		limits_format(limit, limit->most, bound, sizeof(bound));
		return err_set(err, ERR_INVALID, "%s %s is above the most of %s", limit->name,
		               shown, bound);
	}
	*slot(limits, limit) = value;
	return 0;
}

int limits_set(struct limits *limits, const struct limit *limit, uint64_t value, struct err *err)
{
	char shown[32];

	limits_format(limit, value, shown, sizeof(shown));
	return set_shown(limits, limit, value, shown, err);
}

static int refuse_form(const struct limit *limit, const char *shown, struct err *err)
{
	static const char *const forms[] = {
		[LIMIT_KIND_BYTES] = "a size such as 64M",
		[LIMIT_KIND_COUNT] = "a whole number",
		[LIMIT_KIND_MILLI] = "a number of cores such as 1.5",
		[LIMIT_KIND_RATE] = "a size per second such as 64M/s",
	};

	return err_set(err, ERR_INVALID, "%s '%s' is not %s", limit->name, shown,
	               forms[limit->kind]);
}

int limits_set_number(struct limits *limits, const struct limit *limit, double value,
                      struct err *err)
{
	/* Past 2^53 a double no longer says which integer was meant. */
	const double exact = 9007199254740992.0;
	double scaled = limit->kind == LIMIT_KIND_MILLI ? value * 1000 + 0.5 : value;
	char shown[32];

	snprintf(shown, sizeof(shown), "%.15g", value);
	if (scaled < 0)
		return set_shown(limits, limit, 0, shown, err);
	if (!(scaled <= exact)) /* also not a number */
		return refuse_form(limit, shown, err);
	if (limit->kind != LIMIT_KIND_MILLI && (double)(uint64_t)scaled != scaled)
		return refuse_form(limit, shown, err);
	return set_shown(limits, limit, (uint64_t)scaled, shown, err);
}

/* "1", "1.5", ".25" down to thousandths. */
static int parse_milli(const char *text, uint64_t *ret)
{
	const char *dot = strchr(text, '.');
	char whole[24];
	uint64_t cores = 0, milli = 0, unit = 100;
	size_t len = dot != NULL ? (size_t)(dot - text) : strlen(text);

	if (len >= sizeof(whole) || (len == 0 && dot == NULL))
		return -EINVAL;
	memcpy(whole, text, len);
	whole[len] = '\0';
	if (len > 0 && (str_to_u64(whole, &cores) < 0 || cores > UINT64_MAX / 2000))
		return -EINVAL;
	if (dot != NULL && dot[1] == '\0')
		return -EINVAL;
	for (const char *c = dot != NULL ? dot + 1 : ""; *c != '\0'; c++, unit /= 10) {
		if (*c < '0' || *c > '9' || (unit == 0 && *c != '0'))
			return -EINVAL;
		milli += (uint64_t)(*c - '0') * unit;
	}
	*ret = cores * 1000 + milli;
	return 0;
}

static int parse_text(enum limit_kind kind, const char *text, uint64_t *ret)
{
	char bytes[32];

	switch (kind) {
	case LIMIT_KIND_COUNT:
		return str_to_u64(text, ret);
	case LIMIT_KIND_MILLI:
		return parse_milli(text, ret);
	case LIMIT_KIND_RATE:
		if (!str_copy(bytes, sizeof(bytes), text))
			return -EINVAL;
		if (str_has_suffix(bytes, "/s"))
			bytes[strlen(bytes) - 2] = '\0';
		return str_to_bytes(bytes, ret);
	case LIMIT_KIND_BYTES:
		break;
	}
	return str_to_bytes(text, ret);
}

int limits_set_text(struct limits *limits, const struct limit *limit, const char *text,
                    struct err *err)
{
	char shown[48];
	uint64_t value;

	str_escape(shown, sizeof(shown), text, strlen(text));
	if (parse_text(limit->kind, text, &value) < 0)
		return refuse_form(limit, shown, err);
	return set_shown(limits, limit, value, shown, err);
}

int limits_check(const struct limits *limits, struct err *err)
{
	struct limits copy = *limits;

	for (const struct limit *limit = limits_table; limit->name != NULL; limit++) {
		if (limits_set(&copy, limit, limits_get(limits, limit), err) < 0)
			return -1;
	}
	return 0;
}

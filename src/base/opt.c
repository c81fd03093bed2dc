#include "base/opt.h"

#include <errno.h>

#include "base/mem.h"
#include "base/str.h"

enum { NEAREST_MAX = 64 };

static const struct opt *find_name(const struct opt *opts, const char *name, size_t len)
{
	for (const struct opt *opt = opts; opt->name; opt++) {
		if (strlen(opt->name) == len && strncmp(opt->name, name, len) == 0)
			return opt;
	}
	return NULL;
}

static const struct opt *find_letter(const struct opt *opts, const char *arg)
{
	if (arg[1] == '\0' || arg[2] != '\0')
		return NULL;
	for (const struct opt *opt = opts; opt->name; opt++) {
		if (opt->letter == arg[1])
			return opt;
	}
	return NULL;
}

/* "-it": every letter is a flag. */
static bool is_bundle(const struct opt *opts, const char *arg)
{
	if (arg[1] == '-' || arg[1] == '\0' || arg[2] == '\0')
		return false;
	for (arg++; *arg; arg++) {
		const char one[] = {'-', *arg, '\0'};
		const struct opt *opt = find_letter(opts, one);
		if (!opt || opt->kind != OPT_FLAG)
			return false;
	}
	return true;
}

static void set_bundle(const struct opt *opts, const char *arg)
{
	for (arg++; *arg; arg++) {
		const char one[] = {'-', *arg, '\0'};
		*(bool *)find_letter(opts, one)->value = true;
	}
}

static size_t distance(const char *a, const char *b)
{
	size_t rows[3][NEAREST_MAX + 1] = {0};
	size_t a_len = strlen(a);
	size_t b_len = strlen(b);
	if (a_len > NEAREST_MAX || b_len > NEAREST_MAX)
		return SIZE_MAX;
	for (size_t j = 0; j <= b_len; j++)
		rows[0][j] = j;
	for (size_t i = 1; i <= a_len; i++) {
		size_t *now = rows[i % 3];
		const size_t *before = rows[(i + 2) % 3];
		now[0] = i;
		for (size_t j = 1; j <= b_len; j++) {
			size_t change = before[j - 1] + (a[i - 1] != b[j - 1]);
			size_t gap = MIN(before[j], now[j - 1]) + 1;
			now[j] = MIN(change, gap);
			/* two letters in the wrong order are one mistake */
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				now[j] = MIN(now[j], rows[(i + 1) % 3][j - 2] + 1);
		}
	}
	return rows[a_len % 3][b_len];
}

const char *opt_nearest(const char *word, const char *const *candidates)
{
	const char *best = NULL;
	size_t least = MAX(strlen(word) / 3, (size_t)1) + 1;
	for (; *candidates; candidates++) {
		size_t d = distance(word, *candidates);
		if (d < least) {
			least = d;
			best = *candidates;
		}
	}
	return best;
}

static int unknown(const struct opt *opts, const char *arg, struct err *err)
{
	char shown[80];
	char word[NEAREST_MAX];
	size_t len = strcspn(arg, "=");
	str_escape(shown, sizeof(shown), arg, len);
	const struct opt *best = NULL;
	if (arg[1] == '-' && len - 2 < sizeof(word)) {
		memcpy(word, arg + 2, len - 2);
		word[len - 2] = '\0';
		size_t least = MAX((len - 2) / 3, (size_t)1) + 1;
		for (const struct opt *opt = opts; opt->name; opt++) {
			size_t d = distance(word, opt->name);
			if (d < least) {
				least = d;
				best = opt;
			}
		}
	}
	if (best)
		return err_set(err, ERR_INVALID, "unknown option '%s' (did you mean '--%s'?)",
		               shown, best->name);
	return err_set(err, ERR_INVALID, "unknown option '%s'", shown);
}

static int bad_value(const struct opt *opt, const char *value, const char *wanted, struct err *err)
{
	char shown[80];
	str_escape(shown, sizeof(shown), value, strlen(value));
	return err_set(err, ERR_INVALID, "option '--%s': '%s' is not %s", opt->name, shown, wanted);
}

static int store_value(const struct opt *opt, const char *value, struct err *err)
{
	struct opt_list *list = opt->value;
	switch (opt->kind) {
	case OPT_FLAG:
		*(bool *)opt->value = true;
		return 0;
	case OPT_STR:
		*(const char **)opt->value = value;
		return 0;
	case OPT_U64:
		return str_to_u64(value, opt->value) < 0
		               ? bad_value(opt, value, "a whole number", err)
		               : 0;
	case OPT_BYTES:
		return str_to_bytes(value, opt->value) < 0
		               ? bad_value(opt, value, "a size like 64M or 1.5G", err)
		               : 0;
	case OPT_MS:
		/* Seconds or milliseconds? Who has to guess is told to say it. */
		return value[strspn(value, "0123456789.")] == '\0' ||
		                       str_to_ms(value, opt->value) < 0
		               ? bad_value(opt, value, "a time like 500ms, 30s or 2h", err)
		               : 0;
	case OPT_LIST:
		list->items = mem_resize(list->items, list->count + 1, sizeof(*list->items));
		list->items[list->count++] = value;
		return 0;
	}
	return err_set(err, ERR_INTERNAL, "option '--%s' has no kind", opt->name);
}

/* One option at argv[at]; returns how many words it took. */
static int parse_one(const struct opt *opts, int argc, char **argv, int at, struct err *err)
{
	const char *arg = argv[at];
	const char *equals = NULL;
	const struct opt *opt = NULL;
	if (arg[1] == '-') {
		equals = strchr(arg, '=');
		size_t len = equals ? (size_t)(equals - arg) : strlen(arg);
		opt = find_name(opts, arg + 2, len - 2);
	} else {
		opt = find_letter(opts, arg);
	}
	if (!opt && is_bundle(opts, arg)) {
		set_bundle(opts, arg);
		return 1;
	}
	if (!opt)
		return unknown(opts, arg, err);
	if (opt->kind == OPT_FLAG) {
		if (equals)
			return err_set(err, ERR_INVALID, "option '--%s' takes no value", opt->name);
		return store_value(opt, NULL, err) < 0 ? -1 : 1;
	}
	if (equals)
		return store_value(opt, equals + 1, err) < 0 ? -1 : 1;
	if (at + 1 >= argc)
		return err_set(err, ERR_INVALID, "option '--%s' needs %s", opt->name,
		               opt->arg ? opt->arg : "a value");
	return store_value(opt, argv[at + 1], err) < 0 ? -1 : 2;
}

int opt_parse(const struct opt *opts, int argc, char **argv, bool stop_at_positional, int *ret_argc,
              struct err *err)
{
	int kept = 0;
	int at = 0;
	while (at < argc) {
		const char *arg = argv[at];
		if (str_eq(arg, "--")) {
			at++;
			break;
		}
		if (arg[0] == '-' && arg[1] != '\0') {
			int taken = parse_one(opts, argc, argv, at, err);
			if (taken < 0)
				return -1;
			at += taken;
			continue;
		}
		if (stop_at_positional)
			break;
		argv[kept++] = argv[at++];
	}
	while (at < argc)
		argv[kept++] = argv[at++];
	*ret_argc = kept;
	return 0;
}

void opt_print(const struct opt *opts, FILE *to)
{
	int widest = 0;
	for (const struct opt *opt = opts; opt->name; opt++) {
		size_t width = strlen(opt->name) + (opt->arg ? strlen(opt->arg) + 1 : 0);
		widest = MAX(widest, (int)MIN(width, (size_t)40));
	}
	for (const struct opt *opt = opts; opt->name; opt++) {
		char letter[8] = "    ";
		if (opt->letter)
			(void)snprintf(letter, sizeof(letter), "-%c, ", opt->letter);
		int used = fprintf(to, "  %s--%s%s%s", letter, opt->name, opt->arg ? " " : "",
		                   opt->arg ? opt->arg : "");
		(void)fprintf(to, "%*s  %s\n", MAX(widest + 8 - used, 0), "",
		              opt->help ? opt->help : "");
	}
}

void opt_list_done(struct opt_list *list)
{
	free(list->items);
	*list = (struct opt_list){0};
}

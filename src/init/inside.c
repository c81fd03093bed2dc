#include "init/inside.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/opt.h"
#include "base/str.h"
#include "init/inside_verbs.h"

struct verb_row {
	const char *name;
	inside_verb run;
	int least, most;
};

static const struct verb_row verbs[] = {
#define VERB(name, function, least, most) {name, function, least, most},
#include "init/inside_verbs.def"
#undef VERB
};

static const struct {
	int sys;
	enum err_code code;
} codes[] = {
	{ENOENT, ERR_NOT_FOUND},       {EACCES, ERR_FORBIDDEN}, {EPERM, ERR_FORBIDDEN},
	{EROFS, ERR_FORBIDDEN},        {EEXIST, ERR_CONFLICT},  {ENOTEMPTY, ERR_CONFLICT},
	{EBUSY, ERR_CONFLICT},         {ETXTBSY, ERR_CONFLICT}, {EISDIR, ERR_INVALID},
	{ENOTDIR, ERR_INVALID},        {EINVAL, ERR_INVALID},   {ELOOP, ERR_INVALID},
	{EXDEV, ERR_INVALID},          {ENXIO, ERR_INVALID},    {ENAMETOOLONG, ERR_INVALID},
	{ENOSPC, ERR_NO_SPACE},        {EDQUOT, ERR_NO_SPACE},  {EFBIG, ERR_TOO_LARGE},
	{EMFILE, ERR_LIMITED},         {ENFILE, ERR_LIMITED},   {ENOMEM, ERR_LIMITED},
	{EOPNOTSUPP, ERR_UNSUPPORTED},
};

int inside_err(struct err *err, int sys, const char *fmt, ...)
{
	char text[sizeof(err->msg)];
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, args); /* cut is fine: it is a message */
	va_end(args);
	err_sys(err, sys, "%s", text);
	for (size_t i = 0; i < ARRAY_LEN(codes); i++)
		if (codes[i].sys == sys)
			err->code = codes[i].code;
	return -1;
}

int inside_parse_mode(const char *mode, mode_t otherwise, mode_t *ret, struct err *err)
{
	mode_t value = 0;

	if (mode == NULL) {
		*ret = otherwise;
		return 0;
	}
	size_t len = strlen(mode);

	if (len == 0 || len > 4 || strspn(mode, "01234567") != len)
		return err_set(err, ERR_INVALID, "mode '%s' is not octal", mode);
	for (; *mode != '\0'; mode++)
		value = value * 8 + (mode_t)(*mode - '0');
	*ret = value;
	return 0;
}

int inside_make_parents(const char *path, struct err *err)
{
	auto_free char *copy = mem_strdup(path);

	for (char *slash = copy; (slash = strchr(slash + 1, '/')) != NULL;) {
		*slash = '\0';
		if (mkdir(copy, 0755) < 0 && errno != EEXIST && errno != EISDIR)
			return inside_err(err, errno, "make folder %s", copy);
		*slash = '/';
	}
	return 0;
}

int inside_open_parent(const char *path, int *ret_fd, const char **ret_name, struct err *err)
{
	const char *slash = strrchr(path, '/');
	const char *name = slash == NULL ? path : slash + 1;
	auto_free char *parent = slash == NULL   ? mem_strdup(".")
	                         : slash == path ? mem_strdup("/")
	                                         : mem_strndup(path, (size_t)(slash - path));

	if (*name == '\0' || str_eq(name, ".") || str_eq(name, ".."))
		return err_set(err, ERR_INVALID, "'%s' does not name an entry of a folder", path);
	int fd = open(parent, O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0 && errno == EACCES)
		fd = open(parent, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return inside_err(err, errno, "%s", path);
	*ret_fd = fd;
	*ret_name = name;
	return 0;
}

int inside_flush(struct buf *buf, struct err *err)
{
	int r = io_write_all(STDOUT_FILENO, buf_head(buf), buf_len(buf));

	if (r < 0)
		return err_sys(err, -r, "write the answer");
	buf_reset(buf);
	return 0;
}

static int parse(struct inside_args *args, const struct verb_row *verb, int argc, char **argv,
                 struct err *err)
{
	const struct opt opts[] = {
		{"offset", 0, OPT_U64, &args->offset, "N", "first byte"},
		{"length", 0, OPT_U64, &args->length, "N", "most bytes"},
		{"size", 0, OPT_U64, &args->size, "N", "bytes that must come"},
		{"mode", 0, OPT_STR, &args->mode, "OCTAL", "permissions"},
		{"parents", 0, OPT_FLAG, &args->parents, NULL, "make missing folders"},
		{"recursive", 0, OPT_FLAG, &args->recursive, NULL, "everything below too"},
		{0},
	};
	int count = 0;

	if (opt_parse(opts, argc, argv, false, &count, err) < 0)
		return -1;
	if (count < verb->least || count > verb->most)
		return err_set(err, ERR_INVALID, "%s takes %d path%s", verb->name, verb->least,
		               verb->least == 1 ? "" : "s");
	args->path = argv[0];
	args->to = count > 1 ? argv[1] : NULL;
	for (int i = 0; i < count; i++)
		if (*argv[i] == '\0')
			return err_set(err, ERR_INVALID, "a path is empty");
	return 0;
}

static int run(int argc, char **argv, struct err *err)
{
	struct inside_args args = {.offset = UINT64_MAX, .length = UINT64_MAX, .size = UINT64_MAX};

	for (size_t i = 0; argc > 0 && i < ARRAY_LEN(verbs); i++) {
		if (!str_eq(verbs[i].name, argv[0]))
			continue;
		if (parse(&args, &verbs[i], argc - 1, argv + 1, err) < 0)
			return -1;
		return verbs[i].run(&args, err);
	}
	return err_set(err, ERR_INVALID, "unknown verb '%s'", argc > 0 ? argv[0] : "");
}

int inside_main(int argc, char **argv)
{
	struct err err = {0};
	char text[4 * sizeof(err.msg)];

	/* Modes are explicit everywhere; what the parent process had must not change them. */
	umask(0);
	if (run(argc, argv, &err) >= 0)
		return 0;
	str_escape(text, sizeof(text), err.msg, strlen(err.msg));
	dprintf(STDERR_FILENO, "%s\t%s\n", err_name(err.code), text);
	return 1;
}
